//! A volume is closed while a block of its intent log is open: the last commit before left it for a next one, which
//! never happened.

mod volume_support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block_device::{BlockDevice, WaitMode};
use engine::capabilities::Datasets;
use engine::dataset::VolumeSpec;
use engine::volume::OpenOptions;
use units::ByteCount;
use volume_support::{Scratch, judge, volume_name};
use zpool::Volume;

const VOLUME_BYTES: u64 = 16 << 20;
/// So many closes; without the fix one in a few aborted the process.
const CLOSES: usize = 20;
const LOAD: Duration = Duration::from_millis(10);
/// Threads that only write: their last writes are never committed.
const WRITERS: u64 = 3;
/// Threads that write and flush.
const COMMITTERS: u64 = 2;

#[test]
fn volume_closes_with_an_open_log_block() {
    let scratch = Scratch::new(256 << 20);
    let name = volume_name("tank/volume");
    let spec = VolumeSpec::sparse(name.clone(), ByteCount(VOLUME_BYTES));
    scratch.pool.create_volume(&spec).expect("created");
    for _ in 0..CLOSES {
        let volume = scratch
            .pool
            .open_volume(&name, OpenOptions::default())
            .expect("opened");
        load(&volume);
        drop(volume);
    }
    let Scratch { dir, pool } = scratch;
    pool.export().map_err(|(_, error)| error).expect("exported");
    judge(dir.path());
}

fn load(volume: &Volume) {
    let is_over = AtomicBool::new(false);
    let write = |thread: u64, number: u64| {
        let offset = (thread * 7919 + number) * 4096 % VOLUME_BYTES;
        let written = volume.write(offset, &[number as u8; 4096], WaitMode::MayBlock);
        written.expect("written");
    };
    let until_over = |thread: u64, commits: bool| {
        let mut number = 0;
        while !is_over.load(Ordering::Acquire) {
            write(thread, number);
            number += 1;
            if commits && number % 8 == 0 {
                volume.flush().expect("durable");
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..WRITERS + COMMITTERS {
            let until_over = &until_over;
            scope.spawn(move || until_over(thread, thread >= WRITERS));
        }
        std::thread::sleep(LOAD);
        is_over.store(true, Ordering::Release);
    });
}
