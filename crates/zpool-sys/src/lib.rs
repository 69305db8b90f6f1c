//! Raw declarations of the C shim in `native/zfs-shim` and of the parts of libnvpair that the
//! safe layer uses. `tests/declarations.rs` compares every line with the C headers.

#![allow(non_camel_case_types)]

mod list;
mod shim;

pub use list::*;
pub use shim::*;
