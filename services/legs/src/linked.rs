//! Members that are asked by messages. Any message may be lost, so what is not answered is asked again; every request may be repeated.
//!
//! **The own member** is another process of this machine. What it has on stable storage is known from its answers: between two answers
//! nothing changes that matters here, because it accepts nothing of others than who was promised last, and that promise is an
//! answer to somebody else's claim. Unless that is withdrawn, it ends this tenure at its next proposal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use certificates::Identity;
use leg_memory::{Awake, FenceWish, Processes, Pulse, Signs, StoreError, is_of_new_process};
use members::{LinkState, Links, Message, Peer, Silence};
use takeover::budget::{
    FENCED_WAIT, MISSED, OWN_WAIT, REQUEST_AGAIN, RESUME_WAIT, STOPPED_WAIT, UNREACHABLE_WAIT,
};
use takeover::legs::{
    Answer, Ballot, Config, DiskId, LegGroup, LenderAnswer, LenderRequest, MemberId, Memory,
    Record, Request, Session, Version,
};

use crate::proof::{Proof, Sight};
use crate::told::Unheard;
use crate::{Configured, Failure, Input, Reporter, random};

/// A claim without a response is sent again after so long. It may wait for a disk: a lender gives it up before that.
const CLAIM_AGAIN: Duration = Duration::from_secs(15);
/// Members that may have lost what they remembered are asked again after so long.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What the others' configurations say of the pool is asked again after so long.
const CONFIGURATION_AGAIN: Duration = Duration::from_secs(10);

/// Two heads alone: the fence of the other one would be a vote.
struct Wish {
    number: u64,
    /// How many connections to the head there were. What is said on a later one may be heard by a process that is not heard itself.
    connections: u64,
    is_missed: bool,
    /// The head was fenced, after all that was heard of it.
    is_true: bool,
}

/// Kinds of requests: a later one of a kind takes the place of an earlier one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Read,
    Claim,
    Propose,
}

fn kind(request: &Request) -> Option<Kind> {
    match request {
        Request::Read(_) => Some(Kind::Read),
        Request::Claim { .. } => Some(Kind::Claim),
        Request::Propose(_) => Some(Kind::Propose),
        // Needs no answer; who was not told says again that it forgot.
        Request::Withdraw(_)
        | Request::Committed(..)
        | Request::Welcome(_)
        | Request::Join { .. } => None,
    }
}

struct Question<T> {
    what: T,
    /// When it went out on the connection that is up.
    said: Option<Instant>,
}

/// The members, as they are reached.
pub struct Network {
    /// The key of this head.
    pub identity: Arc<Identity>,
    /// All members, this head's among them.
    pub peers: Vec<Peer>,
    /// Where the member of this head remembers.
    pub folder: PathBuf,
    /// What is said of the owner before.
    pub proof: Proof,
    /// What this process has read of the pool's configuration.
    pub configuration: [u8; 32],
    /// Who has read one, too: the heads.
    pub heads: Vec<MemberId>,
}

/// Why nothing can be decided any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Halt {
    /// What this head remembers cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Said as it is.
    #[error("{0}")]
    Because(String),
}

pub(crate) struct Linked {
    me: MemberId,
    pool: u64,
    /// Whose members count for records that name none.
    config: Config,
    lenders: BTreeMap<DiskId, MemberId>,
    links: Links,
    identity: Arc<Identity>,
    own: Memory,
    /// Whether the member of this head has said what it remembers, or that it does not, since the pool is being opened.
    has_own: bool,
    /// Who remembers, by what the member of this head accepted.
    members: BTreeSet<MemberId>,
    questions: BTreeMap<(MemberId, Kind), Question<Request>>,
    claims: BTreeMap<DiskId, Question<LenderRequest>>,
    /// Whose head owned the pool by the newest record that was read.
    newest: Option<(Version, Option<MemberId>)>,
    /// Claims that go out when the member of this head has promised.
    held: Vec<(MemberId, Request)>,
    /// To which tenure that was last.
    promised: Option<Ballot>,
    /// Members without a connection, since when.
    lost: BTreeMap<MemberId, Instant>,
    silent: BTreeMap<MemberId, Silence>,
    /// When all members were asked last whether they lost what they remembered, and whether there was a new connection since.
    looked: Instant,
    is_new: bool,
    folder: PathBuf,
    owner: Option<File>,
    signs: Signs,
    signs_seen: u64,
    proof: Proof,
    /// Two heads alone, by what the member of this head accepted: the other one.
    other: Option<MemberId>,
    /// When something was heard of each other member last.
    heard: BTreeMap<MemberId, Instant>,
    began: Instant,
    /// When this process, or the member of this head, went on after a freeze.
    thawed: Option<Instant>,
    /// Processes of other heads that were heard.
    processes: Processes,
    wish: Option<Wish>,
    /// Two heads alone: whether the member of this head runs all the time.
    pulse: Option<Pulse>,
    awake: Awake,
    configuration: [u8; 32],
    heads: Vec<MemberId>,
    asked_for_configurations: Instant,
    /// Heads whose configuration says something else of the pool.
    differing: BTreeSet<MemberId>,
}

/// A session that a request is about.
pub(crate) fn session_of(request: LenderRequest) -> Session {
    match request {
        LenderRequest::Claim(session) | LenderRequest::Begin(session, _) => session,
    }
}

fn lenders(groups: &[LegGroup]) -> BTreeMap<DiskId, MemberId> {
    let lenders = groups.iter().flat_map(|group| &group.lenders);
    lenders.map(|(disk, head)| (*disk, *head)).collect()
}

impl Linked {
    pub(crate) fn start(
        network: Network,
        config: &Config,
        boot: u64,
        reporter: &Reporter,
    ) -> Result<Self, Failure> {
        let side =
            |error: std::io::Error| Failure::Side(format!("{}: {error}", network.folder.display()));
        // Made by the member of this head, which a person may have forgotten to start.
        std::fs::create_dir_all(&network.folder).map_err(side)?;
        let signs = Signs::open(&network.folder).map_err(side)?;
        let other = config.other_of_two();
        let pulse = other.map(|_| Pulse::look_at(&network.folder));
        let pulse = pulse.transpose().map_err(side)?;
        let listed: Vec<MemberId> = network.peers.iter().map(|peer| peer.member).collect();
        let reporter = reporter.clone();
        let links = Links::start(
            config.me,
            boot,
            &network.identity,
            network.peers,
            move |heard| {
                reporter.send(Input::Heard(heard));
            },
        );
        let links = links.map_err(|error| Failure::Side(format!("connect to members: {error}")))?;
        let now = Instant::now();
        Ok(Self {
            me: config.me,
            pool: config.pool,
            config: config.clone(),
            lenders: lenders(&config.groups),
            links,
            identity: network.identity,
            own: Memory::default(),
            has_own: false,
            members: config.members().into_iter().collect(),
            questions: BTreeMap::new(),
            claims: BTreeMap::new(),
            newest: None,
            held: Vec::new(),
            promised: None,
            lost: listed.into_iter().map(|member| (member, now)).collect(),
            silent: BTreeMap::new(),
            looked: now,
            is_new: true,
            folder: network.folder,
            owner: None,
            signs_seen: signs.read(),
            signs,
            proof: network.proof,
            other,
            heard: BTreeMap::new(),
            began: now,
            thawed: None,
            processes: Processes::default(),
            wish: None,
            pulse,
            awake: Awake::new(),
            configuration: network.configuration,
            heads: network.heads,
            asked_for_configurations: now,
            differing: BTreeSet::new(),
        })
    }

    pub(crate) fn own(&self) -> &Memory {
        &self.own
    }

    /// Whether the member of this head has said what it remembers, or that it does not. Before that nobody knows who else is to be asked.
    pub(crate) fn has_own(&self) -> bool {
        self.has_own
    }

    /// Whether the configuration says how to reach a member.
    pub(crate) fn lists(&self, member: MemberId) -> bool {
        self.links.has(member)
    }

    /// Whether a record names other members than those that count here because the member of this head does not say what it remembers.
    pub(crate) fn is_of_others(&self, record: &Record) -> bool {
        let named = record.members.as_ref();
        let rule = self.config.by(self.own.accepted.as_ref());
        self.silent.contains_key(&self.me) && named.is_some_and(|named| *named != rule.membership)
    }

    /// Connects to a member that comes.
    pub(crate) fn connect(&mut self, peer: Peer) -> Result<(), Halt> {
        let member = peer.member;
        let is_new = self.links.add(&self.identity, peer);
        let is_new =
            is_new.map_err(|error| Halt::Because(format!("connect to a member: {error}")))?;
        if is_new {
            self.lost.insert(member, Instant::now());
        }
        Ok(())
    }

    /// Goes by what the member of this head accepted.
    fn follow(&mut self) -> Result<(), Halt> {
        let rule = self.config.by(self.own.accepted.as_ref());
        let (other, members) = (rule.other_of_two(), rule.members());
        self.members = members.into_iter().collect();
        let now = Instant::now();
        for member in self.members.iter().filter(|one| !self.links.has(**one)) {
            self.lost.entry(*member).or_insert(now);
        }
        self.lost
            .retain(|member, _| self.links.has(*member) || self.members.contains(member));
        if other == self.other {
            return Ok(());
        }
        self.forget_wish();
        let pulse = other.map(|_| Pulse::look_at(&self.folder)).transpose();
        self.pulse =
            pulse.map_err(|error| Halt::Because(format!("{}: {error}", self.folder.display())))?;
        self.other = other;
        Ok(())
    }

    /// Whether another head was heard by the member of this head since this was asked last.
    pub(crate) fn was_other_heard(&mut self) -> bool {
        let seen = self.signs.read();
        let before = std::mem::replace(&mut self.signs_seen, seen);
        if let (Some(other), true) = (self.other, before != seen) {
            self.note_sign(other, is_of_new_process(before, seen));
        }
        before != seen
    }

    /// Something came from a process of another member, which has the number `boot`.
    pub(crate) fn note_heard(&mut self, from: MemberId, boot: u64) {
        let is_new = self.processes.hear(from, boot);
        self.note_sign(from, is_new);
    }

    /// A fence that was done before a new process of the head was heard is no vote. Neither is one after which an old process speaks.
    fn note_sign(&mut self, from: MemberId, is_new_process: bool) {
        self.heard.insert(from, Instant::now());
        let is_confirmed = |wish: &Wish| {
            wish.is_missed && leg_memory::is_fence_confirmed(&self.folder, self.pool, wish.number)
        };
        let is_over = is_new_process || self.wish.as_ref().is_some_and(is_confirmed);
        if self.other == Some(from) && is_over {
            self.forget_wish();
        }
    }

    /// Whether this process, or the member of this head, did not run for a while since this was asked last.
    pub(crate) fn was_frozen(&mut self) -> bool {
        let is_other = self.pulse.as_mut().is_some_and(Pulse::was_frozen);
        let was_frozen = self.awake.was_frozen() || is_other;
        if was_frozen {
            self.thawed = Some(Instant::now());
            self.forget_wish();
        }
        was_frozen
    }

    fn forget_wish(&mut self) {
        if self.wish.take().is_some() {
            if let Err(error) = leg_memory::forget_fence(&self.folder, self.pool) {
                tracing::warn!(%error, "a wish for a fence stays");
            }
        }
    }

    /// Two heads alone, in a tenure: wishes for the fence of the other one. Whether the wish has just come true.
    ///
    /// Only of one that was heard since this process began, or went on after a freeze: another one may have taken this head for one
    /// that is off, and its fence would be no vote.
    pub(crate) fn look_for_fence(&mut self, name: &str, now: Instant) -> bool {
        let heard = self.other.and_then(|other| self.heard.get(&other).copied());
        let heard = heard.filter(|heard| self.thawed.is_none_or(|thawed| thawed < *heard));
        let Some(heard) = heard else {
            return false;
        };
        let is_missed = now.saturating_duration_since(heard) >= MISSED;
        if self.is_connected_anew() {
            self.forget_wish();
        }
        let (number, connections) = match &mut self.wish {
            Some(wish) if wish.is_true => return false,
            Some(wish) if wish.is_missed == is_missed => {
                wish.is_true = is_missed
                    && leg_memory::is_fence_confirmed(&self.folder, self.pool, wish.number);
                return wish.is_true;
            }
            Some(wish) => (wish.number, wish.connections),
            None => (random(), self.connections()),
        };
        self.wish = Some(Wish {
            number,
            connections,
            is_missed,
            is_true: false,
        });
        let wish = FenceWish {
            number,
            head: name.to_owned(),
            is_missed,
        };
        if let Err(error) = leg_memory::wish_for_fence(&self.folder, self.pool, &wish) {
            tracing::warn!(%error, "nobody learns that a fence of the other head is waited for");
        }
        false
    }

    fn connections(&self) -> u64 {
        self.other.map_or(0, |other| self.links.connections(other))
    }

    fn is_connected_anew(&self) -> bool {
        let wish = self.wish.as_ref();
        wish.is_some_and(|wish| wish.connections != self.connections())
    }

    /// Whether the other head was fenced after all that was heard of it, and said to it.
    pub(crate) fn is_fenced(&self, head: MemberId) -> bool {
        let is_true = self.wish.as_ref().is_some_and(|wish| wish.is_true);
        self.other == Some(head) && is_true && !self.is_connected_anew()
    }

    /// What the other head said to the member of this head, whose process has the number `boot`.
    pub(crate) fn heard_before(&self, boot: u64) -> Option<Memory> {
        let is_steady = self.pulse.as_ref().is_some_and(Pulse::is_steady);
        let heard = leg_memory::heard(&self.folder, self.pool, boot);
        heard.filter(|_| is_steady)
    }

    fn sight(&self, head: MemberId) -> Sight {
        let is_connected = !self.lost.contains_key(&head);
        Sight {
            answers: is_connected && !self.silent.contains_key(&head),
            is_connected,
            heard: self.heard.get(&head).copied(),
            began: self.began,
        }
    }

    /// Whether what is said of a head counts now.
    pub(crate) fn counts_as_off(&self, head: MemberId, now: Instant) -> bool {
        let is_vote = self.other == Some(head);
        self.proof.counts(head, is_vote, self.sight(head), now)
    }

    /// Why what is said of a head does not count.
    pub(crate) fn objection(&self, head: MemberId, name: &str) -> Option<String> {
        let is_vote = self.other == Some(head);
        self.proof.objection(name, is_vote, self.sight(head))
    }

    /// Whether a person's word is all that is known of the other one of two heads.
    pub(crate) fn relies_on_word(&self) -> bool {
        self.proof == Proof::Word && self.other.is_some()
    }

    /// Asks a member. Before anything is proposed, this machine owns the pool for whoever asks its member.
    pub(crate) fn ask(&mut self, member: MemberId, request: Request) -> Result<(), Halt> {
        if let (Request::Propose(_), None) = (&request, &self.owner) {
            let owner = leg_memory::own(&self.folder, self.pool);
            self.owner = Some(owner.map_err(|error| {
                Halt::Because(format!(
                    "another process of this machine owns the pool, or {} cannot be written: {error}",
                    self.folder.display()
                ))
            })?);
        }
        match request {
            Request::Claim { ballot, .. } if !self.may_claim(member, ballot) => {
                self.held.push((member, request));
            }
            Request::Withdraw(ballot) => {
                let is_other = |claim: &Request| !matches!(claim, Request::Claim { ballot: one, .. } if *one == ballot);
                self.held.retain(|(_, claim)| is_other(claim));
                self.put(member, request);
            }
            request => self.put(member, request),
        }
        Ok(())
    }

    /// Whether a claim may go out. The member of this head promises before the others, but for that of the last owner, which may be asked
    /// first: only what it says then is sure to be what this head goes by.
    fn may_claim(&self, member: MemberId, ballot: Ballot) -> bool {
        let owner = self.newest.as_ref().and_then(|(_, owner)| *owner);
        let has_own = self.promised == Some(ballot) || self.silent.contains_key(&self.me);
        member == self.me || owner == Some(member) || has_own
    }

    fn release_claims(&mut self) {
        let (may_go, held) = std::mem::take(&mut self.held).into_iter().partition(
            |(member, request)| match request {
                Request::Claim { ballot, .. } => self.may_claim(*member, *ballot),
                _ => true,
            },
        );
        self.held = held;
        let may_go: Vec<(MemberId, Request)> = may_go;
        for (member, request) in may_go {
            self.put(member, request);
        }
    }

    /// A head said what its configuration says of the pool.
    pub(crate) fn has_configuration(&mut self, from: MemberId, digest: Option<[u8; 32]>) {
        match digest == Some(self.configuration) {
            true => self.differing.remove(&from),
            false => self.differing.insert(from),
        };
    }

    /// This process has read another configuration of the pool: all heads are asked for theirs.
    pub(crate) fn configured(&mut self, configured: Configured) {
        let Configured {
            digest,
            heads,
            groups,
        } = configured;
        self.configuration = digest;
        self.heads = heads;
        self.lenders = lenders(&groups);
        self.config.groups = groups;
        self.differing.clear();
        for head in self.heads.clone() {
            self.ask_for_configuration(head);
        }
    }

    /// Heads whose configuration says something else of the pool.
    pub(crate) fn differing(&self) -> &BTreeSet<MemberId> {
        &self.differing
    }

    fn ask_for_configuration(&self, member: MemberId) {
        if self.heads.contains(&member) {
            self.say(member, Message::AskConfiguration);
        }
    }

    fn put(&mut self, member: MemberId, request: Request) {
        if let Request::Read(_) = request {
            self.ask_for_configuration(member);
        }
        let said = self.say(member, Message::Ask(request.clone()));
        if let Some(kind) = kind(&request) {
            let question = Question {
                what: request,
                said,
            };
            self.questions.insert((member, kind), question);
        }
    }

    /// Nothing waits for an answer any more.
    pub(crate) fn forget_questions(&mut self) {
        self.questions.clear();
        self.claims.clear();
        self.held.clear();
        self.has_own = false;
    }

    /// The tenure is over.
    pub(crate) fn let_go(&mut self) {
        self.owner = None;
    }

    fn say(&self, member: MemberId, message: Message) -> Option<Instant> {
        let said = self.links.say(member, self.pool, message);
        said.then(Instant::now)
    }

    pub(crate) fn ask_lender(&mut self, disk: DiskId, request: LenderRequest) {
        let said = self.say_to_lender(disk, request);
        let question = Question {
            what: request,
            said,
        };
        self.claims.insert(disk, question);
    }

    fn say_to_lender(&self, disk: DiskId, request: LenderRequest) -> Option<Instant> {
        let lender = self.lenders.get(&disk)?;
        self.say(*lender, Message::AskLender(disk, request))
    }

    /// A member answered: what it was asked is done, and what it has is known.
    ///
    /// # Errors
    ///
    /// What the own member accepted cannot be followed.
    pub(crate) fn answered(&mut self, from: MemberId, answer: &Answer) -> Result<(), Halt> {
        let before = self.own.accepted.as_ref().map(|one| one.members.clone());
        self.note_answer(from, answer);
        let after = self.own.accepted.as_ref().map(|one| one.members.clone());
        match before == after {
            true => Ok(()),
            false => self.follow(),
        }
    }

    fn note_answer(&mut self, from: MemberId, answer: &Answer) {
        if let Answer::Forgot(..) = answer {
            self.questions.remove(&(from, Kind::Read));
            return self.is_silent(from, Silence::Lost);
        }
        self.silent.remove(&from);
        if let Answer::Known(_, memory) = answer {
            let record = memory.accepted.as_ref();
            let read = record.map(|record| (record.version(), record.owner));
            self.newest = self.newest.max(read);
        }
        if let (Answer::Promised { ballot, .. }, true) = (answer, from == self.me) {
            self.promised = Some(*ballot);
            self.release_claims();
        }
        let kind = match answer {
            Answer::Known(..) => Kind::Read,
            Answer::Promised { .. } | Answer::Serves(_) => Kind::Claim,
            Answer::Accepted(..) => Kind::Propose,
            Answer::Forgot(..) => return,
            // Its own head had an earlier tenure, which ends: asked again.
            Answer::Refused { asked, promised } if promised.epoch < asked.epoch => return,
            // Of a claim or of a proposal.
            Answer::Refused { .. } => {
                self.questions.remove(&(from, Kind::Claim));
                self.questions.remove(&(from, Kind::Propose));
                return;
            }
        };
        let proposed = match (
            self.questions.get(&(from, kind)).map(|one| &one.what),
            answer,
        ) {
            (Some(Request::Propose(record)), Answer::Accepted(ballot, version)) => {
                if record.ballot != *ballot || record.version() != *version {
                    // An older one: the newer is still to be answered.
                    return;
                }
                Some(record.clone())
            }
            _ => None,
        };
        self.questions.remove(&(from, kind));
        if from == self.me {
            self.note_own(answer, proposed);
        }
    }

    fn note_own(&mut self, answer: &Answer, proposed: Option<Record>) {
        self.has_own |= matches!(answer, Answer::Known(..));
        match answer {
            Answer::Known(_, memory) => self.own = memory.clone(),
            Answer::Promised { ballot, record, .. } => {
                self.own.promised = *ballot;
                self.own.accepted = record.clone();
            }
            Answer::Accepted(ballot, _) => {
                self.own.promised = *ballot;
                self.own.accepted = proposed.or(self.own.accepted.take());
            }
            Answer::Serves(_) | Answer::Refused { .. } | Answer::Forgot(..) => {}
        }
    }

    /// A member does not answer for the pool.
    pub(crate) fn is_silent(&mut self, from: MemberId, why: Silence) {
        let is_new = self.silent.insert(from, why) != Some(why);
        if is_new && self.members.contains(&from) {
            tracing::error!(
                member = from.0,
                ?why,
                "a member does not answer for the pool"
            );
        }
        if from == self.me {
            self.has_own = true;
            self.release_claims();
        }
    }

    /// A lender answered; whether that is what it was asked last.
    pub(crate) fn lent(&mut self, from: MemberId, disk: DiskId, answer: LenderAnswer) -> bool {
        let asked = self.claims.get(&disk).map(|one| session_of(one.what));
        let is_it = asked == Some(answer.session()) && self.lenders.get(&disk) == Some(&from);
        if is_it {
            self.claims.remove(&disk);
        }
        is_it
    }

    /// Whether a disk is lent by another head.
    pub(crate) fn is_elsewhere(&self, disk: DiskId) -> bool {
        self.lenders.get(&disk).is_some_and(|head| *head != self.me)
    }

    pub(crate) fn is_connected_to_lender(&self, disk: DiskId) -> bool {
        let lender = self.lenders.get(&disk);
        lender.is_some_and(|head| !self.lost.contains_key(head))
    }

    /// Looks at the connections, and asks again what may have been lost. Claims at lenders that cannot be reached are refused; they are
    /// returned. `is_open`: the pool is in use.
    pub(crate) fn tick(&mut self, now: Instant, is_open: bool) -> Vec<(DiskId, LenderAnswer)> {
        for (member, state) in self.links.states() {
            match state {
                LinkState::Connected(_) => {
                    if self.lost.remove(&member).is_some() {
                        self.is_new = true;
                        self.ask_for_configuration(member);
                    }
                }
                LinkState::Lost(_) | LinkState::Stranger(_) => {
                    self.lost.entry(member).or_insert(now);
                }
            }
        }
        self.ask_again(now);
        if now.duration_since(self.asked_for_configurations) >= CONFIGURATION_AGAIN {
            self.asked_for_configurations = now;
            for head in &self.heads {
                self.ask_for_configuration(*head);
            }
        }
        let hopeless = |disk: &DiskId| {
            let head = self.lenders.get(disk);
            let is_gone = |head: &MemberId| match is_open {
                true => self.is_lost_for(*head, RESUME_WAIT, now),
                false => self.is_unreachable(*head, now),
            };
            // Nobody lends what the configuration does not name.
            head.is_none_or(is_gone)
        };
        let refused: Vec<DiskId> = self.claims.keys().copied().filter(hopeless).collect();
        let refused = refused.into_iter().filter_map(|disk| {
            let claim = self.claims.remove(&disk)?;
            Some((disk, LenderAnswer::Refused(session_of(claim.what))))
        });
        refused.collect()
    }

    /// Whether it is time to ask whether a member lost what it remembered: one that does not answer, or may have started anew.
    /// `is_changing`: other members are on their way.
    pub(crate) fn is_look_due(&mut self, now: Instant, is_changing: bool) -> bool {
        let is_silent = |member| self.silent.contains_key(member);
        let is_of_use = self.is_new || is_changing || self.members.iter().any(is_silent);
        let is_due = is_of_use && now.duration_since(self.looked) >= LOOK_AGAIN;
        if is_due {
            (self.looked, self.is_new) = (now, false);
        }
        is_due
    }

    /// Whether there was no connection to a member in its time.
    fn is_unreachable(&self, member: MemberId, now: Instant) -> bool {
        let owner = self.newest.as_ref().and_then(|(_, owner)| *owner);
        let is_vote = self.other == Some(member);
        let is_said = is_vote || owner == Some(member) && member != self.me;
        let proof = match is_said {
            true => self.proof,
            false => Proof::None,
        };
        let short = match proof {
            Proof::Fenced(_) => FENCED_WAIT,
            _ => STOPPED_WAIT,
        };
        let patience = proof.patience(member, is_vote, short);
        let patience = patience.unwrap_or(UNREACHABLE_WAIT);
        self.is_lost_for(member, patience, now)
    }

    fn is_lost_for(&self, member: MemberId, wait: Duration, now: Instant) -> bool {
        let since = self.lost.get(&member);
        since.is_some_and(|since| now.duration_since(*since) >= wait)
    }

    fn ask_again(&mut self, now: Instant) {
        let is_due =
            |said: Option<Instant>, after| said.is_none_or(|at| now.duration_since(at) >= after);
        let mut questions = std::mem::take(&mut self.questions);
        for ((member, _), question) in &mut questions {
            if self.lost.contains_key(member) {
                question.said = None;
            } else if is_due(question.said, REQUEST_AGAIN) {
                if let Request::Read(_) = question.what {
                    self.ask_for_configuration(*member);
                }
                question.said = self.say(*member, Message::Ask(question.what.clone()));
            }
        }
        self.questions = questions;
        let mut claims = std::mem::take(&mut self.claims);
        for (disk, claim) in &mut claims {
            if !self.is_connected_to_lender(*disk) {
                claim.said = None;
            } else if is_due(claim.said, CLAIM_AGAIN) {
                claim.said = self.say_to_lender(*disk, claim.what);
            }
        }
        self.claims = claims;
    }

    /// Whether nothing more is to be expected of those who were asked: they have answered, or cannot be reached, or do not know.
    pub(crate) fn has_heard_all(&self, now: Instant) -> bool {
        let is_lost = |member: &MemberId| self.is_unreachable(*member, now);
        let mut asked = self.questions.keys().map(|(member, _)| member);
        let is_over = |member: &MemberId| is_lost(member) || self.silent.contains_key(member);
        let is_known = self.has_own && !self.lost.contains_key(&self.me);
        is_known && self.claims.is_empty() && asked.all(is_over)
    }

    /// Whether nobody else owes an answer than a head that was fenced, which is not asked once more.
    pub(crate) fn misses_only_fenced(&self) -> bool {
        let is_fenced = |member: &MemberId| self.proof == Proof::Fenced(*member);
        self.questions.keys().all(|(member, _)| is_fenced(member))
    }

    /// The member of this head cannot be reached, and was given its time.
    pub(crate) fn is_alone(&self, now: Instant) -> bool {
        let since = self.lost.get(&self.me);
        since.is_some_and(|since| now.duration_since(*since) >= OWN_WAIT)
    }

    /// Members that do not answer, each with the reason.
    pub(crate) fn unheard(&self) -> BTreeMap<MemberId, Unheard> {
        let states = self.links.states();
        let lost = self.lost.keys().map(|member| {
            let why = match states.get(member) {
                Some(LinkState::Lost(why)) => Unheard::Lost(why.clone()),
                Some(LinkState::Stranger(why)) => Unheard::Stranger(why.clone()),
                _ if self.links.has(*member) => Unheard::Lost("no connection yet".to_owned()),
                _ => Unheard::Unnamed,
            };
            (*member, why)
        });
        let silent = self
            .silent
            .iter()
            .map(|(member, why)| (*member, Unheard::Silent(*why)));
        let unheard = silent.chain(lost);
        let is_member = |one: &(MemberId, Unheard)| self.members.contains(&one.0);
        unheard.filter(is_member).collect()
    }
}
