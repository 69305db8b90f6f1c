//! The usage of users, groups and projects in a file system is counted as in the kernel.

mod support;

use engine::capabilities::FileSystems;
use support::accounting::{counts, objects};
use support::{Parts, disks, engine, export, mirror, part};

/// The counts of a file system are created with it: only its root directory has an owner.
#[test]
fn new_file_system_accounts_its_root_directory() {
    const TEST: &str = "new_file_system_accounts_its_root_directory";
    if part().is_some() {
        let pool = mirror(engine(), &disks(&["a", "b"]));
        pool.complete_root().expect("complete");
        let below = "tank/files/below".parse().expect("a name");
        pool.create_parents(&below).expect("create");
        export(pool);
        return;
    }
    let parts = Parts::of(TEST);
    parts.pass("all");
    // For a pool it shows all file systems: its own, and the child.
    for (dataset, file_systems) in [("tank", 2), ("tank/files", 1)] {
        let objects = objects(&parts, dataset);
        let one_folder = vec!["0 = 512", "obj-0 = 1"];
        let of_users_groups_projects = vec![one_folder; 3 * file_systems];
        assert_eq!(counts(&objects), of_users_groups_projects, "{dataset}");
    }
    parts.zdb_is_content("tank");
}
