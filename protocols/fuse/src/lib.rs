//! Mounts a file system of the appliance on the local host with FUSE.
//!
//! [`mount`] creates the mount, and [`serve`] handles the kernel's requests until it is unmounted.
//! They are separate, because mounting needs privileges that serving does not need.
//!
//! **Permissions** are checked by the file system, with its access control lists and the user and
//! groups of each caller. Therefore the kernel caches no names: it would traverse a cached
//! directory for every caller. It opens pipes and sockets without a request. Therefore it checks
//! the mode, too ([`Options::has_only_modes`]), where no list can grant more than the mode.
//!
//! **Nodes.** A node that the kernel has a reference to is held until the kernel forgets it, so
//! that unlinked files remain while they are open. The kernel bounds their number.

#![forbid(unsafe_code)]

mod adapter;
mod convert;
mod identity;
mod mount;
mod nodes;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use file_system::FileSystem;
use fuser::{Config, Session, SessionACL};

pub use mount::{Mount, MountError, MountErrorKind, Options, check_mount_point, mount};

/// Requests that are handled concurrently.
const THREADS: usize = 4;

/// Handles the kernel's requests on `device` until it is unmounted.
pub fn serve(files: Arc<dyn FileSystem>, device: OwnedFd) -> io::Result<()> {
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    let adapter = adapter::Adapter::new(files);
    Session::from_fd(adapter, device, SessionACL::All, config)?.run()
}
