//! librados and librbd: the raw declarations, and a safe layer that owns each handle. All unsafe code for Ceph is here.
//!
//! The declarations are written by hand, and `tests/declarations.rs` has the C compiler verify them. The libraries are
//! linked dynamically. Every call blocks, except [`Image::begin_read`].
//!
//! **Lifetimes.** An [`Image`] holds its [`Namespace`], which holds its [`Cluster`], so that a handle is closed before
//! the handle it was made of. Dropping an image or a cluster blocks and must not happen on a thread of librbd: a
//! completion callback therefore gets its image back and passes it on.

mod cluster;
mod error;
mod image;
mod namespace;
#[allow(non_camel_case_types, missing_docs)]
pub mod raw;

pub use cluster::Cluster;
pub use error::{CephError, Result};
pub use image::{Access, Diff, Image, Provision, ReadDone};
pub use namespace::{ImageOptions, Namespace, ObjectChange};
