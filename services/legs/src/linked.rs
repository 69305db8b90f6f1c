//! Members that are asked by messages. Any message may be lost, so what is not answered is asked again; every request may be repeated.
//!
//! **The own member** is another process of this machine. What it has on stable storage is known from its answers: between two answers
//! nothing changes that matters here, because it accepts nothing of others than who was promised last, and that promise is an
//! answer to somebody else's claim, which ends this tenure at its next proposal.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use certificates::Identity;
use leg_memory::{Signs, StoreError};
use members::{LinkState, Links, Message, Peer, Silence};
use takeover::legs::{
    Answer, Config, DiskId, LenderAnswer, LenderRequest, MemberId, Memory, Record, Request,
    Session, Version,
};

use crate::{Failure, Input, Reporter};

/// A member to which there was no connection for so long is not waited for.
const UNREACHABLE_WAIT: Duration = Duration::from_secs(1);
/// The same of the head that owned the pool and is said to be stopped. If it is back already, its legs return later.
const STOPPED_WAIT: Duration = Duration::from_millis(200);
/// The same of the member of this head: without it nothing is decided.
const OWN_WAIT: Duration = Duration::from_secs(5);
/// A question that nothing was heard of is asked again, on the same connection, too.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// The same of a claim, which may wait for a disk: a lender gives it up before that.
const CLAIM_AGAIN: Duration = Duration::from_secs(15);

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
        // Needs no answer.
        Request::Committed(..) => None,
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
    /// The other head is confirmed to be off, by a fence or a person: until it is heard.
    pub other_is_stopped: bool,
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
    lenders: BTreeMap<DiskId, MemberId>,
    links: Links,
    own: Memory,
    questions: BTreeMap<(MemberId, Kind), Question<Request>>,
    claims: BTreeMap<DiskId, Question<LenderRequest>>,
    /// Whose head owned the pool by the newest record that was read.
    newest: Option<(Version, Option<MemberId>)>,
    /// Claims that go out when the head that owned the pool has promised: if it serves the pool, nobody else is to hear of them, or
    /// its next record would be refused.
    held: Vec<(MemberId, Request)>,
    /// Members without a connection, since when.
    lost: BTreeMap<MemberId, Instant>,
    silent: BTreeMap<MemberId, Silence>,
    folder: PathBuf,
    owner: Option<File>,
    signs: Signs,
    signs_seen: u64,
    pub(crate) other_is_stopped: bool,
}

/// A session that a request is about.
pub(crate) fn session_of(request: LenderRequest) -> Session {
    match request {
        LenderRequest::Claim(session) | LenderRequest::Begin(session, _) => session,
    }
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
        let members: Vec<MemberId> = network.peers.iter().map(|peer| peer.member).collect();
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
        let groups = config.groups.iter();
        Ok(Self {
            me: config.me,
            pool: config.pool,
            lenders: groups
                .flat_map(|group| group.lenders.iter().map(|(disk, head)| (*disk, *head)))
                .collect(),
            links,
            own: Memory::default(),
            questions: BTreeMap::new(),
            claims: BTreeMap::new(),
            newest: None,
            held: Vec::new(),
            lost: members.into_iter().map(|member| (member, now)).collect(),
            silent: BTreeMap::new(),
            folder: network.folder,
            owner: None,
            signs_seen: signs.read(),
            signs,
            other_is_stopped: network.other_is_stopped,
        })
    }

    pub(crate) fn own(&self) -> &Memory {
        &self.own
    }

    /// Whether the other head was heard by the member of this head since this was asked last.
    pub(crate) fn was_other_heard(&mut self) -> bool {
        let seen = self.signs.read();
        std::mem::replace(&mut self.signs_seen, seen) != seen
    }

    /// What the other head said to the member of this head, whose process has the number `boot`.
    pub(crate) fn heard_before(&self, boot: u64) -> Option<Memory> {
        leg_memory::heard(&self.folder, self.pool, boot)
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
        let is_claim = matches!(request, Request::Claim { .. });
        if is_claim && self.owner_to_hear().is_some_and(|owner| owner != member) {
            self.held.push((member, request));
            return Ok(());
        }
        self.put(member, request);
        Ok(())
    }

    /// The head that owned the pool, if it is another one that may be heard.
    fn owner_to_hear(&self) -> Option<MemberId> {
        let (_, owner) = self.newest.as_ref()?;
        owner.filter(|owner| *owner != self.me && !self.lost.contains_key(owner))
    }

    fn release_claims(&mut self) {
        for (member, request) in std::mem::take(&mut self.held) {
            self.put(member, request);
        }
    }

    fn put(&mut self, member: MemberId, request: Request) {
        let said = self.say(member, Message::Ask(request.clone()));
        if let Some(kind) = kind(&request) {
            let question = Question {
                what: request,
                said,
            };
            self.questions.insert((member, kind), question);
        }
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
    pub(crate) fn answered(&mut self, from: MemberId, answer: &Answer) {
        self.silent.remove(&from);
        if let Answer::Known(_, memory) = answer {
            let record = memory.accepted.as_ref();
            let read = record.map(|record| (record.version(), record.owner));
            self.newest = self.newest.max(read);
        }
        if matches!(answer, Answer::Promised(..)) && self.owner_to_hear() == Some(from) {
            self.release_claims();
        }
        let kind = match answer {
            Answer::Known(..) => Kind::Read,
            Answer::Promised(..) | Answer::Serves(_) => Kind::Claim,
            Answer::Accepted(..) => Kind::Propose,
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
        match answer {
            Answer::Known(_, memory) => self.own = memory.clone(),
            Answer::Promised(ballot, record) => {
                self.own.promised = *ballot;
                self.own.accepted = record.clone();
            }
            Answer::Accepted(ballot, _) => {
                self.own.promised = *ballot;
                self.own.accepted = proposed.or(self.own.accepted.take());
            }
            Answer::Serves(_) | Answer::Refused { .. } => {}
        }
    }

    /// A member does not answer for the pool.
    pub(crate) fn is_silent(&mut self, from: MemberId, why: Silence) {
        if self.silent.insert(from, why) != Some(why) {
            tracing::error!(
                member = from.0,
                ?why,
                "a member does not answer for the pool"
            );
        }
    }

    /// A lender answered; whether that is what it was asked last.
    pub(crate) fn lent(&mut self, disk: DiskId, answer: LenderAnswer) -> bool {
        let asked = self.claims.get(&disk).map(|one| session_of(one.what));
        let is_it = asked == Some(answer.session());
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
    /// returned.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<(DiskId, LenderAnswer)> {
        for (member, state) in self.links.states() {
            match state {
                LinkState::Connected(_) => {
                    self.lost.remove(&member);
                }
                LinkState::Lost(_) => {
                    self.lost.entry(member).or_insert(now);
                }
            }
        }
        if !self.held.is_empty() && self.owner_to_hear().is_none() {
            self.release_claims();
        }
        self.ask_again(now);
        let hopeless = |disk: &DiskId| {
            let head = self.lenders.get(disk);
            head.is_some_and(|head| self.is_unreachable(*head, now))
        };
        let refused: Vec<DiskId> = self.claims.keys().copied().filter(hopeless).collect();
        let refused = refused.into_iter().filter_map(|disk| {
            let claim = self.claims.remove(&disk)?;
            Some((disk, LenderAnswer::Refused(session_of(claim.what))))
        });
        refused.collect()
    }

    /// Whether there was no connection to a member in its time.
    fn is_unreachable(&self, member: MemberId, now: Instant) -> bool {
        let owner = self.newest.as_ref().and_then(|(_, owner)| *owner);
        let is_stopped = self.other_is_stopped && owner == Some(member) && member != self.me;
        let patience = if is_stopped {
            STOPPED_WAIT
        } else {
            UNREACHABLE_WAIT
        };
        let since = self.lost.get(&member);
        since.is_some_and(|since| now.duration_since(*since) >= patience)
    }

    fn ask_again(&mut self, now: Instant) {
        let is_due =
            |said: Option<Instant>, after| said.is_none_or(|at| now.duration_since(at) >= after);
        let mut questions = std::mem::take(&mut self.questions);
        for ((member, _), question) in &mut questions {
            if self.lost.contains_key(member) {
                question.said = None;
            } else if is_due(question.said, ASK_AGAIN) {
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
        !self.lost.contains_key(&self.me) && self.claims.is_empty() && asked.all(is_over)
    }

    /// The member of this head cannot be reached, and was given its time.
    pub(crate) fn is_alone(&self, now: Instant) -> bool {
        let since = self.lost.get(&self.me);
        since.is_some_and(|since| now.duration_since(*since) >= OWN_WAIT)
    }

    /// Members that do not answer, each with the reason.
    pub(crate) fn unheard(&self) -> BTreeMap<MemberId, String> {
        let states = self.links.states();
        let lost = self.lost.keys().map(|member| {
            let why = match states.get(member) {
                Some(LinkState::Lost(why)) => why.clone(),
                _ => "no connection yet".to_owned(),
            };
            (*member, why)
        });
        let silent = self.silent.iter().map(|(member, why)| {
            let why = match why {
                Silence::Unknown => "it was never told of this pool",
                Silence::Missing => "its file of this pool is missing",
                Silence::Damaged => "its file of this pool is damaged",
                Silence::Unkept => "it could not write a change",
            };
            (*member, why.to_owned())
        });
        silent.chain(lost).collect()
    }
}
