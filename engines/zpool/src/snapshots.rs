//! Snapshots that are open because clients access them. Their number is small: an idle one is closed for another, and
//! an operation that a snapshot blocks closes it first.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use file_system::{Done, FileError, FileSystem};

/// Maximum of open snapshots per pool.
const OPEN_MAX: usize = 32;
/// An idle snapshot is closed after this time when another is opened.
const IDLE: Duration = Duration::from_secs(60);
/// The files of a snapshot that is open.
pub trait Closing: FileSystem {
    /// Blocks until its calls have finished. Later calls return [`FileError::Gone`].
    fn close(&self);
    /// The files alone. The oldest supported Rust does not detect that it is one.
    fn files(self: Arc<Self>) -> Arc<dyn FileSystem>;
}

/// The open snapshots of a pool. Opening or closing one snapshot blocks only requests for the same one.
#[derive(Default)]
pub struct OpenSnapshots {
    state: Mutex<State>,
    /// An open or close has finished.
    done: Condvar,
}

#[derive(Default)]
struct State {
    open: Vec<Open>,
    /// The snapshots that are being opened or closed.
    busy: Vec<Busy>,
    /// The snapshots that must stay closed: single ones, and datasets with all snapshots of them and their descendants.
    closed: Vec<(u64, String)>,
    next: u64,
}

/// The identity of a snapshot's file system, and its number.
type Key = (u64, u64);

struct Open {
    key: Key,
    name: String,
    used: Instant,
    files: Arc<dyn Closing>,
}

struct Busy {
    key: Key,
    /// Unknown at first. The thread that determines it checks whether it must stay closed.
    name: Option<String>,
}

/// Prevents snapshots from being opened until it is dropped.
pub struct KeptClosed {
    snapshots: Arc<OpenSnapshots>,
    numbers: std::ops::Range<u64>,
}

/// Whether a snapshot is `closed`, or one of that dataset or its descendants.
fn is_meant(name: &str, closed: &str) -> bool {
    let rest = name.strip_prefix(closed);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['@', '/']))
}

impl State {
    /// Removes them; they are busy until they are closed.
    fn take(&mut self, is_meant: impl Fn(&Open) -> bool) -> Vec<Open> {
        let (taken, kept): (Vec<Open>, _) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(is_meant);
        self.open = kept;
        self.busy.extend(taken.iter().map(|one| Busy {
            key: one.key,
            name: Some(one.name.clone()),
        }));
        taken
    }

    fn is_full(&self) -> bool {
        self.open.len() + self.busy.len() >= OPEN_MAX
    }

    /// Removes idle snapshots, and the least recently used one if the list is full.
    fn take_for_room(&mut self) -> Vec<Open> {
        let is_full = self.is_full();
        let oldest = self.open.iter().map(|one| one.used).min();
        self.take(|one| one.used.elapsed() >= IDLE || (is_full && Some(one.used) == oldest))
    }

    fn is_busy(&self, key: Key) -> bool {
        self.busy.iter().any(|one| one.key == key)
    }

    fn is_kept_closed(&self, name: &str) -> bool {
        let mut closed = self.closed.iter();
        closed.any(|(_, closed)| is_meant(name, closed))
    }
}

/// A snapshot that is being opened or closed, until this is dropped.
struct Working<'a> {
    snapshots: &'a OpenSnapshots,
    key: Key,
}

impl Working<'_> {
    /// It is open.
    fn opened(self, name: String, files: Arc<dyn Closing>) {
        self.snapshots.lock().open.push(Open {
            key: self.key,
            name,
            used: Instant::now(),
            files,
        });
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let mut state = self.snapshots.lock();
        let mut busy = state.busy.iter();
        let at = busy.position(|one| one.key == self.key);
        at.map(|at| state.busy.swap_remove(at));
        drop(state);
        self.snapshots.done.notify_all();
    }
}

impl OpenSnapshots {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Blocks until no matching snapshot is busy.
    fn wait_while_busy<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        is_meant: impl Fn(&Busy) -> bool,
    ) -> MutexGuard<'a, State> {
        let is_busy = |state: &mut State| state.busy.iter().any(&is_meant);
        let waited = self.done.wait_while(state, is_busy);
        waited.expect("no holder panics")
    }

    /// Blocks until the calls that use them have finished.
    fn close(&self, snapshots: Vec<Open>) {
        for one in snapshots {
            let _closing = Working {
                snapshots: self,
                key: one.key,
            };
            one.files.close();
        }
    }

    /// Closes snapshots: those with these names, and all of datasets with these names and their descendants.
    pub fn keep_closed<'a>(
        self: &Arc<Self>,
        names: impl IntoIterator<Item = &'a (impl AsRef<str> + ?Sized + 'a)>,
    ) -> KeptClosed {
        let names: Vec<String> = names
            .into_iter()
            .map(|name| name.as_ref().to_owned())
            .collect();
        let concerns = |one: &str| names.iter().any(|name| is_meant(one, name));
        let mut state = self.lock();
        let first = state.next;
        state.next += names.len() as u64;
        state.closed.extend((first..).zip(names.iter().cloned()));
        let numbers = first..state.next;
        let mut state =
            self.wait_while_busy(state, |one| one.name.as_deref().is_some_and(concerns));
        let concerned = state.take(|one| concerns(&one.name));
        drop(state);
        self.close(concerned);
        KeptClosed {
            snapshots: Arc::clone(self),
            numbers,
        }
    }

    /// Closes those of a file system that is being closed: no further ones are opened.
    pub fn close_those_of(&self, identity: u64) {
        let state = self.lock();
        let mut state = self.wait_while_busy(state, |one| one.key.0 == identity);
        let concerned = state.take(|one| one.key.0 == identity);
        drop(state);
        self.close(concerned);
    }

    /// The files of the snapshot with the given number of the file system `of`. If they are not open, `name` returns
    /// its full name, and `make` opens them.
    pub fn open(
        &self,
        key: (u64, u64),
        name: impl Fn() -> Done<String>,
        make: impl FnOnce(&str) -> Done<Arc<dyn Closing>>,
    ) -> Done<Arc<dyn FileSystem>> {
        let mut state = self.lock();
        loop {
            let known = state.open.iter_mut().find(|one| one.key == key);
            if let Some(one) = known {
                one.used = Instant::now();
                return Ok(Arc::clone(&one.files).files());
            }
            let must_wait = state.is_busy(key) || (state.is_full() && state.open.is_empty());
            if !must_wait {
                break;
            }
            state = self.done.wait(state).expect("no holder panics");
        }
        let unused = state.take_for_room();
        state.busy.push(Busy { key, name: None });
        drop(state);
        let opening = Working {
            snapshots: self,
            key,
        };
        self.close(unused);
        let called = name()?;
        self.begin(key, &called)?;
        // Before the mark, a rename may have reassigned this name.
        if name()? != called {
            return Err(FileError::NotReady);
        }
        let files = make(&called)?;
        opening.opened(called, Arc::clone(&files));
        Ok(files.files())
    }

    /// A snapshot that is about to be opened has this name; an error if it must stay closed.
    fn begin(&self, key: Key, name: &str) -> Done {
        let mut state = self.lock();
        if state.is_kept_closed(name) {
            return Err(FileError::NotReady);
        }
        let mut busy = state.busy.iter_mut();
        if let Some(one) = busy.find(|one| one.key == key) {
            one.name = Some(name.to_owned());
        }
        Ok(())
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
    use std::sync::mpsc::channel;
    use std::thread;

    use file_system::memory::MemoryFileSystem;

    use super::*;

    #[test]
    fn close_covers_a_snapshot_or_a_dataset_and_descendants() {
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
    fn snapshot_closed_by_two_holders_opens_after_both_release() {
        let snapshots = Arc::new(OpenSnapshots::default());
        let one = snapshots.keep_closed(["tank/a", "tank/b"]);
        let other = snapshots.keep_closed(["tank/a"]);
        drop(one);
        assert_eq!(snapshots.lock().closed, [(2, "tank/a".to_owned())]);
        drop(other);
        assert!(snapshots.lock().closed.is_empty());
    }

    /// Held while snapshots must not be closed.
    static CLOSING: Mutex<()> = Mutex::new(());

    impl Closing for MemoryFileSystem {
        fn close(&self) {
            drop(CLOSING.lock().expect("no holder panics"));
        }

        fn files(self: Arc<Self>) -> Arc<dyn FileSystem> {
            self
        }
    }

    fn open(snapshots: &OpenSnapshots, number: u64) -> Done<Arc<dyn FileSystem>> {
        let make = |_: &str| Ok(Arc::new(MemoryFileSystem::new(0)) as Arc<dyn Closing>);
        snapshots.open((1, number), || Ok(format!("tank/a@{number}")), make)
    }

    #[test]
    fn slow_open_does_not_block_other_snapshots() {
        let snapshots = Arc::new(OpenSnapshots::default());
        let (begins, begun) = channel();
        let (goes_on, may_go_on) = channel();
        thread::scope(|scope| {
            let slow = scope.spawn(|| {
                let make = move |_: &str| {
                    begins.send(()).expect("somebody waits");
                    may_go_on.recv().expect("somebody says so");
                    Ok(Arc::new(MemoryFileSystem::new(0)) as Arc<dyn Closing>)
                };
                snapshots
                    .open((1, 7), || Ok("tank/a@7".to_owned()), make)
                    .is_ok()
            });
            begun.recv().expect("it begins");
            assert!(open(&snapshots, 8).is_ok());
            let closer = scope.spawn(|| snapshots.keep_closed(["tank/a@7"]));
            while snapshots.lock().closed.is_empty() {
                thread::yield_now();
            }
            assert!(!closer.is_finished(), "it is not closed yet");
            goes_on.send(()).expect("it waits");
            assert!(slow.join().expect("no panic"));
            let _closed = closer.join().expect("no panic");
            assert!(matches!(open(&snapshots, 7), Err(FileError::NotReady)));
            assert!(snapshots.lock().busy.is_empty() && snapshots.lock().open.len() == 1);
        });
    }

    #[test]
    fn slow_close_does_not_block_other_snapshots() {
        let snapshots = OpenSnapshots::default();
        for number in 0..OPEN_MAX as u64 {
            assert!(open(&snapshots, number).is_ok());
        }
        thread::scope(|scope| {
            let held = CLOSING.lock().expect("no holder panics");
            let waits = scope.spawn(|| open(&snapshots, 100).is_ok());
            while !snapshots.lock().is_busy((1, 100)) {
                thread::yield_now();
            }
            assert!(open(&snapshots, 1).is_ok(), "it is open");
            assert!(!waits.is_finished());
            drop(held);
            assert!(waits.join().expect("no panic"));
        });
        assert_eq!(snapshots.lock().open.len(), OPEN_MAX);
    }
}
