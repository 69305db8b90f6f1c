//! Records the changes of commands in the audit log like those of the API: user, process, request and outcome. A head
//! records the requests of its own users itself.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use api::audit::{Entry, Lines};
use control::{Effect, Failure, FailureKind, Peer, Request};
use units::PoolName;

use crate::common::Common;

/// "No login", in `/proc/PID/loginuid`.
const NO_LOGIN: u32 = u32::MAX;
/// Where the system's log listens.
const SYSTEM_LOG: &str = "/dev/log";
/// Facility `authpriv`, severity `info` (RFC 3164, section 4.1.1).
const PRIORITY: u32 = 10 * 8 + 6;

/// This process performs a request for a head.
static IS_NOTED: AtomicBool = AtomicBool::new(false);

/// From now on this process writes nothing down: the head that started it does.
pub fn suppress_audit_log() {
    IS_NOTED.store(true, Ordering::Relaxed);
}

/// Returns whether a head records the actions of this process.
pub fn is_noted() -> bool {
    IS_NOTED.load(Ordering::Relaxed)
}

/// The log of commands.
pub fn path(common: &Common) -> PathBuf {
    common.settings.state_dir.join("audit.log")
}

/// Returns the audit entry of a request, without its outcome; none if it is read-only.
pub fn entry(peer: Peer, pool: &PoolName, request: &Request) -> Option<Entry> {
    let changes = request.effect(pool) != Effect::Look;
    changes.then(|| Entry {
        details: api::audit::details(request),
        ..audit_entry(peer, api::verb(request), pool.to_string())
    })
}

fn audit_entry(peer: Peer, what: String, target: String) -> Entry {
    Entry {
        who: who(peer),
        from: from(peer),
        what,
        target,
        ..Entry::default()
    }
}

/// Writes the line down.
pub fn write(lines: &Lines, entry: Entry, failure: Option<&Failure>) {
    lines.write(&entry.ended(failure));
}

/// Performs an action that no server performs, and records it in `log` and the system log.
pub fn noted<T>(
    log: &Path,
    what: &str,
    target: &str,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    noted_as(
        log,
        audit_entry(own(), what.to_owned(), target.to_owned()),
        work,
    )
}

/// Performs a command, and records it in `log` and the system log. An exit code other than 0 is a refusal or a failure
/// that the command has printed.
///
/// # Errors
///
/// Those of the command.
pub fn noted_command(
    log: &Path,
    what: &str,
    target: &str,
    work: impl FnOnce() -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let mut refused = ExitCode::SUCCESS;
    let done = noted(log, what, target, || {
        let code = work()?;
        if code == ExitCode::SUCCESS {
            return Ok(code);
        }
        refused = code;
        let message = "refused: the command has printed the reason";
        Err(Failure::new(FailureKind::Failed, message))
    });
    match done {
        Err(_) if refused != ExitCode::SUCCESS => Ok(refused),
        done => done,
    }
}

fn own() -> Peer {
    Peer {
        uid: rustix::process::getuid().as_raw(),
        pid: rustix::process::getpid().as_raw_nonzero().get(),
    }
}

fn noted_as<T>(
    log: &Path,
    entry: Entry,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let done = work();
    if !is_noted() {
        let entry = entry.ended(done.as_ref().err());
        write_to_syslog(&entry);
        Lines::new(log).write(&entry);
    }
    done
}

/// The same of a request to a pool that this process opens.
pub fn noted_request<T>(
    log: &Path,
    pool: &PoolName,
    request: Request,
    work: impl FnOnce(Request) -> Result<T, Failure>,
) -> Result<T, Failure> {
    match entry(own(), pool, &request) {
        None => work(request),
        Some(entry) => noted_as(log, entry, || work(request)),
    }
}

/// Never blocks: a system log that does not read loses the entry.
fn write_to_syslog(entry: &Entry) {
    let Entry {
        who,
        from,
        what,
        target,
        details,
        outcome,
        ..
    } = entry;
    let on = details.as_ref().unwrap_or(target);
    let line = format!("<{PRIORITY}>bulkhead: {who}, {from}: {what} {on}: {outcome}");
    let told = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(line.as_bytes(), SYSTEM_LOG)
    });
    if let Err(error) = told {
        tracing::debug!(%error, "no entry in the system's log");
    }
}

/// Returns the user and, if different, the login user, because most administrators use `sudo`.
fn who(peer: Peer) -> String {
    let login = std::fs::read_to_string(format!("/proc/{}/loginuid", peer.pid));
    let login = login.ok().and_then(|text| text.trim().parse::<u32>().ok());
    let user = name(peer.uid);
    match login.filter(|login| ![NO_LOGIN, peer.uid].contains(login)) {
        Some(login) => format!("{user} ({})", name(login)),
        None => user,
    }
}

fn name(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let found = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    });
    found.unwrap_or_else(|| format!("uid {uid}"))
}

fn from(peer: Peer) -> String {
    let program = std::fs::read_to_string(format!("/proc/{}/comm", peer.pid));
    match program {
        Ok(program) => format!("process {} ({})", peer.pid, program.trim()),
        Err(_) => format!("process {}", peer.pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `appliance apply` prints the findings, and exits with a code that is not 0.
    #[test]
    fn refused_command_is_recorded_as_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("audit.log");
        let last = || {
            let text = std::fs::read_to_string(&log).expect("a log");
            text.lines().last().unwrap_or_default().to_owned()
        };
        let apply = |code| noted_command(&log, "appliance.apply", "attic", || Ok(code));
        let refused = ExitCode::from(12);
        assert_eq!(apply(refused).expect("it has run"), refused);
        assert!(last().contains(r#""outcome":"failed""#), "{}", last());
        assert_eq!(
            apply(ExitCode::SUCCESS).expect("it has run"),
            ExitCode::SUCCESS
        );
        assert!(last().contains(r#""outcome":"done""#), "{}", last());
    }

    #[test]
    fn audit_user_is_a_name_or_a_uid() {
        assert_eq!(name(0), "root");
        assert_eq!(name(4_000_000_000), "uid 4000000000");
    }
}
