//! A separate process for each pool server, for tasks that the confined server cannot perform. It reads the key files
//! and passes on keys that are derived for one pool ([`operations::seals`]). It binds sockets at paths in the server's
//! directories: the server can create none, because it could connect them to other servers.
//!
//! A compromised server has the keys of its own pool's secrets, but neither Corosync's key nor the keys of other pools.
//!
//! Started before the server drops its privileges ([`pool_access::confine`]). It exits when the server does, because
//! its input is closed. If it exits first, the server continues with its current keys.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control::descriptor::{Receiving, Sending};
use control::{Failure, FailureKind};
use operations::seals::{Keeper, KeyFiles, PoolKeys, Stamp};
use output::signals;
use pool_access::common::Common;
use pool_access::confine;
use serde::{Deserialize, Serialize};

/// The subcommand that starts it.
pub const COMMAND: &str = "pool-keys";
/// Longest request or reply, in bytes: a reply holds at most 66 keys.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Longest wait for a reply, sized for a loaded host.
const REPLY_WAIT: Duration = Duration::from_secs(10);
/// Lower descriptors stay open in it: the connection to the server, the output and the log.
const FIRST_OTHER: i32 = 3;

/// A server's request.
#[derive(Serialize, Deserialize)]
enum Request {
    /// The last modification of the files.
    Stamp,
    /// The keys of the pool. Only the GUID of the first request is accepted.
    Derive { guid: u64, to_seal: bool },
    /// The directories in which sockets may be bound; any if `None`. Accepted once.
    Folders(Option<Vec<PathBuf>>),
    /// A socket at the path. The reply carries the descriptor.
    Bind(PathBuf),
}

/// The reply.
#[derive(Serialize, Deserialize)]
enum Reply {
    Stamp(Stamp),
    Keys(PoolKeys),
    Done,
    /// An error number of the system.
    Refused(i32),
    Failed(Failure),
}

/// Serves the pool server at the socket on standard input, until it is closed.
///
/// # Errors
///
/// The socket fails.
pub fn serve(common: &Common) -> Result<(), Failure> {
    crate::log_to_stderr(false);
    // The signals of the service manager are for the server.
    signals::block().map_err(Failure::of("block signals"))?;
    close_inherited();
    let settings = &common.settings;
    let files = KeyFiles::new(&settings.cluster_key, &settings.state_dir);
    confine::key_keeper();
    let mut pool = OnePool::new(files);
    let server = std::io::stdin().as_fd().try_clone_to_owned();
    let server = UnixStream::from(server.map_err(Failure::of("reach the server"))?);
    let mut input = BufReader::new(&server);
    loop {
        let request = match read_line(&mut input) {
            // The server has exited, with a reply unread.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            read => read.map_err(Failure::of("read a request"))?,
        };
        let Some(request) = request else {
            return Ok(());
        };
        let (reply, socket) = pool.reply(&request);
        let socket = socket.as_ref().map(OwnedFd::as_fd);
        match write_line(&server, socket, &reply) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            sent => sent.map_err(Failure::of("send a reply"))?,
        }
    }
}

/// The starter may wait until all holders of a passed descriptor have closed it.
fn close_inherited() {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number >= FIRST_OTHER)
        .collect();
    for number in numbers {
        // The descriptor of the listing itself is closed already.
        let _ = nix::unistd::close(number);
    }
}

/// The key files, for the first pool that a request names.
struct OnePool {
    files: KeyFiles,
    guid: Option<u64>,
    /// Allowed directories for sockets, once set.
    folders: Option<Option<Vec<PathBuf>>>,
}

impl OnePool {
    const fn new(files: KeyFiles) -> Self {
        Self {
            files,
            guid: None,
            folders: None,
        }
    }

    fn reply(&mut self, request: &[u8]) -> (Reply, Option<OwnedFd>) {
        let reply = match serde_json::from_slice(request) {
            Ok(Request::Bind(path)) => match self.bind(&path) {
                Ok(socket) => return (Reply::Done, Some(socket)),
                Err(error) => {
                    let denied = rustix::io::Errno::ACCESS.raw_os_error();
                    Reply::Refused(error.raw_os_error().unwrap_or(denied))
                }
            },
            Ok(Request::Folders(folders)) => {
                self.folders.get_or_insert(folders);
                Reply::Done
            }
            Ok(Request::Stamp) => Reply::Stamp(self.files.stamp()),
            Ok(Request::Derive { guid, to_seal }) => {
                let keys = match *self.guid.get_or_insert(guid) == guid {
                    true => self.files.derive(guid, to_seal),
                    false => Err(Failure::new(
                        FailureKind::Denied,
                        "the keys of another pool are not for this server",
                    )),
                };
                keys.map_or_else(Reply::Failed, Reply::Keys)
            }
            Err(error) => Reply::Failed(Failure::new(
                FailureKind::Usage,
                format!("no request for keys: {error}"),
            )),
        };
        (reply, None)
    }

    fn bind(&self, path: &Path) -> io::Result<OwnedFd> {
        let denied = || io::Error::from(ErrorKind::PermissionDenied);
        let parent = path.parent().ok_or_else(denied)?.canonicalize()?;
        // Sockets of rescued snapshots are one directory below.
        let is_it = |folder: &PathBuf| {
            let folder = folder.canonicalize();
            folder.is_ok_and(|one| one == parent || parent.parent() == Some(&one))
        };
        let is_inside = match &self.folders {
            None => false,
            Some(None) => true,
            Some(Some(folders)) => folders.iter().any(is_it),
        };
        match is_inside {
            // Not by the path that was sent, which the server could replace by a link.
            true => ::serving::bind_unix(&parent.join(path.file_name().ok_or_else(denied)?)),
            false => Err(denied()),
        }
    }
}

fn read_line(from: &mut impl std::io::BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(ErrorKind::InvalidData.into()),
    }
}

fn write_line(
    to: &UnixStream,
    descriptor: Option<BorrowedFd<'_>>,
    what: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    Sending::new(to, descriptor).write_all(&line)
}

/// The server's connection to it.
#[derive(Debug)]
pub struct Started(Mutex<State>);

#[derive(Debug)]
struct State {
    /// `None` after a failure: a later reply could belong to an earlier request.
    stream: Option<UnixStream>,
    /// The reply to the first request is still unread.
    owes_done: bool,
    stamp: Stamp,
    keys: Option<PoolKeys>,
}

impl Started {
    /// Starts it with the directories and files of this process. It binds sockets in `folders`, or anywhere.
    ///
    /// # Errors
    ///
    /// This binary cannot be started again.
    pub fn new(common: &Common, folders: Option<Vec<PathBuf>>) -> Result<Self, Failure> {
        let failed = Failure::of("start the process that reads the keys of secrets");
        let started = std::env::current_exe().and_then(|program| {
            let (near, far) = UnixStream::pair()?;
            let absolute =
                |folders: Vec<PathBuf>| folders.iter().map(std::path::absolute).collect();
            let folders = folders.map(absolute).transpose()?;
            Command::new(program)
                .arg(COMMAND)
                .args(common.as_options())
                .stdin(Stdio::from(OwnedFd::from(far)))
                .stdout(Stdio::null())
                .spawn()?;
            // Read when it has started.
            write_line(&near, None, &Request::Folders(folders))?;
            Ok(near)
        });
        Ok(Self(Mutex::new(State {
            stream: Some(started.map_err(failed)?),
            owes_done: true,
            stamp: Stamp::default(),
            keys: None,
        })))
    }

    /// A socket at `path`, in one of the directories.
    ///
    /// # Errors
    ///
    /// It cannot be bound, or the process has terminated.
    pub fn bind(&self, path: &Path) -> io::Result<OwnedFd> {
        let path = std::path::absolute(path)?;
        match self.lock().ask(&Request::Bind(path)) {
            Some((Reply::Done, Some(socket))) => Ok(socket),
            Some((Reply::Refused(number), _)) => Err(io::Error::from_raw_os_error(number)),
            _ => Err(io::Error::other(
                "the process that binds sockets has terminated",
            )),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn ask(&mut self, request: &Request) -> Option<(Reply, Option<OwnedFd>)> {
        let stream = self.stream.as_ref()?;
        let owed = match std::mem::take(&mut self.owes_done) {
            true => receive(stream).map(drop),
            false => Ok(()),
        };
        match owed.and_then(|()| exchange(stream, request)) {
            Ok(reply) => Some(reply),
            Err(error) => {
                tracing::error!(
                    %error,
                    "the process that reads the keys of secrets has terminated: restart this server before the key of the cluster is replaced, or a socket is added"
                );
                self.stream = None;
                None
            }
        }
    }
}

fn exchange(stream: &UnixStream, request: &Request) -> io::Result<(Reply, Option<OwnedFd>)> {
    write_line(stream, None, request)?;
    receive(stream)
}

fn receive(stream: &UnixStream) -> io::Result<(Reply, Option<OwnedFd>)> {
    // One reply follows each request, so that this buffer is empty at the end.
    let mut from = BufReader::new(Receiving::until(stream, Instant::now() + REPLY_WAIT));
    let line = read_line(&mut from)?.ok_or(ErrorKind::UnexpectedEof)?;
    let reply = serde_json::from_slice(&line)?;
    Ok((reply, from.into_inner().descriptor))
}

impl Keeper for Started {
    fn derive(&self, guid: u64, to_seal: bool) -> Result<PoolKeys, Failure> {
        let mut state = self.lock();
        match state.ask(&Request::Derive { guid, to_seal }) {
            Some((Reply::Keys(keys), _)) => Ok(state.keys.insert(keys).clone()),
            Some((Reply::Failed(failure), _)) => Err(failure),
            _ => state.keys.clone().ok_or_else(|| {
                Failure::new(
                    FailureKind::Failed,
                    "the process that reads the keys of secrets has terminated",
                )
                .advise("restart the pool's server")
            }),
        }
    }

    fn stamp(&self) -> Stamp {
        let mut state = self.lock();
        if let Some((Reply::Stamp(stamp), _)) = state.ask(&Request::Stamp) {
            state.stamp = stamp;
        }
        state.stamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_keeper_serves_keys_of_one_pool_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = KeyFiles::new(&folder.path().join("authkey"), folder.path());
        std::fs::write(folder.path().join("authkey"), [1; 128]).expect("a key");
        let mut pool = OnePool::new(files);
        let mut derive = |guid| {
            let request = Request::Derive {
                guid,
                to_seal: false,
            };
            pool.reply(&serde_json::to_vec(&request).expect("JSON")).0
        };
        assert!(matches!(derive(1), Reply::Keys(_)));
        assert!(matches!(derive(2), Reply::Failed(_)));
        let Reply::Keys(keys) = derive(1) else {
            panic!("the first pool stays");
        };
        let sent = serde_json::to_string(&keys).expect("JSON");
        assert!(!sent.contains("1,1,1,1"), "not the key itself: {sent}");
        // Sockets: refused until the directories are set, then in these only.
        let ask = |pool: &mut OnePool, request: &Request| {
            pool.reply(&serde_json::to_vec(request).expect("JSON"))
        };
        let inside = Request::Bind(folder.path().join("socket"));
        assert!(matches!(ask(&mut pool, &inside), (Reply::Refused(_), None)));
        let here = Request::Folders(Some(vec![folder.path().to_owned()]));
        ask(&mut pool, &here);
        ask(&mut pool, &Request::Folders(None));
        assert!(matches!(ask(&mut pool, &inside), (Reply::Done, Some(_))));
        std::fs::create_dir(folder.path().join("other")).expect("made");
        let below = Request::Bind(folder.path().join("other/socket"));
        assert!(matches!(ask(&mut pool, &below), (Reply::Done, Some(_))));
        std::fs::create_dir(folder.path().join("other/deep")).expect("made");
        for outside in ["other/deep/socket", "other/../../socket"] {
            let outside = Request::Bind(folder.path().join(outside));
            assert!(matches!(
                ask(&mut pool, &outside),
                (Reply::Refused(_), None)
            ));
        }
        assert!(matches!(pool.reply(b"{}\n").0, Reply::Failed(_)));
    }
}
