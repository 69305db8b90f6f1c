//! Random operations on a volume of a real cluster, compared with a device in memory.

mod support;

use std::sync::mpsc;

use block_device::{
    Begun, BlockDevice, Commit, ErrorKind, Extent, MemoryDevice, Update, WaitMode, Zero,
};
use support::{MIB, Scratch, read, seed};

/// Two objects of 4 MiB and a part of a third.
const SIZE: u64 = 10 * MIB;
const ROUNDS: usize = 1200;
const LENGTH_MAX: u64 = 300 << 10;

fn random_extent(random: &mut fastrand::Rng) -> Extent {
    let length = match random.u8(0..3) {
        0 => 512 * random.u64(1..16),
        _ => 512 * random.u64(1..LENGTH_MAX / 512),
    };
    // Often across the boundary of two objects.
    let offset = match random.bool() {
        true => 512 * random.u64(0..=(SIZE - length) / 512),
        false => (4 * MIB * random.u64(1..3))
            .saturating_sub(512 * random.u64(0..=length / 512))
            .min(SIZE - length),
    };
    Extent::new(offset, length)
}

fn lend_and_commit(device: &dyn BlockDevice, extent: Extent, data: &[u8]) {
    let mut loan = device.lend(extent).expect("lent");
    let mut parts = Vec::new();
    loan.append_parts(&mut parts);
    let mut rest = data;
    for part in parts {
        let (now, later) = rest.split_at(part.len());
        part.copy_from_slice(now);
        rest = later;
    }
    assert!(matches!(loan.commit(WaitMode::MayBlock), Commit::Done));
}

fn read_asynchronously(device: &dyn BlockDevice, extent: Extent) -> Vec<u8> {
    match device.begin_read(extent).expect("begun") {
        Begun::Done(_) => panic!("nothing is cached"),
        Begun::Pending(pending) => {
            let (sender, receiver) = mpsc::channel();
            pending.finish(Box::new(move |result| {
                sender.send(result.expect("read")).expect("received")
            }));
            let loan = receiver.recv_timeout(support::DEADLINE).expect("completed");
            let mut parts = Vec::new();
            loan.append_parts(&mut parts);
            parts.concat()
        }
    }
}

/// One random operation, on both.
fn step(random: &mut fastrand::Rng, volume: &dyn BlockDevice, memory: &MemoryDevice) {
    let extent = random_extent(random);
    let fill = random.u8(..);
    let data: Vec<u8> = (0..extent.length).map(|n| fill ^ (n / 512) as u8).collect();
    let devices: [&dyn BlockDevice; 2] = [volume, memory];
    match random.u8(0..16) {
        0..4 => devices.map(|d| {
            d.write(extent.offset, &data, WaitMode::MayBlock)
                .expect("written")
        }),
        4..6 => devices.map(|d| lend_and_commit(d, extent, &data)),
        6..8 => devices.map(|d| d.unmap(extent, WaitMode::MayBlock).expect("unmapped")),
        8 => devices.map(|d| {
            d.write_zeroes(extent, Zero::KeepAllocated, WaitMode::MayBlock)
                .expect("zeroed")
        }),
        9..11 => devices.map(|d| {
            let changed = d.update(extent, &mut |bytes| {
                bytes.iter_mut().for_each(|b| *b = b.wrapping_add(fill));
                match fill % 8 {
                    0 => Update::Keep,
                    _ => Update::Write,
                }
            });
            changed.expect("updated");
        }),
        11 => devices.map(|d| d.flush().expect("flushed")),
        12..14 => {
            assert_eq!(
                read_asynchronously(volume, extent),
                read(memory, extent),
                "{extent:?}"
            );
            [(); 2]
        }
        _ => {
            assert_eq!(read(volume, extent), read(memory, extent), "{extent:?}");
            [(); 2]
        }
    };
}

/// Written data must never appear as a hole.
fn check_status(volume: &dyn BlockDevice, contents: &[u8]) {
    let runs = volume.status(Extent::new(0, SIZE), 10_000).expect("status");
    assert_eq!(runs.iter().map(|run| run.length).sum::<u64>(), SIZE);
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
#[ignore = "needs a cluster: python3 -m proof.ceph"]
fn random_operations_on_a_cluster_match_the_device_in_memory() {
    let mut random = fastrand::Rng::with_seed(seed());
    let mut scratch = Scratch::new("random", "rbd");
    let name = scratch.create("tank/v", SIZE);
    let memory = MemoryDevice::new(SIZE, 512);
    let mut volume = scratch
        .pool()
        .open_volume(&name, Default::default())
        .expect("open");
    for round in 0..ROUNDS {
        step(&mut random, &*volume, &memory);
        if round % 400 == 200 {
            check_status(&*volume, &read(&memory, Extent::new(0, SIZE)));
            volume.close();
            volume = scratch
                .pool()
                .open_volume(&name, Default::default())
                .expect("open");
        }
    }
    assert_eq!(
        read(&*volume, Extent::new(0, SIZE)),
        read(&memory, Extent::new(0, SIZE))
    );
    let outside = volume.read(Extent::new(SIZE - 512, 1024), WaitMode::MayBlock);
    assert!(matches!(outside, Err(error) if error.kind == ErrorKind::OutOfRange));
    let blocked = volume.write(0, &[1; 512], WaitMode::NoWait);
    assert!(matches!(blocked, Err(error) if error.kind == ErrorKind::WouldBlock));
    volume.close();
    let gone = volume.read(Extent::new(0, 512), WaitMode::MayBlock);
    assert!(matches!(gone, Err(error) if error.kind == ErrorKind::Gone));
    drop(volume);
    scratch.destroy();
}
