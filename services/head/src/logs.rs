//! The takeovers that this head has records of: by its own processes, and in the logs of Corosync and Pacemaker.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::UNIX_EPOCH;

use appliance::Appliance;
use appliance::render::{address_id, pool_id};
use cluster::Steps;
use takeover::timeline::{Resources, TimedStep, reported};
use units::PoolName;

/// Logs of the cluster, in the paths of the generated configuration and of Debian's packages.
const CLUSTER_LOGS: &[&str] = &[
    "/var/log/corosync/corosync.log",
    "/var/log/pacemaker/pacemaker.log",
];
/// Part of a log's end that is read, in bytes.
const TAIL_BYTES_MAX: u64 = 1 << 20;

/// All known steps of the pool's takeovers.
pub fn takeover_steps(appliance: &Appliance, pool: &PoolName, state_dir: &Path) -> Vec<TimedStep> {
    let addresses = appliance.pools.get(pool).map(|pool| &pool.addresses);
    let resources = Resources {
        pool: pool_id(pool),
        addresses: addresses
            .into_iter()
            .flatten()
            .map(|one| address_id(one.address))
            .collect(),
    };
    let mut steps = Steps::of(state_dir).reported(&resources);
    let logs = CLUSTER_LOGS.iter().filter_map(|path| tail(Path::new(path)));
    steps.extend(logs.flat_map(|(text, written_ms)| reported(&text, written_ms)));
    steps
}

/// The end of a log in whole lines, and its modification time, in milliseconds since 1970. `None` if
/// there is no such log.
fn tail(path: &Path) -> Option<(String, u64)> {
    let mut file = File::open(path).ok()?;
    let meta = file.metadata().ok()?;
    let written = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let skipped = meta.len().saturating_sub(TAIL_BYTES_MAX);
    file.seek(SeekFrom::Start(skipped)).ok()?;
    let mut bytes = Vec::new();
    // Later lines would not match the modification time.
    file.take(meta.len() - skipped)
        .read_to_end(&mut bytes)
        .ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let whole = match skipped {
        0 => text,
        _ => text
            .split_once('\n')
            .map_or(String::new(), |(_, rest)| rest.to_owned()),
    };
    Some((whole, u64::try_from(written.as_millis()).ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use takeover::timeline::Step;

    use super::*;

    #[test]
    fn log_tail_consists_of_whole_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("corosync.log");
        let mut log = File::create(&path).expect("a log");
        // Longer than the part that is read, so that the first line is cut.
        let filler = "x".repeat(1000) + "\n";
        for _ in 0..2 * TAIL_BYTES_MAX / 1000 {
            log.write_all(filler.as_bytes()).expect("written");
        }
        let line = "Nov 21 05:49:30.300 left corosync [TOTEM ] A processor failed\n";
        log.write_all(line.as_bytes()).expect("written");
        let (text, written_ms) = tail(&path).expect("a log");
        assert!(text.lines().all(|line| line.len() != 999), "whole lines");
        let steps: Vec<Step> = reported(&text, written_ms)
            .iter()
            .map(|one| one.step)
            .collect();
        assert_eq!(steps, [Step::Detected]);
    }

    #[test]
    fn logs_of_processes_of_this_head_are_returned() {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = "tank".parse().expect("a name");
        Steps::of(folder.path()).record_step(&pool, Step::Listening);
        let text = include_str!("../../../examples/pair.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let steps = takeover_steps(&appliance, &pool, folder.path());
        let listened = |one: &TimedStep| one.step == Step::Listening;
        assert_eq!(steps.iter().filter(|one| listened(one)).count(), 1);
    }
}
