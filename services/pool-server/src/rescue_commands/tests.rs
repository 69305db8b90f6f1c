//! The printed commands, by contents and access.

use guest_disk::{Contents, Partition as Found, Table};

use super::*;

fn view(read_only: bool, allow_label_changes: bool) -> RescueView {
    RescueView {
        volume: "tank/vm0".parse().expect("a name"),
        snapshot: None,
        clone: None,
        read_only,
        allow_label_changes,
        socket: "/run/x.sock".into(),
        uri: "nbd+unix:///?socket=/run/x.sock".to_owned(),
        size: 1 << 30,
        partition_table: "mbr".to_owned(),
        partitions: Vec::new(),
        commands: Vec::new(),
    }
}

fn part(number: u32, start: u64, size: u64, contents: Contents) -> Found {
    Found {
        number,
        start,
        size,
        kind: "83".to_owned(),
        name: String::new(),
        contents: Some(contents),
    }
}

fn disk(contents: Contents) -> Disk {
    Disk {
        table: Table::Mbr,
        partitions: vec![
            part(1, 1 << 20, 1 << 20, Contents::new(Format::Vfat)),
            part(2, 2 << 20, 1 << 29, contents),
            part(3, 1 << 29, 1 << 29, Contents::new(Format::Swap)),
        ],
    }
}

/// The lines for partition 2.
fn lines(contents: Contents, read_only: bool, allow_label_changes: bool) -> Vec<String> {
    let all = commands(&view(read_only, allow_label_changes), &disk(contents));
    let of_it = all.into_iter().filter(|one| one.partition == Some(2));
    of_it.flat_map(|one| one.lines).collect()
}

fn text(view: &RescueView, disk: &Disk) -> String {
    let lines = commands(view, disk).into_iter().flat_map(|one| one.lines);
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn file_system_is_mounted_at_its_offset() {
    let found = lines(Contents::new(Format::Xfs), false, false);
    assert_eq!(
        found[1],
        "mount -o loop,offset=2097152,sizelimit=536870912,nouuid /run/tank-vm0.fuse/nbd /mnt/tank-vm0-p2"
    );
    assert_eq!(
        found.last().map(String::as_str),
        Some("umount /mnt/tank-vm0-p2")
    );
    let found = lines(Contents::new(Format::Ext4), true, false);
    assert!(found[1].contains(",ro,noload /run"), "{found:?}");
    let found = lines(Contents::new(Format::Ntfs), true, false);
    assert!(
        found[1].contains(" || mount -t ntfs-3g -o loop,"),
        "{found:?}"
    );
    let all = text(&view(true, false), &disk(Contents::new(Format::Luks)));
    assert!(
        all.contains("mount -o ro /dev/nbd0p1 /mnt/tank-vm0\n"),
        "{all}"
    );
}

#[test]
fn unpartitioned_disk_is_mounted_without_an_offset() {
    let mut disk = disk(Contents::new(Format::Ext4));
    disk.partitions = vec![part(0, 0, 1 << 30, Contents::new(Format::Ext4))];
    let all = text(&view(false, false), &disk);
    let mount = "mount -o loop /run/tank-vm0.fuse/nbd /mnt/tank-vm0\n";
    assert!(all.contains(mount), "{all}");
}

#[test]
fn read_only_rescue_shows_no_writing_command() {
    let formats = [
        Format::Zfs,
        Format::Luks,
        Format::BitLocker,
        Format::Md,
        Format::Btrfs,
        Format::Ext4,
        Format::Xfs,
        Format::Ntfs,
        Format::Lvm,
    ];
    for format in formats {
        let mut contents = Contents::new(format);
        contents.label = "vg0".to_owned();
        contents.volumes = vec!["root".to_owned()];
        let all = text(&view(true, false), &disk(contents));
        assert!(!all.contains("--flush"), "{all}");
        for line in all.lines() {
            for one in line.split("||") {
                let is_safe = |mark: &str| one.contains(mark);
                let must = |verb: &str, marks: &[&str]| {
                    let is_meant =
                        one.trim_start().starts_with(verb) || one.contains(&format!("=$({verb}"));
                    assert!(!is_meant || marks.iter().any(|mark| is_safe(mark)), "{one}");
                };
                must("losetup --find", &["--read-only"]);
                must("mount ", &[" ro,", ",ro", "-o ro "]);
                must("mdadm --assemble", &["--readonly"]);
                must("cryptsetup open", &["--readonly"]);
                must("bulkhead filesystem mount", &["--read-only", "--list"]);
                must("vgchange -ay", &["read_only_volume_list=[\"vg0\"]"]);
            }
        }
        assert!(all.contains("--end tank/vm0"));
    }
    assert!(
        text(&view(false, false), &disk(Contents::new(Format::Ext4)))
            .contains("nbdcopy --flush tank-vm0.raw")
    );
}

/// A writable rescue does not change the labels of what is in it, unless that is requested.
#[test]
fn labels_are_changed_only_on_request() {
    let found = lines(Contents::new(Format::Md), false, false);
    assert!(found[0].contains("--read-only"), "{found:?}");
    assert!(
        found
            .iter()
            .any(|line| line.starts_with("mdadm --assemble --readonly"))
    );
    let found = lines(Contents::new(Format::Md), false, true);
    assert!(!found[0].contains("--read-only"), "{found:?}");
    assert!(
        found
            .iter()
            .any(|line| line.starts_with("mdadm --assemble --run"))
    );

    let mut group = Contents::new(Format::Lvm);
    group.label = "vg0".to_owned();
    let imports = |lines: Vec<String>| lines.iter().any(|line| line.starts_with("vgimportclone"));
    assert!(!imports(lines(group.clone(), false, false)));
    assert!(imports(lines(group, false, true)));

    let mut pool = Contents::new(Format::Zfs);
    pool.label = "rpool".to_owned();
    let opens = |lines: Vec<String>| {
        let is_meant = |line: &String| line.starts_with("bulkhead filesystem mount rpool ");
        lines.iter().any(is_meant)
    };
    assert!(!opens(lines(pool.clone(), false, false)));
    assert!(opens(lines(pool, false, true)));

    let mut busy = Contents::new(Format::Luks);
    busy.set(State::OpenWrites, "a reencryption");
    assert!(lines(busy.clone(), false, false)[1].contains("--readonly"));
    assert!(!lines(busy, false, true)[1].contains("--readonly"));
    assert!(!lines(Contents::new(Format::Luks), false, false)[1].contains("--readonly"));
}

#[test]
fn hostile_pool_name_is_no_command() {
    let mut pool = Contents::new(Format::Zfs);
    pool.label = "x; $(reboot) `a`".to_owned();
    let found = lines(pool, true, false).join("\n");
    assert!(found.contains("mount guest-xreboota --list"), "{found}");
}

#[test]
fn undo_follows_in_the_reverse_order() {
    let mut group = Contents::new(Format::Lvm);
    group.label = "vg0".to_owned();
    group.volumes = vec!["root".to_owned()];
    let found = lines(group, true, false);
    let undo = &found[found.len() - 3..];
    assert_eq!(
        undo,
        [
            "umount /mnt/tank-vm0-p2-root",
            "vgchange -an --devices $tank_vm0_p2 vg0",
            "losetup -d $tank_vm0_p2"
        ]
    );
    let all = commands(&view(true, false), &disk(Contents::new(Format::Ext4)));
    let purposes: Vec<_> = all.iter().map(|one| one.purpose.as_str()).collect();
    let at = |text: &str| purposes.iter().position(|one| one.starts_with(text));
    assert!(at("partition 2, ext4: undo") < at("remove the file"));
    assert!(at("remove the file") < at("end the rescue"));
}
