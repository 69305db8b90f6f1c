//! The control sockets in the run directory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::client::SILENCE_SECONDS_MAX;
use control::request::ServerRequest;
use control::{Client, ClientError, Failure, FailureKind, PoolLock, Request};
use units::PoolName;

use crate::common::Common;
use crate::managed;

/// Time-out for a liveness check of a server, on a busy host.
const ALIVE_WAIT: Duration = Duration::from_secs(15);
/// Advice for a socket without permission.
const OTHER_USER: &str = "run it as root, or as the server's user";

/// Where the server of `pool` listens.
pub fn socket(common: &Common, pool: &PoolName) -> PathBuf {
    common.settings.run_dir.join(format!("{pool}.sock"))
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
        Ok(client) => alive(client, pool).map(Some),
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

/// Returns the connection if its server is alive: it responds to this request from memory, without
/// disk access. Otherwise each command would wait as long as for a real operation.
fn alive(client: Client, pool: &PoolName) -> Result<Client, Failure> {
    let patient = |client: Client, patience: Duration| {
        let fail = Failure::of("wait for a response");
        client.with_silence_limit(patience).map_err(&fail)
    };
    let mut client = patient(client, ALIVE_WAIT)?;
    let ping = Request::Server(ServerRequest::Ping);
    match client.call(ping, &mut |_| ()) {
        Err(failure) if failure.kind == FailureKind::Unreachable => {
            Err(failure.advise(standstill(pool)))
        }
        // A server that refuses the request is alive, too.
        _ => patient(client, Duration::from_secs(SILENCE_SECONDS_MAX)),
    }
}

/// Returns the advice for a hung server.
fn standstill(pool: &PoolName) -> String {
    format!(
        "a server that hangs may be killed (-9): acknowledged writes are safe, and \
         `bulkhead pool-server {pool}` or its service manager starts it again"
    )
}
