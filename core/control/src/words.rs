//! Sizes, times and scans in words, for progress and for output.

use std::fmt::Write as _;

use units::ByteCount;

use crate::answer::{DeviceView, ScanView};
use crate::calendar::utc;

/// The beginning of the note on an online device that is being resilvered.
pub const RESILVERING: &str = "resilvering";
/// The beginning of the note on an online device that does not have all data, and is not being resilvered.
pub const OUTDATED: &str = "lacks data";

/// Whether a device is online and has all data of its group.
pub fn has_all_data(device: &DeviceView) -> bool {
    let note = device.note.as_deref().unwrap_or_default();
    device.state == "ONLINE"
        && ![RESILVERING, OUTDATED]
            .iter()
            .any(|begin| note.starts_with(begin))
}

/// The state of a device, with whether it has all data.
pub fn device_state(device: &DeviceView) -> String {
    let note = device.note.as_deref().unwrap_or_default();
    match device.state.as_str() {
        "ONLINE" if note.starts_with(RESILVERING) => "ONLINE, resilvering".to_owned(),
        "ONLINE" if note.starts_with(OUTDATED) => "ONLINE, outdated".to_owned(),
        state => state.to_owned(),
    }
}

/// A number of bytes, rounded for people.
pub fn bytes(count: u64) -> String {
    let count = ByteCount(count);
    // An exact number of kilobytes is harder to read than a rounded number of gigabytes.
    const UNITS: [(&str, u32); 5] = [("P", 50), ("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    for (name, shift) in UNITS {
        if count.get() >> shift > 0 {
            let value = count.get() as f64 / (1_u64 << shift) as f64;
            return match value.fract() == 0.0 || value >= 100.0 {
                true => format!("{value:.0}{name}"),
                false => format!("{value:.1}{name}"),
            };
        }
    }
    // A bare number could be anything.
    format!("{count}B")
}

/// One line about a scan.
pub fn scan_line(scan: &ScanView) -> String {
    let mut line = format!(
        "{} {}, {}%, {} repaired, {} errors",
        scan.function,
        scan.state,
        scan.percent(),
        bytes(scan.repaired),
        scan.errors
    );
    if let Some(seconds) = scan.remaining_s {
        let _ = write!(line, ", {} to go", duration(seconds));
    }
    if scan.ended > 0 && scan.state != "running" {
        let _ = write!(line, ", ended {}", utc(scan.ended));
    }
    line
}

/// Such as `1 h 20 min`.
pub fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_and_readable() {
        for (seconds, text) in [
            (0, "0 s"),
            (59, "59 s"),
            (61, "1 min 1 s"),
            (3600, "1 h 0 min"),
            (100_000, "27 h 46 min"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn scrub_line_shows_remaining_time_or_end_time() {
        let mut scan = ScanView {
            function: "scrub".to_owned(),
            state: "running".to_owned(),
            examined: 25,
            to_examine: 100,
            remaining_s: Some(90),
            ..ScanView::default()
        };
        assert_eq!(
            scan_line(&scan),
            "scrub running, 25%, 0B repaired, 0 errors, 1 min 30 s to go"
        );
        scan = ScanView {
            state: "finished".to_owned(),
            ended: 951_782_400,
            remaining_s: None,
            examined: 100,
            ..scan
        };
        assert!(scan_line(&scan).ends_with("ended 2000-02-29T00:00:00Z"));
    }
}
