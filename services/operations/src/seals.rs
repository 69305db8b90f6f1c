//! Seals the secrets that a pool stores, so that a reader of its devices, history or properties
//! cannot use them. The key is shared by the heads, or belongs to this host.
//!
//! The bytes are written down in `docs/formats/exports.md`.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use appliance::plan::{AUTHKEY_BYTES_MAX, is_authkey};
use control::{Failure, FailureKind};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

/// The version of the format of sealed texts, their first field.
const FORM: &str = "1";
/// HKDF label of the sealing key.
const LABEL: &[u8] = b"bulkhead secrets 1";
/// HKDF label of a key's identifier.
const ID_LABEL: &[u8] = b"bulkhead secrets key id 1";
/// Bytes of a key's name.
const ID_BYTES: usize = 4;
/// Bytes of a key that this host generates.
const OWN_KEY_BYTES: usize = 32;
/// Maximum number of keys that are tried in addition to the cluster's.
const OTHER_KEYS_MAX: usize = 64;
/// The directory of keys in the state directory.
const KEYS_DIR: &str = "seal-keys";
/// The key in it that this host generated.
const OWN_KEY: &str = "own";
/// The same before it is complete.
const NEW_KEY: &str = ".new";

/// The contents of a key file.
type KeyBytes = Zeroizing<Vec<u8>>;

/// Bytes of a key that seals.
const SEALING_KEY_BYTES: usize = 32;

/// The key source of this host, for the secrets of one pool.
#[derive(Clone, Debug)]
pub struct Seals {
    source: Source,
    guid: OnceLock<u64>,
}

#[derive(Clone, Debug)]
enum Source {
    Files(KeyFiles),
    Keeper(Arc<dyn Keeper>),
}

/// Detects changes of the available keys: the modification times of the cluster's key and of the directory of other
/// keys.
pub type Stamp = [Option<SystemTime>; 2];

/// Reads the files of keys for a process that must not, and derives those of its pool.
pub trait Keeper: std::fmt::Debug + Send + Sync {
    /// As [`KeyFiles::derive`].
    ///
    /// # Errors
    ///
    /// A file cannot be read, or the keeper does not reply.
    fn derive(&self, guid: u64, to_seal: bool) -> Result<PoolKeys, Failure>;

    /// As [`KeyFiles::stamp`]; the last one if the keeper does not reply.
    fn stamp(&self) -> Stamp;
}

/// The files of a machine's keys.
#[derive(Clone, Debug)]
pub struct KeyFiles {
    cluster_key: PathBuf,
    folder: PathBuf,
}

/// Keys for one pool's secrets, derived from the key files. They seal and open secrets of that pool only, and do not
/// reveal the keys in the files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PoolKeys {
    /// The first one seals.
    keys: Vec<PoolKey>,
    can_seal: bool,
    /// The first key file with a wrong length.
    cut: Option<WrongLength>,
}

/// One of them.
#[derive(Clone, Serialize, Deserialize)]
struct PoolKey {
    id: String,
    sealing: [u8; SEALING_KEY_BYTES],
}

impl Drop for PoolKey {
    fn drop(&mut self) {
        self.sealing.zeroize();
    }
}

impl std::fmt::Debug for PoolKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolKey").field("id", &self.id).finish()
    }
}

/// The reason why a sealed text cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Sealed with a key that is not here.
    #[error("it is sealed with key {0}, which this host does not have")]
    KeyMissing(String),
    /// Sealed with a key that is not here, where a file that should be a key is none.
    #[error("it is sealed with key {0}, which this host does not have; {1}")]
    KeyCut(String, WrongLength),
    /// Modified since it was sealed, or sealed with a different key.
    #[error("it was changed since it was sealed, or belongs to another property or user")]
    Broken,
    /// Not the text of a seal.
    #[error("it is sealed in a format that this version does not support")]
    Unknown,
}

/// A key file with a wrong length, most likely a truncated copy. It is never used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("the key file {} has {bytes} bytes, and a key has {wanted}", path.display())]
pub struct WrongLength {
    path: PathBuf,
    bytes: u64,
    wanted: String,
}

/// The owner of a key file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeyOwner {
    Cluster,
    Own,
    /// Of another host, or a former key of the cluster.
    Others,
}

impl KeyOwner {
    const fn is_key(self, bytes: usize) -> bool {
        match self {
            Self::Cluster => is_authkey(bytes),
            Self::Own => bytes == OWN_KEY_BYTES,
            Self::Others => bytes == OWN_KEY_BYTES || is_authkey(bytes),
        }
    }

    const fn wanted(self) -> &'static str {
        match self {
            Self::Cluster => "128 to 4096",
            Self::Own => "32",
            Self::Others => "32, or 128 to 4096",
        }
    }
}

impl Seals {
    /// The keys of a host: the file of its cluster's key, and its state directory.
    pub fn new(cluster_key: &Path, state_dir: &Path) -> Self {
        Self {
            source: Source::Files(KeyFiles::new(cluster_key, state_dir)),
            guid: OnceLock::new(),
        }
    }

    /// The same, read by another process.
    pub fn kept_by(keeper: Arc<dyn Keeper>) -> Self {
        Self {
            source: Source::Keeper(keeper),
            guid: OnceLock::new(),
        }
    }

    /// The directory that is searched for keys of other hosts.
    #[cfg(test)]
    pub fn folder(&self) -> &Path {
        match &self.source {
            Source::Files(files) => &files.folder,
            Source::Keeper(_) => unreachable!("tests read files"),
        }
    }

    /// Returns a value that changes with the available keys.
    pub fn stamp(&self) -> Stamp {
        match &self.source {
            Source::Files(files) => files.stamp(),
            Source::Keeper(keeper) => keeper.stamp(),
        }
    }

    /// The keys that are here now, for the pool with the GUID that `guid` finds out.
    pub fn ring(&self, guid: impl FnOnce() -> Result<u64, Failure>) -> Result<Ring, Failure> {
        self.ring_for(guid, false)
    }

    /// As [`Self::ring`], with a key to seal with, which is made if there is none.
    pub fn ring_to_seal(
        &self,
        guid: impl FnOnce() -> Result<u64, Failure>,
    ) -> Result<Ring, Failure> {
        self.ring_for(guid, true)
    }

    fn ring_for(
        &self,
        guid: impl FnOnce() -> Result<u64, Failure>,
        to_seal: bool,
    ) -> Result<Ring, Failure> {
        let guid = match self.guid.get() {
            Some(known) => *known,
            None => {
                let found = guid()?;
                *self.guid.get_or_init(|| found)
            }
        };
        let keys = match &self.source {
            Source::Files(files) => files.derive(guid, to_seal)?,
            Source::Keeper(keeper) => keeper.derive(guid, to_seal)?,
        };
        Ok(Ring::of(&keys))
    }
}

impl KeyFiles {
    /// The file of the cluster's key, and the state directory.
    pub fn new(cluster_key: &Path, state_dir: &Path) -> Self {
        Self {
            cluster_key: cluster_key.to_owned(),
            folder: state_dir.join(KEYS_DIR),
        }
    }

    /// The directory of keys in the state directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a value that changes with the available keys.
    pub fn stamp(&self) -> Stamp {
        let changed = |path: &Path| {
            std::fs::metadata(path)
                .and_then(|facts| facts.modified())
                .ok()
        };
        [&self.cluster_key, &self.folder].map(|path| changed(path))
    }

    /// The keys of the pool with this GUID that follow from the files; with one to seal with, which is made if there is none, if
    /// `to_seal`.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or the key not be made.
    pub fn derive(&self, guid: u64, to_seal: bool) -> Result<PoolKeys, Failure> {
        if to_seal && !self.cluster_key.exists() {
            make_own_key(&self.folder).map_err(|error| {
                let message = format!("make a key in {}: {error}", self.folder.display());
                Failure::new(FailureKind::Failed, message)
                    .advise("secrets are sealed with it: make room there, or run it as root")
            })?;
        }
        let mut keys = PoolKeys::default();
        let cluster = keys.take(&self.cluster_key, KeyOwner::Cluster, guid)?;
        let own = self.folder.join(OWN_KEY);
        let own = keys.take(&own, KeyOwner::Own, guid)?;
        // The machine's own seals where there is no cluster.
        keys.can_seal = cluster || (own && keys.cut.is_none());
        for path in self.others() {
            keys.take(&path, KeyOwner::Others, guid)?;
        }
        Ok(keys)
    }

    /// Returns the key files in the directory, except the one that this host generated.
    fn others(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(&self.folder) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| !name.starts_with('.') && name != OWN_KEY)
            .collect();
        // Former keys of the cluster, the latest first: their names contain the time.
        names.sort_by(|one, other| other.cmp(one));
        if names.len() > OTHER_KEYS_MAX {
            tracing::warn!(
                keys = names.len(), tried = OTHER_KEYS_MAX, folder = %self.folder.display(),
                "too many keys of secrets: remove old ones, which nothing is sealed with any more"
            );
            names.truncate(OTHER_KEYS_MAX);
        }
        names.iter().map(|name| self.folder.join(name)).collect()
    }
}

/// The result of reading a key file.
enum Found {
    Nothing,
    Key(KeyBytes),
    Cut(WrongLength),
}

/// Reads a key file.
fn read_key(path: &Path, owner: KeyOwner) -> Result<Found, Failure> {
    use std::io::Read as _;
    let failed = |error: std::io::Error| {
        let message = format!("read the key {}: {error}", path.display());
        Failure::new(FailureKind::Denied, message)
            .advise("secrets in the pool are sealed with it: run it as root")
    };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            tracing::warn!(%error, path = %path.display(), "no permission to read a key of secrets");
            return Ok(Found::Nothing);
        }
        Err(error) => return Err(failed(error)),
    };
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() {
        return Ok(Found::Nothing);
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(AUTHKEY_BYTES_MAX + 1));
    let mut bounded = file.take(AUTHKEY_BYTES_MAX as u64 + 1);
    bounded.read_to_end(&mut bytes).map_err(failed)?;
    if owner.is_key(bytes.len()) {
        return Ok(Found::Key(bytes));
    }
    let cut = WrongLength {
        path: path.to_owned(),
        bytes: facts.len(),
        wanted: owner.wanted().to_owned(),
    };
    tracing::warn!("{cut}: it is not used; copy it again from where it is whole, or remove it");
    Ok(Found::Cut(cut))
}

/// Generates the key of this host, readable by its owner only, if there is none. Afterwards a key is on stable storage,
/// regardless of which process created it.
fn make_own_key(folder: &Path) -> std::io::Result<()> {
    let state = folder.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let held = std::fs::File::open(folder)?;
    // A concurrent creator holds the lock only while it writes a few bytes.
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive)?;
    remove_incomplete(folder)?;
    let path = folder.join(OWN_KEY);
    if !path.try_exists()? {
        let mut bytes = Zeroizing::new([0; OWN_KEY_BYTES]);
        getrandom::fill(&mut *bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
        // Complete before it has its name: a crash in between would leave half a key for ever.
        let new = folder.join(NEW_KEY);
        let mut file = std::fs::File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(&*bytes)?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
    }
    held.sync_all()?;
    std::fs::File::open(state)?.sync_all()
}

/// Removes files of killed creators. No other process creates a key while the directory is locked.
fn remove_incomplete(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(NEW_KEY) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Keys of one pool's secrets; the first one seals.
pub struct Ring {
    keys: Vec<Key>,
    can_seal: bool,
    /// The first key file with a wrong length.
    cut: Option<WrongLength>,
}

struct Key {
    id: String,
    sealing: LessSafeKey,
}

struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

impl PoolKey {
    fn of(bytes: &[u8], guid: u64) -> Self {
        let secret = Salt::new(HKDF_SHA256, &guid.to_be_bytes()).extract(bytes);
        let fill = |label: &[u8], bytes: &mut [u8]| {
            secret
                .expand(&[label], Bytes(bytes.len()))
                .and_then(|expanded| expanded.fill(bytes))
                .expect("shorter than HKDF's bound");
        };
        let mut id = [0; ID_BYTES];
        fill(ID_LABEL, &mut id);
        let mut key = Self {
            id: units::hex::encode(&id),
            sealing: [0; SEALING_KEY_BYTES],
        };
        fill(LABEL, &mut key.sealing);
        key
    }
}

impl Key {
    fn of(key: &PoolKey) -> Self {
        let sealing = UnboundKey::new(&CHACHA20_POLY1305, &key.sealing);
        Self {
            id: key.id.clone(),
            sealing: LessSafeKey::new(sealing.expect("as long as the cipher's keys")),
        }
    }
}

impl PoolKeys {
    /// Adds the key of a file. Returns whether there is one.
    fn take(&mut self, path: &Path, owner: KeyOwner, guid: u64) -> Result<bool, Failure> {
        match read_key(path, owner)? {
            Found::Nothing => return Ok(false),
            Found::Cut(cut) => {
                self.cut.get_or_insert(cut);
                return Ok(false);
            }
            Found::Key(bytes) => self.keys.push(PoolKey::of(&bytes, guid)),
        }
        Ok(true)
    }
}

impl Ring {
    /// Without a key.
    pub fn none() -> Self {
        Self {
            keys: Vec::new(),
            can_seal: false,
            cut: None,
        }
    }

    fn of(keys: &PoolKeys) -> Self {
        Self {
            keys: keys.keys.iter().map(Key::of).collect(),
            can_seal: keys.can_seal,
            cut: keys.cut.clone(),
        }
    }

    /// Seals `secret` for one property and user only.
    pub fn seal(&self, place: &str, secret: &[u8]) -> Result<String, Failure> {
        let failed = |why: &str| {
            Failure::new(FailureKind::Failed, format!("seal a secret: {why}"))
                .advise("run it as root, and see that --cluster-key names a key or no file")
        };
        let key = self.keys.first().filter(|_| self.can_seal);
        let key = key.ok_or_else(|| match &self.cut {
            None => failed("this host has no key for it"),
            Some(cut) => failed(&cut.to_string()).advise(
                "copy it again from a host that has the complete file; on a head of an appliance `bulkhead appliance apply` \
                 does so",
            ),
        })?;
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|error| failed(&error.to_string()))?;
        let mut sealed = secret.to_vec();
        let nonce_again = Nonce::assume_unique_for_key(nonce);
        let place = Aad::from(place.as_bytes());
        key.sealing
            .seal_in_place_append_tag(nonce_again, place, &mut sealed)
            .map_err(|_| failed("it is too long"))?;
        let (nonce, sealed) = (units::hex::encode(&nonce), units::hex::encode(&sealed));
        Ok(format!("{FORM}:{}:{nonce}{sealed}", key.id))
    }

    /// Opens a text that was sealed for `place`.
    pub fn open(&self, place: &str, sealed: &str) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (id, bytes) = parts(sealed)?;
        let bytes = units::hex::decode(bytes).ok_or(SealError::Unknown)?;
        let (nonce, text) = bytes
            .split_at_checked(NONCE_LEN)
            .ok_or(SealError::Unknown)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Unknown)?;
        let mut text = Zeroizing::new(text.to_vec());
        let key = self.keys.iter().find(|key| key.id == id);
        let key = key.ok_or_else(|| match self.cut.clone() {
            None => SealError::KeyMissing(id.to_owned()),
            Some(cut) => SealError::KeyCut(id.to_owned(), cut),
        })?;
        let place = Aad::from(place.as_bytes());
        let opened = key.sealing.open_in_place(nonce, place, &mut text);
        let length = opened.map_err(|_| SealError::Broken)?.len();
        text.truncate(length);
        Ok(text)
    }

    /// Whether it is sealed with the key that seals now.
    pub fn is_current(&self, sealed: &str) -> bool {
        let current = self.keys.first().filter(|_| self.can_seal);
        let id = parts(sealed).map(|(id, _)| id);
        current.is_some_and(|key| id == Ok(key.id.as_str()))
    }
}

/// Returns the identifier of the key, and the sealed bytes.
fn parts(sealed: &str) -> Result<(&str, &str), SealError> {
    let form = sealed
        .strip_prefix(FORM)
        .and_then(|rest| rest.strip_prefix(':'));
    form.and_then(|rest| rest.split_once(':'))
        .ok_or(SealError::Unknown)
}

#[cfg(test)]
pub mod fake {
    //! A key for tests.

    use super::{Key, PoolKey, Ring};

    /// A ring with one key.
    pub fn ring() -> Ring {
        Ring {
            keys: vec![Key::of(&PoolKey::of(&[7; 32], 1))],
            can_seal: true,
            cut: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BINDING: &str = "bulkhead:target:iqn.2026-01.org.example:a chap ann";

    /// A host with its own state directory.
    struct TestHost(tempfile::TempDir);

    impl TestHost {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a folder"))
        }

        fn cluster_key(&self) -> PathBuf {
            self.0.path().join("authkey")
        }

        fn seals(&self) -> Seals {
            Seals::new(&self.cluster_key(), &self.0.path().join("state"))
        }

        fn key_files(&self) -> Vec<String> {
            let entries = std::fs::read_dir(self.seals().folder()).expect("a folder");
            let names = entries.map(|entry| entry.expect("read").file_name());
            let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
            names.sort();
            names
        }

        fn ring(&self, guid: u64) -> Ring {
            self.seals().ring_to_seal(|| Ok(guid)).expect("keys")
        }
    }

    #[test]
    fn sealed_secret_opens_only_in_its_slot_pool_and_key() {
        let machine = TestHost::new();
        let ring = machine.ring(1);
        let sealed = ring.seal(BINDING, b"correct horse").expect("sealed");
        assert!(!sealed.contains(&units::hex::encode(b"correct horse")));
        let again = machine.ring(1);
        assert_eq!(
            &**again.open(BINDING, &sealed).expect("opened"),
            b"correct horse"
        );
        assert_eq!(again.open("elsewhere", &sealed), Err(SealError::Broken));
        let mut other = sealed.clone();
        other.pop();
        other.push(if sealed.ends_with('0') { '1' } else { '0' });
        assert_eq!(again.open(BINDING, &other), Err(SealError::Broken));
        let missing =
            |ring: Ring| matches!(ring.open(BINDING, &sealed), Err(SealError::KeyMissing(_)));
        assert!(missing(machine.ring(2)), "another pool");
        assert!(missing(TestHost::new().ring(1)), "another machine");
        for bad in ["", "1", "2:00:00", "1:00c0ffee:zz", "1:00c0ffee:00"] {
            assert!(again.open(BINDING, bad).is_err(), "{bad}");
        }
        assert_ne!(
            ring.seal(BINDING, b"correct horse").expect("sealed"),
            sealed
        );
    }

    #[test]
    fn cluster_key_seals_and_older_keys_still_open() {
        let machine = TestHost::new();
        let alone = machine
            .ring(1)
            .seal(BINDING, b"set before")
            .expect("sealed");
        std::fs::write(machine.cluster_key(), [1; 128]).expect("a key");
        let ring = machine.ring(1);
        assert!(!ring.is_current(&alone));
        assert_eq!(
            &**ring.open(BINDING, &alone).expect("opened"),
            b"set before"
        );
        let first = ring.seal(BINDING, b"set after").expect("sealed");
        assert!(ring.is_current(&first));
        // The key of the cluster is replaced, and the old one is retained.
        let kept = machine.seals().folder().join("authkey-1");
        std::fs::rename(machine.cluster_key(), &kept).expect("kept");
        std::fs::write(machine.cluster_key(), [2; 128]).expect("a key");
        let ring = machine.ring(1);
        assert!(!ring.is_current(&first));
        assert_eq!(&**ring.open(BINDING, &first).expect("opened"), b"set after");
        std::fs::remove_file(kept).expect("forgotten");
        let gone = machine.ring(1).open(BINDING, &first);
        assert!(matches!(gone, Err(SealError::KeyMissing(_))));
    }

    /// The key that the last rotation retained opens secrets that are not sealed again yet.
    #[test]
    fn latest_keys_and_own_key_open_after_rotations() {
        let machine = TestHost::new();
        let own = machine.ring(1).seal(BINDING, b"own").expect("sealed");
        let mut last = String::new();
        for number in 0..2 * OTHER_KEYS_MAX {
            std::fs::write(machine.cluster_key(), [number as u8; 128]).expect("a key");
            let ring = machine.ring(1);
            last = ring.seal(BINDING, b"last").expect("sealed");
            let name = format!("authkey-{}-0", 1_800_000_000 + number);
            let kept = machine.seals().folder().join(name);
            std::fs::rename(machine.cluster_key(), kept).expect("kept");
        }
        let ring = machine.ring(1);
        assert_eq!(ring.open(BINDING, &own).as_deref(), Ok(&b"own".to_vec()));
        assert_eq!(ring.open(BINDING, &last).as_deref(), Ok(&b"last".to_vec()));
    }

    #[test]
    fn host_without_cluster_creates_its_own_key_once() {
        use std::os::unix::fs::PermissionsExt as _;
        let machine = TestHost::new();
        let seals = machine.seals();
        let looked = seals.ring(|| Ok(1)).expect("none");
        assert!(looked.seal(BINDING, b"x").is_err());
        assert!(!seals.folder().exists(), "a lookup creates nothing");
        let sealed = machine.ring(1).seal(BINDING, b"x").expect("sealed");
        assert!(machine.ring(1).is_current(&sealed));
        let mode =
            |path: &Path| std::fs::metadata(path).expect("made").permissions().mode() & 0o777;
        assert_eq!(mode(seals.folder()), 0o700);
        assert_eq!(mode(&seals.folder().join(OWN_KEY)), 0o600);
        assert_eq!(machine.key_files(), [OWN_KEY]);
    }

    /// A truncated copy, an empty file, or other contents.
    #[test]
    fn key_file_of_wrong_length_is_unused_and_reported() {
        for bytes in [0, 17, OWN_KEY_BYTES, 127, 4097] {
            let machine = TestHost::new();
            let own = machine.ring(1).seal(BINDING, b"x").expect("sealed");
            std::fs::write(machine.cluster_key(), vec![9; bytes]).expect("written");
            for ring in [
                machine.ring(1),
                machine.seals().ring(|| Ok(1)).expect("read"),
            ] {
                let failure = ring.seal(BINDING, b"x").expect_err("no key seals");
                assert!(
                    failure
                        .message
                        .contains(&format!("authkey has {bytes} bytes")),
                    "{failure:?}"
                );
                assert!(
                    failure
                        .advice
                        .is_some_and(|advice| advice.contains("copy it again"))
                );
                // Secrets sealed with the host's own key can still be opened.
                assert!(ring.open(BINDING, &own).is_ok() && !ring.is_current(&own));
            }
        }
        for bytes in [0, OWN_KEY_BYTES - 1, OWN_KEY_BYTES + 1] {
            let machine = TestHost::new();
            let sealed = machine.ring(1).seal(BINDING, b"x").expect("sealed");
            let folder = machine.seals().folder().to_owned();
            std::fs::write(folder.join("another"), [5; OWN_KEY_BYTES]).expect("a key");
            std::fs::write(folder.join(OWN_KEY), vec![9; bytes]).expect("written");
            let ring = machine.ring(1);
            let failure = ring.seal(BINDING, b"x").expect_err("no key seals");
            assert!(
                failure.message.contains(&format!("own has {bytes} bytes")),
                "{failure:?}"
            );
            let said = ring
                .open(BINDING, &sealed)
                .expect_err("no key opens")
                .to_string();
            assert!(said.contains(&format!("own has {bytes} bytes")), "{said}");
        }
    }

    #[test]
    fn concurrent_key_creation_yields_one_complete_key() {
        for _ in 0..20 {
            let machine = TestHost::new();
            let sealed: Vec<String> = std::thread::scope(|scope| {
                let make = || machine.ring(1).seal(BINDING, b"x").expect("sealed");
                let makers: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
                makers
                    .into_iter()
                    .map(|one| one.join().expect("made"))
                    .collect()
            });
            let ring = machine.ring(1);
            assert!(sealed.iter().all(|sealed| ring.is_current(sealed)));
            assert_eq!(machine.key_files(), [OWN_KEY]);
        }
    }

    #[test]
    fn incomplete_key_files_of_a_crash_are_removed() {
        let machine = TestHost::new();
        let folder = machine.seals().folder().to_owned();
        std::fs::create_dir_all(&folder).expect("made");
        let leave = || {
            for left in [".new", ".new-1", ".new-4711"] {
                std::fs::write(folder.join(left), [9; OWN_KEY_BYTES / 2]).expect("written");
            }
        };
        leave();
        let sealed = machine.ring(1).seal(BINDING, b"x").expect("sealed");
        assert_eq!(machine.key_files(), [OWN_KEY]);
        // The crash occurred after the rename of the key.
        leave();
        assert!(machine.ring(1).is_current(&sealed));
        assert_eq!(machine.key_files(), [OWN_KEY]);
    }
}
