//! Volumes: the block devices in a pool.

use super::noun;

noun! {
    /// Requests about volumes.
    VolumeRequest, VolumeCommand, "volume";
    verbs {
        create::Create, show::Show, resize::Resize, destroy::Destroy, rename::Rename, rollback::Rollback,
        promote::Promote, discard_log::DiscardLog, get::Get, set::Set, inherit::Inherit,
    }
    bare { list::List, space::Space }
    nouns {}
    wire_only_nouns { rescue::Rescue(RescueRequest) }
}
