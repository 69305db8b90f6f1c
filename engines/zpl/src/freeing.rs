//! Frees objects that have lost their last name: when they are no longer held, or after a crash at the next open.
//!
//! Freeing a large file is slow. No request blocks on it: a background thread frees it in pieces, so that the file
//! system can be closed in between.

use std::ops::Range;
use std::sync::{Arc, MutexGuard, PoisonError};

use file_system::{Kind, Node};

use crate::changes::LARGE_BYTES;
use crate::convert::{attributes_of, entry_object};
use crate::file_system::Zpl;
use crate::holds::ToFree;
use crate::objects::{Has, ObjectError, Objects, Step, Stored};

/// Contents that are freed at once, in bytes, and the maximum number of pieces per file: a sparse file has large
/// pieces.
const PIECE_BYTES_MIN: u64 = 1 << 30;
const PIECES_MAX: u64 = 4096;

/// Whether its contents are too large to be freed by one change.
fn is_long(stored: &Stored) -> bool {
    stored.size > LARGE_BYTES && is_no_directory(stored)
}

/// Whether freeing it is too slow for a request to wait for.
fn is_large(stored: &Stored) -> bool {
    stored.size > PIECE_BYTES_MIN && is_no_directory(stored)
}

/// Whether it has a directory of extended attributes.
fn has_extended(stored: &Stored) -> bool {
    stored.has.has(Has::EXTENDED) && stored.extended != 0
}

fn is_no_directory(stored: &Stored) -> bool {
    attributes_of(stored).is_ok_and(|known| known.kind != Kind::Directory)
}

/// Marks an object as being freed by the holder of this guard.
struct FreeingGuard<'a, O: Objects>(&'a Zpl<O>, u64);

impl<O: Objects> Drop for FreeingGuard<'_, O> {
    fn drop(&mut self) {
        self.0.lock_holds().going.remove(&self.1);
    }
}

impl<O: Objects> Zpl<O> {
    /// Frees an object without a name or a hold. A failure is logged: the next open retries.
    ///
    /// Removing the last name and releasing the last hold may both call this. The second call finds no object, or a new
    /// one with that number, and leaves it alone.
    pub(crate) fn purge_and_log(&self, object: u64) {
        // The next writable open does so.
        if self.facts().is_read_only && !self.is_replaying() {
            return;
        }
        if let Err(error) = self.purge_unheld(object) {
            Self::log_failure(object, &error);
        }
    }

    fn log_failure(object: u64, error: &ObjectError) {
        if !matches!(error, ObjectError::Closed) {
            tracing::warn!(object, %error, "a removed file still uses space; the next open of the file system frees it");
        }
    }

    fn purge_unheld(&self, object: u64) -> Result<(), ObjectError> {
        let is_large = {
            let _changing = self.locks.change(&[object]);
            match self.objects.stored(object) {
                Ok(stored) if stored.links == 0 && self.lock_holds().mark_unlinked(object) => {
                    is_large(&stored)
                }
                Ok(_) | Err(ObjectError::Missing) => return Ok(()),
                Err(error) => return Err(error),
            }
        };
        match is_large {
            true => self.purge_later(object),
            false => self.purge(object)?,
        }
        Ok(())
    }

    fn lock_to_free(&self) -> MutexGuard<'_, ToFree> {
        self.to_free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn purge_later(&self, object: u64) {
        self.lock_to_free().waiting.push_back(object);
        match self.begins_to_free.get() {
            Some(begin) => begin(),
            // It is pending until the log replay is complete.
            None if self.is_replaying() => {}
            None => self.free_waiting(),
        }
    }

    /// Frees the pending large files. Returns when none is left, when another thread frees them, or when the file
    /// system is closed.
    pub fn free_waiting(&self) {
        if std::mem::replace(&mut self.lock_to_free().is_running, true) {
            return;
        }
        loop {
            let object = {
                let mut to_free = self.lock_to_free();
                let next = to_free.waiting.pop_front();
                to_free.is_running = next.is_some();
                next
            };
            let Some(object) = object else { return };
            if let Err(error) = self.purge(object) {
                Self::log_failure(object, &error);
            }
        }
    }

    /// Starts to free large files on separate threads, including those left by a crash.
    pub fn free_in_background(self: &Arc<Self>)
    where
        O: Send + Sync + 'static,
    {
        let weak = Arc::downgrade(self);
        let begin = move || {
            let Some(zpl) = weak.upgrade() else { return };
            let is_needed = {
                let to_free = zpl.lock_to_free();
                !to_free.is_running && !to_free.waiting.is_empty()
            };
            if is_needed {
                let thread = std::thread::Builder::new().name("free".into());
                if let Err(error) = thread.spawn(move || zpl.free_waiting()) {
                    tracing::warn!(%error, "no thread to free a large file: the next removal of one tries again");
                }
            }
        };
        self.begins_to_free.get_or_init(|| Box::new(begin))();
    }

    /// Frees an object of the list of unlinked ones, together with its extended attributes. The caller guarantees that
    /// no other thread does so concurrently.
    fn purge(&self, object: u64) -> Result<(), ObjectError> {
        // Until its number may be reused, or this has failed.
        let mut going = Some(FreeingGuard(self, object));
        let mut waiting = vec![object];
        while let Some(object) = waiting.pop() {
            let found = self.objects.stored(object);
            match &found {
                Ok(stored) if is_long(stored) => self.free_contents(object, stored.size)?,
                _ => {}
            }
            let _changing = self.locks.change(&[object]);
            match found {
                Err(ObjectError::Missing) => {
                    self.objects.change(&[Step::Forget { object }], true)?;
                }
                found => self.free_object(object, &found?, &mut waiting, &mut going)?,
            }
        }
        Ok(())
    }

    /// A removed directory is empty, except one of extended attributes, which have no other name.
    fn empty(
        &self,
        object: u64,
        stored: &Stored,
        waiting: &mut Vec<u64>,
    ) -> Result<(), ObjectError> {
        if is_no_directory(stored) {
            return Ok(());
        }
        let mut inside = Vec::new();
        self.objects.list(object, 0, &mut |entry| {
            inside.push((entry.name.to_vec(), entry_object(entry.value)));
            true
        })?;
        for (name, object_inside) in inside {
            let leave = Step::Leave {
                directory: object,
                name: &name,
            };
            match self.objects.stored(object_inside) {
                Ok(_) => {
                    let steps = [
                        leave,
                        without_name(object_inside),
                        Step::Unlink {
                            object: object_inside,
                        },
                    ];
                    self.objects.change(&steps, true)?;
                    waiting.push(object_inside);
                }
                Err(_) => {
                    self.objects.change(&[leave], true)?;
                }
            }
        }
        Ok(())
    }

    fn free_object(
        &self,
        object: u64,
        stored: &Stored,
        waiting: &mut Vec<u64>,
        going: &mut Option<FreeingGuard<'_, O>>,
    ) -> Result<(), ObjectError> {
        self.empty(object, stored, waiting)?;
        let mut steps = vec![Step::Forget { object }, Step::Free { object }];
        let extended = stored.extended;
        if has_extended(stored) && self.objects.stored(extended).is_ok() {
            steps.extend([without_name(extended), Step::Unlink { object: extended }]);
            waiting.push(extended);
        }
        drop(going.take());
        self.objects.change(&steps, true)?;
        Ok(())
    }

    /// Frees the contents of a large file that is being removed. No request can access them, so no lock is held.
    fn free_contents(&self, object: u64, size: u64) -> Result<(), ObjectError> {
        // In whole blocks.
        let piece = (size / PIECES_MAX).max(PIECE_BYTES_MIN);
        let piece = piece.next_power_of_two();
        let mut at = size - size % piece;
        while at > 0 {
            self.objects.free(object, at, Some(piece))?;
            at -= piece;
        }
        // This marks the object as empty for the library.
        self.objects.free(object, 0, None)
    }

    /// Frees objects that lost their last name before the last crash. Large files are deferred until the file system is
    /// open.
    pub(crate) fn drain(&self) -> Result<(), ObjectError> {
        let mut found = Vec::new();
        let list = self.facts().unlinked;
        self.objects.list(list, 0, &mut |entry| {
            found.push(entry.value);
            true
        })?;
        let mut are_freed = false;
        for object in found {
            match self.objects.stored(object) {
                Ok(stored) if self.is_kept(object, &stored) => {}
                // Its attribute objects would conflict with a log that creates objects under their numbers.
                Ok(stored) if is_large(&stored) && !has_extended(&stored) => {
                    let mark_unlinked = self.lock_holds().mark_unlinked(object);
                    // A later open finds it again.
                    if mark_unlinked && !self.facts().is_read_only {
                        self.lock_to_free().waiting.push_back(object);
                    }
                }
                _ => {
                    self.purge(object)?;
                    are_freed = true;
                }
            }
        }
        // A record of the log may create an object with a number that was just freed.
        match are_freed {
            true => self.objects.settle(),
            false => Ok(()),
        }
    }

    fn is_kept(&self, object: u64, stored: &Stored) -> bool {
        let generation = stored.generation;
        self.lock_holds().is_kept(Node { object, generation })
    }

    /// The held objects without a name: they stay if the file system is closed and opened again.
    pub fn held_without_name(&self) -> Vec<Node> {
        let (held, mut all) = self.lock_holds().all();
        all.extend(held.into_iter().filter_map(|object| {
            let stored = self.objects.stored(object).ok()?;
            let generation = stored.generation;
            (stored.links == 0).then_some(Node { object, generation })
        }));
        all
    }

    /// In a replay: frees pending objects, because the log creates new ones with their numbers.
    pub(crate) fn make_way(&self, numbers: Range<u64>) -> Result<(), ObjectError> {
        for object in numbers.filter(|number| self.is_being_freed(*number)) {
            self.lock_to_free().waiting.retain(|one| *one != object);
            self.purge(object)?;
            self.objects.settle()?;
        }
        Ok(())
    }

    /// Whether an object is being freed or pending.
    pub(crate) fn is_being_freed(&self, object: u64) -> bool {
        self.lock_holds().going.contains(&object)
    }
}

pub(crate) fn without_name(object: u64) -> Step<'static> {
    Step::Set {
        object,
        stored: Stored {
            links: 0,
            has: Has::LINKS,
            ..Stored::default()
        },
        acl: None,
    }
}
