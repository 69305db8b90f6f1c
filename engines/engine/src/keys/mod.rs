//! Keys of encrypted datasets.

mod material;

use serde::Serialize;

pub use material::{
    ITERATIONS_DEFAULT, ITERATIONS_MAX, ITERATIONS_MIN, KEY_BYTES, KeyFormat, KeyMaterial,
    MaterialError, PASSPHRASE_BYTES_MAX, PASSPHRASE_BYTES_MIN, WrappingKey,
};

/// The ZFS location of a key that is not in a file.
pub const PROMPT: &str = "prompt";

/// A key that a dataset shall have.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Such as `aes-256-gcm`; none selects the default of ZFS. Fixed at creation.
    pub suite: Option<String>,
    /// The form of the material.
    pub format: KeyFormat,
    /// The key.
    pub material: KeyMaterial,
    /// For a passphrase; none selects [`ITERATIONS_DEFAULT`].
    pub iterations: Option<u64>,
    /// [`PROMPT`], or a file as `file:///PATH`, which every ZFS supports.
    pub location: String,
}

/// The state of a dataset's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyInfo {
    /// The dataset.
    pub dataset: String,
    /// The dataset that this one inherits its key from, or none if it is not encrypted.
    pub root: Option<String>,
    /// `aes-256-gcm`, ..., or `off`.
    pub suite: String,
    /// The form of the key.
    pub format: Option<KeyFormat>,
    /// The key location of the root: `prompt`, `file:///PATH`, `https://...`.
    pub location: String,
    /// Whether the key is loaded, so that the dataset can be opened.
    pub loaded: bool,
    /// Of a passphrase.
    pub salt: u64,
    /// Of a passphrase.
    pub iterations: u64,
}

impl KeyInfo {
    /// Whether the key is the dataset's own.
    pub fn is_root(&self) -> bool {
        self.root.as_deref() == Some(self.dataset.as_str())
    }

    /// Whether the dataset is encrypted and its key not loaded.
    pub fn is_locked(&self) -> bool {
        self.root.is_some() && !self.loaded
    }
}
