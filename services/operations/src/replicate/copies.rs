//! Lists the volumes that were replicated into this pool: copies, and promoted copies.

use control::Failure;
use control::replication::{CopyView, PROMOTED_PROPERTY, PromotedDocument};
use units::VolumeName;

use super::bases::{self, Origin};
use super::sender::TAG_PREFIX;
use super::{health, now_unix_s, promote, receiver};
use crate::Context;
use crate::documents::Documents;

/// All of them, in order of their names.
pub fn views(context: &Context<'_>) -> Result<Vec<CopyView>, Failure> {
    let mut views = Vec::new();
    for replica in promote::replicas(context, &context.root())? {
        views.push(CopyView {
            exports: promote::exports_of(&replica),
            is_arriving: receiver::is_receiving(&replica.name),
            orphaned_unix_s: replica.orphaned_unix_s(),
            identity: replica.identity(),
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
    let moment = newest_snapshot_time(context, &volume)?;
    Ok(CopyView {
        volume,
        contents_unix_s: moment,
        age_s: moment.and_then(|moment| health::age_s(moment, now_unix_s())),
        is_arriving: false,
        exports: Vec::new(),
        promoted_unix_s: None,
        orphaned_unix_s: None,
        identity: None,
    })
}

/// Returns the timestamp of the newest snapshot that replication brought to `volume`, in seconds since 1970 by the
/// sender's clock.
pub fn newest_snapshot_time(
    context: &Context<'_>,
    volume: &VolumeName,
) -> Result<Option<u64>, Failure> {
    Ok(newest(context, volume)?.map(|state| state.moment_unix_s))
}

/// How new a copy is. Of two runs of a sender the later one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State {
    /// In seconds since 1970 by the sender's clock.
    pub moment_unix_s: u64,
    /// The number in the snapshot's name: no two runs have the same, however short the first was.
    pub number: u64,
}

/// The state that the newest snapshot has which replication brought to `volume`.
pub fn newest(context: &Context<'_>, volume: &VolumeName) -> Result<Option<State>, Failure> {
    let all = bases::snapshots_of(context, volume)?;
    let newest = all.iter().rev().find(|info| {
        let is_sent = || matches!(bases::origin_of(context, &info.name), Origin::SentTo(_));
        bases::is_of_replication(info) && !is_sent()
    });
    Ok(newest.map(|info| {
        // The number in the name can be ahead of its second. The snapshot's own creation time is
        // the sender's clock.
        let number = info.name.rsplit_once(TAG_PREFIX).map(|(_, number)| number);
        let number = number.and_then(|number| number.parse::<u64>().ok());
        let number = number.unwrap_or(info.creation_time_s);
        State {
            moment_unix_s: number.min(info.creation_time_s),
            number,
        }
    }))
}
