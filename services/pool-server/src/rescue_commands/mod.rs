//! The commands that use a rescue's socket: for the disk, for each partition by its contents, and their undoing.
//!
//! The contents are a guest's: no text of it becomes part of a command, except names that consist of letters which no
//! shell interprets.

mod partition;

#[cfg(test)]
mod tests;

use control::rescue::{Partition, RescueCommand, RescueView};
use guest_disk::{Disk, Format, State, Table};

use self::partition::{Target, is_mounted_directly, mount_options};

/// Partitions that commands are printed for, the largest first.
const PARTITIONS_MAX: usize = 16;

/// A partition as clients see it.
pub fn described(found: &guest_disk::Partition) -> Partition {
    let contents = found.contents.clone();
    let shown = Partition {
        number: found.number,
        start: found.start,
        size: found.size,
        kind: found.kind.clone(),
        name: found.name.clone(),
        contents: None,
        label: String::new(),
        uuid: String::new(),
        devices: None,
        volumes: Vec::new(),
        notes: Vec::new(),
    };
    match contents {
        None => shown,
        Some(contents) => Partition {
            contents: Some(contents.format.name().to_owned()),
            label: contents.label,
            uuid: contents.uuid,
            devices: contents.devices,
            volumes: contents.volumes,
            notes: contents.notes,
            ..shown
        },
    }
}

fn command(purpose: impl Into<String>, lines: Vec<String>) -> RescueCommand {
    RescueCommand {
        purpose: purpose.into(),
        partition: None,
        lines,
    }
}

/// How to use a rescue, how to undo that, and how to end it.
pub fn commands(view: &RescueView, disk: &Disk) -> Vec<RescueCommand> {
    let (uri, tag) = (&view.uri, tag(view));
    let read_flag = if view.read_only { "-r " } else { "" };
    let mut all = vec![
        command("look at it", vec![format!("nbdinfo '{uri}'")]),
        command(
            "make it a file (FUSE), which the commands for partitions use",
            vec![
                format!("mkdir -p /run/{tag}.fuse"),
                format!("nbdfuse {read_flag}/run/{tag}.fuse '{uri}' &"),
                format!("until [ -e /run/{tag}.fuse/nbd ]; do sleep 0.1; done"),
            ],
        ),
    ];
    all.extend(hints(disk));
    let mut largest: Vec<_> = disk.partitions.iter().collect();
    largest.sort_by_key(|one| std::cmp::Reverse(one.size));
    largest.truncate(PARTITIONS_MAX);
    largest.sort_by_key(|one| one.number);
    for one in largest {
        let contents = one.contents.as_ref();
        let target = contents.map(|contents| Target::new(view, disk, one, contents));
        all.extend(target.iter().flat_map(Target::commands));
    }
    let lines = vec![format!("umount /run/{tag}.fuse")];
    all.push(command("remove the file, after all of these", lines));
    all.extend(without_a_file(view, disk));
    let volume = match view.volume.as_str() {
        spaced if spaced.contains(' ') => format!("'{spaced}'"),
        plain => plain.to_owned(),
    };
    let lines = vec![format!("bulkhead volume rescue --end {volume}")];
    all.push(command("end the rescue", lines));
    all
}

/// The ways that need no file.
fn without_a_file(view: &RescueView, disk: &Disk) -> Vec<RescueCommand> {
    let (uri, socket, tag) = (&view.uri, view.socket.display(), tag(view));
    let only = if view.read_only { " --readonly" } else { "" };
    let fish = match view.read_only {
        true => "guestfish --ro",
        false => "guestfish",
    };
    let attach = format!("modprobe nbd; nbd-client -unix {socket} /dev/nbd0{only}");
    let device = match mount_device(view, disk, &format!("/mnt/{tag}")) {
        Some(mount) => vec![
            attach,
            format!("mkdir -p /mnt/{tag}"),
            mount,
            format!("umount /mnt/{tag}; nbd-client -d /dev/nbd0"),
        ],
        None => vec![attach, "nbd-client -d /dev/nbd0".to_owned()],
    };
    let mut all = vec![
        command("or as a block device (kernel module nbd)", device),
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
    all
}

/// Dangers of the whole disk, each as a command without lines.
fn hints(disk: &Disk) -> Vec<RescueCommand> {
    let mut all = Vec::new();
    if disk.table == Table::GptCopy {
        let text =
            "note: the first partition table is damaged; the copy at the end of the disk was read";
        all.push(command(text, Vec::new()));
    }
    let is_hibernated = |one: &guest_disk::Partition| {
        let contents = one.contents.as_ref();
        contents.is_some_and(|contents| contents.is(State::Hibernated))
    };
    if disk.partitions.iter().any(is_hibernated) {
        let text = "note: a hibernated system has these file systems mounted: a change to them destroys data when it resumes";
        all.push(command(text, Vec::new()));
    }
    all
}

/// The name of a rescue in paths. Names of volumes can have spaces and colons.
fn tag(view: &RescueView) -> String {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    let name = view.volume.as_str().replace('/', "-");
    name.replace(|one| !is_plain(one), "_")
}

/// The mount of the partition that a user most likely means: the largest with a file system.
fn mount_device(view: &RescueView, disk: &Disk, at: &str) -> Option<String> {
    let format = |one: &&guest_disk::Partition| one.contents.as_ref().map(|one| one.format);
    let all = disk.partitions.iter();
    let mounted = all.filter(|one| format(one).is_some_and(is_mounted_directly));
    let main = mounted.max_by_key(|one| one.size)?;
    let device = match main.number {
        0 => "/dev/nbd0".to_owned(),
        number => format!("/dev/nbd0p{number}"),
    };
    let options = mount_options(format(&main).unwrap_or(Format::Vfat), view.read_only);
    Some(match options {
        "" => format!("mount {device} {at}"),
        options => format!("mount -o {options} {device} {at}"),
    })
}
