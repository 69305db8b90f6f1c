//! The log on the standard error, and progress. Every thread writes it, so one stalled reader would block all of them.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags};

use crate::line::{Line, reopened};

/// Longest time for the last lines to be read before the process exits.
const END_WAIT: Duration = Duration::from_millis(500);
/// Polling interval for that.
const END_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The writer of the standard error.
#[derive(Debug)]
pub struct Log(Mutex<Line>);

static LOG: LazyLock<Log> = LazyLock::new(|| Log(Mutex::default()));

/// Returns the log of this process, which expects whole lines in each write.
pub fn log() -> &'static Log {
    &LOG
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes `text`, without blocking on the reader.
    pub fn write_line(&self, text: &str) {
        self.lock()
            .write_line(io::stderr().as_fd(), text.as_bytes());
    }

    /// Writes buffered lines; returns whether the buffer is empty.
    pub fn catch_up(&self) -> bool {
        self.lock().flush(io::stderr().as_fd())
    }

    /// The same before the process exits, with a short time for the reader.
    pub fn end(&self) {
        let deadline = Instant::now() + END_WAIT;
        while !self.catch_up() && Instant::now() < deadline {
            std::thread::sleep(END_POLL_INTERVAL);
        }
    }

    /// Returns the number of lines that were dropped because they were not read.
    pub fn dropped(&self) -> u64 {
        self.lock().dropped()
    }
}

impl Write for &Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.lock().write_line(io::stderr().as_fd(), text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Switches the standard error of this process to non-blocking writes for all writers in it. This includes the messages
/// of a panic and of assertions of the C library, which terminate a process that would otherwise hang. Files are
/// unchanged: a write to them depends on no reader.
pub fn set_log_nonblocking() {
    let stderr = io::stderr();
    let set = || -> io::Result<()> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&stderr)?.st_mode);
        match kind {
            FileType::RegularFile => Ok(()),
            // A socket cannot be opened again, but this end of it is ours.
            FileType::Socket => {
                let flags = rustix::fs::fcntl_getfl(&stderr)?;
                Ok(rustix::fs::fcntl_setfl(&stderr, flags | OFlags::NONBLOCK)?)
            }
            _ => {
                let anew = reopened(nix::libc::STDERR_FILENO)?;
                Ok(nix::unistd::dup2_stderr(anew)?)
            }
        }
    };
    if let Err(error) = set() {
        tracing::debug!(%error, "the standard error stays as it is");
    }
}
