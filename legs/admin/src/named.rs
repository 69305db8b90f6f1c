//! Configured pools and legs, without an open pool on this head.

use std::path::{Path, PathBuf};

use control::{Failure, FailureKind};
use leg_door::Directories;
use leg_record::DiskId;
use units::PoolName;

/// Refuses a pool that the configuration of legs at `path` names: it can only be opened by its record.
pub(crate) fn of_legs(pool: &PoolName, path: &Path) -> Option<Failure> {
    let file = legs_config::read(path).ok()?;
    file.pools.get(pool)?;
    let message = format!("no server of pool {pool} runs here, and its legs are on several heads");
    let path = path.display();
    Some(Failure::not_found(message).advise(format!(
        "run the command on the head that serves it; where no cluster does, `bulkhead pool-server {pool} --legs {path}` serves it here"
    )))
}

/// The engine's name of a leg of `pool` in the configuration of legs at `path`.
///
/// # Errors
///
/// It names no such leg.
pub(crate) fn of_leg(
    directories: &Directories,
    pool: &PoolName,
    leg: &str,
    path: &Path,
) -> Result<PathBuf, Failure> {
    let file = legs_config::read(path).map_err(|error| {
        let why = Failure::from_chain(FailureKind::NotFound, &error).message;
        let message =
            format!("{leg} is the name of a leg, and the file of legs is not there: {why}");
        Failure::not_found(message).advise(format!(
            "use the name of the leg in `bulkhead pool status {pool}`"
        ))
    })?;
    let groups = file.pools.get(pool).into_iter();
    let legs = groups
        .flat_map(|pool| &pool.groups)
        .flat_map(|group| &group.legs);
    let mut disks = legs.map(|leg| leg.disk);
    match disks.find(|disk| file.disk_name(DiskId(*disk)) == leg) {
        Some(disk) => {
            let folder = directories.run.join("legs").join(pool.as_str());
            std::path::absolute(folder.join(disk.to_string()))
                .map_err(Failure::of("resolve the current directory"))
        }
        None => {
            let message = format!("{} names no leg {leg} of pool {pool}", path.display());
            Err(Failure::not_found(message).advise(format!(
                "`bulkhead pool status {pool}` shows its name in the pool"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_of_legs_reports_how_it_is_served() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("legs.toml");
        let tank: PoolName = "tank".parse().expect("a name");
        assert!(of_legs(&tank, &path).is_none(), "there is no such file");
        let file = crate::multi_head::tests::two_heads();
        std::fs::write(&path, file.render()).expect("written");
        let failure = of_legs(&tank, &path).expect("it is named there");
        let advice = failure.advice.expect("what to do");
        assert!(advice.contains("pool-server tank --legs"), "{advice}");
        let directories = crate::multi_head::tests::in_directory(folder.path());
        let none = folder.path().join("none.toml");
        let said = of_leg(&directories, &tank, "b:/y", &none).expect_err("there is none");
        assert!(said.message.contains("none.toml"), "{}", said.message);
        let other: PoolName = "bank".parse().expect("a name");
        assert!(of_legs(&other, &path).is_none());
        let place = of_leg(&directories, &tank, "b:/y", &path).expect("it is named there");
        assert_eq!(place, folder.path().join("run/legs/tank/22"));
        let said = of_leg(&directories, &tank, "b:/z", &path).expect_err("it is not");
        assert!(said.message.contains("names no leg b:/z of pool tank"));
    }
}
