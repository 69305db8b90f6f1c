//! Requests about snapshots.

use std::collections::BTreeSet;

use control::answer::{BookmarkView, Done, SnapshotView};
use control::operations::snapshot::SnapshotRequest;
use control::operations::snapshot::create::{Create, NewSnapshot};
use control::operations::snapshot::destroy::Destroy;
use control::operations::snapshot::destroy_bookmark::DestroyBookmark;
use control::operations::snapshot::list::List;
use control::operations::snapshot::rename::Rename;
use control::request::Properties;
use control::snapshot_set::{SnapshotSet, Which};
use control::{Answer, Failure, FailureKind};
use engine::dataset::{DatasetErrorKind, DatasetInfo, DatasetKind, DatasetRef, Snapshots, Value};
use units::{SnapshotName, VolumeName};

use super::datasets::{Contents, Dataset};
use super::documents::new_identity;
use super::loss::{Loss, some_of};
use super::{
    Context, changes, directory_names, failures, filesystem, holds, rescue_clones, rights,
    schedule, transfer, volume,
};
use crate::{needs, replicate};

/// Longest name of a snapshot, with that of its volume.
const NAME_BYTES_MAX: usize = 255;

/// Performs one request.
pub fn perform(context: &Context<'_>, request: SnapshotRequest) -> Result<Answer, Failure> {
    match request {
        SnapshotRequest::Create(request) => create(context, &request),
        SnapshotRequest::List(request) => list(context, &request),
        SnapshotRequest::Destroy(request) => destroy(context, &request),
        SnapshotRequest::Rename(Rename { from, to }) => {
            super::refuse_space(to.as_str())?;
            rename(context, &from, &to)
        }
        SnapshotRequest::Clone(request) => {
            super::refuse_space(request.to.as_str())?;
            if request.keep_rights {
                rights::refuse_other_clone(context, &request.from, &request.to)?;
            }
            clone(context, &request.from, &request.to, &request.properties)
        }
        SnapshotRequest::Diff(request) => changes::perform(context, &request),
        SnapshotRequest::Hold(request) => holds::hold(context, &request),
        SnapshotRequest::Release(request) => holds::release(context, &request),
        SnapshotRequest::Holds(request) => holds::list(context, &request),
        SnapshotRequest::Bookmarks(request) => bookmarks(context, request.volume.as_ref()),
        SnapshotRequest::DestroyBookmark(request) => destroy_bookmark(context, &request),
        SnapshotRequest::Schedule(request) => schedule::perform(context, request),
    }
}

fn create(context: &Context<'_>, request: &Create) -> Result<Answer, Failure> {
    let (mut names, left_out) = match request.recursive {
        true => all_in(context, &request.names)?,
        false => (those_named(context, &request.names)?, 0),
    };
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    for name in &names {
        super::refuse_space(name.as_str())?;
        replicate::refuse_own_name(name)?;
        refuse_temporary(name)?;
    }
    replay(context, &names)?;
    let taken = context.pool.snapshot(&names);
    taken.map_err(|error| failures::dataset_of(context.pool, error))?;
    let list = list_of(&names);
    let message = match (request.recursive, left_out) {
        (false, _) => format!("created {list}"),
        (true, 0) => format!(
            "created {} snapshot(s) at the same time: {list}",
            names.len()
        ),
        (true, _) => format!(
            "created {} snapshot(s) at the same time: {list}; left out {left_out} that replication fills or \
             that are there for a rescue only",
            names.len()
        ),
    };
    let made = names.into_iter().map(String::from).collect();
    Ok(Done::made(made, message))
}

fn those_named(context: &Context<'_>, names: &[NewSnapshot]) -> Result<Vec<SnapshotName>, Failure> {
    let each = names.iter().map(|name| {
        let of = Dataset::parse(name.of())?;
        // An unreadable one is reported when its snapshot is taken.
        let is_group = match &of {
            Dataset::Root(_) => true,
            Dataset::Volume(_) => is_group(context, &of),
        };
        match is_group {
            true => Err(not_a_volume(name.of())),
            false => snapshot_of(name.of(), name.tag()),
        }
    });
    each.collect()
}

/// Whether it only holds volumes together.
fn is_group(context: &Context<'_>, of: &Dataset) -> bool {
    let found = context.pool.dataset(of.into());
    if !found.is_ok_and(|info| info.kind == DatasetKind::Filesystem) {
        return false;
    }
    let all = context.pool.datasets(of.into(), Snapshots::Skip);
    let all = all.unwrap_or_default();
    let contents = Contents::of(&all);
    all.first().is_some_and(|info| !contents.has(info))
}

fn not_a_volume(name: &str) -> Failure {
    let message = format!("{name} is no volume, and holds no files");
    Failure::usage(message).advise(
        "--recursive (-r) takes a snapshot of every volume and file system in it, all at the same time; in the API the \
         member `recursive`",
    )
}

/// Returns a snapshot name for every volume and file system in the named datasets, and the number of those left out. A
/// file system that only groups volumes has no contents.
fn all_in(
    context: &Context<'_>,
    wanted: &[NewSnapshot],
) -> Result<(Vec<SnapshotName>, usize), Failure> {
    let mut not_ours = rescue_clones::names(context)?;
    not_ours.extend(replicate::copies(context)?);
    let is_not_ours = |name: &str| not_ours.iter().any(|one| one.as_str() == name);
    let (mut names, mut left_out) = (Vec::new(), BTreeSet::new());
    for one in wanted {
        let of = Dataset::parse(one.of())?;
        let all = context.pool.datasets((&of).into(), Snapshots::Skip);
        let all = all.map_err(failures::dataset)?;
        let contents = Contents::of(&all);
        let kept = all.iter().filter(|info| contents.has(info));
        // A dataset that is named itself is always included.
        let (out, meant): (Vec<&DatasetInfo>, Vec<_>) =
            kept.partition(|info| info.name != one.of() && is_not_ours(&info.name));
        if meant.is_empty() {
            let message = format!(
                "there is no volume or file system in {} to take a snapshot of",
                one.of()
            );
            return Err(Failure::not_found(message)
                .advise(format!("`bulkhead volume space {}` shows all", one.pool())));
        }
        left_out.extend(out.into_iter().map(|info| info.name.clone()));
        for info in meant {
            names.push(snapshot_of(&info.name, one.tag())?);
        }
    }
    Ok((names, left_out.len()))
}

fn snapshot_of(volume: &str, tag: &str) -> Result<SnapshotName, Failure> {
    let name = format!("{volume}@{tag}");
    name.parse().map_err(|error: units::NameError| {
        let length = name.len();
        match length > NAME_BYTES_MAX {
            true => Failure::usage(format!(
                "the snapshot of {volume} would have a name of {length} characters, and the maximum of ZFS is {NAME_BYTES_MAX}"
            ))
            .advise("nothing was made: choose a shorter name after the @"),
            false => Failure::usage(error.to_string()),
        }
    })
}

/// After a crash the data in a volume's intent log is missing from the dataset until the volume is
/// opened, and a snapshot would never contain it.
pub fn replay(context: &Context<'_>, names: &[SnapshotName]) -> Result<(), Failure> {
    let Ok(logs) = context.pool.logs() else {
        return Ok(());
    };
    let volumes: BTreeSet<VolumeName> = names.iter().map(SnapshotName::volume).collect();
    for name in &volumes {
        match logs.is_unreplayed(name) {
            // Taking the snapshot reports the error.
            Err(_) | Ok(false) => {}
            Ok(true) if context.hooks.open(name)? => {}
            Ok(true) => logs.replay(name).map_err(failures::dataset)?,
        }
    }
    Ok(())
}

/// Refuses a range with a first snapshot newer than its last one: it selects nothing, which would pass for a success.
fn refuse_reversed(set: &SnapshotSet, tags: &[&str], selected: &[&str]) -> Result<(), Failure> {
    let Which::Range {
        first: Some(first),
        last: Some(last),
    } = set.which()
    else {
        return Ok(());
    };
    let has = |tag: &String| tags.contains(&tag.as_str());
    if !selected.is_empty() || !has(first) || !has(last) {
        return Ok(());
    }
    let message = format!("{first} was created after {last}");
    Err(Failure::usage(message).advise(format!(
        "name the older one first: {}@{last}%{first}",
        set.dataset()
    )))
}

fn destroy(context: &Context<'_>, request: &Destroy) -> Result<Answer, Failure> {
    let selection = select(
        context,
        &request.names,
        request.recursive,
        request.older_than_s,
    )?;
    let names = selection.names;
    if names.is_empty() {
        refuse_own(&selection.own, "no snapshot was destroyed")?;
        return Ok(Done::already("no such snapshots".to_owned()));
    }
    let preview = request.preview;
    let loss = Loss::of_snapshots(&names);
    if preview.is_wanted() {
        let refusal =
            refuse_clones(context, &names).and_then(|()| holds::refuse_held(context, &names));
        let refusal = refusal.err();
        let shown = loss.preview::<Destroy>(preview, refusal.as_ref())?;
        return Ok(shown.expect("a preview is wanted"));
    }
    holds::refuse_held(context, &names)?;
    let destroyed = context.pool.destroy_snapshots(&names);
    destroyed.map_err(failures::dataset)?;
    let own = match selection.own.len() {
        0 => String::new(),
        count => format!(" (without {count} that replication or a comparison needs)"),
    };
    Ok(loss.destroyed(match names.as_slice() {
        [name] => format!("destroyed {name}{own}"),
        _ => format!("destroyed{own}"),
    }))
}

/// Refuses a pattern that matches only snapshots that a pattern does not select. `outcome`: that nothing was done.
pub fn refuse_own(own: &[SnapshotName], outcome: &str) -> Result<(), Failure> {
    let Some(first) = own.first() else {
        return Ok(());
    };
    let names: Vec<&str> = own.iter().map(SnapshotName::as_str).collect();
    let (owner, advice) = match replicate::is_own(first) {
        true => (
            "replication",
            format!(
                "the next run of the replication needs the newest of them; `bulkhead replicate list` shows it, and `bulkhead replicate \
                 remove` ends it. A snapshot of a replication that has ended is selected by its full name: {first}"
            ),
        ),
        false => (
            "`bulkhead snapshot diff`",
            format!(
                "a comparison that runs needs it, and the next one destroys it; its full name selects it: {first}"
            ),
        ),
    };
    let message = format!(
        "{outcome}: {owner} retains all that match: {}",
        some_of(&names)
    );
    Err(Failure::new(FailureKind::Busy, message).advise(advice))
}

/// Refuses the name of the temporary snapshot of a comparison, which the next comparison destroys.
fn refuse_temporary(name: &SnapshotName) -> Result<(), Failure> {
    if !changes::is_temporary(name) {
        return Ok(());
    }
    let message = format!("`bulkhead snapshot diff` uses the name {name} itself");
    Err(Failure::new(FailureKind::Busy, message).advise("choose another name"))
}

/// The snapshots that names and patterns match.
pub struct Selection {
    /// Those that the request is about.
    pub names: Vec<SnapshotName>,
    /// Those of replications and comparisons, which a pattern does not select.
    pub own: Vec<SnapshotName>,
}

/// Returns the snapshots that a request to destroy or hold some selects, each once.
pub fn select(
    context: &Context<'_>,
    sets: &[SnapshotSet],
    recursive: bool,
    older_than_s: Option<u64>,
) -> Result<Selection, Failure> {
    let (mut names, mut own) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for set in sets {
        let all = of_dataset(context, set.dataset(), recursive)?;
        for info in in_set(set, &all)? {
            if !is_as_old(info, older_than_s) || !seen.insert(info.name.clone()) {
                continue;
            }
            let name = info.name.parse();
            let name: SnapshotName =
                name.map_err(|error: units::NameError| Failure::usage(error.to_string()))?;
            // The next replication needs it, or a comparison: only its full name selects it.
            let is_own = replicate::is_own(&name) || changes::is_temporary(&name);
            match is_own && !matches!(set.which(), Which::One(_)) {
                true => own.push(name),
                false => names.push(name),
            }
        }
    }
    Ok(Selection { names, own })
}

/// The snapshots of a dataset and of all below it.
pub fn below(context: &Context<'_>, dataset: &str) -> Result<Vec<SnapshotName>, Failure> {
    let all = of_dataset(context, dataset, true)?.into_iter();
    Ok(all.filter_map(|info| info.name.parse().ok()).collect())
}

/// The bookmarks of a dataset and of all below it.
fn bookmarks(context: &Context<'_>, below: Option<&VolumeName>) -> Result<Answer, Failure> {
    let of: DatasetRef<'_> = match below {
        Some(name) => name.into(),
        None => context.pool.name().into(),
    };
    let all = context.pool.datasets(of, Snapshots::Skip);
    let mut views = Vec::new();
    for info in all.map_err(failures::dataset)? {
        // The root dataset has no name of a volume.
        let Ok(name) = info.name.parse::<VolumeName>() else {
            continue;
        };
        let marks = crate::bookmarks(context.pool, &name)?.into_iter();
        views.extend(marks.map(|mark| BookmarkView {
            name: mark.name,
            guid: mark.guid,
            created_unix_s: mark.creation_time_s,
        }));
    }
    Ok(Answer::Bookmarks(views))
}

fn destroy_bookmark(context: &Context<'_>, request: &DestroyBookmark) -> Result<Answer, Failure> {
    let DestroyBookmark { volume, mark } = request;
    let all = crate::bookmarks(context.pool, volume)?;
    let Some(found) = all.into_iter().find(|one| one.tag() == mark) else {
        return Ok(Done::already(format!(
            "there is no bookmark {volume}#{mark}"
        )));
    };
    let loses = replicate::loses(context, volume, std::slice::from_ref(&found.name));
    if !loses.is_empty() {
        let message = format!("replication needs {}{loses}", found.name);
        return Err(Failure::new(FailureKind::Busy, message).advise(
            "`bulkhead replicate remove` removes the replication, and destroys its bookmarks",
        ));
    }
    let destroyed = needs(context.pool.sending())?.destroy_bookmark(&found);
    destroyed.map_err(transfer::failure)?;
    Ok(Answer::Done(Done {
        changed: true,
        message: format!("destroyed {}", found.name),
        made: Vec::new(),
        destroyed: vec![found.name],
    }))
}

/// Returns the snapshots of a dataset, by creation; with `recursive` those below it, too, dataset by dataset.
fn of_dataset(
    context: &Context<'_>,
    dataset: &str,
    recursive: bool,
) -> Result<Vec<DatasetInfo>, Failure> {
    let named: Option<VolumeName> = match dataset.contains('/') {
        true => Some(
            dataset
                .parse()
                .map_err(|error: units::NameError| Failure::usage(error.to_string()))?,
        ),
        false => None,
    };
    let below: DatasetRef<'_> = match &named {
        Some(name) => name.into(),
        None => context.pool.name().into(),
    };
    let all = context.pool.datasets(below, Snapshots::Only);
    let mut all = all.map_err(failures::dataset)?;
    all.retain(|info| recursive || of(info) == dataset);
    all.sort_by(|a, b| (of(a), a.creation_txg).cmp(&(of(b), b.creation_txg)));
    Ok(all)
}

/// The dataset of a snapshot.
fn of(snapshot: &DatasetInfo) -> &str {
    let name = snapshot.name.split_once('@');
    name.map_or(snapshot.name.as_str(), |(dataset, _)| dataset)
}

/// Returns those of a set. A name that does not exist is an error in the dataset of the set only, not below it.
fn in_set<'i>(set: &SnapshotSet, all: &'i [DatasetInfo]) -> Result<Vec<&'i DatasetInfo>, Failure> {
    let mut found = Vec::new();
    let mut is_found = false;
    for part in all.chunk_by(|a, b| of(a) == of(b)) {
        let tags: Vec<&str> = part
            .iter()
            .map(|info| &info.name[of(info).len() + 1..])
            .collect();
        if let Some(selected) = set.select(&tags) {
            is_found = true;
            refuse_reversed(set, &tags, &selected)?;
            let selected: BTreeSet<&str> = selected.into_iter().collect();
            let those = part.iter().zip(&tags);
            let those = those.filter(|(_, tag)| selected.contains(*tag));
            found.extend(those.map(|(info, _)| info));
        }
    }
    let is_pattern = matches!(set.which(), Which::Like(_));
    let has_all = matches!(
        set.which(),
        Which::Range {
            first: None,
            last: None
        }
    );
    if !is_found && !is_pattern && !has_all {
        let message = format!("{set} does not exist");
        let advice = format!("`bulkhead snapshot list {}` lists all", set.dataset());
        return Err(Failure::new(FailureKind::NotFound, message).advise(advice));
    }
    Ok(found)
}

fn is_as_old(info: &DatasetInfo, older_than_s: Option<u64>) -> bool {
    older_than_s.is_none_or(|age| schedule::now_s().saturating_sub(info.creation_time_s) >= age)
}

/// Refuses if a volume is a clone of one of them.
fn refuse_clones(context: &Context<'_>, names: &[SnapshotName]) -> Result<(), Failure> {
    let root = context.pool.name();
    let all = context.pool.datasets(root.into(), Snapshots::Skip);
    let all = all.map_err(failures::dataset)?;
    let origin = |info: &DatasetInfo| {
        let origin = info.origin.as_deref()?;
        let is_one = names.iter().any(|name| name.as_str() == origin);
        is_one.then(|| format!("{} is a clone of {origin}", info.name))
    };
    match all.iter().find_map(origin) {
        None => Ok(()),
        Some(message) => Err(Failure::new(FailureKind::Busy, message)),
    }
}

fn list_of(names: &[SnapshotName]) -> String {
    let names: Vec<&str> = names.iter().map(SnapshotName::as_str).collect();
    names.join(", ")
}

fn list(context: &Context<'_>, request: &List) -> Result<Answer, Failure> {
    let root = context.pool.name();
    let (dataset, recursive) = match (&request.only, &request.volume) {
        (Some(set), _) => (set.dataset(), request.recursive),
        (None, Some(volume)) => (volume.as_str(), request.recursive),
        (None, None) => (root.as_str(), true),
    };
    let all = of_dataset(context, dataset, recursive)?;
    let wanted = match &request.only {
        Some(set) => in_set(set, &all)?,
        None => all.iter().collect(),
    };
    let view = |info: &DatasetInfo| {
        Some(SnapshotView {
            name: info.name.parse().ok()?,
            used: info.used.get(),
            referenced: info.referenced.get(),
            created_unix_s: Some(info.creation_time_s),
        })
    };
    let wanted = wanted.into_iter();
    let wanted = wanted.filter(|info| is_as_old(info, request.older_than_s));
    Ok(Answer::Snapshots(wanted.filter_map(view).collect()))
}

/// Clones, active sends and bookmarks refer to a snapshot by its GUID, and are not affected. A schedule identifies its
/// snapshots by their names, and ignores a renamed one.
fn rename(
    context: &Context<'_>,
    from: &SnapshotName,
    to: &SnapshotName,
) -> Result<Answer, Failure> {
    if from.volume() != to.volume() {
        let message = format!("{from} cannot become {to}: a snapshot stays with its volume");
        return Err(Failure::usage(message)
            .advise("`bulkhead snapshot clone` creates a volume from it, with another name"));
    }
    let found = context.pool.dataset(from.into());
    found.map_err(|error| match error.kind {
        DatasetErrorKind::NotFound => no_snapshot(from),
        _ => failures::dataset(error),
    })?;
    if from == to {
        return Ok(Done::already(format!("{from} has that name")));
    }
    if let Some(own) = [from, to].into_iter().find(|name| replicate::is_own(name)) {
        let message = format!("replication finds its snapshots by names such as {own}");
        return Err(
            Failure::new(FailureKind::Busy, message).advise(match own == from {
                true => "to retain its contents, clone it: `bulkhead snapshot clone`",
                false => "choose another name",
            }),
        );
    }
    refuse_temporary(to)?;
    let renamed = context.pool.rename_snapshot(from, to.tag());
    renamed.map_err(|error| match error.kind {
        DatasetErrorKind::Exists => Failure::new(
            FailureKind::Exists,
            format!("there is a snapshot {to} already"),
        ),
        _ => failures::dataset(error),
    })?;
    Ok(Done::changed(format!("renamed {from} to {to}")))
}

/// There is none of that name.
pub fn no_snapshot(name: &SnapshotName) -> Failure {
    let volume = name.volume();
    Failure::not_found(format!("there is no snapshot {name}"))
        .advise(format!("`bulkhead snapshot list {volume}` shows them"))
}

/// A clone has a new identity: to initiators it is another disk, even while its contents are
/// the same.
fn clone(
    context: &Context<'_>,
    from: &SnapshotName,
    to: &VolumeName,
    properties: &Properties,
) -> Result<Answer, Failure> {
    filesystem::refuse_unserved(properties)?;
    let of = context.pool.dataset(from.into());
    let is_files = of.map_err(failures::dataset)?.kind == DatasetKind::Filesystem;
    if is_files {
        directory_names::refuse_taken(context, to)?;
    }
    let mut values = volume::values(properties);
    if !is_files {
        let (name, identity) = new_identity()?;
        values.extend(identity.map(|identity| (name, Value::Text(identity))));
    }
    let cloned = context.pool.clone_snapshot(from, to, &values);
    context.documents.changed(to.as_str());
    cloned.map_err(|error| failures::dataset_of(context.pool, error))?;
    if is_files {
        // It can be shared by an inherited property.
        context.hooks.exports_changed()?;
    }
    Ok(Done::changed(format!("cloned {from} to {to}")))
}
