//! Opens what legs hold that are not to be written: those of a head that has a history of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use control::{Failure, FailureKind};
use engine::Pool;
use engine::pool::legs::Record;
use engine::pool::{Claims, ImportOptions, SafeToOwn};
use legs_config::{Kind, LegsFile};
use takeover::legs::DiskId;
use units::PoolName;

use crate::across;
use crate::common::Common;
use crate::engines;
use crate::engines::across::Across;
use crate::open::small_engine;

/// A pool that is open for reading.
pub struct Inspected {
    /// It.
    pub pool: Box<dyn Pool>,
    /// Its newest transaction group.
    pub newest_group: u64,
    /// When that was written, in seconds since 1970.
    pub newest_time_s: u64,
    _folder: Folder,
}

/// Where legs have their names meanwhile.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Opens what the legs of `pool` on `heads` hold, by their lenders, as a pool that is called `name` in this process.
///
/// # Errors
///
/// A lender does not answer, or the legs do not suffice.
pub fn open(
    common: &Common,
    pool: &PoolName,
    config: &Path,
    heads: &[String],
    name: &PoolName,
) -> Result<Inspected, Failure> {
    let (file, identity) = across::read(config)?;
    let legs = legs_of(&file, pool, heads)?;
    let folder = format!("inspect-{}", std::process::id());
    let folder = Folder(common.settings.run_dir.join(folder));
    let across = Across::to_look(file.clone(), Arc::new(identity), pool, &folder.0);
    let across = across.ok_or_else(|| across::names_no_pool(&file, pool, config))?;
    let mut options = small_engine(common, pool);
    options.devices.wrap = Some(across.wrap(options.devices.wrap.take()));
    for leg in legs {
        across.look_at(leg).map_err(|why| {
            let message = format!("{}: {why}", file.disk_name(leg));
            Failure::new(FailureKind::Unavailable, message).advise(
                "start bulkhead-leg-server on that head; if the pool is served there, ask its server instead",
            )
        })?;
    }
    let engine = engines::start(options)?;
    across
        .lay_out(|_| false)
        .map_err(Failure::of("give legs their names"))?;
    let unavailable = |why: String| Failure::new(FailureKind::Unavailable, why);
    let candidate = across.found().map_err(unavailable)?;
    let present = candidate.devices.iter().filter(|device| device.present);
    let options = ImportOptions {
        read_only: true,
        rename: Some(name.clone()),
        claims: Claims::Locks,
        record: Some(Record {
            number: candidate.legs.record.unwrap_or(0),
            current: present.map(|device| device.guid).collect(),
        }),
        ..ImportOptions::default()
    };
    // Nothing is written, so nobody is disturbed who has it.
    let proof = SafeToOwn::record_names_this_head(&candidate);
    let opened = engine.import(&candidate, proof, &options);
    Ok(Inspected {
        pool: opened.map_err(operations::pool_failure)?,
        newest_group: candidate.legs.newest_txg,
        newest_time_s: candidate.legs.newest_time_s,
        _folder: folder,
    })
}

fn legs_of(file: &LegsFile, pool: &PoolName, heads: &[String]) -> Result<Vec<DiskId>, Failure> {
    let is_head = |name: &&String| {
        let member = file.members.get(*name);
        member.is_some_and(|member| member.kind == Kind::Head)
    };
    if let Some(unknown) = heads.iter().find(|name| !is_head(name)) {
        let members = file.members.iter();
        let known = members.filter(|(_, member)| member.kind == Kind::Head);
        let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
        let failure = Failure::not_found(format!("there is no head {unknown}"));
        return Err(failure.advise(format!("the heads are {}", known.join(" "))));
    }
    let groups = file
        .pools
        .get(pool)
        .into_iter()
        .flat_map(|pool| &pool.groups);
    let legs = groups.flat_map(|group| &group.legs);
    let wanted = legs.filter(|leg| heads.contains(&leg.head));
    Ok(wanted.map(|leg| DiskId(leg.disk)).collect())
}
