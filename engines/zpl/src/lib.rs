//! The POSIX layer of ZFS: files, directories and their attributes on the objects of a dataset, in the form of version 5
//! that kernel ZFS mounts (`sys/zfs_znode.h`, `sys/zfs_sa.h`), with its intent log.
//!
//! It is independent of a pool: [`objects`] is its interface to one. Features of the dataset that this layer does not
//! support are refused when it is opened: old forms of attributes, names that are normalized or ignore case, access
//! control lists of POSIX, and records in the intent log that it cannot replay. User attributes (`user.`) are served,
//! and all other extended attributes are preserved. Reads do not update access times. Quotas of users, groups and
//! projects are enforced, listed and set.
//!
//! Changes of names are serialised in a file system; contents of different files can change concurrently.

#![forbid(unsafe_code)]

mod access;
pub mod acl;
mod acl_rules;
pub mod attribute_list;
mod changes;
pub mod check;
mod convert;
mod extended;
mod file_system;
mod freeing;
mod holds;
mod later_writes;
mod locks;
pub mod objects;
mod open;
pub mod options;
mod owners;
mod path;
mod quotas;
mod reader;
mod receipts;
pub mod records;
mod removal;
mod replay;
mod unfinished_write;

pub use file_system::Zpl;
pub use open::OpenError;
