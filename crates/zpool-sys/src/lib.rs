//! Raw declarations of the C shim in `native/zfs-shim` and of the parts of libnvpair that the
//! safe layer uses. `tests/declarations.rs` compares every line with the C headers.

#![allow(non_camel_case_types)]

mod crypto;
mod dataset;
mod keys;
mod list;
mod shim;
mod transfer;
mod volume;

pub use crypto::*;
pub use dataset::*;
pub use keys::*;
pub use list::*;
pub use shim::*;
pub use transfer::*;
pub use volume::*;
