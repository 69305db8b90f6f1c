//! Runs drills, round by round: settle, sleep for a random time, strike, watch, read back, judge.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::{Lab, LabError, UpOptions};
use units::{HeadName, PoolName};

use crate::client_events::ClientEvents;
use crate::environment::{Environment, LogLengths};
use crate::error::DrillError;
use crate::fault::Fault;
use crate::faults::{joining, possible, prepare, strike, undo};
use crate::third;
use crate::workload::serving_head;
use drill_verdict::{
    Clients, Drill, DrillReport, JudgedRound, Kind, Mark, OtherPoolRound, Promise, Report, Round,
    Step, Timestamp, merge,
};

/// The fault comes at a random time after the environment has settled, between these bounds.
const CALM: (Duration, Duration) = (Duration::from_millis(300), Duration::from_millis(2_300));
/// Time limit for I/O to resume.
const RETURN_LIMIT: Duration = Duration::from_secs(180);
/// How long a fault that should be hidden is watched.
const HIDDEN_WATCH: Duration = Duration::from_secs(8);
/// Time limit for reading back all data.
const VERIFY_LIMIT: Duration = Duration::from_secs(120);
/// Time limit for the cluster to report the serving head after I/O resumed.
const SERVED_LIMIT: Duration = Duration::from_secs(30);
/// How long busy processors are let run before the fault.
const WARM_UP: Duration = Duration::from_millis(500);

/// The drills and their parameters.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the lab is made.
    pub lab: UpOptions,
    /// The pool; none: the first one.
    pub pool: Option<PoolName>,
    /// Which drills.
    pub drills: Vec<Drill>,
    /// How often each.
    pub rounds: u32,
    /// The seed of all random choices. Round `n` of a drill, from 0, has `seed + n`, so that one round can be replayed
    /// with its own seed.
    pub seed: u64,
    /// Whether all processors are kept busy.
    pub load: bool,
    /// How the clients find out that a connection is dead.
    pub clients: Clients,
    /// The number of additional volumes of the pool.
    pub more_volumes: u32,
    /// The bound on pauses in seconds, instead of the published one: for hosts that are not measured.
    pub budget_s: Option<u32>,
}

/// Progress of running drills.
#[derive(Clone, Debug)]
pub enum Progress<'a> {
    /// A line of the lab that comes up.
    Lab(&'a str),
    /// A round is over.
    Round(&'a JudgedRound),
    /// A drill was not run.
    Skipped(Drill, &'a str),
}

/// Starts a lab, runs the drills in it, and stops it.
///
/// # Errors
///
/// The lab does not come up, or does not come to rest. A broken promise is no error.
pub fn run(options: &Options, tell: &mut dyn FnMut(Progress<'_>)) -> Result<Report, DrillError> {
    let parsed = appliance::parse(&options.lab.file_text);
    let parsed = parsed.map_err(|finding| LabError::File(finding.to_string()))?;
    let appliance = parsed.appliance;
    // Before the lab comes up for nothing. A file with mistakes is refused with all of them there.
    choose_pool(&appliance, options.pool.as_ref())?;
    let mut report = Report {
        appliance: appliance.name.clone(),
        profile: format!("{:?}", appliance.timeouts.profile).to_lowercase(),
        promise: promise(&appliance, options.budget_s),
        load: options.load,
        clients: options.clients,
        more_volumes: options.more_volumes,
        seed: options.seed,
        drills: Vec::new(),
    };
    let drills = options.drills.iter().copied();
    let (own, shared): (Vec<Drill>, Vec<Drill>) = drills.partition(|drill| drill.has_own_labs());
    if !shared.is_empty() {
        in_shared_lab(options, &shared, &mut report, tell)?;
    }
    for drill in own {
        let told = in_own_labs(options, drill, &appliance, report.promise, tell)?;
        report.drills.push(told);
    }
    Ok(report)
}

/// Drills that leave the lab as it was.
fn in_shared_lab(
    options: &Options,
    drills: &[Drill],
    report: &mut Report,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<(), DrillError> {
    let mut lab = options.lab.clone();
    lab.has_clocks |= drills.iter().any(|drill| drill.sets_clock());
    let (lab, mut environment) = begin(options, &lab, options.seed, tell)?;
    let promise = report.promise;
    for drill in drills {
        let possible = possible(*drill, environment.lab.appliance(), &environment.pool);
        if let Err(impossible) = possible {
            tell(Progress::Skipped(*drill, &impossible.0));
            let skipped = DrillReport::skipped(*drill, promise, impossible.0);
            report.drills.push(skipped);
            continue;
        }
        let mut rounds = Vec::new();
        for number in 0..options.rounds {
            let seed = options.seed.wrapping_add(number.into());
            let environment = &mut environment;
            rounds.push(judged(options, environment, *drill, seed, promise, tell)?);
        }
        report
            .drills
            .push(DrillReport::new(*drill, promise, rounds));
    }
    drop(environment);
    Ok(lab.end()?)
}

/// A drill that changes the lab for good.
fn in_own_labs(
    options: &Options,
    drill: Drill,
    appliance: &appliance::Appliance,
    promise: Promise,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<DrillReport, DrillError> {
    let pool = choose_pool(appliance, options.pool.as_ref())?;
    if let Err(impossible) = possible(drill, appliance, &pool) {
        tell(Progress::Skipped(drill, &impossible.0));
        return Ok(DrillReport::skipped(drill, promise, impossible.0));
    }
    let two = third::fitted(appliance, options.lab.arc_bytes_max);
    let lab = UpOptions {
        file_text: third::machines(&two)?,
        applied_text: Some(third::text_of(&two)?),
        has_ssh: true,
        ..options.lab.clone()
    };
    let mut rounds = Vec::new();
    for number in 0..options.rounds {
        let seed = options.seed.wrapping_add(number.into());
        let (lab, mut environment) = match begin(options, &lab, seed, tell) {
            Err(DrillError::Lab(LabError::Missing(missing))) if options.drills.len() > 1 => {
                let missing = missing.join("; ");
                tell(Progress::Skipped(drill, &missing));
                return Ok(DrillReport::skipped(drill, promise, missing));
            }
            begun => begun?,
        };
        let round = judged(options, &mut environment, drill, seed, promise, tell)?;
        rounds.push(round);
        drop(environment);
        lab.end()?;
    }
    Ok(DrillReport::new(drill, promise, rounds))
}

/// Brings a lab up, and puts clients to work in it.
fn begin(
    options: &Options,
    lab: &UpOptions,
    seed: u64,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<(Ending, Environment), DrillError> {
    let lab = Lab::up(lab, &mut |line: &str| tell(Progress::Lab(line)))?;
    let lab = Ending(Some(lab));
    let pool = choose_pool(lab.get().appliance(), options.pool.as_ref())?;
    let environment = Environment::begin(
        lab.get().clone(),
        pool,
        options.clients,
        options.more_volumes,
        seed,
    )?;
    Ok((lab, environment))
}

/// One round and the verdict on it.
fn judged(
    options: &Options,
    environment: &mut Environment,
    drill: Drill,
    seed: u64,
    promise: Promise,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<JudgedRound, DrillError> {
    let round = one_round(environment, drill, seed, options.load);
    let judged = round.map(|round| JudgedRound::new(round, &drill.expectation(), promise));
    if let Ok(judged) = &judged {
        tell(Progress::Round(judged));
    }
    let is_kept = |judged: &JudgedRound| judged.broken.is_empty();
    if !judged.as_ref().is_ok_and(is_kept) {
        keep_logs(&environment.lab, options, drill, seed, tell);
    }
    judged
}

/// Saves the evidence of a broken round: the lab is gone when the report is read.
fn keep_logs(
    lab: &Lab,
    options: &Options,
    drill: Drill,
    seed: u64,
    tell: &mut dyn FnMut(Progress<'_>),
) {
    let folder = options
        .lab
        .base
        .join("logs")
        .join(format!("{drill}-{seed}"));
    let line = match lab.keep_logs(&folder) {
        Ok(()) => format!("  logs of all machines: {}", folder.display()),
        Err(error) => format!("  the logs are lost: {error}"),
    };
    tell(Progress::Lab(&line));
}

/// A lab that goes down whatever happens.
struct Ending(Option<Lab>);

impl Ending {
    fn get(&self) -> &Lab {
        self.0.as_ref().expect("it has not ended")
    }

    fn end(mut self) -> Result<(), LabError> {
        self.0.take().expect("it has not ended").end()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(lab) = self.0.take() {
            if let Err(error) = lab.end() {
                tracing::error!(%error, "the lab did not go down: `bulkhead lab down` removes it");
            }
        }
    }
}

/// All drills that are about such a pool. Those of legs are named only where there are some.
pub(crate) fn drills_of(file_text: &str, pool: Option<&PoolName>) -> Vec<Drill> {
    let parsed = appliance::parse(file_text).ok();
    let has_legs = parsed.is_some_and(|parsed| {
        let pool = choose_pool(&parsed.appliance, pool);
        pool.is_ok_and(|pool| parsed.appliance.pools[&pool].has_legs())
    });
    let all = Drill::ALL.iter().copied();
    all.filter(|drill| has_legs || !drill.is_of_legs())
        .collect()
}

fn choose_pool(
    appliance: &appliance::Appliance,
    wanted: Option<&PoolName>,
) -> Result<PoolName, DrillError> {
    let pool = match wanted {
        Some(pool) => pool.clone(),
        None => {
            let first = appliance.pools.keys().next().cloned();
            first.ok_or_else(|| {
                DrillError::File("the appliance file describes no pool".to_owned())
            })?
        }
    };
    let described = appliance.pools.get(&pool);
    let described = described
        .ok_or_else(|| DrillError::File(format!("the appliance file describes no pool {pool}")))?;
    if appliance.heads_of(described).len() < 2 {
        return Err(DrillError::File(format!(
            "only one head may serve {pool}: no other head can take it over"
        )));
    }
    if described.addresses.is_empty() {
        return Err(DrillError::File(format!(
            "{pool} has no address: clients cannot follow it"
        )));
    }
    Ok(pool)
}

/// The published bounds hold for the short time-outs; other profiles have their own budget.
fn promise(appliance: &appliance::Appliance, budget_s: Option<u32>) -> Promise {
    let times = appliance.timeouts();
    match (appliance.timeouts.profile, budget_s) {
        (appliance::Profile::Fast, None) => Promise::Published,
        _ => Promise::Budget {
            budget_s: budget_s.unwrap_or(times.takeover_budget_s),
            monitor_s: times.pool_monitor_s,
            monitor_timeout_s: times.pool_monitor_timeout_s,
            disk_answer_s: times.disk_answer_s,
            fence_s: times.fence_s,
        },
    }
}

fn one_round(
    environment: &mut Environment,
    drill: Drill,
    seed: u64,
    load: bool,
) -> Result<Round, DrillError> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let head = environment.settle()?;
    let head = prepare(drill, environment, &head, &mut rng)?;
    environment.watch.findings();
    let _busy = load.then(Busy::begin);
    let calm_ms = rng.u64(CALM.0.as_millis() as u64..CALM.1.as_millis() as u64);
    environment.client.listen(Duration::from_millis(calm_ms))?;
    if load {
        environment.client.listen(WARM_UP)?;
    }
    environment.client.seen.begin_round();
    let beside_before = begin_other_pools(environment)?;
    let ends = environment.log_lengths()?;
    let mut round = Round::new(drill.name(), seed, head.clone());

    let mut fault = strike(drill, environment, &head, &mut rng)?;
    let came_back = wait(environment, drill, &fault)?;
    let returned = Timestamp::now();
    round.waited_s = returned.since(fault.acted_at);
    round.served_after = wait_served(environment)?;
    undo(drill, environment, &mut fault)?;
    verify(environment, &mut round)?;
    collect(environment, drill, &mut round, &fault, &ends, came_back);
    if drill == Drill::ThirdHeadJoins {
        joining::lose_third(environment, &mut round)?;
        verify(environment, &mut round)?;
        collect_client_events(environment, &mut round);
    }
    round.beside = end_other_pools(environment, beside_before, &fault)?;
    Ok(round)
}

/// The heads that serve the other pools before the fault, in order.
fn begin_other_pools(environment: &mut Environment) -> Result<Vec<Option<HeadName>>, DrillError> {
    if environment.other_pools.is_empty() {
        return Ok(Vec::new());
    }
    let state = environment.lab.cluster()?.unwrap_or_default();
    let beside = environment.other_pools.iter_mut();
    beside.map(|one| one.begin_round(&state)).collect()
}

/// The effects on the other pools.
fn end_other_pools(
    environment: &mut Environment,
    before: Vec<Option<HeadName>>,
    fault: &Fault,
) -> Result<BTreeMap<PoolName, OtherPoolRound>, DrillError> {
    let mut rounds = BTreeMap::new();
    let mut waited = Duration::ZERO;
    for (beside, served_before) in environment.other_pools.iter_mut().zip(before) {
        let began = Instant::now();
        // All of them together have the time that one has.
        let limit = RETURN_LIMIT.saturating_sub(waited);
        let round = beside.end_round(fault, served_before, limit)?;
        waited += began.elapsed();
        rounds.insert(beside.pool.clone(), round);
    }
    if let Some(state) = environment.lab.cluster()? {
        for (pool, round) in &mut rounds {
            round.served_after = serving_head(&state, pool);
        }
    }
    Ok(rounds)
}

/// Blocks until the fault has had its effect and I/O has resumed. Returns whether it has.
fn wait(environment: &mut Environment, drill: Drill, fault: &Fault) -> Result<bool, DrillError> {
    let since = fault.acted_at;
    match drill.expectation().kind {
        Kind::Crash | Kind::CutOff => {
            let is_over = |seen: &ClientEvents| seen.has_passed(fault.at);
            if environment.client.listen_until(HIDDEN_WATCH, is_over)? {
                return Ok(true);
            }
            // Nothing was interrupted, or it lasts.
        }
        Kind::Hidden => environment.client.listen(HIDDEN_WATCH)?,
        Kind::Unbounded if drill == Drill::MemoryExhausted => {
            environment.client.listen(HIDDEN_WATCH)?
        }
        Kind::Unbounded | Kind::Move => {}
    }
    let since = match drill.expectation().kind {
        Kind::Crash | Kind::CutOff | Kind::Hidden => Timestamp::now(),
        Kind::Unbounded | Kind::Move => since,
    };
    environment
        .client
        .listen_until(RETURN_LIMIT, |seen| seen.all_responded_since(since))
}

fn wait_served(environment: &mut Environment) -> Result<Option<HeadName>, DrillError> {
    let deadline = Timestamp::now().after(SERVED_LIMIT);
    loop {
        let head = environment.serving()?;
        if head.is_some() || Timestamp::now() > deadline {
            return Ok(head);
        }
        environment.client.listen(Duration::from_millis(200))?;
    }
}

fn verify(environment: &mut Environment, round: &mut Round) -> Result<(), DrillError> {
    environment.client.verify()?;
    if !environment
        .client
        .listen_until(VERIFY_LIMIT, |seen| seen.verified.is_some())?
    {
        let refusals = &environment.client.seen.refusals;
        round.not_verified = Some(format!(
            "no end within {} s; {refusals:?}",
            VERIFY_LIMIT.as_secs()
        ));
    }
    Ok(())
}

/// Adds the results of the clients, the logs and the watch to the round.
fn collect(
    environment: &Environment,
    drill: Drill,
    round: &mut Round,
    fault: &Fault,
    ends: &LogLengths,
    came_back: bool,
) {
    round.fault.clone_from(&fault.words);
    let seen = &environment.client.seen;
    let pauses = seen.pauses(fault.at);
    if came_back {
        round.pauses_s = pauses
            .iter()
            .map(|(name, pause)| (name.clone(), pause.seconds))
            .collect();
    }
    collect_client_events(environment, round);
    round.acts.clone_from(&fault.acts);
    round.double_imports = environment.watch.findings();
    round.complaints.clone_from(&fault.complaints);
    let mut heads = environment.lab.heads();
    // A struck head may see the remaining heads as lost.
    heads.retain(|head| fault.victim.as_ref() != Some(head));
    let (mut marks, fenced) = environment.reported_since(ends, &heads, fault.at);
    round.fenced = fenced;
    let is_interrupted = came_back && drill.expectation().kind != Kind::Hidden;
    let interrupting = pauses.values().filter(|_| is_interrupted);
    let first_io = interrupting.filter_map(|pause| pause.until);
    let first_io = first_io.map(|until| Mark {
        step: Step::FirstIo,
        after_s: until.since(fault.at),
    });
    marks.extend(first_io);
    round.timeline = merge(marks);
}

/// Adds the events of the clients since the start of the round.
fn collect_client_events(environment: &Environment, round: &mut Round) {
    let seen = &environment.client.seen;
    round.slowest_s = seen.slowest_s;
    round.errors.clone_from(&seen.errors);
    round.violations.clone_from(&seen.violations);
    round.refused_logins = seen.refused_logins;
    if let Some((_, counts)) = &seen.verified {
        round.acknowledged = counts.values().map(|one| one.acknowledged).sum();
        round.repeated = counts.values().map(|one| one.repeated).sum();
    }
}

/// A process for each processor that does nothing, all the time.
struct Busy(Vec<Child>);

impl Busy {
    fn begin() -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let spin = |_| {
            Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .spawn()
                .ok()
        };
        Self((0..count).filter_map(spin).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that is gone is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The example that is drilled when no file is given.
pub const EXAMPLE: &str = include_str!("../../../examples/pair.toml");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::with_profile;

    #[test]
    fn profile_fast_is_judged_by_published_bounds() {
        let parsed = appliance::parse(&with_profile(EXAMPLE, "fast")).expect("well formed");
        assert_eq!(promise(&parsed.appliance, None), Promise::Published);
        let generous = promise(&parsed.appliance, Some(10));
        assert!(matches!(generous, Promise::Budget { budget_s: 10, .. }));
    }

    #[test]
    fn leg_drills_run_only_with_legs() {
        assert!(
            drills_of(EXAMPLE, None)
                .iter()
                .all(|drill| !drill.is_of_legs())
        );
        let legs = include_str!("../../../examples/legs-two-heads-witness.toml");
        assert_eq!(drills_of(legs, None), Drill::ALL);
    }

    #[test]
    fn takeover_ends_after_pause_of_every_initiator() {
        let mut seen = ClientEvents::default();
        for name in ["iscsi", "nbd"] {
            seen.last_answer.insert(name.to_owned(), Timestamp(99.0));
        }
        let fault = Timestamp(10.0);
        let mut gap = |whose: &str, from, to| {
            seen.gaps
                .push((whose.to_owned(), Timestamp(from), Timestamp(to)));
            seen.has_passed(fault)
        };
        assert!(!gap("iscsi", 9.99, 11.0));
        assert!(
            !gap("nbd", 9.93, 10.0),
            "a hiccup before the fault is none of it"
        );
        assert!(gap("nbd", 10.1, 11.2));
    }

    #[test]
    fn pool_without_takeover_candidate_is_not_drilled() {
        let parsed = appliance::parse(EXAMPLE).expect("well formed").appliance;
        let unknown = "other".parse().expect("a name");
        assert!(choose_pool(&parsed, Some(&unknown)).is_err());
        assert_eq!(choose_pool(&parsed, None).expect("tank").as_str(), "tank");
        let single = include_str!("../../../examples/single.toml");
        let single = appliance::parse(single).expect("well formed").appliance;
        let error = choose_pool(&single, None).expect_err("one head");
        assert!(error.to_string().contains("no other head can take it over"));
    }
}
