//! Creates a pool with a record on several heads: checks all disks, claims them, creates the pool, stamps the disks,
//! and sends the record to all members. Until every member has the record, the pool does not count as created, and the
//! operation can be repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use leg_record::{
    Ballot, Config, Denial, DiskId, Holder, LenderRequest, LenderResponse, MemberId, MemberState,
    Record, Request, Response, Session, Tag,
};
use members::{Inspection, LinkState, Links, Message};

use crate::linked::Network;
use crate::{Failure, Granted, Inbox, Input, random};

/// Time-out for all responses of one kind.
const WAIT: Duration = Duration::from_secs(15);
/// Pause before a request to the same member is repeated.
const AGAIN: Duration = Duration::from_secs(1);

/// Names for messages.
pub trait Names {
    /// A member.
    fn member(&self, member: MemberId) -> String;
    /// A disk, with its head.
    fn disk(&self, disk: DiskId) -> String;
    /// A pool by the number of its record.
    fn pool(&self, number: u64) -> String;
    /// Path of the configuration file.
    fn configuration(&self) -> String;
}

/// State of the pool at the members.
struct Known {
    /// The newest state, and the member that has it.
    newest: Option<(MemberId, MemberState)>,
    is_one_untold: bool,
}

/// Requests that are sent to a member before anything is changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Query {
    MemberState,
    Configuration,
}

/// Returns whether `message` is a head's configuration digest. Adds the head to `differing` unless the digest is
/// `configuration`.
fn note_difference(
    message: &Message,
    configuration: [u8; 32],
    from: MemberId,
    differing: &mut BTreeSet<MemberId>,
) -> bool {
    let Message::Configuration(digest) = message else {
        return false;
    };
    if *digest != Some(configuration) {
        differing.insert(from);
    }
    true
}

/// A pool that is being created.
pub struct Bootstrap {
    config: Config,
    links: Links,
    received: Receiver<Input>,
    ballot: Ballot,
    incarnations: BTreeMap<DiskId, u64>,
    /// State that a member has of this pool from an earlier attempt that was interrupted.
    reported: Option<MemberState>,
    names: Box<dyn Names>,
}

/// The disk that a message is about.
fn disk_of(message: &Message) -> Option<DiskId> {
    match message {
        Message::Inspect(disk) | Message::LenderRequest(disk, _) => Some(*disk),
        Message::Inspection(looked) => Some(looked.disk),
        Message::Lent(lent) => Some(lent.disk),
        _ => None,
    }
}

fn failed(why: impl Into<String>) -> Failure {
    Failure::Side(why.into())
}

/// Checks that a replacement disk can be used: all heads have read the configuration that names it, no other head uses
/// it, and it is empty, unless `may_overwrite`. Read-only.
///
/// # Errors
///
/// One of these conditions fails, or a head does not respond.
pub fn inspect_new_disk(
    config: Config,
    network: Network,
    disk: DiskId,
    may_overwrite: bool,
    names: impl Names + 'static,
) -> Result<(), Failure> {
    let me = config.me;
    let (heads, configuration) = (network.heads.clone(), network.configuration);
    let requester = Bootstrap::connect(config, network, random(), names)?;
    requester.compare(&heads, configuration)?;
    let disks = requester.disks().into_iter();
    for looked in requester.looks(disks.filter(|(one, _)| *one == disk).collect())? {
        // This head has claimed it under the identity of the replaced disk.
        let is_mine = looked.holder == Holder::Session(Some(me));
        if let Some(why) = requester.taken(&looked).filter(|_| !is_mine) {
            return Err(failed(format!("nothing was changed: {why}")));
        }
        if !looked.contents.is_empty() && !may_overwrite {
            return Err(Failure::Overwrites(format!(
                "nothing was changed, because the data on the disk would be lost: {} carries {}",
                requester.names.disk(disk),
                looked.contents
            )));
        }
    }
    Ok(())
}

/// Checks that all members of `config` respond, that `coming` can store the pool, and that all heads have read the same
/// configuration. Read-only.
///
/// # Errors
///
/// One of these conditions fails.
pub fn inspect_members(
    config: Config,
    network: Network,
    coming: Option<MemberId>,
    names: impl Names + 'static,
) -> Result<(), Failure> {
    let boot = random();
    let (heads, configuration) = (network.heads.clone(), network.configuration);
    let requester = Bootstrap::connect(config, network, boot, names)?;
    requester.compare(&heads, configuration)?;
    let read = Message::Request(Request::Read(Tag { boot, number: 1 }));
    let members = requester.config.members().into_iter();
    let pending_requests = members.map(|member| (member, (member, read.clone())));
    let understand = |from: MemberId, message| match message {
        Message::Silent(members::Silence::Unknown) if coming == Some(from) => Ok(Some(from)),
        Message::Silent(why) => Err(failed(format!(
            "{} cannot remember the pool: {}",
            requester.names.member(from),
            why.meaning()
        ))),
        Message::Response(_) => Ok(Some(from)),
        _ => Ok(None),
    };
    requester.query_all(pending_requests.collect(), understand, |silent| {
        requester.unreached(&silent)
    })
}

impl Bootstrap {
    /// Connects to all members, none of which may have the pool, checks all disks, and claims them. With
    /// `may_overwrite`, disks may contain data or belong to a pool that is not in use.
    ///
    /// # Errors
    ///
    /// A member cannot be reached or has the pool, or a disk is in use, contains data, or is not lent. Then nothing is
    /// claimed unless all disks could be.
    pub fn begin(
        config: Config,
        network: Network,
        may_overwrite: bool,
        names: impl Names + 'static,
    ) -> Result<(Self, BTreeMap<DiskId, Granted>), Failure> {
        let boot = random();
        let (heads, configuration) = (network.heads.clone(), network.configuration);
        let mut bootstrap = Self::connect(config, network, boot, names)?;
        let known = bootstrap.query_existing_state((&heads, configuration), boot)?;
        if let Some((from, _)) = known.newest {
            return Err(bootstrap.exists(from));
        }
        bootstrap.inspect(may_overwrite)?;
        let granted = bootstrap.claim()?;
        Ok((bootstrap, granted))
    }

    /// The same for an existing pool that consists of exactly these disks, and is on this head. `coming`: disks of
    /// other heads that will join it later and must be available. `is_labelled`: the pool's labels name the record, so
    /// the state that an interrupted attempt sent to members is reused.
    ///
    /// # Errors
    ///
    /// A member cannot be reached or has another pool, or a disk is in use or not lent.
    pub fn start_again(
        config: Config,
        network: Network,
        coming: Vec<(DiskId, MemberId)>,
        is_labelled: bool,
        names: impl Names + 'static,
    ) -> Result<Self, Failure> {
        let boot = random();
        let (heads, configuration) = (network.heads.clone(), network.configuration);
        let mut bootstrap = Self::connect(config, network, boot, names)?;
        let known = bootstrap.query_existing_state((&heads, configuration), boot)?;
        bootstrap.reported = bootstrap.reported_before(known, is_labelled)?;
        if !bootstrap.is_taken_up() {
            bootstrap.are_free(&bootstrap.looks(coming)?)?;
            // The data stays, and the labels show that the pool has no other record.
            bootstrap.inspect(true)?;
            bootstrap.claim()?;
        }
        Ok(bootstrap)
    }

    /// Whether a member has the pool already: then its disks are stamped, and its labels name the record.
    pub fn is_taken_up(&self) -> bool {
        self.reported.is_some()
    }

    fn connect(
        config: Config,
        network: Network,
        boot: u64,
        names: impl Names + 'static,
    ) -> Result<Self, Failure> {
        let inbox = Inbox::new();
        let reporter = inbox.reporter();
        let links = Links::start(
            config.me,
            boot,
            &network.identity,
            network.peers,
            move |received| {
                reporter.send(Input::Received(received));
            },
        );
        Ok(Self {
            links: links.map_err(|error| failed(format!("connect to members: {error}")))?,
            received: inbox.receiver,
            ballot: Ballot {
                epoch: 1,
                nonce: random(),
            },
            incarnations: BTreeMap::new(),
            reported: None,
            names: Box::new(names),
            config,
        })
    }

    /// Repeats each request until it has a response. `understand` returns the key that a response belongs to; `why`
    /// describes missing ones.
    fn query_all<K: Ord + Copy>(
        &self,
        pending_requests: BTreeMap<K, (MemberId, Message)>,
        mut understand: impl FnMut(MemberId, Message) -> Result<Option<K>, Failure>,
        why: impl Fn(BTreeSet<K>) -> String,
    ) -> Result<(), Failure> {
        let until = Instant::now() + WAIT;
        let mut open: BTreeMap<K, Option<Instant>> =
            pending_requests.keys().map(|key| (*key, None)).collect();
        while !open.is_empty() {
            let now = Instant::now();
            if now >= until {
                return Err(failed(why(open.into_keys().collect())));
            }
            for (key, said) in &mut open {
                if said.is_none_or(|at| now.duration_since(at) >= AGAIN) {
                    let (member, message) = &pending_requests[key];
                    let pool = self.config.pool;
                    let is_said = self.links.send(*member, pool, message.clone());
                    *said = is_said.then_some(now);
                }
            }
            let received = match self.received.recv_timeout(Duration::from_millis(20)) {
                Ok(Input::Received(received)) => received,
                Ok(_) | Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(failed("the connections ended")),
            };
            let (from, message) = (received.from, received.envelope.message);
            // For a disk, only the response of its lender counts.
            let is_asked = |(member, requested): &(MemberId, Message)| {
                *member == from && disk_of(requested) == disk_of(&message)
            };
            if disk_of(&message).is_some() && !pending_requests.values().any(is_asked) {
                continue;
            }
            if let Some(key) = understand(from, message)? {
                open.remove(&key);
            }
        }
        Ok(())
    }

    fn unreached(&self, members: &BTreeSet<MemberId>) -> String {
        let states = self.links.states();
        let each = members.iter().map(|member| {
            let why = match states.get(member) {
                Some(LinkState::Lost(why) | LinkState::Stranger(why)) => why,
                Some(LinkState::Connected(_)) => "it is connected",
                None => "there is no connection",
            };
            format!("{} does not respond ({why})", self.names.member(*member))
        });
        let each: Vec<String> = each.collect();
        format!(
            "{}; every member must have the record of the pool: start the leg-server of a head, or the witness",
            each.join("; ")
        )
    }

    /// Checks that all heads have read the same configuration of the pool.
    fn compare(&self, heads: &[MemberId], configuration: [u8; 32]) -> Result<(), Failure> {
        let mut differing = BTreeSet::new();
        let understand = |from: MemberId, message| {
            let is_answer = note_difference(&message, configuration, from, &mut differing);
            Ok(is_answer.then_some(from))
        };
        let pending_requests = heads
            .iter()
            .map(|head| (*head, (*head, Message::RequestConfiguration)));
        self.query_all(pending_requests.collect(), understand, |silent| {
            self.unreached(&silent)
        })?;
        self.same(&differing)
    }

    fn same(&self, differing: &BTreeSet<MemberId>) -> Result<(), Failure> {
        let names: Vec<String> = differing
            .iter()
            .map(|one| self.names.member(*one))
            .collect();
        match names.is_empty() {
            true => Ok(()),
            false => Err(failed(crate::shown::difference(&names))),
        }
    }

    /// Returns the members' state of the pool, after checking that all heads have the same configuration. Only records
    /// of these disks count.
    fn query_existing_state(
        &self,
        (heads, configuration): (&[MemberId], [u8; 32]),
        boot: u64,
    ) -> Result<Known, Failure> {
        let mut known: BTreeMap<MemberId, MemberState> = BTreeMap::new();
        let (mut is_one_untold, mut others, mut differing) =
            (false, BTreeSet::new(), BTreeSet::new());
        let read = Message::Request(Request::Read(Tag { boot, number: 1 }));
        let members = self.config.members().into_iter();
        let members = members.map(|member| ((member, Query::MemberState), (member, read.clone())));
        let heads = heads.iter().copied();
        let heads = heads.map(|head| {
            let question = (head, Message::RequestConfiguration);
            ((head, Query::Configuration), question)
        });
        let understand = |from: MemberId, message| {
            if note_difference(&message, configuration, from, &mut differing) {
                return Ok(Some((from, Query::Configuration)));
            }
            match message {
                Message::Silent(members::Silence::Unknown) => {
                    is_one_untold = true;
                }
                Message::Response(Response::Known(_, memory)) if self.is_of_these(&memory) => {
                    known.insert(from, memory);
                }
                Message::Response(Response::Known(..) | Response::StateLost(..))
                | Message::Silent(_) => {
                    others.insert(from);
                }
                _ => return Ok(None),
            }
            Ok(Some((from, Query::MemberState)))
        };
        self.query_all(members.chain(heads).collect(), understand, |silent| {
            self.unreached(&silent.into_iter().map(|(member, _)| member).collect())
        })?;
        self.same(&differing)?;
        if let Some(from) = others.first() {
            return Err(self.exists(*from));
        }
        let version = |memory: &MemberState| memory.accepted.as_ref().map(Record::version);
        let newest = known.into_iter().max_by_key(|(_, memory)| version(memory));
        Ok(Known {
            newest,
            is_one_untold,
        })
    }

    /// Returns the state that members have from an interrupted attempt. The labels name the record only in that case.
    fn reported_before(
        &self,
        known: Known,
        is_labelled: bool,
    ) -> Result<Option<MemberState>, Failure> {
        match known.newest {
            Some((from, _)) if !is_labelled => Err(self.used_before(from)),
            // The pool has been in use since.
            Some((from, memory)) if !known.is_one_untold && !self.is_first(&memory) => {
                Err(self.exists(from))
            }
            newest => Ok(newest.map(|(_, memory)| MemberState { life: 0, ..memory })),
        }
    }

    fn exists(&self, from: MemberId) -> Failure {
        let (number, member) = (self.config.pool, self.names.member(from));
        Failure::Exists(format!(
            "{member} already has a pool with the number {number}: if that is {}, it was made before and is served with --legs; \
             another pool needs another `guid` in {}",
            self.names.pool(number),
            self.names.configuration()
        ))
    }

    /// A member has a record of these disks with that number, and the labels do not name it.
    fn used_before(&self, from: MemberId) -> Failure {
        let (number, member) = (self.config.pool, self.names.member(from));
        Failure::Exists(format!(
            "nothing was changed: {member} has a record with the number {number} and these disks. A number is used once, also for a pool \
             that was later used without its record: write another `guid` for {} into {} of each head, restart the leg-servers, and repeat the command",
            self.names.pool(number),
            self.names.configuration()
        ))
    }

    /// Whether the record names these disks. A pool that consists of these disks was never written elsewhere, so a
    /// member without state may receive the state of another member.
    fn is_of_these(&self, memory: &MemberState) -> bool {
        let record = memory.accepted.as_ref();
        record.is_some_and(|record| self.disks().iter().all(|(disk, _)| record.names(*disk)))
    }

    /// The state that a member receives when a pool with these disks gets its record.
    fn initial_state(&self, ballot: Ballot) -> MemberState {
        let disks = self.disks().into_iter().map(|(disk, _)| disk);
        let mut record = Record::new(self.config.pool, ballot, disks);
        record.members = Some(self.config.membership.clone());
        MemberState::new(record)
    }

    /// Whether the pool has had no owner since a member received that state.
    fn is_first(&self, memory: &MemberState) -> bool {
        let first = self.initial_state(memory.promised);
        let mut known = memory.clone();
        if let Some(record) = &mut known.accepted {
            // An earlier release did not name them.
            let members = first.accepted.as_ref().and_then(|one| one.members.clone());
            record.members = record.members.take().or(members);
        }
        known == first
    }

    fn disks(&self) -> Vec<(DiskId, MemberId)> {
        let groups = self.config.groups.iter();
        let disks = groups.flat_map(|group| group.lenders.iter());
        disks.map(|(disk, head)| (*disk, *head)).collect()
    }

    fn lenders(
        &self,
        request: impl Fn(DiskId) -> LenderRequest,
    ) -> BTreeMap<DiskId, (MemberId, Message)> {
        let disks = self.disks().into_iter();
        let pending_requests =
            disks.map(|(disk, head)| (disk, (head, Message::LenderRequest(disk, request(disk)))));
        pending_requests.collect()
    }

    fn without_response(&self, disks: &BTreeSet<DiskId>) -> String {
        let disks: Vec<String> = disks.iter().map(|disk| self.names.disk(*disk)).collect();
        format!(
            "the leg-server of {} does not respond: see its log there",
            disks.join(", ")
        )
    }

    /// Checks all disks; `may_carry` allows data on them. The epoch of the new pool exceeds each epoch that claimed one
    /// of them.
    fn inspect(&mut self, may_carry: bool) -> Result<(), Failure> {
        let seen = self.looks(self.disks())?;
        self.are_free(&seen)?;
        let carry: Vec<String> = seen.iter().filter_map(|one| self.carried(one)).collect();
        if !carry.is_empty() && !may_carry {
            return Err(Failure::Overwrites(format!(
                "nothing was changed, because the data on the disks would be lost: {}",
                carry.join("; ")
            )));
        }
        let epochs = seen.iter().map(|looked| looked.enforced.epoch);
        let epoch = epochs.max().unwrap_or_default().checked_add(1);
        self.ballot.epoch = epoch.ok_or_else(|| failed("no epoch is left for the disks"))?;
        Ok(())
    }

    /// Checks that the disks are unused and usable.
    fn are_free(&self, seen: &[Inspection]) -> Result<(), Failure> {
        let taken: Vec<String> = seen.iter().filter_map(|one| self.taken(one)).collect();
        match taken.is_empty() {
            true => Ok(()),
            false => Err(failed(format!(
                "nothing was changed, because not all disks can be used: {}",
                taken.join("; ")
            ))),
        }
    }

    /// Returns the state of these disks as their lenders report it.
    fn looks(&self, disks: Vec<(DiskId, MemberId)>) -> Result<Vec<Inspection>, Failure> {
        let mut seen = Vec::new();
        let understand = |_, message| match message {
            Message::Inspection(looked) => {
                let disk = looked.disk;
                seen.push(looked);
                Ok(Some(disk))
            }
            _ => Ok(None),
        };
        let pending_requests = disks.into_iter();
        let pending_requests =
            pending_requests.map(|(disk, head)| (disk, (head, Message::Inspect(disk))));
        self.query_all(pending_requests.collect(), understand, |silent| {
            self.without_response(&silent)
        })?;
        seen.sort_by_key(|looked| looked.disk);
        Ok(seen)
    }

    /// Why a disk cannot be used, even if it may be overwritten.
    fn taken(&self, looked: &Inspection) -> Option<String> {
        let by = |by: Option<MemberId>| match by {
            Some(by) => format!("head {}", self.names.member(by)),
            None => "a head".to_owned(),
        };
        let why = match looked.holder {
            Holder::Unused => return None,
            Holder::Session(head) => format!(
                "is in use by {}{}: stop the pool's server there, or see whether another disk is meant",
                by(head),
                self.of_pool(looked)
            ),
            Holder::Process => format!(
                "is in use by a process of its head{}: end it, or see whether another disk is meant",
                self.of_pool(looked)
            ),
            Holder::Unopened => format!(
                "cannot be opened there: see whether its path in {} is right",
                self.names.configuration()
            ),
            Holder::Unknown => {
                "is not lent, because its stored state cannot be read: see the leg-server's log"
                    .to_owned()
            }
            Holder::NotLent => {
                "is not in the configuration that its leg-server has read: write the same file on each head, and restart the leg-servers"
                    .to_owned()
            }
        };
        Some(format!("{} {why}", self.names.disk(looked.disk)))
    }

    /// Description of the data that would be lost with a disk.
    fn carried(&self, looked: &Inspection) -> Option<String> {
        let pool = self.of_pool(looked);
        let contents = match (looked.contents.as_str(), pool.as_str()) {
            ("", "") => return None,
            ("", _) => "is a leg".to_owned(),
            (contents, _) => format!("carries {contents}"),
        };
        Some(format!("{} {contents}{pool}", self.names.disk(looked.disk)))
    }

    /// The pool with a record that names the disk, as a clause.
    fn of_pool(&self, looked: &Inspection) -> String {
        let pool = looked.pool.map(|number| self.names.pool(number));
        pool.map_or_else(String::new, |pool| {
            format!(", of {pool} by the record of its legs")
        })
    }

    /// Why a session was refused, as a message.
    fn denied(&self, disk: DiskId, denial: Option<Denial>) -> String {
        let member = |member| format!("head {}", self.names.member(member));
        format!(
            "{} is not lent: {}",
            self.names.disk(disk),
            crate::shown::denial(denial, member)
        )
    }

    /// Claims all disks.
    fn claim(&mut self) -> Result<BTreeMap<DiskId, Granted>, Failure> {
        let mut granted = BTreeMap::new();
        let mut incarnations = BTreeMap::new();
        let session = self.session();
        let mut refused = None;
        let understand = |_, message| {
            let Message::Lent(lent) = message else {
                return Ok(None);
            };
            if lent.response.session() != session {
                return Ok(None);
            }
            match lent.response {
                LenderResponse::Admitted(_, seen) => {
                    incarnations.insert(lent.disk, seen.incarnation);
                    let grant = Granted {
                        session,
                        incarnation: seen.incarnation,
                        export: lent.export,
                    };
                    granted.insert(lent.disk, grant);
                }
                LenderResponse::Begun(_) | LenderResponse::Refused(_) => {
                    refused = Some((lent.disk, lent.denial));
                }
            }
            Ok(Some(lent.disk))
        };
        let pending_requests = self.lenders(|_| LenderRequest::Claim(session));
        self.query_all(pending_requests, understand, |silent| {
            self.without_response(&silent)
        })?;
        match refused {
            Some((disk, denial)) => Err(failed(self.denied(disk, denial))),
            None => {
                self.incarnations = incarnations;
                Ok(granted)
            }
        }
    }

    fn session(&self) -> Session {
        Session {
            ballot: self.ballot,
            number: 1,
        }
    }

    /// Stamps the disks of the pool, which is created and closed, and sends the record to all members.
    ///
    /// # Errors
    ///
    /// A member or lender does not respond. The pool does not count as created then: repeat the creation.
    pub fn finish(self) -> Result<(), Failure> {
        let memory = match &self.reported {
            Some(reported) => reported.clone(),
            None => {
                self.stamp()?;
                self.initial_state(self.ballot)
            }
        };
        let members = self.config.members().into_iter();
        let pending_requests =
            members.map(|member| (member, (member, Message::Found(memory.clone()))));
        let understand = |from: MemberId, message| match message {
            Message::Created(_) => Ok(Some(from)),
            Message::Silent(why) => Err(failed(format!(
                "{} cannot remember the pool: {}; see its log",
                self.names.member(from),
                why.meaning()
            ))),
            _ => Ok(None),
        };
        self.query_all(pending_requests.collect(), understand, |silent| {
            self.unreached(&silent)
        })
    }

    fn stamp(&self) -> Result<(), Failure> {
        let session = self.session();
        let begin = |disk| LenderRequest::Begin(session, self.incarnations[&disk]);
        let understand = |_, message| match message {
            Message::Lent(lent) if lent.response == LenderResponse::Begun(session) => {
                Ok(Some(lent.disk))
            }
            Message::Lent(lent) if lent.response == LenderResponse::Refused(session) => {
                Err(failed(self.denied(lent.disk, lent.denial)))
            }
            _ => Ok(None),
        };
        self.query_all(self.lenders(begin), understand, |silent| {
            self.without_response(&silent)
        })
    }
}
