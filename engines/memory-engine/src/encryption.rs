//! The state of the keys of encrypted datasets. No data is encrypted: a missing key only prevents opening.

use engine::dataset::DatasetErrorKind;
use engine::keys::{
    ITERATIONS_DEFAULT, ITERATIONS_MAX, ITERATIONS_MIN, KEY_BYTES, KeyFormat, KeyMaterial,
    MaterialError, NewKey,
};

use crate::numbers::new_guid;

/// The default encryption suite.
const SUITE_DEFAULT: &str = "aes-256-gcm";
/// All that there are.
const SUITES: [&str; 7] = [
    "on",
    "aes-128-ccm",
    "aes-192-ccm",
    "aes-256-ccm",
    "aes-128-gcm",
    "aes-192-gcm",
    "aes-256-gcm",
];

/// The key of an encryption root.
#[derive(Clone)]
pub(crate) struct OwnKey {
    pub(crate) format: KeyFormat,
    pub(crate) salt: u64,
    pub(crate) iterations: u64,
    pub(crate) location: String,
    pub(crate) bytes: [u8; KEY_BYTES],
    pub(crate) is_loaded: bool,
}

impl OwnKey {
    /// Whether `material` is this key.
    pub(crate) fn check(&self, material: &KeyMaterial) -> Result<(), DatasetErrorKind> {
        let made = material.wrapping_key(self.format, self.salt, self.iterations);
        let made = made.map_err(DatasetErrorKind::KeyMaterial)?;
        match *made.reveal() == self.bytes {
            true => Ok(()),
            false => Err(DatasetErrorKind::KeyWrong),
        }
    }
}

/// How a dataset is encrypted.
#[derive(Clone)]
pub(crate) struct Encryption {
    pub(crate) suite: String,
    /// GUID of the encryption root.
    pub(crate) root: u64,
    /// The key, if it is its own.
    pub(crate) own: Option<OwnKey>,
}

impl Encryption {
    /// As a dataset has it that shares the key.
    pub(crate) fn shared(&self) -> Self {
        Self {
            own: None,
            ..self.clone()
        }
    }

    /// With a key that the dataset of that number has for itself.
    pub(crate) fn owned_by(mut self, guid: u64) -> Self {
        self.root = guid;
        self
    }

    /// Creates the encryption of a new key, which has no root yet.
    pub(crate) fn of_new_key(key: &NewKey) -> Result<Self, DatasetErrorKind> {
        let own = own_key(key)?;
        let suite = match key.suite.as_deref() {
            None | Some("" | "on") => SUITE_DEFAULT,
            Some(suite) if SUITES.contains(&suite) => suite,
            Some(_) => return Err(DatasetErrorKind::Library),
        };
        Ok(Self {
            suite: suite.to_owned(),
            root: 0,
            own: Some(own),
        })
    }
}

/// The stored state of a new key.
pub(crate) fn own_key(key: &NewKey) -> Result<OwnKey, DatasetErrorKind> {
    let iterations = key.iterations.unwrap_or(ITERATIONS_DEFAULT);
    let is_passphrase = key.format == KeyFormat::Passphrase;
    if is_passphrase && !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
        let error = MaterialError::Iterations { iterations };
        return Err(DatasetErrorKind::KeyMaterial(error));
    }
    let salt = if is_passphrase { new_guid() } else { 0 };
    let made = key.material.wrapping_key(key.format, salt, iterations);
    let made = made.map_err(DatasetErrorKind::KeyMaterial)?;
    Ok(OwnKey {
        format: key.format,
        salt,
        iterations: if is_passphrase { iterations } else { 0 },
        location: key.location.clone(),
        bytes: *made.reveal(),
        is_loaded: true,
    })
}
