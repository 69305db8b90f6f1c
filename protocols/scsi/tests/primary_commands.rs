//! Primary commands: identification, attentions, reservations between initiators, copies.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::*;
use scsi::{Lun, Status, TaskManagement, TmfResponse, UnitConfig, Visibility};

const POWER_ON: (u8, u8, u8) = (6, 0x29, 0);

#[test]
fn first_command_gets_unit_attention_except_inquiry() {
    let target = target();
    target.apply(vec![unit(0, TestDevice::new())]);
    let a = Initiator::fresh(&target, "a");
    let standard = a.good(&[0x12, 0, 0, 0, 96, 0], &[]);
    assert_eq!(
        &standard[..8],
        [0, 0, 6, 0x12, 91, 0x18, 0x10, 2],
        "SPC-4, HiSup, implicit ALUA, third-party copy, CmdQue"
    );
    assert_eq!(&standard[8..36], b"VENDOR  PRODUCT         0.1 ");
    a.good(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0], &[]);
    a.fails(&ten(0x2a, 0, 0, 1), &[0; BLOCK], POWER_ON);
    a.good(&[0; 6], &[]);
}

#[test]
fn request_sense_returns_and_clears_the_attention() {
    let target = target();
    target.apply(vec![unit(0, TestDevice::new())]);
    let a = Initiator::fresh(&target, "a");
    let data = a.good(&[3, 0, 0, 0, 252, 0], &[]);
    assert_eq!((data[0], data[2], data[12]), (0x70, 6, 0x29));
    let data = a.good(&[3, 1, 0, 0, 252, 0], &[]);
    assert_eq!(data, [0x72, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn every_listed_vpd_page_exists_with_its_length() {
    let (_target, _device, a) = one_unit();
    let pages = a.good(&[0x12, 1, 0, 0, 255, 0], &[]);
    assert_eq!(
        pages,
        [0, 0, 0, 8, 0, 0x80, 0x83, 0x86, 0x8f, 0xb0, 0xb1, 0xb2]
    );
    for page in &pages[4..] {
        let data = a.good(&[0x12, 1, *page, 1, 0, 0], &[]);
        assert_eq!(data[1], *page);
        let length = u16::from_be_bytes([data[2], data[3]]);
        assert_eq!(usize::from(length) + 4, data.len(), "{page:02x}");
    }
    a.fails(&[0x12, 1, 0xc0, 0, 255, 0], &[], ILLEGAL_CDB);
    a.fails(&[0x12, 0, 1, 0, 255, 0], &[], ILLEGAL_CDB);
}

#[test]
fn identification_begins_with_naa_and_includes_the_port() {
    let (_target, _device, a) = one_unit();
    let page = a.good(&[0x12, 1, 0x83, 1, 0, 0], &[]);
    let mut designators = Vec::new();
    let mut at = 4;
    while at < page.len() {
        let length = usize::from(page[at + 3]);
        designators.push((page[at], page[at + 1], &page[at + 4..at + 4 + length]));
        at += 4 + length;
    }
    assert_eq!((designators[0].0, designators[0].1), (1, 3));
    assert_eq!(designators[0].2.len(), 16);
    assert_eq!(designators[1].2, b"VENDOR  serial-0");
    assert_eq!(designators[2], (0x51, 0x94, &[0, 0, 0, 1][..]));
    assert_eq!(designators[3], (0x51, 0x95, &[0, 0, 0, 1][..]));
    assert_eq!(
        designators[4],
        (
            0x53,
            0x98,
            &b"iqn.2026-01.org.example:target,t,0x0001\0"[..]
        )
    );
    assert_eq!((designators[5].0, designators[5].1), (0x53, 0xa8));
}

#[test]
fn lun_without_a_unit_responds_as_in_spc_4() {
    let target = target();
    target.apply(vec![unit(3, TestDevice::new())]);
    let mut a = Initiator::fresh(&target, "a");
    assert_eq!(a.good(&[0x12, 0, 0, 0, 96, 0], &[])[0], 0x7f);
    a.fails(&[0; 6], &[], (5, 0x25, 0));
    a.fails(&ten(0x28, 0, 0, 1), &[], (5, 0x25, 0));
    let luns = a.good(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0], &[]);
    assert_eq!(luns, [0, 0, 0, 8, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0]);
    let data = a.good(&[3, 0, 0, 0, 18, 0], &[]);
    assert_eq!((data[2], data[12]), (5, 0x25));
    a.lun = Lun::REPORT_LUNS;
    assert_eq!(a.good(&[0x12, 0, 0, 0, 96, 0], &[])[0], 0x1e);
    let all = a.good(&[0xa0, 0, 2, 0, 0, 0, 0, 0, 0, 255, 0, 0], &[]);
    assert_eq!(all.len(), 24);
    assert_eq!(all[16..18], [0xc1, 1]);
}

#[test]
fn masked_unit_is_hidden_from_other_initiators() {
    let target = target();
    let mut config = unit(0, TestDevice::new());
    config.visibility = Visibility::Initiators(vec!["iqn.2026-01.org.example:b".parse().unwrap()]);
    target.apply(vec![config]);
    let a = Initiator::fresh(&target, "a");
    a.fails(&ten(0x28, 0, 0, 1), &[], (5, 0x25, 0));
    assert_eq!(
        a.good(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0], &[])
            .len(),
        8
    );
    let b = Initiator::login(&target, "b");
    b.good(&ten(0x28, 0, 0, 1), &[]);
}

#[test]
fn changed_units_raise_attention_and_others_keep_state() {
    let target = target();
    let kept = TestDevice::new();
    target.apply(vec![unit(0, Arc::clone(&kept))]);
    let a = Initiator::login(&target, "a");
    a.good(&[0x16, 0, 0, 0, 0, 0], &[]);
    let changes = target.apply(vec![unit(0, kept), unit(1, TestDevice::new())]);
    assert_eq!(changes.added, [1]);
    assert!(changes.replaced.is_empty());
    a.fails(&[0; 6], &[], (6, 0x3f, 0x0e));
    a.clear_attentions();
    let b = Initiator::fresh(&target, "b");
    b.conflicts(&ten(0x2a, 0, 0, 1), &[0; BLOCK]);
    let mut other = unit(0, TestDevice::new());
    other.identity.serial = "another".into();
    let changes = target.apply(vec![other]);
    assert_eq!((changes.replaced, changes.removed), (vec![0], vec![1]));
    a.fails(&[0; 6], &[], (6, 0x3f, 3));
}

#[test]
fn resized_device_raises_capacity_changed() {
    let target = target();
    target.apply(vec![unit(0, TestDevice::new())]);
    let a = Initiator::login(&target, "a");
    a.good(&ten(0x25, 0, 0, 0), &[]);
    let changes = target.apply(vec![unit(0, TestDevice::with_blocks(2 * BLOCKS))]);
    assert_eq!(changes.resized, [0]);
    a.fails(&[0; 6], &[], (6, 0x2a, 9));
    a.good(&[0; 6], &[]);
}

#[test]
fn mode_changes_take_effect_and_notify_other_initiators() {
    let (target, _device, a) = one_unit();
    let b = Initiator::login(&target, "b");
    // Control page with SWP and D_SENSE.
    let list = [
        0, 0, 0, 0, 0x0a, 10, 0x06, 0x10, 0x08, 0, 0, 0, 0xff, 0xff, 0, 0,
    ];
    a.good(&[0x15, 0x10, 0, 0, 16, 0], &list);
    b.fails(&[0; 6], &[], (6, 0x2a, 1));
    let answer = b.fails(&ten(0x2a, 0, 0, 1), &[0; BLOCK], (7, 0x27, 2));
    assert_eq!(answer.sense_bytes[0], 0x72);
    a.fails(&[0x15, 0x13, 0, 0, 16, 0], &list, ILLEGAL_CDB);
    let outcome = target.task_management(&a.nexus, TaskManagement::LogicalUnitReset, Lun::ZERO);
    assert_eq!(outcome.response, TmfResponse::Complete);
    a.fails(&[0; 6], &[], POWER_ON);
    b.fails(&[0; 6], &[], POWER_ON);
    b.good(&ten(0x2a, 0, 0, 1), &[0; BLOCK]);
}

/// MODE SELECT (6) of the caching page, with or without SP.
fn select_write_cache(save: bool, on: bool) -> ([u8; 6], [u8; 24]) {
    let mut list = [0; 24];
    list[4..6].copy_from_slice(&[8, 18]);
    list[6] = if on { 4 } else { 0 };
    ([0x15, 0x10 | u8::from(save), 0, 0, 24, 0], list)
}

/// Returns WCE of MODE SENSE (6): current, default, saved.
fn write_cache(initiator: &Initiator) -> [bool; 3] {
    [0x08, 0x88, 0xc8].map(|page| {
        let modes = initiator.good(&[0x1a, 8, page, 0, 255, 0], &[]);
        assert_eq!(modes[4], 0x88, "PS");
        modes[6] & 4 != 0
    })
}

#[test]
fn disabled_write_cache_stays_off_after_reset_and_takeover() {
    for save in [false, true] {
        let (store, device) = (Arc::new(TestStore::default()), TestDevice::new());
        let config = || UnitConfig {
            modes: store.clone(),
            ..unit(0, device.clone())
        };
        let first = target();
        first.apply(vec![config()]);
        let (a, b) = (Initiator::login(&first, "a"), Initiator::login(&first, "b"));
        assert_eq!(write_cache(&a), [true; 3]);
        let written = ten(0x2a, 0, 0, 1);
        a.good(&written, &[1; BLOCK]);
        let flushes = device.flushes.load(Ordering::Relaxed);
        let (cdb, list) = select_write_cache(save, false);
        a.good(&cdb, &list);
        let after = device.flushes.load(Ordering::Relaxed);
        assert_eq!(
            after,
            flushes + 1,
            "writes before MODE SELECT must be durable"
        );
        b.fails(&[0; 6], &[], (6, 0x2a, 1));
        first.task_management(&a.nexus, TaskManagement::LogicalUnitReset, Lun::ZERO);
        a.fails(&[0; 6], &[], POWER_ON);
        assert_eq!(
            write_cache(&a),
            [false, true, false],
            "after a reset, SP {save}"
        );
        // The other head reads the state that is stored in the pool.
        let second = target();
        second.apply(vec![config()]);
        let a = Initiator::login(&second, "a");
        assert_eq!(
            write_cache(&a),
            [false, true, false],
            "after a takeover, SP {save}"
        );
        let before = device.flushes.load(Ordering::Relaxed);
        a.good(&written, &[2; BLOCK]);
        assert_eq!(device.flushes.load(Ordering::Relaxed), before + 1);
    }
}

#[test]
fn enabled_write_cache_persists_only_if_saved() {
    let (store, device) = (Arc::new(TestStore::default()), TestDevice::new());
    let target = target();
    target.apply(vec![UnitConfig {
        modes: store.clone(),
        write_cache: false,
        ..unit(0, device)
    }]);
    let a = Initiator::login(&target, "a");
    for (save, after_reset) in [(false, false), (true, true)] {
        let (cdb, list) = select_write_cache(save, true);
        a.good(&cdb, &list);
        assert_eq!(write_cache(&a), [true, false, save]);
        target.task_management(&a.nexus, TaskManagement::LogicalUnitReset, Lun::ZERO);
        a.fails(&[0; 6], &[], POWER_ON);
        assert_eq!(write_cache(&a)[0], after_reset);
    }
}

#[test]
fn configured_write_cache_overrides_and_notifies_initiators() {
    let (store, device) = (Arc::new(TestStore::default()), TestDevice::new());
    let with = |write_cache| UnitConfig {
        modes: store.clone(),
        write_cache,
        ..unit(0, device.clone())
    };
    let target = target();
    target.apply(vec![with(true)]);
    let a = Initiator::login(&target, "a");
    target.apply(vec![with(false)]);
    a.fails(&[0; 6], &[], (6, 0x2a, 1));
    assert_eq!(write_cache(&a), [false; 3]);
}

#[test]
fn failed_mode_save_fails_the_command_without_effect() {
    let (store, device) = (Arc::new(TestStore::default()), TestDevice::new());
    let target = target();
    target.apply(vec![UnitConfig {
        modes: store.clone(),
        ..unit(0, device)
    }]);
    let a = Initiator::login(&target, "a");
    store.fails.store(true, Ordering::Relaxed);
    let (cdb, list) = select_write_cache(false, false);
    a.fails(&cdb, &list, (4, 0x44, 0));
    assert_eq!(write_cache(&a), [true; 3]);
}

#[test]
fn mode_sense_returns_header_descriptor_and_pages() {
    let (_target, _device, a) = one_unit();
    let all = a.good(&[0x1a, 0, 0x3f, 0, 255, 0], &[]);
    assert_eq!(usize::from(all[0]) + 1, all.len());
    assert_eq!(&all[..12], [67, 0, 0x10, 8, 0, 1, 0, 0, 0, 0, 2, 0]);
    let long = a.good(&[0x5a, 0x10, 0x08, 0, 0, 0, 0, 0, 255, 0], &[]);
    assert_eq!(&long[..8], [0, 42, 0, 0x10, 1, 0, 0, 16]);
    assert_eq!(&long[24..27], [0x88, 18, 4], "PS and WCE");
    assert_eq!(a.good(&[0x1a, 0, 0x3f, 0, 4, 0], &[]).len(), 4);
}

fn reserve_out(action: u8, kind: u8, key: u64, new_key: u64, flags: u8) -> ([u8; 10], [u8; 24]) {
    let mut list = [0; 24];
    list[..8].copy_from_slice(&key.to_be_bytes());
    list[8..16].copy_from_slice(&new_key.to_be_bytes());
    list[20] = flags;
    ([0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0], list)
}

fn pr(initiator: &Initiator, action: u8, kind: u8, key: u64, new_key: u64) {
    let (cdb, list) = reserve_out(action, kind, key, new_key, 0);
    initiator.good(&cdb, &list);
}

const READ_KEYS: [u8; 10] = [0x5e, 0, 0, 0, 0, 0, 0, 0x10, 0, 0];
const READ_RESERVATION: [u8; 10] = [0x5e, 1, 0, 0, 0, 0, 0, 0x10, 0, 0];

#[test]
fn reservations_fence_and_preempt_lists_tasks_to_abort() {
    let (target, _device, a) = one_unit();
    let b = Initiator::login(&target, "b");
    pr(&a, 0x06, 0, 0, 0xa);
    pr(&b, 0x06, 0, 0, 0xb);
    assert_eq!(
        a.good(&READ_KEYS, &[]),
        [
            0, 0, 0, 2, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0xa, 0, 0, 0, 0, 0, 0, 0, 0xb
        ]
    );
    pr(&a, 0x01, 0x05, 0xa, 0);
    assert_eq!(
        b.good(&READ_RESERVATION, &[]),
        [
            0, 0, 0, 2, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0xa, 0, 0, 0, 0, 0, 5, 0, 0
        ]
    );
    let c = Initiator::login(&target, "c");
    b.good(&ten(0x2a, 0, 0, 1), &[0; BLOCK]);
    c.conflicts(&ten(0x2a, 0, 0, 1), &[0; BLOCK]);
    c.good(&ten(0x28, 0, 0, 1), &[]);
    c.good(&[0; 6], &[]);
    c.conflicts(&[0x16, 0, 0, 0, 0, 0], &[]);
    let (cdb, list) = reserve_out(0x05, 0x05, 0xb, 0xa, 0);
    let answer = b.send(&cdb, &list);
    assert_eq!(answer.status, Status::Good);
    assert_eq!(answer.abort, [nexus_id("a")]);
    a.conflicts(&ten(0x2a, 0, 0, 1), &[0; BLOCK]);
    a.fails(&ten(0x28, 0, 0, 1), &[], (6, 0x2a, 5));
    let status = a.good(&[0x5e, 3, 0, 0, 0, 0, 0, 0x10, 0, 0], &[]);
    assert_eq!(status[20..22], [1, 5], "holder, type");
    assert_eq!(status[26..28], [0, 1], "relative target port");
}

#[test]
fn acknowledged_reservation_survives_a_restart() {
    let store = Arc::new(TestStore::default());
    let start = || {
        let target = target();
        let mut config = unit(0, TestDevice::new());
        config.reservations = store.clone();
        let changes = target.apply(vec![config]);
        (target, changes)
    };
    let (target, _) = start();
    let a = Initiator::login(&target, "a");
    let (cdb, list) = reserve_out(0x00, 0, 0, 0xa, 1);
    store.fails.store(true, Ordering::Relaxed);
    a.fails(&cdb, &list, (5, 0x55, 4));
    assert_eq!(a.good(&READ_KEYS, &[]).len(), 8, "not stored, not done");
    store.fails.store(false, Ordering::Relaxed);
    a.good(&cdb, &list);
    pr(&a, 0x01, 0x03, 0xa, 0);

    let (again, _) = start();
    let b = Initiator::login(&again, "b");
    b.conflicts(&ten(0x28, 0, 0, 1), &[]);
    let a = Initiator::login(&again, "a");
    a.good(&ten(0x28, 0, 0, 1), &[]);

    *store.saved.lock().unwrap() = Some(b"nonsense".to_vec());
    let (refused, changes) = start();
    assert_eq!(changes.refused.len(), 1);
    let a = Initiator::fresh(&refused, "a");
    a.fails(&ten(0x28, 0, 0, 1), &[], (5, 0x25, 0));
}

#[test]
fn reserve_lasts_until_release_logout_or_reset() {
    let (target, _device, a) = one_unit();
    let b = Initiator::login(&target, "b");
    let reserve = [0x16, 0, 0, 0, 0, 0];
    let release = [0x17, 0, 0, 0, 0, 0];
    a.good(&reserve, &[]);
    a.good(&reserve, &[]);
    b.conflicts(&reserve, &[]);
    b.conflicts(&[0x1a, 0, 0x3f, 0, 255, 0], &[]);
    b.conflicts(&[0; 6], &[]);
    b.good(&[0x12, 0, 0, 0, 96, 0], &[]);
    b.good(&release, &[]);
    b.conflicts(&ten(0x28, 0, 0, 1), &[]);
    a.good(&release, &[]);
    b.good(&reserve, &[]);
    a.conflicts(&ten(0x28, 0, 0, 1), &[]);
    drop(b);
    a.good(&reserve, &[]);
    let again = Initiator::login(&target, "a");
    again.good(&ten(0x28, 0, 0, 1), &[]);
    assert!(a.try_send(&reserve, &[]).is_none(), "reinstated elsewhere");
    drop(a);
    again.good(&reserve, &[]);
    target.task_management(&again.nexus, TaskManagement::TargetWarmReset, Lun::ZERO);
    let c = Initiator::login(&target, "c");
    c.good(&reserve, &[]);
}

fn copy_list(segments: &[(u16, u16, u16, u64, u64)]) -> Vec<u8> {
    let mut list = vec![7, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, segments.len() as u8 * 28];
    list.extend([0; 4]);
    for lun in 0..2 {
        let mut cscd = [0; 32];
        cscd[..8].copy_from_slice(&[0xe4, 0, 0, 0, 1, 3, 0, 16]);
        cscd[8..24].fill(0x60);
        cscd[23] = lun;
        cscd[30] = 2;
        list.extend(cscd);
    }
    for (from, to, blocks, from_lba, to_lba) in segments {
        list.extend([2, 0, 0, 24]);
        list.extend(from.to_be_bytes());
        list.extend(to.to_be_bytes());
        list.extend([0, 0]);
        list.extend(blocks.to_be_bytes());
        list.extend(from_lba.to_be_bytes());
        list.extend(to_lba.to_be_bytes());
    }
    list
}

fn copy_cdb(list: &[u8]) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[13] = list.len() as u8;
    cdb
}

#[test]
fn extended_copy_moves_blocks_between_units_and_within_one() {
    let target = target();
    target.apply(vec![unit(0, TestDevice::new()), unit(1, TestDevice::new())]);
    let mut a = Initiator::login(&target, "a");
    let data: Vec<u8> = (0..4 * BLOCK).map(|at| (at / 7) as u8).collect();
    a.good(&ten(0x2a, 0, 0, 4), &data);
    // To the other unit, and onto itself with an overlap.
    let list = copy_list(&[(0, 1, 4, 0, 100), (0, 0, 4, 0, 1)]);
    let status = [0x84, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0];
    a.fails(&status, &[], ILLEGAL_CDB);
    a.good(&copy_cdb(&list), &list);
    assert_eq!(
        a.good(&status, &[]),
        [0, 0, 0, 8, 1, 0, 2, 1, 0, 0, 0, 4],
        "completed, two segments, 4 KiB"
    );
    assert_eq!(a.good(&ten(0x28, 0, 1, 4), &[]), data);
    a.lun = Lun::from_unit(1);
    a.clear_attentions();
    assert_eq!(a.good(&ten(0x28, 0, 100, 4), &[]), data);
    let beyond = copy_list(&[(0, 1, 4, 0, BLOCKS - 1)]);
    a.fails(&copy_cdb(&beyond), &beyond, (0xa, 0, 0));
    let nowhere = copy_list(&[(0, 5, 4, 0, 0)]);
    a.fails(&copy_cdb(&nowhere), &nowhere, (0xa, 8, 4));
}

#[test]
fn target_port_groups_are_reported_with_both_headers() {
    let (_target, _device, a) = one_unit();
    let short = a.good(&[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0], &[]);
    assert_eq!(
        short,
        [0, 0, 0, 16, 0, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]
    );
    let long = a.good(&[0xa3, 0x2a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0], &[]);
    assert_eq!(long[4..8], [0x10, 0, 0, 0]);
    assert_eq!(long[8..], short[4..]);
}

#[test]
fn unknown_opcode_and_action_have_distinct_sense() {
    let (_target, _device, a) = one_unit();
    a.fails(&[0x04, 0, 0, 0, 0, 0], &[], NO_SUCH_COMMAND);
    a.fails(&[0x48, 1, 0, 0, 0, 0, 0, 0, 0, 0], &[], NO_SUCH_COMMAND);
    for action in 4..32 {
        let mut cdb = READ_KEYS;
        cdb[1] = action;
        a.fails(&cdb, &[], ILLEGAL_CDB);
    }
}

/// Random commands with random data never panic, and a claimed command is never unknown.
#[test]
fn any_command_with_any_data_gets_a_status() {
    let (_target, _device, a) = one_unit();
    let mut random = fastrand::Rng::with_seed(2026);
    let all = a.good(&[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0], &[]);
    let known: Vec<(u8, u8)> = all[4..].chunks(8).map(|one| (one[0], one[3])).collect();
    for _ in 0..30_000 {
        let (opcode, action) = known[random.usize(..known.len())];
        let mut cdb = [0; 16];
        cdb[0] = opcode;
        cdb[1] = action;
        for _ in 0..random.usize(..8) {
            let at = random.usize(1..16);
            cdb[at] = random.u8(..);
        }
        let length = random.usize(..600);
        let out: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        let answer = a.send(&cdb, &out);
        assert_ne!(answer.sense, Some(NO_SUCH_COMMAND), "{cdb:02x?}");
    }
}
