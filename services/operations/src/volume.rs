//! Requests about volumes.

use std::collections::BTreeMap;

use control::answer::{Done, Property, SpaceView, VolumeView};
use control::exports::{
    EXPORT_PROPERTY, IDENTITY_PROPERTY, Identity, PROPERTY_PREFIX, VolumeDocument, VolumeFacts,
};
use control::operations::volume::VolumeRequest;
use control::operations::volume::create::Create;
use control::operations::volume::destroy::Destroy;
use control::operations::volume::discard_log::DiscardLog;
use control::operations::volume::resize::Resize;
use control::operations::{Confirmable, Preview, property_names};
use control::request::Properties;
use control::selection::Selection;
use control::{Answer, Failure, FailureKind};
use engine::dataset::{
    DatasetErrorKind, DatasetInfo, DatasetKind, Depth, FileSystemSpec, PropertySource, Snapshots,
    Value, VolumeShape, VolumeSpec,
};
use units::{ByteCount, VolumeName};

use super::datasets::{Dataset, is_sparse};
use super::documents::{All, Documents, export_document, new_identity, no_volume};
use super::in_use::Used;
use super::loss::{self, Loss};
use super::{
    Context, directory_names, failures, filesystem, holds, key, properties as refused_properties,
    rights, rollback, snapshot,
};
use crate::needs;

/// Performs one request.
pub fn perform(context: &Context<'_>, request: VolumeRequest) -> Result<Answer, Failure> {
    match request {
        VolumeRequest::Create(request) => create(context, &request),
        VolumeRequest::List(request) => list(context, request.only.as_ref()),
        VolumeRequest::Space(request) => spaces(context, request.only.as_ref()),
        VolumeRequest::Show(request) => show(context, &request.name),
        VolumeRequest::Resize(request) => {
            let Resize {
                name,
                size,
                allow_shrink,
                preview,
            } = request;
            resize(context, &name, size, allow_shrink, preview)
        }
        VolumeRequest::Destroy(request) => destroy_volume(context, &request),
        VolumeRequest::Rename(request) => {
            refuse_files(context, &request.from)?;
            rename(context, &request.from, &request.to, request.keep_rights)
        }
        VolumeRequest::Rollback(request) => {
            refuse_files(context, &request.to.volume())?;
            rollback::perform(context, &request.to, request.destroy_newer, request.preview)
        }
        VolumeRequest::Rescue(_) => Err(super::not_here("a rescue")),
        VolumeRequest::Promote(request) => promote(context, &request.name, request.keep_rights),
        VolumeRequest::DiscardLog(request) => discard_log(context, &request),
        VolumeRequest::Get(request) => get(context, &request.name, &request.names),
        VolumeRequest::Set(request) => set(context, &request.name, request.properties),
        VolumeRequest::Inherit(request) => inherit(context, &request.name, &request.names),
        VolumeRequest::Freeze(request) => {
            let lasting = request.lasting()?;
            let names = existing(context, request.names)?;
            context.hooks.freeze(&names, lasting)
        }
        VolumeRequest::Thaw(request) => context.hooks.thaw(&existing(context, request.names)?),
    }
}

/// The volumes of these names, each once.
fn existing(context: &Context<'_>, mut names: Vec<VolumeName>) -> Result<Vec<VolumeName>, Failure> {
    names.sort();
    names.dedup();
    for name in &names {
        let found = context.pool.dataset(name.into());
        if found.map_err(failures::dataset)?.volume.is_none() {
            return Err(not_a_volume(name));
        }
    }
    Ok(names)
}

/// Refuses a file system with files, because a command about volumes is not meant for it. An empty file system can be a
/// group of volumes.
fn refuse_files(context: &Context<'_>, name: &VolumeName) -> Result<(), Failure> {
    // The next step reports a missing dataset.
    let is_files = context.pool.dataset(name.into()).is_ok_and(|info| {
        info.kind == DatasetKind::Filesystem && info.objects > FileSystemSpec::OBJECTS_EMPTY
    });
    if !is_files {
        return Ok(());
    }
    Err(Failure::usage(format!("{name} is a file system"))
        .advise("the commands of `bulkhead filesystem` are for file systems"))
}

pub fn rename(
    context: &Context<'_>,
    from: &VolumeName,
    to: &VolumeName,
    keep_rights: bool,
) -> Result<Answer, Failure> {
    super::refuse_space(to.as_str())?;
    let known = context.pool.dataset(from.into());
    if known.is_ok_and(|info| info.kind == DatasetKind::Filesystem) {
        directory_names::refuse_taken(context, to)?;
    }
    if keep_rights {
        rights::refuse_other_location(context, from, to)?;
    }
    let renamed = context.pool.rename(from, to);
    // Those below it have other names, too.
    context.documents.forget();
    renamed.map_err(failures::dataset)?;
    context.hooks.renamed(from, to);
    context.hooks.exports_changed()?;
    Ok(Done::changed(format!("renamed {from} to {to}")))
}

pub fn promote(
    context: &Context<'_>,
    name: &VolumeName,
    keep_rights: bool,
) -> Result<Answer, Failure> {
    let found = context
        .pool
        .dataset(name.into())
        .map_err(failures::dataset)?;
    let Some(origin) = found.origin else {
        return Ok(Done::already(format!("{name} depends on no other volume")));
    };
    if keep_rights {
        rights::refuse_other_owner(context, name, &origin)?;
    }
    needs(context.pool.promotion())?
        .promote(name)
        .map_err(failures::dataset)?;
    Ok(Done::changed(format!(
        "{name} depends on no other volume now"
    )))
}

fn discard_log(context: &Context<'_>, request: &DiscardLog) -> Result<Answer, Failure> {
    let DiscardLog { name, preview } = request;
    if preview.is_wanted() {
        let waits = match needs(context.pool.logs())?.is_unreplayed(name) {
            // Discarding an unreadable log is the purpose of the request.
            Err(error) if error.kind == DatasetErrorKind::LogUnreadable => Ok(true),
            other => other.map_err(failures::dataset),
        };
        return match (waits?, preview.dry_run) {
            (false, _) => Ok(Done::already(format!("no intent log of {name} is pending"))),
            (true, true) => Ok(loss::dry_run(request.loss())),
            (true, false) => {
                let failure = Failure::new(FailureKind::NeedsConfirmation, request.loss());
                Err(failure.advise(format!("if you intend that, add --{}", DiscardLog::OPTION)))
            }
        };
    }
    let discarded = needs(context.pool.logs())?.discard_log(name);
    match discarded.map_err(failures::dataset)? {
        true => Ok(Done::changed(format!(
            "discarded the intent log of {name}: its last acknowledged writes are lost"
        ))),
        false => Ok(Done::already(format!("no intent log of {name} is pending"))),
    }
}

fn create(context: &Context<'_>, create: &Create) -> Result<Answer, Failure> {
    let name = &create.name;
    super::refuse_space(name.as_str())?;
    refuse_no_sizes(&create.properties)?;
    if create.exist_ok {
        if let Ok(info) = context.pool.dataset(name.into()) {
            let size = info.volume.map(|shape| shape.size.get());
            if size == Some(0) {
                return Ok(Done::already(format!(
                    "volume {name} exists already, locked"
                )));
            }
            if size == Some(create.size) {
                return Ok(already(format!("volume {name}"), &create.properties));
            }
            let message = match size {
                Some(size) => format!("volume {name} exists already, with a size of {size}"),
                None => format!("{name} exists already, and is not a volume"),
            };
            return Err(
                Failure::new(FailureKind::Exists, message).advise("`volume resize` changes it")
            );
        }
    }
    // Read before anything is made.
    let key = create.key.as_ref().map(key::new_key).transpose()?;
    let own = create.key.as_ref().and_then(key::own_property);
    let parents = context.make_parents(name, create.parents)?;
    let (property, identity) = new_identity()?;
    let mut properties = values(&create.properties);
    properties.extend(identity.map(|value| (property, Value::Text(value))));
    properties.extend(own.map(|(name, value)| (name, Value::Text(value))));
    let block_size = create.block_size.map(|bytes| ByteCount(u64::from(bytes)));
    let spec = VolumeSpec {
        name: name.clone(),
        size: ByteCount(create.size),
        block_size: block_size.unwrap_or(VolumeSpec::BLOCK_SIZE_DEFAULT),
        sparse: create.sparse,
        properties,
        key,
    };
    let created = context.pool.create_volume(&spec);
    context.documents.changed(name.as_str());
    created.map_err(|error| {
        let value = |property: &str| create.properties.get(property).map(String::as_str);
        let failure = refused_properties::of_dataset(context, error, name.as_str(), value);
        without_room(failure, create)
    })?;
    parents.keep();
    let size = ByteCount(create.size);
    Ok(Done::changed(format!("created volume {name} of {size}")))
}

/// Returns the response for an existing dataset, which is not changed.
pub fn already(what: String, properties: &Properties) -> Answer {
    Done::already(match properties.is_empty() {
        true => format!("{what} exists already"),
        false => format!("{what} exists already; its properties are unchanged"),
    })
}

/// A volume that reserves its full size might not fit where a sparse one does.
fn without_room(failure: Failure, create: &Create) -> Failure {
    match failure.kind {
        FailureKind::NoSpace if !create.sparse => failure.advise(format!(
            "choose a smaller size: `bulkhead volume space {}` shows the available space; or reserve no space with --sparse, \
             and watch that the pool does not fill up",
            create.name.pool()
        )),
        _ => failure,
    }
}

/// Converts the properties to the engine's form: text, which the engine validates.
pub fn values(properties: &Properties) -> Vec<(String, Value)> {
    let pairs = properties.iter();
    pairs
        .map(|(name, value)| (name.clone(), value_of(name, value)))
        .collect()
}

/// Properties that are sizes.
const SIZES: [&str; 6] = [
    "volsize",
    "recordsize",
    "reservation",
    "refreservation",
    QUOTAS[0],
    QUOTAS[1],
];
/// Properties that limit the space of a dataset.
const QUOTAS: [&str; 2] = ["quota", "refquota"];

/// Refuses values of size properties that are not sizes.
pub fn refuse_no_sizes(properties: &Properties) -> Result<(), Failure> {
    for (name, value) in properties {
        if !SIZES.contains(&name.as_str()) || value == NO_SIZE {
            continue;
        }
        if let Err(error) = value.parse::<ByteCount>() {
            return Err(Failure::usage(format!("{name}={value}: {error}")));
        }
    }
    Ok(())
}

/// No limit, in a property of type size.
const NO_SIZE: &str = "none";

/// Sizes may be written as people write them.
fn value_of(name: &str, value: &str) -> Value {
    const NUMBERS: [&str; 1] = ["copies"];
    match value.parse::<ByteCount>() {
        Ok(size) if SIZES.contains(&name) => Value::Number(size.get()),
        Ok(number) if NUMBERS.contains(&name) => Value::Number(number.get()),
        _ if SIZES.contains(&name) && value == NO_SIZE => Value::Number(0),
        _ => Value::Text(value.to_owned()),
    }
}

fn list(context: &Context<'_>, only: Option<&Selection>) -> Result<Answer, Failure> {
    let documents = context.all()?;
    let infos = context.selected(only)?;
    let mut views: Vec<_> = infos
        .iter()
        .filter_map(|info| view(info, &documents))
        .collect();
    for view in &mut views {
        view.frozen = context.hooks.frozen(&view.name);
    }
    Ok(Answer::Volumes(views))
}

fn view(info: &DatasetInfo, documents: &All) -> Option<VolumeView> {
    let shape = info.volume?;
    let own = documents.own(&info.name);
    let value = |name: &str| own.and_then(|own| own.get(name));
    let document = value(EXPORT_PROPERTY)
        .and_then(|text| VolumeDocument::decode(EXPORT_PROPERTY, text).ok())
        .unwrap_or_default();
    Some(VolumeView {
        name: info.name.parse().ok()?,
        size: shape.size.get(),
        block_size: u32::try_from(shape.block_size.get()).ok()?,
        // No volume has a size of 0. A volume without its key does not report its size.
        locked: shape.size.get() == 0,
        frozen: None,
        used: info.used.get(),
        referenced: info.referenced.get(),
        sparse: is_sparse(info),
        origin: info.origin.clone(),
        space: space(info),
        exports: document.places(),
        identity: value(IDENTITY_PROPERTY)
            .and_then(|text| Identity::decode(IDENTITY_PROPERTY, text).ok()),
        properties: BTreeMap::new(),
    })
}

fn spaces(context: &Context<'_>, only: Option<&Selection>) -> Result<Answer, Failure> {
    let all = context.selected(only)?;
    let named = |info: &DatasetInfo| SpaceView {
        name: info.name.clone(),
        ..space(info)
    };
    Ok(Answer::Space(all.iter().map(named).collect()))
}

pub fn space(info: &DatasetInfo) -> SpaceView {
    let limit = |bytes: ByteCount| (bytes.get() > 0).then_some(bytes.get());
    let space = &info.space;
    SpaceView {
        name: String::new(),
        used: info.used.get(),
        available: info.available.get(),
        by_data: space.by_data.get(),
        by_snapshots: space.by_snapshots.get(),
        by_children: space.by_children.get(),
        by_reservation: space.by_reservation.get(),
        written: space.written.get(),
        logical_used: space.logical.get(),
        logical_referenced: info.logical_referenced.get(),
        compress_percent: space.compress_percent,
        quota: limit(space.quota),
        refquota: limit(space.ref_quota),
        reservation: limit(space.reservation),
        refreservation: limit(info.refreservation),
    }
}

fn show(context: &Context<'_>, name: &VolumeName) -> Result<Answer, Failure> {
    let info = context
        .pool
        .dataset(name.into())
        .map_err(failures::dataset)?;
    let documents = context.all()?;
    let mut view = view(&info, &documents).ok_or_else(|| not_a_volume(name))?;
    view.properties = properties(context, &Dataset::Volume(name.clone()))?;
    view.frozen = context.hooks.frozen(name);
    Ok(Answer::Volume(Box::new(view)))
}

fn not_a_volume(name: &VolumeName) -> Failure {
    Failure::usage(format!("{name} is not a volume"))
}

/// Refuses a volume without its key. Its size and block size are not known and are reported as
/// zero.
pub fn refuse_locked(name: &VolumeName, shape: VolumeShape) -> Result<(), Failure> {
    if shape.block_size.get() != 0 {
        return Ok(());
    }
    let message = format!("the key of {name} is not loaded");
    Err(Failure::new(FailureKind::Unavailable, message)
        .advise(control::key::how_to_load("volume", name.as_str())))
}

fn resize(
    context: &Context<'_>,
    name: &VolumeName,
    size: u64,
    allow_shrink: bool,
    preview: Preview,
) -> Result<Answer, Failure> {
    let before = context
        .pool
        .dataset(name.into())
        .map_err(failures::dataset)?;
    let old = before.volume.ok_or_else(|| not_a_volume(name))?;
    let (old_size, block) = (old.size.get(), old.block_size.get());
    refuse_locked(name, old)?;
    if size == 0 || size % block != 0 {
        let message = format!(
            "a size of {size} bytes is no positive multiple of the block size, {block} bytes"
        );
        let near = ByteCount(size).multiples_near(block);
        return Err(Failure::usage(message).advise(format!("use {near} bytes")));
    }
    if size == old_size {
        return Ok(Done::already(format!(
            "{name} has {} already",
            ByteCount(size)
        )));
    }
    let shrinks = format!(
        "{name} would shrink from {} to {}: the data beyond that would be lost",
        ByteCount(old_size),
        ByteCount(size)
    );
    if preview.is_wanted() {
        return Ok(match size < old_size {
            true => loss::dry_run(shrinks),
            false => loss::dry_run(format!("{name} would grow to {}", ByteCount(size))),
        });
    }
    if size < old_size && !allow_shrink {
        let message = shrinks;
        return Err(Failure::new(FailureKind::NeedsConfirmation, message)
            .advise("if you intend that, add --allow-shrink"));
    }
    resize_checked(context, name, &before, ByteCount(size), size > old_size)?;
    context.hooks.resized(name);
    context.hooks.exports_changed()?;
    Ok(Done::changed(format!("{name} has {} now", ByteCount(size))))
}

/// Space is reserved before a volume grows, so that a refused one is unchanged.
fn resize_checked(
    context: &Context<'_>,
    name: &VolumeName,
    before: &DatasetInfo,
    size: ByteCount,
    grows: bool,
) -> Result<(), Failure> {
    let adjust = || context.pool.adjust_reservation(before, size);
    if grows {
        adjust().map_err(|error| failures::dataset_of(context.pool, error))?;
    }
    let resized = context.hooks.resize(name, size.get());
    let resized = resized.and_then(|is_open| match is_open {
        true => Ok(()),
        false => {
            let resized = context.pool.resize_volume(name, size);
            resized.map_err(|error| failures::dataset_of(context.pool, error))
        }
    });
    if resized.is_err() && grows {
        reserve_as(context, name, before);
    }
    resized?;
    if !grows {
        restore_reservation(name, adjust());
    }
    Ok(())
}

/// Restores the reservation after a failure.
pub fn reserve_as(context: &Context<'_>, name: &VolumeName, before: &DatasetInfo) {
    let bytes = Value::Number(before.refreservation.get());
    let reserved = [("refreservation".to_owned(), bytes)];
    let set = context.pool.set_dataset_properties(name.into(), &reserved);
    if let Err(error) = set {
        tracing::warn!(volume = %name, %error, "its reservation is not as it was");
    }
}

/// If this fails, the shrunk volume has a reservation that is too large, and no other effect.
pub fn restore_reservation(name: &VolumeName, adjusted: Result<(), engine::dataset::DatasetError>) {
    if let Err(error) = adjusted {
        tracing::warn!(volume = %name, %error, "more is set aside than it needs");
    }
}

/// Destroys a volume, complete or not.
fn destroy_volume(context: &Context<'_>, request: &Destroy) -> Result<Answer, Failure> {
    let name = &request.name;
    // The next step reports a missing dataset.
    let found = context.pool.dataset(name.into());
    if found.is_ok_and(|info| info.kind == DatasetKind::Filesystem) {
        let all = context.pool.datasets(name.into(), Snapshots::Skip);
        let below = all.map_err(failures::dataset)?.len().saturating_sub(1);
        let holds = match below {
            0 => String::new(),
            below => format!(" with {below} dataset(s) below it"),
        };
        return Err(
            Failure::usage(format!("{name} is a file system{holds}, and no volume")).advise(format!(
                "`bulkhead filesystem destroy {name} --recursive --dry-run` lists the datasets that would be destroyed with it"
            )),
        );
    }
    let what = Destroyed {
        name,
        recursive: request.recursive,
        exported: request.exported,
    };
    destroy::<Destroy>(context, &what, request.preview)
}

/// A dataset to destroy.
pub struct Destroyed<'a> {
    /// Which.
    pub name: &'a VolumeName,
    /// With its snapshots, and all below it.
    pub recursive: bool,
    /// Although it is exported or shared.
    pub exported: bool,
}

pub fn destroy<T: Confirmable>(
    context: &Context<'_>,
    what: &Destroyed<'_>,
    preview: Preview,
) -> Result<Answer, Failure> {
    let name = what.name;
    let info = context
        .pool
        .dataset(name.into())
        .map_err(|error| match error.kind {
            DatasetErrorKind::NotFound => no_volume(name),
            _ => failures::dataset(error),
        })?;
    let mut loss = Loss::of_dataset(context, name, what.recursive)?;
    // A refusal must find the volume still being served, if it was.
    let refusal = refuse_destroy(context, what).err();
    if preview.is_wanted() {
        if what.exported {
            loss.ended = ended_with(context, name);
        }
        let shown = loss.preview::<T>(preview, refusal.as_ref())?;
        return Ok(shown.expect("a preview is wanted"));
    }
    refusal.map_or(Ok(()), Err)?;
    let ended = end_exports(context, name)?;
    context.hooks.exports_changed()?;
    let closed = context.close(name);
    let depth = match what.recursive {
        true => Depth::Recursive,
        false => Depth::One,
    };
    let destroyed = context.pool.destroy_dataset(name, depth);
    let destroyed = destroyed.map_err(failures::dataset);
    drop(closed);
    match depth {
        Depth::One => context.documents.changed(name.as_str()),
        Depth::Recursive => context.documents.forget(),
    }
    if let Err(failure) = destroyed {
        restore_exports(context, ended);
        return Err(part_destroyed(context, loss, failure));
    }
    if info.kind == DatasetKind::Filesystem {
        // Its clients are blocked until the state is served again.
        context.hooks.exports_changed()?;
    }
    let kind = match info.kind {
        DatasetKind::Filesystem => "file system",
        DatasetKind::Volume | DatasetKind::Other => "volume",
    };
    Ok(loss.destroyed(format_args!("destroyed {kind} {name}")))
}

/// Refuses to destroy a dataset with dependents, or one that clients have access to.
fn refuse_destroy(context: &Context<'_>, what: &Destroyed<'_>) -> Result<(), Failure> {
    match what.recursive {
        false => refuse_dependents(context, what.name)?,
        true => {
            refuse_clones(context, what.name)?;
            let snapshots = snapshot::below(context, what.name.as_str())?;
            holds::refuse_held(context, &snapshots)?;
        }
    }
    if !what.exported {
        filesystem::refuse_shared(context, what.name)?;
        refuse_exported(context, what.name)?;
    }
    Ok(())
}

/// A recursive destroy that failed may have destroyed some already.
fn part_destroyed(context: &Context<'_>, loss: Loss, failure: Failure) -> Failure {
    let gone = loss.gone(context);
    match gone.is_empty() {
        true => failure,
        false => {
            let names: Vec<&str> = gone.iter().map(String::as_str).collect();
            let message = format!(
                "{}; before that {} of {} were destroyed: {}",
                failure.message,
                gone.len(),
                loss.count(),
                loss::some_of(&names)
            );
            Failure { message, ..failure }
        }
    }
}

/// Refuses if `name` or a volume below it is exported.
fn refuse_exported(context: &Context<'_>, name: &VolumeName) -> Result<(), Failure> {
    let all = context.all()?;
    match exported_in(&all, name).next() {
        None => Ok(()),
        Some(facts) => {
            let users = context.hooks.users_of(&Used::Volume(&facts.name));
            Err(exported_failure(&facts.name, &users))
        }
    }
}

fn exported_in<'a>(all: &'a All, name: &'a VolumeName) -> impl Iterator<Item = &'a VolumeFacts> {
    let is_meant = move |facts: &&VolumeFacts| {
        facts.name.is_at_or_below(name) && !export_document(facts).is_ok_and(|d| d.is_empty())
    };
    all.volumes().filter(is_meant)
}

/// Removes the exports of `name` and of all below it. Returns them.
fn end_exports(
    context: &Context<'_>,
    name: &VolumeName,
) -> Result<Vec<(VolumeName, String)>, Failure> {
    let (mut ended, mut edits) = (Vec::new(), Vec::new());
    let all = context.all()?;
    for facts in exported_in(&all, name) {
        let own = all.own(facts.name.as_str());
        let document = own.and_then(|own| own.get(EXPORT_PROPERTY)).cloned();
        let gone = vec![(EXPORT_PROPERTY.to_owned(), None)];
        edits.push((facts.name.to_string(), gone));
        ended.extend(document.map(|document| (facts.name.clone(), document)));
    }
    if !edits.is_empty() {
        context.edit_all(edits)?;
    }
    Ok(ended)
}

/// The exports and shares that end with `name`, each with its clients.
fn ended_with(context: &Context<'_>, name: &VolumeName) -> Vec<String> {
    let shared = filesystem::refuse_shared(context, name).err();
    let mut ended: Vec<String> = shared.into_iter().map(|failure| failure.message).collect();
    if let Ok(all) = context.all() {
        ended.extend(exported_in(&all, name).map(|facts| {
            let users = context.hooks.users_of(&Used::Volume(&facts.name));
            exported_failure(&facts.name, &users).message
        }));
    }
    ended
}

/// An exported volume is refused even without connected clients: they might reconnect.
fn exported_failure(name: &VolumeName, users: &[String]) -> Failure {
    let by = match users {
        [] => String::new(),
        users => format!(", and in use by {}", users.join(", ")),
    };
    Failure::new(FailureKind::Busy, format!("{name} is exported{by}"))
        .advise("unmap or unexport it first, or add --in-use to end its exports and connections")
}

/// Restores the exports of volumes that could not be destroyed.
fn restore_exports(context: &Context<'_>, ended: Vec<(VolumeName, String)>) {
    for (name, document) in ended {
        let back = vec![(EXPORT_PROPERTY.to_owned(), Some(document))];
        if let Err(failure) = context.edit(name.as_str(), back) {
            // Expected for destroyed volumes: some were destroyed before one failed.
            tracing::debug!(volume = %name, %failure, "not exported again");
        }
    }
    if let Err(failure) = context.hooks.exports_changed() {
        tracing::error!(%failure, "volumes that could not be destroyed are not served again");
    }
}

/// Refuses if a volume elsewhere is a clone of a dataset to be destroyed.
fn refuse_clones(context: &Context<'_>, name: &VolumeName) -> Result<(), Failure> {
    let all = context
        .pool
        .datasets(context.pool.name().into(), Snapshots::Skip);
    let all = all.map_err(failures::dataset)?;
    let (inside, snapshots) = (format!("{name}/"), format!("{name}@"));
    let is_meant = |other: &str| other == name.as_str() || other.starts_with(&inside);
    let clone = all.iter().find_map(|info| {
        let origin = info.origin.as_deref()?;
        let is_of_it = origin.starts_with(&snapshots) || origin.starts_with(&inside);
        (is_of_it && !is_meant(&info.name)).then_some((&info.name, origin))
    });
    let Some((clone, origin)) = clone else {
        return Ok(());
    };
    let message = format!("{clone} is a clone of {origin}");
    Err(Failure::new(FailureKind::Busy, message).advise(format!(
        "destroy {clone} first, or make it independent: `bulkhead volume promote {clone}`"
    )))
}

fn refuse_dependents(context: &Context<'_>, name: &VolumeName) -> Result<(), Failure> {
    let all = context
        .pool
        .datasets(name.into(), Snapshots::Include)
        .map_err(failures::dataset)?;
    match all.iter().find(|info| info.name != name.as_str()) {
        None => Ok(()),
        Some(dependent) => {
            let message = format!("{name} has {}", dependent.name);
            Err(Failure::new(FailureKind::Busy, message)
                .advise("destroy that first, or add --recursive"))
        }
    }
}

/// All properties in effect. Those with secrets are not among them.
pub fn properties(
    context: &Context<'_>,
    dataset: &Dataset,
) -> Result<BTreeMap<String, Property>, Failure> {
    let found = context.pool.dataset_properties(dataset.into());
    let found = found.map_err(failures::dataset)?.into_iter();
    let mut all: BTreeMap<String, Property> = found
        .filter(|(name, _)| !name.starts_with(PROPERTY_PREFIX))
        .map(|(name, property)| {
            let source = match property.source {
                PropertySource::Native => "-".to_owned(),
                PropertySource::Default => "default".to_owned(),
                PropertySource::Local => "local".to_owned(),
                PropertySource::Received => "received".to_owned(),
                PropertySource::Inherited(from) => format!("inherited from {from}"),
            };
            let value = property.value.to_string();
            (name, Property { value, source })
        })
        .collect();
    // For file systems only. The library does not report a text property that is not set.
    if all.contains_key("recordsize") {
        all.entry(filesystem::SHARE.to_owned())
            .or_insert_with(|| Property {
                value: filesystem::OFF.to_owned(),
                source: "default".to_owned(),
            });
    }
    Ok(all)
}

pub fn get(context: &Context<'_>, name: &str, names: &[String]) -> Result<Answer, Failure> {
    let names = &property_names(names);
    rights::refuse_own_names(names.iter().map(String::as_str))?;
    let mut all = properties(context, &Dataset::parse(name)?)?;
    // Any user property can be set, so it is not unknown, but absent.
    for own in names.iter().filter(|name| name.contains(':')) {
        all.entry(own.clone()).or_insert_with(|| Property {
            value: "-".to_owned(),
            source: "-".to_owned(),
        });
    }
    chosen(all, names, name).map(Answer::Properties)
}

/// The properties of these names, or all.
pub fn chosen(
    all: BTreeMap<String, Property>,
    names: &[String],
    owner: &str,
) -> Result<BTreeMap<String, Property>, Failure> {
    if names.is_empty() {
        return Ok(all);
    }
    let known: Vec<String> = all.keys().cloned().collect();
    let pick = |name: &String| {
        let missing = || refused_properties::unknown(FailureKind::NotFound, owner, name, &known);
        // A name that is given twice is shown once.
        let found = all
            .get(name)
            .map(|property| (name.clone(), property.clone()));
        found.ok_or_else(missing)
    };
    names.iter().map(pick).collect()
}

pub fn set(context: &Context<'_>, name: &str, properties: Properties) -> Result<Answer, Failure> {
    refuse_no_sizes(&properties)?;
    filesystem::refuse_unserved(&properties)?;
    let dataset = Dataset::parse(name)?;
    if let (Some(size), Dataset::Volume(volume)) = (properties.get("volsize"), &dataset) {
        if properties.len() > 1 {
            return Err(Failure::usage("set volsize alone"));
        }
        let size: ByteCount = size
            .parse()
            .map_err(|error: units::ParseByteCountError| Failure::usage(error.to_string()))?;
        return resize(context, volume, size.get(), false, Preview::default());
    }
    let before = context.pool.dataset_properties((&dataset).into());
    let before = before.map_err(failures::dataset)?;
    let done = context
        .pool
        .set_dataset_properties((&dataset).into(), &values(&properties));
    if let Err(error) = done {
        set_back(context, &dataset, properties.keys(), &before);
        let value = |property: &str| properties.get(property).map(String::as_str);
        let failure = refused_properties::of_dataset(context, error, name, value);
        return Err(beyond_quota(failure, name, &properties));
    }
    filesystem::serve_as_set(context, name, properties.keys())?;
    let names: Vec<&str> = properties.keys().map(String::as_str).collect();
    Ok(Done::changed(format!("set {} of {name}", names.join(", "))))
}

/// Adds advice for a quota smaller than the used space.
fn beyond_quota(failure: Failure, name: &str, properties: &Properties) -> Failure {
    let is_quota = QUOTAS.iter().any(|quota| properties.contains_key(*quota));
    if failure.kind != FailureKind::NoSpace || !is_quota {
        return failure;
    }
    let pool = name.split('/').next().unwrap_or_default();
    failure.advise(format!(
        "{name} uses more than this quota: `bulkhead volume space {pool}` shows how much"
    ))
}

/// Restores the previous values of properties after another property of the same request failed.
fn set_back<'a>(
    context: &Context<'_>,
    dataset: &Dataset,
    names: impl Iterator<Item = &'a String>,
    before: &BTreeMap<String, engine::dataset::Property>,
) {
    let Ok(now) = context.pool.dataset_properties(dataset.into()) else {
        return;
    };
    for name in names.filter(|name| now.get(*name) != before.get(*name)) {
        let was = before
            .get(name)
            .filter(|was| matches!(was.source, PropertySource::Local | PropertySource::Received));
        let restored = match was {
            Some(was) => {
                let value = [(name.clone(), was.value.clone())];
                context.pool.set_dataset_properties(dataset.into(), &value)
            }
            None => context.pool.inherit_property(dataset.into(), name),
        };
        if let Err(error) = restored {
            tracing::warn!(%error, name, "a property retains the value of a failed request");
        }
    }
}

pub fn inherit(context: &Context<'_>, name: &str, names: &[String]) -> Result<Answer, Failure> {
    let dataset = Dataset::parse(name)?;
    let before = context.pool.dataset_properties((&dataset).into());
    let before = before.map_err(failures::dataset)?;
    for (done, property) in names.iter().enumerate() {
        let inherited = context.pool.inherit_property((&dataset).into(), property);
        if let Err(error) = inherited {
            set_back(context, &dataset, names[..done].iter(), &before);
            return Err(refused_properties::of_dataset(context, error, name, |_| {
                None
            }));
        }
    }
    filesystem::serve_as_set(context, name, names.iter())?;
    Ok(Done::changed(format!(
        "{name} inherits {}",
        names.join(", ")
    )))
}
