//! Commits of changes before the reply of a compound. Compounds of one client can share a commit: then each of them is
//! completed after it.

use std::sync::Arc;

use file_system::{FileError, FileSystem};

use super::compound::{Call, Caller, NoReply, Service};
use super::kinds::gives_or_takes;
use super::numbers::{Status, op};
use super::state::Sequence;
use crate::activity::ExportUsage;
use crate::exports::Exports;
use crate::xdr::Writer;

/// The last step of a compound in a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub sequence: Sequence,
    /// Whether the reply is cached.
    pub is_kept: bool,
    /// Offset of the reply in its buffer.
    pub start: usize,
    /// Offset of the number of results.
    pub count_at: usize,
}

/// The result of an operation in a reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResultAt {
    pub operation: u32,
    /// Index of the operation.
    pub index: u32,
    /// Offset of the result in the buffer of the reply.
    pub start: usize,
}

/// Changes in one file system that are committed later.
pub(super) struct Changes {
    files: Arc<dyn FileSystem>,
    /// The result of the first one.
    first: ResultAt,
}

/// A compound with changes that are not durable yet. Its reply must not be sent, and its slot is busy, until it is
/// [completed](Service::complete).
#[must_use]
pub struct Uncommitted {
    changes: Changes,
    ending: Ending,
    /// The exports that the compound used.
    exports: Arc<Exports>,
}

impl Uncommitted {
    pub(super) fn new(changes: Changes, ending: Ending, exports: Arc<Exports>) -> Self {
        Self {
            changes,
            ending,
            exports,
        }
    }

    /// The file system with its changes.
    pub(crate) fn files(&self) -> &Arc<dyn FileSystem> {
        &self.changes.files
    }
}

impl Service {
    /// Appends the result of the procedure `COMPOUND` to `out`.
    pub fn compound(
        &self,
        arguments: &[u8],
        caller: &Caller<'_>,
        out: &mut Writer,
    ) -> Result<ExportUsage, NoReply> {
        self.perform(arguments, caller, out, None)
    }

    /// The same, except that changes of names and attributes may not be durable yet. The caller then commits
    /// [their file system](Uncommitted::files) and completes the compound.
    pub(crate) fn compound_before_commit(
        &self,
        arguments: &[u8],
        caller: &Caller<'_>,
        out: &mut Writer,
    ) -> Result<(ExportUsage, Option<Uncommitted>), NoReply> {
        let mut uncommitted = None;
        let performed = self.perform(arguments, caller, out, Some(&mut uncommitted));
        if let (Err(_), Some(uncommitted)) = (&performed, &uncommitted) {
            let sequence = &uncommitted.ending.sequence;
            self.state().answered(sequence, None);
        }
        Ok((performed?, uncommitted))
    }

    /// Completes a compound, with its reply in `out`, after the commit of its changes. If that failed, the reply ends at
    /// the first of these changes, with the error of the commit.
    pub(crate) fn complete(
        &self,
        uncommitted: &Uncommitted,
        out: &mut Writer,
        committed: Result<(), FileError>,
    ) -> Result<(), NoReply> {
        let ending = &uncommitted.ending;
        if let Err(error) = committed {
            let status = match error {
                // The file system was closed during the call. A retry uses the reopened one.
                FileError::Gone if !Arc::ptr_eq(&uncommitted.exports, &self.exports()) => {
                    Status::DELAY
                }
                FileError::Gone => {
                    self.state().answered(&ending.sequence, None);
                    return Err(NoReply::Gone);
                }
                error => error.into(),
            };
            uncommitted.changes.first.fail(status, ending, out);
        }
        self.end_call(ending, out);
        Ok(())
    }

    pub(super) fn end_call(&self, ending: &Ending, out: &mut Writer) {
        let kept = ending.is_kept.then(|| &out.own()[ending.start..]);
        self.state().answered(&ending.sequence, kept);
    }
}

impl ResultAt {
    /// Replaces this result, and all later ones, by an error.
    fn fail(&self, status: Status, ending: &Ending, out: &mut Writer) {
        out.truncate(self.start);
        out.u32(self.operation);
        out.u32(status.0);
        if self.operation == op::SETATTR {
            // No attribute was set.
            out.u32(0);
        }
        out.set_u32(ending.start, status.0);
        out.set_u32(ending.count_at, self.index + 1);
    }
}

impl Call<'_> {
    /// Commits changes before the reply. A refusal that depends on a change is also committed, because a client that
    /// retries mistakes it for the result of its own change. Concurrent callers share the commit.
    pub(super) fn commit_changes(
        &mut self,
        result: ResultAt,
        executed: Result<(), Status>,
    ) -> Result<(), Status> {
        let tells_of_change = matches!(
            executed,
            Ok(()) | Err(Status::NOENT | Status::EXIST | Status::NOXATTR)
        );
        let Some(node) = self.to_commit.take().filter(|_| tells_of_change) else {
            return executed;
        };
        // The outcome of a commit of contents may be an error of the operation.
        if self.commits_later && self.sequence.is_some() && node.is_none() {
            let files = self.shared_files();
            let changes = Changes {
                files,
                first: result,
            };
            self.uncommitted.get_or_insert(changes);
        } else {
            self.files().commit(node)?;
        }
        executed
    }

    /// Commits the changes in a file system before the compound uses a second one. A change there could otherwise be
    /// durable before them, and its receipt would stand for them.
    pub(super) fn commit_before_leaving(&mut self) -> Result<(), Status> {
        if let Some(changes) = &self.uncommitted {
            changes.files.commit(None)?;
        }
        self.uncommitted = None;
        Ok(())
    }

    /// Stores changed holders before the reply, but only for operations that depend on them.
    pub(super) fn keep_holders(&self, operation: u32, out: &mut Writer) -> Result<(), Status> {
        let now_ms = self.caller.now_ms;
        let depends = gives_or_takes(operation);
        if depends || self.service.state().grace_ends(now_ms) {
            // The store blocks on the disks, and the reply must not hold borrowed buffers during that time.
            out.own();
            let kept = self.service.keep_holders(now_ms);
            // The client would execute an executed change again after an error. The next operation that depends on the
            // holders stores them.
            if depends {
                return kept;
            }
        }
        Ok(())
    }
}
