//! `bulkhead appliance`: reads the appliance file, queries the reachable heads, and prints the findings, the plan and
//! the changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use appliance::facts::HeadFacts;
use appliance::plan::{Actual, Change, DesiredState, PoolToMake};
use appliance::{
    Appliance, CheckReport, Facts, Finding, HeadAsked, Layout, Parsed, Plan, Severity, Shortened,
    reference,
};
use control::failure::chain;
use control::{Failure, FailureKind};
use rendering::Printer;
use serde::Serialize;
use serde_json::json;
use units::{HeadName, PoolName};

use crate::arguments::{
    ApplianceCommand, ApplyArgs, ChangeArgs, CheckArgs, MaintenanceArgs, RetireArgs, ShutdownArgs,
    Switch, Transport, Transports,
};
use crate::host::{Host, Hosts, Local, Lock, LockError, Ssh};
use crate::retire::{self, Retired};
use crate::standby::{Outcome, Planned, StandbyError, Step};
use crate::{Depth, HostError, appliance_file, rotate, safeguard_queries};

/// The findings include warnings.
const EXIT_WARNINGS: u8 = 11;
/// The findings include errors.
const EXIT_ERRORS: u8 = 12;
/// The heads differ from the file.
const EXIT_DIFFERENCE: u8 = 13;
/// An obstacle prevents the plan.
const EXIT_OBSTACLE: u8 = 14;

/// Longest time until applied changes become visible, such as a vote of the witness or a joining head.
const SETTLING_TIME_LIMIT: Duration = Duration::from_secs(30);
/// Polling interval of this check.
const SETTLING_POLL: Duration = Duration::from_secs(1);

/// Performs the command. `own_facts` reads the facts of this head; its argument enables the measurement of stalls.
pub fn run(
    command: &ApplianceCommand,
    own_facts: &dyn Fn(bool) -> Result<String, Failure>,
    out: Printer,
) -> Result<ExitCode, Failure> {
    match command {
        ApplianceCommand::Check(args) => return check(args, out),
        ApplianceCommand::Plan(args) => return with_plan(args, None, out, show_plan),
        ApplianceCommand::Apply(args) => return with_plan(&args.change, Some(args), out, apply),
        ApplianceCommand::Retire(args) => return retire_pool(args, out),
        ApplianceCommand::RotateKey(args) => rotate_key(args, out)?,
        ApplianceCommand::Maintenance(args) => maintenance(args, out)?,
        ApplianceCommand::Shutdown(args) => shut_down(args, out)?,
        ApplianceCommand::Start(args) => start(args, out)?,
        ApplianceCommand::Facts { stalls } => out.text(&own_facts(*stalls)?)?,
        ApplianceCommand::Schema => out.text(&reference::schema_text())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a head responded.
enum HeadResponse {
    /// It responded.
    Yes(Box<HeadFacts>),
    /// It was not queried or did not respond, with the reason.
    No(String),
}

/// The results, by head.
type HeadResponses = BTreeMap<HeadName, HeadResponse>;

/// Connections to all heads that can be reached, and the reason for each of the rest.
fn machines(appliance: &Appliance, ways: &Transports) -> (Hosts, BTreeMap<HeadName, String>) {
    let own_name = units::host_name();
    let mut machines = Hosts::new();
    let mut unreachable = BTreeMap::new();
    for name in appliance.heads.keys() {
        let told = ways.reach.iter().rev().find(|one| one.head == *name);
        let addresses = appliance.addresses_of(name);
        let address = addresses.first().filter(|_| ways.ssh);
        let machine: Box<dyn Host> = match (told.map(|one| &one.way), address) {
            (Some(Transport::Ssh(destination)), _) => Box::new(Ssh {
                destination: destination.clone(),
            }),
            (Some(Transport::Run(words)), _) => Box::new(Local {
                prefix: words.clone(),
            }),
            (None, _) if own_name == name.as_str() => Box::new(Local::default()),
            (None, Some(address)) => Box::new(Ssh {
                destination: format!("root@{address}"),
            }),
            (None, None) => {
                let why = format!("this host is {own_name}; use --ssh or --reach for {name}");
                unreachable.insert(name.clone(), why);
                continue;
            }
        };
        machines.insert(name.clone(), machine);
    }
    (machines, unreachable)
}

/// Queries all heads concurrently.
fn query_heads(appliance: &Appliance, ways: &Transports, depth: Depth) -> HeadResponses {
    let (machines, unreachable) = machines(appliance, ways);
    let mut answers: HeadResponses = unreachable
        .into_iter()
        .map(|(name, why)| (name, HeadResponse::No(why)))
        .collect();
    std::thread::scope(|scope| {
        let asking: Vec<_> = machines
            .iter()
            .map(|(name, machine)| {
                let asks = || {
                    let mut facts = crate::gather(machine.as_ref(), appliance, depth)?;
                    if depth == Depth::Measured {
                        safeguard_queries::query_safeguards(
                            machine.as_ref(),
                            appliance,
                            name,
                            &mut facts,
                        );
                    }
                    Ok::<_, HostError>(facts)
                };
                (name, scope.spawn(asks))
            })
            .collect();
        for (name, asking) in asking {
            let answer = match asking.join() {
                Ok(Ok(facts)) => HeadResponse::Yes(Box::new(facts)),
                Ok(Err(error)) => HeadResponse::No(chain(&error)),
                Err(panic) => std::panic::resume_unwind(panic),
            };
            answers.insert(name.clone(), answer);
        }
    });
    query_keys(&machines, &mut answers);
    answers
}

/// Queries all heads for the key files that any of them names. A head that does not respond is not checked for them.
fn query_keys(machines: &Hosts, answers: &mut HeadResponses) {
    let facts = facts(answers);
    let pools = facts.pools.values();
    let files: BTreeSet<PathBuf> = pools.flat_map(|pool| pool.key_files.clone()).collect();
    if files.is_empty() {
        return;
    }
    for (name, asked) in answers {
        if let (HeadResponse::Yes(known), Some(machine)) = (asked, machines.get(name)) {
            known.key_files_missing = crate::missing_files(machine.as_ref(), &files).ok();
        }
    }
}

fn facts(answers: &HeadResponses) -> Facts {
    let heads = answers.iter().filter_map(|(name, asked)| match asked {
        HeadResponse::Yes(facts) => Some((name.clone(), facts.as_ref().clone())),
        HeadResponse::No(_) => None,
    });
    let heads: BTreeMap<_, _> = heads.collect();
    let mut facts = Facts::default();
    for head in heads.values() {
        for (pool, features) in &head.features_in_use {
            let pool = facts.pools.entry(pool.clone()).or_default();
            pool.active_features.extend(features.iter().cloned());
        }
        for (pool, files) in &head.key_files {
            let pool = facts.pools.entry(pool.clone()).or_default();
            pool.key_files.extend(files.iter().cloned());
        }
    }
    facts.heads = heads;
    facts
}

/// The facts that are missing in a head's response, as text.
fn unknown(facts: &HeadFacts) -> Vec<&'static str> {
    let all = [
        (facts.node_name.is_none(), "its name"),
        (facts.identity.is_none(), "its machine id"),
        (facts.memory.is_none(), "its memory"),
        (facts.clock_ahead_ms.is_none(), "its clock"),
        (facts.interfaces.is_none(), "its interfaces"),
        (facts.versions.is_empty(), "versions of packages"),
        (
            facts.zfs_features.is_none() && facts.engine_refused.is_none(),
            "features of its OpenZFS",
        ),
        (facts.stall_ms_max.is_none(), "its stalls"),
    ];
    let missing = all.into_iter().filter(|(is_missing, _)| *is_missing);
    missing.map(|(_, what)| what).collect()
}

fn check(args: &CheckArgs, out: Printer) -> Result<ExitCode, Failure> {
    let text = appliance_file::read(&args.file)?;
    let (findings, answers) = match appliance::parse(&text) {
        Ok(parsed) => {
            refuse_unknown_heads(&parsed.appliance, &args.ways)?;
            let answers = query_heads(&parsed.appliance, &args.ways, Depth::Measured);
            (appliance::check(&parsed, &facts(&answers)), answers)
        }
        Err(finding) => (vec![*finding], HeadResponses::new()),
    };
    report(&args.file, &findings, &answers, out)
}

/// A connection for a head that is not in the file is a typing error.
fn refuse_unknown_heads(appliance: &Appliance, ways: &Transports) -> Result<(), Failure> {
    let is_unknown = |head: &&HeadName| !appliance.heads.contains_key(*head);
    match ways.reach.iter().map(|one| &one.head).find(is_unknown) {
        Some(head) => Err(Failure::usage(format!(
            "--reach names {head}, which is no head of the file"
        ))),
        None => Ok(()),
    }
}

/// Prints the findings and returns the exit code.
fn report(
    path: &Path,
    findings: &[Finding],
    answers: &HeadResponses,
    out: Printer,
) -> Result<ExitCode, Failure> {
    let heads = answers.iter().map(|(name, asked)| {
        let (why, unknown) = match asked {
            HeadResponse::Yes(facts) => (None, Some(unknown(facts))),
            HeadResponse::No(why) => (Some(why.clone()), None),
        };
        let asked = unknown.is_some();
        let asked = HeadAsked {
            asked,
            why,
            unknown,
        };
        (name.clone(), asked)
    });
    let worst = appliance::check::worst(findings);
    let report = CheckReport {
        file: path.to_owned(),
        worst,
        findings: findings.to_vec(),
        heads: heads.collect(),
    };
    out.either(&report, || shown(&report))?;
    Ok(match worst {
        Some(Severity::Error) => ExitCode::from(EXIT_ERRORS),
        Some(Severity::Warning) => ExitCode::from(EXIT_WARNINGS),
        Some(Severity::Hint) | None => ExitCode::SUCCESS,
    })
}

fn shown(report: &CheckReport) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let _ = writeln!(text, "{finding}\n");
    }
    for (name, head) in &report.heads {
        let _ = match (&head.why, head.unknown.as_deref()) {
            (Some(why), _) => writeln!(text, "{name}: not queried: {why}"),
            (None, None | Some([])) => writeln!(text, "{name}: asked"),
            (None, Some(unknown)) => {
                writeln!(text, "{name}: queried; not known: {}", unknown.join(", "))
            }
        };
    }
    let count = |severity| {
        let same = report.findings.iter();
        same.filter(|one| one.severity == severity).count()
    };
    let counts = [
        (count(Severity::Error), "error", "errors"),
        (count(Severity::Warning), "warning", "warnings"),
        (count(Severity::Hint), "hint", "hints"),
    ];
    let words = counts.iter().filter(|(count, ..)| *count > 0);
    let words: Vec<String> = words
        .map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }))
        .collect();
    let words = match words.is_empty() {
        true => "nothing was found".to_owned(),
        false => words.join(", "),
    };
    let _ = writeln!(text, "{}: {words}", report.file.display());
    text
}

/// The input of the planner.
struct Prepared {
    machines: Hosts,
    desired: DesiredState,
    /// Each change is printed on standard error.
    tells_progress: bool,
    /// Longest time until a started unit runs.
    settles_within: Duration,
}

/// Reads and checks the file; prints the findings if there are errors among them.
fn prepare(
    args: &ChangeArgs,
    apply: Option<&ApplyArgs>,
    out: Printer,
) -> Result<Result<Prepared, ExitCode>, Failure> {
    let text = appliance_file::read(&args.file)?;
    let settings = Settings {
        in_use: apply.is_some_and(|args| args.in_use),
        stale_legs: apply.is_some_and(|args| args.stale_legs),
        tells_progress: apply.is_some_and(|args| args.progress),
    };
    prepare_text(args, &text, settings, out)
}

/// Options of a change.
#[derive(Clone, Copy, Debug, Default)]
struct Settings {
    in_use: bool,
    stale_legs: bool,
    tells_progress: bool,
}

/// The same for this text of the file.
fn prepare_text(
    args: &ChangeArgs,
    text: &str,
    settings: Settings,
    out: Printer,
) -> Result<Result<Prepared, ExitCode>, Failure> {
    let parsed: Parsed = match appliance::parse(text) {
        Ok(parsed) => parsed,
        Err(finding) => {
            return report(&args.file, &[*finding], &HeadResponses::new(), out).map(Err);
        }
    };
    refuse_unknown_heads(&parsed.appliance, &args.ways)?;
    let machines = all_hosts(&parsed.appliance, &args.ways)?;
    let answers = query_heads(&parsed.appliance, &args.ways, Depth::Quick);
    let findings = appliance::check(&parsed, &facts(&answers));
    if appliance::check::worst(&findings) == Some(Severity::Error) {
        return report(&args.file, &findings, &answers, out).map(Err);
    }
    let program = match &args.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(Failure::of("find this program"))?,
    };
    let layout = Layout {
        program,
        has_systemd: !args.without_systemd,
        in_use: settings.in_use,
        stale_legs: settings.stale_legs,
        ..Layout::default()
    };
    let desired = appliance::desired_state(&parsed.appliance, text, &layout);
    Ok(Ok(Prepared {
        machines,
        desired,
        tells_progress: settings.tells_progress,
        settles_within: SETTLING_TIME_LIMIT,
    }))
}

/// The connections to all heads.
fn all_hosts(appliance: &Appliance, ways: &Transports) -> Result<Hosts, Failure> {
    let (machines, unreachable) = machines(appliance, ways);
    match unreachable.into_iter().next() {
        None => Ok(machines),
        Some((name, why)) => {
            let message = format!("there is no connection to head {name}: {why}");
            Err(Failure::new(FailureKind::Unreachable, message))
        }
    }
}

/// Locks all reachable heads, always in the same order, so that one of two concurrent runs proceeds. An unreachable
/// head is reported later.
fn lock(machines: &Hosts) -> Result<Vec<Lock>, Failure> {
    let who = format!("process {} of {}", std::process::id(), units::host_name());
    let mut locks = Vec::new();
    for (head, machine) in machines {
        match machine.lock(&who) {
            Ok(lock) => locks.push(lock),
            Err(error @ LockError::Busy(_)) => {
                let message = format!("{head}: {error}");
                return Err(Failure::new(FailureKind::Busy, message)
                    .advise("nothing was changed; repeat the command after the other run"));
            }
            Err(LockError::Run(error)) => {
                tracing::warn!(%head, error = chain(&error), "is not locked")
            }
        }
    }
    Ok(locks)
}

/// Ignores the findings of the check: a mistake elsewhere must not delay the replacement of a leaked key.
fn rotate_key(args: &CheckArgs, out: Printer) -> Result<(), Failure> {
    let appliance = appliance_file::load(&args.file)?;
    refuse_unknown_heads(&appliance, &args.ways)?;
    let machines = all_hosts(&appliance, &args.ways)?;
    let _locks = lock(&machines)?;
    let mut printed = Ok(());
    let mut progress = |step: &rotate::Step| {
        if !out.is_json() && printed.is_ok() {
            printed = out.text(&format!("{step}\n"));
        }
    };
    crate::rotate_key(&machines, &mut progress).map_err(|error| {
        Failure::from_chain(FailureKind::Failed, &error).advise(
            "the cluster continues with its previous secret; repeat the command when the cause is repaired",
        )
    })?;
    printed?;
    out.either(&json!({"changed": true}), || {
        format!(
            "the new secret is in use; remove the former one from {} on every head when all pools were served since\n",
            rotate::FORMER_KEYS
        )
    })
}

/// Runs `then` with the reachable heads, which stay locked, and prints the steps and the sentence for the outcome.
fn absence(
    (file, ways): (&Path, &Transports),
    out: Printer,
    then: &dyn Fn(&mut Planned<'_>) -> Result<Outcome, Failure>,
    sentence: &dyn Fn(Outcome) -> String,
) -> Result<(), Failure> {
    let appliance = appliance_file::load(file)?;
    refuse_unknown_heads(&appliance, ways)?;
    let (machines, _) = machines(&appliance, ways);
    let _locks = lock(&machines)?;
    let program = std::env::current_exe().map_err(Failure::of("find this program"))?;
    let mut steps = Vec::new();
    let mut progress = |step: &Step| {
        if !out.is_json() {
            // The steps do not depend on the reader of the output.
            let _ = out.text(&format!("{step}\n"));
        }
        steps.push(step.to_string());
    };
    let outcome = then(&mut Planned {
        machines: &machines,
        appliance: &appliance,
        program: &program,
        progress: &mut progress,
    })?;
    let told = json!({"changed": outcome == Outcome::Changed, "steps": steps});
    out.either(&told, || format!("{}\n", sentence(outcome)))
}

fn standby_failure(error: &StandbyError) -> Failure {
    use StandbyError as E;
    let kind = match error {
        E::UnknownHead { .. } => FailureKind::NotFound,
        E::NoCluster | E::Unreachable(..) | E::Situation(_) => FailureKind::Unreachable,
        E::NoOtherHead(_) => FailureKind::Unavailable,
        E::StillActive { .. } | E::StillStandby { .. } | E::NotAway { .. } => FailureKind::Failed,
        E::NotServed { .. } | E::Failed { .. } => FailureKind::Failed,
    };
    let failure = Failure::from_chain(kind, error);
    match error {
        E::NoCluster => {
            failure.advise("run it as root on a head of the cluster, or with --ssh")
        }
        E::Unreachable(..) => failure.advise(
            "nothing was changed; use --ssh or --reach, or stop the cluster on that head first",
        ),
        E::NoOtherHead(_) => failure.advise(
            "nothing was changed; repair the other head, or stop these pools with --stop-pools",
        ),
        E::StillStandby { .. } => {
            failure.advise("`bulkhead appliance start --ssh` lets the heads serve again")
        }
        E::StillActive { .. } | E::NotAway { .. } | E::NotServed { .. } => failure.advise(
            "`crm_mon -1` and `bulkhead status` show the reason; repeat the command when it is repaired",
        ),
        _ => failure.advise("repeat the command when the cause is repaired"),
    }
}

fn maintenance(args: &MaintenanceArgs, out: Printer) -> Result<(), Failure> {
    let head = &args.head;
    let then = |planned: &mut Planned<'_>| {
        let outcome = match args.state {
            Switch::On => planned.begin_maintenance(head, args.stop_pools),
            Switch::Off => planned.end_maintenance(head),
        };
        outcome.map_err(|error| standby_failure(&error))
    };
    let sentence = |outcome| match (args.state, outcome) {
        (Switch::On, Outcome::Already) => format!("{head} is in maintenance already"),
        (Switch::On, Outcome::Changed) => format!(
            "{head} is in maintenance and serves no pool; `bulkhead appliance maintenance {head} off` reverts that"
        ),
        (Switch::Off, Outcome::Already) => format!("{head} is not in maintenance"),
        (Switch::Off, Outcome::Changed) => format!("{head} serves pools again"),
    };
    absence((&args.file, &args.ways), out, &then, &sentence)
}

/// Refuses to stop pools with connected clients.
fn refuse_clients(planned: &Planned<'_>) -> Result<(), Failure> {
    let mut pools = Vec::new();
    for machine in planned.machines.values() {
        // A head without servers returns no lines.
        let Ok((_, clients)) = crate::observe::portals(machine.as_ref(), planned.program) else {
            continue;
        };
        let connected = clients.into_iter().filter(|(_, count)| *count > 0);
        pools.extend(connected.map(|(pool, count)| format!("{count} of {pool}")));
    }
    match pools.is_empty() {
        true => Ok(()),
        false => {
            let message = format!(
                "clients are connected ({}): they lose their volumes and files until the appliance is started again",
                pools.join(", ")
            );
            Err(Failure::new(FailureKind::NeedsConfirmation, message)
                .advise("nothing was changed; stop the clients first, or repeat with --yes"))
        }
    }
}

fn shut_down(args: &ShutdownArgs, out: Printer) -> Result<(), Failure> {
    let own_name = units::host_name();
    let then = |planned: &mut Planned<'_>| {
        if !args.yes {
            refuse_clients(planned)?;
        }
        let is_here = |head: &HeadName| head.as_str() == own_name;
        let outcome = planned.shut_down(args.power_off, &is_here);
        outcome.map_err(|error| standby_failure(&error))
    };
    let sentence = |outcome| match (outcome, args.power_off) {
        (Outcome::Already, _) => "the cluster is stopped on all reachable heads already".to_owned(),
        (Outcome::Changed, true) => "the pools are stopped, and the heads switch off".to_owned(),
        (Outcome::Changed, false) => {
            "the pools are stopped, and the cluster on all heads; the heads may be \
                                      switched off, or `bulkhead appliance start` serves again"
                .to_owned()
        }
    };
    absence((&args.of.file, &args.of.ways), out, &then, &sentence)
}

fn start(args: &CheckArgs, out: Printer) -> Result<(), Failure> {
    let then = |planned: &mut Planned<'_>| planned.start().map_err(|error| standby_failure(&error));
    let sentence = |outcome| match outcome {
        Outcome::Already => "all pools are served already".to_owned(),
        Outcome::Changed => "all pools are served".to_owned(),
    };
    absence((&args.file, &args.ways), out, &then, &sentence)
}

fn compare(prepared: &Prepared) -> Result<Plan, Failure> {
    Ok(appliance::plan(&prepared.desired, &observe(prepared)?))
}

fn observe(prepared: &Prepared) -> Result<Actual, Failure> {
    crate::observe(&prepared.machines, &prepared.desired)
        .map_err(|error| Failure::from_chain(FailureKind::Failed, &error))
}

/// The parts of a pool that a retirement removes.
#[derive(Debug, Serialize)]
struct Gone {
    pool: PoolName,
    /// All that is lost, in sentences.
    gone: Vec<String>,
    /// Steps that are left to a person.
    then: Vec<String>,
    changed: bool,
}

impl Gone {
    fn text(&self, title: &str) -> String {
        let mut text = format!("{title}\n");
        for line in &self.gone {
            let _ = writeln!(text, "  {line}");
        }
        for line in &self.then {
            let _ = writeln!(text, "then: {line}");
        }
        text
    }
}

fn retire_pool(args: &RetireArgs, out: Printer) -> Result<ExitCode, Failure> {
    let (file, pool) = (&args.change.file, &args.pool);
    let text = appliance_file::read(file)?;
    let appliance = appliance_file::load(file)?;
    let retired = Retired::of(&appliance, pool).ok_or_else(|| {
        Failure::not_found(format!("{} describes no pool {pool}", file.display())).advise(
            "if a retirement was interrupted, `bulkhead appliance apply` completes it. A pool outside of the file is \
             destroyed by `bulkhead pool destroy`, and an entry without disks is removed by `bulkhead pool forget`",
        )
    })?;
    let shortened = appliance::without_pool(&text, pool).ok_or_else(|| {
        Failure::usage(format!(
            "the lines of pool {pool} in {} cannot be removed alone",
            file.display()
        ))
        .advise(format!(
            "write the pool as a table of its own, `[pools.{pool}]`; nothing was changed"
        ))
    })?;
    // Findings about this pool, such as a disk that another pool has, too, are not in the shortened file.
    let parsed = appliance::parse(&text).map_err(|finding| Failure::usage(finding.to_string()))?;
    let findings = appliance::check(&parsed, &Facts::default());
    if appliance::check::worst(&findings) == Some(Severity::Error) {
        return report(file, &findings, &HeadResponses::new(), out);
    }
    let settings = Settings {
        in_use: true,
        ..Settings::default()
    };
    let prepared = match prepare_text(&args.change, &shortened.text, settings, out)? {
        Ok(prepared) => prepared,
        Err(code) => return Ok(code),
    };
    // The plan stays valid only while no other run changes the heads.
    let _locks = args.yes.then(|| lock(&prepared.machines)).transpose()?;
    refuse_changed(file, &text)?;
    let actual = observe(&prepared)?;
    let plan = appliance::plan(&prepared.desired, &actual);
    if !plan.obstacles.is_empty() {
        out.either(&plan, || plan.to_string())?;
        return Ok(ExitCode::from(EXIT_OBSTACLE));
    }
    let program = prepared.desired.program.to_string_lossy().into_owned();
    let failed = |error: &dyn std::error::Error| {
        Failure::new(FailureKind::Failed, chain(error))
            .advise("the steps before it stay; repeat the command when the cause is repaired")
    };
    let disks =
        retire::disks(&prepared.machines, &program, &retired).map_err(|error| failed(&error))?;
    let mut gone = Gone {
        pool: pool.clone(),
        gone: retire::losses(&prepared.machines, &program, &retired, &disks, &actual)
            .into_iter()
            .chain(lines_of(&shortened, file))
            .collect(),
        then: left_over(&appliance, &retired),
        changed: false,
    };
    if args.dry_run {
        let title = format!("nothing was changed; these parts of pool {pool} would be lost:");
        out.either(&gone, || gone.text(&title))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes {
        let lost = gone.gone.join("; ");
        return Err(Failure::new(
            FailureKind::NeedsConfirmation,
            format!("pool {pool} would be lost for good: {lost}"),
        )
        .advise("nothing was changed; if you intend that, add --yes"));
    }
    let mut printed = Ok(());
    let mut progress = |step: &str| {
        if !out.is_json() && printed.is_ok() {
            printed = out.text(&format!("{step}\n"));
        }
    };
    let notes = retire::retire(
        &prepared.machines,
        &program,
        &retired,
        &actual,
        &mut progress,
    )
    .map_err(|error| failed(&error))?;
    refuse_changed(file, &text)?;
    progress(&format!(
        "remove the lines of pool {pool} from {}",
        file.display()
    ));
    write_durably(file, &shortened.text)
        .map_err(Failure::of(format!("write {}", file.display())))?;
    let plan = compare(&prepared)?;
    crate::apply(&prepared.machines, &plan, &mut |change| {
        progress(&change.to_string())
    })
    .map_err(|error| {
        Failure::from_chain(FailureKind::Failed, &error)
            .advise("the pool is gone; run `bulkhead appliance apply` when the cause is repaired")
    })?;
    printed?;
    compare_again(&prepared)?;
    gone.changed = true;
    gone.then.extend(notes);
    out.either(&gone, || gone.text(&format!("pool {pool} is retired:")))?;
    Ok(ExitCode::SUCCESS)
}

/// Another run, or an editor, may have changed the file since it was read.
fn refuse_changed(file: &Path, text: &str) -> Result<(), Failure> {
    if appliance_file::read(file)? == text {
        return Ok(());
    }
    let message = format!("{} was changed during this command", file.display());
    Err(Failure::new(FailureKind::Busy, message).advise("repeat the command"))
}

/// The lines of the file that are removed.
fn lines_of(shortened: &Shortened, file: &Path) -> Vec<String> {
    let lines = shortened.lines.iter().map(|range| {
        let (first, last, file) = (range.start(), range.end(), file.display());
        format!("lines {first} to {last} of {file} are removed")
    });
    lines.collect()
}

/// The steps on hosts that are no heads.
fn left_over(appliance: &Appliance, retired: &Retired) -> Vec<String> {
    let number = retired.number.filter(|_| appliance.witness.is_some());
    let witness = number.map(|number| {
        format!(
            "on the witness, `bulkhead-witness forget {number} --pool-is-gone` removes its record"
        )
    });
    witness.into_iter().collect()
}

/// Replaces the file, with its permissions.
fn write_durably(path: &Path, text: &str) -> std::io::Result<()> {
    let path = std::fs::canonicalize(path)?;
    let mut new = path.clone().into_os_string();
    new.push(".new");
    let mut file = std::fs::File::create(&new)?;
    file.set_permissions(std::fs::metadata(&path)?.permissions())?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, &path)
}

/// Plans the changes for the file and runs `then`, unless there is an obstacle.
fn with_plan(
    args: &ChangeArgs,
    apply: Option<&ApplyArgs>,
    out: Printer,
    then: fn(&Prepared, &Plan, Printer) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let prepared = match prepare(args, apply, out)? {
        Ok(prepared) => prepared,
        Err(code) => return Ok(code),
    };
    // The plan stays valid only while no other run changes the heads.
    let _locks = apply.map(|_| lock(&prepared.machines)).transpose()?;
    let plan = compare(&prepared)?;
    if plan.obstacles.is_empty() {
        return then(&prepared, &plan, out);
    }
    out.either(&plan, || plan.to_string())?;
    Ok(ExitCode::from(EXIT_OBSTACLE))
}

fn show_plan(_: &Prepared, plan: &Plan, out: Printer) -> Result<ExitCode, Failure> {
    out.either(plan, || plan.to_string())?;
    Ok(match plan.is_empty() {
        false => ExitCode::from(EXIT_DIFFERENCE),
        true => ExitCode::SUCCESS,
    })
}

fn apply(prepared: &Prepared, plan: &Plan, out: Printer) -> Result<ExitCode, Failure> {
    let mut printed = Ok(());
    let mut progress = |change: &Change| {
        if prepared.tells_progress {
            let text = change.to_string();
            // The changes do not depend on the reader of the output.
            let _ = writeln!(
                std::io::stderr(),
                "{}",
                text.lines().next().unwrap_or_default()
            );
        }
        // A closed output must not change which changes are made.
        if !out.is_json() && printed.is_ok() {
            printed = out.text(&format!("{change}\n"));
        }
    };
    crate::apply(&prepared.machines, plan, &mut progress).map_err(|error| {
        Failure::from_chain(FailureKind::Failed, &error)
            .advise("the changes before it stay; repeat the command when the cause is repaired")
    })?;
    printed?;
    let changed = !plan.changes.is_empty();
    if changed {
        compare_again(prepared)?;
    }
    let told = json!({
        "changed": changed,
        "changes": plan.changes,
        "pools_to_make": plan.pools_to_make,
        "notes": plan.notes,
    });
    out.either(&told, || {
        let notes: String = plan.notes.iter().map(|note| format!("{note}\n")).collect();
        notes
            + &match (&plan.pools_to_make[..], changed) {
                ([], false) => "everything is as the file says already\n".to_owned(),
                ([], true) => "everything is as the file says\n".to_owned(),
                (pools, _) => made_by_hand(pools),
            }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Compares the heads with the file after all changes. Some take a while to become effective.
fn compare_again(prepared: &Prepared) -> Result<(), Failure> {
    // A new leg receives a full copy first, which has no time limit.
    let takes_long =
        |change: &Change| matches!(change, Change::AttachLeg { .. } | Change::AwaitLegs { .. });
    let deadline = Instant::now() + prepared.settles_within;
    loop {
        let mut left = compare(prepared)?;
        left.changes.retain(|change| !takes_long(change));
        left.pools_to_make.clear();
        left.notes.clear();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let message = format!(
                "all changes were made, and the heads still differ from the file: {}",
                left.to_string().trim_end()
            );
            return Err(Failure::new(FailureKind::Failed, message)
                .advise("repair its cause, and repeat the command"));
        }
        std::thread::sleep(SETTLING_POLL);
    }
}

/// The pools that the administrator must create after all other changes.
fn made_by_hand(pools: &[PoolToMake]) -> String {
    let mut text =
        "Create these pools, each on the named head, when the witness also runs:\n".to_owned();
    for pool in pools {
        let _ = writeln!(text, "  {pool}");
    }
    text + "A pool that exists on disks of one head gets a record there instead: `bulkhead pool record-legs POOL`.\n\
            Then apply the file again: Pacemaker is told of them, and starts them.\n"
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::fake::{FakeCluster, FakeHost};

    /// Every command succeeds, but a unit does not run.
    #[test]
    fn unit_not_running_after_apply_is_a_named_failure() {
        let text = include_str!("../../../examples/pair.toml");
        let parsed = appliance::parse(text).expect("well formed");
        let cluster = Arc::new(Mutex::new(FakeCluster::default()));
        let machine = |head: &HeadName| -> Box<dyn crate::host::Host> {
            Box::new(FakeHost::new(head.as_str(), &cluster))
        };
        let heads = parsed.appliance.heads.keys();
        let prepared = Prepared {
            machines: heads.map(|head| (head.clone(), machine(head))).collect(),
            desired: appliance::desired_state(&parsed.appliance, text, &Layout::default()),
            tells_progress: false,
            settles_within: Duration::ZERO,
        };
        let out = Printer::new(true);
        let unit = appliance::plan::HEAD_UNIT;
        cluster.lock().expect("not poisoned").dies = Some(unit.to_owned());
        let planned = compare(&prepared).expect("the heads answer");
        let failure = apply(&prepared, &planned, out).expect_err("it does not run");
        let start = format!("left: enable and start {unit}");
        for part in ["all changes were made", &start] {
            assert!(
                failure.message.contains(part),
                "{part}: {}",
                failure.message
            );
        }
        cluster.lock().expect("not poisoned").dies = None;
        let planned = compare(&prepared).expect("the heads answer");
        apply(&prepared, &planned, out).expect("it runs");
    }
}
