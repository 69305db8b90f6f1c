//! The health of the disks by smartctl(8), read in the background every few minutes, and stored in the run directory for
//! processes that look once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::DISK;
use api::view::HardwareFault;
use cluster::process::{Invocation, RunError, run};
use hardware::smart::{self, DiskHealth};
use serde::{Deserialize, Serialize};

use super::disks::{Disk, find, slot_text};
use super::refreshed::Refreshed;

/// The name of the file in the run directory.
pub const FILE: &str = "disk-health.json";
/// Interval between two reads of all disks.
const INTERVAL: Duration = Duration::from_secs(300);
/// Oldest file that is believed.
const FILE_AGE_MAX: Duration = Duration::from_secs(3600);
/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Time-out of a disk.
const DISK_WAIT: Duration = Duration::from_secs(20);
/// Most disks of a head.
const DISKS_MAX: usize = 1024;

/// The result of a read of all disks.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Read {
    /// By the kernel's names of the disks.
    health: BTreeMap<String, DiskHealth>,
    faults: Vec<HardwareFault>,
}

/// The last known health.
pub enum DiskHealths {
    /// Read in the background, and stored in the file.
    Watched(PathBuf, Arc<Refreshed<Read>>),
    /// What the running head has stored in the file.
    Stored(PathBuf),
}

impl DiskHealths {
    /// Reads in the background, and stores the result in `file`.
    pub fn watched(file: PathBuf) -> Self {
        // A restart does not end faults.
        let read = stored(&file).unwrap_or_default();
        Self::Watched(file, Arc::new(Refreshed::new(read)))
    }

    /// The health, by the kernel's names of the disks. Starts an update if it is old.
    pub fn get(&self) -> BTreeMap<String, DiskHealth> {
        self.read().health.clone()
    }

    /// The faults of disks of this head. Starts an update if they are old.
    pub fn faults(&self, head: &str) -> Vec<HardwareFault> {
        let mut faults = self.read().faults.clone();
        for fault in &mut faults {
            fault.head = head.to_owned();
        }
        faults
    }

    fn read(&self) -> Arc<Read> {
        match self {
            Self::Stored(file) => Arc::new(stored(file).unwrap_or_default()),
            Self::Watched(file, read) => {
                let file = file.clone();
                read.get("disk-health", INTERVAL, move |old| update(&file, old))
            }
        }
    }
}

fn update(file: &Path, old: &Read) -> Read {
    let disks = find();
    let (health, missing) = read_disks(&disks, &old.health);
    if let Some(error) = missing {
        tracing::debug!(%error, "the health of disks is unknown");
    }
    let faults = disks.iter().filter_map(|disk| {
        let health = health.get(disk.physical())?;
        let slot = disk.slot().map(|slot| slot_text(&slot));
        fault(&disk.path, health, slot)
    });
    let read = Read {
        faults: faults.collect(),
        health,
    };
    if let Err(error) = store(file, &read) {
        tracing::debug!(%error, "store the health of disks");
    }
    read
}

fn fault(path: &Path, health: &DiskHealth, slot: Option<String>) -> Option<HardwareFault> {
    let parts = [
        health.model.clone(),
        health
            .serial
            .as_ref()
            .map(|serial| format!("serial {serial}")),
        slot.map(|slot| format!("slot {slot}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!health.faults.is_empty()).then(|| HardwareFault {
        head: String::new(),
        kind: DISK.to_owned(),
        name: path.display().to_string(),
        description: (!parts.is_empty()).then(|| parts.join(", ")),
        is_failing: health.is_failing(),
        faults: health.faults.clone(),
    })
}

/// Reads the health of all disks of this host, and why that is not possible.
pub fn read_all() -> (BTreeMap<String, DiskHealth>, Option<RunError>) {
    read_disks(&find(), &BTreeMap::new())
}

fn read_disks(
    disks: &[Disk],
    old: &BTreeMap<String, DiskHealth>,
) -> (BTreeMap<String, DiskHealth>, Option<RunError>) {
    let mut health = BTreeMap::new();
    for disk in disks.iter().take(DISKS_MAX) {
        let device = format!("/dev/{}", disk.physical());
        let arguments = [&smart::ARGUMENTS[..], &[&device]].concat();
        match run(&Invocation::new("smartctl", &arguments).within(DISK_WAIT)) {
            Ok(output) => {
                let parsed = smart::parse(&output.stdout);
                let known = old.get(disk.physical()).cloned();
                health.insert(disk.physical().to_owned(), kept(parsed, known));
            }
            Err(error @ RunError::Start { .. }) => return (health, Some(error)),
            Err(error) => {
                tracing::debug!(device, %error, "read the health of a disk");
                if let Some(known) = old.get(disk.physical()) {
                    health.insert(disk.physical().to_owned(), known.clone());
                }
            }
        }
    }
    (health, None)
}

/// A disk that sleeps or does not respond has the faults that are known.
fn kept(read: DiskHealth, known: Option<DiskHealth>) -> DiskHealth {
    let is_silent = matches!(read.state.as_str(), "standby" | "unknown");
    let known = known.filter(|known| {
        let is_same = read.serial.is_none() || read.serial == known.serial;
        is_silent && is_same && !known.faults.is_empty()
    });
    match known {
        Some(known) => known,
        None => read,
    }
}

fn store(file: &Path, read: &Read) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer(&mut temporary, read)?;
    temporary.persist(file)?;
    Ok(())
}

/// The directory belongs to root.
fn stored(file: &Path) -> Option<Read> {
    let about = std::fs::metadata(file).ok()?;
    let age = about.modified().ok()?.elapsed().unwrap_or_default();
    if age > FILE_AGE_MAX || about.len() > FILE_BYTES_MAX {
        return None;
    }
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_health_is_read_by_a_process_that_looks_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(FILE);
        let bad = DiskHealth {
            state: "failing".to_owned(),
            faults: vec!["it has become read-only".to_owned()],
            serial: Some("S1".to_owned()),
            ..DiskHealth::default()
        };
        let found = fault(Path::new("/dev/a"), &bad, Some("0x5 7".to_owned())).expect("a fault");
        let read = Read {
            health: BTreeMap::from([("sda".to_owned(), bad)]),
            faults: vec![found],
        };
        store(&file, &read).expect("stored");
        let once = DiskHealths::Stored(file.clone());
        let faults = once.faults("left");
        assert_eq!(
            (faults[0].head.as_str(), faults[0].is_failing),
            ("left", true)
        );
        assert_eq!(
            faults[0].description.as_deref(),
            Some("serial S1, slot 0x5 7")
        );
        assert!(once.get().contains_key("sda"));
        std::fs::write(&file, "{").expect("a damaged file");
        assert!(once.faults("left").is_empty());
    }

    #[test]
    fn sleeping_disk_keeps_its_faults_and_another_disk_has_none_of_them() {
        let bad = DiskHealth {
            state: "warning".to_owned(),
            faults: vec!["8 sectors could not be read".to_owned()],
            serial: Some("S1".to_owned()),
            ..DiskHealth::default()
        };
        let read = |state: &str, serial: Option<&str>| DiskHealth {
            state: state.to_owned(),
            serial: serial.map(str::to_owned),
            ..DiskHealth::default()
        };
        let known = Some(bad.clone());
        assert_eq!(kept(read("standby", None), known.clone()), bad);
        assert_eq!(kept(read("unknown", Some("S1")), known.clone()), bad);
        for other in [read("standby", Some("S2")), read("good", Some("S1"))] {
            assert_eq!(kept(other.clone(), known.clone()), other);
        }
        assert_eq!(kept(read("standby", None), None), read("standby", None));
    }

    #[test]
    fn good_disk_is_no_fault() {
        assert_eq!(
            fault(Path::new("/dev/a"), &DiskHealth::default(), None),
            None
        );
    }
}
