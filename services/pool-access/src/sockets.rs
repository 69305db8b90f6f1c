//! The control sockets in the run directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::answer::PoolStatus;
use control::client::SILENCE_SECONDS_MAX;
use control::request::ServerRequest;
use control::{
    Answer, Client, ClientError, Failure, FailureKind, OPENING, PoolLock, Request, Severity,
};
use units::PoolName;

use crate::common::Common;
use crate::managed;

/// Time-out for a liveness check of a server, on a busy host.
const ALIVE_WAIT: Duration = Duration::from_secs(15);
/// Time after which the state of the pool is requested in addition: a pool that is being opened is no hung server.
const OPEN_WAIT: Duration = Duration::from_secs(2);
/// Processor time in that wait, in ticks of 10 ms, of a server that works. The periodic checks of a hung one use less.
const WORKING_TICKS_MIN: u64 = 20;
/// Time-out for a server's response that is only an optional input to a request to another server.
const BRIEF_WAIT: Duration = Duration::from_secs(2);
/// Advice for a socket without permission.
const OTHER_USER: &str = "run it as root, or as the server's user";

/// Where the server of `pool` listens.
pub fn socket(common: &Common, pool: &PoolName) -> PathBuf {
    common.settings.run_dir.join(format!("{pool}.sock"))
}

/// Returns the response of the server of `pool`; `None` if it fails or does not respond in time.
pub fn brief_answer(common: &Common, pool: &PoolName, request: Request) -> Option<Answer> {
    let client = Client::connect(&socket(common, pool)).ok()?;
    let mut client = client.with_silence_limit(BRIEF_WAIT).ok()?;
    client.call(request, &mut |_| ()).ok()
}

/// The sockets in the run directory, by pool.
#[derive(Default)]
pub struct Sockets {
    /// A process listens there, responsive or not.
    pub served: BTreeSet<PoolName>,
    /// No process listens: the server was killed. The cluster manages its own pools.
    pub left: BTreeSet<PoolName>,
}

/// Returns the pools with a listening socket in the run directory, whether their servers respond or
/// not.
pub fn served(common: &Common) -> Vec<PoolName> {
    look(common).served.into_iter().collect()
}

/// Tries every socket in the run directory once.
pub fn look(common: &Common) -> Sockets {
    let entries = std::fs::read_dir(&common.settings.run_dir);
    let entries = entries.into_iter().flatten().flatten();
    let mut found = Sockets::default();
    for entry in entries {
        let name = entry.file_name().into_string().ok();
        let name = name.as_deref().and_then(|name| name.strip_suffix(".sock"));
        let Some(pool) = name.and_then(|name| name.parse::<PoolName>().ok()) else {
            continue;
        };
        let is_absent = |error: ClientError| error.is_absent();
        match Client::connect(&entry.path()).is_err_and(is_absent) {
            false => found.served.insert(pool),
            true if is_left(&entry.path(), &pool) => found.left.insert(pool),
            true => false,
        };
    }
    found
}

/// Returns whether a socket without a server belongs to a killed server outside cluster control. Clients' sockets in
/// the same directory have no lock file next to them.
fn is_left(socket: &Path, pool: &PoolName) -> bool {
    PoolLock::path(socket).exists() && managed::disks(pool).is_none()
}

/// Whether `pool` has a server.
pub fn is_served(common: &Common, pool: &PoolName) -> Result<bool, Failure> {
    connect(common, pool).map(|client| client.is_some())
}

/// A connection to the pool's server; `None` if it has none.
pub fn connect(common: &Common, pool: &PoolName) -> Result<Option<Client>, Failure> {
    match Client::connect(&socket(common, pool)) {
        Ok(client) => alive(client, &socket(common, pool), pool).map(Some),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => {
            let (kind, advice) = match error.cause.kind() {
                std::io::ErrorKind::WouldBlock => (FailureKind::Unreachable, standstill(pool)),
                std::io::ErrorKind::PermissionDenied => (FailureKind::Denied, OTHER_USER.into()),
                _ => (FailureKind::Unreachable, OTHER_USER.into()),
            };
            Err(Failure::from_chain(kind, &error).advise(advice))
        }
    }
}

/// As [`connect`], for a request of the pool's state: the server responds to it from memory, also while it opens the
/// pool.
pub fn connect_for_state(common: &Common, pool: &PoolName) -> Result<Option<Client>, Failure> {
    match Client::connect(&socket(common, pool)) {
        Ok(client) => patient(client, ALIVE_WAIT).map(Some),
        Err(_) => connect(common, pool),
    }
}

fn patient(client: Client, patience: Duration) -> Result<Client, Failure> {
    let fail = Failure::of("wait for a response");
    client.with_silence_limit(patience).map_err(&fail)
}

/// Returns a connection if the server is alive: it responds to this request from memory, without
/// disk access. Otherwise each command would wait as long as for a real operation.
fn alive(client: Client, socket: &Path, pool: &PoolName) -> Result<Client, Failure> {
    let mut client = patient(client, OPEN_WAIT)?;
    let ping = Request::Server(ServerRequest::Ping);
    match client.call(ping, &mut |_| ()) {
        Err(failure) if failure.kind == FailureKind::Unreachable => slow(socket, pool),
        // A server that refuses the request is alive, too.
        _ => patient(client, Duration::from_secs(SILENCE_SECONDS_MAX)),
    }
}

/// The same if it has not responded at once: it may be slow, hang, or still open the pool.
fn slow(socket: &Path, pool: &PoolName) -> Result<Client, Failure> {
    let again = || {
        let client = Client::connect(socket);
        client.map_err(|error| Failure::from_chain(FailureKind::Unreachable, &error))
    };
    let mut client = patient(again()?, ALIVE_WAIT)?;
    let pid = client.server_pid();
    let used = || pid.and_then(processor_ticks);
    let before = used();
    match client.call(Request::Status, &mut |_| ()) {
        Ok(Answer::Status(status)) => match refusal_while_opening(&status.pool) {
            Some(refusal) => Err(refusal),
            None => patient(again()?, Duration::from_secs(SILENCE_SECONDS_MAX)),
        },
        Err(failure) if failure.kind == FailureKind::Unreachable => Err(match (before, used()) {
            (Some(before), Some(now)) if now.saturating_sub(before) >= WORKING_TICKS_MIN => {
                working(pool, pid.unwrap_or_default())
            }
            _ => failure.advise(standstill(pool)),
        }),
        _ => patient(client, Duration::from_secs(SILENCE_SECONDS_MAX)),
    }
}

/// A server that works and has not responded: it is slow, and must not be killed.
fn working(pool: &PoolName, pid: i32) -> Failure {
    let seconds = ALIVE_WAIT.as_secs();
    let message = format!(
        "the server of pool {pool} is slow: process {pid} works, and has sent no response within {seconds} s"
    );
    Failure::new(FailureKind::Unavailable, message).advise(format!(
        "repeat the command when the load is lower (`top -p {pid}`); the server need not be stopped"
    ))
}

/// The processor time of a process, in ticks of 10 ms: `utime` and `stime` of proc_pid_stat(5).
fn processor_ticks(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    ticks_in(&text)
}

/// The name of the process is in parentheses, and may contain spaces and parentheses.
fn ticks_in(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    // The state is the third field of the line, and the first one here.
    let mut times = fields.split_whitespace().skip(11).take(2);
    let mut next = || times.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// The refusal of a request to a pool that is not opened before an administrator acts.
fn refusal_while_opening(status: &PoolStatus) -> Option<Failure> {
    let advice = status.advice.first();
    let advice =
        advice.filter(|one| status.health == OPENING && one.severity == Severity::Error)?;
    Some(Failure::new(FailureKind::Unavailable, &advice.why).advise(&advice.what))
}

/// Returns the advice for a hung server.
fn standstill(pool: &PoolName) -> String {
    format!(
        "a server that hangs may be killed (-9): acknowledged writes are safe, and \
         `bulkhead pool-server {pool}` or its service manager starts it again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::Advice;

    #[test]
    fn processor_time_is_read_behind_any_name_of_a_process() {
        let line = |name: &str| {
            format!("7 ({name}) S 1 7 7 0 -1 4194560 9 0 0 0 120 34 0 0 20 0 1 0 5 6 7")
        };
        for name in ["bulkhead", "a) R 5 (b"] {
            assert_eq!(ticks_in(&line(name)), Some(154), "{name}");
        }
        assert_eq!(ticks_in("7 (x"), None);
        assert!(
            i32::try_from(std::process::id())
                .ok()
                .and_then(processor_ticks)
                .is_some()
        );
        let failure = working(&"tank".parse().expect("a name"), 7);
        assert!(
            failure.message.contains("is slow: process 7 works"),
            "{failure}"
        );
        assert!(!failure.to_string().contains("kill"), "{failure}");
    }

    #[test]
    fn only_a_pool_that_waits_for_an_administrator_refuses_requests() {
        let status = |health: &str, severity| PoolStatus {
            health: health.to_owned(),
            advice: vec![Advice::new(severity, "connect it", "/dev/sdb is missing")],
            ..PoolStatus::default()
        };
        let refusal = refusal_while_opening(&status(OPENING, Severity::Error)).expect("refused");
        assert_eq!(refusal.kind, FailureKind::Unavailable);
        assert_eq!(refusal.message, "/dev/sdb is missing");
        let advice = refusal.advice.expect("advice");
        assert!(!advice.contains("kill"), "{advice}");
        for (health, severity) in [(OPENING, Severity::Warning), ("SUSPENDED", Severity::Error)] {
            assert_eq!(
                refusal_while_opening(&status(health, severity)),
                None,
                "{health}"
            );
        }
    }
}
