//! Measures the overhead of the SCSI layer: nanoseconds for a READ (10) and a WRITE (10) of 4 KiB
//! beyond the device call alone. Run it with `--release`.

#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use block_device::{BlockDevice, Extent, MemoryDevice, WaitMode};
use scsi::{
    Cdb, Command, DataOut, Executed, Identity, Lun, NexusId, NoReservationStore, Target,
    TargetConfig, TaskAttribute, UnitConfig, Visibility,
};

const ROUNDS: u32 = 1_000_000;
const BYTES: u32 = 4096;

fn command(opcode: u8) -> Command {
    Command {
        lun: Lun::ZERO,
        cdb: Cdb::new(&[opcode, 0, 0, 0, 0, 8, 0, 0, 8, 0]),
        attribute: TaskAttribute::Simple,
        expected_data_out: if opcode == 0x2a { BYTES } else { 0 },
        expected_data_in: if opcode == 0x2a { 0 } else { BYTES },
    }
}

fn nanoseconds_each(mut once: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..ROUNDS {
        once();
    }
    start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
}

fn main() {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(1 << 20, 512));
    let target = Target::new(TargetConfig {
        name: "iqn.2026-01.org.example:cost".parse().expect("a name"),
        vendor: "V".to_owned(),
        product: "P".to_owned(),
        revision: "R".to_owned(),
        portal_groups: vec![1],
    });
    let naa = vec![0x60; 16];
    target.apply(vec![UnitConfig {
        lun: 0,
        device: Arc::clone(&device),
        identity: Identity {
            naa,
            serial: "s".to_owned(),
            eui: None,
        },
        write_cache: true,
        ready: true,
        read_only: false,
        thin: true,
        show_physical_block: false,
        visibility: Visibility::All,
        reservations: Arc::new(NoReservationStore),
        modes: Arc::new(NoReservationStore),
    }]);
    let nexus = target.login(NexusId {
        initiator: "iqn.2026-01.org.example:a".parse().expect("a name"),
        isid: [0; 6],
        portal_group: 1,
    });
    let data = [1_u8; BYTES as usize];
    let execute = |command: &Command, data| -> Executed {
        target.execute(&nexus, command, data, WaitMode::NoWait)
    };
    // The first command consumes the power on attention.
    execute(&command(0x00), DataOut::None);
    let (read, write) = (command(0x28), command(0x2a));
    let extent = Extent::new(4096, u64::from(BYTES));
    let plain_read = nanoseconds_each(|| drop(black_box(device.read(extent, WaitMode::NoWait))));
    let plain_write = nanoseconds_each(|| {
        black_box(device.write(extent.offset, &data, WaitMode::NoWait)).expect("memory");
    });
    let scsi_read = nanoseconds_each(|| drop(black_box(execute(&read, DataOut::None))));
    let scsi_write = nanoseconds_each(|| {
        black_box(target.plan(&nexus, &write));
        drop(black_box(execute(&write, DataOut::Slice(&data))));
    });
    println!(
        "read: {:.0} ns, write with plan: {:.0} ns on top of the device",
        scsi_read - plain_read,
        scsi_write - plain_write
    );
}
