//! Quotas of users, groups and projects of a file system, and the space that each of them uses. Where a server has the
//! file system open, they are read and changed there.

use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use control::answer::{Done, OwnerView, OwnersView, Property};
use control::operations::filesystem::userspace::Userspace;
use control::owners::{OwnerKind, OwnerProperty};
use control::request::Properties;
use control::{Answer, Failure, FailureKind};
use engine::OpenFileSystem;
use engine::dataset::{DatasetError, DatasetErrorKind, DatasetRef};
use file_system::{FileError, FileSystem, Measure, Owner, OwnerSpace, Quota};
use nix::unistd::{Gid, Group, Uid, User};
use units::VolumeName;

use super::{Context, failures, replicate};
use crate::needs;

/// Properties that one request sets.
const QUOTAS_MAX: usize = 64;
/// Later names of users are not looked up: a directory service may be slow.
const NAMES_WITHIN: Duration = Duration::from_secs(2);

/// Whether one of these names is a property of a user, group or project.
pub fn is_any<'a>(mut names: impl Iterator<Item = &'a String>) -> bool {
    names.any(|name| OwnerProperty::parse(name).is_some())
}

/// The failure for such a property where it cannot be: at the creation, of a volume, or to inherit it.
pub fn misplaced(property: &str) -> Failure {
    let message = format!("{property} belongs to an existing file system, and is not inherited");
    Failure::usage(message).advise(format!(
        "`bulkhead filesystem set POOL/NAME {property}=VALUE` sets it, and the value none removes it"
    ))
}

/// How files are opened where no server has them open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Change,
}

/// Opens a file system or a snapshot. A pending intent log prevents only a read-only open.
fn open(
    context: &Context<'_>,
    dataset: DatasetRef<'_>,
    access: Access,
) -> Result<Box<dyn OpenFileSystem>, Failure> {
    let files = needs(context.pool.files())?;
    let is_refused =
        |error: &DatasetError| matches!(error.kind, DatasetErrorKind::FileSystemRefused { .. });
    let opened = match access {
        Access::Change => files.open_file_system(dataset, false),
        Access::Read => match files.open_file_system(dataset, true) {
            Err(error) if is_refused(&error) && !dataset.as_str().contains('@') => {
                files.open_file_system(dataset, false)
            }
            opened => opened,
        },
    };
    opened.map_err(failures::dataset)
}

/// Calls `perform` with the files of a file system. `alone` excludes changes while it is open here: another open of it
/// would be refused.
fn with_files<'g, T>(
    context: &Context<'_>,
    name: &VolumeName,
    access: Access,
    alone: impl FnOnce() -> Option<MutexGuard<'g, ()>>,
    perform: impl FnOnce(&dyn FileSystem) -> Result<T, FileError>,
) -> Result<T, Failure> {
    let done = match context.hooks.files(name) {
        Some(files) => perform(&*files),
        None => {
            let _alone = alone();
            let opened = open(context, name.into(), access)?;
            let done = perform(&*opened.files());
            opened.close();
            done
        }
    };
    done.map_err(|error| {
        failures::with_limit(context.pool, name.as_str(), failure(name.as_str(), error))
    })
}

fn failure(name: &str, error: FileError) -> Failure {
    match error {
        FileError::ReadOnly => {
            Failure::new(FailureKind::Unavailable, format!("{name} is read-only")).advise(format!(
                "`bulkhead filesystem set {name} readonly=off` first"
            ))
        }
        FileError::NoSpace | FileError::Quota => {
            Failure::new(FailureKind::NoSpace, format!("{name} has no space left"))
                .advise("raise its own quota, or free some space in the pool")
        }
        FileError::Unsupported => {
            let message = format!("{name} does not count the space of such owners");
            Failure::new(FailureKind::Unsupported, message).advise(
                "the pool needs feature@userobj_accounting and feature@project_quota (`bulkhead pool get` shows them); \
                 a file system of an older ZFS is then counted after it is opened: try again in some minutes",
            )
        }
        FileError::TooLarge => {
            let message = format!("{name} has more owners than can be listed");
            Failure::new(FailureKind::Failed, message)
                .advise("`bulkhead filesystem get` shows what one of them uses")
        }
        FileError::NotReady => {
            let message = format!("{name} cannot be opened now");
            Failure::new(FailureKind::Unavailable, message)
                .advise("load its key if that is missing; `bulkhead status` shows other reasons")
        }
        FileError::Gone => {
            failures::dataset(DatasetError::new("open", name, DatasetErrorKind::Closed))
        }
        error => {
            let message = format!("the owners of files in {name}: {error}");
            Failure::new(FailureKind::Failed, message).advise("try again")
        }
    }
}

/// The file system of a property's request: its pool's root has none of these.
fn below_the_root(name: &str) -> Result<VolumeName, Failure> {
    match name.contains('/') {
        true => name
            .parse()
            .map_err(|error: units::NameError| Failure::usage(error.to_string())),
        false => Err(Failure::usage(format!("{name} is the root of a pool"))
            .advise("name one of its file systems: quotas of users are not inherited")),
    }
}

fn owner(property: &OwnerProperty<'_>) -> Result<Owner, Failure> {
    Ok(Owner {
        kind: kind(property.kind),
        id: property.id()?.into(),
    })
}

fn kind(kind: OwnerKind) -> file_system::OwnerKind {
    match kind {
        OwnerKind::User => file_system::OwnerKind::User,
        OwnerKind::Group => file_system::OwnerKind::Group,
        OwnerKind::Project => file_system::OwnerKind::Project,
    }
}

fn quota(property: &OwnerProperty<'_>, value: &str) -> Result<Quota, Failure> {
    let limit = property.limit(value)?;
    let measure = match property.of_objects {
        true => Measure::Objects,
        false => Measure::Bytes,
    };
    Ok(Quota {
        owner: owner(property)?,
        measure,
        limit,
    })
}

/// Sets quotas of a file system: all or none. Other properties are set by a request of their own, because the two kinds
/// are not set together.
pub fn set(context: &Context<'_>, name: &str, properties: &Properties) -> Result<Answer, Failure> {
    let file_system = below_the_root(name)?;
    let mut quotas = Vec::new();
    for (property, value) in properties {
        let Some(parsed) = OwnerProperty::parse(property) else {
            let message = format!("{property} and quotas of users cannot be set together");
            return Err(Failure::usage(message).advise("use one command for each"));
        };
        quotas.push(quota(&parsed, value)?);
    }
    if quotas.len() > QUOTAS_MAX {
        let message = format!("{} quotas are too many for one request", quotas.len());
        return Err(Failure::usage(message).advise(format!("set at most {QUOTAS_MAX} at once")));
    }
    let twice = |quota: &Quota| {
        let same = |other: &&Quota| (other.owner, other.measure) == (quota.owner, quota.measure);
        quotas.iter().filter(same).count() > 1
    };
    if quotas.iter().any(twice) {
        let message = "one quota is given twice, under two spellings of a number";
        return Err(Failure::usage(message).advise("write numbers without leading zeros"));
    }
    if replicate::copies(context)?.contains(&file_system) {
        let message = format!("{name} is a copy that replication made");
        return Err(Failure::new(FailureKind::Busy, message).advise(format!(
            "set the quota of its original, or promote it (`bulkhead replicate promote {name}`)"
        )));
    }
    // Changes are serialised already.
    let no_guard = || None;
    let changed = with_files(context, &file_system, Access::Change, no_guard, |files| {
        let mut differs = false;
        for quota in &quotas {
            let space = files.owner_space(quota.owner)?;
            let now = match quota.measure {
                Measure::Bytes => space.bytes_max,
                Measure::Objects => space.objects_max,
            };
            differs |= now != quota.limit;
        }
        if differs {
            files.set_quotas(&quotas)?;
        }
        Ok(differs)
    })?;
    let names: Vec<&str> = properties.keys().map(String::as_str).collect();
    let names = names.join(", ");
    Ok(match changed {
        true => Done::changed(format!("set {names} of {name}")),
        false => Done::already(format!("{name} has {names} so already")),
    })
}

/// Returns the values of these properties.
pub fn get(
    context: &Context<'_>,
    name: &str,
    names: &[&String],
) -> Result<BTreeMap<String, Property>, Failure> {
    let mut wanted = Vec::new();
    for property in names.iter().filter_map(|name| OwnerProperty::parse(name)) {
        wanted.push((property, owner(&property)?));
    }
    let file_system = below_the_root(name)?;
    let alone = || context.hooks.alone();
    with_files(context, &file_system, Access::Read, alone, |files| {
        let value = |(property, owner): &(OwnerProperty<'_>, Owner)| {
            let value = value(property, &files.owner_space(*owner)?);
            Ok::<_, FileError>((property.name.to_owned(), value))
        };
        wanted.iter().map(value).collect()
    })
}

fn value(property: &OwnerProperty<'_>, space: &OwnerSpace) -> Property {
    let number = match (property.is_quota, property.of_objects) {
        (true, false) => Some(space.bytes_max.unwrap_or(0)),
        (true, true) => Some(space.objects_max.unwrap_or(0)),
        (false, false) => Some(space.bytes),
        (false, true) => space.objects,
    };
    let source = match property.is_quota && number.is_some_and(|limit| limit > 0) {
        true => "local",
        false => "-",
    };
    Property {
        value: number.map_or_else(|| "-".to_owned(), |number| number.to_string()),
        source: source.to_owned(),
    }
}

/// Lists the owners.
pub fn list(context: &Context<'_>, request: &Userspace) -> Result<Answer, Failure> {
    let Userspace { name, snapshot, of } = request;
    let may_continue = || !context.hooks.is_ending();
    let look = |files: &dyn FileSystem| files.owners(kind(*of), &may_continue);
    let (shown, owners) = match snapshot {
        None => {
            let alone = || context.hooks.alone();
            let owners = with_files(context, name, Access::Read, alone, look)?;
            (name.to_string(), owners)
        }
        Some(snapshot) if snapshot.volume() != *name => {
            let message = format!("{snapshot} is no snapshot of {name}");
            return Err(Failure::usage(message).advise(format!("name one such as {name}@monday")));
        }
        Some(snapshot) => {
            let opened = open(context, snapshot.into(), Access::Read)?;
            let owners = look(&*opened.files());
            opened.close();
            let owners = owners.map_err(|error| failure(snapshot.as_str(), error))?;
            (snapshot.to_string(), owners)
        }
    };
    let deadline = Instant::now() + NAMES_WITHIN;
    let views = owners.first.iter().map(|space| OwnerView {
        of: *of,
        id: space.id,
        name: (Instant::now() < deadline)
            .then(|| known_name(*of, space.id))
            .flatten(),
        used: space.bytes,
        quota: space.bytes_max,
        objects: space.objects,
        object_quota: space.objects_max,
    });
    Ok(Answer::Owners(Box::new(OwnersView {
        name: shown,
        of: *of,
        owners: views.collect(),
        left_out: owners.left_out,
    })))
}

/// The name of a user or group on this host.
fn known_name(of: OwnerKind, id: u64) -> Option<String> {
    let id = u32::try_from(id).ok()?;
    match of {
        OwnerKind::User => User::from_uid(Uid::from_raw(id))
            .ok()?
            .map(|user| user.name),
        OwnerKind::Group => Group::from_gid(Gid::from_raw(id))
            .ok()?
            .map(|group| group.name),
        OwnerKind::Project => None,
    }
}
