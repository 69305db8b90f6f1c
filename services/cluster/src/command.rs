//! `bulkhead appliance`: reads the appliance file, queries the reachable heads, and prints the findings, the plan and
//! the changes.

mod absence;
mod retirement;
mod upgrade;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use appliance::facts::HeadFacts;
use appliance::plan::{Actual, Change, DesiredState, PoolToMake};
use appliance::render::pool_id;
use appliance::{
    Appliance, CheckReport, Facts, Finding, HeadAsked, Layout, Parsed, Plan, Severity, reference,
};
use control::failure::chain;
use control::{Failure, FailureKind};
use rendering::Printer;
use serde_json::json;
use units::{HeadName, PoolName};

use crate::arguments::{ApplianceCommand, ApplyArgs, ChangeArgs, CheckArgs, Transport, Transports};
use crate::host::{Host, Hosts, Local, Lock, LockError, Ssh};
use crate::situation::{PoolStart, Situation};
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
        ApplianceCommand::Retire(args) => return retirement::retire_pool(args, out),
        ApplianceCommand::RotateKey(args) => rotate_key(args, out)?,
        ApplianceCommand::Maintenance(args) => absence::maintenance(args, out)?,
        ApplianceCommand::Shutdown(args) => absence::shut_down(args, out)?,
        ApplianceCommand::Start(args) => absence::start(args, out)?,
        ApplianceCommand::Upgrade(args) => return upgrade::upgrade(args, out),
        ApplianceCommand::Formats => upgrade::print_formats(out)?,
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
        let addresses = appliance.addresses_of(name).into_iter();
        let addresses: Vec<String> = addresses
            .filter(|_| ways.ssh)
            .map(|address| format!("root@{address}"))
            .collect();
        let machine: Box<dyn Host> = match (told.map(|one| &one.way), addresses.is_empty()) {
            (Some(Transport::Ssh(destination)), _) => Box::new(Ssh::new(vec![destination.clone()])),
            (Some(Transport::Run(words)), _) => Box::new(Local {
                prefix: words.clone(),
            }),
            (None, _) if own_name == name.as_str() => Box::new(Local::default()),
            (None, false) => Box::new(Ssh::new(addresses)),
            (None, true) => {
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
                    facts.unreached = machine.unreached();
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
        let (why, unknown, unreached) = match asked {
            HeadResponse::Yes(facts) => (None, Some(unknown(facts)), facts.unreached.clone()),
            HeadResponse::No(why) => (Some(why.clone()), None, Vec::new()),
        };
        let asked = unknown.is_some();
        let asked = HeadAsked {
            asked,
            why,
            unknown,
            unreached,
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
        for address in &head.unreached {
            let _ = writeln!(
                text,
                "{name}: not reached over {address}; another address was used"
            );
        }
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
    appliance: Appliance,
    desired: DesiredState,
    /// Each change is printed on standard error.
    tells_progress: bool,
    /// Longest time until a started unit runs.
    settles_within: Duration,
}

/// Options of a change.
#[derive(Clone, Copy, Debug, Default)]
struct Settings {
    in_use: bool,
    stale_legs: bool,
    tells_progress: bool,
}

/// Checks `text` of the file, and computes the desired state; the exit code if the check failed, which was reported.
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
        appliance: parsed.appliance,
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

/// Another run, or an editor, may have changed the file since it was read. A pipe has no text any more.
fn refuse_changed(file: &Path, text: &str) -> Result<(), Failure> {
    let is_file = std::fs::metadata(file).is_ok_and(|found| found.is_file());
    if !is_file || appliance_file::read(file)? == text {
        return Ok(());
    }
    let message = format!("{} was changed during this command", file.display());
    Err(Failure::new(FailureKind::Busy, message).advise("repeat the command"))
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

fn compare(prepared: &Prepared) -> Result<Plan, Failure> {
    Ok(appliance::plan(&prepared.desired, &observe(prepared)?))
}

fn observe(prepared: &Prepared) -> Result<Actual, Failure> {
    crate::observe(&prepared.machines, &prepared.desired)
        .map_err(|error| Failure::from_chain(FailureKind::Failed, &error))
}

/// Plans the changes for the file and runs `then`, unless there is an obstacle.
fn with_plan(
    args: &ChangeArgs,
    apply: Option<&ApplyArgs>,
    out: Printer,
    then: fn(&Prepared, &Plan, Printer) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let text = appliance_file::read(&args.file)?;
    let settings = Settings {
        in_use: apply.is_some_and(|args| args.in_use),
        stale_legs: apply.is_some_and(|args| args.stale_legs),
        tells_progress: apply.is_some_and(|args| args.progress),
    };
    let prepared = match prepare_text(args, &text, settings, out)? {
        Ok(prepared) => prepared,
        Err(code) => return Ok(code),
    };
    // The plan stays valid only while no other run changes the heads.
    let _locks = apply.map(|_| lock(&prepared.machines)).transpose()?;
    if apply.is_some() {
        refuse_changed(&args.file, &text)?;
    }
    let mut plan = compare(&prepared)?;
    let stale = crate::stale_disks::notes(
        &prepared.machines,
        &prepared.desired.program,
        &prepared.appliance,
    );
    plan.notes.extend(stale);
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
    refuse_unserved(prepared, plan, changed)?;
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

/// Fails if the cluster could start a pool of the file on no head. After changes it allows time for the start.
fn refuse_unserved(prepared: &Prepared, plan: &Plan, changed: bool) -> Result<(), Failure> {
    let is_to_make = |pool: &PoolName| plan.pools_to_make.iter().any(|one| one.pool == *pool);
    let pools: Vec<&PoolName> = prepared
        .appliance
        .pools
        .keys()
        .filter(|pool| !is_to_make(pool))
        .collect();
    let deadline = Instant::now() + prepared.settles_within;
    let failed = loop {
        let mut situations = prepared.machines.values();
        let situation = situations.find_map(|machine| Situation::look(machine.as_ref()).ok());
        // Without Pacemaker, such as before the first start of the heads, no pool is expected.
        let Some(situation) = situation else {
            return Ok(());
        };
        let starts: Vec<PoolStart> = pools.iter().map(|pool| situation.start_of(pool)).collect();
        let is_starting = starts.contains(&PoolStart::Pending);
        if changed && is_starting && Instant::now() < deadline {
            std::thread::sleep(SETTLING_POLL);
            continue;
        }
        let failed = pools
            .iter()
            .zip(starts)
            .filter_map(|(pool, start)| match start {
                PoolStart::Failed(why) => Some((*pool, why)),
                PoolStart::Served | PoolStart::Stopped | PoolStart::Pending => None,
            });
        break failed.collect::<Vec<_>>();
    };
    let Some((first, _)) = failed.first() else {
        return Ok(());
    };
    let reasons: Vec<String> = failed
        .iter()
        .map(|(pool, why)| format!("{pool} ({why})"))
        .collect();
    let message = format!(
        "the heads match the file, and no head serves {}",
        reasons.join(", ")
    );
    Err(Failure::new(FailureKind::Failed, message).advise(format!(
        "repair the cause, then `crm_resource --cleanup --resource {}`; `bulkhead head alerts` shows the state",
        pool_id(first)
    )))
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
            appliance: parsed.appliance.clone(),
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
