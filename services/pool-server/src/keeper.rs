//! A process of its own beside each pool server that reads the files of keys, so that the server never can: it hands over keys that are
//! derived for one pool ([`operations::seals`]). A server that is taken over by a client has the keys of its own pool's secrets, which it
//! shows its clients anyway, and neither Corosync's key nor those of other pools.
//!
//! Started before the server gives up its rights ([`pool_access::confine`]). It ends with the server: its input ends then. If it ends
//! first, the server goes on with the keys that it has.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::os::fd::AsFd as _;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control::{Failure, FailureKind};
use operations::seals::{Keeper, KeyFiles, PoolKeys, Stamp};
use pool_access::common::Common;
use pool_access::confine;
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};
use telling::signals;

/// The word of the command line that starts it.
pub const COMMAND: &str = "pool-keys";
/// Longest request or reply, in bytes: a reply holds at most 66 keys.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Longest wait for a reply, on a machine with much else to do.
const REPLY_WAIT: Duration = Duration::from_secs(10);
/// Descriptors below this stay open in it: input, output and log.
const FIRST_OTHER: i32 = 3;

/// What a server sends.
#[derive(Serialize, Deserialize)]
enum Request {
    /// When the files were changed last.
    Stamp,
    /// The keys of the pool. The first GUID is the only one.
    Derive { guid: u64, to_seal: bool },
}

/// What it receives.
#[derive(Serialize, Deserialize)]
enum Reply {
    Stamp(Stamp),
    Keys(PoolKeys),
    Failed(Failure),
}

/// Reads files of keys for the server at its input and output, until that ends.
///
/// # Errors
///
/// The input or output fails.
pub fn serve(common: &Common) -> Result<(), Failure> {
    crate::log_to_stderr(false);
    // Those of the service manager are for the server.
    signals::block().map_err(Failure::of("block signals"))?;
    close_inherited();
    let settings = &common.settings;
    let files = KeyFiles::new(&settings.cluster_key, &settings.state_dir);
    confine::key_keeper();
    let mut pool = OnePool { files, guid: None };
    let mut input = BufReader::new(std::io::stdin().lock());
    let mut output = std::io::stdout().lock();
    loop {
        let Some(request) = read_line(&mut input).map_err(Failure::of("read a request"))? else {
            return Ok(());
        };
        let reply = pool.reply(&request);
        let sent = write_line(&mut output, &reply);
        match sent {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            sent => sent.map_err(Failure::of("send a reply"))?,
        }
    }
}

/// The server's starter may wait until each holder of a descriptor that it passed has closed it.
fn close_inherited() {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let numbers: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| *number >= FIRST_OTHER)
        .collect();
    for number in numbers {
        // The one that listed them is closed already.
        let _ = nix::unistd::close(number);
    }
}

/// The files, for the first pool that is named.
struct OnePool {
    files: KeyFiles,
    guid: Option<u64>,
}

impl OnePool {
    fn reply(&mut self, request: &[u8]) -> Reply {
        match serde_json::from_slice(request) {
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

fn write_line(to: &mut impl std::io::Write, what: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// A server's way to it.
#[derive(Debug)]
pub struct Started(Mutex<State>);

#[derive(Debug)]
struct State {
    /// None once it has failed: what it sends later may belong to a former request.
    ends: Option<(ChildStdin, BufReader<ChildStdout>)>,
    stamp: Stamp,
    keys: Option<PoolKeys>,
}

impl Started {
    /// Starts it, with the folders and files of this process.
    ///
    /// # Errors
    ///
    /// This program cannot be started again.
    pub fn new(common: &Common) -> Result<Self, Failure> {
        let failed = Failure::of("start the process that reads the keys of secrets");
        let started = std::env::current_exe().and_then(|program| {
            Command::new(program)
                .arg(COMMAND)
                .args(common.as_options())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
        });
        let mut child = started.map_err(failed)?;
        let ends = child.stdin.take().zip(child.stdout.take());
        Ok(Self(Mutex::new(State {
            ends: ends.map(|(to, from)| (to, BufReader::new(from))),
            stamp: Stamp::default(),
            keys: None,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn ask(&mut self, request: &Request) -> Option<Reply> {
        let ends = self.ends.as_mut()?;
        match exchange(ends, request) {
            Ok(reply) => Some(reply),
            Err(error) => {
                tracing::error!(
                    %error,
                    "the process that reads the keys of secrets has ended: secrets stay sealed with the present key until this server is restarted"
                );
                self.ends = None;
                None
            }
        }
    }
}

fn exchange(
    (to, from): &mut (ChildStdin, BufReader<ChildStdout>),
    request: &Request,
) -> std::io::Result<Reply> {
    write_line(to, request)?;
    let wait = rustix::event::Timespec {
        tv_sec: REPLY_WAIT.as_secs() as i64,
        tv_nsec: 0,
    };
    let output = from.get_ref().as_fd();
    let mut wanted = [PollFd::new(&output, PollFlags::IN)];
    if rustix::io::retry_on_intr(|| poll(&mut wanted, Some(&wait)))? == 0 {
        return Err(ErrorKind::TimedOut.into());
    }
    let line = read_line(from)?.ok_or(ErrorKind::UnexpectedEof)?;
    Ok(serde_json::from_slice(&line)?)
}

impl Keeper for Started {
    fn derive(&self, guid: u64, to_seal: bool) -> Result<PoolKeys, Failure> {
        let mut state = self.lock();
        match state.ask(&Request::Derive { guid, to_seal }) {
            Some(Reply::Keys(keys)) => Ok(state.keys.insert(keys).clone()),
            Some(Reply::Failed(failure)) => Err(failure),
            Some(Reply::Stamp(_)) | None => state.keys.clone().ok_or_else(|| {
                Failure::new(
                    FailureKind::Failed,
                    "the process that reads the keys of secrets has ended",
                )
                .advise("restart the pool's server")
            }),
        }
    }

    fn stamp(&self) -> Stamp {
        let mut state = self.lock();
        if let Some(Reply::Stamp(stamp)) = state.ask(&Request::Stamp) {
            state.stamp = stamp;
        }
        state.stamp
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_one_pool_only_are_handed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = KeyFiles::new(&folder.path().join("authkey"), folder.path());
        std::fs::write(folder.path().join("authkey"), [1; 128]).expect("a key");
        let mut pool = OnePool { files, guid: None };
        let mut derive = |guid| {
            let request = Request::Derive {
                guid,
                to_seal: false,
            };
            pool.reply(&serde_json::to_vec(&request).expect("JSON"))
        };
        assert!(matches!(derive(1), Reply::Keys(_)));
        assert!(matches!(derive(2), Reply::Failed(_)));
        let Reply::Keys(keys) = derive(1) else {
            panic!("the first pool stays");
        };
        let sent = serde_json::to_string(&keys).expect("JSON");
        assert!(!sent.contains("1,1,1,1"), "not the key itself: {sent}");
        assert!(matches!(pool.reply(b"{}\n"), Reply::Failed(_)));
    }
}
