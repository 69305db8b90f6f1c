//! A stream through a descriptor. Between reads or writes it checks whether the requester is still
//! connected, and reports progress.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use control::words;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Maximum interval between two checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Pause between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Reports the progress of a stream.
pub struct Meter<'a> {
    report: &'a mut dyn FnMut(&str),
    total: Option<u64>,
    began: Instant,
    reported: Instant,
    /// Bytes transferred by this process.
    pub bytes: u64,
    /// Bytes transferred before an interruption.
    before: u64,
}

impl<'a> Meter<'a> {
    /// Creates the meter of a stream of about `total` bytes, if known, of which `before` were
    /// transferred earlier.
    pub fn new(report: &'a mut dyn FnMut(&str), total: Option<u64>, before: u64) -> Self {
        let now = Instant::now();
        Self {
            report,
            total,
            began: now,
            reported: now,
            bytes: 0,
            before,
        }
    }

    /// Returns the duration.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// So many more.
    pub fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.look();
    }

    fn look(&mut self) {
        if self.reported.elapsed() >= REPORT_INTERVAL {
            self.reported = Instant::now();
            let text = progress(self.bytes, self.before, self.total, self.elapsed());
            (self.report)(&text);
        }
    }
}

/// `1.2G of 4.0G, 30%, 85M/s, 33 s left`
fn progress(bytes: u64, before: u64, total: Option<u64>, elapsed: Duration) -> String {
    let rate = (bytes as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
    let done = bytes + before;
    let Some(total) = total.filter(|total| *total > 0) else {
        return format!("{}, {}/s", words::bytes(done), words::bytes(rate));
    };
    // With an estimate that was too low, the progress must not exceed 100 %.
    let total = total.max(done);
    let percent = u128::from(done) * 100 / u128::from(total);
    let left = match rate {
        0 => String::new(),
        rate => format!(", {} left", duration((total - done) / rate)),
    };
    let (done, all) = (words::bytes(done), words::bytes(total));
    format!(
        "{done} of {all}, {percent}%, {}/s{left}",
        words::bytes(rate)
    )
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// The stream.
pub struct Stream<'a> {
    file: File,
    /// How far it is.
    pub meter: Meter<'a>,
    /// Why to stop, if there is a reason.
    stop: &'a dyn Fn() -> Option<&'static str>,
}

impl<'a> Stream<'a> {
    /// Reads or writes `descriptor` until `stop` has a reason not to.
    pub fn new(
        descriptor: OwnedFd,
        meter: Meter<'a>,
        stop: &'a dyn Fn() -> Option<&'static str>,
    ) -> Self {
        Self {
            file: File::from(descriptor),
            meter,
            stop,
        }
    }

    /// Blocks until the descriptor is ready or the transfer must stop.
    fn wait(&mut self, ready: PollFlags) -> io::Result<()> {
        let interval = Timespec::try_from(POLL_INTERVAL).expect("a fraction of a second");
        loop {
            if let Some(reason) = (self.stop)() {
                return Err(io::Error::other(reason));
            }
            let mut watched = [PollFd::new(&self.file, ready)];
            match poll(&mut watched, Some(&interval)) {
                Ok(0) => self.meter.look(),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.wait(PollFlags::IN)?;
        let count = self.file.read(bytes)?;
        self.meter.count(count);
        Ok(count)
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // More could block in a pipe beyond the next check.
        const ATOMIC_BYTES: usize = 64 << 10;
        self.wait(PollFlags::OUT)?;
        let count = self.file.write(&bytes[..bytes.len().min(ATOMIC_BYTES)])?;
        self.meter.count(count);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_amount_rate_and_remaining_time() {
        let second = Duration::from_secs(1);
        assert_eq!(progress(1 << 20, 0, None, second), "1M, 1M/s");
        assert_eq!(
            progress(1 << 20, 1 << 20, Some(4 << 20), second),
            "2M of 4M, 50%, 1M/s, 2 s left"
        );
        assert_eq!(progress(0, 0, Some(4 << 20), second), "0B of 4M, 0%, 0B/s");
        let more = progress(5 << 20, 0, Some(4 << 20), second);
        assert_eq!(more, "5M of 5M, 100%, 5M/s, 0 s left");
    }

    #[test]
    fn stop_reason_interrupts_a_blocked_read() {
        let (from, _to) = rustix::pipe::pipe().expect("a pipe");
        let stop = || Some("enough");
        let mut ignore = |_: &str| ();
        let meter = Meter::new(&mut ignore, None, 0);
        let mut stream = Stream::new(from, meter, &stop);
        let error = stream.read(&mut [0; 1]).expect_err("stopped");
        assert_eq!(error.to_string(), "enough");
    }
}
