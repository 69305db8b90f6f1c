//! Any CDB with any parameter list, from two initiators, on a unit in memory: no crash, no more
//! data than a command may transfer, and never a response longer than a transport expects.

#![no_main]

use std::sync::Arc;

use block_device::{MemoryDevice, WaitMode};
use libfuzzer_sys::fuzz_target;
use scsi::{
    Cdb, Command, DataOut, Executed, Identity, Lun, Nexus, NexusId, NoReservationStore, Outcome,
    PARAMETER_LIST_BYTES_MAX, Plan, TRANSFER_BYTES_MAX, Target, TargetConfig, TaskAttribute,
    UnitConfig, Visibility,
};

const UNIT_BYTES: u64 = 1 << 20;
/// Commands of one input; more teach nothing new.
const COMMANDS_MAX: usize = 16;
/// Offers of data stay below this, so that an input is processed quickly.
const OFFER_BYTES_MAX: u32 = 64 * 1024;

fn unit(lun: u16, naa_last: u8) -> UnitConfig {
    let mut naa = vec![0x60; 16];
    naa[15] = naa_last;
    UnitConfig {
        lun,
        device: Arc::new(MemoryDevice::new(UNIT_BYTES, 512)),
        identity: Identity {
            naa,
            serial: format!("fuzz{lun}"),
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
    }
}

fn login(target: &Arc<Target>, last: u8) -> Nexus {
    let initiator = format!("iqn.2026-01.org.example:fuzz{last}")
        .parse()
        .expect("a good name");
    target.login(NexusId {
        initiator,
        isid: [0, 0, 0, 0, 0, last],
        portal_group: 1,
    })
}

fn check(outcome: &Outcome) {
    let bytes = outcome.data_in.byte_count() as u64;
    assert!(bytes <= TRANSFER_BYTES_MAX, "{bytes} bytes of data-in");
    assert!(
        outcome
            .sense
            .as_ref()
            .is_none_or(|sense| sense.len() <= 252),
        "sense data too long"
    );
}

fn finish(mut executed: Executed) {
    // A command that was resumed must not block again.
    for _ in 0..2 {
        match executed {
            Executed::Done(outcome) => return check(&outcome),
            Executed::Durable { then, .. } => return check(&then),
            Executed::Reading(_) => panic!("a device in memory has its data at hand"),
            Executed::WouldBlock(pending) => executed = pending.execute(&|| true),
            Executed::DropSession => panic!("a device in memory is never gone"),
        }
    }
    panic!("a command that may wait would block");
}

/// Removes `count` bytes from the front; missing bytes read as zeroes.
fn take(input: &mut &[u8], count: usize) -> Vec<u8> {
    let (front, rest) = input.split_at(count.min(input.len()));
    *input = rest;
    let mut bytes = front.to_vec();
    bytes.resize(count, 0);
    bytes
}

fuzz_target!(|input: &[u8]| {
    let target = Target::new(TargetConfig {
        name: "iqn.2026-01.org.example:target"
            .parse()
            .expect("a good name"),
        vendor: "BULKHEAD".into(),
        product: "VOLUME".into(),
        revision: "1".into(),
        portal_groups: vec![1],
    });
    target.apply(vec![unit(0, 1), unit(1, 2)]);
    let nexuses = [login(&target, 1), login(&target, 2)];
    let mut rest = input;
    for _ in 0..COMMANDS_MAX {
        if rest.is_empty() {
            break;
        }
        let head = take(&mut rest, 4);
        let cdb_bytes = if head[0] & 0x80 != 0 { 32 } else { 16 };
        let cdb = take(&mut rest, cdb_bytes);
        let offered = u32::from(u16::from_be_bytes([head[2], head[3]])).min(OFFER_BYTES_MAX);
        let command = Command {
            lun: if head[0] & 4 != 0 {
                Lun::REPORT_LUNS
            } else {
                Lun::from_unit((head[0] & 2) as u16 >> 1)
            },
            cdb: Cdb::new(&cdb),
            attribute: TaskAttribute::Simple,
            expected_data_out: offered,
            expected_data_in: offered,
        };
        let nexus = &nexuses[usize::from(head[0] & 1)];
        let data = match target.plan(nexus, &command) {
            Plan::NoData => DataOut::None,
            Plan::Refuse(outcome) => {
                check(&outcome);
                continue;
            }
            Plan::DataOut { bytes, landing } => {
                let is_block_data = landing.is_some();
                assert!(
                    is_block_data
                        || bytes <= PARAMETER_LIST_BYTES_MAX
                        || u64::from(bytes) <= TRANSFER_BYTES_MAX
                );
                DataOut::Bytes(take(&mut rest, bytes.min(offered) as usize))
            }
        };
        let wait_mode = if head[1] & 1 != 0 {
            WaitMode::NoWait
        } else {
            WaitMode::MayBlock
        };
        finish(target.execute(nexus, &command, data, wait_mode));
    }
});
