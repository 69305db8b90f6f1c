//! Disks of the appliance file that a pool does not use any more, because they were replaced: another head would search
//! for the pool there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use appliance::Appliance;
use serde::Deserialize;
use units::PoolName;

use crate::host::{Host, Hosts};
use crate::process::Invocation;

/// Time limit for the pool's server to report its devices.
const STATUS_TIME_LIMIT: Duration = Duration::from_secs(10);
/// Prints the real path of each argument, one a line; the argument itself if it does not exist.
const REAL_PATHS: &str = "for path; do readlink -f -- \"$path\" || echo \"$path\"; done";

/// A part of the response of `bulkhead status POOL --json`.
#[derive(Deserialize)]
struct Response {
    pool: Devices,
    /// The server is on that other head.
    #[serde(default)]
    served_by: Option<String>,
    /// None if a command has opened the pool itself.
    #[serde(default)]
    server: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Devices {
    #[serde(default)]
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Device {
    name: PathBuf,
    #[serde(default)]
    members: Vec<Device>,
}

impl Device {
    fn leaves<'a>(&'a self, found: &mut Vec<&'a Path>) {
        match self.members.is_empty() {
            true => found.push(&self.name),
            false => self.members.iter().for_each(|one| one.leaves(found)),
        }
    }
}

/// A note for each served pool with such disks. Heads that do not respond are left out.
pub(crate) fn notes(machines: &Hosts, program: &Path, appliance: &Appliance) -> Vec<String> {
    let pools = appliance
        .pools
        .iter()
        .filter(|(_, pool)| !pool.disks.is_empty());
    let notes = pools.filter_map(|(name, pool)| {
        let mut machines = machines.values();
        machines.find_map(|machine| {
            let machine = machine.as_ref();
            let used = used(machine, program, name)?;
            note(
                name,
                &pool.disks,
                &used,
                &real_paths(machine, &pool.disks, &used)?,
            )
        })
    });
    notes.collect()
}

/// The devices of a pool that this host serves.
fn used(machine: &dyn Host, program: &Path, pool: &PoolName) -> Option<Vec<PathBuf>> {
    let words = ["status", pool.as_str(), "--json"];
    let status = Invocation::new(&program.to_string_lossy(), &words).within(STATUS_TIME_LIMIT);
    let output = machine
        .run(&status)
        .ok()
        .filter(|output| output.code == 0)?;
    let response: Response = serde_json::from_slice(&output.stdout).ok()?;
    if response.served_by.is_some() || response.server.is_none() {
        return None;
    }
    let mut leaves = Vec::new();
    let devices = response.pool.devices.iter();
    devices.for_each(|device| device.leaves(&mut leaves));
    Some(leaves.into_iter().map(Path::to_owned).collect())
}

fn real_paths(
    machine: &dyn Host,
    named: &[PathBuf],
    used: &[PathBuf],
) -> Option<BTreeMap<PathBuf, PathBuf>> {
    let paths: Vec<&PathBuf> = named.iter().chain(used).collect();
    let mut words = vec!["-c".into(), REAL_PATHS.into(), "paths".into()];
    words.extend(paths.iter().map(|path| path.to_string_lossy()));
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let text = machine.run(&Invocation::new("sh", &words)).ok()?.text();
    let real = text.lines().map(PathBuf::from);
    Some(paths.into_iter().cloned().zip(real).collect())
}

fn note(
    pool: &PoolName,
    named: &[PathBuf],
    used: &[PathBuf],
    real: &BTreeMap<PathBuf, PathBuf>,
) -> Option<String> {
    let beyond = |these: &[PathBuf], those: &[PathBuf]| {
        let is_there = |path: &&PathBuf| {
            let mut those = those.iter();
            those.any(|other| real.get(other) == real.get(*path))
        };
        let beyond = these.iter().filter(|path| !is_there(path));
        let beyond: Vec<String> = beyond.map(|path| path.display().to_string()).collect();
        beyond.join(", ")
    };
    let (stale, missing) = (beyond(named, used), beyond(used, named));
    let why = match (stale.is_empty(), missing.is_empty()) {
        (true, true) => return None,
        (false, true) => format!("names {stale}, which the pool does not use: remove it"),
        (true, false) => format!("does not name {missing}, which the pool uses: add it"),
        (false, false) => {
            format!("names {stale}, which the pool does not use any more: write {missing} instead")
        }
    };
    Some(format!(
        "`disks` of [pools.{pool}] {why}. Without that, another head does not find the pool there"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Output, RunError};

    /// A head that serves the pool on these devices, or not.
    struct Head(Option<&'static str>);

    impl Host for Head {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            if invocation.program == "sh" {
                return crate::host::Local::default().run(invocation);
            }
            assert_eq!(invocation.arguments, ["status", "tank", "--json"]);
            let stdout = match self.0 {
                Some(devices) => format!(r#"{{"pool":{{"devices":{devices}}},"server":{{}}}}"#),
                None => r#"{"pool":{},"served_by":"left"}"#.to_owned(),
            };
            Ok(Output {
                stdout: stdout.into_bytes(),
                ..Output::default()
            })
        }
    }

    fn noted(devices: &'static str, disks: &[&str]) -> Vec<String> {
        let text = include_str!("../../../examples/pair.toml");
        let mut appliance = appliance::parse(text).expect("well formed").appliance;
        let pool = appliance.pools.values_mut().next().expect("a pool");
        pool.disks = disks.iter().map(PathBuf::from).collect();
        let name = |name: &str| name.parse().expect("a name");
        let head = |devices| -> Box<dyn Host> { Box::new(Head(devices)) };
        let machines = [
            (name("left"), head(None)),
            (name("right"), head(Some(devices))),
        ];
        notes(&machines.into(), Path::new("/bulkhead"), &appliance)
    }

    #[test]
    fn a_replaced_disk_in_the_file_is_noted() {
        const DEVICES: &str = r#"[{"name":"mirror-0","members":[{"name":"/none/a"},{"name":"/none/c"}]},{"name":"/none/s"}]"#;
        let missing = noted(DEVICES, &["/none/a", "/none/c"]);
        assert!(missing[0].contains("does not name /none/s"), "{missing:?}");
        assert_eq!(noted(DEVICES, &["/none/a", "/none/c", "/none/s"]), [""; 0]);
        let notes = noted(DEVICES, &["/none/a", "/none/b", "/none/s"]);
        assert_eq!(notes.len(), 1);
        for part in ["[pools.tank]", "names /none/b", "write /none/c instead"] {
            assert!(notes[0].contains(part), "{}", notes[0]);
        }
    }

    /// The names of one disk under `/dev/disk` are many.
    #[test]
    fn two_names_of_one_disk_are_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let (disk, link) = (directory.path().join("disk"), directory.path().join("link"));
        std::fs::write(&disk, "").expect("written");
        std::os::unix::fs::symlink(&disk, &link).expect("linked");
        let (named, used) = ([link], [disk]);
        let real = real_paths(&Head(None), &named, &used).expect("read");
        assert_eq!(
            note(&"tank".parse().expect("a name"), &named, &used, &real),
            None
        );
    }
}
