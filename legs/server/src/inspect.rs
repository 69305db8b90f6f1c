//! `bulkhead leg-server inspect`: reports the contents of disks before a configuration names them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use control::Failure;
use labels::{Label, LabelState};
use rendering::Printer;
use rustix::fs::{OFlags, SeekFrom, seek};
use serde::Serialize;

/// A disk.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Seen {
    path: PathBuf,
    /// The resolved path: two names of one disk have the same one.
    place: PathBuf,
    bytes: u64,
    /// Description; empty if the contents are not recognised.
    carries: String,
    /// The pool of its label.
    pool: Option<String>,
    /// ZFS's number of the device in the label.
    device: Option<u64>,
    /// ZFS's number of the pool, and the transaction group of the label.
    pool_guid: Option<u64>,
    txg: Option<u64>,
    /// The number of the record of its legs in the label; none for a destroyed pool.
    record: Option<u64>,
    /// Smallest size in bytes of a mirror disk or a replacement.
    least_bytes: Option<u64>,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let carries = match self.carries.as_str() {
            "" => "nothing that is known",
            carries => carries,
        };
        let path = self.path.display();
        writeln!(f, "{path}: {} bytes, carries {carries}", self.bytes)
    }
}

pub(crate) fn run(disks: &[PathBuf], out: Printer) -> Result<(), Failure> {
    // A missing disk is skipped.
    let seen: Vec<Seen> = disks
        .iter()
        .filter_map(|disk| inspect_disk(disk).ok())
        .collect();
    out.either(&seen, || seen.iter().map(ToString::to_string).collect())
}

fn inspect_disk(path: &Path) -> io::Result<Seen> {
    let bytes = seek(labels::open_disk(path, OFlags::RDONLY)?, SeekFrom::End(0))?;
    let label = Label::read_unless_wiped(path)?;
    Ok(Seen {
        path: path.to_owned(),
        place: std::fs::canonicalize(path)?,
        bytes,
        carries: lender::contents(path),
        pool: label.as_ref().map(|label| label.pool_name.clone()),
        device: label.as_ref().map(|label| label.guid),
        pool_guid: label.as_ref().map(|label| label.pool_guid),
        txg: label.as_ref().map(|label| label.txg),
        record: label
            .filter(|label| label.state != LabelState::Destroyed)
            .and_then(|label| label.record),
        least_bytes: labels::replacement_bytes_min(path)?,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn aliases_of_disk_are_merged_and_missing_disk_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let (disk, other) = (folder.path().join("disk"), folder.path().join("other"));
        File::create(&disk)
            .and_then(|file| file.set_len(64 << 20))
            .expect("made");
        std::os::unix::fs::symlink(&disk, &other).expect("made");
        let (one, two) = (
            inspect_disk(&disk).expect("seen"),
            inspect_disk(&other).expect("seen"),
        );
        assert_eq!(one.place, two.place);
        assert_ne!(one.path, two.path);
        assert_eq!((one.bytes, one.carries.as_str()), (64 << 20, ""));
        assert!(inspect_disk(&folder.path().join("none")).is_err());
        // Data of another system.
        let gpt = [b"EFI PART".as_slice(), &[0; 504]].concat();
        std::os::unix::fs::FileExt::write_all_at(
            &File::options().write(true).open(&disk).expect("open"),
            &gpt,
            512,
        )
        .expect("written");
        assert!(!inspect_disk(&disk).expect("seen").carries.is_empty());
    }
}
