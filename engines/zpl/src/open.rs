//! Opens a file system: unsupported features are refused before any change; then the work that a crash interrupted is
//! completed.

use file_system::Node;

use crate::file_system::Zpl;
use crate::objects::{Facts, ObjectError, Objects};
use crate::quotas::Quotas;
use crate::receipts::Receipts;
use crate::records::{BadRecord, decode};
use crate::replay::{self, Survey};

/// The only version of the format that is served: attributes in the form that every ZFS writes since 2010.
const VERSION: u64 = 5;

/// Why a file system is not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It has an unsupported feature.
    #[error("it has {what}, which Bulkhead does not serve")]
    Unsupported {
        /// The feature.
        what: &'static str,
    },
    /// Its log must be replayed, but it is opened read-only.
    #[error(
        "it is opened read-only and has an intent log that must be replayed, so that the last writes are missing: \
         open it once so that it can be changed"
    )]
    LogWaits,
    /// Its log has a record that cannot be replayed.
    #[error(
        "its intent log cannot be replayed here: mount it once with kernel ZFS, which wrote the log, and export the pool"
    )]
    Record(#[source] BadRecord),
    /// A required object is missing.
    #[error("it has no {what}, so that it is damaged or was never completed")]
    Damaged {
        /// The missing object.
        what: &'static str,
    },
    /// The pool failed.
    #[error("it cannot be read")]
    Objects(#[from] ObjectError),
}

fn check(facts: &Facts) -> Result<(), OpenError> {
    let unsupported = [
        (
            facts.version > VERSION,
            "a version of the POSIX layer that is newer than 5",
        ),
        (
            facts.version != 0 && facts.version < VERSION,
            "a version of the POSIX layer that is older than 5 (`zfs upgrade` of kernel ZFS changes that)",
        ),
        (
            facts.normalization != 0,
            "names that are normalized (normalization, which cannot be changed: copy the files to another file system)",
        ),
        (
            facts.case_sensitivity != 0,
            "case-insensitive names (casesensitivity, which cannot be changed: copy the files to another file system)",
        ),
        (
            facts.has_posix_acls,
            "access control lists of POSIX (acltype=posix; with acltype=off the permissions of each file apply instead)",
        ),
        (
            facts.log_waits && facts.log_is_foreign,
            "an intent log of a host with the other byte order",
        ),
    ];
    if let Some((_, what)) = unsupported.iter().find(|(has, _)| *has) {
        return Err(OpenError::Unsupported { what });
    }
    let needed = [
        (facts.version != 0, "version of the POSIX layer"),
        (facts.has_system_attributes, "registry of attributes"),
        (facts.root != 0, "root directory"),
        (facts.unlinked != 0, "list of unlinked files"),
    ];
    match needed.iter().find(|(is_there, _)| !is_there) {
        Some((_, what)) => Err(OpenError::Damaged { what }),
        None => Ok(()),
    }
}

/// Scans the whole log for records that cannot be replayed.
fn check_log(objects: &impl Objects) -> Result<Survey, OpenError> {
    let mut bad = None;
    let mut survey = Survey::default();
    let walked = objects.walk_log(&mut |kind, body| {
        let decoded = decode(kind, body).map(|record| survey.see(&record));
        decoded.map_err(|error| {
            bad = Some(error);
            ObjectError::Io(0)
        })
    });
    match bad {
        Some(bad) => Err(OpenError::Record(bad)),
        None => Ok(walked.map(|()| survey)?),
    }
}

impl<O: Objects> Zpl<O> {
    /// Opens a file system: refuses unsupported features, frees objects that lost their last name, and replays the log.
    pub fn open(objects: O) -> Result<Self, OpenError> {
        Self::open_again(objects, [])
    }

    /// Like `open`, for one that was closed while these objects without a name were held. They stay until they are held
    /// and released again, or until the file system is opened without them.
    pub fn open_again(objects: O, held: impl IntoIterator<Item = Node>) -> Result<Self, OpenError> {
        let facts = objects.facts();
        check(&facts)?;
        let mut survey = Survey::default();
        if facts.log_waits {
            if facts.is_fixed {
                return Err(OpenError::LogWaits);
            }
            survey = check_log(&objects)?;
        }
        let root = objects.stored(facts.root)?;
        let root = Node {
            object: facts.root,
            generation: root.generation,
        };
        let quotas = Quotas::find(&objects)?;
        let receipts = Receipts::read(&objects, facts.receipts)?;
        let zpl = Self::new(objects, facts, root, quotas, receipts);
        zpl.lock_holds().keep(held);
        // Writes acknowledged as durable must be present even if the file system cannot change any more. A log may
        // create an object again that is still to be removed.
        if !facts.is_read_only || facts.log_waits {
            zpl.drain()?;
            replay::run(&zpl, survey)?;
        }
        Ok(zpl)
    }
}
