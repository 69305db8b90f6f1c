//! The words of `bulkhead filesystem mount`.

use std::path::{Path, PathBuf};

use clap::Args;
use control::Failure;
use control::operations::secret_input;
use engine::dataset::DatasetRef;
use engine::keys::KeyMaterial;
use units::PoolName;

use crate::named::Named;
use crate::open::{Access, PreviousOwner};

/// Examples of the help.
pub const EXAMPLES: &str = "Examples:
  bulkhead filesystem mount tank/home /mnt
  bulkhead filesystem mount tank/home /mnt --read-only
  bulkhead filesystem mount tank/home@monday /mnt
  bulkhead filesystem mount tank/private /mnt --prompt
  bulkhead filesystem mount guest-rpool --list --device /dev/loop0 --previous-owner-is-stopped
  bulkhead filesystem mount guest-rpool/home /mnt --read-only --device /dev/loop0 --previous-owner-is-stopped

The pool must not be served concurrently. `umount /mnt` or Ctrl-C unmounts it. Run it as root.";

/// `filesystem mount`
#[derive(Clone, Debug, Args)]
pub struct MountArgs {
    /// The file system, POOL for that of the pool itself, or a snapshot as POOL/NAME@SNAPSHOT
    #[arg(value_name = "FILESYSTEM[@SNAPSHOT]")]
    what: Named,
    /// Where: an empty directory
    #[arg(required_unless_present = "list", conflicts_with = "list")]
    at: Option<PathBuf>,
    /// Change nothing, not even that the pool was opened
    #[arg(long)]
    read_only: bool,
    /// A device of a guest's pool; may be repeated. The pool on these devices is opened, whatever its name is: the name
    /// before the first slash is that under which this host opens it. No other device is used, and nothing of the pool
    /// is stored on this host
    #[arg(long = "device", value_name = "PATH")]
    devices: Vec<PathBuf>,
    /// Print the file systems of a guest's pool, and mount nothing
    #[arg(long, requires = "devices")]
    list: bool,
    /// Of a guest's pool: permit a mount for writing, after which its labels name this host and these devices
    #[arg(long, requires = "devices", conflicts_with_all = ["read_only", "list"])]
    allow_label_changes: bool,
    /// The host that last used the pool is switched off, or will never access it again
    #[arg(long)]
    previous_owner_is_stopped: bool,
    /// Prompt on this terminal for the key of an encrypted file system
    #[arg(long)]
    prompt: bool,
    /// Read that key from the standard input
    #[arg(long, conflicts_with = "prompt")]
    key_stdin: bool,
}

impl MountArgs {
    /// The pool that it is in.
    pub fn pool(&self) -> PoolName {
        self.what.pool()
    }

    /// Returns the dataset to mount.
    pub fn dataset(&self) -> DatasetRef<'_> {
        match &self.what {
            Named::Pool(pool) => pool.into(),
            Named::Dataset(name) => name.into(),
            Named::Snapshot(name) => name.into(),
        }
    }

    /// Returns the directory; none if the file systems are listed.
    pub fn at(&self) -> Option<&Path> {
        self.at.as_deref()
    }

    /// Returns the devices of a guest's pool.
    pub fn devices(&self) -> &[PathBuf] {
        &self.devices
    }

    /// Returns whether the labels of a guest's pool may change.
    pub fn allows_label_changes(&self) -> bool {
        self.allow_label_changes
    }

    /// Returns the access mode of the pool: a snapshot is never changed.
    pub fn access(&self) -> Access {
        match self.read_only || self.list || matches!(self.what, Named::Snapshot(_)) {
            true => Access::ReadOnly,
            false => Access::Change,
        }
    }

    /// Returns whether a writable file system is mounted read-only on request.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The key that is given here.
    pub fn key(&self) -> Result<Option<KeyMaterial>, Failure> {
        let name = self.dataset().as_str();
        let given = match (self.prompt, self.key_stdin) {
            (true, _) => secret_input::key_from_prompt(&format!("key of {name}: "))?,
            (false, true) => secret_input::key_from_stdin()?,
            (false, false) => return Ok(None),
        };
        Ok(Some(KeyMaterial::new(given)))
    }

    /// Returns the statement about the previous owner.
    pub fn previous_owner(&self) -> PreviousOwner {
        match self.previous_owner_is_stopped {
            true => PreviousOwner::IsStopped,
            false => PreviousOwner::Unknown,
        }
    }
}
