//! Asynchronous reads: the caller continues, and is called back when the data is available, when the disk fails, and
//! before the volume closes.

mod volume_support;

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use block_device::{Begun, BlockDevice, DeviceError, ErrorKind, Extent, ReadLoan, WaitMode};
use engine::Volume as _;
use engine::capabilities::{Datasets, Ownership};
use engine::dataset::{Value, VolumeSpec};
use engine::pool::{GroupKind, PoolSpec};
use engine::volume::OpenOptions;
use units::ByteCount;
use volume_support::{disk_files, judge, seed, volume_name};
use zpool::device::faults::{Fault, Faults};
use zpool::{Engine, EngineOptions, HostId, Pool, Volume};

const BLOCK: u64 = 4 << 10;
const BLOCKS: u64 = 256;
/// How long a disk does not respond; a thread that blocked on it would be noticed.
const DELAY: Duration = Duration::from_millis(400);
const WAIT_MAX: Duration = Duration::from_secs(20);

type Outcome = Result<Vec<u8>, ErrorKind>;

fn bytes_of(read: Result<Box<dyn ReadLoan>, DeviceError>) -> Outcome {
    let loan = read.map_err(|error| error.kind)?;
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    Ok(parts.concat())
}

/// The blocks in an unpredictable order.
fn block(number: u64) -> u64 {
    number * 97 % BLOCKS
}

fn extent(number: u64) -> Extent {
    Extent::new(block(number) * BLOCK, BLOCK)
}

/// Starts a read of a block that is not in memory.
fn begin(volume: &Volume, number: u64) -> Receiver<Outcome> {
    let (sender, outcome) = channel();
    match volume.begin_read(extent(number)).expect("begun") {
        Begun::Done(_) => panic!("block {} is in memory", block(number)),
        Begun::Pending(pending) => pending.finish(Box::new(move |read| {
            let _ = sender.send(bytes_of(read));
        })),
    }
    outcome
}

fn noise(seed: u64, number: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed ^ block(number));
    (0..BLOCK).map(|_| random.u8(..)).collect()
}

#[test]
fn pending_read_completes_without_blocking_other_reads() {
    let (seed, faults) = (seed(), Faults::new());
    let dir = tempfile::tempdir().expect("a dir");
    let mut options = EngineOptions::new(HostId::derive("test", "tank"));
    options.devices.wrap = Some(faults.wrap());
    let engine = Engine::start(options).expect("the engine starts");
    let disks = disk_files(dir.path(), 1, 256 << 20);
    let (disk, name) = (disks[0].clone(), volume_name("tank/v"));
    let spec = PoolSpec::new("tank".parse().expect("a name"), GroupKind::Stripe, disks);
    let pool = Pool::create(engine, &spec).expect("a pool");
    let mut spec = VolumeSpec::sparse(name.clone(), ByteCount(BLOCKS * BLOCK));
    spec.block_size = ByteCount(BLOCK);
    // Contents never stay in memory.
    let primary = (
        "primarycache".to_owned(),
        Value::Text("metadata".to_owned()),
    );
    spec.properties.push(primary);
    pool.create_volume(&spec).expect("a volume");
    let volume = pool
        .open_volume(&name, OpenOptions::default())
        .expect("the volume opens");
    for number in 0..BLOCKS {
        let data = noise(seed, number);
        let written = volume.write(extent(number).offset, &data, WaitMode::MayBlock);
        written.expect("written");
    }
    volume.flush().expect("flushed");
    pool.sync().expect("synced");
    // Its dirty blocks are evicted some groups later.
    pool.sync().expect("synced");
    pool.sync().expect("synced");

    let slow = Fault {
        delay: DELAY,
        ..Fault::default()
    };
    faults.set(&disk, slow);
    // All are in flight before the first one completes.
    let begun: Vec<_> = (0..64).map(|number| begin(&volume, number)).collect();
    assert_eq!(begun[0].try_recv().ok(), None, "the disk is slow");
    // A read that another request has in flight must be waited for.
    let second = volume.begin_read(extent(3)).err().map(|error| error.kind);
    assert_eq!(second, Some(ErrorKind::WouldBlock));
    for (number, outcome) in begun.iter().enumerate() {
        let read = outcome.recv_timeout(WAIT_MAX).expect("it ends");
        assert!(read == Ok(noise(seed, number as u64)), "number {number}");
    }

    // An abandoned one leaves no state behind.
    let given_up = volume.begin_read(extent(100)).expect("begun");
    assert!(matches!(given_up, Begun::Pending(_)));
    drop(given_up);

    faults.set(
        &disk,
        Fault {
            reads_corrupt: true,
            ..Fault::default()
        },
    );
    let failed = begin(&volume, 101).recv_timeout(WAIT_MAX).expect("it ends");
    assert_eq!(failed, Err(ErrorKind::Unreadable));
    faults.set(&disk, slow);
    let again = begin(&volume, 101).recv_timeout(WAIT_MAX).expect("it ends");
    assert!(again == Ok(noise(seed, 101)));

    // The volume closes when the last one has ended.
    let last = begin(&volume, 102);
    let early = last.recv_timeout(Duration::from_millis(1));
    assert_eq!(early, Err(RecvTimeoutError::Timeout));
    volume.close();
    // Its data was lent until then; the result may arrive slightly later.
    let read = last.recv_timeout(WAIT_MAX).expect("it ended");
    assert!(read == Ok(noise(seed, 102)));
    let closed = volume.begin_read(extent(0)).err().map(|error| error.kind);
    assert_eq!(closed, Some(ErrorKind::Gone));
    faults.lift(&disk);
    drop(volume);
    pool.export().map_err(|(_, error)| error).expect("exported");
    judge(dir.path());
}
