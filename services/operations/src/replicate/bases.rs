//! The snapshots and bookmarks that a sender retains so that the next run is incremental: snapshots marked with their
//! destination, and one bookmark for each destination. A run destroys only snapshots of its own destination, and never
//! a received snapshot.

use std::collections::BTreeSet;

use control::Failure;
use control::replication::{
    ARRIVED_PROPERTY, PROMOTED_PROPERTY, ReplicateDocument, SENT_TO_PROPERTY,
};
use engine::dataset::{DatasetInfo, PropertySource, Snapshots, Value};
use engine::transfer::Bookmark;
use units::{SnapshotName, VolumeName};

use super::documents;
use super::sender::TAG_PREFIX;
use super::wire::Present;
use crate::Context;
use crate::documents::Documents;
use crate::needs;

/// A destination as the marks of snapshots name it.
pub fn destination(document: &ReplicateDocument) -> String {
    format!("{} {}", document.peer, document.into)
}

/// The mark of a snapshot that is made for a destination.
pub fn mark(document: &ReplicateDocument) -> (String, Value) {
    let value = Value::Text(destination(document));
    (SENT_TO_PROPERTY.to_owned(), value)
}

/// Returns the name prefix of a destination's bookmarks.
fn bookmark_prefix(document: &ReplicateDocument) -> String {
    // FNV-1a, because names of bookmarks are short. Correctness depends only on distinct hashes of the destinations.
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let whole = destination(document);
    let digest = whole.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
    format!("{TAG_PREFIX}{digest:016x}-")
}

/// The snapshots of a volume, oldest first.
pub fn snapshots_of(
    context: &Context<'_>,
    volume: &VolumeName,
) -> Result<Vec<DatasetInfo>, Failure> {
    let all = context.pool.datasets(volume.into(), Snapshots::Include);
    let mut all = all.map_err(crate::dataset_failure)?;
    let own = format!("{volume}@");
    all.retain(|info| info.snapshot && info.name.starts_with(&own));
    all.sort_by_key(|info| info.creation_txg);
    Ok(all)
}

/// Whether a snapshot is called as those of replication are.
pub fn is_of_replication(info: &DatasetInfo) -> bool {
    let tag = info.name.split_once('@').map(|(_, tag)| tag);
    tag.is_some_and(|tag| tag.starts_with(TAG_PREFIX))
}

/// The origin of a replicated snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was made here for this destination.
    SentTo(String),
    /// Received from another pool.
    Arrived,
    /// Created by an older version, or received.
    Unknown,
}

/// Returns the origin of the snapshot.
pub fn origin_of(context: &Context<'_>, name: &str) -> Origin {
    let Ok(name) = name.parse::<SnapshotName>() else {
        return Origin::Unknown;
    };
    let Ok(own) = context.pool.dataset_properties((&name).into()) else {
        return Origin::Unknown;
    };
    // Snapshots do not inherit the volume's properties here.
    let local = |property: &str| {
        let found = own.get(property);
        found.filter(|found| found.source == PropertySource::Local)
    };
    match (local(ARRIVED_PROPERTY), local(SENT_TO_PROPERTY)) {
        (Some(_), _) => Origin::Arrived,
        (None, Some(to)) => Origin::SentTo(to.value.to_string()),
        (None, None) => Origin::Unknown,
    }
}

/// Returns the newest received snapshot.
pub fn newest_arrived(
    context: &Context<'_>,
    volume: &VolumeName,
) -> Result<Option<DatasetInfo>, Failure> {
    let mut all = snapshots_of(context, volume)?.into_iter().rev();
    let is_arrived = |info: &DatasetInfo| {
        is_of_replication(info) && origin_of(context, &info.name) == Origin::Arrived
    };
    Ok(all.find(is_arrived))
}

/// Destinations that other rules replicate `volume` to.
fn other_destinations(
    context: &Context<'_>,
    volume: &VolumeName,
    document: &ReplicateDocument,
) -> BTreeSet<String> {
    let rules = documents::replicated(context).unwrap_or_default();
    let covering = rules
        .iter()
        .filter(|(dataset, _)| volume.is_at_or_below(dataset));
    let mut all: BTreeSet<String> = covering.map(|(_, rule)| destination(rule)).collect();
    all.remove(&destination(document));
    all
}

/// Returns whether snapshots without a mark were created here: by an older version, which had one destination for each
/// volume, on a volume that never was a copy.
fn are_unmarked_ours(context: &Context<'_>, volume: &VolumeName) -> bool {
    let was_copy = context.all().map(|all| {
        let own = all.own(volume.as_str());
        own.is_some_and(|own| own.contains_key(PROMOTED_PROPERTY))
    });
    let source = context
        .pool
        .own_user_properties(volume.into(), crate::transfer::SOURCE_PREFIX);
    !was_copy.unwrap_or(true) && source.is_ok_and(|own| own.is_empty())
}

/// Destroys the oldest snapshots of this destination, or of a former destination, beyond the retention. The newest
/// common snapshot is always retained, because the next run is based on it.
pub fn prune(
    context: &Context<'_>,
    volume: &VolumeName,
    document: &ReplicateDocument,
    own: &[DatasetInfo],
    present: &Present,
) {
    let keep = document.keep.max(1) as usize;
    let named: Vec<&DatasetInfo> = own.iter().filter(|info| is_of_replication(info)).collect();
    if named.len() <= keep {
        return;
    }
    let others = other_destinations(context, volume, document);
    let are_unmarked_ours = others.is_empty() && are_unmarked_ours(context, volume);
    let is_ours = |info: &&DatasetInfo| match origin_of(context, &info.name) {
        Origin::SentTo(to) => !others.contains(&to),
        Origin::Arrived => false,
        Origin::Unknown => are_unmarked_ours,
    };
    let ours: Vec<&DatasetInfo> = named.into_iter().filter(is_ours).collect();
    let is_common = |info: &&&DatasetInfo| present.guids.contains(&info.guid);
    let newest_common = ours.iter().rev().find(is_common).map(|info| info.guid);
    let excess = ours.len().saturating_sub(keep);
    for old in ours.iter().take(excess) {
        if Some(old.guid) != newest_common {
            destroy(context, &old.name);
        }
    }
}

/// Destroys snapshots of this destination that never arrived: each failed run leaves one. The snapshot of a resumable
/// stream is retained.
pub fn forget_failed(
    context: &Context<'_>,
    volume: &VolumeName,
    document: &ReplicateDocument,
    present: &Present,
) -> Result<(), Failure> {
    let own = snapshots_of(context, volume)?;
    let resumed = present.token.as_ref().and_then(|text| {
        let token = context.pool.sending().ok()?.parse_token(text).ok()?;
        Some(token.to_guid)
    });
    let common = own
        .iter()
        .filter(|info| present.guids.contains(&info.guid))
        .map(|info| info.creation_txg);
    let marks = bookmarks(context, volume, document)?;
    let sent = marks.iter().map(|mark| mark.creation_txg);
    let newest_sent = common.chain(sent).max().unwrap_or(0);
    let destination = destination(document);
    for info in own.iter().filter(|info| {
        is_of_replication(info)
            && info.creation_txg > newest_sent
            && Some(info.guid) != resumed
            && !present.guids.contains(&info.guid)
    }) {
        if origin_of(context, &info.name) == Origin::SentTo(destination.clone()) {
            destroy(context, &info.name);
        }
    }
    Ok(())
}

/// The bookmarks of a volume that were made for this destination.
pub fn bookmarks(
    context: &Context<'_>,
    volume: &VolumeName,
    document: &ReplicateDocument,
) -> Result<Vec<Bookmark>, Failure> {
    let prefix = bookmark_prefix(document);
    let mut all = crate::bookmarks(context.pool, volume)?;
    all.retain(|mark| mark.tag().starts_with(&prefix));
    Ok(all)
}

/// Bookmarks the last snapshot that arrived and removes the older bookmarks of this destination. Without the snapshot
/// the next run is based on the bookmark.
pub fn keep_bookmark(
    context: &Context<'_>,
    snapshot: &SnapshotName,
    guid: u64,
    document: &ReplicateDocument,
) {
    let volume = snapshot.volume();
    let _alone = context.hooks.alone();
    let kept = bookmarks(context, &volume, document).and_then(|before| {
        if before.iter().any(|mark| mark.guid == guid) {
            return Ok(());
        }
        let number = snapshot.tag().strip_prefix(TAG_PREFIX).unwrap_or_default();
        let mark = format!("{}{number}", bookmark_prefix(document));
        let made = needs(context.pool.sending())?.create_bookmark(snapshot, &mark);
        made.map_err(crate::transfer::failure)?;
        for old in &before {
            let gone = needs(context.pool.sending())?.destroy_bookmark(old);
            gone.map_err(crate::transfer::failure)?;
        }
        Ok(())
    });
    if let Err(failure) = kept {
        // Usual if the pool does not support bookmarks or the name is too long. Then only the snapshot can be the base
        // of the next run.
        tracing::debug!(%snapshot, %failure, "no bookmark for replication");
    }
}

/// Destroys the bookmarks of a rule that is removed.
pub fn forget_bookmarks(
    context: &Context<'_>,
    dataset: &VolumeName,
    document: &ReplicateDocument,
) -> Result<(), Failure> {
    let all = context.pool.datasets(dataset.into(), Snapshots::Skip);
    for info in all.map_err(crate::dataset_failure)? {
        let Ok(volume) = info.name.parse() else {
            continue;
        };
        for mark in bookmarks(context, &volume, document)? {
            let gone = needs(context.pool.sending())?.destroy_bookmark(&mark);
            gone.map_err(crate::transfer::failure)?;
        }
    }
    Ok(())
}

/// Destroys an unneeded snapshot; one with clones or holds is retained.
pub fn destroy(context: &Context<'_>, name: &str) {
    let Ok(name) = name.parse::<SnapshotName>() else {
        return;
    };
    let _alone = context.hooks.alone();
    if let Some(tag) = crate::holds::tag_of(context, &name) {
        tracing::debug!(%name, tag, "an old snapshot of replication stays: it is held");
        return;
    }
    if let Err(error) = context.pool.destroy_snapshots(&[name]) {
        tracing::warn!(%error, "an old snapshot of replication stays");
    }
}

/// Describes the replications of `volume` that are based on one of these snapshots or bookmarks. Empty if there are
/// none.
pub fn loses(context: &Context<'_>, volume: &VolumeName, names: &[String]) -> String {
    let rules = documents::replicated(context).unwrap_or_default();
    let covering = rules
        .iter()
        .filter(|(dataset, _)| volume.is_at_or_below(dataset));
    let hit: Vec<String> = covering
        .filter(|(_, rule)| {
            let prefix = format!("{volume}#{}", bookmark_prefix(rule));
            let destination = destination(rule);
            names.iter().any(|name| {
                name.starts_with(&prefix)
                    || origin_of(context, name) == Origin::SentTo(destination.clone())
            })
        })
        .map(|(dataset, rule)| format!("{dataset} to {}", rule.to))
        .collect();
    match hit.is_empty() {
        true => String::new(),
        false => format!(
            "; the replication of {} may begin at one of them: after this, take the copy back to a snapshot that both have, or \
             replicate into another name",
            hit.join(", ")
        ),
    }
}
