//! Requests about file systems.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use control::answer::{CheckView, Done, FaultView, FileClientView, FilesystemView, ShareView};
use control::operations::filesystem::FilesystemRequest;
use control::operations::filesystem::create::Create;
use control::operations::filesystem::destroy::Destroy;
use control::operations::filesystem::expire_client::ExpireClient;
use control::operations::property_names;
use control::owners::OwnerProperty;
use control::request::Properties;
use control::selection::Selection;
use control::{Answer, Failure, FailureKind};
use engine::Pool;
use engine::dataset::{
    DatasetErrorKind, DatasetInfo, DatasetKind, FileSystemSpec, Snapshots, Value,
};
use file_system::check::CheckReport;
use nfs::sharenfs::Share;
use units::{SnapshotName, VolumeName};

use super::datasets::Dataset;
use super::in_use::Used;
use super::{Context, directory_names, failures, key, owners, rollback, volume};
use crate::needs;

/// The ZFS property that sets which clients have access to a file system.
pub const SHARE: &str = "sharenfs";
/// Its value for a file system that is not shared.
pub const OFF: &str = "off";
const READ_ONLY: &str = "readonly";
/// The name of the snapshot that a check reads.
const CHECKED_TAG: &str = "bulkhead-check";
/// Maximum number of faults that are listed one by one.
const FAULTS_MAX: usize = 100;

/// Performs one request.
pub fn perform(
    context: &Context<'_>,
    request: FilesystemRequest,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    match request {
        FilesystemRequest::Create(request) => create(context, &request),
        FilesystemRequest::List(request) => list(context, request.only.as_ref()),
        FilesystemRequest::Show(request) => show(context, &request.name),
        FilesystemRequest::Destroy(request) => destroy(context, &request),
        FilesystemRequest::Rename(request) => {
            look(context, &request.from)?;
            volume::rename(context, &request.from, &request.to, request.keep_rights)
        }
        FilesystemRequest::Rollback(request) => {
            look(context, &request.to.volume())?;
            rollback::perform(context, &request.to, request.destroy_newer, request.preview)
        }
        FilesystemRequest::Check(request) => check(context, &request.name, progress),
        FilesystemRequest::Userspace(request) => {
            look(context, &request.name)?;
            owners::list(context, &request)
        }
        FilesystemRequest::OpenFiles(request) => {
            look(context, &request.name)?;
            let open = context.hooks.open_files(&request.name)?;
            Ok(Answer::OpenFiles(Box::new(open)))
        }
        FilesystemRequest::ExpireClient(request) => expire_client(context, &request),
        FilesystemRequest::Promote(request) => {
            look(context, &request.name)?;
            volume::promote(context, &request.name, request.keep_rights)
        }
        FilesystemRequest::Get(request) => {
            lookup_name(context, &request.name)?;
            get(context, &request.name, &request.names)
        }
        FilesystemRequest::Set(request) => {
            lookup_name(context, &request.name)?;
            match owners::is_any(request.properties.keys()) {
                true => owners::set(context, &request.name, &request.properties),
                false => volume::set(context, &request.name, request.properties),
            }
        }
        FilesystemRequest::Inherit(request) => {
            lookup_name(context, &request.name)?;
            volume::inherit(context, &request.name, &request.names)
        }
    }
}

/// Reads properties: those of users, groups and projects, and all other properties.
fn get(context: &Context<'_>, name: &str, names: &[String]) -> Result<Answer, Failure> {
    let names = property_names(names);
    let is_of_owner = |name: &&String| OwnerProperty::parse(name).is_some();
    let of_owners: Vec<&String> = names.iter().filter(is_of_owner).collect();
    if of_owners.is_empty() {
        return volume::get(context, name, &names);
    }
    let mut all = owners::get(context, name, &of_owners)?;
    let others = names.iter().filter(|name| !is_of_owner(name));
    let others: Vec<String> = others.cloned().collect();
    if !others.is_empty() {
        if let Answer::Properties(more) = volume::get(context, name, &others)? {
            all.extend(more);
        }
    }
    Ok(Answer::Properties(all))
}

/// There is none of that name.
pub fn no_filesystem(name: &str) -> Failure {
    let pool = name.split('/').next().unwrap_or_default();
    Failure::not_found(format!("there is no file system {name}"))
        .advise(format!("`bulkhead filesystem list {pool}` shows them"))
}

/// The file system of that name.
fn look(context: &Context<'_>, name: &VolumeName) -> Result<DatasetInfo, Failure> {
    lookup_name(context, name.as_str())
}

fn lookup_name(context: &Context<'_>, name: &str) -> Result<DatasetInfo, Failure> {
    let found = context.pool.dataset((&Dataset::parse(name)?).into());
    let info = found.map_err(|error| match error.kind {
        DatasetErrorKind::NotFound => no_filesystem(name),
        _ => failures::dataset(error),
    })?;
    match info.kind {
        DatasetKind::Filesystem => Ok(info),
        DatasetKind::Volume => Err(Failure::usage(format!("{name} is a volume"))
            .advise("the commands of `bulkhead volume` are for volumes")),
        DatasetKind::Other => Err(Failure::new(
            FailureKind::Busy,
            format!("{name} is not complete: it is being received"),
        )
        .advise(format!(
            "`bulkhead snapshot receive {name} --token` shows how to resume it"
        ))),
    }
}

/// Properties that cannot change after creation.
struct Fixed {
    utf8_only: bool,
}

/// Removes the creation-time properties from `properties`. Refuses values that the server cannot
/// serve.
fn fixed(properties: &mut Properties) -> Result<Fixed, Failure> {
    let mut utf8_only = false;
    for (name, served) in [("casesensitivity", "sensitive"), ("normalization", "none")] {
        match properties.remove(name) {
            Some(value) if value != served => return Err(not_served(name, &value, served)),
            _ => {}
        }
    }
    if let Some(value) = properties.remove("utf8only") {
        utf8_only = match value.as_str() {
            "on" => true,
            "off" => false,
            _ => {
                return Err(Failure::usage(format!("utf8only={value} is not possible"))
                    .advise("use on or off"));
            }
        };
    }
    Ok(Fixed { utf8_only })
}

fn not_served(name: &str, value: &str, served: &str) -> Failure {
    Failure::usage(format!("a file system with {name}={value} is not served"))
        .advise(format!("leave it out, or use {name}={served}"))
}

/// Refuses values that the server cannot serve. The library accepts any text for `sharenfs`.
pub fn refuse_unserved(properties: &Properties) -> Result<(), Failure> {
    if let Some(text) = properties.get(SHARE) {
        if text.is_empty() {
            return Err(Failure::usage("sharenfs is empty").advise("write off to share nothing"));
        }
        Share::parse(text).map_err(|error| Failure::usage(error.to_string()))?;
    }
    match properties.get("acltype").map(String::as_str) {
        Some(value @ ("posix" | "posixacl")) => Err(not_served("acltype", value, OFF)),
        _ => Ok(()),
    }
}

/// Applies new values of these properties of `dataset` to the running server, as far as its clients see a difference.
pub fn serve_as_set<'a>(
    context: &Context<'_>,
    dataset: &str,
    names: impl Iterator<Item = &'a String>,
) -> Result<(), Failure> {
    let mut is_served = false;
    for name in names {
        if name == READ_ONLY {
            // Whether files may be changed is decided when a file system is opened.
            context.hooks.close_for_reopen(dataset);
        }
        is_served |= [SHARE, READ_ONLY].contains(&name.as_str());
    }
    match is_served {
        true => context.hooks.exports_changed(),
        false => Ok(()),
    }
}

/// Refuses a new file system that would inherit values that the server cannot serve.
fn refuse_inherited(context: &Context<'_>, create: &Create) -> Result<(), Failure> {
    if create.properties.contains_key("acltype") {
        return Ok(());
    }
    let mut above = create.name.as_str();
    while let Some((parent, _)) = above.rsplit_once('/') {
        above = parent;
        // New parents inherit it too.
        let Ok(found) = context
            .pool
            .dataset_properties((&Dataset::parse(parent)?).into())
        else {
            continue;
        };
        return match found.get("acltype") {
            Some(property) if property.value == Value::from("posix") => {
                Err(Failure::usage(format!(
                    "{} would inherit acltype=posix from {parent}, which is not served",
                    create.name
                ))
                .advise("add -o acltype=off"))
            }
            _ => Ok(()),
        };
    }
    Ok(())
}

fn create(context: &Context<'_>, create: &Create) -> Result<Answer, Failure> {
    let name = &create.name;
    super::refuse_space(name.as_str())?;
    let mut properties = create.properties.keys();
    if let Some(property) = properties.find(|name| OwnerProperty::parse(name).is_some()) {
        return Err(owners::misplaced(property));
    }
    volume::refuse_no_sizes(&create.properties)?;
    refuse_unserved(&create.properties)?;
    if !file_system::is_owner(create.owner) || !file_system::is_owner(create.group) {
        return Err(
            Failure::usage(format!("{} is no number of a user or group", u32::MAX))
                .advise("give the number of a user and of a group, such as 1000"),
        );
    }
    let mut properties = create.properties.clone();
    let fixed = fixed(&mut properties)?;
    if create.exist_ok {
        match context.pool.dataset(name.into()).map(|info| info.kind) {
            Ok(DatasetKind::Filesystem) => {
                return Ok(volume::already(
                    format!("file system {name}"),
                    &create.properties,
                ));
            }
            Ok(_) => {
                let message = format!("{name} exists already, and is not a file system");
                return Err(
                    Failure::new(FailureKind::Exists, message).advise("choose another name")
                );
            }
            Err(_) => {}
        }
    }
    refuse_inherited(context, create)?;
    directory_names::refuse_taken(context, name)?;
    // Read before anything is made.
    let key = create.key.as_ref().map(key::new_key).transpose()?;
    let own = create.key.as_ref().and_then(key::own_property);
    let parents = context.make_parents(name, create.parents)?;
    let mut values = volume::values(&properties);
    values.extend(own.map(|(name, value)| (name, Value::Text(value))));
    let spec = FileSystemSpec {
        name: name.clone(),
        owner: create.owner,
        group: create.group,
        mode: create.mode.bits(),
        utf8_only: fixed.utf8_only,
        properties: values,
        key,
    };
    let created = needs(context.pool.files())?.create_file_system(&spec);
    context.documents.changed(name.as_str());
    created.map_err(|error| failures::dataset_of(context.pool, error))?;
    parents.keep();
    // It can be shared by an inherited property.
    context.hooks.exports_changed()?;
    Ok(Done::changed(format!("created file system {name}")))
}

/// Returns the options that a server of the pool needs so that clients reach its file systems. Without them the server
/// does not listen for NFS.
pub fn server_options(pool: &dyn Pool) -> Vec<String> {
    let set = pool.user_properties(SHARE).unwrap_or_default();
    let mut shares = set.values().filter_map(|own| own.get(SHARE));
    let protocol = &protocol_list::nfs::PROTOCOL;
    match shares.any(|text| matches!(Share::parse(text), Ok(Some(_)))) {
        true => vec![format!("--{} ADDRESS:{}", protocol.name, protocol.port)],
        false => Vec::new(),
    }
}

/// The shares of a pool.
pub struct Shares(BTreeMap<String, String>);

/// Reads them.
pub fn shares(context: &Context<'_>) -> Result<Shares, Failure> {
    let all = context.pool.user_properties(SHARE);
    let all = all.map_err(failures::dataset)?.into_iter();
    let shares = all.filter_map(|(dataset, mut own)| Some((dataset, own.remove(SHARE)?)));
    Ok(Shares(shares.collect()))
}

impl Shares {
    /// How a file system is shared; nothing if it is not, or if it is none.
    pub fn of(&self, info: &DatasetInfo) -> Option<String> {
        let share = self.share(&info.name).value;
        (is_meant(&info) && !["", OFF].contains(&share.as_str())).then_some(share)
    }

    /// How a dataset is shared: by the nearest share at or above it.
    fn share(&self, dataset: &str) -> ShareView {
        let mut at = Some(dataset);
        while let Some(name) = at {
            if let Some(value) = self.0.get(name) {
                return ShareView {
                    problem: Share::parse(value).err().map(|error| error.to_string()),
                    value: value.clone(),
                    from: (name != dataset).then(|| name.to_owned()),
                };
            }
            at = name.rsplit_once('/').map(|(parent, _)| parent);
        }
        ShareView {
            value: OFF.to_owned(),
            ..ShareView::default()
        }
    }
}

/// Returns the datasets without a loaded key.
fn locked(context: &Context<'_>) -> Result<BTreeSet<String>, Failure> {
    let keys = crate::encrypted_datasets(context.pool)?.into_iter();
    let locked = keys.filter(|key| !key.loaded);
    Ok(locked.map(|key| key.dataset).collect())
}

/// Returns descriptions of the clients that use a file system.
pub fn clients(context: &Context<'_>, name: &VolumeName) -> Vec<String> {
    context.hooks.users_of(&Used::Volume(name))
}

fn view(
    context: &Context<'_>,
    info: &DatasetInfo,
    shares: &Shares,
    locked: &BTreeSet<String>,
) -> Option<FilesystemView> {
    let name: VolumeName = info.name.parse().ok()?;
    Some(FilesystemView {
        clients: clients(context, &name),
        name,
        locked: locked.contains(&info.name),
        used: info.used.get(),
        available: info.available.get(),
        referenced: info.referenced.get(),
        share: shares.share(&info.name),
        origin: info.origin.clone(),
        space: volume::space(info),
        properties: BTreeMap::new(),
    })
}

/// A client that was active within this time might be alive: an idle client renews its lease in less.
const ALIVE_SECONDS: u64 = 20;

fn expire_client(context: &Context<'_>, asked: &ExpireClient) -> Result<Answer, Failure> {
    let ExpireClient {
        name,
        client,
        in_use,
    } = asked;
    look(context, name)?;
    let number = client.to_lowercase();
    let number = number.trim_start_matches("0x");
    let number = u64::from_str_radix(number, 16)
        .map_err(|_| Failure::usage(format!("{client} is no client's number, such as 1f")))?;
    let open = context.hooks.open_files(name)?;
    let is_meant = |known: &&FileClientView| known.client == format!("{number:x}");
    let Some(known) = open.clients.iter().find(is_meant) else {
        let message = format!("no client {client} has anything open or locked in {name}");
        return Err(Failure::new(FailureKind::NotFound, message)
            .advise(format!("look with `bulkhead filesystem open-files {name}`")));
    };
    let (who, address, silent_s) = (&known.name, &known.address, known.silent_s);
    if !in_use && !known.expired && silent_s < ALIVE_SECONDS {
        let message = format!("{who} from {address} was last active {silent_s} s ago");
        return Err(Failure::new(FailureKind::Busy, message)
            .advise("if its programs may lose their open files and locks, add --in-use"));
    }
    Ok(match context.hooks.expire_client(number) {
        true => Done::changed(format!(
            "all open files and locks of {who} from {address} are released"
        )),
        false => Done::already(format!("{who} from {address} has no open files or locks")),
    })
}

fn is_meant(info: &&DatasetInfo) -> bool {
    info.kind == DatasetKind::Filesystem
}

fn list(context: &Context<'_>, only: Option<&Selection>) -> Result<Answer, Failure> {
    let all = context.selected(only)?;
    let (shares, locked) = (shares(context)?, locked(context)?);
    let views = all.iter().filter(is_meant);
    let views = views.filter_map(|info| view(context, info, &shares, &locked));
    Ok(Answer::Filesystems(views.collect()))
}

fn show(context: &Context<'_>, name: &VolumeName) -> Result<Answer, Failure> {
    let info = look(context, name)?;
    let view = view(context, &info, &shares(context)?, &locked(context)?);
    let view = view.ok_or_else(|| no_filesystem(name.as_str()))?;
    let properties = volume::properties(context, &Dataset::Volume(name.clone()))?;
    Ok(Answer::Filesystem(Box::new(FilesystemView {
        properties,
        ..view
    })))
}

fn destroy(context: &Context<'_>, destroy: &Destroy) -> Result<Answer, Failure> {
    look(context, &destroy.name)?;
    let what = volume::Destroyed {
        name: &destroy.name,
        recursive: destroy.recursive,
        exported: destroy.shared,
    };
    volume::destroy::<Destroy>(context, &what, destroy.preview)
}

/// Refuses to remove a shared file system at or below `name`, even without active users: its clients might reconnect.
pub fn refuse_shared(context: &Context<'_>, name: &VolumeName) -> Result<(), Failure> {
    let all = context.pool.datasets(name.into(), Snapshots::Skip);
    let all = all.map_err(failures::dataset)?;
    let mut file_systems = all.iter().filter(is_meant).peekable();
    if file_systems.peek().is_none() {
        return Ok(());
    }
    let shares = shares(context)?;
    let Some((shared, share)) = file_systems.find_map(|info| Some((info, shares.of(info)?))) else {
        return Ok(());
    };
    let users = shared.name.parse().map(|name| clients(context, &name));
    let users: Vec<String> = users.unwrap_or_default();
    let by = match &users[..] {
        [] => String::new(),
        users => format!(", and in use by {}", users.join(", ")),
    };
    let message = format!("{} is shared with {share}{by}", shared.name);
    Err(Failure::new(FailureKind::Busy, message).advise(format!(
        "end that first: `bulkhead filesystem set {} sharenfs=off`; or add --in-use",
        shared.name
    )))
}

/// Refuses to let a received stream change the contents of a shared file system.
pub fn refuse_change_under_clients(
    context: &Context<'_>,
    info: &DatasetInfo,
) -> Result<(), Failure> {
    let Some(share) = shares(context)?.of(info) else {
        return Ok(());
    };
    let name = &info.name;
    let message =
        format!("{name} is shared with {share}, and its files would change under its clients");
    Err(Failure::new(FailureKind::Busy, message).advise(format!(
        "`bulkhead filesystem set {name} sharenfs=off` stops the sharing; or receive into another name"
    )))
}

/// Creates the snapshot for a check and destroys it afterwards. A snapshot that a killed check left is destroyed first.
fn checked_snapshot(context: &Context<'_>, name: &VolumeName) -> Result<SnapshotName, Failure> {
    let snapshot: SnapshotName = format!("{name}@{CHECKED_TAG}")
        .parse()
        .map_err(|error: units::NameError| Failure::usage(error.to_string()))?;
    let names = [snapshot];
    let _alone = context.hooks.alone();
    if context.pool.dataset((&names[0]).into()).is_ok() {
        context
            .pool
            .destroy_snapshots(&names)
            .map_err(|error| match error.kind {
                DatasetErrorKind::Busy => Failure::new(
                    FailureKind::Busy,
                    format!("{name} is being checked already"),
                )
                .advise("wait until that check has ended"),
                _ => failures::dataset(error),
            })?;
    }
    super::replay_before_snapshot(context, &names)?;
    context.pool.snapshot(&names).map_err(failures::dataset)?;
    let [snapshot] = names;
    Ok(snapshot)
}

fn check(
    context: &Context<'_>,
    name: &VolumeName,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    look(context, name)?;
    let begun = Instant::now();
    let snapshot = checked_snapshot(context, name)?;
    let mut faults = Vec::new();
    let opened = needs(context.pool.files())?.open_file_system((&snapshot).into(), true);
    let checked = opened.and_then(|opened| {
        opened.check(&mut |told| {
            match told {
                CheckReport::Progress { done, of } => {
                    progress(&format!("{done} of {of} objects are checked"));
                }
                CheckReport::Fault(fault) if faults.len() < FAULTS_MAX => faults.push(FaultView {
                    object: fault.object,
                    path: fault.path,
                    what: fault.what,
                }),
                CheckReport::Fault(_) => {}
            }
            !context.hooks.is_ending()
        })
    });
    let destroyed = context
        .pool
        .destroy_snapshots(std::slice::from_ref(&snapshot));
    let summary = checked.map_err(failures::dataset)?;
    destroyed.map_err(failures::dataset)?;
    Ok(Answer::Checked(CheckView {
        name: name.to_string(),
        objects: summary.objects,
        names: summary.names,
        fault_count: summary.faults,
        faults,
        took_ms: begun.elapsed().as_millis() as u64,
    }))
}
