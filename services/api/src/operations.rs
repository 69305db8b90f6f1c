//! Background operations: each runs on a thread of its own, continues if the client disconnects, and can be watched.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use control::{Failure, FailureKind};
use serde_json::Value;
use tokio::sync::broadcast;

use crate::view::Operation;

/// Operations that run at the same time.
const RUNNING_MAX: usize = 8;
/// Stored operations.
const KEPT_MAX: usize = 100;
/// Stored lines of progress of each.
const LINES_MAX: usize = 200;
/// Longest line, in bytes.
const LINE_BYTES_MAX: usize = 500;
/// Most changes that a watcher may lag behind.
const BEHIND_MAX: usize = 256;

/// All operations.
pub struct Operations {
    state: Mutex<State>,
    changes: broadcast::Sender<Operation>,
}

#[derive(Default)]
struct State {
    last: u64,
    known: BTreeMap<u64, (Operation, Arc<AtomicBool>)>,
}

/// The description of an operation.
pub struct RequestedOperation {
    /// `move`, `apply`, `drill` or `request`.
    pub kind: &'static str,
    /// The action, in words.
    pub title: String,
    /// The user that starts it.
    pub who: String,
}

/// The work of an operation: its progress, and whether it was canceled.
pub type Work = Box<dyn FnOnce(&mut dyn FnMut(&str), &AtomicBool) -> Result<Value, Failure> + Send>;

impl Default for Operations {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changes: broadcast::Sender::new(BEHIND_MAX),
        }
    }
}

impl Operations {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Subscribes to all future changes.
    pub fn watch(&self) -> broadcast::Receiver<Operation> {
        self.changes.subscribe()
    }

    /// All stored operations, the newest first.
    pub fn list(&self) -> Vec<Operation> {
        let state = self.lock();
        state
            .known
            .values()
            .rev()
            .map(|(one, _)| one.clone())
            .collect()
    }

    /// Returns one operation.
    pub fn find(&self, id: &str) -> Result<Operation, Failure> {
        let state = self.lock();
        let found = id.parse().ok().and_then(|id: u64| state.known.get(&id));
        found
            .map(|(one, _)| one.clone())
            .ok_or_else(|| Failure::not_found(format!("there is no operation {id}")))
    }

    /// Requests one to end early.
    pub fn cancel(&self, id: &str) -> Result<(), Failure> {
        let found = self.find(id)?;
        if found.kind != "drill" {
            let message = format!("operation {id} ({}) cannot be canceled", found.title);
            return Err(Failure::usage(message).advise("only drills can; wait until it has ended"));
        }
        if let Ok(id) = id.parse() {
            if let Some((_, cancel)) = self.lock().known.get(&id) {
                cancel.store(true, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Starts one.
    pub fn start(
        self: &Arc<Self>,
        wanted: RequestedOperation,
        work: Work,
    ) -> Result<Operation, Failure> {
        let cancel = Arc::new(AtomicBool::new(false));
        let (id, operation) = {
            let mut state = self.lock();
            let running = state
                .known
                .values()
                .filter(|(one, _)| one.state == "running");
            if running.count() >= RUNNING_MAX {
                let message = format!("{RUNNING_MAX} operations run already");
                return Err(Failure::new(FailureKind::Busy, message)
                    .advise("wait until one of them has ended"));
            }
            state.last += 1;
            let id = state.last;
            let operation = Operation {
                id: id.to_string(),
                kind: wanted.kind.to_owned(),
                title: wanted.title,
                state: "running".to_owned(),
                who: wanted.who,
                started_at_ms: crate::now_ms(),
                ..Operation::default()
            };
            state
                .known
                .insert(id, (operation.clone(), Arc::clone(&cancel)));
            state.remove_oldest();
            (id, operation)
        };
        let _ = self.changes.send(operation.clone());
        let own = Arc::clone(self);
        let run = move || own.run(id, &cancel, work);
        let spawned = std::thread::Builder::new()
            .name("operation".into())
            .spawn(run);
        if let Err(error) = spawned {
            let failure = Failure::new(FailureKind::Failed, format!("start a thread: {error}"));
            self.end(id, Err(failure.clone()), false);
            return Err(failure);
        }
        Ok(operation)
    }

    fn run(&self, id: u64, cancel: &AtomicBool, work: Work) {
        let mut progress = |line: &str| self.report_progress(id, line);
        let outcome = work(&mut progress, cancel);
        self.end(id, outcome, cancel.load(Ordering::Acquire));
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut Operation)) {
        let mut state = self.lock();
        if let Some((operation, _)) = state.known.get_mut(&id) {
            change(operation);
            let _ = self.changes.send(operation.clone());
        }
    }

    fn report_progress(&self, id: u64, lines: &str) {
        self.change(id, |operation| {
            for line in lines.lines() {
                let end = line.floor_char_boundary_at(LINE_BYTES_MAX);
                operation.progress.push(line[..end].to_owned());
            }
            let over = operation.progress.len().saturating_sub(LINES_MAX);
            operation.progress.drain(..over);
        });
    }

    fn end(&self, id: u64, outcome: Result<Value, Failure>, canceled: bool) {
        self.change(id, |operation| {
            operation.ended_at_ms = Some(crate::now_ms());
            operation.state = match (&outcome, canceled) {
                (Ok(_), _) => "done",
                (Err(_), true) => "canceled",
                (Err(_), false) => "failed",
            }
            .to_owned();
            match outcome {
                Ok(result) => operation.result = Some(result),
                Err(failure) => operation.failure = Some(failure),
            }
        });
    }
}

/// `str::floor_char_boundary`, which is newer than our oldest compiler.
trait FloorBoundary {
    fn floor_char_boundary_at(&self, index: usize) -> usize;
}

impl FloorBoundary for str {
    fn floor_char_boundary_at(&self, index: usize) -> usize {
        let mut end = self.len().min(index);
        while !self.is_char_boundary(end) {
            end -= 1;
        }
        end
    }
}

impl State {
    fn remove_oldest(&mut self) {
        while self.known.len() > KEPT_MAX {
            let ended = self
                .known
                .iter()
                .find(|(_, (one, _))| one.state != "running");
            match ended.map(|(id, _)| *id) {
                Some(id) => self.known.remove(&id),
                None => return,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted(kind: &'static str) -> RequestedOperation {
        RequestedOperation {
            kind,
            title: "a test".into(),
            who: "anna".into(),
        }
    }

    fn ended(watch: &mut broadcast::Receiver<Operation>) -> Operation {
        loop {
            let change = watch.blocking_recv().expect("not behind");
            if change.state != "running" {
                return change;
            }
        }
    }

    #[test]
    fn operation_reports_progress_and_completion() {
        let operations = Arc::new(Operations::default());
        let mut watch = operations.watch();
        let work: Work = Box::new(|progress, _| {
            progress("one");
            Ok(json!({"pause_s": 4}))
        });
        let begun = operations.start(wanted("move"), work).expect("started");
        assert_eq!(begun.state, "running");
        let ended = ended(&mut watch);
        assert_eq!(
            (ended.state.as_str(), &ended.progress[..]),
            ("done", &["one".to_owned()][..])
        );
        assert_eq!(operations.find(&begun.id).expect("kept"), ended);
        operations.cancel(&begun.id).expect_err("no drill");
    }

    #[test]
    fn a_drill_is_canceled_and_an_unknown_one_is_not_found() {
        let operations = Arc::new(Operations::default());
        let mut watch = operations.watch();
        let work: Work = Box::new(|_, cancel| {
            while !cancel.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            Err(Failure::new(FailureKind::Failed, "ended early"))
        });
        let begun = operations.start(wanted("drill"), work).expect("started");
        operations.cancel(&begun.id).expect("asked");
        assert_eq!(ended(&mut watch).state, "canceled");
        let unknown = operations.find("nonsense").expect_err("unknown");
        assert_eq!(unknown.kind, FailureKind::NotFound);
    }
}
