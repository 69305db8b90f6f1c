//! The volumes of this pool that were replicated into it: copies, and those that took the place of
//! their originals.

use control::Failure;
use control::replication::{CopyView, PROMOTED_PROPERTY, PromotedDocument};
use engine::dataset::Snapshots;
use units::VolumeName;

use super::sender::TAG_PREFIX;
use super::{now_unix_s, promote, receiver};
use crate::Context;
use crate::documents::Documents;

/// All of them, in order of their names.
pub fn views(context: &Context<'_>) -> Result<Vec<CopyView>, Failure> {
    let mut views = Vec::new();
    for replica in promote::replicas(context, &context.root())? {
        views.push(CopyView {
            exports: promote::places_of(&replica),
            is_arriving: receiver::is_receiving(&replica.name),
            ..view(context, replica.name)?
        });
    }
    let all = context.all()?;
    for name in all.with_property(PROMOTED_PROPERTY) {
        let Ok(volume) = name.parse::<VolumeName>() else {
            continue;
        };
        let value = all.own(name).and_then(|own| own.get(PROMOTED_PROPERTY));
        let document = value.and_then(|text| serde_json::from_str::<PromotedDocument>(text).ok());
        views.push(CopyView {
            promoted_unix_s: document.map(|document| document.promoted_unix_s),
            ..view(context, volume)?
        });
    }
    views.sort_by(|a, b| a.volume.cmp(&b.volume));
    Ok(views)
}

fn view(context: &Context<'_>, volume: VolumeName) -> Result<CopyView, Failure> {
    let moment = newest_moment(context, &volume)?;
    Ok(CopyView {
        volume,
        contents_unix_s: moment,
        age_s: moment.map(|moment| now_unix_s().saturating_sub(moment)),
        is_arriving: false,
        exports: Vec::new(),
        promoted_unix_s: None,
    })
}

/// The moment of the newest snapshot that replication made of `volume`, in seconds since 1970.
pub fn newest_moment(context: &Context<'_>, volume: &VolumeName) -> Result<Option<u64>, Failure> {
    let all = context.pool.datasets(volume.into(), Snapshots::Include);
    let all = all.map_err(crate::dataset_failure)?;
    let prefix = format!("{volume}@{TAG_PREFIX}");
    let moments = all
        .iter()
        .filter_map(|info| info.name.strip_prefix(&prefix)?.parse::<u64>().ok());
    Ok(moments.max())
}
