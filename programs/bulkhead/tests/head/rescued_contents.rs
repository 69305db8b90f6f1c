//! The commands that a rescue prints for each kind of contents, run as they are printed, as far as the kernel of this
//! host has the drivers: `python3 -m proof.linux --only rescue` runs the rest in a virtual machine. A command that the
//! host cannot run is reported and skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::TestHost;
use crate::common::tools::{installed, run};
use crate::mounted_files::can_mount;

const MIB: u64 = 1 << 20;
/// The test's partitions: the maker of each, and its size in MiB.
const PARTITIONS: [(&str, &str, u64); 5] = [
    ("ext4", "mkfs.ext4 -q -F -L of-guest", 48),
    ("xfs", "mkfs.xfs -q -f -L of-guest", 320),
    ("btrfs", "mkfs.btrfs -q -f -L of-guest", 160),
    ("ntfs", "mkfs.ntfs -q -F -f -L of-guest", 32),
    ("ZFS", "", 128),
];

/// A rescue in the background.
struct Background<'a> {
    host: &'a TestHost,
    view: Value,
}

impl<'a> Background<'a> {
    fn begin(host: &'a TestHost, words: &str) -> Self {
        let view = host.ok(&format!("volume rescue {words} --background --json"));
        let view = view.json();
        Self { host, view }
    }

    /// The lines of the commands with this purpose.
    fn lines(&self, purpose: &str) -> String {
        let all = self.view["commands"].as_array().expect("a list");
        let named = |one: &&Value| one["purpose"].as_str().is_some_and(|text| text == purpose);
        let one = all.iter().find(named);
        let one = one.unwrap_or_else(|| panic!("{purpose}: {}", self.view));
        let lines = one["lines"].as_array().expect("lines").iter();
        let lines: Vec<_> = lines.map(|line| line.as_str().expect("text")).collect();
        lines.join("\n")
    }

    /// The two commands of a partition: to open it, and to undo that.
    fn of_partition(&self, number: u64) -> [String; 2] {
        let all = self.view["commands"].as_array().expect("a list").iter();
        let of_it = all.filter(|one| one["partition"] == number);
        let purposes: Vec<_> = of_it.filter_map(|one| one["purpose"].as_str()).collect();
        assert_eq!(purposes.len(), 2, "{number}: {}", self.view);
        [self.lines(purposes[0]), self.lines(purposes[1])]
    }

    fn partition(&self, number: u64) -> &Value {
        let all = self.view["partitions"].as_array().expect("a list").iter();
        let mut found = all.filter(|one| one["number"] == number);
        found.next().expect("the partition")
    }

    /// Runs `lines` in a shell with the environment of the host; the disk is a file during that.
    fn shell(&self, lines: &str) -> String {
        let file = self.lines("make it a file (FUSE), which the commands for partitions use");
        let remove = self.lines("remove the file, after all of these");
        let leave =
            "for try in 1 2 3 4 5 6 7 8 9 10; do if REMOVE; then break; fi; sleep 0.2; done";
        let leave = leave.replace("REMOVE", &remove);
        let script = format!("set -e\n{file}\ntrap '{leave}' EXIT\n{lines}\n");
        let bulkhead = Path::new(env!("CARGO_BIN_EXE_bulkhead"));
        let path = format!(
            "{}:/usr/sbin:/usr/bin:/sbin:/bin",
            bulkhead.parent().expect("a directory").display()
        );
        let mut shell = Command::new("timeout");
        let shell = shell.args(["100", "bash", "-c", &script]);
        let host = self.host.command("version");
        for (name, value) in host.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let shell = shell
            .env("PATH", path)
            .current_dir(self.host.directory.path());
        let output = shell.output().expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{text}{errors}");
        text
    }
}

impl Drop for Background<'_> {
    fn drop(&mut self) {
        let volume = self.view["volume"].as_str().unwrap_or_default();
        self.host.run(&format!("volume rescue {volume} --end"));
    }
}

fn start_of(index: usize) -> u64 {
    let before: u64 = PARTITIONS[..index].iter().map(|(.., size)| size).sum();
    (1 + before) * MIB
}

/// The commands that create the partitions and their contents.
fn make_all(host: &TestHost, file: &str) -> String {
    let mut table = "label: gpt\n".to_owned();
    let mut lines = Vec::new();
    for (index, (name, maker, mib)) in PARTITIONS.iter().enumerate() {
        let start = start_of(index);
        table += &format!("start={}, size={}\n", start / 512, mib * MIB / 512);
        let size = mib * MIB;
        let attach =
            format!("device=$(losetup --find --show --offset {start} --sizelimit {size} {file})");
        lines.push(attach);
        lines.push(match *name {
            "ZFS" => format!(
                "export BULKHEAD_HOST_ID=0000beef BULKHEAD_STATE_DIR={}\n\
                 bulkhead pool create rpool $device\n\
                 bulkhead --search $device filesystem create rpool/home",
                host.path("guest-state").display()
            ),
            _ => format!("{maker} $device"),
        });
        lines.push("losetup -d $device".to_owned());
    }
    std::fs::write(host.path("table"), table).expect("written");
    let table = host.path("table").display().to_string();
    format!("sfdisk -q {file} <{table}\n{}", lines.join("\n"))
}

/// A write that must fail.
fn refused(at: &Path) -> String {
    format!(
        "if touch {}/other 2>/dev/null; then exit 9; fi",
        at.display()
    )
}

fn mount_point(host_volume: &str, number: u64) -> PathBuf {
    PathBuf::from(format!("/mnt/{host_volume}-p{number}"))
}

#[allow(clippy::print_stderr, reason = "shown by the test runner")]
fn has_loop_devices() -> bool {
    let found = Path::new("/dev/loop-control").exists();
    if !found {
        eprintln!("skipped: there is no loop device here");
    }
    found
}

#[test]
fn printed_commands_open_and_close_each_partition() {
    let tools = [
        "nbdfuse",
        "sfdisk",
        "losetup",
        "mkfs.ext4",
        "mkfs.xfs",
        "mkfs.btrfs",
        "mkfs.ntfs",
        "ntfs-3g",
    ];
    if !tools.iter().all(|tool| installed(tool)) || !can_mount() || !has_loop_devices() {
        return;
    }
    let host = TestHost::with_disks(&["a", "b"]);
    // Paths below /run and /mnt are named after the volume.
    let pool = format!("t{}", std::process::id());
    host.ok(&format!("pool create {pool} a b"));
    host.ok(&format!("volume create {pool}/vm0 --size 800M --sparse"));
    let _server = host.serve_pool(&pool, "nbd.sock", "--no-nfs", |_| ());
    let volume = format!("{pool}/vm0");
    let tag = format!("{pool}-vm0");
    {
        let empty = Background::begin(&host, &volume);
        assert_eq!(empty.view["partition_table"], "none");
        empty.shell(&make_all(&host, &format!("/run/{tag}.fuse/nbd")));
    }

    let writable = Background::begin(&host, &volume);
    for (number, (name, ..)) in (1..).zip(PARTITIONS) {
        let found = writable.partition(number);
        assert_eq!(found["contents"], name, "{found}");
        let label = if name == "ZFS" { "rpool" } else { "of-guest" };
        assert_eq!(found["label"], label, "{found}");
        let [open, undo] = writable.of_partition(number);
        let at = mount_point(&tag, number);
        let act = match name {
            // It is read-only.
            "ZFS" => refused(&at),
            _ => format!("echo {name} >{}/file", at.display()),
        };
        writable.shell(&format!("{open}\n{act}\n{undo}"));
    }
    drop(writable);

    host.ok(&format!("snapshot create {volume}@now"));
    let read_only = Background::begin(&host, &format!("{volume}@now"));
    for (number, (name, ..)) in (1..).zip(PARTITIONS) {
        let [open, undo] = read_only.of_partition(number);
        let at = mount_point(&tag, number);
        let act = match name {
            "ZFS" => String::new(),
            _ => format!("cat {}/file\n{}", at.display(), refused(&at)),
        };
        let shown = read_only.shell(&format!("{open}\n{act}\n{undo}"));
        let expected = if name == "ZFS" {
            "guest-rpool/home"
        } else {
            name
        };
        assert!(shown.contains(expected), "{name}: {shown}");
    }
    drop(read_only);
    let loops = run("losetup", &["--list", "--output", "BACK-FILE"]);
    assert!(!loops.contains(&tag), "{loops}");
    for number in (1..).take(PARTITIONS.len()) {
        let _ = std::fs::remove_dir(mount_point(&tag, number));
    }
    let _ = std::fs::remove_dir(format!("/run/{tag}.fuse"));
}

#[test]
fn label_changes_need_a_writable_rescue() {
    let host = TestHost::with_exported_volume();
    let _server = host.serve("");
    host.ok("snapshot create tank/v@now");
    let words = "volume rescue tank/v@now --allow-label-changes --background";
    host.refused(words, 2, "cannot change labels");
    let words = "volume rescue tank/v@now --writable --allow-label-changes --background --json";
    let view = host.ok(words).json();
    assert_eq!(view["allow_label_changes"], true);
    host.ok("volume rescue tank/v --end");
}
