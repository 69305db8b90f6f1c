//! Makes a pool one with a record on several heads: all of its disks are claimed, the pool is made on them, they are stamped, and all
//! members are told. A pool without a record on every member was not made; it can be made again.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use members::{Links, Message};
use takeover::legs::{
    Answer, Ballot, Config, DiskId, LenderAnswer, LenderRequest, MemberId, Memory, Record, Request,
    Session, Tag,
};

use crate::linked::Network;
use crate::run::random;
use crate::{Failure, Granted, Inbox, Input};

/// Time for all of one kind of answers.
const WAIT: Duration = Duration::from_secs(15);
/// Pause between two questions to the same member.
const AGAIN: Duration = Duration::from_secs(1);
/// A disk that an earlier pool had refuses epochs up to that of its last owner. Each attempt is so many times the one before.
const EPOCH_STEP: u64 = 16;

/// A pool that is being made.
pub struct Founding {
    config: Config,
    links: Links,
    heard: Receiver<Input>,
    ballot: Ballot,
    incarnations: BTreeMap<DiskId, u64>,
    name: Box<dyn Fn(MemberId) -> String>,
}

fn failed(why: impl Into<String>) -> Failure {
    Failure::Side(why.into())
}

impl Founding {
    /// Connects to all members, none of which may know the pool, and claims all disks. `name`: what a member is called.
    ///
    /// # Errors
    ///
    /// A member cannot be reached or knows the pool, or a disk is not lent.
    pub fn begin(
        config: Config,
        network: Network,
        name: impl Fn(MemberId) -> String + 'static,
    ) -> Result<(Self, BTreeMap<DiskId, Granted>), Failure> {
        let inbox = Inbox::new();
        let reporter = inbox.reporter();
        let boot = random();
        let links = Links::start(
            config.me,
            boot,
            &network.identity,
            network.peers,
            move |heard| {
                reporter.send(Input::Heard(heard));
            },
        );
        let mut founding = Self {
            links: links.map_err(|error| failed(format!("connect to members: {error}")))?,
            heard: inbox.receiver,
            ballot: Ballot {
                epoch: 1,
                nonce: random(),
            },
            incarnations: BTreeMap::new(),
            name: Box::new(name),
            config,
        };
        founding.ask_what_is_known(boot)?;
        let granted = founding.claim()?;
        Ok((founding, granted))
    }

    /// Asks each until it has answered. `understand` takes an answer, and returns whose it is.
    fn ask_all<K: Ord + Copy>(
        &self,
        questions: BTreeMap<K, (MemberId, Message)>,
        mut understand: impl FnMut(MemberId, Message) -> Result<Option<K>, Failure>,
        why: impl Fn(K) -> String,
    ) -> Result<(), Failure> {
        let until = Instant::now() + WAIT;
        let mut open: BTreeMap<K, Option<Instant>> =
            questions.keys().map(|key| (*key, None)).collect();
        while let Some(first) = open.keys().next().copied() {
            let now = Instant::now();
            if now >= until {
                return Err(failed(why(first)));
            }
            for (key, said) in &mut open {
                if said.is_none_or(|at| now.duration_since(at) >= AGAIN) {
                    let (member, message) = &questions[key];
                    let pool = self.config.pool;
                    let is_said = self.links.say(*member, pool, message.clone());
                    *said = is_said.then_some(now);
                }
            }
            let heard = match self.heard.recv_timeout(Duration::from_millis(20)) {
                Ok(Input::Heard(heard)) => heard,
                Ok(_) | Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(failed("the connections ended")),
            };
            if let Some(key) = understand(heard.from, heard.envelope.message)? {
                open.remove(&key);
            }
        }
        Ok(())
    }

    fn unreached(&self, member: MemberId) -> String {
        let states = self.links.states();
        format!(
            "{} does not answer ({:?}), and every member has to know of a new pool: start its leg-server, or the witness",
            (self.name)(member),
            states.get(&member)
        )
    }

    fn ask_what_is_known(&self, boot: u64) -> Result<(), Failure> {
        let tag = Tag { boot, number: 1 };
        let members = self.config.members().into_iter();
        let questions = members.map(|member| (member, (member, Message::Ask(Request::Read(tag)))));
        let understand = |from: MemberId, message| match message {
            Message::Silent(members::Silence::Unknown) => Ok(Some(from)),
            Message::Tell(Answer::Known(..)) | Message::Silent(_) => Err(failed(format!(
                "{} remembers a pool of the number {} already: choose another number for the new pool",
                (self.name)(from),
                self.config.pool
            ))),
            _ => Ok(None),
        };
        self.ask_all(questions.collect(), understand, |member| {
            self.unreached(member)
        })
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
        let questions =
            disks.map(|(disk, head)| (disk, (head, Message::AskLender(disk, request(disk)))));
        questions.collect()
    }

    fn unlent(&self, disk: DiskId) -> String {
        let lender = self.config.lender(disk).map(|head| (self.name)(head));
        format!(
            "{} does not lend disk {}: see whether its path is right and no process there has it",
            lender.unwrap_or_default(),
            disk.0
        )
    }

    /// Claims all disks, by an epoch that none of them refuses.
    fn claim(&mut self) -> Result<BTreeMap<DiskId, Granted>, Failure> {
        let mut granted = BTreeMap::new();
        let mut incarnations = BTreeMap::new();
        loop {
            let session = self.session();
            let mut is_refused = None;
            let understand = |_, message| {
                let Message::Lent(lent) = message else {
                    return Ok(None);
                };
                if lent.answer.session() != session {
                    return Ok(None);
                }
                match lent.answer {
                    LenderAnswer::Admitted(_, seen) => {
                        incarnations.insert(lent.disk, seen.incarnation);
                        let grant = Granted {
                            session,
                            incarnation: seen.incarnation,
                            export: lent.export,
                        };
                        granted.insert(lent.disk, grant);
                    }
                    LenderAnswer::Begun(_) | LenderAnswer::Refused(_) => {
                        is_refused = Some(lent.disk);
                    }
                }
                Ok(Some(lent.disk))
            };
            let questions = self.lenders(|_| LenderRequest::Claim(session));
            self.ask_all(questions, understand, |disk| self.unlent(disk))?;
            let Some(disk) = is_refused else {
                self.incarnations = incarnations;
                return Ok(granted);
            };
            let epoch = self.ballot.epoch.checked_mul(EPOCH_STEP);
            self.ballot.epoch = epoch.ok_or_else(|| failed(self.unlent(disk)))?;
        }
    }

    fn session(&self) -> Session {
        Session {
            ballot: self.ballot,
            number: 1,
        }
    }

    /// The pool is made and closed: stamps its disks, and tells all members.
    ///
    /// # Errors
    ///
    /// One does not answer. The pool is no pool with a record then: make it again.
    pub fn finish(self) -> Result<(), Failure> {
        let session = self.session();
        let begin = |disk| LenderRequest::Begin(session, self.incarnations[&disk]);
        let understand = |_, message| match message {
            Message::Lent(lent) if lent.answer == LenderAnswer::Begun(session) => {
                Ok(Some(lent.disk))
            }
            Message::Lent(lent) if lent.answer == LenderAnswer::Refused(session) => {
                Err(failed(self.unlent(lent.disk)))
            }
            _ => Ok(None),
        };
        self.ask_all(self.lenders(begin), understand, |disk| self.unlent(disk))?;
        let disks = self.disks().into_iter().map(|(disk, _)| disk);
        let record = Record::new(self.config.pool, self.ballot, disks);
        let memory = Memory::new(record);
        let members = self.config.members().into_iter();
        let questions = members.map(|member| (member, (member, Message::Found(memory.clone()))));
        let understand = |from: MemberId, message| match message {
            Message::Founded(_) => Ok(Some(from)),
            Message::Silent(why) => Err(failed(format!(
                "{} cannot remember the pool: {why:?}; see its log",
                (self.name)(from)
            ))),
            _ => Ok(None),
        };
        self.ask_all(questions.collect(), understand, |member| {
            self.unreached(member)
        })
    }
}
