//! `bulkhead user` and `bulkhead token`: who may use the API and the console. A running head sees
//! each change at once.

use std::io::IsTerminal;

use api::Accounts;
use control::Failure;
use control::answer::Done;
use control::operations::secret_input;
use pool_access::audit::noted;
use serde_json::json;

use crate::cli::{PasswordArgs, TokenCommand, TokenVerb, UserCommand, UserVerb};
use crate::output;
use crate::table::Table;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Prints, as far as that works.
type Print<'a> = &'a mut dyn FnMut(&str) -> Result<(), Failure>;

fn done(json: bool, message: String, print: Print<'_>) -> Result<(), Failure> {
    print(&output::answer(&Done::changed(message), json))
}

fn password(args: &PasswordArgs) -> Result<zeroize::Zeroizing<String>, Failure> {
    let source = match &args.password_file {
        Some(path) => secret_input::SecretSource::File(path.clone()),
        None if std::io::stdin().is_terminal() => secret_input::SecretSource::Prompt,
        None => secret_input::SecretSource::Stdin,
    };
    secret_input::read_line(&source, "password")
}

/// Performs `bulkhead user`.
pub fn user(command: &UserCommand, json: bool, print: Print<'_>) -> Result<(), Failure> {
    let log = command.place.head_dir.join("audit.log");
    let accounts = Accounts::new(&command.place.head_dir);
    match &command.verb {
        UserVerb::Add {
            name,
            role,
            password: args,
        } => {
            let password = password(args)?;
            noted(&log, "user.add", name, || {
                accounts.add_user(name, *role, &password)
            })?;
            done(json, format!("added user {name} as {role}"), print)
        }
        UserVerb::Remove { name } => {
            noted(&log, "user.remove", name, || accounts.remove_user(name))?;
            done(json, format!("removed user {name}"), print)
        }
        UserVerb::Passwd {
            name,
            password: args,
        } => {
            let password = password(args)?;
            let change = || accounts.change_user(name, None, Some(&*password));
            noted(&log, "user.passwd", name, change)?;
            done(json, format!("user {name} has another password"), print)
        }
        UserVerb::List => {
            let users = accounts.users()?;
            if json {
                return print(&format!("{:#}\n", json!(users)));
            }
            let mut table = Table::new(&["USER", "ROLE"]);
            for user in users {
                table.row([user.name, user.role.to_string()]);
            }
            print(&table.render())
        }
    }
}

/// Performs `bulkhead token`.
pub fn token(command: &TokenCommand, json: bool, print: Print<'_>) -> Result<(), Failure> {
    let log = command.place.head_dir.join("audit.log");
    let accounts = Accounts::new(&command.place.head_dir);
    match &command.verb {
        TokenVerb::Create {
            name,
            user,
            role,
            expires_days,
        } => {
            let seconds = expires_days.map(|days| u64::from(days) * SECONDS_PER_DAY);
            let make = || accounts.add_token(user, name, *role, seconds);
            let made = noted(&log, "token.create", user, make)?;
            match json {
                true => print(&format!("{:#}\n", json!(made))),
                false => print(&format!("{}\n", made.token.unwrap_or_default())),
            }
        }
        TokenVerb::Revoke { id } => {
            noted(&log, "token.revoke", id, || accounts.revoke(id, None))?;
            done(json, format!("revoked token {id}"), print)
        }
        TokenVerb::List => {
            let tokens = accounts.tokens(None)?;
            if json {
                return print(&format!("{:#}\n", json!(tokens)));
            }
            let mut table = Table::new(&["ID", "USER", "ROLE", "FOR"]);
            for token in tokens {
                table.row([token.id, token.user, token.role.to_string(), token.name]);
            }
            print(&table.render())
        }
    }
}
