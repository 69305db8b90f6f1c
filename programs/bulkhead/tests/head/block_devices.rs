//! Pools on real block devices: loop devices with sectors of both sizes, which use the same path as
//! disks (io_uring, bypassing the page cache). Where there are none, the tests report so and pass.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::TestHost;
use crate::common::nbd::Nbd;
use crate::common::tools::{installed, run, text};

/// The features that this OpenZFS's kernel module can read and write.
const KERNEL_FEATURES: &str = "/usr/share/zfs/compatibility.d/openzfs-2.3-linux";
const O_DIRECT: u32 = 0o40000;

/// A loop device over a file, detached when dropped.
struct LoopDevice {
    node: PathBuf,
}

impl LoopDevice {
    /// `None`, with the reason on the standard error, where that is not permitted.
    fn attach(file: &Path, sector_bytes: u32) -> Option<Self> {
        let output = Command::new("losetup")
            .args(["--find", "--show", "--sector-size"])
            .arg(sector_bytes.to_string())
            .arg(file)
            .output();
        match output {
            Ok(output) if output.status.success() => {
                let node = String::from_utf8(output.stdout).expect("a path");
                let node = PathBuf::from(node.trim());
                Some(Self { node })
            }
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                let _ = writeln!(std::io::stderr(), "skipped: no loop device: {why}");
                None
            }
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "skipped: losetup: {error}");
                None
            }
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.node)
            .status();
    }
}

/// A host with two disks of such sectors, `disks/a` and `disks/b`.
struct Disks {
    machine: TestHost,
    devices: [LoopDevice; 2],
}

impl Disks {
    fn attach(sector_bytes: u32) -> Option<Self> {
        let machine = TestHost::with_disks(&["a", "b"]);
        std::fs::create_dir(machine.path("disks")).expect("a folder");
        let attach = |name: &str| {
            let device = LoopDevice::attach(&machine.path(name), sector_bytes)?;
            let link = machine.path("disks").join(name);
            std::os::unix::fs::symlink(&device.node, link).expect("a link");
            Some(device)
        };
        let devices = [attach("a")?, attach("b")?];
        Some(Self { machine, devices })
    }

    fn with_pool(sector_bytes: u32) -> Option<Self> {
        let disks = Self::attach(sector_bytes)?;
        let machine = &disks.machine;
        machine.ok("pool create tank mirror disks/a disks/b");
        machine.ok("volume create tank/v --size 32M --sparse");
        machine.ok("nbd export tank/v --name v");
        Some(disks)
    }

    /// Checks the whole pool with stock zdb, given only these disks.
    fn audit(&self) {
        if !installed("zdb") {
            return;
        }
        let folder = self.machine.path("disks");
        let said = run("zdb", &["-e", "-p", text(&folder), "-bcc", "tank"]);
        assert!(said.contains("No leaks"), "{said}");
    }
}

/// Returns the open files of a process that are `target`, with their flags.
fn open_flags(pid: u32, target: &str) -> Vec<u32> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a process of ours");
    let numbers = files.filter_map(|file| {
        let file = file.expect("listed").path();
        let is_it = std::fs::read_link(&file).is_ok_and(|found| found == Path::new(target));
        is_it.then(|| file.file_name().expect("a number").to_owned())
    });
    let flags = numbers.map(|number| {
        let about = Path::new("/proc").join(pid.to_string()).join("fdinfo");
        let about = std::fs::read_to_string(about.join(number)).expect("still open");
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
        u32::from_str_radix(flags.expect("flags").trim(), 8).expect("octal")
    });
    flags.collect()
}

#[test]
fn a_pool_on_disks_survives_kill_9_with_sectors_of_both_sizes() {
    for sector_bytes in [512, 4096] {
        let Some(disks) = Disks::with_pool(sector_bytes) else {
            return;
        };
        let machine = &disks.machine;
        let server = machine.serve("");
        let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
        client.write(12_345, &[7; 54_321]).expect("written");
        client.flush().expect("flushed");
        for device in &disks.devices {
            let flags = open_flags(server.child.id(), text(&device.node));
            assert!(!flags.is_empty(), "{} is not open", device.node.display());
            assert!(flags.iter().all(|flags| flags & O_DIRECT != 0), "{flags:?}");
        }
        server.kill();
        disks.audit();

        let server = machine.serve("");
        let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
        assert_eq!(client.read(12_345, 54_321).expect("read"), [7; 54_321]);
        assert_eq!(client.read(0, 12_345).expect("read"), [0; 12_345]);
        assert_eq!(server.stop(), 0, "{}", machine.log());
    }
}

#[test]
fn stock_zdb_finds_four_labels_and_only_features_that_the_kernel_has() {
    for (sector_bytes, shift) in [(512, 9), (4096, 12)] {
        let Some(disks) = Disks::with_pool(sector_bytes) else {
            return;
        };
        if !installed("zdb") {
            return;
        }
        for device in &disks.devices {
            let label = run("zdb", &["-l", text(&device.node)]);
            let has = |line: &str| label.lines().any(|found| found.trim() == line);
            assert!(has("labels = 0 1 2 3"), "{label}");
            assert!(has("name: 'tank'") && has("version: 5000"), "{label}");
            assert!(has(&format!("ashift: {shift}")), "{label}");
            let Ok(known) = std::fs::read_to_string(KERNEL_FEATURES) else {
                let _ = writeln!(std::io::stderr(), "skipped: {KERNEL_FEATURES} is missing");
                continue;
            };
            // Below the heading only features are indented: ORGANISATION:NAME.
            let features = label
                .split_once("features_for_read:\n")
                .expect("features")
                .1;
            let features = features
                .lines()
                .take_while(|line| line.starts_with("        "));
            let names: Vec<_> = features.filter_map(|line| line.split_once(':')).collect();
            assert!(!names.is_empty(), "{label}");
            for (_, name) in names {
                assert!(known.lines().any(|line| line == name), "{name}");
            }
        }
    }
}

#[test]
fn mixed_sector_sizes_and_used_disks_are_handled() {
    let Some(fine) = Disks::attach(512) else {
        return;
    };
    let machine = &fine.machine;
    machine.add_disk("c", 128 << 20);
    let Some(coarse) = LoopDevice::attach(&machine.path("c"), 4096) else {
        return;
    };
    let coarse = text(&coarse.node).to_owned();
    machine.ok(&format!("pool create tank mirror disks/a {coarse}"));
    machine.ok("volume create tank/v --size 32M --sparse");
    let create = "pool create other disks/a --overwrite-old-labels";
    let server = machine.serve("");
    machine.refused(create, 5, "in use");
    // A disk with finer sectors can replace one with coarser ones.
    machine.ok(&format!("pool replace tank {coarse} disks/b"));
    crate::common::eventually("the new disk is current", || {
        let status = machine.ok("pool status tank --json").json();
        status["health"] == "ONLINE" && !status.to_string().contains("replacing")
    });
    assert_eq!(server.stop(), 0, "{}", machine.log());
    fine.audit();
}

/// A lock belongs to one special file, or to one file. The disk behind it may have several, such as a second path of a
/// SAN.
#[test]
fn disk_in_use_by_another_path_is_not_overwritten() {
    let Some(disks) = Disks::with_pool(512) else {
        return;
    };
    let machine = &disks.machine;
    let server = machine.serve("");
    let Some(second) = LoopDevice::attach(&machine.path("a"), 512) else {
        return;
    };
    let file = machine.path("b");
    for (other, used) in [
        (second.node.as_path(), disks.devices[0].node.as_path()),
        (file.as_path(), disks.devices[1].node.as_path()),
    ] {
        let (other, used) = (text(other), text(used));
        let said = machine.run(&format!("pool create other {other} --overwrite-old-labels"));
        assert_ne!(said.code, 0, "{other}: {}", said.out);
        let expected = format!("has it open as {used}");
        assert!(said.err.contains(&expected), "{other}: {}", said.err);
    }
    assert_eq!(server.stop(), 0);
    let [one, other] =
        [second.node.as_path(), machine.path("a").as_path()].map(|path| text(path).to_owned());
    let said = machine.run(&format!(
        "pool create other mirror {one} {other} --overwrite-old-labels"
    ));
    assert_ne!(said.code, 0, "{}", said.out);
    assert!(said.err.contains("the same device as"), "{}", said.err);
}
