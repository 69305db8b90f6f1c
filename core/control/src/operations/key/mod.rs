//! Keys of encrypted volumes. A dataset is a volume, or a parent of volumes. On the command line they are a noun within
//! `volume`.

mod options;

use super::noun;

pub use options::{KeyOptions, NewKeyOptions};

noun! {
    /// Requests about keys.
    KeyRequest, KeyCommand, "key";
    verbs { create::Create, unload::Unload, status::Status }
    bare {}
    nouns {}
    wire_only { load::Load, change::Change, inherit::Inherit }
    bare_wire_only { load_all::LoadAll }
}
