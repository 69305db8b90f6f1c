//! The state machine of `ocf:bulkhead:pool`, one action after the other. Performing an action yields the event that
//! belongs to it; the last action is the result for Pacemaker.
//!
//! * **start**: succeeds at once if a server serves. A hung server is killed first. Then the labels are read, the
//!   evidence is judged, a server is started with the grant, and its claim is awaited. The pool's addresses are set as
//!   soon as the server has claimed the pool, so that clients connect while it opens the pool; if it then does not
//!   serve, they are removed again. A server that can only check ownership by opening the pool gets them when it
//!   serves.
//! * **stop**: a running server flushes its memory while clients continue. Then the pool's addresses are removed; the
//!   server drains and exports. A server that fails to do so is killed. A stop succeeds only when this head has none of
//!   the addresses, none of its processes has the pool open, and its kernel has completed all requests of the server,
//!   because other heads rely on that. Otherwise the head is fenced.
//! * **monitor**: one request to the server, which responds from memory. Without a server, it checks that the kernel
//!   has completed the requests of a previous one.

use units::PoolName;

use crate::proof::{Evidence, Grant, Label, Peer, judge};

/// An operation of Pacemaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Serve the pool.
    Start,
    /// Release the pool.
    Stop,
    /// Say whether it is served.
    Monitor,
}

/// The pool's server process on this head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// There is none.
    Absent,
    /// It is opening the pool.
    Starting,
    /// It serves.
    Serving,
    /// It is draining or exporting the pool.
    Stopping,
    /// It runs and does not respond.
    Silent,
}

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Query the server's state, within a second. Yields [`Event::Server`].
    QueryServer,
    /// Read the labels of the pool's devices. Yields [`Event::Label`].
    ReadLabel,
    /// Query the cluster's state of a host. Yields [`Event::Peer`].
    QueryCluster {
        /// The host that the label names.
        host_name: String,
    },
    /// Start a server. Yields [`Event::Started`] or [`Event::Failed`].
    Spawn(Grant),
    /// Wait until it has verified its ownership. Yields [`Event::Claimed`], [`Event::Serving`] where it serves without
    /// reporting a claim, or [`Event::Failed`].
    AwaitClaim,
    /// Wait until it serves. Yields [`Event::Serving`] or [`Event::Failed`].
    AwaitServing,
    /// Set the pool's addresses. Yields [`Event::AddressesSet`] or [`Event::Failed`].
    SetAddresses,
    /// Have the server flush its memory, within a bound of its own. Yields [`Event::Settled`] or
    /// [`Event::Failed`].
    Settle,
    /// Remove the pool's addresses. Yields [`Event::Withdrawn`] or [`Event::Failed`].
    WithdrawAddresses,
    /// Have the server drain, export and exit, and wait for its exit. Yields [`Event::Ended`] or
    /// [`Event::Failed`].
    Export,
    /// Kill the server and wait until its process is gone. Yields [`Event::Ended`] or
    /// [`Event::Failed`].
    Kill,
    /// Verify that the kernel has completed all requests of a process that had the pool: requests outlive their
    /// process, and each holds the lock of its disk. A monitor does not wait for it. Yields [`Event::Released`] or
    /// [`Event::Failed`].
    AwaitRelease,
    /// Tell Pacemaker.
    Finish(Verdict),
}

impl Action {
    /// Returns a name for logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::QueryServer => "ask",
            Self::ReadLabel => "label",
            Self::QueryCluster { .. } => "cluster",
            Self::Spawn(_) => "spawn",
            Self::AwaitClaim => "claim",
            Self::AwaitServing => "serve",
            Self::SetAddresses => "addresses",
            Self::Settle => "settle",
            Self::WithdrawAddresses => "withdraw",
            Self::Export => "export",
            Self::Kill => "kill",
            Self::AwaitRelease => "release",
            Self::Finish(_) => "answer",
        }
    }
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The state of the server.
    Server(Server),
    /// The state of the labels.
    Label(Label),
    /// The cluster's evidence.
    Peer(Peer),
    /// The server process was started.
    Started,
    /// The pool is claimed, and clients may connect and wait for it.
    Claimed,
    /// It serves.
    Serving,
    /// The addresses are set.
    AddressesSet,
    /// Little dirty data is left.
    Settled,
    /// The addresses are gone.
    Withdrawn,
    /// Its process is gone.
    Ended,
    /// Nothing of this head can reach the disks any more.
    Released,
    /// The action failed, or timed out.
    Failed(String),
}

/// The result for Pacemaker (OCF 1.1, exit status).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The requested state is established (0).
    Success,
    /// No server has the pool here (7).
    NotRunning,
    /// It is not (1), with the reason.
    Failure(String),
}

impl Verdict {
    /// The exit code of the agent.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure(_) => 1,
            Self::NotRunning => 7,
        }
    }
}

/// The state of an operation: the action that is being performed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Querying,
    KillingUnresponsive,
    ReadingLabel,
    QueryingCluster { label: Label },
    Spawning,
    AwaitingClaim,
    AwaitingServing { addresses: Addresses },
    WithdrawingFailed { why: String },
    KillingFailed { why: String },
    SettingAddresses { is_served: bool },
    Settling,
    Withdrawing { server: Server },
    Exporting,
    KillingAfterStopTimeout { why: String },
    Releasing,
    Finished,
}

/// Whether this run of the agent has set the pool's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addresses {
    Here,
    NotYet,
}

/// An operation of the agent in progress.
#[derive(Clone, Debug)]
pub struct Agent {
    pool: PoolName,
    operation: Operation,
    state: State,
}

impl Agent {
    /// Begins an operation; the first action is always the query of the server.
    pub const fn begin(pool: PoolName, operation: Operation) -> (Self, Action) {
        let agent = Self {
            pool,
            operation,
            state: State::Querying,
        };
        (agent, Action::QueryServer)
    }

    /// Accepts the result of the last action and returns the next action.
    ///
    /// # Panics
    ///
    /// If the event does not belong to the action: the caller is broken.
    pub fn next(&mut self, event: Event) -> Action {
        let state = std::mem::replace(&mut self.state, State::Finished);
        let (state, action) = match (state, event) {
            (State::Querying, Event::Server(server)) => self.server_state_received(server),
            (State::Querying, Event::Failed(why)) => answer(Verdict::Failure(why)),
            (State::KillingUnresponsive, Event::Ended) => (State::ReadingLabel, Action::ReadLabel),
            (State::ReadingLabel, Event::Label(label)) => self.label_received(label),
            (State::QueryingCluster { label }, Event::Peer(peer)) => self.judged(label, peer),
            (State::QueryingCluster { label }, Event::Failed(_)) => {
                self.judged(label, Peer::Unknown)
            }
            (State::Spawning, Event::Started) => (State::AwaitingClaim, Action::AwaitClaim),
            (State::AwaitingClaim, Event::Claimed) => bring(false),
            (State::AwaitingClaim, Event::Serving) => bring(true),
            (State::AwaitingServing { addresses }, Event::Serving) => match addresses {
                Addresses::Here => answer(Verdict::Success),
                Addresses::NotYet => bring(true),
            },
            // The address's own agent reports errors of an address.
            (State::SettingAddresses { is_served }, Event::AddressesSet | Event::Failed(_)) => {
                match is_served {
                    true => answer(Verdict::Success),
                    false => await_serving(Addresses::Here),
                }
            }
            // Settling only saves time: the export writes the rest.
            (State::Settling, Event::Settled | Event::Failed(_)) => withdraw(Server::Serving),
            (State::Withdrawing { server }, Event::Withdrawn) => addresses_withdrawn(server),
            // A server that does not serve in time must not begin to serve later, unobserved.
            (State::AwaitingClaim, Event::Failed(why)) => {
                (State::KillingFailed { why }, Action::Kill)
            }
            // Its clients must not wait for it. A stop follows, and a failure there is reported.
            (State::AwaitingServing { .. }, Event::Failed(why)) => {
                (State::WithdrawingFailed { why }, Action::WithdrawAddresses)
            }
            (State::WithdrawingFailed { why }, Event::Withdrawn | Event::Failed(_)) => {
                (State::KillingFailed { why }, Action::Kill)
            }
            (State::KillingFailed { why }, Event::Ended | Event::Failed(_)) => {
                answer(Verdict::Failure(why))
            }
            (State::Exporting | State::KillingAfterStopTimeout { .. }, Event::Ended) => release(),
            (State::Exporting, Event::Failed(why)) => {
                (State::KillingAfterStopTimeout { why }, Action::Kill)
            }
            (State::KillingAfterStopTimeout { why }, Event::Failed(also)) => answer(
                Verdict::Failure(format!("{why}; and it cannot be killed: {also}")),
            ),
            (State::Releasing, Event::Released) => match self.operation {
                Operation::Monitor => answer(Verdict::NotRunning),
                Operation::Start | Operation::Stop => answer(Verdict::Success),
            },
            // Two heads with one address: as harmful for clients as a pool that does not stop.
            (
                State::KillingUnresponsive
                | State::ReadingLabel
                | State::Spawning
                | State::Withdrawing { .. }
                | State::Releasing,
                Event::Failed(why),
            ) => answer(Verdict::Failure(why)),
            (state, event) => panic!("{event:?} does not belong to {state:?}"),
        };
        self.state = state;
        action
    }

    fn server_state_received(&self, server: Server) -> (State, Action) {
        match (self.operation, server) {
            (Operation::Monitor | Operation::Start, Server::Serving) => answer(Verdict::Success),
            (Operation::Monitor, Server::Absent) => release(),
            (Operation::Monitor, Server::Starting) => failure("the server is still starting"),
            (Operation::Monitor, Server::Stopping) => failure("the server is stopping"),
            (Operation::Monitor, Server::Silent) => {
                failure("the server is running and does not respond")
            }
            (Operation::Start, Server::Absent) => (State::ReadingLabel, Action::ReadLabel),
            (Operation::Start, Server::Starting) => await_serving(Addresses::NotYet),
            (Operation::Start, Server::Stopping | Server::Silent) => {
                (State::KillingUnresponsive, Action::Kill)
            }
            (Operation::Stop, Server::Serving) => (State::Settling, Action::Settle),
            // Clients of a server that crashed must not look for it here either.
            (Operation::Stop, server) => withdraw(server),
        }
    }

    fn label_received(&self, label: Label) -> (State, Action) {
        let owner = match &label {
            Label::InUse {
                by_this_host: false,
                host_name: Some(host_name),
                ..
            } => Some(host_name.clone()),
            Label::InUse { .. } | Label::Exported => None,
        };
        match owner {
            Some(host_name) => {
                let action = Action::QueryCluster { host_name };
                (State::QueryingCluster { label }, action)
            }
            None => self.judged(label, Peer::Unknown),
        }
    }

    fn judged(&self, label: Label, owner: Peer) -> (State, Action) {
        let evidence = Evidence {
            pool: self.pool.clone(),
            label,
            owner,
        };
        match judge(&evidence) {
            Ok(grant) => (State::Spawning, Action::Spawn(grant)),
            Err(refusal) => answer(Verdict::Failure(refusal.to_string())),
        }
    }
}

const fn bring(is_served: bool) -> (State, Action) {
    (State::SettingAddresses { is_served }, Action::SetAddresses)
}

const fn await_serving(addresses: Addresses) -> (State, Action) {
    (State::AwaitingServing { addresses }, Action::AwaitServing)
}

const fn withdraw(server: Server) -> (State, Action) {
    (State::Withdrawing { server }, Action::WithdrawAddresses)
}

/// No client can connect here any more; the server can exit.
fn addresses_withdrawn(server: Server) -> (State, Action) {
    match server {
        Server::Absent => release(),
        Server::Silent => {
            let why = "the server is running and does not respond".to_owned();
            (State::KillingAfterStopTimeout { why }, Action::Kill)
        }
        Server::Starting | Server::Serving | Server::Stopping => (State::Exporting, Action::Export),
    }
}

const fn release() -> (State, Action) {
    (State::Releasing, Action::AwaitRelease)
}

const fn answer(verdict: Verdict) -> (State, Action) {
    (State::Finished, Action::Finish(verdict))
}

fn failure(why: &str) -> (State, Action) {
    answer(Verdict::Failure(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::Basis;

    fn pool() -> PoolName {
        "tank".parse().expect("a good name")
    }

    /// Feeds events and returns all actions, including the first query.
    fn actions_of(operation: Operation, events: &[Event]) -> Vec<Action> {
        let (mut agent, first) = Agent::begin(pool(), operation);
        let rest = events.iter().map(|event| agent.next(event.clone()));
        std::iter::once(first).chain(rest).collect()
    }

    fn last(actions: &[Action]) -> Verdict {
        match actions.last() {
            Some(Action::Finish(verdict)) => verdict.clone(),
            other => panic!("no verdict but {other:?}"),
        }
    }

    fn of_left(is_watched: bool) -> Event {
        Event::Label(Label::InUse {
            by_this_host: false,
            host_name: Some("left".to_owned()),
            is_watched,
        })
    }

    fn failed() -> Event {
        Event::Failed("it failed".to_owned())
    }

    #[test]
    fn pool_of_a_fenced_head_starts_with_that_proof() {
        let actions = actions_of(
            Operation::Start,
            &[
                Event::Server(Server::Absent),
                of_left(false),
                Event::Peer(Peer::Fenced),
                Event::Started,
                Event::Claimed,
                Event::AddressesSet,
                Event::Serving,
            ],
        );
        let Action::Spawn(grant) = &actions[3] else {
            panic!("{actions:?}");
        };
        assert!(matches!(grant.basis(), Basis::Fenced { .. }));
        assert_eq!(last(&actions), Verdict::Success);
    }

    #[test]
    fn pool_with_a_possibly_live_owner_is_not_started() {
        for peer in [Event::Peer(Peer::Member), Event::Peer(Peer::Lost), failed()] {
            let actions = actions_of(
                Operation::Start,
                &[Event::Server(Server::Absent), of_left(false), peer],
            );
            assert!(matches!(last(&actions), Verdict::Failure(_)), "{actions:?}");
        }
    }

    #[test]
    fn repeated_start_is_idempotent() {
        let actions = actions_of(Operation::Start, &[Event::Server(Server::Serving)]);
        assert_eq!(actions.len(), 2);
        assert_eq!(last(&actions), Verdict::Success);
    }

    /// Plays the start of an exported pool, and returns the actions after its server is started.
    fn play_started(events: &[Event]) -> Vec<Action> {
        let before = [
            Event::Server(Server::Absent),
            Event::Label(Label::Exported),
            Event::Started,
        ];
        actions_of(Operation::Start, &[&before, events].concat()).split_off(3)
    }

    #[test]
    fn claim_timeout_kills_the_server_before_addresses() {
        let actions = play_started(&[failed(), Event::Ended]);
        assert_eq!(actions[..2], [Action::AwaitClaim, Action::Kill]);
        assert!(matches!(last(&actions), Verdict::Failure(_)));
    }

    #[test]
    fn serving_timeout_removes_addresses_and_kills() {
        for addresses_withdrawn in [Event::Withdrawn, failed()] {
            let events = [
                Event::Claimed,
                Event::AddressesSet,
                failed(),
                addresses_withdrawn,
                Event::Ended,
            ];
            let actions = play_started(&events);
            let expected = [
                Action::AwaitClaim,
                Action::SetAddresses,
                Action::AwaitServing,
                Action::WithdrawAddresses,
                Action::Kill,
            ];
            assert_eq!(actions[..5], expected);
            assert!(matches!(last(&actions), Verdict::Failure(_)));
        }
        // Found during an interrupted start, perhaps with addresses.
        let starting = Event::Server(Server::Starting);
        let actions = actions_of(
            Operation::Start,
            &[starting, failed(), Event::Withdrawn, Event::Ended],
        );
        let expected = [
            Action::AwaitServing,
            Action::WithdrawAddresses,
            Action::Kill,
        ];
        assert_eq!(actions[1..4], expected);
    }

    #[test]
    fn stop_timeout_kills_the_server_and_waits() {
        let actions = actions_of(
            Operation::Stop,
            &[
                Event::Server(Server::Serving),
                Event::Settled,
                Event::Withdrawn,
                failed(),
                Event::Ended,
                Event::Released,
            ],
        );
        let expected = [Action::Export, Action::Kill, Action::AwaitRelease];
        assert_eq!(actions[3..6], expected);
        assert_eq!(last(&actions), Verdict::Success);
    }

    /// A server that has exited, crashed or was killed may have left requests in the kernel.
    #[test]
    fn pool_with_writes_in_the_kernel_is_not_reported_stopped() {
        let gone = [Event::Server(Server::Absent), Event::Withdrawn];
        let killed = [
            Event::Server(Server::Silent),
            Event::Withdrawn,
            Event::Ended,
        ];
        let exported = [
            Event::Server(Server::Stopping),
            Event::Withdrawn,
            Event::Ended,
        ];
        let not_there = [Event::Server(Server::Absent)];
        for (operation, before, released) in [
            (Operation::Stop, gone.as_slice(), Verdict::Success),
            (Operation::Stop, &killed, Verdict::Success),
            (Operation::Stop, &exported, Verdict::Success),
            (Operation::Monitor, &not_there, Verdict::NotRunning),
        ] {
            let actions = actions_of(operation, before);
            assert_eq!(actions.last(), Some(&Action::AwaitRelease), "{before:?}");
            let actions = actions_of(operation, &[before, &[Event::Released]].concat());
            assert_eq!(last(&actions), released, "{before:?}");
            let actions = actions_of(operation, &[before, &[failed()]].concat());
            assert_eq!(last(&actions).code(), 1, "{before:?}");
        }
    }

    #[test]
    fn failed_kill_fails_the_stop_and_causes_fencing() {
        let actions = actions_of(
            Operation::Stop,
            &[Event::Server(Server::Silent), Event::Withdrawn, failed()],
        );
        assert_eq!(last(&actions).code(), 1);
    }

    #[test]
    fn stop_removes_addresses_first_also_after_a_crash() {
        for (server, next) in [
            (Server::Stopping, Action::Export),
            (Server::Silent, Action::Kill),
            (Server::Absent, Action::AwaitRelease),
        ] {
            let actions = actions_of(Operation::Stop, &[Event::Server(server), Event::Withdrawn]);
            assert_eq!(actions[1..], [Action::WithdrawAddresses, next]);
        }
        let serving = Event::Server(Server::Serving);
        let actions = actions_of(Operation::Stop, &[serving, Event::Settled, failed()]);
        assert_eq!(last(&actions).code(), 1, "an address that stays");
    }

    #[test]
    fn failed_settle_does_not_fail_the_stop() {
        for settled in [Event::Settled, failed()] {
            let serving = Event::Server(Server::Serving);
            let actions = actions_of(Operation::Stop, &[serving, settled, Event::Withdrawn]);
            let expected = [Action::Settle, Action::WithdrawAddresses, Action::Export];
            assert_eq!(actions[1..], expected);
        }
    }

    #[test]
    fn addresses_start_after_the_claim_and_may_fail() {
        for came in [Event::AddressesSet, failed()] {
            let actions = play_started(&[Event::Claimed, came.clone(), Event::Serving]);
            let expected = [
                Action::AwaitClaim,
                Action::SetAddresses,
                Action::AwaitServing,
            ];
            assert_eq!(actions[..3], expected);
            assert_eq!(last(&actions), Verdict::Success);
            // With a check of the owner's MMP blocks, a server reports nothing before it serves.
            let actions = play_started(&[Event::Serving, came.clone()]);
            assert_eq!(actions[..2], [Action::AwaitClaim, Action::SetAddresses]);
            assert_eq!(last(&actions), Verdict::Success);
            let starting = Event::Server(Server::Starting);
            let actions = actions_of(Operation::Start, &[starting, Event::Serving, came]);
            let expected = [Action::AwaitServing, Action::SetAddresses];
            assert_eq!(actions[1..3], expected);
            assert_eq!(last(&actions), Verdict::Success);
        }
    }

    #[test]
    fn monitor_of_a_running_server_only_queries_it() {
        for (server, code) in [
            (Server::Serving, 0),
            (Server::Silent, 1),
            (Server::Starting, 1),
            (Server::Stopping, 1),
        ] {
            let actions = actions_of(Operation::Monitor, &[Event::Server(server)]);
            assert_eq!(actions.len(), 2);
            assert_eq!(last(&actions).code(), code, "{server:?}");
        }
    }

    /// Returns any event that can result from an action.
    fn random_event(random: &mut fastrand::Rng, action: &Action) -> Event {
        let servers = [
            Server::Absent,
            Server::Starting,
            Server::Serving,
            Server::Stopping,
            Server::Silent,
        ];
        let peers = [
            Peer::Member,
            Peer::Stopped,
            Peer::Fenced,
            Peer::Lost,
            Peer::Unknown,
        ];
        if random.u8(..) < 60 {
            return failed();
        }
        match action {
            Action::QueryServer => Event::Server(servers[random.usize(..servers.len())]),
            Action::ReadLabel if random.bool() => Event::Label(Label::Exported),
            Action::ReadLabel => Event::Label(Label::InUse {
                by_this_host: random.bool(),
                host_name: random.bool().then(|| "left".to_owned()),
                is_watched: random.bool(),
            }),
            Action::QueryCluster { .. } => Event::Peer(peers[random.usize(..peers.len())]),
            Action::Spawn(_) => Event::Started,
            Action::AwaitClaim if random.bool() => Event::Claimed,
            Action::AwaitClaim | Action::AwaitServing => Event::Serving,
            Action::SetAddresses => Event::AddressesSet,
            Action::Settle => Event::Settled,
            Action::WithdrawAddresses => Event::Withdrawn,
            Action::Export | Action::Kill => Event::Ended,
            Action::AwaitRelease => Event::Released,
            Action::Finish(_) => unreachable!("a verdict has no event"),
        }
    }

    /// Every operation terminates, whatever fails. A server is started with a grant for this pool only. Addresses are
    /// set only for a server that has the pool, and removed at least once if it fails to serve. A stop succeeds only
    /// when no process here has the pool and no request to it is active.
    #[test]
    fn invariants_hold_for_random_events() {
        const STEPS_MAX: usize = 12;
        for seed in 0..20_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let operations = [Operation::Start, Operation::Stop, Operation::Monitor];
            let operation = operations[random.usize(..operations.len())];
            let (mut agent, mut action) = Agent::begin(pool(), operation);
            let mut may_have_pool = true;
            let mut may_have_requests = true;
            let mut may_have_addresses = true;
            let mut has_brought = false;
            let mut has_claimed = false;
            let mut steps = 0;
            let verdict = loop {
                if let Action::Finish(verdict) = action {
                    break verdict;
                }
                let event = random_event(&mut random, &action);
                match (&action, &event) {
                    (Action::Spawn(grant), _) => {
                        assert_eq!(grant.pool(), &pool(), "seed {seed}");
                        assert_eq!(operation, Operation::Start, "seed {seed}");
                        may_have_pool = true;
                        may_have_requests = true;
                    }
                    (Action::AwaitRelease, came) => {
                        assert!(!may_have_pool, "seed {seed}");
                        may_have_requests &= *came != Event::Released;
                    }
                    (_, Event::Claimed | Event::Serving) => has_claimed = true,
                    (Action::SetAddresses, _) => {
                        assert!(has_claimed, "seed {seed}");
                        has_brought = true;
                    }
                    (Action::WithdrawAddresses, came) => {
                        has_brought = false;
                        may_have_addresses &= *came != Event::Withdrawn;
                    }
                    (_, Event::Server(Server::Absent) | Event::Ended) => may_have_pool = false,
                    (Action::Kill | Action::Export, _) => {
                        assert_ne!(operation, Operation::Monitor, "seed {seed}");
                    }
                    _ => {}
                }
                action = agent.next(event);
                steps += 1;
                assert!(steps < STEPS_MAX, "seed {seed} does not end");
            };
            if operation == Operation::Start && verdict != Verdict::Success {
                assert!(!has_brought, "seed {seed}");
            }
            if operation == Operation::Stop && verdict == Verdict::Success {
                assert!(!may_have_pool && !may_have_addresses, "seed {seed}");
            }
            if matches!(verdict, Verdict::NotRunning)
                || operation == Operation::Stop && verdict == Verdict::Success
            {
                assert!(!may_have_requests, "seed {seed}");
            }
        }
    }
}
