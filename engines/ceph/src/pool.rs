//! An open shelf as a pool: its threads, and how this process leaves it.

use std::sync::Arc;
use std::thread::JoinHandle;

use ceph_sys::Namespace;
use engine::capabilities::Ownership;
use engine::pool::{PoolError, PoolErrorKind};
use units::PoolName;

use crate::claimant::Claimant;
use crate::errors::{of_pool, shape};
use crate::records::{Edits, NOTE, OWNER, Owner, Records, State};
use crate::shelf::{Completion, Shelf};
use crate::start::Location;

/// Longest note, in bytes.
const NOTE_BYTES_MAX: usize = 64 << 10;

/// An open shelf.
pub struct CephPool {
    pub(crate) shelf: Arc<Shelf>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for CephPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CephPool")
            .field("name", &self.shelf.claimant.name)
            .finish_non_exhaustive()
    }
}

impl CephPool {
    /// Opens a shelf that this process owns.
    pub(crate) fn open(
        claimant: Claimant,
        location: Location,
        namespace: Arc<Namespace>,
        records: Records,
        is_read_only: bool,
    ) -> Result<Self, PoolError> {
        let name = claimant.name.clone();
        let (completions, queue) = std::sync::mpsc::channel::<Completion>();
        let shelf = Shelf::new(
            claimant,
            location,
            namespace,
            records,
            is_read_only,
            completions,
        );
        let shelf = Arc::new(shelf);
        let fail = |error| of_pool("import", name.as_str(), error);
        // The first statistics are there before the first write.
        shelf.poll_cluster().map_err(fail)?;
        let spawn = |title: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new()
                .name(title.to_owned())
                .spawn(work);
            thread.map_err(|error| shape("import", name.as_str(), format!("no thread: {error}")))
        };
        let mut pool = Self {
            shelf,
            threads: Vec::new(),
        };
        let run_queue = move || queue.into_iter().for_each(|completion| completion());
        // It exits with the last sender, which volumes and reads in progress may outlive this with.
        drop(spawn("ceph-complete", Box::new(run_queue))?);
        let watched = Arc::clone(&pool.shelf);
        pool.threads
            .push(spawn("ceph-watch", Box::new(move || watched.watch()))?);
        if !is_read_only {
            let collected = Arc::clone(&pool.shelf);
            pool.threads.push(spawn(
                "ceph-collect",
                Box::new(move || collected.collect()),
            )?);
        }
        Ok(pool)
    }

    /// Stops the threads of the shelf.
    fn stop(&mut self) {
        self.shelf.watch.stop();
        self.shelf.collector.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the shelf panicked");
            }
        }
    }

    fn refused(&self, doing: &'static str, kind: PoolErrorKind) -> PoolError {
        PoolError::new(doing, self.name().as_str(), kind)
    }

    /// Stores how this process leaves the shelf.
    fn leave(&mut self, doing: &'static str, state: State) -> Result<(), PoolError> {
        if !self.shelf.open_volumes().is_empty() {
            return Err(self.refused(doing, PoolErrorKind::Busy));
        }
        self.stop();
        if self.shelf.is_read_only {
            self.shelf.claimant.release();
            return Ok(());
        }
        let before = self.shelf.records().owner.clone();
        let owner = Owner {
            state,
            claims: before.claims + 1,
            ..before
        };
        let mut edits = Edits::default();
        edits.set(OWNER.to_owned(), owner.bytes());
        let left = self.shelf.changing().commit(edits);
        left.map_err(|error| of_pool(doing, self.name().as_str(), error))?;
        self.shelf.claimant.release();
        Ok(())
    }
}

impl Drop for CephPool {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Ownership for CephPool {
    fn name(&self) -> &PoolName {
        self.shelf.name()
    }

    fn export(mut self: Box<Self>) -> Result<(), (Box<dyn engine::Pool>, PoolError)> {
        match self.leave("export", State::Exported) {
            Ok(()) => Ok(()),
            Err(error) => Err((self, error)),
        }
    }

    fn destroy(mut self: Box<Self>) -> Result<(), (Box<dyn engine::Pool>, PoolError)> {
        const DOING: &str = "destroy";
        if let Err(error) = self.leave(DOING, State::Destroyed) {
            return Err((self, error));
        }
        match self.shelf.remove_all() {
            Ok(()) => Ok(()),
            Err(error) => {
                let error = of_pool(DOING, self.shelf.name().as_str(), error);
                Err((self, error))
            }
        }
    }

    fn leave_note(&self, text: &str) -> Result<(), PoolError> {
        const DOING: &str = "leave a note in";
        if self.shelf.is_read_only {
            return Err(self.refused(DOING, PoolErrorKind::ReadOnly));
        }
        if text.len() > NOTE_BYTES_MAX {
            let why = format!("a note has at most {NOTE_BYTES_MAX} bytes");
            return Err(shape(DOING, self.name().as_str(), why));
        }
        let mut edits = Edits::default();
        match text.is_empty() {
            true => edits.remove(NOTE.to_owned()),
            false => edits.set(NOTE.to_owned(), text.as_bytes().to_vec()),
        };
        let changed = self.shelf.changing().commit(edits);
        changed.map_err(|error| of_pool(DOING, self.name().as_str(), error))
    }

    fn sync(&self) -> Result<(), PoolError> {
        // A completed write is durable already.
        match self.shelf.is_lost() {
            true => Err(self.refused("sync", PoolErrorKind::ActiveElsewhere)),
            false => Ok(()),
        }
    }
}
