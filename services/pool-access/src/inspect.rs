//! Opens the contents of legs that must not be written: those of a head that diverged.

use std::path::Path;

use control::Failure;
use engine::Pool;
use leg_door::Inspection;
use units::PoolName;

use crate::common::Common;
use crate::engines;
use crate::open::small_engine;

/// A pool that is open for reading.
pub struct Inspected {
    /// It.
    pub pool: Box<dyn Pool>,
    /// Its newest transaction group.
    pub newest_group: u64,
    /// When that was written, in seconds since 1970.
    pub newest_time_s: u64,
    _legs: Box<dyn Inspection>,
}

/// Opens the contents of the legs of `pool` on `heads`, through their lenders, as a pool named `name` in this process.
///
/// # Errors
///
/// A lender does not respond, or the legs do not suffice.
pub fn open(
    common: &Common,
    pool: &PoolName,
    config: &Path,
    heads: &[String],
    name: &PoolName,
) -> Result<Inspected, Failure> {
    let legs = engines::legs().inspect(&common.directories(), pool, config, heads)?;
    let mut options = small_engine(common, pool);
    options.legs = Some(Box::new(|own| legs.install(own)));
    let engine = engines::start(options)?;
    let (candidate, pool) = legs.open(&*engine, name)?;
    Ok(Inspected {
        pool,
        newest_group: candidate.devices.legs.newest_txg,
        newest_time_s: candidate.devices.legs.newest_time_s,
        _legs: legs,
    })
}
