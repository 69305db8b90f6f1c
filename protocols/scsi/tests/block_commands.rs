//! Block commands against a device in memory, byte by byte.

mod common;

use std::sync::atomic::Ordering;

use block_device::ErrorKind;
use common::*;
use scsi::Status;

#[test]
fn written_data_is_read_by_every_cdb_size() {
    let (_target, _device, a) = one_unit();
    let data: Vec<u8> = (0..8 * BLOCK).map(|at| at as u8).collect();
    a.good(&[0x0a, 0, 0, 16, 8, 0], &data);
    assert_eq!(a.good(&[0x08, 0, 0, 16, 8, 0], &[]), data);
    assert_eq!(a.good(&ten(0x28, 0, 16, 8), &[]), data);
    assert_eq!(a.good(&[0xa8, 0, 0, 0, 0, 16, 0, 0, 0, 8, 0, 0], &[]), data);
    assert_eq!(a.good(&sixteen(0x88, 0, 16, 8), &[]), data);
}

#[test]
fn ranges_beyond_the_end_are_refused_and_nothing_is_solicited() {
    let (_target, _device, a) = one_unit();
    let last = BLOCKS as u32 - 1;
    a.good(&ten(0x28, 0, last, 1), &[]);
    a.good(&ten(0x28, 0, BLOCKS as u32, 0), &[]);
    for cdb in [
        ten(0x28, 0, last, 2),
        ten(0x28, 0, last + 2, 0),
        ten(0x28, 0, u32::MAX, 0),
        ten(0x2a, 0, last, 2),
        ten(0x2f, 2, last, 2),
        ten(0x34, 0, last, 2),
        ten(0x41, 0, last, 2),
    ] {
        a.fails(&cdb, &[0; BLOCK], OUT_OF_RANGE);
    }
    a.fails(&sixteen(0x88, 0, u64::MAX, 1), &[], OUT_OF_RANGE);
    a.fails(&sixteen(0x8a, 0, u64::MAX, 2), &[0; 1024], OUT_OF_RANGE);
}

#[test]
fn protection_fields_are_refused() {
    let (_target, _device, a) = one_unit();
    for protect in 1..8 {
        a.fails(&ten(0x28, protect << 5, 0, 1), &[], ILLEGAL_CDB);
        a.fails(&ten(0x2a, protect << 5, 0, 1), &[0; BLOCK], ILLEGAL_CDB);
        a.fails(&sixteen(0x93, protect << 5, 0, 1), &[0; BLOCK], ILLEGAL_CDB);
    }
}

#[test]
fn transfer_above_the_reported_maximum_is_refused() {
    let (_target, _device, a) = one_unit();
    let limits = a.good(&[0x12, 1, 0xb0, 0, 255, 0], &[]);
    let blocks = u32::from_be_bytes(limits[8..12].try_into().unwrap());
    assert_eq!(u64::from(blocks) * BLOCK as u64, scsi::TRANSFER_BYTES_MAX);
    // The device of this test is smaller: a larger one.
    let target = target();
    let device = TestDevice::with_blocks(1 << 18);
    target.apply(vec![unit(0, device)]);
    let a = Initiator::login(&target, "a");
    a.good(&sixteen(0x88, 0, 0, blocks), &[]);
    let answer = a.fails(&sixteen(0x88, 0, 0, blocks + 1), &[], ILLEGAL_CDB);
    assert_eq!(&answer.sense_bytes[15..18], [0xc0, 0, 10]);
}

#[test]
fn short_write_stores_the_received_blocks() {
    let (_target, _device, a) = one_unit();
    a.good(&ten(0x2a, 0, 0, 2), &[1; 2 * BLOCK]);
    a.good(&ten(0x2a, 0, 0, 2), &[2; 200]);
    let data = a.good(&ten(0x28, 0, 0, 2), &[]);
    assert!(data[..200].iter().all(|b| *b == 2));
    assert!(data[200..].iter().all(|b| *b == 1));
}

#[test]
fn fua_and_a_disabled_cache_make_writes_durable_first() {
    let (_target, device, a) = one_unit();
    let flushes = || device.flushes.load(Ordering::Relaxed);
    a.good(&ten(0x2a, 0, 0, 1), &[1; BLOCK]);
    assert_eq!(flushes(), 0);
    a.good(&ten(0x28, 0x08, 0, 1), &[]);
    assert_eq!(flushes(), 1, "a read from the medium flushes dirty data");
    a.good(&ten(0x28, 0x08, 0, 1), &[]);
    assert_eq!(flushes(), 1, "and nothing when all is clean");
    a.good(&ten(0x2a, 0x08, 0, 1), &[1; BLOCK]);
    assert_eq!(flushes(), 2);
    a.good(&ten(0x35, 0, 0, 0), &[]);
    assert_eq!(flushes(), 3);
    // MODE SELECT (6), caching page, WCE off.
    let mut list = vec![0, 0, 0, 0, 8, 18, 0];
    list.resize(24, 0);
    a.good(&[0x15, 0x10, 0, 0, 24, 0], &list);
    assert_eq!(flushes(), 4, "earlier writes are durable");
    a.good(&ten(0x2a, 0, 0, 1), &[1; BLOCK]);
    assert_eq!(flushes(), 5);
}

#[test]
fn device_errors_map_to_sense_data() {
    let (_target, device, a) = one_unit();
    for (kind, sense) in [
        (ErrorKind::NoSpace, (7, 0x27, 7)),
        (ErrorKind::ReadOnly, (7, 0x27, 0)),
        (ErrorKind::Unreadable, (3, 0x11, 0)),
        (ErrorKind::Failed, (4, 0x44, 0)),
    ] {
        *device.fail.lock().unwrap() = Some(kind);
        a.fails(&ten(0x2a, 0, 0, 1), &[1; BLOCK], sense);
        a.fails(&ten(0x35, 0, 0, 0), &[], sense);
    }
    *device.fail.lock().unwrap() = Some(ErrorKind::Gone);
    assert!(a.try_send(&ten(0x28, 0, 0, 1), &[]).is_none());
    assert!(a.try_send(&ten(0x35, 0, 0, 0), &[]).is_none());
}

#[test]
fn blocking_command_is_repeated_on_a_worker() {
    let (_target, device, a) = one_unit();
    device.always_blocks.store(true, Ordering::Relaxed);
    a.good(&ten(0x2a, 0, 5, 1), &[7; BLOCK]);
    a.good(&sixteen(0x93, 0x08, 8, 8), &[0; BLOCK]);
    assert_eq!(a.good(&ten(0x28, 0, 5, 1), &[]), [7; BLOCK]);
}

#[test]
fn verify_compares_blocks_and_repeated_blocks() {
    let (_target, _device, a) = one_unit();
    a.good(&ten(0x2a, 0, 0, 4), &[9; 4 * BLOCK]);
    a.good(&ten(0x2f, 0, 0, 4), &[]);
    a.good(&ten(0x2f, 0x02, 0, 4), &[9; 4 * BLOCK]);
    a.good(&ten(0x2f, 0x06, 0, 4), &[9; BLOCK]);
    let mut other = [9; 4 * BLOCK];
    other[2000] = 8;
    a.fails(&ten(0x2f, 0x02, 0, 4), &other, (0x0e, 0x1d, 0));
    a.fails(&ten(0x2f, 0x06, 0, 5), &[9; BLOCK], (0x0e, 0x1d, 0));
    a.fails(&ten(0x2f, 0x04, 0, 4), &[], ILLEGAL_CDB);
    a.good(&ten(0x2e, 0x02, 4, 1), &[3; BLOCK]);
    assert_eq!(a.good(&ten(0x28, 0, 4, 1), &[]), [3; BLOCK]);
}

/// COMPARE AND WRITE of `blocks` blocks.
fn compare_and_write(lba: u64, blocks: u8) -> [u8; 16] {
    let mut cdb = sixteen(0x89, 0, lba, 0);
    cdb[13] = blocks;
    cdb
}

#[test]
fn miscompare_reports_its_offset_and_writes_nothing() {
    let (_target, _device, a) = one_unit();
    a.good(&ten(0x2a, 0, 0, 2), &[b'A'; 2 * BLOCK]);
    let mut buffers = [b'A'; 4 * BLOCK];
    buffers[2 * BLOCK..].fill(b'B');
    buffers[700] = b'Z';
    let answer = a.fails(&compare_and_write(0, 2), &buffers, (0x0e, 0x1d, 0));
    assert_eq!(&answer.sense_bytes[..7], [0xf0, 0, 0x0e, 0, 0, 2, 0xbc]);
    assert_eq!(a.good(&ten(0x28, 0, 0, 2), &[]), [b'A'; 2 * BLOCK]);
    buffers[700] = b'A';
    a.good(&compare_and_write(0, 2), &buffers);
    assert_eq!(a.good(&ten(0x28, 0, 0, 2), &[]), [b'B'; 2 * BLOCK]);
}

#[test]
fn commands_needing_all_data_refuse_a_short_length() {
    let (_target, _device, a) = one_unit();
    for length in [BLOCK, 3 * BLOCK] {
        let data = vec![0; length];
        assert_eq!(
            a.send(&compare_and_write(0, 1), &data).status,
            Status::CheckCondition
        );
    }
    for length in [BLOCK / 2, 2 * BLOCK] {
        let data = vec![0; length];
        let answer = a.send(&sixteen(0x93, 0x08, 0, 1), &data);
        assert_eq!(answer.sense.map(|sense| sense.0), Some(5));
    }
    a.good(&sixteen(0x93, 0x09, 0, 1), &[]);
}

#[test]
fn write_same_repeats_its_block_and_unmaps_zero_blocks() {
    let (_target, _device, a) = one_unit();
    let block: Vec<u8> = (0..BLOCK).map(|at| at as u8).collect();
    a.good(&ten(0x41, 0, 1, 20), &block);
    let data = a.good(&ten(0x28, 0, 1, 20), &[]);
    assert!(data.chunks(BLOCK).all(|one| one == block));
    a.good(&ten(0x41, 0x08, 8, 8), &[0; BLOCK]);
    assert_eq!(a.good(&ten(0x28, 0, 8, 8), &[]), [0; 8 * BLOCK]);
    let status = a.good(&sixteen(0x9e, 0x12, 8, 24), &[]);
    assert_eq!(&status[..8], [0, 0, 0, 20, 0, 0, 0, 0]);
    assert_eq!(&status[8..21], [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 1]);
    a.fails(&ten(0x41, 0, 0, 0), &block, ILLEGAL_CDB);
    a.fails(&ten(0x41, 0x10, 0, 1), &block, ILLEGAL_CDB);
}

fn unmap_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let bytes = ranges.len() as u16 * 16;
    let mut list = (bytes + 6).to_be_bytes().to_vec();
    list.extend(bytes.to_be_bytes());
    list.extend([0; 4]);
    for (lba, blocks) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

fn unmap_cdb(list: &[u8]) -> [u8; 10] {
    let [high, low] = (list.len() as u16).to_be_bytes();
    [0x42, 0, 0, 0, 0, 0, 0, high, low, 0]
}

#[test]
fn unmap_checks_all_descriptors_before_it_frees_any() {
    let (_target, _device, a) = one_unit();
    a.good(&ten(0x2a, 0, 0, 16), &[1; 16 * BLOCK]);
    let bad = unmap_list(&[(0, 8), (BLOCKS, 1)]);
    a.fails(&unmap_cdb(&bad), &bad, OUT_OF_RANGE);
    assert_eq!(a.good(&ten(0x28, 0, 0, 1), &[]), [1; BLOCK]);
    let good = unmap_list(&[(0, 8), (12, 1), (BLOCKS, 0)]);
    a.good(&unmap_cdb(&good), &good);
    assert_eq!(a.good(&ten(0x28, 0, 0, 8), &[]), [0; 8 * BLOCK]);
    assert_eq!(a.good(&ten(0x28, 0, 12, 2), &[])[..BLOCK], [0; BLOCK]);
    assert_eq!(a.good(&ten(0x28, 0, 13, 1), &[]), [1; BLOCK]);
    let too_much = unmap_list(&[(0, u32::MAX)]);
    a.fails(&unmap_cdb(&too_much), &too_much, (5, 0x26, 0));
    a.good(&unmap_cdb(&[]), &[]);
    a.fails(&unmap_cdb(&[0; 7]), &[0; 7], (5, 0x1a, 0));
}

#[test]
fn a_fully_provisioned_unit_does_not_unmap() {
    let target = target();
    let mut config = unit(0, TestDevice::new());
    config.thin = false;
    target.apply(vec![config]);
    let a = Initiator::login(&target, "a");
    let list = unmap_list(&[(0, 8)]);
    a.fails(&unmap_cdb(&list), &list, NO_SUCH_COMMAND);
    a.fails(&ten(0x41, 0x08, 0, 8), &[0; BLOCK], ILLEGAL_CDB);
    let capacity = a.good(
        &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0],
        &[],
    );
    assert_eq!(capacity[14], 0);
    let one = [0xa3, 0x0c, 1, 0x42, 0, 0, 0, 0, 0, 255, 0, 0];
    assert_eq!(a.good(&one, &[]), [0, 1, 0, 0]);
}

#[test]
fn orwrite_preserves_set_bits() {
    let (_target, _device, a) = one_unit();
    a.good(&ten(0x2a, 0, 0, 1), &[0x0f; BLOCK]);
    a.good(&sixteen(0x8b, 0, 0, 1), &[0xa0; BLOCK]);
    assert_eq!(a.good(&ten(0x28, 0, 0, 1), &[]), [0xaf; BLOCK]);
}

#[test]
fn write_protected_unit_refuses_every_write() {
    let target = target();
    let mut config = unit(0, TestDevice::new());
    config.read_only = true;
    target.apply(vec![config]);
    let a = Initiator::login(&target, "a");
    let protected = (7, 0x27, 0);
    a.fails(&ten(0x2a, 0, 0, 1), &[0; BLOCK], protected);
    a.fails(&ten(0x2e, 0, 0, 1), &[0; BLOCK], protected);
    a.fails(&ten(0x41, 0, 0, 1), &[0; BLOCK], protected);
    a.fails(&sixteen(0x8b, 0, 0, 1), &[0; BLOCK], protected);
    a.fails(&compare_and_write(0, 1), &[0; 2 * BLOCK], protected);
    let list = unmap_list(&[(0, 8)]);
    a.fails(&unmap_cdb(&list), &list, protected);
    a.good(&ten(0x28, 0, 0, 1), &[]);
    let modes = a.good(&[0x1a, 8, 0x0a, 0, 255, 0], &[]);
    assert_eq!(modes[2], 0x90, "WP and DPOFUA");
}

#[test]
fn read_capacity_works_in_both_sizes() {
    let (_target, _device, a) = one_unit();
    assert_eq!(
        a.good(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[]),
        [0, 0, 0xff, 0xff, 0, 0, 2, 0]
    );
    let long = a.good(
        &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0],
        &[],
    );
    assert_eq!(
        &long[..15],
        [0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 2, 0, 0, 0, 0xc0]
    );
    let cut = a.good(&[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0], &[]);
    assert_eq!(cut.len(), 5);
}
