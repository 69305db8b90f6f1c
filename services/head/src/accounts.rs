//! `bulkhead user` and `bulkhead token`: manage the users of the API and the console. A running head
//! applies each change at once.

use std::io::IsTerminal;
use std::path::PathBuf;

use api::{Accounts, Role};
use clap::{Args, Subcommand};
use control::Failure;
use control::answer::Done;
use control::operations::secret_input;
use pool_access::audit::noted;
use rendering::{Printer, Table};

use crate::args::HeadPaths;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// `user`
#[derive(Debug, Args)]
pub struct UserCommand {
    /// The verb.
    #[command(subcommand)]
    pub verb: UserVerb,
    /// Directory of the accounts.
    #[command(flatten)]
    pub place: HeadPaths,
}

/// Actions on users.
#[derive(Debug, Subcommand)]
pub enum UserVerb {
    /// Add a user of the API and the console
    #[command(after_help = "Examples:\n  bulkhead user add anna --role admin\n  \
                            bulkhead user add bert --role operator --password-file secret")]
    Add {
        /// The name
        name: String,
        /// Their role: admin, operator or read-only
        #[arg(long)]
        role: Role,
        /// Source of the password.
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// List the users
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead user list --json"
    )]
    List,
    /// Remove a user with their tokens
    #[command(
        visible_alias = "rm",
        after_help = "Example:\n  bulkhead user remove bert"
    )]
    Remove {
        /// The name
        name: String,
    },
    /// Give a user another password
    #[command(after_help = "Example:\n  bulkhead user passwd anna")]
    Passwd {
        /// The name
        name: String,
        /// Source of the password.
        #[command(flatten)]
        password: PasswordArgs,
    },
}

/// Source of a password.
#[derive(Debug, Args)]
pub struct PasswordArgs {
    /// File with the password as its first line [default: a prompt, or the standard input]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// `token`
#[derive(Debug, Args)]
pub struct TokenCommand {
    /// The verb.
    #[command(subcommand)]
    pub verb: TokenVerb,
    /// Directory of the accounts.
    #[command(flatten)]
    pub place: HeadPaths,
}

/// Actions on tokens.
#[derive(Debug, Subcommand)]
pub enum TokenVerb {
    /// Create a token for a script or a service; it is shown once
    #[command(
        after_help = "Examples:\n  bulkhead token create --user anna prometheus --role read-only\n  \
                            bulkhead token create --user anna ansible --expires-days 90"
    )]
    Create {
        /// Its purpose
        name: String,
        /// Its user
        #[arg(long)]
        user: String,
        /// Its role [default: that of its user]
        #[arg(long)]
        role: Option<Role>,
        /// Days until it expires [default: never]
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
        expires_days: Option<u32>,
    },
    /// List the tokens
    #[command(visible_alias = "ls", after_help = "Example:\n  bulkhead token list")]
    List,
    /// Revoke a token
    #[command(after_help = "Example:\n  bulkhead token revoke 3f0c9a7e21bd")]
    Revoke {
        /// Its id, as `list` shows it
        id: String,
    },
}

fn done(message: String, out: Printer) -> Result<(), Failure> {
    out.answer(&Done::changed(message))
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
pub fn user(command: &UserCommand, out: Printer) -> Result<(), Failure> {
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
            done(format!("added user {name} as {role}"), out)
        }
        UserVerb::Remove { name } => {
            noted(&log, "user.remove", name, || accounts.remove_user(name))?;
            done(format!("removed user {name}"), out)
        }
        UserVerb::Passwd {
            name,
            password: args,
        } => {
            let password = password(args)?;
            let change = || accounts.change_user(name, None, Some(&*password));
            noted(&log, "user.passwd", name, change)?;
            done(format!("user {name} has another password"), out)
        }
        UserVerb::List => {
            let users = accounts.users()?;
            out.either(&users, || {
                let mut table = Table::new(&["USER", "ROLE"]);
                for user in &users {
                    table.row([user.name.clone(), user.role.to_string()]);
                }
                table.render()
            })
        }
    }
}

/// Performs `bulkhead token`.
pub fn token(command: &TokenCommand, out: Printer) -> Result<(), Failure> {
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
            out.either(&made, || made.token.clone().unwrap_or_default() + "\n")
        }
        TokenVerb::Revoke { id } => {
            noted(&log, "token.revoke", id, || accounts.revoke(id, None))?;
            done(format!("revoked token {id}"), out)
        }
        TokenVerb::List => {
            let tokens = accounts.tokens(None)?;
            out.either(&tokens, || {
                let mut table = Table::new(&["ID", "USER", "ROLE", "FOR"]);
                for token in &tokens {
                    table.row([
                        token.id.clone(),
                        token.user.clone(),
                        token.role.to_string(),
                        token.name.clone(),
                    ]);
                }
                table.render()
            })
        }
    }
}
