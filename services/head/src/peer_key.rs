//! The key by which heads authenticate each other. Pool servers cannot read it, so a compromised one cannot impersonate
//! a head.
//!
//! `appliance apply` writes it once the binary of every head reads it. Until then heads use Corosync's key, as older
//! releases do.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use appliance::plan::is_peer_key;
use pool_access::common::Common;

/// Its paths.
#[derive(Clone, Debug)]
pub struct PeerKey {
    own: PathBuf,
    cluster: PathBuf,
}

impl PeerKey {
    /// In the file `own`, or in that of the cluster's key if there is no such file.
    pub fn new(own: &Path, common: &Common) -> Self {
        Self {
            own: own.to_owned(),
            cluster: common.settings.cluster_key.clone(),
        }
    }

    /// Returns the key. `None` if there is none, or if its file is unusable: Corosync's key is no fallback then,
    /// because more processes can read it.
    pub fn read(&self) -> Option<Vec<u8>> {
        let path = self.own.display();
        match std::fs::read(&self.own) {
            Ok(key) if is_peer_key(key.len()) => Some(key),
            Ok(key) => {
                tracing::warn!(
                    bytes = key.len(),
                    %path,
                    "the key of the heads has a wrong length, so no other head is reached: `bulkhead appliance apply` writes it again"
                );
                None
            }
            Err(error) if error.kind() == ErrorKind::NotFound => std::fs::read(&self.cluster).ok(),
            Err(error) => {
                tracing::warn!(%error, %path, "the key of the heads cannot be read, so no other head is reached");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_key_replaces_missing_but_not_truncated_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = PeerKey {
            own: folder.path().join("peer-key"),
            cluster: folder.path().join("authkey"),
        };
        assert_eq!(key.read(), None);
        std::fs::write(&key.cluster, [1; 128]).expect("written");
        assert_eq!(key.read(), Some(vec![1; 128]));
        for bytes in [0, 31, 4097] {
            std::fs::write(&key.own, vec![2; bytes]).expect("written");
            assert_eq!(key.read(), None, "{bytes} bytes");
        }
        std::fs::write(&key.own, [2; 32]).expect("written");
        assert_eq!(key.read(), Some(vec![2; 32]));
    }
}
