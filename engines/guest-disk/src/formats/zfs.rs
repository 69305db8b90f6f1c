//! Devices of a ZFS pool, by their labels.

use labels::{Device, Label, LabelState, Shape, Source, newest_settled};
use rustix::io::Errno;

use crate::bytes::plain;
use crate::contents::{Contents, Format};
use crate::part::Part;

/// Features that are listed by name.
const FEATURES_MAX: usize = 16;

impl Source for &Part<'_> {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> rustix::io::Result<()> {
        let found = Part::read(self, offset, bytes.len()).ok_or(Errno::IO)?;
        bytes.copy_from_slice(&found);
        Ok(())
    }
}

/// Recognises a device of a pool by a valid first label.
pub fn recognise(part: &Part<'_>) -> Option<Contents> {
    let device = Device::of(part, part.size)?;
    device.first_list(Label::parse)?;
    described(&device)
}

/// Recognises a device of a pool by any label. The first labels of a device that was used otherwise since are
/// overwritten, and the last ones often not: formats that are recognised at its start precede.
pub fn recognise_rest(part: &Part<'_>) -> Option<Contents> {
    let device = Device::of(part, part.size)?;
    described(&device).filter(|_| !device.is_wiped())
}

fn described(device: &Device<&Part<'_>>) -> Option<Contents> {
    let all = device.lists(|packed| Some((Label::parse(packed)?, Shape::parse(packed)?)));
    let (label, shape) = newest_settled(all, |(label, _)| label.txg, None)?;
    let mut found = Contents {
        label: plain(&label.pool_name),
        uuid: label.pool_guid.to_string(),
        devices: shape.devices(),
        ..Contents::new(Format::Zfs)
    };
    match label.state {
        LabelState::Active => found.note("not exported"),
        LabelState::Exported => found.note("exported"),
        LabelState::Destroyed => found.note("destroyed"),
        LabelState::Spare => found.note("a spare of a pool"),
        LabelState::Cache => found.note("a cache of a pool"),
    }
    if let Some(host) = &label.host_name {
        let id = label.host_id.unwrap_or_default();
        found.note(format!("last used by {} (host id {id:08x})", plain(host)));
    }
    match (shape.kind.as_deref(), shape.members) {
        (Some("mirror" | "raidz" | "draid"), members) => found.note(format!(
            "one of {members} devices of a {}",
            shape.kind.as_deref().unwrap_or_default()
        )),
        _ if shape.groups > 1 => {
            found.note(format!("one of {} groups of devices", shape.groups));
        }
        _ => {}
    }
    if let Some(version) = shape.version {
        found.note(format!("version {version}"));
    }
    if !shape.features_for_read.is_empty() {
        let mut features = shape.features_for_read;
        features.truncate(FEATURES_MAX);
        found.note(format!("features to read it: {}", features.join(", ")));
    }
    Some(found)
}
