//! Keys of encrypted datasets.

mod material;

use serde::Serialize;

pub use material::{
    ITERATIONS_DEFAULT, ITERATIONS_MAX, ITERATIONS_MIN, KEY_BYTES, KeyFormat, KeyMaterial,
    MaterialError, PASSPHRASE_BYTES_MAX, PASSPHRASE_BYTES_MIN, WrappingKey,
};

/// Where ZFS is told to look for a key that no file holds.
pub const PROMPT: &str = "prompt";

/// A key that a dataset shall have.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// `aes-256-gcm` and others; none leaves the choice to ZFS. Fixed when the dataset is made.
    pub suite: Option<String>,
    /// The form of the material.
    pub format: KeyFormat,
    /// The key.
    pub material: KeyMaterial,
    /// Of a passphrase; none takes [`ITERATIONS_DEFAULT`].
    pub iterations: Option<u64>,
    /// [`PROMPT`], or a file as `file:///PATH`: where every ZFS will look.
    pub location: String,
}

/// What is known of a dataset's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyInfo {
    /// The dataset.
    pub dataset: String,
    /// The dataset whose key this one has, or none if it is not encrypted.
    pub root: Option<String>,
    /// `aes-256-gcm`, ..., or `off`.
    pub suite: String,
    /// The form of the key.
    pub format: Option<KeyFormat>,
    /// Where the root says that the key is: `prompt`, `file:///PATH`, `https://...`.
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
