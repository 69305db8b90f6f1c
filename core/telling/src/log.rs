//! The log on the standard error, and progress. Every thread writes it, so one reader that stands still would stop all of them.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, OFlags};

use crate::line::{Line, opened_anew};

/// Longest time for the last lines to be taken before the process ends.
const END_WAIT: Duration = Duration::from_millis(500);
/// Pause between two looks at whether they are.
const END_LOOK: Duration = Duration::from_millis(10);

/// What is written to the standard error.
#[derive(Debug)]
pub struct Log(Mutex<Line>);

static LOG: LazyLock<Log> = LazyLock::new(|| Log(Mutex::default()));

/// The log of this process, which takes whole lines with each write.
pub fn log() -> &'static Log {
    &LOG
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says `text`, as far as somebody reads.
    pub fn say(&self, text: &str) {
        self.lock().say(io::stderr().as_fd(), text.as_bytes());
    }

    /// Gives what was kept to whoever reads now; whether nothing is left.
    pub fn catch_up(&self) -> bool {
        self.lock().flush(io::stderr().as_fd())
    }

    /// The same before the process ends, for which a reader has a moment's time.
    pub fn end(&self) {
        let deadline = Instant::now() + END_WAIT;
        while !self.catch_up() && Instant::now() < deadline {
            std::thread::sleep(END_LOOK);
        }
    }

    /// How many lines were dropped because nobody read them.
    pub fn dropped(&self) -> u64 {
        self.lock().dropped()
    }
}

impl Write for &Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.lock().say(io::stderr().as_fd(), text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes the standard error of this process one that never lets a writer wait, whoever in it writes: the words of a panic
/// and of the C library's assertions as well, which end a process that would stand still otherwise. Files are as they
/// were: nobody reads them who could be waited for.
pub fn never_wait_for_the_log() {
    let stderr = io::stderr();
    let set = || -> io::Result<()> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&stderr)?.st_mode);
        match kind {
            FileType::RegularFile => Ok(()),
            // Nobody can open it anew, but this end of it is ours.
            FileType::Socket => {
                let flags = rustix::fs::fcntl_getfl(&stderr)?;
                Ok(rustix::fs::fcntl_setfl(&stderr, flags | OFlags::NONBLOCK)?)
            }
            _ => {
                let anew = opened_anew(nix::libc::STDERR_FILENO)?;
                Ok(nix::unistd::dup2_stderr(anew)?)
            }
        }
    };
    if let Err(error) = set() {
        tracing::debug!(%error, "the standard error stays as it is");
    }
}
