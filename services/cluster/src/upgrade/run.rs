//! Performs an upgrade: observes, decides, performs one step, and begins again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use appliance::Appliance;
use appliance::plan::{HEAD_UNIT, LEG_UNIT};
use appliance::render::LEGS_PATH;
use control::failure::chain;
use units::HeadName;

use super::decide::{Action, Awaited, Next, Observed, Surprise, Wanted, next};
use super::observe::{StateError, best_view, observe, set_mark};
use crate::host::{Host, HostError, Hosts, must, read_file};
use crate::leg_wait::{LegWait, Wanted as WantedLegs};
use crate::process::Invocation;
use crate::standby::{
    MOVE_RESERVE, Planned, START_TIME_LIMIT, StandbyError, start_enabled_unit, start_units,
    stop_active_unit, stop_units,
};

/// Bounds of the states that follow by themselves.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Until a started head is a member.
    pub member: Duration,
    /// Until a pool is served again.
    pub served: Duration,
    /// Until a pool is complete again.
    pub complete: Duration,
    /// The interval of observations.
    pub poll: Duration,
}

impl Limits {
    /// Those of an appliance; `complete` depends on the amount of data.
    pub fn of(appliance: &Appliance, complete: Duration) -> Self {
        Self {
            member: START_TIME_LIMIT,
            served: appliance.timeouts().pool_move() + MOVE_RESERVE,
            complete,
            poll: Duration::from_secs(1),
        }
    }

    fn of_state(&self, awaited: &Awaited) -> Duration {
        match awaited {
            Awaited::Member(_) => self.member,
            Awaited::Served(_) => self.served,
            Awaited::Complete(_) => self.complete,
        }
    }
}

/// Installs the version on a head.
pub type Install<'a> = dyn Fn(&HeadName, &dyn Host) -> Result<(), String> + 'a;
/// Returns the errors that a check of a head finds.
pub type Verify<'a> = dyn Fn(&HeadName) -> Result<Vec<String>, String> + 'a;

/// An upgrade of an appliance.
pub struct Upgrade<'a> {
    /// The connections to all heads.
    pub machines: &'a Hosts,
    /// The appliance.
    pub appliance: &'a Appliance,
    /// The binary on every head.
    pub program: &'a Path,
    /// The version.
    pub wanted: &'a Wanted,
    /// Installs it.
    pub install: &'a Install<'a>,
    /// Checks a head.
    pub verify: &'a Verify<'a>,
    /// The bounds.
    pub limits: Limits,
    /// Reports each step before it begins, and each awaited state once.
    pub progress: &'a mut dyn FnMut(&str),
}

/// Why the upgrade did not complete, and the state of the heads then.
#[derive(Debug)]
pub struct Stopped {
    /// The reason.
    pub surprise: Surprise,
    /// A line for each head.
    pub heads: Vec<String>,
}

/// Why the upgrade did not complete.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// The state was not as expected.
    #[error("{}", .0.surprise)]
    Stopped(Box<Stopped>),
    /// The state is not known.
    #[error("the state of the appliance is not known")]
    State(#[from] StateError),
}

/// The knowledge of one run that no head has stored.
#[derive(Default)]
struct Run {
    performed: BTreeSet<Action>,
    findings: BTreeMap<HeadName, Vec<String>>,
    fences_before: Option<BTreeSet<(String, String)>>,
    awaited: BTreeMap<Awaited, Instant>,
}

impl Upgrade<'_> {
    /// Upgrades the heads that do not have the version, and returns the number of steps.
    ///
    /// # Errors
    ///
    /// The first state that is not the expected one. No step is reverted: the next run continues.
    pub fn run(&mut self) -> Result<usize, UpgradeError> {
        let mut run = Run::default();
        loop {
            let observed = self.observe(&mut run)?;
            let stopped = |surprise| {
                let heads = observed.summary();
                UpgradeError::Stopped(Box::new(Stopped { surprise, heads }))
            };
            match next(self.wanted, &observed) {
                Next::Done => return Ok(run.performed.len()),
                Next::Stop(surprise) => return Err(stopped(surprise)),
                Next::Await(awaited, why) => {
                    self.awaited(&mut run, awaited, why).map_err(stopped)?;
                    std::thread::sleep(self.limits.poll);
                }
                Next::Do(action) => {
                    // No step is necessary twice, so that the number of steps is bounded.
                    if !run.performed.insert(action.clone()) {
                        let state = observed.summary().join("; ");
                        return Err(stopped(Surprise::NoEffect(action, state)));
                    }
                    run.awaited.clear();
                    (self.progress)(&action.to_string());
                    if let Err(why) = self.perform(&mut run, &action) {
                        // The state may have changed with the failure, such as by a fence.
                        let surprise = Surprise::Failed(action, why);
                        return Err(self.after_failure(&mut run, surprise, &observed));
                    }
                }
            }
        }
    }

    fn observe(&self, run: &mut Run) -> Result<Observed, StateError> {
        let (mut observed, fences) = observe(self.machines, self.appliance, self.program)?;
        let before = run.fences_before.get_or_insert_with(|| fences.clone());
        let new = fences.difference(before).map(|(head, _)| head.clone());
        observed.fenced = new.collect();
        for (head, findings) in &run.findings {
            if let Some(Ok(state)) = observed.heads.get_mut(head) {
                state.findings = Some(findings.clone());
            }
        }
        Ok(observed)
    }

    fn after_failure(&self, run: &mut Run, surprise: Surprise, before: &Observed) -> UpgradeError {
        let heads = match self.observe(run) {
            Ok(now) => now.summary(),
            Err(error) => {
                let note = format!("(before the failure; now: {})", chain(&error));
                before.summary().into_iter().chain([note]).collect()
            }
        };
        UpgradeError::Stopped(Box::new(Stopped { surprise, heads }))
    }

    fn awaited(&mut self, run: &mut Run, awaited: Awaited, why: String) -> Result<(), Surprise> {
        let limit = self.limits.of_state(&awaited);
        let since = *run.awaited.entry(awaited.clone()).or_insert_with(|| {
            let text = match &awaited {
                Awaited::Member(head) => format!("{head}: wait until it is a member"),
                Awaited::Served(pool) => format!("{pool}: wait until it is served"),
                Awaited::Complete(pool) => format!("{pool}: wait until it is complete: {why}"),
            };
            (self.progress)(&text);
            Instant::now()
        });
        match since.elapsed() < limit {
            true => Ok(()),
            false => Err(Surprise::NotReached(awaited, limit.as_secs(), why)),
        }
    }

    fn perform(&mut self, run: &mut Run, action: &Action) -> Result<(), String> {
        match action {
            Action::Begin(head) => self.begin(head),
            Action::Stop(head) => self.stop(head),
            Action::Install(head) => (self.install)(head, self.on(head)?),
            Action::Start(head) => start(self.on(head)?).map_err(|error| chain(&error)),
            Action::Verify(head) => {
                run.findings.insert(head.clone(), (self.verify)(head)?);
                Ok(())
            }
            Action::End(head) => self.end(head),
            Action::Home(pool, head) => {
                let ((_, machine), _) = best_view(self.machines).map_err(|error| chain(&error))?;
                let program = self.program.to_string_lossy();
                let words = ["pool", "move", pool.as_str(), head.as_str()];
                let limit = self.appliance.timeouts().pool_move() + MOVE_RESERVE;
                let invocation = Invocation::new(&program, &words).within(limit);
                must(machine, &invocation)
                    .map(drop)
                    .map_err(|error| chain(&error))
            }
        }
    }

    fn on(&self, head: &HeadName) -> Result<&dyn Host, String> {
        let machine = self.machines.get(head).map(AsRef::as_ref);
        machine.ok_or_else(|| "there is no connection".to_owned())
    }

    /// The mark precedes the exclusion, so that a later run detects that this command began it.
    fn begin(&mut self, head: &HeadName) -> Result<(), String> {
        self.mark(head, Some(self.wanted.mark()))?;
        self.planned(|planned| planned.begin_maintenance(head, false).map(drop))
    }

    /// The mark is removed last.
    fn end(&mut self, head: &HeadName) -> Result<(), String> {
        self.planned(|planned| planned.end_maintenance(head).map(drop))?;
        self.mark(head, None)
    }

    fn mark(&self, head: &HeadName, version: Option<&str>) -> Result<(), String> {
        let ((_, machine), _) = best_view(self.machines).map_err(|error| chain(&error))?;
        set_mark(machine, head, version).map_err(|error| chain(&error))
    }

    fn planned(
        &mut self,
        then: impl FnOnce(&mut Planned<'_>) -> Result<(), StandbyError>,
    ) -> Result<(), String> {
        let progress = &mut *self.progress;
        let mut planned = Planned {
            machines: self.machines,
            appliance: self.appliance,
            program: self.program,
            progress: &mut |step| progress(&format!("  {step}")),
        };
        then(&mut planned).map_err(|error| chain(&error))
    }

    /// Stops the cluster first: without the leg-server its pools would lose the legs of this head.
    fn stop(&mut self, head: &HeadName) -> Result<(), String> {
        self.await_legs(head)?;
        let machine = self.on(head)?;
        stop_units(machine).map_err(|error| chain(&error))?;
        let mut units = [HEAD_UNIT, LEG_UNIT].into_iter();
        let stopped = units.try_for_each(|unit| stop_active_unit(machine, unit));
        stopped.map_err(|error| chain(&error))
    }

    /// Blocks until the pools can run without the disks of this head.
    fn await_legs(&self, head: &HeadName) -> Result<(), String> {
        if !self.appliance.has_legs() {
            return Ok(());
        }
        let found = read_file(self.on(head)?, Path::new(LEGS_PATH));
        let Some((bytes, _)) = found.map_err(|error| chain(&error))? else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(&bytes);
        let file = legs_config::parse(&text).map_err(|error| chain(&error))?;
        let (_, now) = best_view(self.machines).map_err(|error| chain(&error))?;
        let mut pools = BTreeMap::new();
        for (name, pool) in file.pools {
            if now.server(&appliance::render::pool_id(&name)).is_some() {
                pools.insert(name, pool.groups);
            }
        }
        let wanted = WantedLegs {
            head,
            program: self.program,
            pools: &pools,
            time_limit: self.limits.complete,
            stale_legs: false,
        };
        let waited = LegWait::default().before(self.machines, &wanted);
        waited.map_err(|error| chain(&error))
    }
}

/// Starts the leg-server before the cluster, which may start a pool at once.
fn start(machine: &dyn Host) -> Result<(), HostError> {
    start_enabled_unit(machine, LEG_UNIT)?;
    start_units(machine)?;
    start_enabled_unit(machine, HEAD_UNIT)
}

#[cfg(test)]
mod tests;
