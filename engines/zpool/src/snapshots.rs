//! Snapshots that are open because clients look into them. They are few: one that was not used for long is closed for another, and whatever
//! a snapshot is in the way of has it closed first.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use file_system::{Done, FileError, FileSystem};

/// Snapshots of a pool that are open at a time.
const OPEN_MAX: usize = 32;
/// One that was not used for so long is closed when another one is opened.
const IDLE: Duration = Duration::from_secs(60);
/// The files of a snapshot that is open.
pub trait Closing: FileSystem {
    /// Waits for calls to end. Later ones answer [`FileError::Gone`].
    fn close(&self);
}

/// Those of a pool.
#[derive(Default)]
pub struct OpenSnapshots(Mutex<State>);

#[derive(Default)]
struct State {
    open: Vec<Open>,
    /// What is kept closed: snapshots, and datasets with all snapshots of them and below.
    closed: Vec<(u64, String)>,
    next: u64,
}

struct Open {
    /// The identity of the file system that it was taken of.
    of: u64,
    number: u64,
    name: String,
    used: Instant,
    files: Arc<dyn Closing>,
}

/// Keeps snapshots closed until it is dropped.
pub struct KeptClosed {
    snapshots: Arc<OpenSnapshots>,
    numbers: std::ops::Range<u64>,
}

/// Whether a snapshot is `closed`, or one of it, or of something below it.
fn is_meant(name: &str, closed: &str) -> bool {
    let rest = name.strip_prefix(closed);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['@', '/']))
}

impl State {
    fn take(&mut self, is_meant: impl Fn(&Open) -> bool) -> Vec<Open> {
        let (taken, kept) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(is_meant);
        self.open = kept;
        taken
    }

    /// Closes what nobody uses, and what was not used for longest if there is no room.
    fn make_room(&mut self) {
        let oldest = self.open.iter().map(|one| one.used).min();
        let is_full = self.open.len() >= OPEN_MAX;
        let unused =
            self.take(|one| one.used.elapsed() >= IDLE || (is_full && Some(one.used) == oldest));
        close(&unused);
    }
}

/// Waits for the calls that use them.
fn close(snapshots: &[Open]) {
    for one in snapshots {
        one.files.close();
    }
}

impl OpenSnapshots {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder panics")
    }

    /// Closes snapshots: those with these names, and all of datasets with these names and below.
    pub fn keep_closed<'a>(
        self: &Arc<Self>,
        names: impl IntoIterator<Item = &'a (impl AsRef<str> + ?Sized + 'a)>,
    ) -> KeptClosed {
        let names: Vec<String> = names
            .into_iter()
            .map(|name| name.as_ref().to_owned())
            .collect();
        let mut state = self.lock();
        let concerned = state.take(|one| names.iter().any(|name| is_meant(&one.name, name)));
        let first = state.next;
        state.next += names.len() as u64;
        state.closed.extend((first..).zip(names));
        let numbers = first..state.next;
        drop(state);
        close(&concerned);
        KeptClosed {
            snapshots: Arc::clone(self),
            numbers,
        }
    }

    /// Closes those of a file system, which is closed: no other ones are opened.
    pub fn close_those_of(&self, identity: u64) {
        let concerned = self.lock().take(|one| one.of == identity);
        close(&concerned);
    }

    /// The files of the snapshot with a number of the file system `of`. If they are not open, `name` tells its full name, and `make` opens them.
    pub fn open(
        &self,
        (of, number): (u64, u64),
        name: impl FnOnce() -> Done<String>,
        make: impl FnOnce(&str) -> Done<Arc<dyn Closing>>,
    ) -> Done<Arc<dyn FileSystem>> {
        let state = &mut *self.lock();
        let known = state.open.iter_mut();
        let mut known = known.filter(|one| one.number == number && one.of == of);
        if let Some(one) = known.next() {
            one.used = Instant::now();
            return Ok(Arc::clone(&one.files) as Arc<_>);
        }
        let name = name()?;
        if state
            .closed
            .iter()
            .any(|(_, closed)| is_meant(&name, closed))
        {
            return Err(FileError::NotReady);
        }
        state.make_room();
        let files = make(&name)?;
        state.open.push(Open {
            of,
            number,
            name,
            used: Instant::now(),
            files: Arc::clone(&files),
        });
        Ok(files)
    }
}

impl std::fmt::Debug for OpenSnapshots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenSnapshots").finish_non_exhaustive()
    }
}

impl Drop for KeptClosed {
    fn drop(&mut self) {
        let mut state = self.snapshots.lock();
        state
            .closed
            .retain(|(number, _)| !self.numbers.contains(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_closed_is_the_snapshot_or_all_of_a_dataset_and_below() {
        for (name, closed, expected) in [
            ("tank/a@x", "tank/a@x", true),
            ("tank/a@x", "tank/a", true),
            ("tank/a/b@x", "tank/a", true),
            ("tank/a@x", "tank", true),
            ("tank/a@xy", "tank/a@x", false),
            ("tank/ab@x", "tank/a", false),
            ("tank/a@x", "tank/a/b", false),
        ] {
            assert_eq!(is_meant(name, closed), expected, "{name} {closed}");
        }
    }

    #[test]
    fn what_is_kept_closed_twice_is_so_until_both_have_ended() {
        let snapshots = Arc::new(OpenSnapshots::default());
        let one = snapshots.keep_closed(["tank/a", "tank/b"]);
        let other = snapshots.keep_closed(["tank/a"]);
        drop(one);
        assert_eq!(snapshots.lock().closed, [(2, "tank/a".to_owned())]);
        drop(other);
        assert!(snapshots.lock().closed.is_empty());
    }
}
