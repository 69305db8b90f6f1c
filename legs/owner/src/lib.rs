//! Owns a pool with legs: feeds the state machine of the record (`leg-record`) with what happens, and has its actions
//! performed. What is a disk here and how a pool is opened is the business of a [`Side`].
//!
//! One thread decides, and never waits for a disk of the pool: what waits has a thread of its own, and reports. The
//! record itself is written on the deciding thread, because nothing may be decided before that.
//!
//! One head whose disks are all its own remembers in this process ([`Membership::OneHead`]). Otherwise all members are asked by messages
//! ([`Members::Links`]), the one of this head, too, which is another process.

#![forbid(unsafe_code)]

mod asking;
mod bootstrap;
mod lenders;
mod linked;
mod proof;
mod returns;
mod run;
mod shown;
mod survey;
mod viewer;

pub use asking::Members;
pub use bootstrap::{Bootstrap, Names, see_members, see_new_disk};
pub use leg_memory::folder;
pub use linked::Network;
pub use proof::Proof;
pub use run::{BeforeAction, Failure, Legs, Options, create};
pub use shown::{Shown, Stage, Unheard};
pub use survey::survey;
pub use viewer::Viewer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::SystemTime;

use leg_record::{
    Completeness, Config, DiskId, Event, Kept, LegGroup, MemberId, Membership, Notice, Roots,
    Session,
};
use members::{Heard, Peer};

/// What the record decides, for the device driver, the disks and the pool of this head.
pub trait Side: Send + Sync + 'static {
    /// What the lender keeps of the disk, and its newest roots. Waits for the disk, for a bounded time.
    ///
    /// # Errors
    ///
    /// The disk cannot be reached, with the reason.
    fn look(&self, disk: DiskId) -> Result<Seen, String>;

    /// Makes what the lender keeps durable on the disk. Waits for the disk, for a bounded time.
    ///
    /// # Errors
    ///
    /// The disk cannot be reached, with the reason.
    fn keep(&self, disk: DiskId, kept: &Kept) -> Result<(), String>;

    /// Opens the pool with these legs only, notes what others lack, and writes a transaction group.
    ///
    /// # Errors
    ///
    /// It is not open, with the reason.
    fn open(
        &self,
        current: &BTreeSet<DiskId>,
        lacking: &BTreeMap<DiskId, u64>,
    ) -> Result<(), String>;

    /// The record without the leg is durable: its errors may be told. Does not wait.
    fn exclude(&self, disk: DiskId, since: u64);

    /// The leg failed, and no other one holds everything: the pool waits. If no write or flush failed, the side reports when the leg is
    /// usable. Does not wait.
    fn keep_last(&self, disk: DiskId);

    /// Uses the last leg again, after the report that it is usable. If it failed meanwhile, that is reported again. Does not wait.
    fn use_again(&self, disk: DiskId);

    /// Whether the disk answers, and is the one that it is taken for; `is_given_up`: it may be any, and carry anything. Waits for it, for
    /// a bounded time.
    ///
    /// # Errors
    ///
    /// It is not back, with the reason.
    fn is_back(&self, disk: DiskId, is_given_up: bool) -> Result<(), String>;

    /// The newest transaction group of the open pool.
    fn newest_group(&self) -> Option<u64>;

    /// A lender elsewhere admitted a session to a disk: what I/O needs from now on. Does not wait.
    fn granted(&self, disk: DiskId, granted: Granted) {
        let _ = (disk, granted);
    }

    /// Goes on with a leg elsewhere by the session that was granted last. Waits for a connection.
    ///
    /// # Errors
    ///
    /// There is none. The leg fails at its deadline, or at once.
    fn resume(&self, disk: DiskId) -> Result<(), String> {
        Err(format!("disk {} is on this head", disk.0))
    }

    /// Has the leg written to again, and what it lacks copied; if `since` is 0, everything, and to whatever disk is there. Returns when that is over, two roots were written to it
    /// since, and the pool has passed the group `beyond`.
    ///
    /// # Errors
    ///
    /// The leg failed, or the pool is not open any more.
    fn resilver(&self, disk: DiskId, since: u64, beyond: u64) -> Result<Completeness, String>;

    /// Ends everything without an answer to anybody: the pool has another owner.
    fn stop(&self);

    /// What the disk is called.
    fn name(&self, disk: DiskId) -> String;

    /// What a member is called.
    fn member_name(&self, member: MemberId) -> String {
        format!("member {}", member.0)
    }

    /// Tells the operator.
    fn tell(&self, notice: &Notice);
}

/// What is on a disk.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// What its lender keeps there.
    pub kept: Kept,
    /// Its newest roots.
    pub roots: Roots,
    /// When the newest one was written.
    pub newest_time: Option<SystemTime>,
}

/// What a lender elsewhere granted.
#[derive(Clone, PartialEq, Eq)]
pub struct Granted {
    /// The session that was admitted.
    pub session: Session,
    /// The start of the lender.
    pub incarnation: u64,
    /// Name of the export. Who knows it may write.
    pub export: String,
}

/// What the deciding thread hears.
#[derive(Debug)]
pub(crate) enum Input {
    Event(Event),
    /// The pool could not be opened.
    NotOpened(String),
    /// A disk was asked whether it is back: the newest transaction group of the pool, or why it is not.
    Asked(DiskId, Result<u64, String>),
    /// The resilver of a disk came to nothing.
    ResilverFailed(DiskId, Session, String),
    /// A disk is to be asked at once, however often it came back.
    TakeBack(DiskId),
    /// The configuration of the pool is this one.
    Configured(Configured),
    /// These shall remember. One that comes is to be connected to.
    Members(Membership, Option<Peer>),
    /// Nobody waits for that any more.
    MembersStay,
    /// A member said something.
    Heard(Heard),
    End,
}

/// What a configuration that was read again says of the pool.
#[derive(Clone, Debug)]
pub struct Configured {
    /// Stands for all of it.
    pub digest: [u8; 32],
    /// Who has read it, too: the heads.
    pub heads: Vec<MemberId>,
    /// Where the disks are. Those that were known are where they were.
    pub groups: Vec<LegGroup>,
}

/// Takes events before there is anybody who hears them.
#[derive(Debug)]
pub struct Inbox {
    pub(crate) sender: Sender<Input>,
    pub(crate) receiver: Receiver<Input>,
}

/// Reports events. One that nobody hears any more is dropped: the pool is closed.
#[derive(Clone, Debug)]
pub struct Reporter(pub(crate) Sender<Input>);

impl Inbox {
    /// An empty one.
    #[allow(
        clippy::new_without_default,
        reason = "it is one end of a channel, not a value"
    )]
    pub fn new() -> Self {
        let (sender, receiver) = channel();
        Self { sender, receiver }
    }

    /// For who reports.
    pub fn reporter(&self) -> Reporter {
        Reporter(self.sender.clone())
    }
}

impl Reporter {
    /// Reports that a leg failed. Never waits.
    pub fn leg_failed(&self, disk: DiskId, flushed: Option<u64>) {
        self.send(Input::Event(Event::LegFailed { disk, flushed }));
    }

    /// Reports that a read of a leg failed or returned wrong data. Never waits.
    pub fn read_failed(&self, disk: DiskId) {
        self.send(Input::Event(Event::ReadFailed(disk)));
    }

    /// Reports that the last leg, of which no write or flush failed, can be used again. Never waits.
    pub fn leg_usable(&self, disk: DiskId) {
        self.send(Input::Event(Event::LegUsable(disk)));
    }

    /// Reports that the connection to a leg ended, within its deadline. Never waits.
    pub fn link_lost(&self, disk: DiskId, flushed: Option<u64>) {
        self.send(Input::Event(Event::LinkLost { disk, flushed }));
    }

    /// A person saw to a disk that is out: it is asked at once whether it is back, however often it failed. Never waits.
    pub fn take_back(&self, disk: DiskId) {
        self.send(Input::TakeBack(disk));
    }

    /// The configuration was read again. Never waits.
    pub fn configured(&self, configured: Configured) {
        self.send(Input::Configured(configured));
    }

    /// A person wants others to remember. `joining`: who comes. Never waits.
    pub fn change_members(&self, wish: Membership, joining: Option<Peer>) {
        self.send(Input::Members(wish, joining));
    }

    /// Nobody waits for other members any more: a change is not begun, and one that is on its way comes to its end. Never waits.
    pub fn leave_members(&self) {
        self.send(Input::MembersStay);
    }

    /// A person said that what is on a disk that is not current may be overwritten. Never waits.
    pub fn discard(&self, disk: DiskId) {
        self.send(Input::Event(Event::Discard(disk)));
    }

    pub(crate) fn send(&self, input: Input) {
        let _ = self.0.send(input);
    }
}

pub(crate) fn random() -> u64 {
    getrandom::u64().expect("the system has random numbers")
}

/// Runs something that waits beside the deciding thread.
pub(crate) fn in_background(name: &str, body: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.into());
    // As with memory: a process that gets no thread cannot go on.
    thread.spawn(body).expect("a thread");
}

/// The configuration of one head whose own disks are `groups`: each a list of disks, and how many of them hold everything.
pub fn one_head(pool: u64, groups: &[(Vec<DiskId>, usize)]) -> Config {
    let me = MemberId(1);
    let group = |(disks, needed): &(Vec<DiskId>, usize)| LegGroup {
        lenders: disks.iter().map(|disk| (*disk, me)).collect(),
        needed: *needed,
    };
    Config {
        me,
        pool,
        membership: Membership::OneHead(me),
        groups: groups.iter().map(group).collect(),
    }
}
