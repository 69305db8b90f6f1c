//! Holds of snapshots: a held snapshot is destroyed by no request and no schedule. The engine stores the holds, as
//! kernel ZFS does.

use control::answer::{Done, HoldView};
use control::operations::snapshot::hold::Hold;
use control::operations::snapshot::holds::Holds;
use control::operations::snapshot::release::Release;
use control::{Answer, Failure, FailureKind};
use units::SnapshotName;

use super::{Context, failures, snapshot};

/// Longest name of a hold, in bytes: the limit of ZFS.
const TAG_BYTES_MAX: usize = 255;

/// Adds a hold to snapshots. Those that have it already are unchanged.
pub fn hold(context: &Context<'_>, request: &Hold) -> Result<Answer, Failure> {
    let Hold {
        tag,
        names,
        recursive,
    } = request;
    refuse_tag(tag)?;
    let selection = snapshot::select(context, names, *recursive, None)?;
    let names = selection.names;
    if names.is_empty() {
        snapshot::refuse_own(&selection.own, "no hold was added")?;
        return Err(
            Failure::not_found("no snapshot has such a name: nothing is held")
                .advise("`bulkhead snapshot list` shows the names"),
        );
    }
    let (held, new) = by_hold(context, names, tag)?;
    if new.is_empty() {
        return Ok(Done::already(format!(
            "{tag} holds {} already",
            counted(&held)
        )));
    }
    let done = context.pool.hold_snapshots(tag, &new);
    done.map_err(failures::dataset)?;
    Ok(Done::changed(format!("{tag} holds {}", counted(&new))))
}

/// Removes a hold of snapshots.
pub fn release(context: &Context<'_>, request: &Release) -> Result<Answer, Failure> {
    let Release {
        tag,
        names,
        recursive,
    } = request;
    let selection = snapshot::select(context, names, *recursive, None)?;
    let names = selection.names;
    if names.is_empty() {
        snapshot::refuse_own(&selection.own, "no hold was removed")?;
    }
    let (held, _) = by_hold(context, names, tag)?;
    if held.is_empty() {
        return Ok(Done::already(format!("{tag} holds none of them")));
    }
    let done = context.pool.release_snapshots(tag, &held);
    done.map_err(failures::dataset)?;
    Ok(Done::changed(format!(
        "{tag} holds {} no more",
        counted(&held)
    )))
}

/// Lists holds, in the order of the snapshots.
pub fn list(context: &Context<'_>, request: &Holds) -> Result<Answer, Failure> {
    let names = match (&request.only, &request.volume) {
        (Some(set), _) => {
            let selection = snapshot::select(context, std::slice::from_ref(set), false, None)?;
            // Their holds are listed, too.
            selection.names.into_iter().chain(selection.own).collect()
        }
        (None, Some(volume)) => snapshot::below(context, volume.as_str())?,
        (None, None) => snapshot::below(context, context.pool.name().as_str())?,
    };
    let mut views = Vec::new();
    for name in names {
        let holds = context.pool.holds(&name).map_err(failures::dataset)?;
        views.extend(holds.into_iter().map(|(tag, since)| HoldView {
            snapshot: name.clone(),
            tag,
            since_unix_s: since,
        }));
    }
    Ok(Answer::Holds(views))
}

/// Refuses to destroy `names` if one of them is held.
pub fn refuse_held<'n>(
    context: &Context<'_>,
    names: impl IntoIterator<Item = &'n SnapshotName>,
) -> Result<(), Failure> {
    let mut held = names.into_iter().filter_map(|name| {
        let tag = tag_of(context, name)?;
        Some((name, tag))
    });
    let Some((name, tag)) = held.next() else {
        return Ok(());
    };
    let more = match held.count() {
        0 => String::new(),
        count => format!(", and {count} more are held"),
    };
    let message = format!("{name} is held by {tag}{more}");
    Err(Failure::new(FailureKind::Busy, message).advise(format!(
        "`bulkhead snapshot release {tag} {name}` removes the hold; `bulkhead snapshot holds {}` lists all",
        name.volume()
    )))
}

/// The name of a hold of a snapshot, if it is held.
pub fn tag_of(context: &Context<'_>, name: &SnapshotName) -> Option<String> {
    // An unreadable snapshot is reported when it is destroyed.
    let holds = context.pool.holds(name).ok()?;
    holds.into_keys().next()
}

/// Those with the hold, and those without.
fn by_hold(
    context: &Context<'_>,
    names: Vec<SnapshotName>,
    tag: &str,
) -> Result<(Vec<SnapshotName>, Vec<SnapshotName>), Failure> {
    let (mut held, mut free) = (Vec::new(), Vec::new());
    for name in names {
        let holds = context.pool.holds(&name).map_err(failures::dataset)?;
        match holds.contains_key(tag) {
            true => held.push(name),
            false => free.push(name),
        }
    }
    Ok((held, free))
}

fn counted(names: &[SnapshotName]) -> String {
    match names {
        [name] => name.to_string(),
        names => format!("{} snapshots", names.len()),
    }
}

fn refuse_tag(tag: &str) -> Result<(), Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:@/+".contains(c);
    let is_name = tag.chars().all(is_plain) && !tag.starts_with('-');
    match is_name && !tag.is_empty() && tag.len() <= TAG_BYTES_MAX {
        true => Ok(()),
        false => Err(
            Failure::usage(format!("{tag:?} cannot be the name of a hold"))
                .advise("use letters, digits and -_.:@/+, such as backup"),
        ),
    }
}
