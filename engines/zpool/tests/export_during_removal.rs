//! A pool is exported while a group leaves it, at every step of the removal. The next import continues it.

mod support;

use std::time::Duration;

use engine::capabilities::{Devices, Health};
use engine::pool::{GroupKind, GroupRole, GroupSpec};
use support::{
    disks, engine, export, import, isolated, mirror, scrub_finds_nothing, sized_disks, wait_until,
    write_sample_data,
};

/// Groups that leave, one after the other. Each export is at another step.
const ROUNDS: u64 = 24;

#[test]
fn export_during_the_removal_of_a_group_continues_at_the_import() {
    isolated(
        "export_during_the_removal_of_a_group_continues_at_the_import",
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
                if round % 4 == 0 {
                    write_sample_data(&pool, 3);
                }
                let status = pool.status().expect("a status");
                let group = status.devices[1].name.clone();
                pool.remove(&group).expect("it leaves");
                std::thread::sleep(Duration::from_millis(round / 2));
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
