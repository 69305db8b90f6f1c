//! The slot of a disk in its enclosure, and the locate light of the slot, from the kernel's SES driver (`ses`). An NVMe
//! disk has the slot of its PCI device; the kernel has no light for it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::printable;

/// The link from a disk to its slot: this, and the name of the slot.
const LINK_PREFIX: &str = "enclosure_device:";

/// The enclosure of a slot for a PCI device.
pub const PCI: &str = "pci";

/// A slot of an enclosure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Identifies the enclosure: its logical identifier, or [`PCI`].
    pub enclosure: String,
    /// The name of the slot in it.
    pub name: String,
    /// The file that switches the light, if there is one.
    light: Option<PathBuf>,
}

impl Slot {
    /// Whether it has a locate light.
    pub const fn has_light(&self) -> bool {
        self.light.is_some()
    }

    /// Switches the locate light.
    ///
    /// # Errors
    ///
    /// The slot has none, or the enclosure refuses.
    pub fn locate(&self, is_on: bool) -> std::io::Result<()> {
        let light = self.light.as_ref().ok_or(std::io::ErrorKind::Unsupported)?;
        fs::write(light, if is_on { "1" } else { "0" })
    }
}

/// The slot of the disk with this folder in `/sys/block`. `pci_slots` is `/sys/bus/pci/slots`.
pub fn of(disk: &Path, pci_slots: &Path) -> Option<Slot> {
    let device = fs::canonicalize(disk.join("device")).ok()?;
    in_enclosure(&device).or_else(|| in_pci_slot(&device, pci_slots))
}

fn in_enclosure(device: &Path) -> Option<Slot> {
    let entries = fs::read_dir(device).ok()?.flatten();
    let link = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(LINK_PREFIX))
        .map(|entry| entry.path())
        .next()?;
    let slot = fs::canonicalize(link).ok()?;
    let enclosure = slot.parent()?;
    let id = text(&enclosure.join("id")).or_else(|| name_of(enclosure))?;
    let light = Some(slot.join("locate")).filter(|light| light.exists());
    let number = text(&slot.join("slot"));
    let name = name_of(&slot)?;
    let name = match number {
        Some(number) if !name.ends_with(&number) => format!("{name} ({number})"),
        _ => name,
    };
    Some(Slot {
        enclosure: id,
        name,
        light,
    })
}

/// The PCI device of an NVMe disk, or one above it, has the address of the slot.
fn in_pci_slot(device: &Path, pci_slots: &Path) -> Option<Slot> {
    let slots = fs::read_dir(pci_slots).ok()?.flatten();
    let slots = slots.filter_map(|entry| {
        let address = text(&entry.path().join("address"))?;
        Some((name_of(&entry.path())?, address))
    });
    let is_at = |address: &str| {
        device.ancestors().filter_map(Path::file_name).any(|part| {
            // An address of a slot has no function.
            let part = part.to_string_lossy();
            let rest = part.strip_prefix(address);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let (name, _) = slots.into_iter().find(|(_, address)| is_at(address))?;
    Some(Slot {
        enclosure: PCI.to_owned(),
        name,
        light: None,
    })
}

fn name_of(path: &Path) -> Option<String> {
    Some(printable(&path.file_name()?.to_string_lossy())).filter(|name| !name.is_empty())
}

fn text(path: &Path) -> Option<String> {
    let text = printable(&fs::read_to_string(path).ok()?);
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder like `/sys` with a disk in slot 7 of an enclosure, and an NVMe disk in a PCI slot.
    fn sys() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        let at = |path: &str| root.path().join(path);
        for folder in [
            "class/enclosure/6:0:8:0/Slot07",
            "devices/6:0:1:0",
            "block/sda",
            "devices/0000:3b:00.0/nvme/nvme0",
            "block/nvme0n1",
            "slots/12",
            "slots/13",
            "devices/virtual",
            "block/vda",
        ] {
            fs::create_dir_all(at(folder)).expect("a folder");
        }
        for (file, text) in [
            ("class/enclosure/6:0:8:0/id", "0x500093d001be0000\n"),
            ("class/enclosure/6:0:8:0/Slot07/slot", "7\n"),
            ("class/enclosure/6:0:8:0/Slot07/locate", "0\n"),
            ("slots/12/address", "0000:3b:00\n"),
            ("slots/13/address", "0000:3b:0\n"),
        ] {
            fs::write(at(file), text).expect("a file");
        }
        for (link, to) in [
            ("block/sda/device", "devices/6:0:1:0"),
            (
                "devices/6:0:1:0/enclosure_device:Slot07",
                "class/enclosure/6:0:8:0/Slot07",
            ),
            ("block/nvme0n1/device", "devices/0000:3b:00.0/nvme/nvme0"),
            ("block/vda/device", "devices/virtual"),
        ] {
            symlink(at(to), at(link)).expect("a link");
        }
        root
    }

    #[test]
    fn disk_in_an_enclosure_has_a_slot_with_a_light() {
        let root = sys();
        let slot = of(&root.path().join("block/sda"), &root.path().join("slots")).expect("a slot");
        assert_eq!(
            (slot.enclosure.as_str(), slot.name.as_str()),
            ("0x500093d001be0000", "Slot07")
        );
        assert!(slot.has_light());
        slot.locate(true).expect("the light is on");
        let light = root.path().join("class/enclosure/6:0:8:0/Slot07/locate");
        assert_eq!(fs::read_to_string(light).expect("a file"), "1");
    }

    #[test]
    fn nvme_disk_has_the_slot_of_its_pci_device() {
        let root = sys();
        let slot = of(
            &root.path().join("block/nvme0n1"),
            &root.path().join("slots"),
        );
        let slot = slot.expect("a slot");
        assert_eq!((slot.enclosure.as_str(), slot.name.as_str()), ("pci", "12"));
        assert!(!slot.has_light());
        assert!(slot.locate(true).is_err());
    }

    #[test]
    fn virtual_disk_has_no_slot() {
        let root = sys();
        assert_eq!(
            of(&root.path().join("block/vda"), &root.path().join("slots")),
            None
        );
        assert_eq!(
            of(&root.path().join("block/none"), &root.path().join("none")),
            None
        );
    }
}
