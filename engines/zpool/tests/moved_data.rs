//! The state of a removal and of a raidz expansion, as the pool reports them: the bytes that were predicted from the
//! allocated bytes of the group, and the bytes that moved.

mod support;

use std::path::Path;

use block_device::{BlockDevice, WaitMode};
use engine::capabilities::{Datasets, Devices, Health, Ownership};
use engine::dataset::VolumeSpec;
use engine::pool::{DeviceStatus, GroupKind, GroupRole, GroupSpec, MoveState, PoolSpec};
use engine::volume::OpenOptions;
use support::{engine, export, import, isolated, mirror, sized_disks, tank, wait_until};
use units::ByteCount;
use zpool::Pool;

const MIB: u64 = 1 << 20;
const WRITTEN_MIB: u64 = 48;
const DISK_BYTES: u64 = 512 * MIB;
/// Metadata that is written between a prediction and the start of the move.
const METADATA_BYTES_MAX: u64 = 4 * MIB;

fn fill(pool: &Pool) {
    let name = "tank/v".parse().expect("a name");
    let spec = VolumeSpec::sparse(name, ByteCount(WRITTEN_MIB * MIB));
    pool.create_volume(&spec).expect("create a volume");
    let volume = pool.open_volume(&spec.name, OpenOptions::default());
    let volume = volume.expect("open");
    for offset in (0..WRITTEN_MIB * MIB).step_by(MIB as usize) {
        let mut data = vec![0; MIB as usize];
        fastrand::Rng::with_seed(offset + 1).fill(&mut data);
        let written = volume.write(offset, &data, WaitMode::MayBlock);
        written.expect("write");
    }
    drop(volume);
    pool.sync().expect("sync");
}

fn group(pool: &Pool, name: &str) -> Option<DeviceStatus> {
    pool.status().expect("status").find(name).cloned()
}

#[test]
fn removal_reports_the_allocated_bytes_of_the_group_and_its_end_survives_an_import() {
    const TEST: &str =
        "removal_reports_the_allocated_bytes_of_the_group_and_its_end_survives_an_import";
    isolated(TEST, || {
        let engine = engine();
        let disks = sized_disks(&["a", "b", "c", "d"], DISK_BYTES);
        let pool = mirror(engine, &disks[..2]);
        assert_eq!(pool.status().expect("status").removal, None);
        let second = GroupSpec {
            kind: GroupKind::Mirror,
            role: GroupRole::Data,
            devices: disks[2..].to_vec(),
        };
        pool.add(&[second], false).expect("added");
        fill(&pool);
        let predicted = group(&pool, "mirror-1").expect("a group").allocated_bytes;
        assert!(predicted > WRITTEN_MIB * MIB / 4, "{predicted}");
        pool.remove("mirror-1").expect("it leaves");
        wait_until("the group has left", || group(&pool, "mirror-1").is_none());
        let removal = pool.status().expect("status").removal.expect("a removal");
        assert_eq!(
            (removal.state, removal.group.as_deref()),
            (MoveState::Finished, None)
        );
        assert_eq!(removal.done_bytes, removal.total_bytes);
        assert!(
            removal.total_bytes.abs_diff(predicted) <= METADATA_BYTES_MAX,
            "{predicted}: {removal:?}"
        );
        export(pool);
        let pool = import(engine);
        assert_eq!(pool.status().expect("status").removal, Some(removal));
        export(pool);
    });
}

#[test]
fn expansion_reports_the_allocated_bytes_of_the_group() {
    isolated("expansion_reports_the_allocated_bytes_of_the_group", || {
        let disks = sized_disks(&["a", "b", "c", "d"], DISK_BYTES);
        let spec = PoolSpec::new(tank(), GroupKind::Raidz1, disks[..3].to_vec());
        let pool = Pool::create(engine(), &spec).expect("create");
        fill(&pool);
        assert_eq!(pool.status().expect("status").expansion, None);
        let before = group(&pool, "raidz1-0").expect("a group");
        let new: &Path = &disks[3];
        pool.attach("raidz1-0", new, false).expect("attached");
        let mut seen_group = None;
        wait_until("the expansion is over", || {
            let expansion = pool.status().expect("status").expansion;
            let expansion = expansion.filter(|one| one.group.is_some());
            seen_group = expansion.as_ref().and_then(|one| one.group.clone());
            expansion.is_some_and(|one| one.state == MoveState::Finished)
        });
        assert_eq!(seen_group.as_deref(), Some("raidz1-0"));
        let expansion = pool.status().expect("status").expansion.expect("one");
        let predicted = before.allocated_bytes;
        assert!(
            expansion.total_bytes.abs_diff(predicted) <= METADATA_BYTES_MAX,
            "{predicted}: {expansion:?}"
        );
        // The library does not count every byte that it moves.
        let counted = expansion.total_bytes * 3 / 4..=expansion.total_bytes;
        assert!(counted.contains(&expansion.done_bytes), "{expansion:?}");
        assert!(expansion.ended_s >= expansion.started_s);
        let widened = before.size_bytes * 4 / 3;
        wait_until("the group is larger", || {
            let size = group(&pool, "raidz1-0").expect("a group").size_bytes;
            size.abs_diff(widened) < widened / 10
        });
        export(pool);
    });
}
