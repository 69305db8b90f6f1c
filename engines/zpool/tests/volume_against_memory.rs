//! Random operations on volumes of several block sizes, compared with a device in memory.

mod volume_support;

use block_device::{BlockDevice, Commit, ErrorKind, Extent, MemoryDevice, Update, WaitMode, Zero};
use engine::Volume as _;
use volume_support::{Scratch, read, seed};
use zpool::Volume;

const SIZE: u64 = 8 << 20;
const ROUNDS: usize = 1500;
const LENGTH_MAX: u64 = 300 << 10;

fn random_extent(random: &mut fastrand::Rng, block: u64) -> Extent {
    let length = match random.u8(0..4) {
        0 => 512 * random.u64(1..32),
        1 => block * random.u64(1..=(LENGTH_MAX / block).max(1)),
        _ => 512 * random.u64(1..LENGTH_MAX / 512),
    };
    let align = if random.bool() { block } else { 512 };
    let offset = random.u64(0..=(SIZE - length) / align) * align;
    Extent::new(offset, length)
}

fn lend_and_commit(device: &dyn BlockDevice, extent: Extent, data: &[u8]) {
    let mut loan = device.lend(extent).expect("lend");
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    let mut rest = data;
    for part in parts {
        let (now, later) = rest.split_at(part.len());
        part.copy_from_slice(now);
        rest = later;
    }
    assert!(rest.is_empty());
    match loan.commit(WaitMode::NoWait) {
        Commit::Done => {}
        Commit::WouldBlock(loan) => {
            assert!(matches!(loan.commit(WaitMode::MayBlock), Commit::Done))
        }
        Commit::Failed(error) => panic!("{error}"),
    }
}

fn write(device: &dyn BlockDevice, offset: u64, data: &[u8]) {
    match device.write(offset, data, WaitMode::NoWait) {
        Err(error) if error.kind == ErrorKind::WouldBlock => {
            device
                .write(offset, data, WaitMode::MayBlock)
                .expect("write");
        }
        other => other.expect("write"),
    }
}

/// One random operation, on both.
fn step(random: &mut fastrand::Rng, volume: &Volume, memory: &MemoryDevice) {
    let block = u64::from(volume.geometry().physical_block);
    let extent = random_extent(random, block);
    let fill = random.u8(..);
    let data: Vec<u8> = (0..extent.length).map(|n| fill ^ (n / 512) as u8).collect();
    let devices: [&dyn BlockDevice; 2] = [volume, memory];
    match random.u8(0..16) {
        0..4 => devices.map(|d| write(d, extent.offset, &data)),
        4..8 => devices.map(|d| lend_and_commit(d, extent, &data)),
        8 => devices.map(|d| d.unmap(extent, WaitMode::MayBlock).expect("unmap")),
        9 => devices.map(|d| {
            d.write_zeroes(extent, Zero::KeepAllocated, WaitMode::MayBlock)
                .expect("write zeroes");
        }),
        10 => devices.map(|d| {
            let changed = d.update(extent, &mut |bytes| {
                bytes.iter_mut().for_each(|b| *b = b.wrapping_add(fill));
                if fill % 8 == 0 {
                    Update::Keep
                } else {
                    Update::Write
                }
            });
            changed.expect("update");
        }),
        11 => devices.map(|d| {
            d.flush().expect("flush");
            assert!(d.is_clean());
        }),
        _ => {
            assert_eq!(read(volume, extent), read(memory, extent), "{extent:?}");
            [(); 2]
        }
    };
}

/// Written data must never appear as a hole.
fn check_status(volume: &Volume, contents: &[u8]) {
    let runs = volume.status(Extent::new(0, SIZE), 10_000).expect("status");
    assert_eq!(runs.iter().map(|r| r.length).sum::<u64>(), SIZE);
    let mut at = 0;
    for run in runs {
        let bytes = &contents[at as usize..(at + run.length) as usize];
        assert!(
            run.allocated || bytes.iter().all(|b| *b == 0),
            "data in a hole of {} at {at}",
            run.length
        );
        at += run.length;
    }
}

#[test]
fn random_operations_match_the_device_in_memory() {
    let mut random = fastrand::Rng::with_seed(seed());
    let scratch = Scratch::new(512 << 20);
    for block in [512, 4 << 10, 16 << 10, 128 << 10] {
        let name = format!("tank/block{block}");
        let mut volume = scratch.volume(&name, SIZE, block);
        let memory = MemoryDevice::new(SIZE, 512);
        for round in 0..ROUNDS {
            step(&mut random, &volume, &memory);
            if round % 500 == 250 {
                check_status(&volume, &read(&memory, Extent::new(0, SIZE)));
                volume.close();
                volume = scratch.open(&volume_support::volume_name(&name));
            }
        }
        for at in (0..SIZE).step_by(1 << 20) {
            let extent = Extent::new(at, 1 << 20);
            assert_eq!(read(&volume, extent), read(&memory, extent));
        }
        let outside = volume.read(Extent::new(SIZE - 512, 1024), WaitMode::MayBlock);
        assert!(matches!(outside, Err(e) if e.kind == ErrorKind::OutOfRange));
        volume.close();
        let gone = volume.read(Extent::new(0, 512), WaitMode::NoWait);
        assert!(matches!(gone, Err(e) if e.kind == ErrorKind::Gone));
    }
    scratch.export_and_judge();
}
