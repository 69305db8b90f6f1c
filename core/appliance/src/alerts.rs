//! `[alerts]`: the receivers of messages about alerts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Minutes of a day.
const DAY_MINUTES: u32 = 24 * 60;
/// Longest address of a server, in bytes.
const URL_BYTES_MAX: usize = 2048;

/// Messages about alerts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alerts {
    /// The receivers, by name.
    pub receivers: BTreeMap<String, Receiver>,
}

/// A receiver of messages about alerts. It has exactly one of `mail`, `webhook`, `alertmanager`, `ntfy` and `program`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Receiver {
    /// Less severe alerts are not sent to it.
    #[serde(default)]
    pub least: LeastSeverity,
    /// The part of each day, in UTC, in which it receives only errors, and the messages that they are over, such as `20:00-05:30`. All other
    /// messages are delayed until its end.
    #[schemars(with = "Option<String>")]
    pub quiet_utc: Option<QuietHours>,
    /// Interval of reminders of open alerts, in hours; 0: none.
    #[serde(default = "default_reminder_h")]
    pub reminder_h: u32,
    /// The time of each day, in UTC, of a message that is sent without alerts, too, such as `06:00`. Absent: none.
    #[schemars(with = "Option<String>")]
    pub sign_of_life_utc: Option<TimeOfDay>,
    /// Mail over SMTP.
    pub mail: Option<Mail>,
    /// JSON in a POST request to a server.
    pub webhook: Option<HttpServer>,
    /// Alerts to an Alertmanager of Prometheus, by version 2 of its API. `url` is that of its page, without `/api`.
    pub alertmanager: Option<HttpServer>,
    /// Push messages over ntfy. `url` includes the topic.
    pub ntfy: Option<HttpServer>,
    /// A command on each head.
    pub program: Option<Program>,
}

/// The severity from which alerts are sent.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum LeastSeverity {
    /// All alerts.
    Info,
    /// Faults, also those that clients do not notice.
    #[default]
    Warning,
    /// Faults that affect clients, or that let data be lost.
    Error,
}

/// Mail over SMTP.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mail {
    /// Name or address of the SMTP server.
    pub server: String,
    /// Its port. Absent: 587 with `starttls`, 465 with `tls`, 25 with `none`.
    pub port: Option<u16>,
    /// Encryption of the connection.
    #[serde(default)]
    pub tls: MailTls,
    /// Address of the sender.
    pub from: String,
    /// Addresses of the recipients.
    pub to: Vec<String>,
    /// Account at the server. Absent: no login.
    pub user: Option<String>,
    /// File on each head that holds the password of the account, readable by root only.
    pub password_file: Option<PathBuf>,
    /// File on each head with the authorities that sign the server's certificate, PEM. Absent: those of the system.
    pub authority_file: Option<PathBuf>,
}

/// Encryption of a connection to an SMTP server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MailTls {
    /// The connection must change to TLS before anything else is sent.
    #[default]
    Starttls,
    /// TLS from the first byte on.
    Tls,
    /// No encryption. Only for a server without a login.
    None,
}

/// A server that is reached over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpServer {
    /// Its address, such as `https://alerts.example.org/bulkhead`. Redirections are not followed.
    #[schemars(with = "String")]
    pub url: Url,
    /// File on each head that holds a bearer token, readable by root only.
    pub token_file: Option<PathBuf>,
    /// File on each head with the authorities that sign the server's certificate, PEM. Absent: those of the system.
    pub authority_file: Option<PathBuf>,
}

/// A command that is started for each message. It reads the message as JSON from its standard input. Exit code 0 is a
/// success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Its absolute path.
    pub path: PathBuf,
    /// It is killed after this time, in seconds.
    #[serde(default = "default_program_s")]
    #[schemars(range(min = 1, max = 60))]
    pub timeout_s: u32,
}

/// The way to a receiver.
#[derive(Clone, Copy, Debug)]
pub enum Way<'a> {
    /// Mail.
    Mail(&'a Mail),
    /// JSON in a POST request.
    Webhook(&'a HttpServer),
    /// Alertmanager.
    Alertmanager(&'a HttpServer),
    /// ntfy.
    Ntfy(&'a HttpServer),
    /// A command.
    Program(&'a Program),
}

impl Way<'_> {
    /// Its key in the file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Mail(_) => "mail",
            Self::Webhook(_) => "webhook",
            Self::Alertmanager(_) => "alertmanager",
            Self::Ntfy(_) => "ntfy",
            Self::Program(_) => "program",
        }
    }

    /// The destination as text, without secrets: the path of an address may be one.
    pub fn destination(&self) -> String {
        match self {
            Self::Mail(mail) => format!("{} over {}", mail.to.join(", "), mail.server),
            Self::Webhook(server) | Self::Alertmanager(server) | Self::Ntfy(server) => {
                server.url.host.clone()
            }
            Self::Program(program) => program.path.display().to_string(),
        }
    }

    /// The host and port that it connects to.
    pub fn address(&self) -> Option<(&str, u16)> {
        match self {
            Self::Mail(mail) => Some((&mail.server, mail.port())),
            Self::Webhook(server) | Self::Alertmanager(server) | Self::Ntfy(server) => {
                Some((&server.url.host, server.url.port))
            }
            Self::Program(_) => None,
        }
    }

    /// The file with its password or token.
    pub fn secret_file(&self) -> Option<&PathBuf> {
        match self {
            Self::Mail(mail) => mail.password_file.as_ref(),
            Self::Webhook(server) | Self::Alertmanager(server) | Self::Ntfy(server) => {
                server.token_file.as_ref()
            }
            Self::Program(_) => None,
        }
    }

    /// The file with the authorities of its certificate.
    pub fn authority_file(&self) -> Option<&PathBuf> {
        match self {
            Self::Mail(mail) => mail.authority_file.as_ref(),
            Self::Webhook(server) | Self::Alertmanager(server) | Self::Ntfy(server) => {
                server.authority_file.as_ref()
            }
            Self::Program(_) => None,
        }
    }
}

impl Receiver {
    /// All ways that the file names; exactly one in a valid file.
    pub fn ways(&self) -> Vec<Way<'_>> {
        let ways = [
            self.mail.as_ref().map(Way::Mail),
            self.webhook.as_ref().map(Way::Webhook),
            self.alertmanager.as_ref().map(Way::Alertmanager),
            self.ntfy.as_ref().map(Way::Ntfy),
            self.program.as_ref().map(Way::Program),
        ];
        ways.into_iter().flatten().collect()
    }
}

impl Mail {
    /// Its port, or the usual one.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(match self.tls {
            MailTls::Starttls => 587,
            MailTls::Tls => 465,
            MailTls::None => 25,
        })
    }
}

impl Alerts {
    /// The files with passwords and tokens.
    pub fn secret_files(&self) -> BTreeSet<PathBuf> {
        let receivers = self.receivers.values();
        let files = receivers.flat_map(|receiver| {
            let ways = receiver.ways();
            let files = ways.iter().filter_map(Way::secret_file).cloned();
            files.collect::<Vec<_>>()
        });
        files.collect()
    }

    /// The host and port of each server.
    pub fn addresses(&self) -> BTreeSet<(String, u16)> {
        let receivers = self.receivers.values();
        let addresses = receivers.flat_map(|receiver| {
            let ways = receiver.ways();
            let known = ways.iter().filter_map(Way::address);
            let owned = known.map(|(host, port)| (host.to_owned(), port));
            owned.collect::<Vec<_>>()
        });
        addresses.collect()
    }
}

/// A time of each day, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeOfDay {
    /// Minutes since midnight.
    minute: u32,
}

impl TimeOfDay {
    /// Seconds since midnight.
    pub const fn seconds(self) -> u64 {
        self.minute as u64 * 60
    }
}

impl std::str::FromStr for TimeOfDay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |digits: &str| -> Option<u32> {
            let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.parse().ok())?
        };
        let parts = text.split_once(':');
        let parts = parts.and_then(|(hour, minute)| Some((number(hour)?, number(minute)?)));
        match parts {
            Some((hour, minute)) if hour < 24 && minute < 60 => Ok(Self {
                minute: hour * 60 + minute,
            }),
            _ => Err(format!(
                "{text:?} is no time of day: write HH:MM, such as 06:30"
            )),
        }
    }
}

impl TryFrom<String> for TimeOfDay {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.minute / 60, self.minute % 60)
    }
}

impl From<TimeOfDay> for String {
    fn from(time: TimeOfDay) -> Self {
        time.to_string()
    }
}

/// A part of each day, in UTC. It may include midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QuietHours {
    from: TimeOfDay,
    until: TimeOfDay,
}

impl QuietHours {
    /// Whether that second since 1970 is in it.
    pub const fn contains(&self, second: u64) -> bool {
        let minute = (second / 60 % DAY_MINUTES as u64) as u32;
        let (from, until) = (self.from.minute, self.until.minute);
        match from <= until {
            true => from <= minute && minute < until,
            false => from <= minute || minute < until,
        }
    }
}

impl TryFrom<String> for QuietHours {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text
            .split_once('-')
            .ok_or_else(|| format!("{text:?} is no part of a day: write it as 20:00-05:30"))?;
        let (from, until) = (parts.0.parse::<TimeOfDay>()?, parts.1.parse()?);
        match from == until {
            true => Err(format!(
                "{text:?} is empty: leave it out, or write another end"
            )),
            false => Ok(Self { from, until }),
        }
    }
}

impl From<QuietHours> for String {
    fn from(hours: QuietHours) -> Self {
        format!("{}-{}", hours.from, hours.until)
    }
}

/// The address of an HTTP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Url {
    /// Whether it begins with `https`.
    pub is_tls: bool,
    /// The host, without the brackets of an IPv6 address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path with the query, from the first slash on.
    pub path: String,
}

impl Url {
    /// The host with the port, as a request names it.
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        format!("{host}:{}", self.port)
    }

    /// Whether it is on this host.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }
}

/// Whether the name or address is that of this host.
pub fn is_loopback(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    address.map_or(host == "localhost", |address| address.is_loopback())
}

/// Whether it is the name or address of a host.
pub fn is_host(text: &str) -> bool {
    let is_letter =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':');
    !text.is_empty() && text.len() <= 253 && text.bytes().all(is_letter)
}

impl TryFrom<String> for Url {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // The address may contain a secret, so that the messages do not repeat it.
        let (is_tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => {
                return Err(
                    "the address of a server begins with https://, or http:// for one on this host"
                        .to_owned(),
                );
            }
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let wrong = || "the address of a server is https://HOST[:PORT]/PATH".to_owned();
        if authority.contains('@') {
            return Err("an address with a password is refused: name a token_file".to_owned());
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(inside) => {
                let (host, after) = inside.split_once(']').ok_or_else(wrong)?;
                (
                    host,
                    after.strip_prefix(':').or((after.is_empty()).then_some("")),
                )
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, Some("")),
            },
        };
        let port = match port.ok_or_else(wrong)? {
            "" if is_tls => 443,
            "" => 80,
            port => port.parse().map_err(|_| wrong())?,
        };
        let is_path = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
        let is_wrong_path = !path.bytes().all(is_path) || path.starts_with('?');
        if !is_host(host) || is_wrong_path || text.len() > URL_BYTES_MAX {
            return Err(wrong());
        }
        Ok(Self {
            is_tls,
            host: host.to_owned(),
            port,
            path: match path {
                "" => "/".to_owned(),
                path => path.to_owned(),
            },
        })
    }
}

impl From<Url> for String {
    fn from(url: Url) -> Self {
        let scheme = if url.is_tls { "https" } else { "http" };
        format!("{scheme}://{}{}", url.authority(), url.path)
    }
}

const fn default_reminder_h() -> u32 {
    24
}

const fn default_program_s() -> u32 {
    30
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_hours_contain_midnight_or_not() {
        let hour = |hour: u64| 400 * 86_400 + hour * 3600;
        for (text, inside, outside) in [
            ("20:00-05:30", vec![20, 23, 24, 29], vec![30, 12, 19]),
            ("01:00-02:00", vec![1, 25], vec![0, 2, 23]),
            ("00:00-12:00", vec![0, 11], vec![12, 23]),
        ] {
            let quiet = QuietHours::try_from(text.to_owned()).expect(text);
            assert_eq!(String::from(quiet), text);
            assert!(inside.iter().all(|at| quiet.contains(hour(*at))), "{text}");
            assert!(
                !outside.iter().any(|at| quiet.contains(hour(*at))),
                "{text}"
            );
        }
        let last = QuietHours::try_from("20:00-05:30".to_owned()).expect("hours");
        assert!(last.contains(5 * 3600 + 29 * 60 + 59) && !last.contains(5 * 3600 + 30 * 60));
        for wrong in [
            "20:00",
            "20:00-24:00",
            "8:00-9:00",
            "07:00-07:00",
            "+1:00-02:00",
        ] {
            QuietHours::try_from(wrong.to_owned()).expect_err(wrong);
        }
    }

    #[test]
    fn addresses_of_servers_are_parsed_and_written_again() {
        for (text, host, port, path, again) in [
            (
                "https://a.example",
                "a.example",
                443,
                "/",
                "https://a.example:443/",
            ),
            (
                "http://127.0.0.1:80/x?y=1",
                "127.0.0.1",
                80,
                "/x?y=1",
                "http://127.0.0.1:80/x?y=1",
            ),
            (
                "https://[fd00::1]:8443/a",
                "fd00::1",
                8443,
                "/a",
                "https://[fd00::1]:8443/a",
            ),
            ("https://[::1]", "::1", 443, "/", "https://[::1]:443/"),
        ] {
            let url = Url::try_from(text.to_owned()).expect(text);
            assert_eq!(
                (url.host.as_str(), url.port, url.path.as_str()),
                (host, port, path)
            );
            assert_eq!(String::from(url), again);
        }
        for wrong in [
            "a.example/x",
            "ftp://a.example/",
            "https://",
            "https://user:secret@a.example/",
            "https://a.example:99999/",
            "https://a.example/a b",
            "https://a.example/\r\nX: y",
            "https://a.example#x",
            "https://[fd00::1/x",
            "https://[::1]x/",
            "https://a b/",
        ] {
            let error = Url::try_from(wrong.to_owned()).expect_err(wrong);
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
