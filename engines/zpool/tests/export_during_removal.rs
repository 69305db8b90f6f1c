//! A pool is exported while the data of a group that leaves it move. The next import continues.

mod support;

use std::time::Duration;

use engine::capabilities::{Devices, Health};
use engine::pool::{GroupKind, GroupRole, GroupSpec};
use support::{
    disks, engine, export, import, isolated, mirror, scrub_finds_nothing, sized_disks, wait_until,
    write_sample_data,
};

/// Groups that leave, one after the other. Each export is at another moment.
const ROUNDS: u64 = 6;

#[test]
fn export_pauses_a_removal_and_the_next_import_continues_it() {
    isolated(
        "export_pauses_a_removal_and_the_next_import_continues_it",
        || {
            let engine = engine();
            // A group leaves only if the remaining groups have room for its data.
            let mut pool = mirror(engine, &sized_disks(&["a", "b"], 1 << 30));
            for round in 0..ROUNDS {
                let names = [format!("c{round}"), format!("d{round}")];
                let group = GroupSpec {
                    kind: GroupKind::Mirror,
                    role: GroupRole::Data,
                    devices: disks(&names.each_ref().map(String::as_str)),
                };
                pool.add(&[group], false).expect("added");
                write_sample_data(&pool, 3);
                let leaving = || -> Option<String> {
                    let status = pool.status().expect("a status");
                    let mut groups = status.devices.iter().skip(1);
                    groups.next().map(|group| group.name.clone())
                };
                let group = leaving().expect("a second group");
                pool.remove(&group).expect("it leaves");
                std::thread::sleep(Duration::from_millis(5 * round));
                export(pool);
                pool = import(engine);
                wait_until("the group has left", || {
                    let status = pool.status().expect("a status");
                    !status.devices.iter().any(|one| one.name == group)
                });
            }
            scrub_finds_nothing(&pool);
            export(pool);
        },
    );
}
