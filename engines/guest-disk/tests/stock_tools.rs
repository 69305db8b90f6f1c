//! The tools that create each format, and blkid, which recognises it, judge the recognition. A format without its tool
//! is reported and skipped.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use guest_disk::{Contents, Format, Partition, Table, scan};

/// Bytes of an image; XFS needs 300 MiB. Images are sparse.
const IMAGE_BYTES: u64 = 320 << 20;

/// Whether all of these commands are installed; reports a skip.
#[allow(clippy::print_stderr, reason = "shown by the test runner")]
fn installed(tools: &[&str]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let is_there = |tool: &&&str| {
        !path
            .split(':')
            .any(|one| Path::new(one).join(tool).exists())
    };
    let missing = tools.iter().find(is_there);
    if let Some(tool) = missing {
        eprintln!("skipped: {tool} is not installed");
    }
    missing.is_none()
}

fn command(line: &str) -> Command {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().expect("a name"));
    command
        .args(words)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null());
    command
}

fn run(line: &str) -> String {
    let output = command(line).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn image(directory: &Path) -> String {
    let path = directory.join("image");
    let file = File::create(&path).expect("a file");
    file.set_len(IMAGE_BYTES).expect("a size");
    path.display().to_string()
}

fn partitions(image: &str) -> (Table, Vec<Partition>) {
    let file = File::open(image).expect("a file");
    let size = file.metadata().expect("metadata").len();
    let read = |at: u64, length: usize| {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    };
    let disk = scan(&read, size);
    (disk.table, disk.partitions)
}

fn whole(image: &str) -> Contents {
    let (table, mut found) = partitions(image);
    assert_eq!((table, found.len()), (Table::None, 1));
    found.remove(0).contents.expect("recognised")
}

/// The values of blkid.
fn judge(image: &str) -> BTreeMap<String, String> {
    let printed = run(&format!("blkid -p -o export {image}"));
    let values = printed.lines().filter_map(|line| line.split_once('='));
    let plain = |text: &str| text.replace('\\', "").trim().to_owned();
    values
        .map(|(name, value)| (name.to_owned(), plain(value)))
        .collect()
}

/// Compares type, label and UUID.
fn agrees(image: &str, found: &Contents) {
    let judged = judge(image);
    let value = |name: &str| judged.get(name).map(String::as_str).unwrap_or_default();
    let kind = match found.format {
        Format::Luks => "crypto_LUKS",
        Format::Lvm => "LVM2_member",
        Format::Md => "linux_raid_member",
        other => other.name(),
    };
    assert_eq!(value("TYPE"), kind);
    assert_eq!(value("UUID"), found.uuid);
    // The name of a group is no label to blkid.
    if found.format != Format::Lvm {
        assert_eq!(value("LABEL"), found.label);
    }
}

#[test]
fn file_systems_and_swap_agree_with_blkid() {
    let makers = [
        ("mkfs.ext2", "-q -F -L lab", Format::Ext2),
        ("mkfs.ext3", "-q -F -L lab", Format::Ext3),
        ("mkfs.ext4", "-q -F -L lab", Format::Ext4),
        ("mkfs.ext4", "-q -F -O ^has_journal", Format::Ext4),
        ("mkfs.xfs", "-q -L lab", Format::Xfs),
        ("mkfs.btrfs", "-q -L lab", Format::Btrfs),
        ("mkfs.ntfs", "-q -F -f -L lab", Format::Ntfs),
        ("mkfs.vfat", "-F 32 -n LAB", Format::Vfat),
        ("mkfs.vfat", "-F 16", Format::Vfat),
        ("mkfs.exfat", "-L lab", Format::Exfat),
        ("mkswap", "-q -L lab", Format::Swap),
        ("mkswap", "-q -p 65536", Format::Swap),
    ];
    for (tool, options, format) in makers {
        if !installed(&[tool, "blkid"]) {
            continue;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let image = image(directory.path());
        run(&format!("{tool} {options} {image}"));
        let found = whole(&image);
        assert_eq!(found.format, format, "{tool} {options}");
        assert_eq!(found.states, [], "{tool} {options}");
        agrees(&image, &found);
    }
}

#[test]
fn encrypted_volumes_agree_with_blkid() {
    if !installed(&["cryptsetup", "blkid"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let key = directory.path().join("key").display().to_string();
    std::fs::write(&key, "a passphrase").expect("a file");
    for (options, version) in [
        ("--type luks1", "version 1"),
        ("--type luks2 --pbkdf pbkdf2 --label lab", "version 2"),
    ] {
        let image = image(directory.path());
        run(&format!(
            "cryptsetup luksFormat -q {options} --pbkdf-force-iterations 1000 --key-file {key} {image}"
        ));
        let found = whole(&image);
        assert_eq!((found.format, found.states.len()), (Format::Luks, 0));
        assert_eq!(found.notes, [version]);
        agrees(&image, &found);
    }
}

/// A loop device of a file, detached when dropped.
struct LoopDevice(String);

impl LoopDevice {
    #[allow(clippy::print_stderr, reason = "shown by the test runner")]
    fn of(image: &str) -> Option<Self> {
        let output = command(&format!("losetup --find --show {image}")).output();
        let output = output.ok().filter(|output| output.status.success());
        if output.is_none() {
            eprintln!("skipped: there is no loop device here");
        }
        let name = String::from_utf8(output?.stdout).ok()?;
        Some(Self(name.trim().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = command(&format!("losetup -d {}", self.0)).status();
    }
}

#[test]
fn physical_volume_agrees_with_lvm() {
    if !installed(&["pvcreate", "blkid", "losetup"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let image = image(directory.path());
    let Some(device) = LoopDevice::of(&image) else {
        return;
    };
    let device = &device.0;
    // Its backups and settings.
    let settings = directory.path().join("lvm");
    std::fs::create_dir(&settings).expect("a directory");
    let lvm = |line: &str| {
        let output = command(line).env("LVM_SYSTEM_DIR", &settings).output();
        let output = output.expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(errors)
    };
    let made = lvm(&format!("pvcreate -q --devices {device} {device}"));
    assert_eq!(made, Ok(()));
    let made = lvm(&format!("vgcreate -q --devices {device} vg0 {device}"));
    assert_eq!(made, Ok(()));
    // The group's description is restored: without a device mapper no volume can be created.
    let text = directory.path().join("vg0").display().to_string();
    let saved = lvm(&format!(
        "vgcfgbackup -q --devices {device} --file {text} vg0"
    ));
    assert_eq!(saved, Ok(()));
    let before = std::fs::read_to_string(&text).expect("text");
    let volume = |name: &str, status: &str| {
        let id = name.replace('-', "");
        format!(
            "{name} {{\nid = \"{id:a<6}-aaaa-aaaa-aaaa-aaaa-aaaa-aaaaaa\"\nstatus = [\"READ\", \"WRITE\"{status}]\nflags = []\n\
             segment_count = 1\nsegment1 {{\nstart_extent = 0\nextent_count = 1\ntype = \"error\"\n}}\n}}\n"
        )
    };
    let end = before.rfind("\n}").expect("the group's end");
    let volumes = [
        volume("root", ", \"VISIBLE\""),
        volume("hidden", ""),
        volume("sw-ap", ", \"VISIBLE\""),
    ];
    let after = format!(
        "{}\nlogical_volumes {{\n{}}}\n{}",
        &before[..end],
        volumes.concat(),
        &before[end..]
    );
    std::fs::write(&text, after).expect("written");
    let restored = lvm(&format!(
        "vgcfgrestore -q --devices {device} --file {text} vg0"
    ));
    assert_eq!(restored, Ok(()));
    let found = whole(&image);
    assert_eq!((found.format, found.label.as_str()), (Format::Lvm, "vg0"));
    assert_eq!(found.devices, Some(1));
    assert_eq!(found.volumes, ["root", "sw-ap"]);
    agrees(&image, &found);
}

#[test]
fn partitions_agree_with_sfdisk() {
    if !installed(&["sfdisk", "mkfs.ext4"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    for (label, table, kinds) in [
        (
            "gpt",
            Table::Gpt,
            [
                "21686148-6449-6e6f-744e-656564454649",
                "0fc63daf-8483-4772-8e79-3d69d8477de4",
            ],
        ),
        ("dos", Table::Mbr, ["82", "83"]),
    ] {
        let image = image(directory.path());
        let script = directory.path().join("script");
        let text = match label {
            "gpt" => format!("label: gpt\nsize=1M,type={}\nname=root\n", kinds[0]),
            _ => "label: dos\nsize=1M,type=82\ntype=5\ntype=83\n".to_owned(),
        };
        std::fs::write(&script, text).expect("written");
        let made = Command::new("sfdisk")
            .args(["-q", &image])
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(File::open(&script).expect("a file"))
            .status();
        assert!(made.is_ok_and(|status| status.success()), "{label}");
        let (found_table, found) = partitions(&image);
        assert_eq!((found_table, found.len()), (table, 2));
        let printed = run(&format!("sfdisk -d {image}"));
        for (one, kind) in found.iter().zip(kinds) {
            assert_eq!(one.kind, kind);
            let (start, size) = (one.start / 512, one.size / 512);
            let line = printed
                .lines()
                .find(|line| line.starts_with(&format!("{image}{} ", one.number)))
                .expect("the partition");
            let squeezed = line.replace(' ', "");
            let expected = format!("start={start},size={size},");
            assert!(squeezed.contains(&expected), "{squeezed}: {expected}");
        }
    }
}
