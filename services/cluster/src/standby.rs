//! Planned absences: a head in maintenance serves no pool until that is reverted; an appliance that is shut down stops its
//! pools in order, and no head fences another one.
//!
//! Both are standby of Pacemaker's nodes. Maintenance is stored in the configuration. A shutdown uses an attribute that
//! each Pacemaker forgets when it stops, so that the pools are served again after the next boot, without a command.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use appliance::Appliance;
use appliance::render::{pool_id, resource_ids};
use units::{HeadName, PoolName};

use crate::host::{Host, HostError, Hosts, must};
use crate::observe::pacemaker_runs;
use crate::process::Invocation;
use crate::situation::{PendingPowerOff, Situation, SituationError};

/// Polling interval of the cluster.
const POLL: Duration = Duration::from_millis(500);
/// Time allowed for a move of a pool, in addition to its own limits.
pub(crate) const MOVE_RESERVE: Duration = Duration::from_secs(90);
/// Time limit for the start or stop of a unit.
pub(crate) const UNIT_TIME_LIMIT: Duration = Duration::from_secs(180);
/// Time allowed for the agents of addresses and for Pacemaker itself, in addition to the limits of the pools.
const CLUSTER_RESERVE: Duration = Duration::from_secs(60);
/// Time limit for Pacemaker to respond after its start: a head that boots alone delays its start for the other heads.
pub(crate) const START_TIME_LIMIT: Duration = Duration::from_secs(180);
/// The units of the cluster, in the order of their start.
pub(crate) const UNITS: [&str; 3] = [
    "corosync.service",
    "corosync-qdevice.service",
    "pacemaker.service",
];

/// A completed or begun step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A pool is moved away.
    Move(PoolName, HeadName),
    /// A head serves no pool from now on.
    Standby(HeadName),
    /// A head serves pools again.
    Return(HeadName),
    /// The pools are stopped on all heads.
    Stop(Vec<PoolName>),
    /// Pacemaker and Corosync are stopped on a head.
    StopCluster(HeadName),
    /// Pacemaker and Corosync are started on a head.
    StartCluster(HeadName),
    /// A head is not started, with the reason: the pools may not be served without it.
    NotStarted(HeadName, String),
    /// A head is switched off.
    PowerOff(HeadName),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Move(pool, to) => write!(f, "{pool}: move to {to}"),
            Self::Standby(head) => write!(f, "{head}: standby"),
            Self::Return(head) => write!(f, "{head}: end of standby"),
            Self::Stop(pools) => write!(f, "stop {}", names(pools)),
            Self::StopCluster(head) => write!(f, "{head}: stop Pacemaker and Corosync"),
            Self::StartCluster(head) => write!(f, "{head}: start Corosync and Pacemaker"),
            Self::NotStarted(head, why) => write!(f, "{head}: not started: {why}"),
            Self::PowerOff(head) => write!(f, "{head}: power off"),
        }
    }
}

fn names<T: fmt::Display>(all: &[T]) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    all.join(", ")
}

/// Why an absence did not begin or end.
#[derive(Debug, thiserror::Error)]
pub enum StandbyError {
    /// The file has no such head.
    #[error("{head} is no head of this appliance; its heads are {heads}")]
    UnknownHead {
        /// The requested head.
        head: HeadName,
        /// The heads of the appliance.
        heads: String,
    },
    /// No Pacemaker responds.
    #[error("Pacemaker responds on no reachable head")]
    NoCluster,
    /// Pools would stop.
    #[error("no other head can serve {}", .0.join("; "))]
    NoOtherHead(Vec<String>),
    /// Pacemaker moves and stops no pool before.
    #[error("{0}")]
    PowerOff(PendingPowerOff),
    /// A member cannot be reached.
    #[error("{0} is a member of the cluster and cannot be reached: {1}")]
    Unreachable(HeadName, String),
    /// The reachable part of the cluster cannot know what the rest serves.
    #[error("{by} has no quorum, so it cannot stop what {others} may serve")]
    NoQuorum {
        /// The head that was queried.
        by: HeadName,
        /// The heads that it does not see.
        others: String,
    },
    /// Resources did not stop.
    #[error("not stopped within {limit_s} s: {active}; the pools are allowed to run again")]
    StillActive {
        /// The resources.
        active: String,
        /// The limit, in seconds.
        limit_s: u64,
    },
    /// Resources of a head in maintenance did not stop.
    #[error("{head} is in maintenance, and not stopped there within {limit_s} s: {active}")]
    NotAway {
        /// The head.
        head: HeadName,
        /// The resources.
        active: String,
        /// The limit, in seconds.
        limit_s: u64,
    },
    /// Resources did not stop, and the heads are still in standby.
    #[error("not stopped within {limit_s} s: {active}; all heads are still in standby")]
    StillStandby {
        /// The resources.
        active: String,
        /// The limit, in seconds.
        limit_s: u64,
    },
    /// Pools are not served after the start.
    #[error("not served within {limit_s} s: {}", names(.pools))]
    NotServed {
        /// The pools.
        pools: Vec<PoolName>,
        /// The limit, in seconds.
        limit_s: u64,
    },
    /// The cluster would start these pools on no head, however long the command waits.
    #[error("not served: {}", names(.0))]
    Held(Vec<HeldPool>),
    /// A command failed on a head.
    #[error("{head}: {step}")]
    Failed {
        /// The head.
        head: HeadName,
        /// The step, in words.
        step: String,
        /// The cause.
        #[source]
        source: HostError,
    },
    /// The state of the cluster is not known.
    #[error("read the state of the cluster")]
    Situation(#[from] SituationError),
}

/// A pool that an administrator has excluded from all heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldPool {
    /// The pool.
    pub pool: PoolName,
    /// The heads in maintenance, if that is the reason. Else the pool itself is stopped.
    pub in_maintenance: Vec<HeadName>,
}

impl HeldPool {
    /// The command that lets the cluster start it.
    pub fn command(&self) -> String {
        match self.in_maintenance.first() {
            Some(head) => format!("bulkhead appliance maintenance {head} off"),
            None => format!(
                "crm_resource --resource {} --meta --delete-parameter target-role",
                pool_id(&self.pool)
            ),
        }
    }
}

impl fmt::Display for HeldPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.in_maintenance.as_slice() {
            [] => write!(
                f,
                "{} (its resource is stopped by its target-role)",
                self.pool
            ),
            heads => write!(f, "{} ({} in maintenance)", self.pool, names(heads)),
        }
    }
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The requested state exists already.
    Already,
    /// It was changed.
    Changed,
}

/// An appliance and its reachable heads.
pub struct Planned<'a> {
    /// The reachable heads.
    pub machines: &'a Hosts,
    /// The description of the appliance.
    pub appliance: &'a Appliance,
    /// The binary on every head.
    pub program: &'a Path,
    /// Reports each step before it begins.
    pub progress: &'a mut dyn FnMut(&Step),
}

/// How long Pacemaker retains an attribute of a node.
#[derive(Clone, Copy)]
enum Lifetime {
    Forever,
    Reboot,
}

impl Lifetime {
    const fn name(self) -> &'static str {
        match self {
            Self::Forever => "forever",
            Self::Reboot => "reboot",
        }
    }
}

impl<'a> Planned<'a> {
    /// Moves all pools away from `head` and excludes it until [`Planned::end_maintenance`]. With `stop_pools` a pool
    /// that no other head can serve is stopped.
    ///
    /// # Errors
    ///
    /// A pool cannot be moved, or the cluster does not respond. The pools that were moved before stay where they are.
    pub fn begin_maintenance(
        &mut self,
        head: &HeadName,
        stop_pools: bool,
    ) -> Result<Outcome, StandbyError> {
        let (by, machine) = self.responding(head)?;
        let now = Situation::look(machine)?;
        let was_standby =
            is_excluded(machine, head).map_err(failed(&by, &Step::Standby(head.clone())))?;
        if was_standby && self.active(&now, head).is_empty() {
            return Ok(Outcome::Already);
        }
        refuse_power_off(&now)?;
        let stuck = self.stuck(&now, head);
        if !stuck.is_empty() && !stop_pools {
            return Err(StandbyError::NoOtherHead(stuck));
        }
        for pool in self.served(&now, head) {
            let Ok(to) = self.other_head(&now, &pool, head) else {
                continue;
            };
            let step = Step::Move(pool.clone(), to.clone());
            (self.progress)(&step);
            let program = self.program.to_string_lossy();
            let arguments = ["pool", "move", pool.as_str(), to.as_str()];
            let limit = self.appliance.timeouts().pool_move() + MOVE_RESERVE;
            let invocation = Invocation::new(&program, &arguments).within(limit);
            must(machine, &invocation).map_err(failed(&by, &step))?;
        }
        self.standby((&by, machine), head, Lifetime::Forever)?;
        // A command on the other head may have excluded that one at the same time.
        let stuck = self.stuck(&Situation::look(machine)?, head);
        if !stuck.is_empty() && !stop_pools && !was_standby {
            let step = Step::Return(head.clone());
            forget(machine, head, Lifetime::Forever).map_err(failed(&by, &step))?;
            return Err(StandbyError::NoOtherHead(stuck));
        }
        let limit = self.appliance.timeouts().pool_move() + CLUSTER_RESERVE;
        let left = await_none(limit, || Ok(self.active(&look_again(machine, &now)?, head)))?;
        match left.is_empty() {
            true => Ok(Outcome::Changed),
            false => Err(StandbyError::NotAway {
                head: head.clone(),
                active: names(&left),
                limit_s: limit.as_secs(),
            }),
        }
    }

    /// Lets `head` serve pools again.
    ///
    /// # Errors
    ///
    /// The cluster does not respond.
    pub fn end_maintenance(&mut self, head: &HeadName) -> Result<Outcome, StandbyError> {
        let (by, machine) = self.responding(head)?;
        let now = Situation::look(machine)?;
        let is_there = now.node(head).is_some_and(|node| node.is("standby"));
        let step = Step::Return(head.clone());
        // crm_mon does not show the standby of a head that was never online.
        let was_excluded = is_excluded(machine, head).map_err(failed(&by, &step))?;
        if !is_there && !was_excluded {
            return Ok(Outcome::Already);
        }
        (self.progress)(&step);
        for lifetime in [Lifetime::Reboot, Lifetime::Forever] {
            forget(machine, head, lifetime).map_err(failed(&by, &step))?;
        }
        Ok(Outcome::Changed)
    }

    /// Stops all pools, then the cluster on all heads, and switches the heads off with `power_off`. `is_here` tells
    /// which head this process runs on: it is the last one.
    ///
    /// # Errors
    ///
    /// A member cannot be reached, or a pool does not stop: the pools are then allowed to run again.
    pub fn shut_down(
        &mut self,
        power_off: bool,
        is_here: &dyn Fn(&HeadName) -> bool,
    ) -> Result<Outcome, StandbyError> {
        let running: Vec<HeadName> = self.running();
        if let Some(first) = running.first() {
            let machine = self.machines[first].as_ref();
            let now = Situation::look(machine)?;
            let heads = self.appliance.heads.keys();
            let mut members = heads.filter(|head| now.is_member(head));
            if let Some(head) = members.find(|head| !running.contains(head)) {
                let why = match self.machines.contains_key(head) {
                    true => "its Pacemaker does not respond",
                    false => "there is no connection",
                };
                return Err(StandbyError::Unreachable(head.clone(), why.to_owned()));
            }
            if !now.has_quorum() {
                let heads = self.appliance.heads.keys();
                let others: Vec<&HeadName> = heads.filter(|head| !now.is_member(head)).collect();
                return Err(StandbyError::NoQuorum {
                    by: first.clone(),
                    others: names(&others),
                });
            }
            refuse_power_off(&now)?;
            self.stop_pools(first, machine, &running, &now)?;
            for head in &running {
                self.stop_cluster(head)?;
            }
        }
        if power_off {
            let mut heads: Vec<&HeadName> = self.machines.keys().collect();
            heads.sort_by_key(|head| is_here(head));
            let mut first = Ok(());
            for head in heads {
                let step = Step::PowerOff(head.clone());
                (self.progress)(&step);
                let invocation = Invocation::new("systemctl", &["poweroff"]);
                let done = must(self.machines[head].as_ref(), &invocation);
                // A head that was off already, or goes off during the call, must not leave this head on.
                if let (Err(source), true) = (done, running.contains(head) || is_here(head)) {
                    first = first.and(Err(failed(head, &step)(source)));
                }
            }
            first?;
        }
        Ok(match running.is_empty() && !power_off {
            true => Outcome::Already,
            false => Outcome::Changed,
        })
    }

    /// Starts the cluster on all heads, and returns when every pool is served.
    ///
    /// # Errors
    ///
    /// A unit does not start, or a pool is not served in time.
    pub fn start(&mut self) -> Result<Outcome, StandbyError> {
        let running = self.running();
        let mut outcome = Outcome::Already;
        let mut first_error = None;
        for (head, machine) in self.machines {
            if running.contains(head) {
                continue;
            }
            outcome = Outcome::Changed;
            let step = Step::StartCluster(head.clone());
            (self.progress)(&step);
            // One head is enough to serve.
            if let Err(source) = start_units(machine.as_ref()) {
                let why = format!(
                    "{}. If it is off, power it on",
                    control::failure::chain(&source)
                );
                (self.progress)(&Step::NotStarted(head.clone(), why));
                first_error.get_or_insert_with(|| failed(head, &step)(source));
            }
        }
        for head in self.unreached() {
            let why = "this command does not reach it: with --ssh it starts all heads. If it is off, power it on: a head without quorum serves \
                       no pool"
                .to_owned();
            (self.progress)(&Step::NotStarted(head, why));
        }
        if let (true, Some(error)) = (self.running().is_empty(), first_error) {
            return Err(error);
        }
        let limit = START_TIME_LIMIT + self.appliance.timeouts().pool_move();
        let (mut before, has_started_none) = (None, outcome == Outcome::Already);
        let left = await_none(limit, || {
            let left = self.unserved(&mut before, has_started_none)?;
            if !left.is_empty() {
                outcome = Outcome::Changed;
            }
            Ok(left)
        })?;
        match left.is_empty() {
            true => Ok(outcome),
            false => Err(StandbyError::NotServed {
                pools: left,
                limit_s: limit.as_secs(),
            }),
        }
    }

    /// The heads that this command has no connection to, and that are no members of the cluster.
    fn unreached(&self) -> Vec<HeadName> {
        let running = self.running();
        let by = running.first().and_then(|by| self.machines.get(by));
        let now = by.and_then(|machine| Situation::look(machine.as_ref()).ok());
        let heads = self.appliance.heads.keys();
        let unreached = heads.filter(|head| {
            let is_member = now.as_ref().is_some_and(|now| now.is_member(head));
            !self.machines.contains_key(*head) && !is_member
        });
        unreached.cloned().collect()
    }

    /// The pools of the file that no head serves. Heads in the standby of a shutdown that was cut off may serve again.
    /// `before` is the first situation.
    fn unserved(
        &self,
        before: &mut Option<Situation>,
        has_started_none: bool,
    ) -> Result<Vec<PoolName>, StandbyError> {
        let running = self.running();
        let Some(by) = running.first() else {
            return Ok(self.appliance.pools.keys().cloned().collect());
        };
        let machine = self.machines[by].as_ref();
        let now = Situation::look(machine)?;
        let is_standby = |head: &&HeadName| now.node(head).is_some_and(|node| node.is("standby"));
        for head in self.appliance.heads.keys().filter(is_standby) {
            let step = Step::Return(head.clone());
            forget(machine, head, Lifetime::Reboot).map_err(failed(head, &step))?;
        }
        let pools = self.appliance.pools.keys();
        let left = pools.filter(|pool| now.server(&pool_id(pool)).is_none());
        let left: Vec<PoolName> = left.cloned().collect();
        let held = left.iter().map(|pool| self.held(&now, (by, machine), pool));
        let held: Vec<HeldPool> = held
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .collect();
        if !held.is_empty() && held.len() == left.len() {
            return Err(StandbyError::Held(held));
        }
        // An attempt before the first look ends the wait, too, if this command has started no head.
        let failed = match before {
            Some(before) => now.new_failed_power_off(before),
            None => now
                .pending_power_off()
                .filter(|pending| has_started_none && pending.failed_at.is_some()),
        };
        before.get_or_insert(now);
        match failed {
            Some(pending) if !left.is_empty() => Err(StandbyError::PowerOff(pending)),
            _ => Ok(left),
        }
    }

    /// Why the cluster would start the pool on no head, if an administrator has excluded it.
    fn held(
        &self,
        now: &Situation,
        (by, machine): (&HeadName, &dyn Host),
        pool: &PoolName,
    ) -> Result<Option<HeldPool>, StandbyError> {
        let held = |in_maintenance| {
            Some(HeldPool {
                pool: pool.clone(),
                in_maintenance,
            })
        };
        if now.is_stopped_by_administrator(&pool_id(pool)) {
            return Ok(held(Vec::new()));
        }
        let heads = self.appliance.heads_of(&self.appliance.pools[pool]);
        for head in &heads {
            let step = Step::Return(head.clone());
            if !is_excluded(machine, head).map_err(failed(by, &step))? {
                return Ok(None);
            }
        }
        Ok(held(heads))
    }

    /// Puts all heads in standby until their Pacemaker stops, and returns when no resource is active.
    fn stop_pools(
        &mut self,
        by: &HeadName,
        machine: &dyn Host,
        heads: &[HeadName],
        before: &Situation,
    ) -> Result<(), StandbyError> {
        (self.progress)(&Step::Stop(self.appliance.pools.keys().cloned().collect()));
        let mut stopped = Ok(());
        for head in heads {
            stopped = stopped.and_then(|()| self.standby((by, machine), head, Lifetime::Reboot));
        }
        let limit = self.appliance.timeouts().pool_move() + CLUSTER_RESERVE;
        let stopped = stopped.and_then(|()| {
            let active = await_none(limit, || Ok(look_again(machine, before)?.active()))?;
            match active.is_empty() {
                true => Ok(()),
                false => Err(StandbyError::StillActive {
                    active: names(&active),
                    limit_s: limit.as_secs(),
                }),
            }
        });
        let Err(error) = stopped else {
            return Ok(());
        };
        let mut is_reverted = true;
        for head in heads {
            if let Err(error) = forget(machine, head, Lifetime::Reboot) {
                tracing::warn!(%head, %error, "is still in standby");
                is_reverted = false;
            }
        }
        Err(match error {
            StandbyError::StillActive { active, limit_s } if !is_reverted => {
                StandbyError::StillStandby { active, limit_s }
            }
            error => error,
        })
    }

    fn stop_cluster(&mut self, head: &HeadName) -> Result<(), StandbyError> {
        let step = Step::StopCluster(head.clone());
        (self.progress)(&step);
        stop_units(self.machines[head].as_ref()).map_err(failed(head, &step))
    }

    fn standby(
        &mut self,
        (by, machine): (&HeadName, &dyn Host),
        head: &HeadName,
        lifetime: Lifetime,
    ) -> Result<(), StandbyError> {
        let step = Step::Standby(head.clone());
        (self.progress)(&step);
        let set = attribute(head, lifetime, &["--update", "on"]);
        must(machine, &set).map_err(failed(by, &step))?;
        Ok(())
    }

    /// The pools of the file that `head` serves.
    fn served(&self, now: &Situation, head: &HeadName) -> Vec<PoolName> {
        let pools = self.appliance.pools.keys();
        let served = pools.filter(|pool| now.is_served(&pool_id(pool), head));
        served.cloned().collect()
    }

    fn active(&self, now: &Situation, head: &HeadName) -> Vec<String> {
        active_on(self.appliance, now, head)
    }

    /// The pools that only `head` serves or may begin to serve, and why no other head can.
    fn stuck(&self, now: &Situation, head: &HeadName) -> Vec<String> {
        let mut stuck = Vec::new();
        for (name, pool) in &self.appliance.pools {
            let id = pool_id(name);
            // A pool that is not created yet, or that an administrator has stopped, is not served by any head.
            let is_wanted = now.resource(&id).is_some() && !now.is_stopped_by_administrator(&id);
            let is_elsewhere = now.server(&id).is_some_and(|by| by != head.as_str());
            if !is_wanted || is_elsewhere || !self.appliance.heads_of(pool).contains(head) {
                continue;
            }
            if let Err(why) = self.other_head(now, name, head) {
                stuck.push(format!("{name} ({why})"));
            }
        }
        stuck
    }

    /// Another head that can serve the pool, or the reasons why there is none.
    fn other_head(
        &self,
        now: &Situation,
        pool: &PoolName,
        head: &HeadName,
    ) -> Result<HeadName, String> {
        let heads = self.appliance.heads_of(&self.appliance.pools[pool]);
        let mut reasons = Vec::new();
        for other in heads.into_iter().filter(|other| other != head) {
            match now.hindrance(&pool_id(pool), &other) {
                None => return Ok(other),
                Some(why) => reasons.push(format!("{other}: {why}")),
            }
        }
        Err(match reasons.is_empty() {
            true => "the file allows no other head".to_owned(),
            false => reasons.join(", "),
        })
    }

    /// The reachable heads with a Pacemaker that responds.
    fn running(&self) -> Vec<HeadName> {
        let machines = self.machines.iter();
        let running = machines.filter(|(_, machine)| pacemaker_runs(machine.as_ref()));
        running.map(|(head, _)| head.clone()).collect()
    }

    /// A head with a Pacemaker that responds, if possible not `head`, which must be a head of the appliance.
    fn responding(&self, head: &HeadName) -> Result<(HeadName, &'a dyn Host), StandbyError> {
        if !self.appliance.heads.contains_key(head) {
            let heads: Vec<&HeadName> = self.appliance.heads.keys().collect();
            return Err(StandbyError::UnknownHead {
                head: head.clone(),
                heads: names(&heads),
            });
        }
        let mut running = self.running();
        running.sort_by_key(|one| one == head);
        let by = running.into_iter().next().ok_or(StandbyError::NoCluster)?;
        let machines = self.machines;
        let machine = machines[&by].as_ref();
        Ok((by, machine))
    }
}

/// The resources of the file's pools that run, or may still run, on `head`.
pub(crate) fn active_on(appliance: &Appliance, now: &Situation, head: &HeadName) -> Vec<String> {
    let pools = appliance.pools.iter();
    let ours: BTreeSet<String> = pools
        .flat_map(|(name, pool)| resource_ids(name, pool))
        .collect();
    let active = now.active_on(head).into_iter();
    active.filter(|one| ours.contains(one)).collect()
}

fn refuse_power_off(now: &Situation) -> Result<(), StandbyError> {
    now.pending_power_off()
        .map_or(Ok(()), |pending| Err(StandbyError::PowerOff(pending)))
}

/// The situation during a wait, which a failed power-off ends.
fn look_again(machine: &dyn Host, before: &Situation) -> Result<Situation, StandbyError> {
    let now = Situation::look(machine)?;
    match now.new_failed_power_off(before) {
        Some(pending) => Err(StandbyError::PowerOff(pending)),
        None => Ok(now),
    }
}

/// Polls until nothing is left, or until the limit; returns what is left then.
fn await_none<T>(
    limit: Duration,
    mut left: impl FnMut() -> Result<Vec<T>, StandbyError>,
) -> Result<Vec<T>, StandbyError> {
    let deadline = Instant::now() + limit;
    loop {
        let left = left()?;
        if left.is_empty() || Instant::now() >= deadline {
            return Ok(left);
        }
        thread::sleep(POLL);
    }
}

/// The command that sets, removes or reads the standby of a node.
fn attribute(head: &HeadName, lifetime: Lifetime, action: &[&str]) -> Invocation {
    let mut arguments = vec!["--node", head.as_str(), "--name", "standby"];
    arguments.extend(action);
    arguments.extend(["--lifetime", lifetime.name()]);
    Invocation::new("crm_attribute", &arguments)
}

/// Removes the attribute of a node. It is no failure if there is none.
fn forget(machine: &dyn Host, head: &HeadName, lifetime: Lifetime) -> Result<(), HostError> {
    must(machine, &attribute(head, lifetime, &["--delete"])).map(drop)
}

/// Whether the configuration excludes a head, beyond the next boot.
pub(crate) fn is_excluded(machine: &dyn Host, head: &HeadName) -> Result<bool, HostError> {
    let output = machine.run(&attribute(head, Lifetime::Forever, &["--query", "--quiet"]))?;
    // There is no such attribute by default.
    Ok(output.code == 0 && matches!(output.text().trim(), "on" | "true" | "yes" | "1"))
}

/// Stops Pacemaker and Corosync of a head.
pub(crate) fn stop_units(machine: &dyn Host) -> Result<(), HostError> {
    let mut units = UNITS.iter().rev();
    units.try_for_each(|unit| stop_active_unit(machine, unit))
}

/// Starts Corosync and Pacemaker of a head.
pub(crate) fn start_units(machine: &dyn Host) -> Result<(), HostError> {
    let mut units = UNITS.iter();
    units.try_for_each(|unit| start_enabled_unit(machine, unit))
}

/// Stops a unit that is active.
pub(crate) fn stop_active_unit(machine: &dyn Host, unit: &str) -> Result<(), HostError> {
    change_unit(machine, unit, "is-active", "stop")
}

/// Starts a unit that is enabled.
pub(crate) fn start_enabled_unit(machine: &dyn Host, unit: &str) -> Result<(), HostError> {
    change_unit(machine, unit, "is-enabled", "start")
}

fn change_unit(
    machine: &dyn Host,
    unit: &str,
    condition: &str,
    verb: &str,
) -> Result<(), HostError> {
    let asked = Invocation::new("systemctl", &[condition, "--quiet", unit]);
    if machine.run(&asked)?.code == 0 {
        let change = Invocation::new("systemctl", &[verb, unit]).within(UNIT_TIME_LIMIT);
        must(machine, &change)?;
    }
    Ok(())
}

fn failed(head: &HeadName, step: &Step) -> impl FnOnce(HostError) -> StandbyError {
    let (head, step) = (head.clone(), step.to_string());
    move |source| StandbyError::Failed { head, step, source }
}

#[cfg(test)]
mod tests;
