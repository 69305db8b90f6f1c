//! The key of this witness. It is in the same directory as the records: losing the directory loses the key, and heads
//! do not accept a witness without its records.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::Context;
use certificates::{Identity, Purpose};

const PATHS: &str = "identity";
const CERTIFICATE: &str = "certificate.der";
const KEY: &str = "key.der";

/// The key in `folder`; creates a new one if there is none. The directory is created if missing.
pub fn load_or_make(folder: &Path) -> anyhow::Result<Identity> {
    let place = folder.join(PATHS);
    if !place.exists() {
        make(folder, &place).with_context(|| format!("make a key in {}", place.display()))?;
    }
    let read = |name: &str| {
        let path = place.join(name);
        std::fs::read(&path).with_context(|| format!("read {}", path.display()))
    };
    Ok(Identity::new(read(CERTIFICATE)?, read(KEY)?))
}

/// Atomic: creates all of it or no file.
fn make(folder: &Path, place: &Path) -> anyhow::Result<()> {
    let made = certificates::make(&["witness.bulkhead".to_owned()], Purpose::Any)?;
    private_directory().recursive(true).create(folder)?;
    let new = folder.join(format!("{PATHS}.new"));
    match std::fs::remove_dir_all(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    private_directory().create(&new)?;
    write(&new.join(CERTIFICATE), &made.certificate)?;
    write(&new.join(KEY), &made.key)?;
    File::open(&new)?.sync_all()?;
    std::fs::rename(&new, place)?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

fn private_directory() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_created_once_and_partial_key_is_recreated() {
        let root = tempfile::tempdir().expect("folder");
        let folder = root.path().join("witness");
        let left = folder.join("identity.new");
        std::fs::create_dir_all(&left).expect("as if killed");
        std::fs::write(left.join(CERTIFICATE), b"half").expect("as if killed");
        let one = load_or_make(&folder).expect("made").fingerprint();
        let again = load_or_make(&folder).expect("kept").fingerprint();
        assert_eq!(one, again);
        std::fs::remove_file(folder.join(PATHS).join(KEY)).expect("lost");
        assert!(
            load_or_make(&folder).is_err(),
            "no key is made over another"
        );
    }
}
