//! Commits of changes before the reply of a compound. Compounds of one client can share a commit: then each of them is
//! completed after it.

use std::sync::Arc;

use file_system::{FileError, FileSystem};

use super::compound::{Call, Caller, NoReply, Service};
use super::kinds::gives_or_takes;
use super::numbers::Status;
use super::state::Sequence;
use crate::activity::ExportUsage;
use crate::xdr::Writer;

/// The last step of a compound in a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub sequence: Sequence,
    /// Whether the reply is cached.
    pub is_kept: bool,
    /// Offset of the reply in its buffer.
    pub start: usize,
}

/// A compound with changes that are not durable yet. Its reply must not be sent, and its slot is busy, until it is
/// [completed](Service::complete).
#[must_use]
pub struct Uncommitted {
    files: Vec<Arc<dyn FileSystem>>,
    ending: Ending,
}

impl Uncommitted {
    pub(super) fn new(files: &[Arc<dyn FileSystem>], ending: Ending) -> Self {
        Self {
            files: files.to_vec(),
            ending,
        }
    }
}

/// Commits the changes of these compounds: once in each file system.
pub(crate) fn commit<'a>(
    compounds: impl Iterator<Item = &'a Uncommitted>,
) -> Result<(), FileError> {
    let mut done: Vec<&Arc<dyn FileSystem>> = Vec::new();
    for files in compounds.flat_map(|compound| &compound.files) {
        if !done.iter().any(|one| Arc::ptr_eq(one, files)) {
            files.commit(None)?;
            done.push(files);
        }
    }
    Ok(())
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

    /// The same, except that changes of names and attributes may not be durable yet. The caller then
    /// [commits](commit) them and completes the compound.
    pub(crate) fn compound_before_commit(
        &self,
        arguments: &[u8],
        caller: &Caller<'_>,
        out: &mut Writer,
    ) -> Result<(ExportUsage, Option<Uncommitted>), NoReply> {
        let mut uncommitted = None;
        let performed = self.perform(arguments, caller, out, Some(&mut uncommitted));
        if let (Err(_), Some(uncommitted)) = (&performed, &uncommitted) {
            self.complete(uncommitted, None);
        }
        Ok((performed?, uncommitted))
    }

    /// Completes a compound after the commit of its changes. Its reply is in `out`; without one, the commit has failed
    /// and there is no reply.
    pub(crate) fn complete(&self, uncommitted: &Uncommitted, out: Option<&mut Writer>) {
        let ending = &uncommitted.ending;
        match out {
            Some(out) => self.end_call(ending, out),
            None => self.state().answered(&ending.sequence, None),
        }
    }

    pub(super) fn end_call(&self, ending: &Ending, out: &mut Writer) {
        let kept = ending.is_kept.then(|| &out.own()[ending.start..]);
        self.state().answered(&ending.sequence, kept);
    }
}

impl Call<'_> {
    /// Commits changes before the reply. A refusal that depends on a change is also committed, because a client that
    /// retries mistakes it for the result of its own change. Concurrent callers share the commit.
    pub(super) fn commit_changes(&mut self, executed: Result<(), Status>) -> Result<(), Status> {
        let tells_of_change = matches!(
            executed,
            Ok(()) | Err(Status::NOENT | Status::EXIST | Status::NOXATTR)
        );
        let Some(node) = self.to_commit.take().filter(|_| tells_of_change) else {
            return executed;
        };
        // The outcome of a commit of contents may be an error of the operation.
        let may_be_later = self.sequence.is_some() && node.is_none() && executed.is_ok();
        if self.commits_later && may_be_later {
            let files = self.shared_files();
            if !self.uncommitted.iter().any(|one| Arc::ptr_eq(one, &files)) {
                self.uncommitted.push(files);
            }
        } else {
            self.files().commit(node)?;
        }
        executed
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
