//! Owns a pool with legs: feeds events to the state machine of the record (`leg-record`) and performs its actions. A
//! [`Side`] implements access to the disks and opens the pool.
//!
//! One thread decides, and never blocks on a disk of the pool. Blocking operations run on threads of their own and
//! report back. The record is written on the deciding thread, because no decision may precede it.
//!
//! If one head has all disks, its record is stored by this process ([`Membership::OneHead`]). Otherwise all members are
//! reached over the network ([`Members::Links`]), including the member of this head, which is a separate process.

#![forbid(unsafe_code)]

mod bootstrap;
mod decisions;
mod lenders;
mod linked;
mod options;
mod proof;
mod requester;
mod returns;
mod run;
mod shown;
mod survey;
mod viewer;

pub use bootstrap::{Bootstrap, Names, inspect_members, inspect_new_disk};
pub use leg_memory::folder;
pub use linked::Network;
pub use options::{BeforeAction, Failure, Options};
pub use proof::Proof;
pub use requester::Members;
pub use run::{Legs, create};
pub use shown::{PublishedState, Stage, Unresponsive};
pub use survey::survey;
pub use viewer::Viewer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::SystemTime;

use leg_record::{
    Completeness, Config, DiskId, Event, LegGroup, LenderState, MemberId, Membership, Notice,
    Roots, Session,
};
use members::{Peer, Received};

/// The interface to the device driver, the disks and the pool of this head.
pub trait Side: Send + Sync + 'static {
    /// Returns the lender's state of the disk, and its newest roots. Blocks on the disk, for a bounded time.
    ///
    /// # Errors
    ///
    /// The disk cannot be reached, with the reason.
    fn inspect(&self, disk: DiskId) -> Result<DiskState, String>;

    /// Writes the lender's state to the disk, durably. Blocks on the disk, for a bounded time.
    ///
    /// # Errors
    ///
    /// The disk cannot be reached, with the reason.
    fn keep(&self, disk: DiskId, kept: &LenderState) -> Result<(), String>;

    /// Opens the pool with these legs only, sets the missing ranges of the other legs, and writes a transaction group.
    ///
    /// # Errors
    ///
    /// The pool is not open, with the reason.
    fn open(
        &self,
        current: &BTreeSet<DiskId>,
        lacking: &BTreeMap<DiskId, u64>,
    ) -> Result<(), String>;

    /// A record of the open pool is durable, with these current disks. Does not block.
    fn committed(&self, current: &BTreeSet<DiskId>) {
        let _ = current;
    }

    /// The record without the leg is durable: its errors may be reported to ZFS. Does not block.
    fn exclude(&self, disk: DiskId, since: u64);

    /// The leg failed and is the last current one: the pool is suspended. If no write or flush failed, the side reports
    /// when the leg is usable. Does not block.
    fn keep_last(&self, disk: DiskId);

    /// Uses the last leg again, after the report that it is usable. If it failed again since, reports that. Does not
    /// block.
    fn use_again(&self, disk: DiskId);

    /// Checks that the disk responds and is the expected one. With `is_given_up`, any disk with any contents is
    /// accepted. Blocks for a bounded time.
    ///
    /// # Errors
    ///
    /// The disk is not available, with the reason.
    fn is_back(&self, disk: DiskId, is_given_up: bool) -> Result<(), String>;

    /// The newest transaction group of the open pool.
    fn newest_group(&self) -> Option<u64>;

    /// A lender on another head admitted a session to a disk: later I/O uses it. Does not block.
    fn granted(&self, disk: DiskId, granted: Granted) {
        let _ = (disk, granted);
    }

    /// Resumes I/O to a leg on another head with the last granted session. Blocks until there is a connection.
    ///
    /// # Errors
    ///
    /// There is no connection. The leg fails at its deadline, or at once.
    fn resume(&self, disk: DiskId) -> Result<(), String> {
        Err(format!("disk {} is on this head", disk.0))
    }

    /// Attaches the leg again and resilvers its missing data; all of it if `since` is 0, whichever disk is there.
    /// Returns when the resilver is complete, two more roots were written to the leg, and the pool has passed the group
    /// `beyond`.
    ///
    /// # Errors
    ///
    /// The leg failed, or the pool is closed.
    fn resilver(&self, disk: DiskId, since: u64, beyond: u64) -> Result<Completeness, String>;

    /// Stops serving without responding to any client: the pool has another owner.
    fn stop(&self);

    /// Name of a disk.
    fn name(&self, disk: DiskId) -> String;

    /// Name of a member.
    fn member_name(&self, member: MemberId) -> String {
        format!("member {}", member.0)
    }

    /// Notifies the operator.
    fn notify(&self, notice: &Notice);
}

/// State of a disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskState {
    /// The lender's state that is stored there.
    pub kept: LenderState,
    /// Its newest roots.
    pub roots: Roots,
    /// When the newest one was written.
    pub newest_time: Option<SystemTime>,
}

/// A session that a lender on another head granted.
#[derive(Clone, PartialEq, Eq)]
pub struct Granted {
    /// The session that was admitted.
    pub session: Session,
    /// The incarnation of the lender.
    pub incarnation: u64,
    /// Name of the export. It is a secret: a client that has it may write.
    pub export: String,
}

/// Input of the deciding thread.
#[derive(Debug)]
pub(crate) enum Input {
    Event(Event),
    /// The pool could not be opened.
    NotOpened(String),
    /// A check whether a disk is available has ended: the newest transaction group of the pool, or the reason why it is
    /// not.
    Query(DiskId, Result<u64, String>),
    /// The resilver of a disk failed.
    ResilverFailed(DiskId, Session, String),
    /// Check a disk at once, regardless of how often it has returned.
    Readmit(DiskId),
    /// The new configuration of the pool.
    Configured(Configured),
    /// Change to these members. A new member is connected to.
    Members(Membership, Option<Peer>),
    /// The caller no longer needs the change.
    MembersStay,
    /// A message of a member.
    Received(Received),
    End,
}

/// The configuration of the pool after it was read again.
#[derive(Clone, Debug)]
pub struct Configured {
    /// Digest of the configuration.
    pub digest: [u8; 32],
    /// The heads that must have read the same configuration.
    pub heads: Vec<MemberId>,
    /// Where the disks are. The locations of known disks are unchanged.
    pub groups: Vec<LegGroup>,
}

/// Buffers events before the deciding thread starts.
#[derive(Debug)]
pub struct Inbox {
    pub(crate) sender: Sender<Input>,
    pub(crate) receiver: Receiver<Input>,
}

/// Reports events. Events after the pool is closed are dropped.
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

    /// Returns a handle for reporting.
    pub fn reporter(&self) -> Reporter {
        Reporter(self.sender.clone())
    }
}

impl Reporter {
    /// Reports that a leg failed. Never blocks.
    pub fn leg_failed(&self, disk: DiskId, flushed: Option<u64>) {
        self.send(Input::Event(Event::LegFailed { disk, flushed }));
    }

    /// Reports that a read of a leg failed or returned wrong data. Never blocks.
    pub fn read_failed(&self, disk: DiskId) {
        self.send(Input::Event(Event::ReadFailed(disk)));
    }

    /// Reports that the last leg, of which no write or flush failed, can be used again. Never blocks.
    pub fn leg_usable(&self, disk: DiskId) {
        self.send(Input::Event(Event::LegUsable(disk)));
    }

    /// Reports that the connection to a leg ended, within its deadline. Never blocks.
    pub fn link_lost(&self, disk: DiskId, flushed: Option<u64>) {
        self.send(Input::Event(Event::LinkLost { disk, flushed }));
    }

    /// An administrator has repaired an excluded disk: checks at once whether it is available. Never blocks.
    pub fn readmit(&self, disk: DiskId) {
        self.send(Input::Readmit(disk));
    }

    /// Reports that the configuration was read again. Never blocks.
    pub fn configured(&self, configured: Configured) {
        self.send(Input::Configured(configured));
    }

    /// Requests other members. `joining`: the new member. Never blocks.
    pub fn change_members(&self, desired: Membership, joining: Option<Peer>) {
        self.send(Input::Members(desired, joining));
    }

    /// Withdraws the request for other members. A change in progress still completes. Never blocks.
    pub fn leave_members(&self) {
        self.send(Input::MembersStay);
    }

    /// An administrator confirmed that a disk that is not current may be overwritten. Never blocks.
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

/// Runs a blocking operation on its own thread.
pub(crate) fn in_background(name: &str, body: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.into());
    // As with memory: a process that cannot create threads cannot continue.
    thread.spawn(body).expect("a thread");
}

/// The configuration of a single head with its own disks in `groups`: each a list of disks, and how many of them are
/// needed to read all data.
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
