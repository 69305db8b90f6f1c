//! The kernel's reports of single packets: an instance of tracefs of our own, so that other tracers are not disturbed.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use network_drops::trace::{EVENTS, Report, report};
use network_drops::{Snapshot, Source};
use rustix::fs::OFlags;

/// Where tracefs is mounted (Documentation/trace/ftrace.rst).
const TRACEFS: &str = "/sys/kernel/tracing";
/// Prefix of our instances; the number of the process follows.
const PREFIX: &str = "bulkhead-drops-";
/// Pause between two reads of the reports.
const READ_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a read.
const READ_BYTES: usize = 64 << 10;
/// Longest incomplete line that is retained.
const LINE_BYTES_MAX: usize = 4 << 10;
/// Memory of the instance for each processor, in KiB.
const BUFFER_KIB: &str = "1024";

/// An instance. It exists as long as this or until [`Instance::remove`].
#[derive(Debug)]
pub struct Reports {
    instance: Arc<Instance>,
    rest: Vec<u8>,
}

/// The directory of an instance, and the open pipe, without which the kernel does not remove it.
#[derive(Debug)]
pub struct Instance {
    directory: PathBuf,
    pipe: Mutex<Option<File>>,
}

impl Instance {
    /// Removes it. Later reads find no reports.
    pub fn remove(&self) {
        drop(self.pipe().take());
        remove(&self.directory);
    }

    fn pipe(&self) -> MutexGuard<'_, Option<File>> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that were read; none at present.
    fn read(&self, buffer: &mut [u8]) -> usize {
        let mut pipe = self.pipe();
        let count = pipe.as_mut().map(|pipe| pipe.read(buffer));
        // An error is the same as no report: the next read may succeed.
        count.and_then(Result::ok).unwrap_or(0)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Reports {
    /// Creates an instance, and removes those of processes that were killed.
    ///
    /// # Errors
    ///
    /// A sentence with the remedy: tracefs is not mounted, or this process may not use it.
    pub fn start() -> Result<Self, String> {
        let instances = Path::new(TRACEFS).join("instances");
        if !instances.exists() {
            return Err(format!(
                "the kernel's reasons are missing: tracefs is not mounted (`mount -t tracefs nodev {TRACEFS}`)"
            ));
        }
        remove_abandoned(&instances);
        let directory = instances.join(format!("{PREFIX}{}", std::process::id()));
        let refused = |error: std::io::Error| {
            format!("the kernel's reasons are missing: {error} at {TRACEFS}")
        };
        fs::create_dir(&directory).map_err(refused)?;
        let pipe = Mutex::new(None);
        let instance = Instance { directory, pipe };
        let pipe = enable(&instance.directory).map_err(refused)?;
        *instance.pipe() = Some(pipe);
        let instance = Arc::new(instance);
        let rest = Vec::new();
        Ok(Self { instance, rest })
    }

    /// The instance, for a removal when the process is interrupted.
    pub fn instance(&self) -> Arc<Instance> {
        Arc::clone(&self.instance)
    }

    /// Collects the reports until `end`. Returns how many were lost because this process was too slow.
    pub fn collect(&mut self, end: Instant) -> (Snapshot, u64) {
        let (mut found, mut missing) = (Snapshot::default(), 0);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let count = self.instance.read(&mut buffer);
            if count == 0 {
                let left = end.saturating_duration_since(Instant::now());
                std::thread::sleep(left.min(READ_PAUSE));
            }
            self.rest.extend_from_slice(&buffer[..count]);
            self.lines(&mut found, &mut missing);
            if Instant::now() >= end {
                return (found, missing);
            }
        }
    }

    fn lines(&mut self, found: &mut Snapshot, missing: &mut u64) {
        while let Some(end) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            match report(&String::from_utf8_lossy(&line)) {
                Report::Lost(source) => found.add(source, 1),
                Report::Missing(count) => *missing += count,
                Report::Other => {}
            }
        }
        if self.rest.len() > LINE_BYTES_MAX {
            self.rest.clear();
        }
    }
}

/// Enables the events, and opens the pipe of their reports.
fn enable(directory: &Path) -> std::io::Result<File> {
    fs::write(directory.join("buffer_size_kb"), BUFFER_KIB)?;
    let mut enabled = 0;
    for event in EVENTS {
        let file = directory.join("events").join(event).join("enable");
        let file = OpenOptions::new().write(true).open(file);
        if file.and_then(|mut file| file.write_all(b"1")).is_ok() {
            enabled += 1;
        }
    }
    if enabled == 0 {
        return Err(ErrorKind::Unsupported.into());
    }
    OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(directory.join("trace_pipe"))
}

fn remove(directory: &Path) {
    for event in EVENTS {
        let _ = fs::write(directory.join("events").join(event).join("enable"), "0");
    }
    let _ = fs::remove_dir(directory);
}

/// Removes instances of processes that no longer exist.
fn remove_abandoned(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let Some(number) = number.and_then(|number| number.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new("/proc").join(number.to_string()).exists() {
            remove(&entry.path());
        }
    }
}

/// Whether a report has the same addresses as this counter of a socket.
pub fn is_reported(reports: &[network_drops::Loss], counter: &Source) -> bool {
    reports.iter().any(|report| {
        report.source.local.is_some()
            && report.source.local == counter.local
            && report.source.peer == counter.peer
            && report.source.at == counter.at
    })
}
