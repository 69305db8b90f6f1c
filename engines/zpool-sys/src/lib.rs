//! Raw declarations of the C shim in `native/zfs-shim` and of the parts of libnvpair that the
//! safe layer uses. `tests/declarations.rs` compares every line with the C headers.

#![allow(non_camel_case_types)]

mod crypto;
mod dataset;
mod files;
mod keys;
mod list;
mod shim;
mod transfer;
mod volume;

/// The OpenZFS version of the headers that the shim was compiled with, such as `2.3.2`.
pub const OPENZFS_VERSION: &str = env!("OPENZFS_VERSION");
/// Build id of the library that was there then, in hexadecimal digits; empty if it had none.
pub const OPENZFS_BUILD_ID: &str = env!("OPENZFS_BUILD_ID");

/// Whether the library that was there then has its debugging checks, as Debian's has. The shim was compiled to match:
/// without them many structures are smaller.
pub const OPENZFS_HAS_CHECKS: bool = cfg!(openzfs_checks);

pub use crypto::*;
pub use dataset::*;
pub use files::*;
pub use keys::*;
pub use list::*;
pub use shim::*;
pub use transfer::*;
pub use volume::*;
