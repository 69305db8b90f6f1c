//! Volumes: the block devices in a pool.

use units::VolumeName;

use super::noun;

noun! {
    /// Requests about volumes.
    VolumeRequest, VolumeCommand, "volume";
    verbs {
        create::Create, show::Show, resize::Resize, destroy::Destroy, rename::Rename, rollback::Rollback,
        promote::Promote, discard_log::DiscardLog, get::Get, set::Set, inherit::Inherit, freeze::Freeze, thaw::Thaw, list::List, space::Space,
    }
    bare {}
    nouns {}
    wire_only_nouns { rescue::Rescue(RescueRequest) }
}

/// Names for the audit log.
fn listed(names: &[VolumeName]) -> String {
    let names: Vec<&str> = names.iter().map(VolumeName::as_str).collect();
    names.join(", ")
}
