//! Measures the time to open a pool, to read its exports, and to read from one volume,
//! with 1 and with 1,000 volumes: `many_volumes FOLDER COUNT` creates a pool there, or opens an
//! existing one and prints the times.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use block_device::{BlockDevice, Extent, WaitMode};
use engine::Volume as _;
use engine::capabilities::{Datasets, Properties};
use engine::dataset::VolumeSpec;
use engine::pool::{GroupKind, ImportOptions, PoolSpec, SafeToOwn};
use engine::volume::OpenOptions;
use units::{ByteCount, VolumeName};
use zpool::pool::discover;
use zpool::{Engine, EngineOptions, HostId, Pool};

/// Properties of an exported volume, about as many as a target stores.
const PROPERTIES: [&str; 5] = ["target", "lun", "identity", "access", "portal-group"];

fn make(engine: &'static Engine, dir: PathBuf, count: usize) -> Result<(), Box<dyn Error>> {
    let disk = dir.join("disk");
    std::fs::File::create(&disk)?.set_len(4 << 30)?;
    let spec = PoolSpec::new("tank".parse()?, GroupKind::Stripe, vec![disk]);
    let pool = Pool::create(engine, &spec)?;
    for n in 0..count {
        let mut spec = VolumeSpec::sparse(format!("tank/v{n}").parse()?, ByteCount::mib(16));
        for name in PROPERTIES {
            let value = format!("a value of some length, for volume {n}");
            let property = (format!("bulkhead:{name}"), value.as_str().into());
            spec.properties.push(property);
        }
        pool.create_volume(&spec)?;
    }
    pool.export().map_err(|(_, error)| error)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().ok_or("FOLDER is missing")?);
    let count = arguments.next().ok_or("COUNT is missing")?.parse()?;
    let engine = Engine::start(EngineOptions::new(HostId::derive("many", "tank")))?;
    let start = Instant::now();
    let found = discover(std::slice::from_ref(&dir))?;
    let Some(candidate) = found.first() else {
        return make(engine, dir, count);
    };
    let proof = SafeToOwn::exported(candidate).ok_or("the pool was not exported")?;
    let pool = Pool::import(engine, candidate, proof, &ImportOptions::default())?;
    let imported = start.elapsed();
    let properties = pool.user_properties("bulkhead:")?;
    let listed = start.elapsed();
    let name: VolumeName = format!("tank/v{}", count - 1).parse()?;
    let volume = pool.open_volume(&name, OpenOptions::default())?;
    drop(volume.read(Extent::new(0, 4096), WaitMode::MayBlock)?);
    println!(
        "{} volumes: imported after {imported:.1?}, exports known after {listed:.1?}, \
         first read after {:.1?}",
        properties.len(),
        start.elapsed()
    );
    volume.close();
    pool.export().map_err(|(_, error)| error)?;
    Ok(())
}
