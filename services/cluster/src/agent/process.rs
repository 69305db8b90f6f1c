//! The server's process, which later runs of the agent find by a record of its process number and start time: a number
//! alone may be reused.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use units::PoolName;

/// The line with which a server reports that it has claimed the pool, before it opens it: clients may connect. Any
/// other line reports that it serves.
pub const CLAIMED_LINE: &str = "CLAIMED";
/// Longest output of a server, in bytes.
const REPORT_BYTES_MAX: usize = 256;

/// A report of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerReport {
    /// [`CLAIMED_LINE`].
    Claimed,
    /// It serves.
    Ready,
}

/// The record of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    pid: i32,
    /// Its start time, in clock ticks since boot (proc(5), `/proc/pid/stat`, field 22).
    started_ticks: u64,
    /// Whether it has served. Until then a missing response is no failure.
    #[serde(default)]
    has_served: bool,
    /// Whether it reported that it has exported the pool. Its exit may take a while, because the kernel frees its
    /// memory.
    #[serde(default)]
    has_let_go: bool,
    /// The disks of the appliance file at its start. It may have them open although the file no longer lists them.
    #[serde(default)]
    disks: Vec<PathBuf>,
}

/// Why a server was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The process did not start.
    #[error("start the server: {0}")]
    Spawn(std::io::Error),
    /// Its record could not be written, so it was killed again.
    #[error("note the server's process in {path}: {source}")]
    Note {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// The server process of one pool.
#[derive(Debug)]
pub struct ServerProcess {
    note_path: PathBuf,
    words: Option<ChildStdout>,
    /// Output that is read but not yet processed.
    said: Vec<u8>,
}

impl ServerProcess {
    /// The server of `pool`, with its record in `run_dir`.
    pub fn new(run_dir: &Path, pool: &PoolName) -> Self {
        Self::noted_in(Self::note_path(run_dir, pool))
    }

    /// Whether the record in that file is of the running process `pid`.
    pub fn is_noted(note_path: &Path, pid: u32) -> bool {
        let note = std::fs::read(note_path).ok();
        let note: Option<Note> = note.and_then(|text| serde_json::from_slice(&text).ok());
        let is_same = |note: Note| {
            u32::try_from(note.pid) == Ok(pid)
                && started_ticks(note.pid).is_ok_and(|ticks| ticks == Some(note.started_ticks))
        };
        note.is_some_and(is_same)
    }

    /// The file that records the server of `pool`.
    pub fn note_path(run_dir: &Path, pool: &PoolName) -> PathBuf {
        run_dir.join(format!("{pool}.agent.json"))
    }

    /// Another process, recorded in that file.
    pub(super) const fn noted_in(note_path: PathBuf) -> Self {
        Self {
            note_path,
            words: None,
            said: Vec::new(),
        }
    }

    /// Whether this run of the agent started it.
    pub const fn was_started_here(&self) -> bool {
        self.words.is_some()
    }

    /// Starts the server of a pool on `disks`, detached from the agent and from its process group.
    ///
    /// # Errors
    ///
    /// It does not start, or its record could not be written.
    pub fn start(&mut self, mut command: Command, disks: &[PathBuf]) -> Result<(), StartError> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(StartError::Spawn)?;
        if let Err(source) = self.write_record(child.id(), disks) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(StartError::Note {
                path: self.note_path.clone(),
                source,
            });
        }
        self.words = child.stdout.take();
        Ok(())
    }

    fn write_record(&self, pid: u32, disks: &[PathBuf]) -> std::io::Result<()> {
        let pid = i32::try_from(pid).map_err(std::io::Error::other)?;
        let gone = || std::io::Error::other("it ended at once");
        self.write(&Note {
            pid,
            started_ticks: started_ticks(pid)?.ok_or_else(gone)?,
            has_served: false,
            has_let_go: false,
            disks: disks.to_vec(),
        })
    }

    fn write(&self, note: &Note) -> std::io::Result<()> {
        let folder = self.note_path.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(folder)?;
        let new = self.note_path.with_extension("new");
        std::fs::write(&new, serde_json::to_vec(note)?)?;
        std::fs::rename(new, &self.note_path)
    }

    /// Records a process that was started without this agent as the server of this pool, on `disks`.
    ///
    /// # Errors
    ///
    /// The record cannot be written.
    pub fn adopt(&self, pid: i32, has_served: bool, disks: Vec<PathBuf>) -> Result<(), String> {
        let failed = |error: std::io::Error| {
            let path = self.note_path.display();
            format!("note the server's process in {path}: {error}")
        };
        // A process that has terminated is ignored.
        let Some(started_ticks) = started_ticks(pid).map_err(failed)? else {
            return Ok(());
        };
        let note = Note {
            pid,
            started_ticks,
            has_served,
            has_let_go: false,
            disks,
        };
        self.write(&note).map_err(failed)
    }

    /// Whether the recorded server was never seen to serve.
    ///
    /// # Errors
    ///
    /// The record cannot be read.
    pub fn is_starting(&self) -> Result<bool, String> {
        Ok(self.note()?.is_some_and(|note| !note.has_served))
    }

    /// Whether the recorded server has exported the pool and is about to exit.
    ///
    /// # Errors
    ///
    /// The state cannot be determined.
    pub fn has_let_go(&self) -> Result<bool, String> {
        let has_let_go = self.note()?.is_some_and(|note| note.has_let_go);
        Ok(has_let_go && self.is_alive()?)
    }

    /// The disks of the last server; `None` if there was none since this host booted.
    ///
    /// # Errors
    ///
    /// The record cannot be read.
    pub fn disks(&self) -> Result<Option<Vec<PathBuf>>, String> {
        Ok(self.note()?.map(|note| note.disks))
    }

    /// Records that the server reported the export of the pool.
    ///
    /// # Errors
    ///
    /// The record cannot be written, so a later run would treat it as a server that hangs.
    pub fn record_release(&self) -> Result<(), String> {
        self.change(|note| note.has_let_go = true)
    }

    fn record_served(&self) -> Result<(), String> {
        self.change(|note| note.has_served = true)
    }

    fn change(&self, change: impl FnOnce(&mut Note)) -> Result<(), String> {
        let Some(mut note) = self.note()? else {
            return Ok(());
        };
        change(&mut note);
        self.write(&note).map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, error: &dyn std::fmt::Display) -> String {
        format!("find the server by {}: {error}", self.note_path.display())
    }

    fn note(&self) -> Result<Option<Note>, String> {
        match std::fs::read(&self.note_path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(note) => Ok(Some(note)),
                Err(error) => Err(self.unreadable(&error)),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unreadable(&error)),
        }
    }

    /// Blocks until the next line of the server.
    ///
    /// # Errors
    ///
    /// It exits first, or the deadline passes.
    pub fn await_report(&mut self, deadline: Instant) -> Result<ServerReport, String> {
        loop {
            if let Some(end) = self.said.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.said.drain(..=end).collect();
                if line.trim_ascii_end() == CLAIMED_LINE.as_bytes() {
                    return Ok(ServerReport::Claimed);
                }
                return self.record_served().map(|()| ServerReport::Ready);
            }
            if self.said.len() > REPORT_BYTES_MAX {
                return Err("the server reports an unknown state".to_owned());
            }
            let Some(words) = &mut self.words else {
                return Err("the server was not started here".to_owned());
            };
            if !wait_readable(words, deadline).map_err(|error| error.to_string())? {
                return Err("the server did not serve in time".to_owned());
            }
            let mut bytes = [0; REPORT_BYTES_MAX];
            match words.read(&mut bytes) {
                Ok(0) => return Err("the server ended before it served; see its log".to_owned()),
                Ok(count) => self.said.extend_from_slice(&bytes[..count]),
                Err(error) => return Err(format!("listen to the server: {error}")),
            }
        }
    }

    /// Whether the recorded process is alive. A process that has freed its memory but is blocked on a device counts as
    /// alive. After its exit, requests may still be active in the kernel.
    ///
    /// # Errors
    ///
    /// The state cannot be determined.
    pub fn is_alive(&self) -> Result<bool, String> {
        Ok(self.handle()?.is_some_and(|handle| !has_ended(&handle)))
    }

    /// Blocks until the process is gone; false if it is not by the deadline.
    ///
    /// # Errors
    ///
    /// The state cannot be determined.
    pub fn await_end(&self, deadline: Instant) -> Result<bool, String> {
        match self.handle()? {
            Some(handle) => wait_readable(&handle, deadline).map_err(|error| error.to_string()),
            None => Ok(true),
        }
    }

    /// Kills the process and blocks until its exit. Its requests in the kernel may outlive it: those of io_uring do.
    ///
    /// # Errors
    ///
    /// It still exists at the deadline: it is blocked on a device.
    pub fn kill(&self, deadline: Instant) -> Result<(), String> {
        let Some(handle) = self.handle()? else {
            return Ok(());
        };
        match pidfd_send_signal(&handle, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(format!("kill the server: {error}")),
        }
        match wait_readable(&handle, deadline) {
            Ok(true) => Ok(()),
            Ok(false) => Err("the killed server is still blocked on a device".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A handle on the recorded process, if the number still belongs to it.
    fn handle(&self) -> Result<Option<OwnedFd>, String> {
        let failed = |error: &dyn std::fmt::Display| self.unreadable(error);
        let Some(note) = self.note()? else {
            return Ok(None);
        };
        let Some(pid) = Pid::from_raw(note.pid) else {
            return Err(failed(&"no number of a process"));
        };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::SRCH) => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        // Checked after the handle was opened, so that the number cannot be reused in between.
        let now = started_ticks(note.pid).map_err(|error| failed(&error))?;
        Ok((now == Some(note.started_ticks)).then_some(handle))
    }
}

/// The start time of a process, in clock ticks since boot; `None` if it does not exist.
///
/// # Errors
///
/// `/proc` cannot be read.
pub fn started_ticks(pid: i32) -> std::io::Result<Option<u64>> {
    let text = match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // The process terminated concurrently.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    // The name, in parentheses, may contain any character; field 3 follows it.
    let after_name = text
        .rsplit_once(')')
        .map(|(_, rest)| rest)
        .unwrap_or_default();
    let ticks = after_name.split_whitespace().nth(19);
    ticks
        .and_then(|ticks| ticks.parse().ok())
        .map(Some)
        .ok_or_else(|| std::io::Error::other("no start time in /proc"))
}

fn has_ended(handle: &OwnedFd) -> bool {
    wait_readable(handle, Instant::now()).unwrap_or(false)
}

/// Whether the descriptor becomes readable (a process: terminated) before the deadline.
fn wait_readable(fd: &impl std::os::fd::AsFd, deadline: Instant) -> std::io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = timespec(left);
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)) {
            Ok(count) => return Ok(count > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
