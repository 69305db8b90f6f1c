//! Serves a device in memory over iSCSI, to test initiators without a pool: `memory_target
//! [ADDRESS:PORT,GROUP]... [--size=MIB] [--units=N] [--chap=USER:SECRET[:USER:SECRET]] [--null]`.
//! `--null` serves a device that stores and copies nothing, to measure the server alone. Prints the
//! portals when it is ready and serves until the end of its standard input.

#![allow(clippy::print_stdout)]

use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use block_device::{
    BlockDevice, Commit, DeviceError, Extent, Geometry, MemoryDevice, ReadLoan, StatusRun, Update,
    WaitMode, WriteLoan, Zero,
};
use iscsi::{
    Access, Chap, Credentials, DesiredPortal, DesiredState, DesiredTarget, Initiators, IscsiServer,
    Limits, Secret,
};
use serving::{Budget, Workers};

const TARGET: &str = "iqn.2026-01.org.example:memory";

fn main() {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::INFO)
        .init();
    let mut portals = Vec::new();
    let (mut size_mib, mut units) = (256_u64, 1_u16);
    let (mut chap, mut null) = (None, false);
    for argument in std::env::args().skip(1) {
        if let Some(value) = argument.strip_prefix("--size=") {
            size_mib = value.parse().expect("a number of MiB");
        } else if let Some(value) = argument.strip_prefix("--units=") {
            units = value.parse().expect("a number of units");
        } else if let Some(value) = argument.strip_prefix("--chap=") {
            chap = Some(parse_chap(value));
        } else if argument == "--null" {
            null = true;
        } else {
            let (address, group) = argument.split_once(',').unwrap_or((&argument, "1"));
            portals.push(DesiredPortal {
                address: address.parse().expect("ADDRESS:PORT"),
                group: group.parse().expect("a portal group tag"),
            });
        }
    }
    if portals.is_empty() {
        portals.push(DesiredPortal {
            address: "127.0.0.1:0".parse().expect("an address"),
            group: 1,
        });
    }
    let mut groups: Vec<u16> = portals.iter().map(|portal| portal.group).collect();
    groups.dedup();
    let server = IscsiServer::new(
        Limits::default(),
        Arc::new(Workers::new("worker", 8)),
        Budget::new(64 << 20),
    );
    let applied = server.apply(DesiredState {
        targets: vec![DesiredTarget {
            name: TARGET.parse().expect("an iSCSI name"),
            portal_groups: Vec::new(),
            access: Access {
                initiators: Initiators::Unspecified,
                networks: Vec::new(),
                chap,
            },
            target: memory_target(size_mib << 20, units, groups, null),
        }],
        portals,
        discovery: None,
    });
    for error in applied.failed {
        println!("{error}: {}", error.cause);
    }
    for (address, group) in server.portals() {
        println!("iscsi://{address}/{TARGET}/0 group {group}");
    }
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    println!("{:?}", server.status().counters);
    server.drain(Instant::now() + Duration::from_secs(5));
}

fn parse_chap(text: &str) -> Chap {
    let mut parts = text.split(':');
    let mut next = || {
        let (user, secret) = (parts.next()?, parts.next()?);
        Some(Credentials {
            user: user.to_owned(),
            secret: Secret::new(secret.as_bytes().to_vec()),
            initiators: Vec::new(),
        })
    };
    Chap {
        initiators: vec![next().expect("USER:SECRET")],
        mutual: next(),
    }
}

fn memory_target(size: u64, units: u16, portal_groups: Vec<u16>, null: bool) -> Arc<scsi::Target> {
    let target = scsi::Target::new(scsi::TargetConfig {
        name: TARGET.parse().expect("an iSCSI name"),
        vendor: "BULKHEAD".to_owned(),
        product: "MEMORY".to_owned(),
        revision: "0".to_owned(),
        portal_groups,
    });
    let configs = (0..units).map(|lun| scsi::UnitConfig {
        lun,
        device: if null {
            Arc::new(NullDevice { size })
        } else {
            Arc::new(MemoryDevice::new(size, 512))
        },
        identity: scsi::Identity {
            naa: [&[0x60; 14][..], &lun.to_be_bytes()].concat(),
            serial: format!("MEMORY{lun:04}"),
            eui: None,
        },
        write_cache: true,
        ready: true,
        read_only: false,
        thin: true,
        show_physical_block: false,
        visibility: scsi::Visibility::All,
        reservations: Arc::new(scsi::NoReservationStore),
        modes: Arc::new(scsi::NoReservationStore),
    });
    target.apply(configs.collect());
    target
}

/// Reads as zeroes; discards writes.
struct NullDevice {
    size: u64,
}

const PART_BYTES: usize = 128 * 1024;
static ZEROES: [u8; PART_BYTES] = [0; PART_BYTES];

struct Zeroes(usize);

impl ReadLoan for Zeroes {
    fn byte_count(&self) -> usize {
        self.0
    }
    fn append_parts<'a>(&'a self, parts: &mut Vec<&'a [u8]>) {
        let mut left = self.0;
        while left > 0 {
            let count = left.min(PART_BYTES);
            parts.push(&ZEROES[..count]);
            left -= count;
        }
    }
}

/// Reused buffers: the engine's own buffers are in the CPU caches, too.
static BUFFERS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

struct Forgotten {
    extent: Extent,
    buffer: Vec<u8>,
}

impl WriteLoan for Forgotten {
    fn extent(&self) -> Extent {
        self.extent
    }
    fn append_parts<'a>(&'a mut self, parts: &mut Vec<&'a mut [u8]>) {
        parts.extend(self.buffer.chunks_mut(PART_BYTES));
    }
    fn commit(self: Box<Self>, _: WaitMode<'_>) -> Commit {
        BUFFERS.lock().expect("no holder panics").push(self.buffer);
        Commit::Done
    }
}

impl BlockDevice for NullDevice {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size,
            logical_block: 512,
            physical_block: 4096,
            read_only: false,
        }
    }
    fn read(&self, extent: Extent, _: WaitMode<'_>) -> Result<Box<dyn ReadLoan>, DeviceError> {
        Ok(Box::new(Zeroes(extent.length as usize)))
    }
    fn lend(&self, extent: Extent) -> Result<Box<dyn WriteLoan>, DeviceError> {
        let used = BUFFERS.lock().expect("no holder panics").pop();
        let mut buffer = used.unwrap_or_default();
        buffer.resize(extent.length as usize, 0);
        Ok(Box::new(Forgotten { extent, buffer }))
    }
    fn write(&self, _offset: u64, _data: &[u8], _: WaitMode<'_>) -> Result<(), DeviceError> {
        Ok(())
    }
    fn write_zeroes(&self, _: Extent, _: Zero, _: WaitMode<'_>) -> Result<(), DeviceError> {
        Ok(())
    }
    fn unmap(&self, _: Extent, _: WaitMode<'_>) -> Result<(), DeviceError> {
        Ok(())
    }
    fn update(
        &self,
        extent: Extent,
        change: &mut dyn FnMut(&mut [u8]) -> Update,
    ) -> Result<Update, DeviceError> {
        Ok(change(&mut vec![0; extent.length as usize]))
    }
    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn is_clean(&self) -> bool {
        true
    }
    fn status(&self, extent: Extent, _runs_max: usize) -> Result<Vec<StatusRun>, DeviceError> {
        Ok(vec![StatusRun {
            length: extent.length,
            allocated: true,
        }])
    }
}
