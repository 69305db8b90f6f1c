//! Performs requests on an open pool. The command line and the server call the same code. The
//! difference, open volumes and sessions in a server, is behind [`ServerHooks`].

#![forbid(unsafe_code)]

pub mod block_class;
mod capabilities;
mod changes;
mod chap;
pub mod copies;
pub mod copy_rate;
mod datasets;
mod directory_names;
mod discovery;
mod document_cache;
pub mod documents;
pub mod events;
mod failures;
mod filesystem;
mod growth;
mod history;
mod holds;
pub mod in_use;
pub mod key;
pub mod key_source;
mod legs;
mod loss;
mod nbd;
mod next_step;
mod owners;
mod pool;
mod properties;
pub mod read_balancing;
mod redundancy;
pub mod reidentify;
mod replace;
pub mod replicate;
pub mod rescue_clones;
mod rights;
mod rollback;
pub mod schedule;
pub mod scrub;
pub mod seals;
pub mod secrets;
mod snapshot;
pub mod space;
mod spare;
mod stale_legs;
mod status;
pub mod stream;
mod target;
pub mod transfer;
mod unused_disks;
mod volume;

use std::sync::Arc;
use std::time::Duration;

use control::answer::{FrozenView, OpenFilesView};
use control::request::{NbdRequest, TargetRequest};
use control::{Answer, Failure, FailureKind, Request};
use engine::pool::Restart;
use engine::{Paused, Pool};
use file_system::FileSystem;
use leg_door::{LegRequest, MemberRequest};
use units::VolumeName;

pub(crate) use capabilities::bookmarks;
pub use capabilities::{demanded, encrypted_datasets, needs};
pub use document_cache::DocumentCache;
pub use failures::{dataset as dataset_failure, pool as pool_failure};
pub use next_step::{add_write_wait, note_failing, suspended_step};
pub use pool::{of_state as of_pool_state, spec as pool_spec};
pub use properties::of_new_pool;
pub use rollback::ContentsSwapped;
pub use snapshot::replay as replay_before_snapshot;
pub use spare::{refuse_small_of_new as refuse_small_spares, unused_space};
pub use stale_legs::{has_record, refusal};
pub use status::pool_status;
pub use volume::refuse_locked;
pub use {
    discovery::glance as discovery_glance, nbd::view as nbd_view, target::view as target_view,
};

/// The open volumes and sessions of a server. The command line has none, and every method does
/// nothing.
pub trait ServerHooks {
    /// The documents changed. Serves the new state before the response is sent.
    fn exports_changed(&self) -> Result<(), Failure>;
    /// Opens `name` if it is served; `false` if it is not.
    fn open(&self, name: &VolumeName) -> Result<bool, Failure>;
    /// Changes the size of `name` if it is open; `false` if it is not.
    fn resize(&self, name: &VolumeName, size: u64) -> Result<bool, Failure>;
    /// `name` has another size now.
    fn resized(&self, name: &VolumeName);
    /// Keys were loaded. Replays the intent logs that needed them and serves the volumes. Returns
    /// `false` without a server.
    fn keys_changed(&self) -> Result<bool, Failure>;
    /// Whether `name` is open.
    fn is_open(&self, name: &VolumeName) -> bool;
    /// Returns descriptions of the clients that are connected to a served object.
    fn users_of(&self, _: &in_use::Used<'_>) -> Vec<String> {
        Vec::new()
    }
    /// Returns the open files and locks of clients in a file system.
    fn open_files(&self, name: &VolumeName) -> Result<OpenFilesView, Failure> {
        let message =
            format!("the open files of clients in {name} are not known: no server has its pool");
        Err(Failure::new(FailureKind::Unavailable, message)
            .advise("a restarted server has the list when its clients have reconnected, within half a minute"))
    }
    /// The files of a file system that a server has open, if it has.
    fn files(&self, _: &VolumeName) -> Option<Arc<dyn FileSystem>> {
        None
    }
    /// Releases all open files and locks of the client with that number. Returns whether there is such a client.
    fn expire_client(&self, _: u64) -> bool {
        false
    }
    /// Closes `name` and all below it. File systems stay closed until [`Self::may_open`]. Their clients are blocked
    /// until then and retain their open files.
    fn close(&self, name: &VolumeName);
    /// File systems at and below `name` may be opened again: when the exports change, if they are shared still.
    fn may_open(&self, _: &VolumeName) {}
    /// Closes the file systems at and below `dataset`, which were opened with the previous properties. The next change
    /// of exports opens them again. Clients retain their open files.
    fn close_for_reopen(&self, _dataset: &str) {}
    /// `from`, and all below it, has another name.
    fn renamed(&self, from: &VolumeName, to: &VolumeName);
    /// If `name` is served, pauses its clients, calls `exchange` to swap its contents and notifies
    /// the clients. Returns `None` if it is not served.
    fn swap_contents(
        &self,
        name: &VolumeName,
        swap: &mut dyn FnMut(&dyn Paused) -> Result<(), Failure>,
    ) -> Result<Option<ContentsSwapped>, Failure>;
    /// Terminates the owner of the suspended pool, so that its successor opens the pool with the devices that are
    /// available again. Returns once that is certain.
    fn exit_for_restart(&self, _: Restart) -> Result<(), Failure> {
        let message = "the pool is suspended, and opened by this command only";
        Err(Failure::new(FailureKind::Unavailable, message))
    }
    /// Performs an administrator's request about a leg of a pool of legs. Returns `None` if the pool has no legs or
    /// there is no server.
    fn leg(&self, _: &str, _: LegRequest) -> Option<Result<Answer, Failure>> {
        None
    }
    /// The filter of the log of this process; it changes before if there is a new one.
    fn log_filter(&self, _: Option<&str>) -> Result<Answer, Failure> {
        let message = "no server has the pool";
        Err(Failure::new(FailureKind::Unavailable, message)
            .advise("RUST_LOG sets the log level of a command, or of a server at its start"))
    }
    /// Legs with so many failures that they are not retried for now.
    fn held_legs(&self) -> Vec<String> {
        Vec::new()
    }
    /// Has the members store which legs of the pool hold all data. `None`: as above.
    fn change_members(&self, _: MemberRequest<'_>) -> Option<Result<Answer, Failure>> {
        None
    }
    /// Whether the legs of the pool lie on several heads.
    fn has_legs(&self) -> bool {
        false
    }
    /// Holds changes of volumes by clients for that long, from one point in time on, which is durable.
    fn freeze(&self, volumes: &[VolumeName], _: Duration) -> Result<Answer, Failure> {
        Err(no_clients(volumes))
    }
    /// Thaws frozen volumes.
    fn thaw(&self, volumes: &[VolumeName]) -> Result<Answer, Failure> {
        Err(no_clients(volumes))
    }
    /// The freeze of a volume.
    fn frozen(&self, _: &VolumeName) -> Option<FrozenView> {
        None
    }
    /// Returns whether the owner of the pool is shutting down, so that callers should not wait
    /// long.
    fn is_ending(&self) -> bool;
    /// Whether the pool stays open after the request, so that its work in the background proceeds.
    fn is_server(&self) -> bool {
        true
    }
    /// Excludes concurrent changes while the guard is held, for work that does not exclude them all
    /// the time.
    fn alone(&self) -> Option<std::sync::MutexGuard<'_, ()>> {
        None
    }
}

/// The pool has no server, which clients could use.
fn no_clients(volumes: &[VolumeName]) -> Failure {
    let names: Vec<&str> = volumes.iter().map(VolumeName::as_str).collect();
    let message = format!(
        "no server has the pool, so no client can use {}",
        names.join(" or ")
    );
    Failure::new(FailureKind::Unavailable, message).advise(
        "a freeze is lost when the server stops: a copy that was made since then might not be consistent",
    )
}

/// Nothing is open.
pub struct NoServer;

impl ServerHooks for NoServer {
    fn exports_changed(&self) -> Result<(), Failure> {
        Ok(())
    }
    fn open(&self, _: &VolumeName) -> Result<bool, Failure> {
        Ok(false)
    }
    fn resize(&self, _: &VolumeName, _: u64) -> Result<bool, Failure> {
        Ok(false)
    }
    fn resized(&self, _: &VolumeName) {}
    fn keys_changed(&self) -> Result<bool, Failure> {
        Ok(false)
    }
    fn is_open(&self, _: &VolumeName) -> bool {
        false
    }
    fn close(&self, _: &VolumeName) {}
    fn renamed(&self, _: &VolumeName, _: &VolumeName) {}
    fn swap_contents(
        &self,
        _: &VolumeName,
        _: &mut dyn FnMut(&dyn Paused) -> Result<(), Failure>,
    ) -> Result<Option<ContentsSwapped>, Failure> {
        Ok(None)
    }
    fn is_ending(&self) -> bool {
        false
    }
    fn is_server(&self) -> bool {
        false
    }
}

/// Holds a dataset, and all below it, closed.
pub struct Closed<'a> {
    hooks: &'a dyn ServerHooks,
    name: &'a VolumeName,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.hooks.may_open(self.name);
    }
}

impl Context<'_> {
    /// Closes `name` and all below it. File systems stay closed until the returned guard is dropped. The next change of
    /// exports serves them again.
    pub fn close<'n>(&'n self, name: &'n VolumeName) -> Closed<'n> {
        self.hooks.close(name);
        Closed {
            hooks: self.hooks,
            name,
        }
    }
}

/// An open pool and its open objects.
pub struct Context<'a> {
    /// The pool.
    pub pool: &'a dyn Pool,
    /// Its open volumes and sessions.
    pub hooks: &'a dyn ServerHooks,
    /// Its export documents.
    pub documents: &'a DocumentCache,
}

/// Performs `request`. The caller itself must perform export and destroy of the pool and requests
/// about the server, because it owns them.
pub fn perform(
    context: &Context<'_>,
    request: Request,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    capabilities::refuse(context.pool, &request)?;
    rights::refuse_own(&request)?;
    rights::refuse_to_serve_copies(context, &request)?;
    in_use::refuse(context, &request)?;
    match request {
        Request::Status => status::glance(context),
        Request::Pool(request) => pool::perform(context, request, progress),
        Request::Volume(request) => volume::perform(context, request),
        Request::Filesystem(request) => filesystem::perform(context, request, progress),
        Request::Key(request) => key::perform(context, request),
        Request::Snapshot(request) => snapshot::perform(context, request),
        Request::Target(request) => {
            if let TargetRequest::List(list) = &request {
                context.refuse_missing(list.only.as_ref())?;
            }
            let answer = target::perform(context, request)?;
            served(context, answer)
        }
        Request::Nbd(request) => {
            if let NbdRequest::List(list) = &request {
                context.refuse_missing(list.only.as_ref())?;
            }
            let answer = nbd::perform(context, request)?;
            served(context, answer)
        }
        Request::Transfer(request) => transfer::perform(context, request, None, progress),
        Request::Replicate(request) => crate::replicate::perform(context, request, progress),
        Request::Portal(_) | Request::Server(_) => Err(not_here("a question about the server")),
    }
}

/// Returns the response after its changes are served.
fn served(context: &Context<'_>, answer: Answer) -> Result<Answer, Failure> {
    if matches!(&answer, Answer::Done(done) if done.changed) {
        context.hooks.exports_changed()?;
    }
    Ok(answer)
}

/// Refuses a new name with a space in its last component. ZFS accepts it, but shells, scripts and addresses parse it as
/// two names. Existing names with a space can be used and renamed.
pub fn refuse_space(name: &str) -> Result<(), Failure> {
    let own = name.rsplit(['/', '@']).next().unwrap_or_default();
    if !own.contains(' ') {
        return Ok(());
    }
    let message = format!("{own:?} has a space, and scripts would take it for two names");
    Err(Failure::usage(message).advise(format!("use {} or the like", own.replace(' ', "-"))))
}

fn not_here(what: &str) -> Failure {
    Failure::new(
        FailureKind::Unreachable,
        format!("{what} needs a running server"),
    )
    .advise("start one: `bulkhead pool-server POOL`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_name_has_no_space_but_its_parent_may() {
        for name in ["tank/a b", "tank/v@before upgrade", "my pool"] {
            let failure = refuse_space(name).expect_err(name);
            assert!(
                failure.advice.is_some_and(|advice| advice.contains('-')),
                "{name}"
            );
        }
        for name in ["tank/a", "tank/a b/c", "tank/a b@now", "tank"] {
            assert!(refuse_space(name).is_ok(), "{name}");
        }
    }
}
