//! Injects device faults for tests of the whole server: `--leg-faults FILE`. The file has a line for each device that
//! fails: `PATH read=eio write=eio flush=eio`, `PATH hang`, `PATH flush=hang`, `PATH write=enospc` (all but the labels,
//! as a file in a full file system), `PATH gone`, `PATH delay=MILLISECONDS`, or `PATH read-at=OFFSET+LENGTH` for each
//! unreadable range, in bytes. An empty file is a healthy pool. The file is read again after each change. `PATH
//! kill-after=STEPS` permits that many writes, discards and flushes, and kills the process instead of the next. The
//! number of steps of a device is reported when its line is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use zpool::device::faults::{Fault, Faults};

/// Polling interval of the file.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The faults that `file` names now, for a command, which is over soon.
pub fn once(file: &Path) -> Faults {
    let faults = Faults::new();
    look(file, &faults, &mut None, &mut BTreeSet::new());
    faults
}

/// Starts to apply `file`. The thread exits with the process.
pub fn obey(file: PathBuf, faults: Faults) -> std::io::Result<()> {
    let mut seen = None;
    let mut failing = BTreeSet::new();
    look(&file, &faults, &mut seen, &mut failing);
    std::thread::Builder::new()
        .name("leg-faults".into())
        .spawn(move || {
            loop {
                std::thread::sleep(POLL_INTERVAL);
                look(&file, &faults, &mut seen, &mut failing);
            }
        })?;
    Ok(())
}

fn look(
    file: &Path,
    faults: &Faults,
    seen: &mut Option<(SystemTime, u64)>,
    failing: &mut BTreeSet<PathBuf>,
) {
    let Ok(meta) = std::fs::metadata(file) else {
        return;
    };
    let now = meta.modified().ok().map(|time| (time, meta.len()));
    if now == *seen {
        return;
    }
    *seen = now;
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let wanted = parse(&text);
    let healthy = failing.iter().filter(|path| !wanted.contains_key(*path));
    let mut changes: BTreeMap<_, _> = healthy
        .map(|path| (path.clone(), Fault::default()))
        .collect();
    *failing = wanted.keys().cloned().collect();
    changes.extend(wanted);
    let steps: Vec<u64> = changes.keys().map(|path| faults.steps(path)).collect();
    faults.set_together(changes.clone());
    for ((path, fault), steps) in changes.iter().zip(steps) {
        if *fault == Fault::default() {
            tracing::warn!(path = %path.display(), steps, "device works again");
        } else {
            tracing::warn!(path = %path.display(), ?fault, "device fails on command");
        }
    }
}

fn parse(text: &str) -> BTreeMap<PathBuf, Fault> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let path = PathBuf::from(words.next()?);
        let mut fault = Fault::default();
        for word in words {
            match word {
                "read=eio" => fault.reads_fail = true,
                "write=eio" => fault.writes_fail = true,
                "write=enospc" => fault.data_has_no_space = true,
                "flush=eio" => fault.flushes_fail = true,
                "flush=hang" => fault.flushes_hang = true,
                "write=conflict" => fault.reserved_elsewhere = true,
                "read=corrupt" => fault.reads_corrupt = true,
                "hang" => fault.hangs = true,
                "gone" => fault.gone = true,
                other => match other.split_once('=').map(|(name, n)| (name, n, n.parse())) {
                    Some(("delay", _, Ok(delay_ms))) => {
                        fault.delay = Duration::from_millis(delay_ms)
                    }
                    Some(("kill-after", _, Ok(steps))) => fault.kill_after = Some(steps),
                    Some(("read-at", place, _)) if add_location(&mut fault, place).is_some() => {}
                    _ => tracing::error!(word = other, "no such fault of a device"),
                },
            }
        }
        Some((path, fault))
    };
    text.lines().filter_map(line).collect()
}

/// Adds an unreadable range, if the text is valid and the array has space.
fn add_location(fault: &mut Fault, place: &str) -> Option<()> {
    let (offset, length) = place.split_once('+')?;
    let (offset, length): (u64, u64) = (offset.parse().ok()?, length.parse().ok()?);
    offset.checked_add(length).filter(|_| length > 0)?;
    let mut free = fault.unreadable.iter_mut().filter(|(_, bytes)| *bytes == 0);
    *free.next()? = (offset, length);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_line_by_line() {
        let found = parse(
            "/a read=eio write=eio\n\n/b hang\n/e flush=hang\n/c kill-after=x\n/d delay=50 kill-after=7\n",
        );
        assert!(found[Path::new("/a")].reads_fail && found[Path::new("/a")].writes_fail);
        assert!(!found[Path::new("/a")].flushes_fail);
        assert!(found[Path::new("/b")].hangs);
        assert!(found[Path::new("/e")].flushes_hang && !found[Path::new("/e")].hangs);
        assert_eq!(found[Path::new("/c")], Fault::default());
        let delay = Duration::from_millis(50);
        assert_eq!(found[Path::new("/d")].delay, delay);
        assert_eq!(found[Path::new("/d")].kill_after, Some(7));
        let found = parse("/f read-at=512+1024 read-at=x+1 read-at=9+0 read-at=8192+512\n");
        let places = found[Path::new("/f")].unreadable;
        assert_eq!(places[..3], [(512, 1024), (8192, 512), (0, 0)]);
    }
}
