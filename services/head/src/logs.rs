//! What the logs of this head tell of takeovers: Corosync's and Pacemaker's, and that of the pool's server.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use appliance::Appliance;
use appliance::render::{address_id, pool_id};
use takeover::timeline::{Resources, Told, told};
use units::PoolName;

/// Logs of the cluster, where the generated configuration and Debian's packages have them.
const CLUSTER_LOGS: &[&str] = &[
    "/var/log/corosync/corosync.log",
    "/var/log/pacemaker/pacemaker.log",
];
/// How much of the end of a log is read, in bytes.
const TAIL_BYTES_MAX: u64 = 1 << 20;

/// Every step of the pool's takeovers that the ends of the logs tell.
pub fn takeover_steps(appliance: &Appliance, pool: &PoolName, state_dir: &Path) -> Vec<Told> {
    let addresses = appliance.pools.get(pool).map(|pool| &pool.addresses);
    let resources = Resources {
        pool: pool_id(pool),
        addresses: addresses
            .into_iter()
            .flatten()
            .map(|one| address_id(one.address))
            .collect(),
    };
    let server = state_dir.join(format!("{pool}.log"));
    let logs = CLUSTER_LOGS.iter().map(PathBuf::from).chain([server]);
    logs.filter_map(|path| tail(&path))
        .flat_map(|(text, written_ms)| told(&text, &resources, written_ms))
        .collect()
}

/// The end of a log in whole lines, and when it was last written, in milliseconds since 1970. None where
/// there is no such log.
fn tail(path: &Path) -> Option<(String, u64)> {
    let mut file = File::open(path).ok()?;
    let meta = file.metadata().ok()?;
    let written = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let skipped = meta.len().saturating_sub(TAIL_BYTES_MAX);
    file.seek(SeekFrom::Start(skipped)).ok()?;
    let mut bytes = Vec::new();
    // What is written meanwhile would not fit the time.
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
    fn a_servers_log_tells_when_it_listened() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = File::create(folder.path().join("tank.log")).expect("a log");
        // Longer than what is read, so that the first line is cut.
        let filler = "x".repeat(1000) + "\n";
        for _ in 0..2 * TAIL_BYTES_MAX / 1000 {
            log.write_all(filler.as_bytes()).expect("written");
        }
        let line = "2026-11-21T05:49:30.930000Z  INFO listening iscsi=[..] after_ms=140\n";
        log.write_all(line.as_bytes()).expect("written");
        let text = include_str!("../../../examples/pair.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let steps = takeover_steps(&appliance, &"tank".parse().expect("a name"), folder.path());
        let steps: Vec<_> = steps
            .iter()
            .filter(|one| one.at_ms == 1_795_240_170_930)
            .collect();
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].step, Step::Listening);
    }
}
