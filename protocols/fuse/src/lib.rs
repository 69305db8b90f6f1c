//! A file system of ours as a mount of this machine, by FUSE.
//!
//! [`mount`] makes the mount, [`serve`] answers what the kernel asks until it is unmounted. They are apart, because whoever
//! mounts needs rights that whoever serves does not need.
//!
//! **Rights** are the file system's to decide, by its lists and for the user and the groups of each caller. So the kernel keeps no names: it
//! would walk through a directory that it knows for whoever comes. Pipes and sockets it opens without a question. So it checks the mode, too
//! ([`Options::has_only_modes`]), where no list can say more than that.
//!
//! **Nodes.** A number that the kernel has of us is held until the kernel forgets it, so that files without a name stay while they are open.
//! How many that are is the kernel's to bound.

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

pub use mount::{Mount, MountError, MountErrorKind, Options, check_place, mount};

/// Calls that are answered at a time.
const THREADS: usize = 4;

/// Answers what the kernel asks by `device`, until it is unmounted.
pub fn serve(files: Arc<dyn FileSystem>, device: OwnedFd) -> io::Result<()> {
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    let adapter = adapter::Adapter::new(files);
    Session::from_fd(adapter, device, SessionACL::All, config)?.run()
}
