//! The commands that use a rescue's socket.

use control::rescue::{Partition, RescueCommand, RescueView};

/// How to use a rescue, and how to end it.
pub fn commands(view: &RescueView) -> Vec<RescueCommand> {
    let (uri, socket) = (&view.uri, view.socket.display());
    let command = |purpose: &str, lines: Vec<String>| RescueCommand {
        purpose: purpose.to_owned(),
        lines,
    };
    let only = if view.read_only { " --readonly" } else { "" };
    let (fish, read_flag) = match view.read_only {
        true => ("guestfish --ro", "-r "),
        false => ("guestfish", ""),
    };
    let tag = view.volume.as_str().replace('/', "-");
    let mut all = vec![
        command("look at it", vec![format!("nbdinfo '{uri}'")]),
        command(
            "mount it as a file (FUSE), then a partition of it",
            vec![
                format!("mkdir -p /run/{tag}.fuse /mnt/{tag}"),
                format!("nbdfuse {read_flag}/run/{tag}.fuse '{uri}' &"),
                format!("until [ -e /run/{tag}.fuse/nbd ]; do sleep 0.1; done"),
                mount(
                    view,
                    &format!("/run/{tag}.fuse/nbd"),
                    &format!("/mnt/{tag}"),
                ),
                format!("umount /mnt/{tag}; umount /run/{tag}.fuse"),
            ],
        ),
        command(
            "or as a block device (kernel module nbd)",
            vec![
                format!("modprobe nbd; nbd-client -unix {socket} /dev/nbd0{only}"),
                mount_device(view, &format!("/mnt/{tag}")),
                format!("umount /mnt/{tag}; nbd-client -d /dev/nbd0"),
            ],
        ),
        command(
            "or without mounting it here",
            vec![format!(
                "{fish} --format=raw -a 'nbd://?socket={socket}' -i"
            )],
        ),
        command("copy it", vec![format!("nbdcopy '{uri}' {tag}.raw")]),
    ];
    if !view.read_only {
        let lines = vec![format!("nbdcopy --flush {tag}.raw '{uri}'")];
        all.push(command("put a copy back", lines));
    }
    let lines = vec![format!("bulkhead volume rescue --end {}", view.volume)];
    all.push(command("end the rescue", lines));
    all
}

/// The partition that a user most likely means: the largest with a file system.
fn main_partition(view: &RescueView) -> Option<&Partition> {
    let is_file_system = |one: &&Partition| {
        let contents = one.contents.as_deref();
        contents.is_some_and(|contents| !matches!(contents, "LUKS" | "LVM" | "swap"))
    };
    let of = view.partitions.iter().filter(is_file_system);
    of.max_by_key(|one| one.size)
        .or_else(|| view.partitions.iter().max_by_key(|one| one.size))
}

/// The options of a mount that must not write, by file system.
fn mount_options(view: &RescueView, partition: Option<&Partition>) -> String {
    if !view.read_only {
        return String::new();
    }
    match partition.and_then(|one| one.contents.as_deref()) {
        Some("ext3" | "ext4") => "ro,noload".to_owned(),
        Some("xfs") => "ro,norecovery,nouuid".to_owned(),
        _ => "ro".to_owned(),
    }
}

fn mount(view: &RescueView, file: &str, at: &str) -> String {
    let partition = main_partition(view);
    let mut options = vec!["loop".to_owned()];
    if let Some(one) = partition.filter(|one| one.start > 0) {
        options.push(format!("offset={},sizelimit={}", one.start, one.size));
    }
    options.push(mount_options(view, partition));
    options.retain(|option| !option.is_empty());
    format!("mount -o {} {file} {at}", options.join(","))
}

fn mount_device(view: &RescueView, at: &str) -> String {
    let partition = main_partition(view);
    let device = match partition {
        Some(one) if one.number > 0 => format!("/dev/nbd0p{}", one.number),
        _ => "/dev/nbd0".to_owned(),
    };
    match mount_options(view, partition) {
        options if options.is_empty() => format!("mount {device} {at}"),
        options => format!("mount -o {options} {device} {at}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(read_only: bool, contents: &str) -> RescueView {
        let partition = |number, start, size, contents: &str| Partition {
            number,
            start,
            size,
            kind: "83".to_owned(),
            name: String::new(),
            contents: Some(contents.to_owned()),
        };
        RescueView {
            volume: "tank/vm0".parse().expect("a name"),
            snapshot: None,
            clone: None,
            read_only,
            socket: "/run/x.sock".into(),
            uri: "nbd+unix:///?socket=/run/x.sock".to_owned(),
            size: 1 << 30,
            partition_table: "mbr".to_owned(),
            partitions: vec![
                partition(1, 1 << 20, 1 << 20, "vfat"),
                partition(2, 2 << 20, 1 << 29, contents),
                partition(3, 1 << 29, 1 << 29, "swap"),
            ],
            commands: Vec::new(),
        }
    }

    #[test]
    fn largest_file_system_is_mounted_at_its_offset() {
        let said = mount(&view(false, "xfs"), "f", "m");
        assert_eq!(said, "mount -o loop,offset=2097152,sizelimit=536870912 f m");
        let said = mount(&view(true, "ext4"), "f", "m");
        assert!(said.ends_with(",ro,noload f m"), "{said}");
        let said = mount_device(&view(true, "LUKS"), "m");
        assert_eq!(said, "mount -o ro /dev/nbd0p1 m");
    }

    #[test]
    fn read_only_rescue_shows_no_writing_command() {
        let all = |read_only| {
            let commands = commands(&view(read_only, "ext4"));
            let lines = commands.into_iter().flat_map(|command| command.lines);
            lines.collect::<Vec<_>>().join("\n")
        };
        assert!(!all(true).contains("--flush") && all(true).contains("--readonly"));
        assert!(all(false).contains("nbdcopy --flush tank-vm0.raw"));
        assert!(all(true).contains("--end tank/vm0"));
    }
}
