//! Receivers of messages about alerts.

use super::{Checker, Code, head_key};
use crate::alerts::{HttpServer, Mail, MailTls, Receiver, Way, is_host, is_loopback};
use crate::key::Key;

/// Most receivers: each has a slot for sending.
const RECEIVERS_MAX: usize = 16;
/// Most recipients of a mail.
const RECIPIENTS_MAX: usize = 20;
/// Longest name of a receiver.
const NAME_CHARS_MAX: usize = 32;
/// Longest interval of reminders: a year.
const REMINDER_H_MAX: u32 = 366 * 24;
/// Longest run of a command, in seconds.
const PROGRAM_S_MAX: u32 = 60;

pub(super) fn check(checker: &mut Checker<'_>) {
    let Some(alerts) = &checker.appliance.alerts else {
        return;
    };
    let key = Key::of("alerts.receivers");
    if alerts.receivers.len() > RECEIVERS_MAX {
        let what = format!("there are more than {RECEIVERS_MAX} receivers");
        checker.find(Code::AlertReceiver, &key, what, "remove some of them");
    }
    for (name, receiver) in &alerts.receivers {
        check_receiver(checker, &key.field(name), name, receiver);
    }
    check_addresses(checker);
}

fn check_receiver(checker: &mut Checker<'_>, key: &Key, name: &str, receiver: &Receiver) {
    let mut wrong = |key: &Key, what: String, mend: &str| {
        checker.find(Code::AlertReceiver, key, what, mend);
    };
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.bytes().all(is_letter) {
        let what = format!("{name:?} is no name of a receiver");
        wrong(key, what, "use at most 32 letters, digits, - and _");
    }
    if receiver.reminder_h > REMINDER_H_MAX {
        let what = format!("{} hours are more than a year", receiver.reminder_h);
        wrong(&key.field("reminder_h"), what, "write 0 for no reminders");
    }
    let ways = receiver.ways();
    if ways.len() != 1 {
        let what = format!("{name} has {} ways to it", ways.len());
        let mend = "name one of mail, webhook, alertmanager, ntfy and program; make a receiver of each further one";
        wrong(key, what, mend);
    }
    for way in &ways {
        let key = key.field(way.name());
        let files = [
            ("authority_file", way.authority_file()),
            ("token_file", way.secret_file()),
        ];
        for (field, file) in files {
            if let Some(file) = file.filter(|file| !file.is_absolute()) {
                let what = format!("{} does not begin with /", file.display());
                wrong(&key.field(field), what, "write the whole path");
            }
        }
        match way {
            Way::Mail(mail) => check_mail(&mut wrong, &key, mail),
            Way::Program(program) => {
                if !program.path.is_absolute() {
                    let what = format!("{} does not begin with /", program.path.display());
                    wrong(&key.field("path"), what, "write the whole path");
                }
                if !(1..=PROGRAM_S_MAX).contains(&program.timeout_s) {
                    let what = format!("{} s is no time limit", program.timeout_s);
                    wrong(&key.field("timeout_s"), what, "write 1 to 60");
                }
            }
            Way::Webhook(server) => check_server(&mut wrong, &key, server, true),
            Way::Alertmanager(server) | Way::Ntfy(server) => {
                check_server(&mut wrong, &key, server, server.token_file.is_some());
            }
        }
    }
}

fn check_mail(wrong: &mut impl FnMut(&Key, String, &str), key: &Key, mail: &Mail) {
    if !is_host(&mail.server) {
        let what = format!("{:?} is no name of a server", mail.server);
        wrong(&key.field("server"), what, "write its name or its address");
    }
    let count = mail.to.len();
    if count == 0 || count > RECIPIENTS_MAX {
        let what = format!("{count} recipients");
        wrong(&key.field("to"), what, "write 1 to 20 addresses");
    }
    for (field, address) in [("from", &mail.from)]
        .into_iter()
        .chain(mail.to.iter().map(|to| ("to", to)))
    {
        let parts = address.split_once('@');
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>' | b',');
        let is_good = parts.is_some_and(|(user, host)| !user.is_empty() && is_host(host));
        if !is_good || !address.bytes().all(is_plain) {
            let what = format!("{address:?} is no address of mail");
            wrong(&key.field(field), what, "write it as USER@HOST");
        }
    }
    if mail.user.is_some() != mail.password_file.is_some() {
        let what = "a login has a user and a password".to_owned();
        wrong(key, what, "write both user and password_file, or neither");
    }
    if mail.user.is_some() && mail.tls == MailTls::None && !is_loopback(&mail.server) {
        let what = "the password would be sent in the clear".to_owned();
        wrong(&key.field("tls"), what, "write starttls or tls");
    }
}

fn check_server(
    wrong: &mut impl FnMut(&Key, String, &str),
    key: &Key,
    server: &HttpServer,
    needs_tls: bool,
) {
    if needs_tls && !server.url.is_tls && !server.url.is_loopback() {
        let what = format!("the way to {} is not encrypted", server.url.host);
        wrong(&key.field("url"), what, "write https://");
    }
}

/// Servers that a head does not reach.
fn check_addresses(checker: &mut Checker<'_>) {
    let facts = checker.facts;
    for (name, head) in &facts.heads {
        for (server, is_reached) in &head.receivers {
            let (host, port) = server.split_once(' ').unwrap_or_default();
            if !is_reached {
                checker.find(
                    Code::AlertServerUnreachable,
                    &head_key(name),
                    format!("{name} does not reach port {port} of {host}"),
                    "check the name, the port, the routes of the head and the firewalls between them",
                );
            }
        }
    }
}
