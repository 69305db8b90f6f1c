//! Connects read-only to legs of a head with a divergent history.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use control::{Failure, FailureKind};
use engine::pool::legs::Record;
use engine::pool::{Candidate, Claims, ImportOptions, SafeToOwn};
use engine::{Engine, Pool};
use leg_door::{Directories, Inspection};
use leg_record::DiskId;
use leg_zfs::multi_head::MultiHead;
use legs_config::{Kind, LegsFile};
use units::PoolName;

use crate::multi_head;

/// Legs that are connected for reading.
struct Connected {
    multi_head: Arc<MultiHead>,
    _folder: TemporaryDirectory,
}

/// Temporary directory for the names of the legs.
struct TemporaryDirectory(PathBuf);

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Connects to the legs of `pool` on `heads`.
pub(crate) fn connect(
    directories: &Directories,
    pool: &PoolName,
    config: &Path,
    heads: &[String],
) -> Result<Box<dyn Inspection>, Failure> {
    let (file, identity) = multi_head::read(config)?;
    let legs = legs_of(&file, pool, heads)?;
    let folder = format!("inspect-{}", std::process::id());
    let folder = TemporaryDirectory(directories.run.join(folder));
    let multi_head = MultiHead::for_inspection(file.clone(), Arc::new(identity), pool, &folder.0);
    let multi_head = multi_head.ok_or_else(|| multi_head::names_no_pool(&file, pool, config))?;
    for leg in legs {
        multi_head.inspect(leg).map_err(|why| {
            let message = format!("{}: {why}", file.disk_name(leg));
            Failure::new(FailureKind::Unavailable, message).advise(
                "start bulkhead-leg-server on that head; if the pool is served there, use its server instead",
            )
        })?;
    }
    Ok(Box::new(Connected {
        multi_head,
        _folder: folder,
    }))
}

impl Inspection for Connected {
    fn install(&self, options: &mut dyn Any) {
        self.multi_head.install(options);
    }

    fn open(
        &self,
        engine: &dyn Engine,
        name: &PoolName,
    ) -> Result<(Candidate, Box<dyn Pool>), Failure> {
        let laid_out = self.multi_head.lay_out(|_| false);
        laid_out.map_err(Failure::of("create the names of legs"))?;
        let unavailable = |why: String| Failure::new(FailureKind::Unavailable, why);
        let candidate = self.multi_head.found().map_err(unavailable)?;
        let present = candidate.devices.all.iter().filter(|device| device.present);
        let options = ImportOptions {
            read_only: true,
            rename: Some(name.clone()),
            claims: Claims::Locks,
            record: Some(Record {
                number: candidate.devices.legs.record.unwrap_or(0),
                current: present.map(|device| device.guid).collect(),
            }),
            ..ImportOptions::default()
        };
        // The import is read-only, so it does not affect an owner of the legs.
        let proof = SafeToOwn::record_names_this_head(&candidate);
        let opened = engine.import(&candidate, proof, &options);
        let opened = opened.map_err(operations::pool_failure)?;
        Ok((candidate, opened))
    }
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
