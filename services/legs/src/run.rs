//! The thread that decides: takes events, writes what the member of this head remembers, and has actions performed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leg_memory::{Store, StoreError};
use takeover::legs::{
    Action, Ballot, Config, DiskId, Event, LenderAnswer, Memory, Notice, Owner, Record, Refusal,
    Request, Session,
};

use crate::lenders::{Lenders, first_stamp};
use crate::returns::Returns;
use crate::told::{Shown, Stage, refusal};
use crate::{Inbox, Input, Reporter, Side, in_background};

/// Between two looks at disks that are out.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// What is waited for on the way to an open pool has this time, and is asked for again after it.
const DEADLINE: Duration = Duration::from_secs(15);

/// Why a pool with legs is not opened, or cannot be made one.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What this head remembers cannot be read or written.
    #[error("the record of the pool's legs cannot be used")]
    Store(#[from] StoreError),
    /// By the record.
    #[error("the pool is not opened: {0}")]
    Refused(String),
    /// The pool could not be opened, or a disk not be stamped.
    #[error("{0}")]
    Side(String),
}

/// Sees an action before it is performed.
pub type BeforeAction = Box<dyn Fn(&Action) + Send>;

/// How a pool with legs is owned.
pub struct Options {
    /// What is known without asking.
    pub config: Config,
    /// Where this head remembers.
    pub folder: PathBuf,
    /// Tests end the process there.
    pub before_action: Option<BeforeAction>,
}

/// Makes the pool one with a record: all of its disks are stamped as current, then the record is written. The pool must not
/// be open.
///
/// # Errors
///
/// A disk cannot be stamped, or there is a record already.
pub fn create(options: &Options, side: &impl Side) -> Result<(), Failure> {
    let ballot = Ballot {
        epoch: 1,
        nonce: random(),
    };
    let disks = options.config.groups.iter();
    let disks: Vec<DiskId> = disks
        .flat_map(|group| group.lenders.keys().copied())
        .collect();
    let first = Session { ballot, number: 1 };
    for disk in &disks {
        let stamped = side.keep(*disk, &first_stamp(first));
        stamped.map_err(|why| Failure::Side(format!("{}: {why}", side.name(*disk))))?;
    }
    let pool = options.config.pool;
    let memory = Memory::new(Record::new(pool, ballot, disks));
    Store::create(&options.folder, pool, memory)?;
    Ok(())
}

fn random() -> u64 {
    getrandom::u64().expect("the system has random numbers")
}

struct Common {
    shown: Mutex<Shown>,
    changed: Condvar,
}

impl Common {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut self.shown());
        self.changed.notify_all();
    }
}

/// A pool with legs that this process owns, or is about to.
pub struct Legs {
    common: Arc<Common>,
    reporter: Reporter,
    thread: Option<JoinHandle<()>>,
}

impl Legs {
    /// Opens the pool by its record. Waits until it is open.
    ///
    /// # Errors
    ///
    /// The record does not allow it, cannot be used, or the pool cannot be opened.
    pub fn open(options: Options, side: Arc<impl Side>, inbox: Inbox) -> Result<Self, Failure> {
        let store = Store::open(&options.folder, options.config.pool)?;
        let common = Arc::new(Common {
            shown: Mutex::new(Shown {
                stage: Stage::Opening,
                record: None,
                awaited: BTreeSet::new(),
                last: None,
            }),
            changed: Condvar::new(),
        });
        let reporter = inbox.reporter();
        reporter.send(Input::Event(Event::Open {
            nonce: random(),
            word: None,
        }));
        let decider = Decider {
            // Never repeats: what was promised to an earlier process says nothing.
            owner: Owner::new(random()),
            incarnation: random(),
            options,
            side,
            store,
            lenders: Lenders::default(),
            returns: Returns::default(),
            reporter: reporter.clone(),
            common: Arc::clone(&common),
        };
        let receiver = inbox.receiver;
        let thread = std::thread::Builder::new().name("legs".into());
        let thread = thread.spawn(move || decider.run(&receiver));
        let legs = Self {
            common,
            reporter,
            thread: Some(thread.expect("a thread")),
        };
        match legs.wait(|shown| shown.stage != Stage::Opening).stage {
            Stage::Refused(why) => Err(Failure::Refused(why)),
            Stage::Failed(why) => Err(Failure::Side(why)),
            _ => Ok(legs),
        }
    }

    /// What can be seen now.
    pub fn shown(&self) -> Shown {
        self.common.shown().clone()
    }

    /// Waits until that holds.
    pub fn wait(&self, holds: impl Fn(&Shown) -> bool) -> Shown {
        let mut shown = self.common.shown();
        while !holds(&shown) {
            let waited = self.common.changed.wait(shown);
            shown = waited.unwrap_or_else(PoisonError::into_inner);
        }
        shown.clone()
    }

    /// The pool was exported: gives it up.
    pub fn close(self) -> Shown {
        self.reporter.send(Input::Event(Event::Exported));
        self.wait(|shown| matches!(shown.stage, Stage::Closed | Stage::Failed(_)))
    }
}

impl Drop for Legs {
    fn drop(&mut self) {
        self.reporter.send(Input::End);
        if let Some(thread) = self.thread.take() {
            // It has told its end, if it came to one.
            let _ = thread.join();
        }
    }
}

struct Decider<S> {
    options: Options,
    side: Arc<S>,
    store: Store,
    owner: Owner,
    incarnation: u64,
    lenders: Lenders,
    returns: Returns,
    reporter: Reporter,
    common: Arc<Common>,
}

/// Whether the thread goes on.
#[derive(PartialEq, Eq)]
enum Goes {
    On,
    ToItsEnd,
}

impl<S: Side> Decider<S> {
    fn run(mut self, receiver: &Receiver<Input>) {
        let mut deadline = Instant::now() + DEADLINE;
        loop {
            let goes = match receiver.recv_timeout(LOOK_INTERVAL) {
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => Ok(Goes::ToItsEnd),
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => Ok(Goes::On),
            };
            let goes = goes.and_then(|goes| {
                if Instant::now() < deadline {
                    return Ok(goes);
                }
                deadline = Instant::now() + DEADLINE;
                self.on_event(Event::Deadline)
            });
            match goes {
                Ok(Goes::On) => self.look_for_returns(),
                Ok(Goes::ToItsEnd) => return,
                Err(failure) => return self.fail(&failure),
            }
        }
    }

    /// The record cannot be written any more. What was withheld stays so: nothing is acknowledged without it.
    fn fail(&self, failure: &StoreError) {
        let why = match std::error::Error::source(failure) {
            Some(cause) => format!("{failure}: {cause}"),
            None => failure.to_string(),
        };
        tracing::error!(
            why,
            "the record of the pool's legs cannot be written: a write waits for ever once a leg fails; make room or \
             replace the disk of the state directory, and start the server again"
        );
        self.common.show(|shown| shown.stage = Stage::Failed(why));
    }

    fn take(&mut self, input: Input) -> Result<Goes, StoreError> {
        let now = Instant::now();
        match input {
            Input::Event(event) => return self.on_event(event),
            Input::NotOpened(why) => {
                self.common.show(|shown| shown.stage = Stage::Failed(why));
                return Ok(Goes::ToItsEnd);
            }
            Input::Asked(disk, newest_group) => {
                self.returns.asked(disk, now);
                if let Some(newest_group) = newest_group {
                    return self.on_event(Event::LegBack { disk, newest_group });
                }
            }
            Input::ResilverFailed(disk, why) => {
                let name = self.side.name(disk);
                tracing::warn!(disk = name, why, "a leg that came back failed again");
                self.returns.is_out(disk, now);
                let flushed = None;
                return self.on_event(Event::LegFailed { disk, flushed });
            }
            Input::End => return Ok(Goes::ToItsEnd),
        }
        Ok(Goes::On)
    }

    fn on_event(&mut self, event: Event) -> Result<Goes, StoreError> {
        self.note(&event);
        let config = &self.options.config;
        let actions = self.owner.handle(config, self.store.memory(), event);
        for action in actions {
            if self.perform(action)? == Goes::ToItsEnd {
                return Ok(Goes::ToItsEnd);
            }
        }
        Ok(Goes::On)
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Imported => self.common.show(|shown| shown.stage = Stage::Open),
            Event::LegFailed { disk, .. } => {
                let disk = *disk;
                self.common.show(|shown| {
                    let record = shown.record.as_ref();
                    if record.is_some_and(|record| record.current.contains_key(&disk)) {
                        shown.awaited.insert(disk);
                    }
                });
            }
            Event::Lent(disk, LenderAnswer::Refused(_)) => {
                self.returns.is_out(*disk, Instant::now());
            }
            _ => {}
        }
    }

    fn perform(&mut self, action: Action) -> Result<Goes, StoreError> {
        if let Some(see) = &self.options.before_action {
            see(&action);
        }
        match action {
            Action::Ask(_, request) => return self.ask_oneself(request),
            Action::AskLender(disk, request) => {
                let incarnation = self.incarnation;
                self.lenders
                    .ask(&self.side, disk, request, incarnation, &self.reporter);
            }
            Action::Import { legs, lacking } => {
                let current = legs.keys().copied().collect();
                let (side, reporter) = (Arc::clone(&self.side), self.reporter.clone());
                in_background("leg-import", move || {
                    reporter.send(match side.open(&current, &lacking) {
                        Ok(()) => Input::Event(Event::Imported),
                        Err(why) => Input::NotOpened(why),
                    });
                });
            }
            Action::ReleaseErrors(disk) => self.exclude(disk),
            Action::Resilver { disk, since, .. } => {
                self.returns.begun(disk, Instant::now());
                let (side, reporter) = (Arc::clone(&self.side), self.reporter.clone());
                in_background("leg-resilver", move || {
                    reporter.send(match side.resilver(disk, since) {
                        Ok(completeness) => Input::Event(Event::Returned(disk, completeness)),
                        Err(why) => Input::ResilverFailed(disk, why),
                    });
                });
            }
            Action::Committed(record) => self.committed(record),
            Action::Stop => {
                self.side.stop();
                let why = "the pool has another owner".to_owned();
                self.common.show(|shown| shown.stage = Stage::Failed(why));
                return Ok(Goes::ToItsEnd);
            }
            Action::Closed => {
                self.common.show(|shown| shown.stage = Stage::Closed);
                return Ok(Goes::ToItsEnd);
            }
            Action::Tell(notice) => return Ok(self.tell(&notice)),
            // With one head there is nobody to fence, and no link.
            Action::Fence(_, number) => {
                self.reporter.send(Input::Event(Event::FenceFailed(number)))
            }
            Action::Resume(..) => {}
        }
        Ok(Goes::On)
    }

    /// This head is the only member.
    fn ask_oneself(&mut self, request: Request) -> Result<Goes, StoreError> {
        let serves = self.owner.has_tenure();
        if let Some(answer) = self.store.handle(request, serves)? {
            let me = self.options.config.me;
            self.reporter
                .send(Input::Event(Event::Answered(me, answer)));
        }
        Ok(Goes::On)
    }

    fn exclude(&mut self, disk: DiskId) {
        let record = self.store.memory().accepted.as_ref();
        let stale = record.and_then(|record| record.stale.get(&disk));
        // A leg whose errors are released is stale by the newest record; without one it lacks everything.
        let since = stale.map_or(0, |stale| stale.since);
        self.side.exclude(disk, since);
        self.returns.is_out(disk, Instant::now());
        self.common.show(|shown| {
            shown.awaited.remove(&disk);
        });
    }

    fn committed(&mut self, record: Record) {
        for disk in record.current.keys() {
            self.returns.is_back(*disk);
        }
        let pool = record.pool;
        let (epoch, sequence) = (record.ballot.epoch, record.sequence);
        let names = |disks: Vec<&DiskId>| -> Vec<String> {
            disks.iter().map(|disk| self.side.name(**disk)).collect()
        };
        let current = names(record.current.keys().collect());
        let stale = names(record.stale.keys().collect());
        tracing::info!(
            pool,
            epoch,
            sequence,
            ?current,
            ?stale,
            "the record of the pool's legs"
        );
        self.common.show(|shown| shown.record = Some(record));
    }

    fn tell(&mut self, notice: &Notice) -> Goes {
        // It is noticed again with everything that happens.
        let last = self.common.shown().last;
        if matches!(notice, Notice::LastLeg(disk) if last == Some(*disk)) {
            return Goes::On;
        }
        self.side.tell(notice);
        match notice {
            Notice::Refused(why) => {
                let why = match why {
                    Refusal::OwnerLives(_) => "it is open".to_owned(),
                    why => refusal(&*self.side, &self.options.config, why),
                };
                self.common.show(|shown| shown.stage = Stage::Refused(why));
                return Goes::ToItsEnd;
            }
            Notice::LastLeg(disk) => {
                self.side.keep_last(*disk);
                self.common.show(|shown| shown.last = Some(*disk));
            }
            Notice::WritesWait { .. } | Notice::Divergent(_) => {}
        }
        Goes::On
    }

    /// Asks disks that are out whether they are back, each on a thread of its own.
    fn look_for_returns(&mut self) {
        let shown = self.common.shown().clone();
        let (Stage::Open, Some(record)) = (shown.stage, shown.record) else {
            return;
        };
        for disk in self.returns.due(&record, Instant::now()) {
            let (side, reporter) = (Arc::clone(&self.side), self.reporter.clone());
            in_background("leg-return", move || {
                let newest = match side.is_back(disk) {
                    true => side.newest_group(),
                    false => None,
                };
                reporter.send(Input::Asked(disk, newest));
            });
        }
    }
}
