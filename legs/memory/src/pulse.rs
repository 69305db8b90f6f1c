//! Detects whether the leg-server was frozen. Two heads without a witness: a frozen head may have been considered
//! off, so messages received before the freeze do not count.
//!
//! The leg-server writes a beat to the file `pulse`. Processes that rely on its received messages check the file before
//! each step.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use leg_record::codec::Reader;
use rustix::time::{ClockId, clock_gettime};
use takeover::budget::FREEZE;

/// Time of the beat in milliseconds since boot, and the number of freezes.
const BYTES: usize = 16;

/// Time since boot, including suspend.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Detects freezes of the own process.
#[derive(Debug)]
pub struct Awake {
    last: Duration,
}

impl Awake {
    /// Starts now.
    #[allow(clippy::new_without_default, reason = "it reads the clock")]
    pub fn new() -> Self {
        Self { last: now() }
    }

    /// Whether this process did not run for [`FREEZE`] since the last call. Must be called more often than that.
    pub fn was_frozen(&mut self) -> bool {
        self.was_frozen_at(now())
    }

    fn was_frozen_at(&mut self, now: Duration) -> bool {
        let last = std::mem::replace(&mut self.last, now);
        now.saturating_sub(last) >= FREEZE
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Beat {
    at_ms: u64,
    freezes: u64,
}

fn open(folder: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.join("pulse"))
}

fn read(file: &File) -> Option<Beat> {
    let mut bytes = [0; BYTES];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let mut reader = Reader::new(&bytes);
    Some(Beat {
        at_ms: reader.number().ok()?,
        freezes: reader.number().ok()?,
    })
}

/// Writer of the beats.
#[derive(Debug)]
pub struct Heart {
    file: File,
    freezes: u64,
}

impl Heart {
    /// Starts the beats. The start counts as a freeze for readers.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn begin(folder: &Path) -> io::Result<Self> {
        let file = open(folder)?;
        let freezes = read(&file).unwrap_or_default().freezes;
        let mut heart = Self { file, freezes };
        heart.froze()?;
        Ok(heart)
    }

    /// Writes a beat.
    ///
    /// # Errors
    ///
    /// An I/O error. Readers detect a freeze then.
    pub fn beat(&self) -> io::Result<()> {
        self.beat_at(now())
    }

    /// Reports that this process was frozen. State received before must be removed first.
    ///
    /// # Errors
    ///
    /// As [`beat`](Self::beat).
    pub fn froze(&mut self) -> io::Result<()> {
        tracing::debug!("the beats restart: earlier messages do not count");
        self.freezes = self.freezes.wrapping_add(1);
        self.beat()
    }

    fn beat_at(&self, now: Duration) -> io::Result<()> {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&(now.as_millis() as u64).to_le_bytes());
        bytes[8..].copy_from_slice(&self.freezes.to_le_bytes());
        self.file.write_all_at(&bytes, 0)
    }
}

/// Reader of the beats in another process of the host.
#[derive(Debug)]
pub struct Pulse {
    file: File,
    own: Awake,
    freezes: u64,
    is_steady: bool,
}

impl Pulse {
    /// Opens the file of the leg-server's directory.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn inspect(folder: &Path) -> io::Result<Self> {
        let file = open(folder)?;
        Ok(Self {
            freezes: read(&file).unwrap_or_default().freezes,
            file,
            own: Awake::new(),
            is_steady: false,
        })
    }

    /// Whether this process or the leg-server was frozen since the last call: earlier messages do not count
    /// any more. Also true once when the leg-server runs again.
    pub fn was_frozen(&mut self) -> bool {
        self.was_frozen_at(now())
    }

    fn was_frozen_at(&mut self, now: Duration) -> bool {
        let beat = read(&self.file).unwrap_or_default();
        let age = now.checked_sub(Duration::from_millis(beat.at_ms));
        let was_steady =
            std::mem::replace(&mut self.is_steady, age.is_some_and(|age| age < FREEZE));
        let is_new = std::mem::replace(&mut self.freezes, beat.freezes) != beat.freezes;
        self.own.was_frozen_at(now) || is_new || was_steady != self.is_steady
    }

    /// Whether the leg-server ran at the last check.
    pub fn is_steady(&self) -> bool {
        self.is_steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalled_or_restarted_process_is_detected_once() {
        let folder = tempfile::tempdir().expect("folder");
        let mut heart = Heart::begin(folder.path()).expect("begun");
        let mut pulse = Pulse::inspect(folder.path()).expect("opened");
        let begun = now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        heart.beat_at(at(0)).expect("written");
        assert!(pulse.was_frozen_at(at(1)), "nothing was known before");
        assert!(!pulse.was_frozen_at(at(2)));
        // It is frozen. The reader continues to check.
        let ends = FREEZE.as_millis() as u64;
        let noticed = (1..=ends).filter(|ms| pulse.was_frozen_at(at(2 + ms)));
        assert_eq!(noticed.count(), 1);
        assert!(!pulse.is_steady());
        heart.beat_at(at(ends + 3)).expect("written");
        assert!(pulse.was_frozen_at(at(ends + 3)), "it goes on");
        assert!(pulse.is_steady() && !pulse.was_frozen_at(at(ends + 4)));
        // It detected the freeze itself, before a check.
        heart.freezes += 1;
        heart.beat_at(at(ends + 5)).expect("written");
        assert!(pulse.was_frozen_at(at(ends + 6)));
        assert!(!pulse.was_frozen_at(at(ends + 7)));
        // The reader itself was frozen.
        heart.beat_at(at(2 * ends + 7)).expect("written");
        assert!(pulse.was_frozen_at(at(2 * ends + 7)));
        drop(Heart::begin(folder.path()).expect("anew"));
        assert!(pulse.was_frozen());
    }

    #[test]
    fn rebooted_host_has_no_earlier_pulse() {
        let folder = tempfile::tempdir().expect("folder");
        let heart = Heart::begin(folder.path()).expect("begun");
        heart
            .beat_at(now() + Duration::from_secs(3600))
            .expect("written");
        let mut pulse = Pulse::inspect(folder.path()).expect("opened");
        pulse.was_frozen();
        assert!(!pulse.is_steady());
    }

    #[test]
    fn a_pause_is_a_freeze_if_it_is_long() {
        let mut awake = Awake::new();
        let begun = awake.last;
        assert!(!awake.was_frozen_at(begun + FREEZE / 2));
        assert!(!awake.was_frozen_at(begun + FREEZE));
        assert!(awake.was_frozen_at(begun + FREEZE * 2));
    }
}
