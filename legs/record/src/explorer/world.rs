//! The world around the state machines: heads that crash, disks with caches, an unreliable network, fences,
//! and clients with their acknowledged writes.

use crate::{
    Ballot, Completeness, Config, DiskId, LegGroup, Lender, LenderRequest, LenderResponse,
    LenderState, MemberId, MemberState, Membership, Owner, Record, Request, Response, Roots,
    Session,
};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::Hash;
use std::rc::Rc;

pub(super) use super::digest::{Mixing, digest};

pub(super) const POOL: u64 = 77;
/// The group in which the pool is created.
pub(super) const FIRST_GROUP: u8 = 10;
/// The pool is idle before each write, longest before the first, and idle groups have no roots.
pub(super) const fn idle_groups(write: u8) -> u8 {
    12 / write
}
/// The number of a write by no client and by no owner of this pool.
pub(super) const FOREIGN: u16 = 1 << 15;
pub(super) const WITNESS: u8 = 8;

/// Writes by their numbers, one bit each.
pub(super) type Writes = u16;

/// Contents of a disk: blocks, and a root that names the blocks of its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Content {
    pub(super) blocks: Writes,
    pub(super) history: Writes,
    pub(super) group: u8,
    /// Of the root before.
    pub(super) before: u8,
}

impl Content {
    /// Content of an unused disk.
    pub(super) const NOTHING: Self = Self {
        blocks: 0,
        history: 0,
        group: 0,
        before: 0,
    };

    pub(super) fn roots(self) -> Roots {
        Roots {
            newest: self.group.into(),
            before: self.before.into(),
        }
    }

    /// Applies the root of `new`. Roots have slots of their own, and the newest counts.
    pub(super) fn take_root(&mut self, new: Self) {
        let before = self.before.max(new.before);
        match new.group.cmp(&self.group) {
            Ordering::Greater => {
                self.before = self.group.max(before);
                (self.history, self.group) = (new.history, new.group);
            }
            Ordering::Equal => (self.history, self.before) = (new.history, before),
            Ordering::Less => self.before = before.max(new.group),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    /// Blocks, and the root that names them.
    Write(Content),
    Flush,
    /// Of a resilver: blocks, and the root of a group that was synced after them.
    Copy(Content),
    CopyFlush,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Io {
    pub(super) from: u8,
    pub(super) disk: u8,
    pub(super) session: Session,
    pub(super) incarnation: u64,
    pub(super) operation: Operation,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Payload {
    Request(Request),
    Response(Response),
    LenderRequest(u8, LenderRequest),
    LenderResponse(u8, LenderResponse),
    Io(Io),
    IoDone(Io, bool),
    /// From the driver to the owner on the same head.
    Returned(u8, Session, Completeness),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Envelope {
    pub(super) from: u8,
    pub(super) to: u8,
    pub(super) payload: Payload,
}

impl Envelope {
    /// Sender, receiver, and the kind of the payload.
    pub(super) fn kind(&self) -> (u8, u8, u8) {
        let kind = match &self.payload {
            Payload::Request(Request::Read(_)) => 0,
            Payload::Request(Request::Claim { .. }) => 1,
            Payload::Request(Request::Propose(_)) => 2,
            Payload::Request(
                Request::Withdraw(_)
                | Request::Committed(..)
                | Request::Welcome(_)
                | Request::Join { .. },
            ) => 3,
            Payload::Response(_) => 4,
            Payload::LenderRequest(..) => 5,
            Payload::LenderResponse(..) => 6,
            Payload::Io(_) => 7,
            Payload::IoDone(..) => 8,
            Payload::Returned(..) => 9,
        };
        (self.from, self.to, kind)
    }
}

/// A message in flight, with its digest.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) key: u64,
    pub(super) envelope: Rc<Envelope>,
}

impl Hash for Sent {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.key);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Disk {
    pub(super) durable: Content,
    /// Acknowledged and not flushed, on top of `durable`.
    pub(super) cache: Option<Content>,
    pub(super) lender: Lender,
    pub(super) lender_state: LenderState,
    pub(super) starts: u8,
    pub(super) in_flight: Vec<Io>,
    pub(super) fails: bool,
    /// An administrator gave up its content.
    pub(super) is_given_up: bool,
    /// It is a replacement, and the owner is not notified yet.
    pub(super) is_exchanged: bool,
    /// An older copy of it.
    pub(super) image: Content,
}

impl Disk {
    /// An unused disk like this one.
    fn unused(&self) -> Self {
        Self {
            durable: Content::NOTHING,
            image: Content::NOTHING,
            lender: Lender::start(LenderState::default(), 1),
            lender_state: LenderState::default(),
            ..self.clone()
        }
    }

    pub(super) fn visible(&self) -> Content {
        self.cache.unwrap_or(self.durable)
    }

    /// Discards unflushed writes. The lender restarts with its stored state.
    pub(super) fn restart(&mut self, keeps_epoch: bool) {
        self.cache = None;
        self.in_flight.clear();
        self.starts += 1;
        if !keeps_epoch {
            self.lender_state.enforced = Ballot::default();
        }
        self.lender = Lender::start(self.lender_state, self.starts.into());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Progress {
    Writing,
    Flushing,
    Done,
    /// Its error is withheld.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Resilver {
    No,
    Due { since: u64, beyond: u64 },
    Copying { since: u64 },
    Flushing { group: u8 },
    Done,
}

/// A leg, as the pool server's driver sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DriverLeg {
    pub(super) session: Session,
    pub(super) incarnation: u64,
    pub(super) progress: Progress,
    pub(super) resilver: Resilver,
    pub(super) flushed: Option<u8>,
    /// The connection is being resumed.
    pub(super) is_parted: bool,
    /// A write or flush of it failed, or may have been lost.
    pub(super) lacks: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) history: Writes,
    pub(super) group: u8,
    pub(super) is_open: bool,
    /// The number of the client's write in progress; 0 is the first group of an import.
    pub(super) write: Option<u8>,
    pub(super) legs: BTreeMap<u8, DriverLeg>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Head {
    pub(super) is_up: bool,
    /// It does not run, and retains its state.
    pub(super) is_frozen: bool,
    pub(super) boots: u8,
    pub(super) memory: MemberState,
    /// Acknowledged and not written, if a member does not write before it responds.
    pub(super) unwritten: Option<MemberState>,
    pub(super) owner: Owner,
    pub(super) server: Option<Server>,
}

impl Head {
    pub(super) fn known(&self) -> &MemberState {
        self.unwritten.as_ref().unwrap_or(&self.memory)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FenceOrder {
    pub(super) by: u8,
    pub(super) head: u8,
    pub(super) number: u32,
    /// The head was powered off, which is not reported yet.
    pub(super) is_done: bool,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct World {
    pub(super) heads: Vec<Rc<Head>>,
    pub(super) witness: Option<Rc<Head>>,
    pub(super) disks: Vec<Rc<Disk>>,
    pub(super) net: Vec<Sent>,
    /// Pairs of members with a cut link.
    pub(super) cuts: u16,
    pub(super) fences: Vec<FenceOrder>,
    pub(super) faults: u8,
    pub(super) opens: u8,
    pub(super) issued: u8,
    pub(super) acknowledged: Writes,
    /// The group that each write was issued in.
    pub(super) births: [u8; 8],
    /// The newest record that an owner has committed.
    pub(super) committed: Rc<Record>,
    /// A fence was reported without being done.
    pub(super) has_lie: bool,
    /// How often a member lost its state.
    pub(super) lives: u8,
    pub(super) violation: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One head with both disks.
    OneHead,
    TwoHeads,
    Witness,
    ThreeHeads,
    /// Three heads, and any two of three disks are enough.
    Raidz,
    /// Two heads with two disks of one mirror each, and a witness.
    Wide,
    /// The same without a witness.
    WideTwoHeads,
    /// Three heads with two disks each, and any four of six disks are enough.
    Raidz2,
    /// Three heads, with a mirror over two of them and a group over all three, of which any two disks are enough.
    Mixed,
    /// Two heads, and a witness without any state. Records name their members.
    Joining,
    /// Two heads and a witness. Records name their members.
    Leaving,
    /// The same, and the configuration of head 1 does not name the witness.
    Unlike,
    /// Two heads, and a former witness that a record left out.
    Left,
    /// Two heads, and a third one with a disk and without any state. Records name their members.
    Third,
    /// The same with a witness that the third head replaces.
    ThirdForWitness,
}

impl Kind {
    /// Whether the members may change.
    pub(super) fn names_members(self) -> bool {
        matches!(
            self,
            Self::Joining | Self::Leaving | Self::Unlike | Self::Left
        ) || self.has_third()
    }

    /// Whether a third head can be added.
    pub(super) fn has_third(self) -> bool {
        matches!(self, Self::Third | Self::ThirdForWitness)
    }

    fn has_witness(self) -> bool {
        matches!(self, Self::Witness | Self::Wide) || self.names_members() && self != Self::Third
    }

    /// The members after the addition.
    pub(super) fn wider(self) -> Membership {
        match self.has_third() {
            true => three_heads(),
            false => with_witness(),
        }
    }

    /// The members, by the records at the beginning.
    fn membership(self) -> Membership {
        let heads = [member_id(0), member_id(1)];
        match self {
            Self::OneHead => Membership::OneHead(heads[0]),
            Self::TwoHeads | Self::WideTwoHeads | Self::Joining | Self::Third => two_heads(),
            Self::Witness
            | Self::Wide
            | Self::Leaving
            | Self::Unlike
            | Self::Left
            | Self::ThirdForWitness => with_witness(),
            Self::ThreeHeads | Self::Raidz | Self::Raidz2 | Self::Mixed => three_heads(),
        }
    }

    /// Number of heads.
    fn heads(self) -> u8 {
        match self {
            Self::OneHead => 1,
            Self::ThreeHeads
            | Self::Raidz
            | Self::Raidz2
            | Self::Mixed
            | Self::Third
            | Self::ThirdForWitness => 3,
            _ => 2,
        }
    }

    /// The groups: how many disks each has, and how many of them are needed.
    fn groups(self) -> &'static [(u8, usize)] {
        match self {
            Self::Raidz => &[(3, 2)],
            Self::Raidz2 => &[(6, 4)],
            Self::Mixed => &[(2, 1), (3, 2)],
            Self::Third | Self::ThirdForWitness => &[(3, 1)],
            Self::Wide | Self::WideTwoHeads => &[(4, 1)],
            _ => &[(2, 1)],
        }
    }
}

pub(super) fn three_heads() -> Membership {
    Membership::ThreeHeads([0, 1, 2].map(member_id))
}

pub(super) fn two_heads() -> Membership {
    Membership::TwoHeads([member_id(0), member_id(1)])
}

pub(super) fn with_witness() -> Membership {
    Membership::TwoHeadsAndWitness {
        heads: [member_id(0), member_id(1)],
        witness: member_id(WITNESS),
    }
}

/// A possible fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Crash,
    ServerCrash,
    LenderRestart,
    Cut,
    Lose,
    Duplicate,
    DiskFails,
    /// A block of a leg cannot be read, or returns wrong data.
    ReadFails,
    /// The library considers a leg unusable that failed no write, for example because no label can be read.
    Unusable,
    LinkLost,
    FenceFails,
    /// It is reported and not done. The fenced head is alive.
    FenceLies,
    /// A head freezes, and resumes later in its old state. In between, an administrator may consider it off.
    Freeze,
    PowerLoss,
    ForeignImport,
    /// A stale disk is restored to an earlier state.
    OlderImage,
    /// A member loses its state, and an administrator readmits it.
    Forget,
    Hurry,
    Discard,
    /// A disk that is not current is replaced by an empty one, and an administrator confirms that.
    Replace,
    /// A disk that is new to the pool is attached.
    Attach,
    /// An administrator requests other members.
    Members,
    Close,
}

/// Bounds of one exploration.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) kind: Kind,
    pub(super) configs: Vec<Config>,
    pub(super) faults_max: u8,
    pub(super) opens_max: u8,
    pub(super) writes_max: u8,
    pub(super) faults: Vec<Fault>,
    /// Heads that the cluster may start the pool on.
    pub(super) openers: Vec<u8>,
    /// Two heads: whether an administrator may give a confirmation, if it is true.
    pub(super) has_words: bool,
    pub(super) start: Start,
    /// Records do not name their members before these change.
    pub(super) is_unnamed: bool,
}

/// The initial state of an exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// A new pool without an owner.
    New,
    /// Head 0 serves it.
    Served,
    /// The same, and the leg of head 1 failed, was dropped, and works again; one write was made since.
    Degraded,
    /// The same, and head 1 was powered off for that and is back.
    Alone,
    /// As served; then head 1 received a false confirmation that head 0 is off, and serves it by its own leg. One write
    /// was made there. The heads see each other again.
    Usurped,
    /// As degraded; then the leg of head 1 came back, got one write, and failed before its resilver.
    Relapsed,
    /// As served, and head 1 has a message of head 0; then the leg of head 1 failed, and head 0 crashed with a record
    /// without it that only its own member had accepted.
    Torn,
    /// As degraded; then the leg of head 1 came back and is complete, and the record with it as current is in flight.
    Proposed,
    /// Two heads: the same, and head 1 had a message of head 0 before; then head 0 crashed. Only the first requests of
    /// the proposal were sent.
    Grown,
    /// As degraded; then head 1 serves it, by the leg of head 0.
    OnOtherHead,
    /// Two heads with messages of each other. Head 0 served it, released it in order, and is frozen; it was considered
    /// off, and head 1 serves it by its own leg. One write was made there.
    Frozen,
    /// As degraded, after a write that is on both legs.
    Aged,
    /// As served; then head 0 died when the root of a write was on the leg of head 1 only. It serves it again, without that leg,
    /// and one write was made since.
    Ahead,
    /// As usurped; then the witness lost its state, and the link between the heads is cut.
    Unresponsive,
    /// As degraded; then the leg of head 1 came back, was resilvered, and failed before the owner received the
    /// completion. One write was made since. The leg works again, and the completion is still in flight.
    Late,
    /// As served, and disk 1 is not part of the pool yet.
    Narrow,
    /// As served, and the last group is not part of the pool yet.
    Grouped,
    /// As grouped, and the disks of that group are on record.
    Gathered,
    /// As served, and head 1 has a message of head 0. Then their link is cut, and the leg of head 1 failed.
    Apart,
    /// As served; then head 1 sent a request to head 0 and was restarted, and the response is in flight.
    Requested,
    /// As served; then the first step for the witness to leave was accepted by the member of head 1 only, and head 0 crashed. Head 1 has
    /// received it since.
    Parting,
    /// As served; then the witness was added and removed, and has not received yet that it was a member.
    Held,
    /// As served; head 1 wanted the pool and received a false confirmation that head 0 is off. Its member promised,
    /// lost that, and received the record again. Then the leg of head 1 failed and works again. The witness has
    /// received neither that nor the claim, and one write was made since.
    Forgotten,
}

pub(super) fn disk_id(disk: u8) -> DiskId {
    DiskId(10 + u64::from(disk))
}

pub(super) fn disk_of(id: DiskId) -> u8 {
    (id.0 - 10) as u8
}

pub(super) fn member_id(member: u8) -> MemberId {
    MemberId(1 + u64::from(member))
}

pub(super) fn member_of(id: MemberId) -> u8 {
    (id.0 - 1) as u8
}

impl Setup {
    pub(super) fn new(kind: Kind, faults_max: u8, opens_max: u8, writes_max: u8) -> Self {
        let count = kind.heads();
        let heads: Vec<MemberId> = (0..count).map(member_id).collect();
        let mut disks = 0..;
        let group = |(size, needed): &(u8, usize)| LegGroup {
            lenders: disks
                .by_ref()
                .take(usize::from(*size))
                .map(|at| (disk_id(at), member_id(at % count)))
                .collect(),
            needed: *needed,
        };
        let groups: Vec<LegGroup> = kind.groups().iter().map(group).collect();
        let config = |me: &MemberId| Config {
            me: *me,
            pool: POOL,
            membership: match kind {
                Kind::Unlike if *me == member_id(1) => two_heads(),
                // The files are written before it comes.
                kind if kind.has_third() => three_heads(),
                kind => kind.membership(),
            },
            groups: groups.clone(),
        };
        Self {
            kind,
            configs: heads.iter().map(config).collect(),
            faults_max,
            opens_max,
            writes_max,
            faults: Vec::new(),
            openers: (0..count).collect(),
            has_words: false,
            start: Start::New,
            is_unnamed: false,
        }
    }

    pub(super) fn unnamed(mut self) -> Self {
        self.is_unnamed = true;
        self
    }

    /// The members, by that record.
    pub(super) fn membership(&self, record: &Record) -> Membership {
        let named = record.members.clone();
        named.unwrap_or_else(|| self.kind.membership())
    }

    pub(super) fn with(mut self, faults: &[Fault]) -> Self {
        self.faults = faults.to_vec();
        self
    }

    pub(super) fn from(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    pub(super) fn by_confirmation(mut self) -> Self {
        self.has_words = true;
        self
    }

    pub(super) fn by(mut self, openers: &[u8]) -> Self {
        self.openers = openers.to_vec();
        self
    }

    /// A new pool, all heads up, without an owner.
    pub(super) fn new_world(&self) -> World {
        let first = Ballot { epoch: 1, nonce: 0 };
        let groups = &self.configs[0].groups;
        let all = || groups.iter().flat_map(|group| group.lenders.keys());
        let is_narrow = self.start == Start::Narrow;
        let is_grouped = matches!(self.start, Start::Grouped | Start::Gathered);
        let last = groups.last().filter(|_| is_grouped);
        let is_coming = |disk: &DiskId| last.is_some_and(|last| last.lenders.contains_key(disk));
        let disks = all().copied().filter(|disk| !is_coming(disk));
        let disks = disks.filter(|disk| !is_narrow || *disk != disk_id(1));
        let has_third = self.kind.has_third();
        let disks = disks.filter(|disk| !has_third || *disk != disk_id(2));
        let mut record = Record::new(POOL, first, disks);
        let names = self.kind.names_members() && !self.is_unnamed;
        record.members = names.then(|| self.kind.membership());
        let head = |boots: u8| Head {
            is_up: true,
            is_frozen: false,
            boots,
            memory: MemberState::new(record.clone()),
            unwritten: None,
            owner: Owner::new(boots.into()),
            server: None,
        };
        let mut witness = head(1);
        if self.kind == Kind::Joining {
            witness.memory = MemberState::default();
        }
        let content = Content {
            blocks: 0,
            history: 0,
            group: FIRST_GROUP,
            before: 0,
        };
        let lender_state = LenderState {
            enforced: first,
            mark: Session {
                ballot: first,
                number: 1,
            },
        };
        let disk = Disk {
            durable: content,
            cache: None,
            lender: Lender::start(lender_state, 1),
            lender_state,
            starts: 1,
            in_flight: Vec::new(),
            fails: false,
            is_given_up: false,
            is_exchanged: false,
            image: content,
        };
        let mut heads: Vec<Rc<Head>> = self.configs.iter().map(|_| Rc::new(head(1))).collect();
        if has_third {
            Rc::make_mut(&mut heads[2]).memory = MemberState::default();
        }
        World {
            heads,
            witness: self.kind.has_witness().then(|| Rc::new(witness)),
            disks: all()
                .map(|id| match record.names(*id) {
                    true => Rc::new(disk.clone()),
                    false => Rc::new(disk.unused()),
                })
                .collect(),
            net: Vec::new(),
            cuts: 0,
            fences: Vec::new(),
            faults: 0,
            opens: 0,
            issued: 0,
            acknowledged: 0,
            births: [0; 8],
            committed: Rc::new(record),
            has_lie: false,
            lives: 0,
            violation: None,
        }
    }
}

impl World {
    pub(super) fn member(&mut self, member: u8) -> Option<&mut Head> {
        match member {
            WITNESS => self.witness.as_mut().map(Rc::make_mut),
            _ => self.heads.get_mut(usize::from(member)).map(Rc::make_mut),
        }
    }

    pub(super) fn head(&mut self, head: u8) -> &mut Head {
        Rc::make_mut(&mut self.heads[usize::from(head)])
    }

    pub(super) fn disk(&mut self, disk: u8) -> &mut Disk {
        Rc::make_mut(&mut self.disks[usize::from(disk)])
    }

    /// The head that lends a disk.
    pub(super) fn host(&self, disk: u8) -> u8 {
        disk % self.heads.len() as u8
    }

    pub(super) fn is_up(&self, member: u8) -> bool {
        let head = self.heads.get(usize::from(member));
        head.or(self.witness.as_ref())
            .is_some_and(|head| head.is_up && !head.is_frozen)
    }

    fn pair(one: u8, other: u8) -> u16 {
        let bit = |member: u8| if member == WITNESS { 3 } else { member };
        let (low, high) = (bit(one).min(bit(other)), bit(one).max(bit(other)));
        1 << (low * 4 + high)
    }

    pub(super) fn is_cut(&self, one: u8, other: u8) -> bool {
        one != other && self.cuts & Self::pair(one, other) != 0
    }

    /// Cuts a head off from all other heads, or reconnects it.
    pub(super) fn toggle_cut(&mut self, one: u8, other: u8) {
        self.cuts ^= Self::pair(one, other);
    }

    pub(super) fn pairs(&self) -> Vec<(u8, u8)> {
        let members = self.members();
        let pairs = members
            .iter()
            .flat_map(|one| members.iter().map(|other| (*one, *other)));
        pairs.filter(|(one, other)| one < other).collect()
    }

    pub(super) fn is_deliverable(&self, envelope: &Envelope) -> bool {
        self.is_up(envelope.to) && !self.is_cut(envelope.from, envelope.to)
    }

    /// Sends a message. A message in flight is not sent twice: it may arrive twice anyway.
    pub(super) fn send(&mut self, from: u8, to: u8, payload: Payload) {
        let envelope = Envelope { from, to, payload };
        let key = digest(&envelope);
        if let Err(at) = self.net.binary_search_by_key(&key, |sent| sent.key) {
            let envelope = Rc::new(envelope);
            self.net.insert(at, Sent { key, envelope });
        }
    }

    /// All members, by their numbers.
    pub(super) fn members(&self) -> Vec<u8> {
        let mut members: Vec<u8> = (0..self.heads.len() as u8).collect();
        members.extend(self.witness.as_ref().map(|_| WITNESS));
        members
    }

    pub(super) fn memory(&self, member: u8) -> Option<&MemberState> {
        let head = self.heads.get(usize::from(member));
        head.or(self.witness.as_ref()).map(|one| one.known())
    }

    /// The same, as it is on stable storage.
    pub(super) fn state_on_disk(&self, member: u8) -> Option<&MemberState> {
        let head = self.heads.get(usize::from(member));
        head.or(self.witness.as_ref()).map(|one| &one.memory)
    }

    /// The configuration of a head with the members of the record that its own member accepted.
    pub(super) fn config<'a>(&self, setup: &'a Setup, head: u8) -> Cow<'a, Config> {
        let at = usize::from(head);
        setup.configs[at].by(self.heads[at].known().accepted.as_ref())
    }

    /// The blocks of `history` that were written in `since` or later.
    pub(super) fn born_since(&self, history: Writes, since: u64) -> Writes {
        let is_due = |number: &usize| u64::from(self.births[*number]) >= since;
        let due = (0..self.births.len()).filter(is_due);
        due.fold(0, |set, number| set | (1 << number)) & history
    }

    pub(super) fn violate(&mut self, name: &'static str) {
        self.violation.get_or_insert(name);
    }
}
