//! The deciding thread: handles events, writes the state of this head's member, and performs actions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use leg_memory::Store;
use leg_record::{
    Action, Ballot, Config, DiskId, Event, LenderResponse, MemberId, MemberState, Membership,
    Notice, Owner, Record, Refusal, Request, Response, Session,
};
use members::{Envelope, Message, Peer, Received};

use crate::decisions;
use crate::lenders::{Lenders, first_stamp};
use crate::linked::Halt;
use crate::linked::Linked;
use crate::options::{BeforeAction, Failure, Options};
use crate::requester::{Members, Requester};
use crate::returns::Returns;
use crate::shown::{PublishedState, Stage, denial, difference, of_others, refusal};
use crate::viewer::{Common, Viewer};
use crate::{Granted, Inbox, Input, Reporter, Side, in_background, random};

/// Interval of checks for excluded disks.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of checks of the connections.
const LINK_INTERVAL: Duration = Duration::from_millis(50);
/// The same while the pool is being opened: a request to a member is repeated once there is a connection to it.
const OPENING_INTERVAL: Duration = Duration::from_millis(3);
/// Pause when no more responses are expected, before requests are repeated or the opening is decided without them.
const RECEIVED_ALL_PAUSE: Duration = Duration::from_millis(200);
/// Time at the export for members to accept that the pool has no owner. Otherwise the next owner needs a proof.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// Interval of the notice that writes are blocked.
const REPORT_INTERVAL: Duration = Duration::from_secs(30);
/// Time-out of each step while the pool is being opened, and of retries after it.
const DEADLINE: Duration = Duration::from_secs(15);
/// How often the opening restarts because the record changed in the meantime.
const REOPENS_MAX: u32 = 3;

/// Creates a pool with a record: stamps its disks as current, then writes the record. The pool must not be open.
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
    let memory = MemberState::new(Record::new(pool, ballot, disks));
    let Members::Own(folder) = &options.members else {
        let why = "a pool with several members is made by `Bootstrap`";
        return Err(Failure::Side(why.into()));
    };
    Store::create(folder, pool, memory)?;
    Ok(())
}

/// A pool with legs that this process owns, or is opening.
pub struct Legs {
    common: Arc<Common>,
    reporter: Reporter,
    thread: Option<JoinHandle<()>>,
}

impl Legs {
    /// Opens the pool by its record. Blocks until it is open.
    ///
    /// # Errors
    ///
    /// The record does not allow it, cannot be used, or the pool cannot be opened.
    pub fn open(options: Options, side: Arc<impl Side>, inbox: Inbox) -> Result<Self, Failure> {
        let boot = random();
        let reporter = inbox.reporter();
        let config = options.config;
        let requester = Requester::start(options.members, &config, boot, &reporter)?;
        let common = Arc::new(Common::new());
        reporter.send(Input::Event(Event::Open {
            nonce: random(),
            word: None,
        }));
        let decider = Decider {
            // Never repeats: responses to an earlier process do not count.
            owner: Owner::new(boot),
            opening: None,
            has_named: false,
            deadline: Instant::now() + DEADLINE,
            heard_all: None,
            reopens: 0,
            incarnation: random(),
            before_action: options.before_action,
            config,
            side,
            requester,
            was_told_what_was_heard: false,
            told_of_wait: None,
            lenders: Lenders::default(),
            returns: Returns::default(),
            last: BTreeSet::new(),
            held: BTreeMap::new(),
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

    /// Returns the current state.
    pub fn shown(&self) -> PublishedState {
        self.common.shown().clone()
    }

    /// Blocks until the condition is true.
    pub fn wait(&self, holds: impl Fn(&PublishedState) -> bool) -> PublishedState {
        self.common.wait(holds)
    }

    /// Releases ownership after the pool was exported.
    pub fn close(self) -> PublishedState {
        self.reporter.send(Input::Event(Event::Exported));
        self.common.wait_for(CLOSE_WAIT, |shown| {
            matches!(shown.stage, Stage::Closed | Stage::Failed(_))
        })
    }

    /// Returns a handle for requests of an administrator.
    pub fn reporter(&self) -> Reporter {
        self.reporter.clone()
    }

    /// Returns a handle for reading the state.
    pub fn viewer(&self) -> Viewer {
        Viewer(Arc::clone(&self.common))
    }
}

impl Drop for Legs {
    fn drop(&mut self) {
        self.reporter.send(Input::End);
        if let Some(thread) = self.thread.take() {
            // The thread has published its final state, if it stopped by itself.
            let _ = thread.join();
        }
    }
}

struct Decider<S> {
    config: Config,
    before_action: Option<BeforeAction>,
    side: Arc<S>,
    requester: Requester,
    owner: Owner,
    /// Postponed until the member of this head has sent its state.
    opening: Option<Event>,
    /// Whether naming the members of an earlier release's record was attempted.
    has_named: bool,
    /// Time-out of the current step.
    deadline: Instant,
    /// No more responses are expected in this step of the opening, which is decided at that time.
    heard_all: Option<(u32, Instant)>,
    reopens: u32,
    was_told_what_was_heard: bool,
    told_of_wait: Option<Instant>,
    incarnation: u64,
    lenders: Lenders,
    returns: Returns,
    /// Legs that failed and cannot be excluded, because the remaining ones are not enough.
    last: BTreeSet<DiskId>,
    /// As last published.
    held: BTreeMap<DiskId, Instant>,
    reporter: Reporter,
    common: Arc<Common>,
}

#[derive(PartialEq, Eq)]
enum RunState {
    On,
    Ending,
}

impl<S: Side> Decider<S> {
    fn run(mut self, receiver: &Receiver<Input>) {
        loop {
            let interval = self.interval();
            let goes = match receiver.recv_timeout(interval) {
                Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => Ok(RunState::Ending),
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => Ok(RunState::On),
            };
            let goes = goes.and_then(|goes| match goes {
                RunState::On => self.on_time(),
                RunState::Ending => Ok(goes),
            });
            match goes {
                Ok(RunState::On) => self.check_returns(),
                Ok(RunState::Ending) => return,
                Err(halt) => return self.fail(&halt),
            }
        }
    }

    /// The longest wait for the next input.
    fn interval(&self) -> Duration {
        match self.requester {
            Requester::Own(_) => POLL_INTERVAL,
            Requester::Links(_) if self.common.shown().stage == Stage::Opening => OPENING_INTERVAL,
            Requester::Links(_) => LINK_INTERVAL,
        }
    }

    /// The configuration with the members of the record that this head's member accepted.
    fn rule(&self) -> Cow<'_, Config> {
        self.config.by(self.requester.memory().accepted.as_ref())
    }

    fn on_time(&mut self) -> Result<RunState, Halt> {
        if self.check_freeze()? == RunState::Ending {
            return Ok(RunState::Ending);
        }
        if self.check_fence()? == RunState::Ending {
            return Ok(RunState::Ending);
        }
        let now = Instant::now();
        let (is_opening, is_open) = {
            let stage = &self.common.shown().stage;
            (*stage == Stage::Opening, *stage == Stage::Open)
        };
        if let Some(linked) = self.requester.linked() {
            let unresponsive = linked.unresponsive();
            let refused = linked.tick(now, !is_opening);
            let is_alone = is_opening && linked.is_alone(now);
            let step = self.owner.opening_step();
            self.heard_all = self.heard_all.filter(|(of, _)| is_opening && *of == step);
            if is_opening && self.heard_all.is_none() && linked.has_received_all(now) {
                let pause = match linked.misses_only_fenced() {
                    true => Duration::ZERO,
                    false => RECEIVED_ALL_PAUSE,
                };
                self.heard_all = Some((step, now + pause));
            }
            if self.common.shown().unresponsive != unresponsive {
                self.common.show(|shown| shown.unresponsive = unresponsive);
            }
            if is_alone {
                return Err(Halt::Because(
                    "the leg-server of this host, which stores the record and lends its disks, does not respond: \
                     `systemctl start bulkhead-leg-server` starts it, its log says what is wrong"
                        .into(),
                ));
            }
            let is_changing = self.owner.changes_members();
            let is_look_due = is_open && linked.is_look_due(now, is_changing);
            if is_look_due && self.on_event(Event::Look)? == RunState::Ending {
                return Ok(RunState::Ending);
            }
            if is_open && self.name_members()? == RunState::Ending {
                return Ok(RunState::Ending);
            }
            for (disk, response) in refused {
                if self.on_event(Event::Lent(disk, response))? == RunState::Ending {
                    return Ok(RunState::Ending);
                }
            }
        }
        let step = self.owner.opening_step();
        let heard_all = self.heard_all.filter(|(of, _)| *of == step);
        let heard_all = heard_all.map(|(_, due)| due);
        if now < heard_all.map_or(self.deadline, |due| due.min(self.deadline)) {
            return Ok(RunState::On);
        }
        self.heard_all = None;
        self.deadline = now + DEADLINE;
        self.on_event(Event::Deadline)
    }

    /// The thread stops. Withheld errors stay withheld: nothing is acknowledged without the record.
    fn fail(&self, halt: &Halt) {
        let why = match std::error::Error::source(halt) {
            Some(cause) => format!("{halt}: {cause}"),
            None => halt.to_string(),
        };
        if matches!(halt, Halt::Store(_)) {
            tracing::error!(
                why,
                "the record of the pool's legs cannot be written: writes block forever once a leg fails; make room or \
                 replace the disk of the state directory, and start the server again"
            );
        }
        self.common.show(|shown| shown.stage = Stage::Failed(why));
    }

    fn take(&mut self, input: Input) -> Result<RunState, Halt> {
        let now = Instant::now();
        match input {
            Input::Event(event @ Event::Open { .. }) => return self.open(event),
            Input::Event(event) => return self.on_event(event),
            Input::NotOpened(why) => {
                self.common.show(|shown| shown.stage = Stage::Failed(why));
                return Ok(RunState::Ending);
            }
            Input::Query(disk, newest_group) => {
                self.returns.requested(disk, now);
                match newest_group {
                    Ok(newest_group) => {
                        return self.on_event(Event::LegReturned { disk, newest_group });
                    }
                    Err(why) => self.report_failure(disk, why),
                }
            }
            Input::ResilverFailed(disk, session, why) => {
                self.report_failure(disk, why);
                self.returns.is_out(disk, now);
                return self.on_event(Event::ReturnFailed(disk, session));
            }
            Input::Readmit(disk) => {
                tracing::info!(
                    name = self.side.name(disk),
                    "checking at once whether a leg is available"
                );
                self.returns.forgive(disk, now);
            }
            Input::Configured(configured) => {
                self.config.groups.clone_from(&configured.groups);
                if let Some(linked) = self.requester.linked() {
                    linked.configured(configured);
                }
            }
            Input::Members(desired, joining) => {
                // Naming the members must not undo an administrator's change.
                self.has_named = true;
                return self.change_members(desired, joining);
            }
            Input::MembersStay => return self.on_event(Event::MembersStay),
            Input::Received(received) => return self.on_message(received),
            Input::End => return Ok(RunState::Ending),
        }
        Ok(RunState::On)
    }

    /// Starts a change of members.
    fn change_members(
        &mut self,
        desired: Membership,
        joining: Option<Peer>,
    ) -> Result<RunState, Halt> {
        if let (Some(linked), Some(peer)) = (self.requester.linked(), joining) {
            linked.connect(peer)?;
        }
        let life = random().max(1);
        match self.on_event(Event::Members { desired, life })? {
            RunState::On => self.on_event(Event::Look),
            RunState::Ending => Ok(RunState::Ending),
        }
    }

    /// Names the members in a record of an earlier release, once all respond, so that a later change of the
    /// configuration has no effect. Attempted once: a member that cannot read such a record closes its connection.
    fn name_members(&mut self) -> Result<RunState, Halt> {
        let is_due = {
            let shown = self.common.shown();
            let record = shown.record.as_ref();
            let is_unnamed = record.is_some_and(|record| record.members.is_none());
            is_unnamed && shown.unresponsive.is_empty() && !self.has_named
        };
        let rule = self.rule();
        if !is_due || rule.other_head().is_none() {
            return Ok(RunState::On);
        }
        let desired = rule.membership.clone();
        drop(rule);
        self.has_named = true;
        self.change_members(desired, None)
    }

    /// The own member's state determines the other members, so it is read first.
    fn open(&mut self, event: Event) -> Result<RunState, Halt> {
        let (me, tag) = (self.config.me, self.owner.listening_tag());
        match self.requester.linked().filter(|linked| !linked.has_own()) {
            Some(linked) => {
                linked.send_request(me, Request::Read(tag))?;
                self.opening = Some(event);
                Ok(RunState::On)
            }
            None => self.on_event(event),
        }
    }

    /// Continues the opening once the member of this head has sent its state.
    fn continue_opening(&mut self) -> Result<RunState, Halt> {
        let has_own = self
            .requester
            .linked()
            .is_some_and(|linked| linked.has_own());
        match self.opening.take_if(|_| has_own) {
            Some(event) => self.on_event(event),
            None => Ok(RunState::On),
        }
    }

    /// A disk cannot be probed or is not lent, or its resilver failed. The same reason is logged only once.
    fn report_failure(&self, disk: DiskId, why: String) {
        let mut shown = self.common.shown();
        if shown.troubles.get(&disk) != Some(&why) {
            let name = self.side.name(disk);
            tracing::warn!(name, why, "a leg cannot return yet");
        }
        shown.troubles.insert(disk, why);
    }

    fn on_message(&mut self, received: Received) -> Result<RunState, Halt> {
        let Received { from, envelope } = received;
        let Envelope {
            pool,
            boot,
            message,
        } = envelope;
        tracing::trace!(pool, member = from.0, content = ?message, "a message");
        if let Some(linked) = self.requester.linked() {
            linked.note_received(from, boot);
        }
        if from != self.config.me && self.on_event(Event::Received(from))? == RunState::Ending {
            return Ok(RunState::Ending);
        }
        let is_about_a_disk = matches!(message, Message::Lent(_));
        let (config_pool, me) = (self.config.pool, self.config.me);
        let Some(linked) = self.requester.linked() else {
            return Ok(RunState::On);
        };
        if pool != config_pool && !is_about_a_disk {
            tracing::trace!(pool, member = from.0, "a message about another pool");
            return Ok(RunState::On);
        }
        match message {
            Message::Response(response) => {
                linked.responded(from, &response)?;
                let reported = match &response {
                    Response::Known(_, memory) => memory.accepted.as_ref(),
                    Response::Promised { record, .. } => record.as_ref(),
                    _ => None,
                };
                if reported.is_some_and(|record| linked.is_on_other_head(record))
                    && !self.owner.has_term()
                {
                    return self.abandon(of_others(&self.side.member_name(from)));
                }
                if from == me && self.report_received_state(boot)? == RunState::Ending {
                    return Ok(RunState::Ending);
                }
                if self.on_event(Event::Responded(from, response))? == RunState::Ending {
                    return Ok(RunState::Ending);
                }
                self.continue_opening()
            }
            Message::Lent(lent) => {
                let is_elsewhere = linked.is_elsewhere(lent.disk);
                if !linked.lent(from, lent.disk, lent.response) {
                    return Ok(RunState::On);
                }
                if let (LenderResponse::Admitted(session, seen), true) =
                    (lent.response, is_elsewhere)
                {
                    let granted = Granted {
                        session,
                        incarnation: seen.incarnation,
                        export: lent.export,
                    };
                    self.side.granted(lent.disk, granted);
                }
                if let LenderResponse::Refused(_) = lent.response {
                    let why = denial(lent.denial, |member| self.side.member_name(member));
                    self.report_failure(lent.disk, format!("it is not lent: {why}"));
                }
                self.on_event(Event::Lent(lent.disk, lent.response))
            }
            Message::Silent(why) => {
                linked.is_silent(from, why);
                self.continue_opening()
            }
            Message::Configuration(digest) => {
                linked.has_configuration(from, digest);
                self.check_differences()
            }
            _ => Ok(RunState::On),
        }
    }

    /// Heads with different configurations do not open a pool. If it is open, the difference is published.
    fn check_differences(&mut self) -> Result<RunState, Halt> {
        let differing = self
            .requester
            .linked()
            .map(|linked| linked.differing().clone());
        let differing = differing.unwrap_or_default();
        let is_opening = self.common.shown().stage == Stage::Opening;
        if !differing.is_empty() && is_opening && !self.owner.has_term() {
            let names = differing.iter().map(|head| self.side.member_name(*head));
            let why = difference(&names.collect::<Vec<_>>());
            return self.abandon(why);
        }
        if self.common.shown().differing != differing {
            self.common.show(|shown| shown.differing = differing);
        }
        Ok(RunState::On)
    }

    /// The pool is not opened, for a reason outside the record. Promises to this head are withdrawn.
    fn abandon(&mut self, why: String) -> Result<RunState, Halt> {
        self.handle(Event::Abandoned)?;
        Ok(self.refuse(why))
    }

    fn refuse(&self, why: String) -> RunState {
        decisions::note_refusal(self.config.pool, &why);
        self.common.show(|shown| shown.stage = Stage::Refused(why));
        RunState::Ending
    }

    /// Two heads: state that the other one sent to the running member of this head counts as sent to this process.
    fn report_received_state(&mut self, boot: u64) -> Result<RunState, Halt> {
        if std::mem::replace(&mut self.was_told_what_was_heard, true) {
            return Ok(RunState::On);
        }
        let other = self.rule().other_of_two();
        let received = self
            .requester
            .linked()
            .and_then(|linked| linked.received_before(boot));
        let (Some(other), Some(memory)) = (other, received) else {
            return Ok(RunState::On);
        };
        let tag = self.owner.listening_tag();
        self.on_event(Event::Responded(other, Response::Known(tag, memory)))
    }

    /// Called periodically: a long pause between two calls counts as a freeze.
    fn check_freeze(&mut self) -> Result<RunState, Halt> {
        if !self.requester.linked().is_some_and(Linked::was_frozen) {
            return Ok(RunState::On);
        }
        // State received earlier is read again, if valid. Requests that are sent again get their full time-out.
        self.was_told_what_was_heard = false;
        self.deadline = Instant::now() + DEADLINE;
        self.handle(Event::Thawed)
    }

    /// Two heads: whether the other one was fenced while it did not respond. Then its vote is requested again.
    fn check_fence(&mut self) -> Result<RunState, Halt> {
        let (Some(other), true) = (self.rule().other_of_two(), self.owner.has_term()) else {
            return Ok(RunState::On);
        };
        if self.receive_from_other()? == RunState::Ending {
            return Ok(RunState::Ending);
        }
        let name = self.side.member_name(other);
        let linked = self.requester.linked();
        match linked.is_some_and(|linked| linked.check_fence(&name, Instant::now())) {
            true => self.on_event(Event::Deadline),
            false => Ok(RunState::On),
        }
    }

    fn on_event(&mut self, event: Event) -> Result<RunState, Halt> {
        if self.check_freeze()? == RunState::Ending {
            return Ok(RunState::Ending);
        }
        if self.receive_from_other()? == RunState::Ending {
            return Ok(RunState::Ending);
        }
        self.handle(event)
    }

    /// Two heads: handles messages of the other head that the member of this head received.
    fn receive_from_other(&mut self) -> Result<RunState, Halt> {
        let was_heard = self
            .requester
            .linked()
            .is_some_and(Linked::had_contact_with_other);
        let rule = self.rule();
        let other = match self.owner.has_term() {
            // A change to two heads may be in progress.
            true => rule.other_head(),
            false => rule.other_of_two(),
        };
        drop(rule);
        if let (Some(other), true) = (other, was_heard) {
            if self.handle(Event::Received(other))? == RunState::Ending {
                return Ok(RunState::Ending);
            }
        }
        Ok(RunState::On)
    }

    fn handle(&mut self, event: Event) -> Result<RunState, Halt> {
        decisions::note_event(self.config.pool, &event);
        self.note(&event);
        let step = self.owner.opening_step();
        let actions = self
            .owner
            .handle(&self.config, self.requester.memory(), event);
        decisions::note_step(self.config.pool, step, self.owner.opening_step());
        for action in actions {
            if self.perform(action)? == RunState::Ending {
                return Ok(RunState::Ending);
            }
        }
        Ok(RunState::On)
    }

    fn note(&mut self, event: &Event) {
        match event {
            Event::Imported => self.common.show(|shown| shown.stage = Stage::Open),
            // A leg with a lost connection may be resumed; until then its state is unknown.
            Event::LegFailed { disk, .. }
            | Event::LinkLost { disk, .. }
            | Event::ReturnFailed(disk, _) => {
                let disk = *disk;
                self.common.show(|shown| {
                    shown.copying.remove(&disk);
                    let record = shown.record.as_ref();
                    if record.is_some_and(|record| record.current.contains_key(&disk)) {
                        shown.awaited.insert(disk);
                    }
                });
            }
            Event::Lent(disk, LenderResponse::Admitted(_, seen)) => {
                self.returns.admitted(*disk, seen.incarnation);
            }
            Event::Lent(disk, LenderResponse::Refused(_)) => {
                self.returns.is_out(*disk, Instant::now());
            }
            // A complete leg stays in `copying` until the record names it as current.
            Event::Returned {
                disk, completeness, ..
            } if !completeness.is_whole() => {
                self.common.show(|shown| {
                    shown.copying.remove(disk);
                });
            }
            _ => {}
        }
    }

    fn perform(&mut self, action: Action) -> Result<RunState, Halt> {
        decisions::note_action(self.config.pool, &action);
        if let Some(see) = &self.before_action {
            see(&action);
        }
        match action {
            Action::Request(member, request) => return self.send_request(member, request),
            Action::LenderRequest(disk, request) => {
                let incarnation = self.incarnation;
                match self.requester.linked() {
                    Some(linked) => linked.request_lender(disk, request),
                    None => self.lenders.send_request(
                        &self.side,
                        disk,
                        request,
                        incarnation,
                        &self.reporter,
                    ),
                }
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
            Action::UseAgain(disk) => {
                self.last.remove(&disk);
                self.publish_last();
                self.side.use_again(disk);
                self.common.show(|shown| {
                    shown.awaited.remove(&disk);
                });
            }
            Action::Recall(disk) => self.returns.recall(disk, Instant::now()),
            Action::Resilver {
                disk,
                since,
                beyond,
                session,
                ..
            } => {
                self.returns.begun(disk);
                self.common.show(|shown| {
                    shown.copying.insert(disk);
                });
                let (side, reporter) = (Arc::clone(&self.side), self.reporter.clone());
                in_background("leg-resilver", move || {
                    reporter.send(match side.resilver(disk, since, beyond) {
                        Ok(completeness) => Input::Event(Event::Returned {
                            disk,
                            session,
                            completeness,
                        }),
                        Err(why) => Input::ResilverFailed(disk, session, why),
                    });
                });
            }
            Action::Committed(record) => self.committed(record),
            Action::Stop => {
                self.release();
                self.side.stop();
                let why = "the pool has another owner".to_owned();
                self.common.show(|shown| shown.stage = Stage::Failed(why));
                return Ok(RunState::Ending);
            }
            Action::Closed => {
                self.release();
                self.common.show(|shown| shown.stage = Stage::Closed);
                return Ok(RunState::Ending);
            }
            Action::Notify(notice) => return Ok(self.notify(&notice)),
            Action::Fence(head, number) => {
                let event = match self.is_off(head) {
                    true => Event::Fenced(number),
                    false => Event::FenceFailed(number),
                };
                tracing::info!(
                    head = self.side.member_name(head),
                    ?event,
                    "whether a head is off"
                );
                self.reporter.send(Input::Event(event));
            }
            Action::Resume(disk, _) => {
                let (side, common) = (Arc::clone(&self.side), Arc::clone(&self.common));
                let pool = self.config.pool;
                in_background("leg-resume", move || match side.resume(disk) {
                    Ok(()) => {
                        tracing::info!(pool, leg = disk.0, "a leg is resumed: it stays current");
                        common.show(|shown| {
                            shown.awaited.remove(&disk);
                        });
                    }
                    // The leg fails soon, and the record will exclude it.
                    Err(why) => {
                        let name = side.name(disk);
                        tracing::warn!(name, why, "a leg cannot be resumed");
                    }
                });
            }
        }
        Ok(RunState::On)
    }

    /// The proof given at the start only holds for the opening. In a term, a fence after the head's last message counts.
    fn is_off(&mut self, head: MemberId) -> bool {
        if self.owner.has_term() {
            let linked = self.requester.linked();
            return linked.is_some_and(|linked| linked.is_fenced(head));
        }
        let name = self.side.member_name(head);
        let linked = self.requester.linked();
        linked.is_some_and(|linked| {
            let counts = linked.counts_as_off(head, Instant::now());
            if counts && linked.relies_on_confirmation() {
                tracing::warn!(
                    head = name,
                    "opened by the confirmation that this head is off: if it runs, writes that it acknowledges from now on are lost"
                );
            }
            counts
        })
    }

    fn release(&mut self) {
        if let Some(linked) = self.requester.linked() {
            linked.release();
        }
    }

    fn send_request(&mut self, member: MemberId, request: Request) -> Result<RunState, Halt> {
        let serves = self.owner.has_term();
        match &mut self.requester {
            Requester::Links(linked) => linked.send_request(member, request)?,
            Requester::Own(store) => {
                if let Some(response) = store.handle(member, request, serves)? {
                    self.reporter
                        .send(Input::Event(Event::Responded(member, response)));
                }
            }
        }
        Ok(RunState::On)
    }

    fn exclude(&mut self, disk: DiskId) {
        if self.last.remove(&disk) {
            self.publish_last();
        }
        // The last committed record excludes it, and is published before its effects.
        let record = self.common.shown().record.clone();
        let stale = record.and_then(|record| record.stale.get(&disk).copied());
        // A leg with released errors is stale by the newest record; without a record all of its data is missing.
        let since = stale.map_or(0, |stale| stale.since);
        self.side.exclude(disk, since);
        self.returns.is_out(disk, Instant::now());
        self.common.show(|shown| {
            shown.awaited.remove(&disk);
        });
    }

    fn committed(&mut self, record: Record) {
        let now = Instant::now();
        for disk in record.current.keys() {
            self.returns.is_back(*disk, now);
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
        let is_open = record.owner.is_some() && self.common.shown().stage == Stage::Open;
        let current = is_open.then(|| record.current_disks());
        self.common.show(|shown| {
            shown
                .copying
                .retain(|disk| !record.current.contains_key(disk));
            shown
                .troubles
                .retain(|disk, _| !record.current.contains_key(disk));
            shown.record = Some(record);
        });
        if let Some(current) = current {
            self.side.committed(&current);
        }
    }

    fn notify(&mut self, notice: &Notice) -> RunState {
        // Repeated with every event.
        if matches!(notice, Notice::LastLeg(disk) if self.last.contains(disk)) {
            return RunState::On;
        }
        if matches!(notice, Notice::WritesWait { .. }) && !self.may_report_wait() {
            return RunState::On;
        }
        self.side.notify(notice);
        match notice {
            Notice::Refused(Refusal::Changed) if self.reopens < REOPENS_MAX => self.reopen(),
            Notice::Refused(why) => {
                let why = match why {
                    Refusal::OwnerLives(head) if *head == self.config.me => "it is open".to_owned(),
                    why => {
                        let objection = match why {
                            Refusal::OwnerUnconfirmed(head) => self.objection(*head),
                            Refusal::NoQuorum { .. } => self.unlisted(),
                            _ => None,
                        };
                        refusal(&*self.side, &self.rule(), why, objection)
                    }
                };
                return self.refuse(why);
            }
            Notice::LastLeg(disk) => {
                self.side.keep_last(*disk);
                self.last.insert(*disk);
                self.publish_last();
            }
            Notice::MembersStay => self.common.show(|shown| shown.changes_taken_back += 1),
            Notice::WritesWait { .. } | Notice::Divergent(_) | Notice::OlderImage(_) => {}
        }
        RunState::On
    }

    /// Publishes one of the last legs; an administrator starts with that one.
    fn publish_last(&self) {
        let last = self.last.first().copied();
        self.common.show(|shown| shown.last = last);
    }

    fn reopen(&mut self) {
        self.reopens += 1;
        tracing::info!("the record changed while the pool was being opened: reading it again");
        self.deadline = Instant::now() + DEADLINE;
        self.was_told_what_was_heard = false;
        if let Some(linked) = self.requester.linked() {
            linked.clear_requests();
        }
        self.reporter.send(Input::Event(Event::Open {
            nonce: random(),
            word: None,
        }));
    }

    fn objection(&mut self, head: MemberId) -> Option<String> {
        let name = self.side.member_name(head);
        self.requester
            .linked()?
            .objection(head, &format!("head {name}"))
    }

    /// Members of the record that got no request, because the configuration does not name them.
    fn unlisted(&mut self) -> Option<String> {
        let members = self.rule().members();
        let linked = self.requester.linked()?;
        let unlisted = members.into_iter().filter(|one| !linked.lists(*one));
        let names: Vec<String> = unlisted.map(|one| self.side.member_name(one)).collect();
        (!names.is_empty()).then(|| {
            format!(
                ". The configuration of this head does not name {}, which the record does: write it there again, as it was, until the \
                 record names it no more",
                names.join(", ")
            )
        })
    }

    fn may_report_wait(&mut self) -> bool {
        let now = Instant::now();
        let is_due = |at: Instant| now.duration_since(at) >= REPORT_INTERVAL;
        let is_due = self.told_of_wait.is_none_or(is_due);
        if is_due {
            self.told_of_wait = Some(now);
        }
        is_due
    }

    /// Checks whether excluded disks are available, each on its own thread.
    fn check_returns(&mut self) {
        let shown = self.common.shown().clone();
        let (Stage::Open, Some(record)) = (shown.stage, shown.record) else {
            return;
        };
        let linked = match &self.requester {
            Requester::Own(_) => None,
            Requester::Links(linked) => Some(linked),
        };
        let is_reachable = |disk| linked.is_none_or(|linked| linked.is_connected_to_lender(disk));
        let now = Instant::now();
        let due = self.returns.due(&record, now, is_reachable);
        let held = self.returns.held(&record, now);
        if held != self.held {
            let until = |at: &Instant| SystemTime::now() + at.saturating_duration_since(now);
            let reported = held.iter().map(|(disk, at)| (*disk, until(at))).collect();
            self.common.show(|shown| shown.held = reported);
            self.held = held;
        }
        for disk in due {
            decisions::note_check(record.pool, disk);
            let is_elsewhere = linked.is_some_and(|linked| linked.is_elsewhere(disk));
            let is_given_up = record.stale.get(&disk).is_some_and(|one| one.since == 0);
            let (side, reporter) = (Arc::clone(&self.side), self.reporter.clone());
            in_background("leg-return", move || {
                // A remote disk is checked by the claim at its lender.
                let is_back = match is_elsewhere {
                    true => Ok(()),
                    false => side.is_back(disk, is_given_up),
                };
                let newest = || side.newest_group().ok_or("the pool is not open".to_owned());
                reporter.send(Input::Query(disk, is_back.and_then(|()| newest())));
            });
        }
    }
}
