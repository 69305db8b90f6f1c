//! Pools of guests, which this host opens by their devices: nothing of them changes, and no name of this host is
//! affected. Where nothing can be mounted, the tests report that and are skipped.

use std::fs;
use std::path::PathBuf;

use crate::common::TestHost;
use crate::mounted_files::{Mounted, can_mount};

/// The identity of the guest's own system.
const GUEST: &str = "--host-id 0000beef";

/// A guest with a pool `tank` on two disks, and a file in it; not exported if it was `killed`.
fn guest(killed: bool) -> TestHost {
    let guest = TestHost::with_disks(&["a", "b"]);
    guest.ok(&format!("pool create tank mirror a b {GUEST}"));
    guest.ok(&format!("filesystem create tank/home {GUEST}"));
    fs::create_dir(guest.path("mnt")).expect("a directory");
    let mounted = Mounted::begin(&guest, &format!("tank/home mnt {GUEST}"));
    fs::write(mounted.path("letter"), "from the guest").expect("written");
    let file = fs::File::open(mounted.path("letter")).expect("opened");
    file.sync_all().expect("durable");
    drop(file);
    match killed {
        false => mounted.unmount(),
        true => {
            // A commit, so that a view without the intent log has the file.
            mounted.unmount();
            let mounted = Mounted::begin(&guest, &format!("tank/home mnt {GUEST}"));
            mounted.kill();
            let _ = std::process::Command::new("umount")
                .args(["-l".into(), guest.path("mnt")])
                .status();
        }
    }
    guest
}

/// This host, with a pool `tank` of its own.
fn host() -> TestHost {
    let host = TestHost::with_disks(&["a", "b"]);
    host.ok("pool create tank mirror a b");
    fs::create_dir(host.path("mnt")).expect("a directory");
    host
}

fn contents(guest: &TestHost) -> [Vec<u8>; 2] {
    ["a", "b"].map(|disk| fs::read(guest.path(disk)).expect("readable"))
}

/// The options that name both devices.
fn devices(guest: &TestHost) -> String {
    let option = |disk: &str| format!("--device {}", guest.path(disk).display());
    ["a", "b"].map(option).join(" ")
}

fn state_files(host: &TestHost) -> Vec<PathBuf> {
    let entries = fs::read_dir(host.path("state")).expect("a directory");
    let files = entries.map(|entry| entry.expect("read").path());
    let pools = files.filter(|path| path.extension().is_some_and(|kind| kind == "json"));
    pools.collect()
}

#[test]
fn guest_pool_of_a_taken_name_is_read_and_unchanged() {
    if !can_mount() {
        return;
    }
    for killed in [false, true] {
        let (guest, host) = (guest(killed), host());
        let (before, devices) = (contents(&guest), devices(&guest));
        let stopped = match killed {
            true => "--previous-owner-is-stopped",
            false => "",
        };
        let words = format!("guest-tank/home mnt --read-only {devices}");
        if killed {
            host.refused(
                &format!("filesystem mount {words}"),
                6,
                "which can still use it",
            );
        }
        let listed = host.ok(&format!(
            "filesystem mount guest-tank --list {devices} {stopped} --json"
        ));
        let listed = listed.json();
        let names = listed.as_array().expect("a list").iter();
        let names: Vec<_> = names.filter_map(|one| one["name"].as_str()).collect();
        assert!(names.contains(&"guest-tank/home"), "{names:?}");

        let mounted = Mounted::begin(&host, &format!("{words} {stopped}"));
        let text = fs::read_to_string(mounted.path("letter")).expect("read");
        assert_eq!(text, "from the guest");
        fs::write(mounted.path("new"), "").expect_err("read-only");
        // The pool of this host is available at the same time.
        host.ok("filesystem create tank/own");
        mounted.unmount();
        assert!(contents(&guest) == before, "a byte of the devices changed");
        assert_eq!(state_files(&host), [host.path("state/tank.json")]);
        // The guest still owns it.
        guest.ok(&format!("filesystem create tank/later {GUEST}"));
    }
}

#[test]
fn guest_pool_is_refused_under_a_taken_name_and_for_writing() {
    if !can_mount() {
        return;
    }
    let (guest, host) = (guest(false), host());
    let (before, devices) = (contents(&guest), devices(&guest));
    let refused = |words: &str, code: i32, part: &str| {
        host.refused(&format!("filesystem mount {words} {devices}"), code, part);
    };
    refused("tank/home mnt --read-only", 4, "such as guest-tank");
    refused("other/home mnt", 6, "add --read-only");
    refused(
        "other/home mnt --allow-label-changes",
        2,
        "use its own name",
    );
    refused("other/none mnt --read-only", 3, "other/none");
    let server = host.serve("--no-nfs");
    refused("tank/home mnt --read-only", 4, "such as guest-tank");
    drop(server);
    host.add_disk("empty", 128 << 20);
    host.refused(
        "filesystem mount other/home mnt --read-only --device empty",
        3,
        "none of these devices",
    );
    assert!(contents(&guest) == before, "a byte of the devices changed");
}

/// The other device of the mirror is at the path that the label contains, and belongs to another pool.
#[test]
fn guest_pool_opens_without_its_other_device() {
    if !can_mount() {
        return;
    }
    let (guest, host) = (guest(false), host());
    let device = guest.path("a");
    let before = contents(&guest);
    let words = format!(
        "guest-tank/home mnt --read-only --device {}",
        device.display()
    );
    let mounted = Mounted::begin(&host, &words);
    let text = fs::read_to_string(mounted.path("letter")).expect("read");
    assert_eq!(text, "from the guest");
    mounted.unmount();
    assert!(contents(&guest) == before, "a byte of the devices changed");
}

#[test]
fn guest_pool_is_repaired_under_its_own_name_on_request() {
    if !can_mount() {
        return;
    }
    let guest = guest(false);
    let host = TestHost::with_disks(&[]);
    fs::create_dir(host.path("mnt")).expect("a directory");
    let devices = devices(&guest);
    let words = format!("tank/home mnt --allow-label-changes {devices}");
    let mounted = Mounted::begin(&host, &words);
    fs::write(mounted.path("letter"), "repaired").expect("written");
    mounted.unmount();
    let mounted = Mounted::begin(&guest, &format!("tank/home mnt {GUEST}"));
    let text = fs::read_to_string(mounted.path("letter")).expect("read");
    assert_eq!(text, "repaired");
    mounted.unmount();
}
