//! The commands for one partition, by its contents.
//!
//! Nothing is written unless the rescue is writable. Labels, which tell a guest that a pool, a group or an array is its
//! own, are not changed then either, unless that is requested: the guest could not boot afterwards.

use control::rescue::{RescueCommand, RescueView};
use guest_disk::{Contents, Disk, Format, Partition, State};
use units::PoolName;

/// Logical volumes that are mounted by the commands.
const VOLUMES_MAX: usize = 8;

/// Whether `mount` is sufficient.
pub fn is_mounted_directly(format: Format) -> bool {
    match format {
        Format::Btrfs
        | Format::Ext2
        | Format::Ext3
        | Format::Ext4
        | Format::Xfs
        | Format::Ntfs
        | Format::Vfat
        | Format::Exfat
        | Format::Iso9660 => true,
        Format::Zfs
        | Format::Lvm
        | Format::Luks
        | Format::BitLocker
        | Format::Md
        | Format::Swap => false,
    }
}

/// The options of a mount. One that must not write does not replay a journal either.
pub fn mount_options(format: Format, read_only: bool) -> &'static str {
    match (format, read_only) {
        (Format::Ext3 | Format::Ext4, true) => "ro,noload",
        // The file system can have a twin on this host, such as the volume of a snapshot.
        (Format::Xfs, true) => "ro,norecovery,nouuid",
        (Format::Xfs, false) => "nouuid",
        (Format::Btrfs, true) => "ro,rescue=nologreplay",
        (_, true) => "ro",
        (_, false) => "",
    }
}

/// A partition with contents, and the names that its commands use.
pub struct Target<'a> {
    read_only: bool,
    changes_labels: bool,
    number: u32,
    format: Format,
    contents: &'a Contents,
    /// The file of the disk.
    file: String,
    /// Offset and bytes of a part of it.
    extent: Option<(u64, u64)>,
    /// The name in paths, and that of the shell's variable with the loop device.
    name: String,
    variable: String,
}

impl<'a> Target<'a> {
    /// The target `partition` of a rescue.
    pub fn new(
        view: &RescueView,
        disk: &Disk,
        partition: &Partition,
        contents: &'a Contents,
    ) -> Self {
        let tag = super::tag(view);
        let is_whole = disk.partitions.len() == 1 && partition.number == 0;
        let name = match is_whole {
            true => tag.clone(),
            false => format!("{tag}-p{}", partition.number),
        };
        let is_part = |one: char| one.is_ascii_alphanumeric();
        Self {
            read_only: view.read_only,
            changes_labels: view.allow_label_changes,
            number: partition.number,
            format: contents.format,
            contents,
            file: format!("/run/{tag}.fuse/nbd"),
            extent: (!is_whole).then_some((partition.start, partition.size)),
            variable: name.replace(|one| !is_part(one), "_"),
            name,
        }
    }

    /// The commands that open it, and those that undo that.
    pub fn commands(&self) -> Vec<RescueCommand> {
        match self.format {
            Format::Swap => Vec::new(),
            Format::Zfs => self.zfs(),
            Format::Lvm => self.lvm(),
            Format::Luks => self.luks(),
            Format::BitLocker => self.bitlocker(),
            Format::Md => self.md(),
            Format::Btrfs if self.contents.devices != Some(1) => self.btrfs_of_several(),
            _ => self.file_system(),
        }
    }

    fn title(&self) -> String {
        let what = self.format.name();
        match self.extent {
            None => what.to_owned(),
            Some(_) => format!("partition {}, {what}", self.number),
        }
    }

    /// A pair of commands.
    fn pair(&self, open: &str, lines: Vec<String>, undo: Vec<String>) -> Vec<RescueCommand> {
        let partition = Some(self.number);
        let title = self.title();
        let purposes = [
            (format!("{title}: {open}"), lines),
            (format!("{title}: undo"), undo),
        ];
        let commands = purposes.into_iter().map(|(purpose, lines)| RescueCommand {
            purpose,
            partition,
            lines,
        });
        commands.collect()
    }

    fn directory(&self) -> String {
        format!("/mnt/{}", self.name)
    }

    /// Attaches a loop device, and stores its name in the variable.
    fn attach(&self, read_only: bool) -> String {
        let only = if read_only { " --read-only" } else { "" };
        let extent = self
            .extent
            .map(|(start, size)| format!(" --offset {start} --sizelimit {size}"));
        format!(
            "{}=$(losetup --find --show{only}{} {})",
            self.variable,
            extent.unwrap_or_default(),
            self.file
        )
    }

    fn detach(&self) -> String {
        format!("losetup -d ${}", self.variable)
    }

    /// Mounts a device with contents that are not known before it is open: by the options of each journal in turn.
    fn mount_unknown(device: &str, at: &str, read_only: bool) -> Vec<String> {
        let make = format!("mkdir -p {at}");
        let mount = match read_only {
            false => format!("mount {device} {at}"),
            true => format!(
                "mount -o ro,noload {device} {at} 2>/dev/null || \
                 mount -o ro,norecovery,nouuid {device} {at} 2>/dev/null || mount -o ro {device} {at}"
            ),
        };
        vec![make, mount]
    }

    fn file_system(&self) -> Vec<RescueCommand> {
        let at = self.directory();
        let mount = |kind: &str, more: &str| {
            let mut options = vec!["loop".to_owned()];
            if let Some((start, size)) = self.extent {
                options.push(format!("offset={start},sizelimit={size}"));
            }
            if !more.is_empty() {
                options.push(more.to_owned());
            }
            let options = options.join(",");
            format!("mount{kind} -o {options} {} {at}", self.file)
        };
        let options = mount_options(self.format, self.read_only);
        let line = match self.format {
            // The driver of the kernel is newer than some kernels; the other one runs in user space.
            Format::Ntfs => {
                let [kernel, user] = [" -t ntfs3", " -t ntfs-3g"].map(|kind| mount(kind, options));
                format!("{kernel} || {user}")
            }
            Format::Btrfs if self.read_only => {
                // Kernels before 5.9.
                let older = mount("", "ro,nologreplay");
                format!("{} || {older}", mount("", options))
            }
            _ => mount("", options),
        };
        let open = vec![format!("mkdir -p {at}"), line];
        self.pair("mount it", open, vec![format!("umount {at}")])
    }

    fn btrfs_of_several(&self) -> Vec<RescueCommand> {
        let at = self.directory();
        let device = format!("${}", self.variable);
        let others = self.contents.devices.unwrap_or(0).saturating_sub(1);
        let options = match self.read_only {
            true => "ro,degraded,rescue=nologreplay,",
            false => "",
        };
        let open = vec![
            self.attach(self.read_only),
            format!(
                "# attach the other {others} devices in the same way, and add `,device=DEVICE` for each; read-only, \
                 copies of their data replace them"
            ),
            format!("mkdir -p {at}"),
            format!("mount -t btrfs -o {options}device={device} {device} {at}"),
        ];
        self.pair(
            "mount it",
            open,
            vec![format!("umount {at}"), self.detach()],
        )
    }

    fn lvm(&self) -> Vec<RescueCommand> {
        let group = &self.contents.label;
        if group.is_empty() {
            return Vec::new();
        }
        let mut all = self.lvm_group(group, None);
        if self.changes_labels {
            all.extend(self.lvm_group(&format!("{group}-rescue"), Some(group)));
        }
        all
    }

    /// Activates the group `group`. A group that is called `original` is renamed to that first.
    fn lvm_group(&self, group: &str, original: Option<&str>) -> Vec<RescueCommand> {
        let device = format!("${}", self.variable);
        let devices = self.contents.devices.unwrap_or(1);
        let read_only = match self.read_only {
            true => format!("read_only_volume_list=[\"{group}\"] "),
            false => String::new(),
        };
        // Backups on this host would replace those of a group of the same name.
        let settings =
            format!("activation{{{read_only}monitoring=0}} backup{{backup=0 archive=0}}");
        let mut open = vec![self.attach(self.read_only)];
        if devices != 1 {
            open.push(format!(
                "# attach the other {} physical volumes in the same way, and name all of them: --devices {device},DEVICE",
                devices.saturating_sub(1)
            ));
        }
        if original.is_some() {
            open.push(format!(
                "vgimportclone --devices {device} --basevgname {group} {device}"
            ));
        }
        open.push(format!(
            "vgchange -ay --devices {device} --config '{settings}' {group}"
        ));
        let mut undo = Vec::new();
        for volume in self.contents.volumes.iter().take(VOLUMES_MAX) {
            let at = format!("{}-{volume}", self.directory());
            let path = format!("/dev/{group}/{volume}");
            open.extend(Self::mount_unknown(&path, &at, self.read_only));
            undo.push(format!("umount {at}"));
        }
        undo.push(format!("vgchange -an --devices {device} {group}"));
        undo.push(self.detach());
        let purpose = match original {
            None => format!(
                "activate group {group}; it is refused if an active group of this host has the same name"
            ),
            Some(original) => format!(
                "or under another name, which changes the labels: the guest does not find group {original} any more"
            ),
        };
        self.pair(&purpose, open, undo)
    }

    /// Whether it is opened read-only although the rescue is writable, and why.
    fn protects_header(&self) -> bool {
        self.contents.is(State::OpenWrites) && !self.changes_labels
    }

    fn luks(&self) -> Vec<RescueCommand> {
        let read_only = self.read_only || self.protects_header();
        let only = if read_only { "--readonly " } else { "" };
        let purpose = match self.protects_header() && !self.read_only {
            true => {
                "open it, read-only: otherwise its header is changed (--allow-label-changes permits that)"
            }
            false => "open it",
        };
        let device = format!("/dev/mapper/{}", self.name);
        let mut open = vec![
            self.attach(read_only),
            format!("cryptsetup open {only}${} {}", self.variable, self.name),
            format!("blkid -p {device}"),
            format!(
                "# if that is LVM2_member: `vgs --devices {device}` names the group, `vgchange -ay --devices {device} GROUP` \
                 activates it; otherwise"
            ),
        ];
        open.extend(Self::mount_unknown(&device, &self.directory(), read_only));
        self.pair(purpose, open, self.close_mapped())
    }

    fn bitlocker(&self) -> Vec<RescueCommand> {
        let (device, at) = (format!("/dev/mapper/{}", self.name), self.directory());
        let (only, options) = match self.read_only {
            true => ("--readonly ", "-o ro "),
            false => ("", ""),
        };
        let open = vec![
            self.attach(self.read_only),
            format!(
                "cryptsetup open --type bitlk {only}${} {}",
                self.variable, self.name
            ),
            format!("mkdir -p {at}"),
            format!(
                "mount -t ntfs3 {options}{device} {at} || mount -t ntfs-3g {options}{device} {at}"
            ),
        ];
        self.pair("open it with its recovery key", open, self.close_mapped())
    }

    fn close_mapped(&self) -> Vec<String> {
        vec![
            format!("umount {}", self.directory()),
            format!("cryptsetup close {}", self.name),
            self.detach(),
        ]
    }

    fn md(&self) -> Vec<RescueCommand> {
        let read_only = !self.changes_labels;
        let (array, at) = (format!("/dev/md/{}", self.name), self.directory());
        let devices = self.contents.devices.unwrap_or(1);
        let only = if read_only { "--readonly " } else { "" };
        let mut open = vec![self.attach(read_only)];
        if devices > 1 {
            open.push(format!(
                "# attach the other {} devices in the same way, and name them after the first; `--run` starts the array \
                 without them if its level permits that",
                devices - 1
            ));
        }
        // udev assembles what it can of each new device, as an array of another name.
        open.push(format!(
            "udevadm settle; for held in /sys/class/block/${{{0}#/dev/}}/holders/md*; do [ ! -e $held ] || mdadm --stop /dev/${{held##*/}}; done",
            self.variable
        ));
        open.push(format!(
            "mdadm --assemble {only}--run {array} ${}; udevadm settle",
            self.variable
        ));
        open.extend(Self::mount_unknown(&array, &at, read_only));
        let undo = vec![
            format!("umount {at}"),
            format!("mdadm --stop {array}"),
            self.detach(),
        ];
        let purpose = match (read_only, self.read_only) {
            (true, false) => {
                "assemble it, read-only: otherwise its labels are changed, and the guest's other devices count as outdated \
                 (--allow-label-changes permits that)"
            }
            (true, true) => "assemble it",
            (false, _) => {
                "assemble it, which changes its labels: devices that are not named count as outdated"
            }
        };
        self.pair(purpose, open, undo)
    }

    fn zfs(&self) -> Vec<RescueCommand> {
        let name = guest_name(&self.contents.label);
        let purpose = match self.read_only || self.changes_labels {
            true => "list its file systems, and mount one, such as that of the pool itself",
            false => {
                "list its file systems, and mount one, such as that of the pool itself; read-only: a pool that is opened \
                 for writing has this host as its owner afterwards (--allow-label-changes permits that)"
            }
        };
        let mut all = self.zfs_mount(purpose, &name, true);
        let own_name = &self.contents.label;
        if self.changes_labels && own_name.parse::<PoolName>().is_ok() && !own_name.contains(' ') {
            let purpose =
                "or for writing, under its own name, after which its labels name this host";
            all.extend(self.zfs_mount(purpose, own_name, false));
        }
        all
    }

    /// Mounts the file system of the pool itself, with the pool opened as `name`.
    fn zfs_mount(&self, purpose: &str, name: &str, read_only: bool) -> Vec<RescueCommand> {
        let at = self.directory();
        let devices = format!("--device ${}", self.variable);
        let access = match read_only {
            true => "--read-only",
            false => "--allow-label-changes",
        };
        let mut open = vec![self.attach(read_only)];
        if self.contents.devices != Some(1) {
            open.push(
                "# attach the other devices of the pool in the same way, and add `--device DEVICE` for each".to_owned(),
            );
        }
        if read_only {
            open.push(format!(
                "bulkhead filesystem mount {name} --list {devices} --previous-owner-is-stopped"
            ));
        }
        open.extend([
            format!("mkdir -p {at}"),
            format!(
                "bulkhead filesystem mount {name} {at} {devices} {access} --previous-owner-is-stopped &"
            ),
            format!("until mountpoint -q {at} || ! kill -0 $! 2>/dev/null; do sleep 0.1; done"),
        ]);
        let undo = vec![format!("umount {at}"), self.detach()];
        self.pair(purpose, open, undo)
    }
}

/// The name under which a guest's pool is opened: never that of a pool of this host.
fn guest_name(pool: &str) -> String {
    let is_plain = |one: &char| one.is_ascii_alphanumeric() || matches!(one, '-' | '_');
    let plain: String = pool.chars().filter(is_plain).take(64).collect();
    format!("guest-{plain}").trim_end_matches('-').to_owned()
}
