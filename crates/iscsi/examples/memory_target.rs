//! Serves a device in memory over iSCSI, to try initiators on without a pool:
//! `memory_target [ADDRESS:PORT,GROUP]... [--size=MIB] [--units=N] [--chap=USER:SECRET[:USER:SECRET]] [--flush]`.
//! Prints the portals when it is ready and serves until its standard input ends.

#![allow(clippy::print_stdout)]

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block_device::MemoryDevice;
use iscsi::{
    Access, Chap, Credentials, Initiators, IscsiServer, Limits, PortalWish, Secret, TargetWish,
    Wish,
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
    let mut chap = None;
    for argument in std::env::args().skip(1) {
        if let Some(value) = argument.strip_prefix("--size=") {
            size_mib = value.parse().expect("a number of MiB");
        } else if let Some(value) = argument.strip_prefix("--units=") {
            units = value.parse().expect("a number of units");
        } else if let Some(value) = argument.strip_prefix("--chap=") {
            chap = Some(parse_chap(value));
        } else {
            let (address, group) = argument.split_once(',').unwrap_or((&argument, "1"));
            portals.push(PortalWish {
                address: address.parse().expect("ADDRESS:PORT"),
                group: group.parse().expect("a portal group tag"),
            });
        }
    }
    if portals.is_empty() {
        portals.push(PortalWish {
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
    let applied = server.apply(Wish {
        targets: vec![TargetWish {
            name: TARGET.parse().expect("an iSCSI name"),
            portal_groups: Vec::new(),
            access: Access {
                initiators: Initiators::Unspecified,
                networks: Vec::new(),
                chap,
            },
            target: memory_target(size_mib << 20, units, groups),
        }],
        portals,
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
        })
    };
    Chap {
        initiator: next().expect("USER:SECRET"),
        mutual: next(),
    }
}

fn memory_target(size: u64, units: u16, portal_groups: Vec<u16>) -> Arc<scsi::Target> {
    let target = scsi::Target::new(scsi::TargetConfig {
        name: TARGET.parse().expect("an iSCSI name"),
        vendor: "BULKHEAD".to_owned(),
        product: "MEMORY".to_owned(),
        revision: "0".to_owned(),
        portal_groups,
    });
    let configs = (0..units).map(|lun| scsi::UnitConfig {
        lun,
        device: Arc::new(MemoryDevice::new(size, 512)),
        identity: scsi::Identity {
            naa: [&[0x60; 14][..], &lun.to_be_bytes()].concat(),
            serial: format!("MEMORY{lun:04}"),
            eui: None,
        },
        write_cache: true,
        read_only: false,
        thin: true,
        show_physical_block: false,
        visibility: scsi::Visibility::All,
        reservations: Arc::new(scsi::NoReservationStore),
    });
    target.apply(configs.collect());
    target
}
