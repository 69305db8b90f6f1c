//! Watches which processes have a pool's disks open for writing. Two pool servers with disks of one
//! pool at the same time are a double import, regardless of their logs: the same disk, or legs on
//! different heads.

use drill_verdict::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between two scans.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A server that finds the disks locked has them open briefly; a server that imports the pool holds
/// them.
const POLLS_MIN: u32 = 3;
/// A process executes another binary only at its start; after this number of scans its kind is
/// final.
const NEW_PROCESS_POLLS: u32 = 25;
/// How many findings are kept between two questions.
const FINDINGS_MAX: usize = 20;

/// A file, whatever it is called in which namespace.
type FileId = (u64, u64);

/// Scans until it is dropped.
pub struct Watch {
    stop: Arc<AtomicBool>,
    found: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins to watch the pool on `disks`.
    ///
    /// # Errors
    ///
    /// A disk is not there, or there is no thread.
    pub fn start(disks: &[PathBuf]) -> std::io::Result<Self> {
        let disks = ids(disks)?;
        let stop = Arc::new(AtomicBool::new(false));
        let found = Arc::new(Mutex::new(Vec::new()));
        let (thread_stop, thread_found) = (Arc::clone(&stop), Arc::clone(&found));
        let thread = std::thread::Builder::new()
            .name("owners".into())
            .spawn(move || {
                let mut servers = Servers::default();
                let mut couples = ProcessPairs::default();
                while !thread_stop.load(Ordering::Relaxed) {
                    let owners = servers.owners(Path::new("/proc"), &disks);
                    let mut found = thread_found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.extend(couples.take(&owners, Timestamp::now()));
                    found.truncate(FINDINGS_MAX);
                    drop(found);
                    std::thread::sleep(POLL_INTERVAL);
                }
            })?;
        Ok(Self {
            stop,
            found,
            thread: Some(thread),
        })
    }

    /// Inherits the findings of the watch that this one replaces.
    pub fn follow(&self, other: &Self) {
        let before = other.findings();
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.extend(before);
    }

    /// The findings since the last call.
    pub fn findings(&self) -> Vec<String> {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has no results except those in `found`.
            let _ = thread.join();
        }
    }
}

fn ids(disks: &[PathBuf]) -> std::io::Result<BTreeSet<FileId>> {
    let id = |disk: &PathBuf| std::fs::metadata(disk).map(|meta| (meta.dev(), meta.ino()));
    disks.iter().map(id).collect()
}

/// The pool servers that have some of `disks` open for writing now.
///
/// # Errors
///
/// A disk is not there.
pub fn owners_now(disks: &[PathBuf]) -> std::io::Result<BTreeSet<i32>> {
    Ok(Servers::default().owners(Path::new("/proc"), &ids(disks)?))
}

/// Pairs of processes that have disks of the pool at the same time, with the number of scans.
#[derive(Debug, Default)]
struct ProcessPairs(BTreeMap<(i32, i32), u32>);

impl ProcessPairs {
    /// Scans once: finds the owners of any of its disks. Returns the pairs that have just become certain.
    fn take(&mut self, owners: &BTreeSet<i32>, now: Timestamp) -> Vec<String> {
        let mut together: BTreeSet<(i32, i32)> = BTreeSet::new();
        for first in owners {
            let later = owners.range(first + 1..);
            together.extend(later.map(|second| (*first, *second)));
        }
        self.0.retain(|couple, _| together.contains(couple));
        let mut found = Vec::new();
        for couple in together {
            let looks = self.0.entry(couple).or_default();
            *looks += 1;
            if *looks == POLLS_MIN {
                let (first, second) = couple;
                found.push(format!("processes {first} and {second} at {:.3}", now.0));
            }
        }
        found
    }
}

/// The pool servers among the processes of this host. Most processes are scanned only while they
/// are young.
#[derive(Debug, Default)]
struct Servers {
    looks: BTreeMap<i32, u32>,
}

impl Servers {
    fn owners(&mut self, proc: &Path, disks: &BTreeSet<FileId>) -> BTreeSet<i32> {
        let mut owners = BTreeSet::new();
        let mut seen = BTreeMap::new();
        let entries = std::fs::read_dir(proc).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let looks = self.looks.get(&pid).copied().unwrap_or(0);
            if looks >= NEW_PROCESS_POLLS {
                seen.insert(pid, looks);
                continue;
            }
            let path = entry.path();
            if !is_pool_server(&path) {
                seen.insert(pid, looks + 1);
                continue;
            }
            // Never old: it is scanned until it terminates.
            seen.insert(pid, 0);
            if has_open_for_writing(&path, disks) {
                owners.insert(pid);
            }
        }
        self.looks = seen;
        owners
    }
}

/// Whether it is a pool server, or a shell that is going to be one.
fn is_pool_server(process: &Path) -> bool {
    let words = std::fs::read(process.join("cmdline")).unwrap_or_default();
    let mut words = words.split(|byte| *byte == 0);
    words.any(|word| word == b"pool-server")
}

/// Whether a process has one of `disks` open for writing, as far as that can be seen: it may just end.
fn has_open_for_writing(process: &Path, disks: &BTreeSet<FileId>) -> bool {
    let entries = std::fs::read_dir(process.join("fd"));
    let mut entries = entries.into_iter().flatten().flatten();
    let is_writable = |entry: std::fs::DirEntry| {
        let meta = std::fs::metadata(entry.path()).ok()?;
        // A server has hundreds of other files open, and the scan must not disturb the measurement.
        if !disks.contains(&(meta.dev(), meta.ino())) {
            return None;
        }
        let info = process.join("fdinfo").join(entry.file_name());
        let info = std::fs::read_to_string(info).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
        Some(flags & 0o3 != 0)
    };
    entries.any(|entry| is_writable(entry).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lasting_double_ownership_is_reported_once() {
        let mut couples = ProcessPairs::default();
        let mut found = Vec::new();
        for _ in 0..10 {
            found.extend(couples.take(&[7, 9].into(), Timestamp(1.0)));
        }
        assert_eq!(found, ["processes 7 and 9 at 1.000"]);
    }

    #[test]
    fn process_that_finds_disks_locked_is_no_owner() {
        let mut couples = ProcessPairs::default();
        for pids in [&[7, 9][..], &[7], &[7, 9], &[7, 11], &[9]] {
            let owners = pids.iter().copied().collect();
            assert!(couples.take(&owners, Timestamp(1.0)).is_empty());
        }
    }

    /// A process that imitates a pool server started by a shell: it has a file open for writing until its input is
    /// closed.
    fn server_of(disk: &Path) -> std::process::Child {
        let disk = std::fs::File::options().append(true).open(disk);
        std::process::Command::new("sh")
            .args(["-c", "read line", "spare", "bulkhead", "pool-server"])
            .stdin(std::process::Stdio::piped())
            .stdout(disk.expect("open"))
            .spawn()
            .expect("sh runs")
    }

    /// Starts a server of each disk, one after the other. Returns the findings for the first alone, and for both.
    fn found_of_two_servers(first: &Path, second: &Path) -> (Vec<String>, Vec<String>, u32) {
        const LIMIT: Duration = Duration::from_secs(60);
        let disks = [first.to_owned(), second.to_owned()];
        let watch = Watch::start(&disks).expect("a watch");
        let wait = |is_so: &dyn Fn() -> bool| {
            let begin = std::time::Instant::now();
            while !is_so() {
                assert!(begin.elapsed() < LIMIT, "in time");
                std::thread::sleep(POLL_INTERVAL);
            }
        };
        let owners = || owners_now(&disks).expect("a disk").len();
        let mut one = server_of(first);
        wait(&|| owners() == 1);
        let before = watch.findings();
        let mut other = server_of(second);
        wait(&|| owners() == 2);
        let found = std::cell::RefCell::new(Vec::new());
        wait(&|| {
            found.borrow_mut().extend(watch.findings());
            !found.borrow().is_empty()
        });
        let pid = one.id();
        for child in [&mut one, &mut other] {
            drop(child.stdin.take());
            child.wait().expect("it ends");
        }
        (before, found.into_inner(), pid)
    }

    #[test]
    fn two_servers_of_one_disk_are_detected_one_is_accepted() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = folder.path().join("disk");
        std::fs::write(&disk, "").expect("written");
        let (before, found, first) = found_of_two_servers(&disk, &disk);
        assert!(before.is_empty(), "{before:?}");
        assert!(found[0].contains(&first.to_string()), "{found:?}");
    }

    /// Each head opens its own leg: no disk has two owners, and the pool has.
    #[test]
    fn two_servers_of_one_leg_each_are_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        let legs = ["left", "right"].map(|name| folder.path().join(name));
        for leg in &legs {
            std::fs::write(leg, "").expect("written");
        }
        let (before, found, first) = found_of_two_servers(&legs[0], &legs[1]);
        assert!(before.is_empty(), "{before:?}");
        assert!(found[0].contains(&first.to_string()), "{found:?}");
    }

    #[test]
    fn only_files_open_for_writing_are_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        let id = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "x").expect("written");
            let meta = std::fs::metadata(&path).expect("there");
            (path, (meta.dev(), meta.ino()))
        };
        let (written, written_id) = id("written");
        let (read, read_id) = id("read");
        let _writer = std::fs::File::options()
            .append(true)
            .open(written)
            .expect("open");
        let _reader = std::fs::File::open(read).expect("open");
        let disks = BTreeSet::from([written_id, read_id]);
        assert!(has_open_for_writing(Path::new("/proc/self"), &disks));
        let others = BTreeSet::from([read_id]);
        assert!(!has_open_for_writing(Path::new("/proc/self"), &others));
        assert!(!is_pool_server(Path::new("/proc/self")));
    }
}
