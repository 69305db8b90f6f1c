//! Sends a message to one receiver. Each step is bounded in time, and each reply in size. Failures name the step; they
//! never contain a reply in full, because a server could send back the password or token.

mod http;
mod mail;
mod program;
mod stream;

use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use appliance::alerts::{LeastSeverity, Receiver, Way};
use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::book::{ALERTMANAGER_INTERVAL_MS, Cause, Reason};
use crate::message::{Rendered, severity_name};

/// Time limit of a delivery to a server.
const LIMIT: Duration = Duration::from_secs(30);
/// Time limit of a connection to one address of a server.
const CONNECT_LIMIT: Duration = Duration::from_secs(8);
/// Longest file with a password or token, in bytes.
const SECRET_BYTES_MAX: u64 = 4096;
/// Longest file with authorities, in bytes.
const AUTHORITIES_BYTES_MAX: u64 = 4 << 20;
/// The authorities of the system, as Debian has them.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Longest text of a push message, in bytes; longer ones become files.
const PUSH_BYTES_MAX: usize = 3900;
/// Longest reason for a failure, in characters.
const WHY_CHARS_MAX: usize = 300;

/// Sends it, or returns the reason of the failure.
pub(crate) async fn send(receiver: &Receiver, message: &Rendered) -> Result<(), String> {
    send_within(receiver, message, LIMIT).await
}

async fn send_within(
    receiver: &Receiver,
    message: &Rendered,
    limit: Duration,
) -> Result<(), String> {
    let ways = receiver.ways();
    let [way] = ways.as_slice() else {
        return Err("the appliance file names no way to it, or several".to_owned());
    };
    let sent = match way {
        Way::Program(program) => program::run(program, message).await,
        way => {
            let delivered = tokio::time::timeout(limit, deliver(way, message));
            let late = || format!("no success within {} s", limit.as_secs());
            delivered.await.unwrap_or_else(|_| Err(late()))
        }
    };
    sent.map_err(|why| {
        let is_shown = |letter: &char| !letter.is_control();
        why.chars().filter(is_shown).take(WHY_CHARS_MAX).collect()
    })
}

async fn deliver(way: &Way<'_>, message: &Rendered) -> Result<(), String> {
    const JSON: (&str, &str) = ("content-type", "application/json");
    match way {
        Way::Mail(mail) => mail::send(mail, message).await,
        Way::Webhook(server) => {
            let body = message.json.to_string().into_bytes();
            http::post(server, &server.url.path, body, &[JSON]).await
        }
        Way::Alertmanager(server) => {
            let path = format!("{}/api/v2/alerts", server.url.path.trim_end_matches('/'));
            let body = alertmanager_alerts(message).to_string().into_bytes();
            http::post(server, &path, body, &[JSON]).await
        }
        Way::Ntfy(server) => {
            let title: String = message
                .subject
                .chars()
                .map(|letter| if letter.is_ascii() { letter } else { '?' })
                .collect();
            let priority = match message.severity {
                LeastSeverity::Error => "urgent",
                LeastSeverity::Warning => "high",
                LeastSeverity::Info => "default",
            };
            let mut end = message.text.len().min(PUSH_BYTES_MAX);
            while !message.text.is_char_boundary(end) {
                end -= 1;
            }
            let body = message.text.as_bytes()[..end].to_vec();
            let headers = [
                ("content-type", "text/plain; charset=utf-8"),
                ("title", title.as_str()),
                ("priority", priority),
            ];
            http::post(server, &server.url.path, body, &headers).await
        }
        Way::Program(_) => Err("it has no server".to_owned()),
    }
}

/// The alerts of a message for an Alertmanager: open ones end by themselves unless they are repeated.
fn alertmanager_alerts(message: &Rendered) -> Value {
    let until_ms = message.at_ms + 3 * ALERTMANAGER_INTERVAL_MS;
    let time = |ms: u64| control::calendar::utc(ms / 1000);
    let alert = |cause: &Cause, ends_ms: u64| {
        let labels = json!({
            "alertname": "BulkheadAlert",
            "appliance": message.appliance,
            "severity": severity_name(cause.severity),
            "subject": cause.about,
            "summary": cause.sentence,
        });
        let mut description = cause.details.join("\n");
        let advice = [
            ("at risk", &cause.risk),
            ("next", &cause.advice),
            ("type", &cause.command),
        ];
        for (name, text) in advice {
            if let Some(text) = text {
                description.push_str(&format!("\n{name}: {text}"));
            }
        }
        json!({
            "labels": labels,
            "annotations": {"summary": cause.sentence, "description": description.trim()},
            "startsAt": time(cause.since_ms),
            "endsAt": time(ends_ms.max(cause.since_ms + 1000)),
        })
    };
    let content = &message.message;
    let open = content.open.values().map(|cause| alert(cause, until_ms));
    let over = content.ended.iter().chain(&content.passed);
    let over = over.map(|one| alert(&one.cause, one.ended_ms));
    let sign = match message.reason {
        Reason::Test | Reason::SignOfLife => Some(Cause {
            about: "appliance".to_owned(),
            sentence: message.subject.clone(),
            since_ms: message.at_ms,
            ..Cause::default()
        }),
        Reason::Change | Reason::Reminder => None,
    };
    let sign = sign.iter().map(|cause| alert(cause, until_ms));
    open.chain(over).chain(sign).collect()
}

/// Opens a file for reading. A pipe that no process writes to must not block.
fn open(path: &Path) -> std::io::Result<std::fs::File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let mut options = std::fs::File::options();
    options.read(true).custom_flags(flags).open(path)
}

/// Reads the password or token in a file. Other users must not be able to read it.
fn read_secret(path: &Path) -> Result<Zeroizing<String>, String> {
    let failed = |why: &dyn std::fmt::Display| format!("read {}: {why}", path.display());
    let file = open(path).map_err(|error| failed(&error))?;
    let about = file.metadata().map_err(|error| failed(&error))?;
    if !about.is_file() {
        return Err(failed(&"it is no file"));
    }
    if about.mode() & 0o077 != 0 {
        let advice = format!(
            "other users can read it; run `chmod 0600 {}`",
            path.display()
        );
        return Err(failed(&advice));
    }
    let mut text = Zeroizing::new(String::new());
    let mut limited = file.take(SECRET_BYTES_MAX + 1);
    limited
        .read_to_string(&mut text)
        .map_err(|error| failed(&error))?;
    let trimmed = text.trim_end_matches(['\r', '\n']);
    if trimmed.is_empty() || trimmed.len() as u64 > SECRET_BYTES_MAX {
        return Err(failed(&"it is empty or too long"));
    }
    if trimmed.chars().any(char::is_control) {
        return Err(failed(&"it has more than one line, or control characters"));
    }
    Ok(Zeroizing::new(trimmed.to_owned()))
}

/// The PEM text of the authorities in a file, or of those of the system.
fn read_authorities(path: Option<&Path>) -> Result<Vec<u8>, String> {
    let path = path.unwrap_or(Path::new(SYSTEM_AUTHORITIES));
    let failed = |error: std::io::Error| format!("read authorities in {}: {error}", path.display());
    let mut bytes = Vec::new();
    let file = open(path).map_err(failed)?;
    file.take(AUTHORITIES_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    Ok(bytes)
}

/// TLS that accepts certificates of these authorities only.
fn tls_config(authority_file: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let pem = read_authorities(authority_file)?;
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(&pem);
    roots.add_parsable_certificates(certificates.filter_map(Result::ok));
    if roots.is_empty() {
        return Err("the file with the authorities has no certificate".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests;
