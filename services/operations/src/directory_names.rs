//! Prevents collisions of names of file systems with entries of the parent directory. Clients see a child file system
//! instead of an entry with its name, so a new child must not have the name of a file or directory.

use control::{Failure, FailureKind};
use engine::OpenFileSystem;
use engine::dataset::{DatasetErrorKind, DatasetKind, DatasetRef};
use file_system::{FileError, FileSystem, Identity};
use units::{SnapshotName, VolumeName};

use super::{Context, failures};

/// The directory in which clients find snapshots.
const CONTROL: &str = ".zfs";

/// Refuses the name of a new or moved file system where a file or directory of the file system above has it. Those above it that do not
/// exist are checked as if they were made with it. Where the file system above cannot be opened, because its key is missing or it is
/// never served, its entries are unknown and not checked.
pub fn refuse_taken(context: &Context<'_>, name: &VolumeName) -> Result<(), Failure> {
    if context.pool.dataset(name.into()).is_ok() {
        // It has its name already.
        return Ok(());
    }
    let mut new = name.as_str();
    while let Some((above, entry)) = new.rsplit_once('/') {
        if entry == CONTROL {
            let message = format!("{CONTROL} is the directory of snapshots in {above}");
            return Err(Failure::usage(message).advise("choose another name"));
        }
        match context.pool.dataset(DatasetRef::from_checked(above)) {
            Ok(info) if info.kind == DatasetKind::Filesystem => {
                return match has_entry(context, above, entry)? {
                    true => Err(taken(new, above, entry)),
                    false => Ok(()),
                };
            }
            // Whether anything can be below it is the engine's to decide.
            Ok(_) => return Ok(()),
            Err(error) if error.kind == DatasetErrorKind::NotFound => new = above,
            Err(error) => return Err(failures::dataset(error)),
        }
    }
    Ok(())
}

/// Refuses a rollback of a file system to a snapshot in which an entry has the name of a present child file system. A
/// snapshot that cannot be opened is not checked, as above.
pub fn refuse_hidden(context: &Context<'_>, to: &SnapshotName) -> Result<(), Failure> {
    let above = to.volume();
    let files = context.pool.files();
    let all = files.map_or(Ok(Vec::new()), |files| files.file_systems());
    let all = all.map_err(failures::dataset)?;
    let below = all.iter().filter_map(|(name, _)| {
        let (parent, entry) = name.rsplit_once('/')?;
        (parent == above.as_str()).then_some((name, entry))
    });
    let below: Vec<_> = below.collect();
    if below.is_empty() {
        return Ok(());
    }
    let Some(opened) = open(context, to.as_str())? else {
        return Ok(());
    };
    let hidden = below.into_iter().find_map(|(name, entry)| {
        let found = is_in_root(&*opened.files(), to.as_str(), entry);
        match found {
            Ok(false) => None,
            Ok(true) => Some(hidden(to, name, entry)),
            Err(failure) => Some(failure),
        }
    });
    opened.close();
    hidden.map_or(Ok(()), Err)
}

fn hidden(to: &SnapshotName, name: &str, entry: &str) -> Failure {
    let message =
        format!("{to} has a file or directory {entry:?}, which the file system {name} would hide");
    Failure::new(FailureKind::Exists, message).advise(format!(
        "rename or destroy {name} first, or clone the snapshot and look there (`bulkhead snapshot clone {to} NAME`)"
    ))
}

fn taken(new: &str, above: &str, entry: &str) -> Failure {
    let message = format!(
        "{above} has a file or directory {entry:?}, which the file system {new} would hide"
    );
    Failure::new(FailureKind::Exists, message)
        .advise("choose another name, or have a client move or remove the file or directory first")
}

fn has_entry(context: &Context<'_>, above: &str, entry: &str) -> Result<bool, Failure> {
    let served = above
        .parse()
        .ok()
        .and_then(|above| context.hooks.files(&above));
    if let Some(files) = served {
        return is_in_root(&*files, above, entry);
    }
    let Some(opened) = open(context, above)? else {
        return Ok(false);
    };
    let found = is_in_root(&*opened.files(), above, entry);
    opened.close();
    found
}

/// Opens a file system to read its root directory; none if that is not possible.
fn open(context: &Context<'_>, name: &str) -> Result<Option<Box<dyn OpenFileSystem>>, Failure> {
    use DatasetErrorKind as Kind;
    let dataset = DatasetRef::from_checked(name);
    // A pending intent log prevents only a read-only open, so a writable open follows.
    let Ok(files) = context.pool.files() else {
        return Ok(None);
    };
    let opened = files.open_file_system(dataset, true);
    let opened = opened.or_else(|_| files.open_file_system(dataset, false));
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) => match error.kind {
            Kind::KeyMissing | Kind::KeyOutdated | Kind::FileSystemRefused { .. } => Ok(None),
            _ => Err(failures::dataset(error)),
        },
    }
}

fn is_in_root(files: &dyn FileSystem, above: &str, entry: &str) -> Result<bool, Failure> {
    let root = Identity {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    match files.look_up(&root, files.root(), entry.as_bytes()) {
        Ok(_) => Ok(true),
        // A name that no entry can have.
        Err(FileError::NotFound | FileError::BadName | FileError::NameTooLong) => Ok(false),
        Err(error) => {
            let message = format!("look for {entry:?} in {above}: {error}");
            Err(Failure::new(FailureKind::Failed, message).advise("try again"))
        }
    }
}
