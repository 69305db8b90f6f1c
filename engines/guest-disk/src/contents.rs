//! The description of the contents of a partition.

/// A format that is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A device of a ZFS pool.
    Zfs,
    /// A physical volume of LVM 2.
    Lvm,
    /// An encrypted volume of LUKS 1 or 2.
    Luks,
    /// An encrypted volume of Windows.
    BitLocker,
    /// A device of a Linux RAID array.
    Md,
    /// Btrfs.
    Btrfs,
    /// Without a journal.
    Ext2,
    /// With a journal.
    Ext3,
    /// With features of ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// NTFS.
    Ntfs,
    /// FAT of any width.
    Vfat,
    /// exFAT.
    Exfat,
    /// A CD image.
    Iso9660,
    /// Swap space.
    Swap,
}

impl Format {
    /// Its name in documents and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zfs => "ZFS",
            Self::Lvm => "LVM",
            Self::Luks => "LUKS",
            Self::BitLocker => "BitLocker",
            Self::Md => "md",
            Self::Btrfs => "btrfs",
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Ntfs => "ntfs",
            Self::Vfat => "vfat",
            Self::Exfat => "exfat",
            Self::Iso9660 => "iso9660",
            Self::Swap => "swap",
        }
    }
}

/// A fact that commands depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A file system that was not unmounted, or has changes in its journal.
    NotUnmounted,
    /// A suspended system has it in use.
    Hibernated,
    /// A LUKS volume in the middle of a reencryption, or with a damaged header: opening it writes.
    OpenWrites,
}

/// The contents of a partition or of a whole disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The format.
    pub format: Format,
    /// The label of a file system; the name of a pool, a volume group or an array. Empty if there is none.
    pub label: String,
    /// The UUID or serial number; of a pool or device of a pool or group, that of the pool or device. Empty if unknown.
    pub uuid: String,
    /// The number of devices that belong together, for formats that span devices.
    pub devices: Option<u32>,
    /// The visible logical volumes of the volume group.
    pub volumes: Vec<String>,
    /// Further facts for the reader, in a few words each.
    pub notes: Vec<String>,
    /// The facts that commands depend on.
    pub states: Vec<State>,
}

impl Contents {
    /// Contents of a format, with nothing known about them.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            label: String::new(),
            uuid: String::new(),
            devices: None,
            volumes: Vec::new(),
            notes: Vec::new(),
            states: Vec::new(),
        }
    }

    /// Whether it has that state.
    pub fn is(&self, state: State) -> bool {
        self.states.contains(&state)
    }

    /// Adds a note.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Adds a state, with the note that describes it.
    pub fn set(&mut self, state: State, text: &str) {
        self.states.push(state);
        self.note(text);
    }
}
