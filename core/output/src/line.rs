//! Writes lines to a pipe, a terminal, a socket or a file, without blocking on the reader.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::retry_until::retry_until;

/// Bytes that a writable descriptor accepts without blocking: a pipe guarantees no more (PIPE_BUF).
const PIECE_BYTES: usize = 4096;
/// Limit of the buffer of unwritten lines, in addition to the kernel's buffer.
const LEFT_BYTES_MAX: usize = 64 << 10;

/// The lines to one descriptor: those not written yet, and the number of dropped ones.
#[derive(Debug, Default)]
pub struct Line {
    left: VecDeque<u8>,
    dropped: u64,
    untold: u64,
}

impl Line {
    /// Writes `text`, whole lines, to `to`, or buffers it, or drops it.
    pub fn write_line(&mut self, to: BorrowedFd<'_>, text: &[u8]) {
        self.flush(to);
        if self.untold > 0 && self.keep(notice(self.untold, text).as_bytes()) {
            self.untold = 0;
        }
        if self.untold > 0 || !self.keep(text) {
            self.dropped += 1;
            self.untold += 1;
        }
        self.flush(to);
    }

    /// Writes the buffered lines; returns whether the buffer is empty.
    pub fn flush(&mut self, to: BorrowedFd<'_>) -> bool {
        while !self.left.is_empty() && is_ready(to) {
            let (first, _) = self.left.as_slices();
            let piece = &first[..first.len().min(PIECE_BYTES)];
            match rustix::io::write(to, piece) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(count) => drop(self.left.drain(..count)),
                Err(Errno::INTR) => {}
                // The reader is gone.
                Err(_) => self.left.clear(),
            }
        }
        self.left.is_empty()
    }

    /// Number of dropped lines so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn keep(&mut self, text: &[u8]) -> bool {
        let fits = self.left.len() + text.len() <= LEFT_BYTES_MAX;
        if fits {
            self.left.extend(text);
        }
        fits
    }
}

/// Returns a notice about dropped lines, in the form of the following line.
fn notice(dropped: u64, next: &[u8]) -> String {
    let words = format!("{dropped} lines were dropped here, because they were not read");
    match next.starts_with(b"{") {
        true => format!("{{\"level\":\"WARN\",\"fields\":{{\"message\":\"{words}\"}}}}\n"),
        false => format!("({words})\n"),
    }
}

fn is_ready(to: BorrowedFd<'_>) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // A descriptor in error is ready: the write then reports the error.
    matches!(poll(&mut [PollFd::new(&to, PollFlags::OUT)], Some(&now)), Ok(count) if count > 0)
}

/// Opens the same pipe or terminal again, so that writes never block. Other processes share the original file
/// description, and are not affected.
pub(crate) fn reopened(number: i32) -> io::Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{number}");
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Writes a line to the descriptor `number`, which the caller received as an argument; `false` when its reader does not
/// read now. It opens its path in /proc, which needs no unsafe adoption of a number. A reader that is gone counts as
/// success.
///
/// # Errors
///
/// There is no such descriptor, or it cannot be written.
pub fn write_line(number: i32, line: &str) -> io::Result<bool> {
    let to = match reopened(number) {
        Ok(to) => to,
        // A named pipe without a reader.
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => return Ok(true),
        Err(error) => return Err(error),
    };
    if line.len() + 1 > PIECE_BYTES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    match rustix::io::write(to.as_fd(), format!("{line}\n").as_bytes()) {
        // Up to this size a write is atomic.
        Ok(_) | Err(Errno::PIPE) => Ok(true),
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Retries for up to `limit` while its reader does not read.
///
/// # Errors
///
/// As for [`write_line`].
pub fn write_until(number: i32, line: &'static str, limit: Duration) -> io::Result<()> {
    if !write_line(number, line)? {
        retry_until(line, limit, move || {
            write_line(number, line).unwrap_or(true)
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    fn pipe() -> (std::fs::File, OwnedFd) {
        let (from, to) = rustix::pipe::pipe().expect("a pipe");
        (from.into(), to)
    }

    fn numbered(count: u32) -> Vec<String> {
        (0..count)
            .map(|number| format!("line {number} of a log without a reader\n"))
            .collect()
    }

    /// Writes more than a descriptor and our buffer hold, then reads all of it: no write blocked, and each line arrived
    /// whole or is counted.
    fn overfill(to: &impl AsFd, mut from: impl Read) {
        let mut line = Line::default();
        let said = numbered(20_000);
        for one in &said {
            line.write_line(to.as_fd(), one.as_bytes());
        }
        assert!(line.dropped() > 1000, "{} were dropped", line.dropped());
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        while !line.flush(to.as_fd()) {
            let count = from.read(&mut buffer).expect("readable");
            heard.extend_from_slice(&buffer[..count]);
        }
        line.write_line(to.as_fd(), b"the last\n");
        while !heard.ends_with(b"the last\n") {
            line.flush(to.as_fd());
            let count = from.read(&mut buffer).expect("readable");
            heard.extend_from_slice(&buffer[..count]);
        }
        let heard = String::from_utf8(heard).expect("text");
        let whole = heard.lines().filter(|one| one.starts_with("line "));
        assert_eq!(whole.count() as u64 + line.dropped(), 20_000);
        let notice = notice(line.dropped(), b"");
        assert!(heard.ends_with(&format!("{notice}the last\n")), "{notice}");
        for (one, said) in heard.lines().zip(&said).take(500) {
            assert_eq!(one, said.trim_end());
        }
    }

    #[test]
    fn full_pipe_does_not_block_the_writer() {
        let (from, to) = pipe();
        overfill(&to, from);
    }

    #[test]
    fn full_socket_does_not_block_the_writer() {
        let (from, to) = UnixStream::pair().expect("a pair");
        overfill(&to, from);
    }

    #[test]
    fn closed_reader_is_no_error() {
        let (from, to) = pipe();
        drop(from);
        let mut line = Line::default();
        for one in numbered(20_000) {
            line.write_line(to.as_fd(), one.as_bytes());
        }
        assert_eq!(line.dropped(), 0);
        assert!(write_line(to.as_raw_fd(), "READY").expect("counts as delivered"));
    }

    #[test]
    fn dropped_lines_are_reported_in_the_log_format() {
        assert!(notice(7, b"2026-11-23 INFO x").starts_with("(7 lines"));
        let json = notice(7, b"{\"level\":\"INFO\"}");
        assert!(
            json.starts_with("{\"level\"") && json.ends_with("}}\n"),
            "{json}"
        );
    }

    #[test]
    fn full_pipe_is_distinguished_from_a_read_pipe() {
        let (mut from, to) = pipe();
        let mut count = 0;
        while write_line(to.as_raw_fd(), "READY").expect("said") {
            count += 1;
        }
        assert!(count > 1000, "{count}");
        let mut all = vec![0; 64 << 10];
        from.read_exact(&mut all[..6]).expect("readable");
        assert_eq!(&all[..6], b"READY\n");
        assert!(write_line(999_999, "READY").is_err());
    }
}
