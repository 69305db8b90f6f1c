//! The configuration and the key of this head.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use certificates::{Identity, Purpose};
use control::{Failure, FailureKind};
use legs_config::LegsFile;

const CERTIFICATE: &str = "cert.pem";
const KEY: &str = "key.pem";

/// The configuration, checked.
pub(crate) fn config(path: &Path) -> Result<(LegsFile, String), Failure> {
    let parsed = legs_config::text(path).and_then(|text| Ok((legs_config::parse(&text)?, text)));
    parsed.map_err(|error| {
        let failure = Failure::from_chain(FailureKind::Usage, &error);
        failure.advise(format!(
            "see to {}; its format is in docs/formats/legs-config.md",
            path.display()
        ))
    })
}

/// The key that the configuration names. It must match the fingerprint that the other members have.
pub(crate) fn of(file: &LegsFile) -> Result<Identity, Failure> {
    let identity = Identity::read(&file.certificate, &file.key).map_err(|error| {
        let failure = Failure::from_chain(FailureKind::Failed, &error);
        failure.advise("`bulkhead leg-server fingerprint` creates a key and prints its fingerprint")
    })?;
    let (own, listed) = (identity.fingerprint(), file.own().fingerprint);
    if own == listed {
        return Ok(identity);
    }
    let message = format!(
        "members.{}: the fingerprint is {listed}, and {} has {own}: the other members would refuse this head",
        file.me,
        file.certificate.display()
    );
    Err(Failure::usage(message)
        .advise("write the right one into the configuration of every member"))
}

pub(crate) fn unusable(error: impl std::error::Error + 'static) -> Failure {
    Failure::from_chain(FailureKind::Failed, &error)
}

/// The key in `folder`; creates a new one if there is none. The directory is created if missing.
pub(crate) fn load_or_make(folder: &Path) -> Result<Identity, Failure> {
    let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
    if !certificate.exists() && !key.exists() {
        let made =
            certificates::make(&["head.bulkhead".to_owned()], Purpose::Any).map_err(unusable)?;
        keep(
            folder,
            (&certificate, &made.certificate_pem()),
            (&key, &made.key_pem()),
        )
        .map_err(|error| {
            Failure::of(format!("make a key in {}", folder.display()))(error)
                .advise("run it as root, or choose a different --folder")
        })?;
    }
    Identity::read(&certificate, &key).map_err(unusable)
}

/// The key is written first: a process that finds the certificate finds both.
fn keep(folder: &Path, certificate: (&Path, &str), key: (&Path, &str)) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    write(key.0, key.1)?;
    write(certificate.0, certificate.1)?;
    File::open(folder)?.sync_all()
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_created_once_and_never_next_to_another() {
        let root = tempfile::tempdir().expect("folder");
        let folder = root.path().join("legs");
        let one = load_or_make(&folder).expect("made").fingerprint();
        let again = load_or_make(&folder).expect("kept").fingerprint();
        assert_eq!(one, again);
        std::fs::remove_file(folder.join(KEY)).expect("lost");
        assert!(
            load_or_make(&folder).is_err(),
            "the other members have the old one"
        );
    }
}
