//! Keys of a lab's heads and witness, where disks belong to heads. The fingerprints in the file are those of other machines, so
//! the lab's file has those of its own keys in their places.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use appliance::Appliance;
use appliance::render::{LEGS_CERTIFICATE_PATH, LEGS_KEY_PATH};
use certificates::{Fingerprint, Generated, Identity, Purpose};
use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// Name of the witness node.
pub const WITNESS: &str = "witness";
/// Where a witness has its key.
const WITNESS_DIRECTORY: &str = "/var/lib/bulkhead-witness/identity";

/// Keys that a lab created for its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Keys {
    /// By node.
    machines: BTreeMap<String, Key>,
    /// Fingerprints in the file, with the actual ones of the lab.
    fingerprints: BTreeMap<String, String>,
}

/// A certificate and its key, DER.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Keys {
    /// One for each node with a fingerprint.
    pub fn make(appliance: &Appliance) -> Result<Self, LabError> {
        let heads = appliance.heads.iter();
        let heads =
            heads.filter_map(|(name, head)| Some((name.as_str(), head.fingerprint.as_ref()?)));
        let witness = appliance.witness.iter();
        let witness = witness.map(|witness| (WITNESS, &witness.fingerprint));
        let mut keys = Self::default();
        for (name, told) in heads.chain(witness) {
            let made = certificates::make(&[name.to_owned()], Purpose::Any)
                .map_err(|error| LabError::Supervisor(format!("make a key for {name}: {error}")))?;
            let own = fingerprint(&made);
            keys.fingerprints.insert(told.clone(), own.to_string());
            let Generated { certificate, key } = made;
            keys.machines
                .insert(name.to_owned(), Key { certificate, key });
        }
        Ok(keys)
    }

    /// An appliance file with the fingerprints of the lab's own machines.
    pub fn own_text(&self, text: &str) -> String {
        let fingerprints = self.fingerprints.iter();
        fingerprints.fold(text.to_owned(), |text, (told, own)| text.replace(told, own))
    }

    /// Stores the key of a node at the path of its service, below `root`.
    pub fn put(&self, name: &str, root: &Path) -> io::Result<()> {
        let Some(Key { certificate, key }) = self.machines.get(name).cloned() else {
            return Ok(());
        };
        let place = |path: &str| root.join(path.trim_start_matches('/'));
        if name == WITNESS {
            let folder = place(WITNESS_DIRECTORY);
            write(&folder.join("certificate.der"), &certificate)?;
            return write(&folder.join("key.der"), &key);
        }
        let made = Generated { certificate, key };
        write(
            &place(LEGS_CERTIFICATE_PATH),
            made.certificate_pem().as_bytes(),
        )?;
        write(&place(LEGS_KEY_PATH), made.key_pem().as_bytes())
    }
}

fn fingerprint(made: &Generated) -> Fingerprint {
    Identity::new(made.certificate.clone(), made.key.clone()).fingerprint()
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let mut file = std::fs::File::options();
    let mut file = file
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    io::Write::write_all(&mut file, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEGS: &str = include_str!("../../examples/legs-two-heads-witness.toml");

    #[test]
    fn lab_file_has_fingerprints_of_its_own_keys() {
        let appliance = |text: &str| appliance::parse(text).expect("well formed").appliance;
        let keys = Keys::make(&appliance(LEGS)).expect("made");
        let own = appliance(&keys.own_text(LEGS));
        let folder = tempfile::tempdir().expect("a folder");
        for (name, head) in &own.heads {
            let key = &keys.machines[name.as_str()];
            let identity = Identity::new(key.certificate.clone(), key.key.clone());
            assert_eq!(head.fingerprint, Some(identity.fingerprint().to_string()));
            keys.put(name.as_str(), folder.path()).expect("written");
            let path = folder.path().join("etc/bulkhead/legs/key.pem");
            let text = std::fs::read_to_string(&path).expect("readable");
            assert!(text.starts_with("-----BEGIN PRIVATE KEY-----"), "{text}");
        }
        assert_ne!(own.witness, appliance(LEGS).witness);
        keys.put(WITNESS, folder.path()).expect("written");
        assert!(
            folder
                .path()
                .join("var/lib/bulkhead-witness/identity/key.der")
                .exists()
        );
        // The next text is handled in the same way.
        assert_eq!(keys.own_text(&keys.own_text(LEGS)), keys.own_text(LEGS));
        assert_eq!(keys.own_text("name = \"pair\"\n"), "name = \"pair\"\n");
    }
}
