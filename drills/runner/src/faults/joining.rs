//! A drill of several acts: a third head is added to two that serve, by the steps that the guide names, typed on a head. Then the
//! power of the serving head is pulled, and later, when the third one serves, that of the third one.

use std::time::Duration;

use appliance::Appliance;
use cluster::host::{Local, write_file};
use cluster::process::Invocation;
use lab::{Node, Power};
use units::HeadName;

use super::heads::hand_over;
use super::legs::{WITNESS_PROCESSES, signal};
use crate::environment::{Environment, LogLengths};
use crate::error::DrillError;
use crate::fault::Fault;
use crate::third;
use drill_verdict::{Act, Kind, Round, Timestamp};

/// The appliance file on a head.
const FILE: &str = appliance::plan::APPLIANCE_PATH;
/// Its permissions, which `apply` also sets.
const FILE_MODE: u32 = 0o644;
/// How long `bulkhead appliance apply` may take: leg-servers are restarted, a cluster grows, members agree, legs are attached.
const COMMAND_LIMIT: Duration = Duration::from_secs(240);
/// The number of reports of it.
const APPLIED_MAX: u32 = 3;
/// Time limit for clients to get a reply when a head is lost.
const RETURN_LIMIT: Duration = Duration::from_secs(60);
/// Exit codes of `bulkhead appliance` for warnings and for pending changes.
const WARNINGS: i32 = 11;
const DIFFERENCE: i32 = 13;

/// Adds the third head, then pulls the power of the one that serves.
///
/// # Errors
///
/// A step of the guide is refused, or the lab does not come to rest after it.
pub fn strike(
    environment: &mut Environment,
    head: &HeadName,
    rng: &mut fastrand::Rng,
) -> Result<Fault, DrillError> {
    let heads = environment.lab.heads();
    let typist = heads[rng.usize(..heads.len())].clone();
    let (begun, ends) = (Timestamp::now(), environment.log_lengths()?);
    let mut complaints = add(environment, &typist)?;
    let serves = environment.settle()?;
    let heads = environment.lab.heads();
    let (_, fenced) = environment.reported_since(&ends, &heads, begun);
    let fenced = fenced.iter();
    complaints.extend(fenced.map(|one| format!("{one} was powered off when a head was added")));
    if serves != *head {
        complaints.push(format!("{serves} took the pool when a head was added"));
    }
    let what = format!("a third head is added, by commands on {typist}");
    let joined = act(environment, what, Kind::Hidden, begun);
    let mut fault = Fault::of_head(
        format!("{}; {serves} loses its power", description(&joined)),
        &serves,
    );
    environment.lab.power(&serves, Power::Off)?;
    fault.complaints = complaints;
    fault.acts.push(joined);
    Ok(fault)
}

/// The steps of the guide, and the violations.
fn add(environment: &mut Environment, typist: &HeadName) -> Result<Vec<String>, DrillError> {
    let mut complaints = Vec::new();
    let said = environment.bulkhead(&third::name(), &["leg-server", "fingerprint"])?;
    let fingerprint = said.split_whitespace().next_back().unwrap_or_default();
    let two = environment.lab.appliance().clone();
    let text = third::joined(&two, fingerprint)?;
    let machine = Local {
        prefix: environment.lab.enter(&Node::Head(typist.clone()))?,
    };
    write_file(&machine, FILE.as_ref(), text.as_bytes(), FILE_MODE)
        .map_err(DrillError::step("write the file of three heads"))?;
    run_guide_step(environment, typist, "check", &[0, WARNINGS])?;
    run_guide_step(environment, typist, "plan", &[DIFFERENCE])?;
    // From before the first change on it is seen whether a server opens the third machine's disks.
    environment.has_been_set_up(&text)?;
    for number in 1.. {
        match run_guide_step(environment, typist, "apply", &[0]) {
            Ok(()) => break,
            Err(error) if number == APPLIED_MAX => return Err(error),
            Err(error) => complaints.push(error.to_string()),
        }
    }
    if let Err(error) = run_guide_step(environment, typist, "plan", &[0]) {
        complaints.push(error.to_string());
    }
    stop_witness(environment, &two)?;
    Ok(complaints)
}

/// The guide removes it afterwards.
fn stop_witness(environment: &Environment, two: &Appliance) -> Result<(), DrillError> {
    let ends = [two.witness.is_some(), two.has_voting_witness()];
    let ends = WITNESS_PROCESSES.into_iter().zip(ends);
    for (program, _) in ends.filter(|(_, ends)| *ends) {
        // A killed process is started again by its service manager.
        signal(environment, &Node::Witness, "STOP", program)?;
    }
    Ok(())
}

/// `bulkhead appliance VERB --ssh`, as a person types it; it has to end with one of these codes.
fn run_guide_step(
    environment: &mut Environment,
    head: &HeadName,
    verb: &str,
    codes: &[i32],
) -> Result<(), DrillError> {
    let words = ["appliance", verb, "--ssh"];
    let command = Invocation::new("bulkhead", &words).within(COMMAND_LIMIT);
    let output = environment.lab.exec(&Node::Head(head.clone()), &command)?;
    environment.client.listen(Duration::ZERO)?;
    match codes.contains(&output.code) {
        true => Ok(()),
        false => Err(DrillError::Refused {
            step: format!("`bulkhead {}`", words.join(" ")),
            head: head.clone(),
            words: format!(
                "it exits with {}: {} {}",
                output.code,
                output.text().trim(),
                output.complaint()
            ),
        }),
    }
}

/// Has the third head serve, and pulls its power.
///
/// # Errors
///
/// The lab does not settle, or a command in it fails.
pub fn lose_third(environment: &mut Environment, round: &mut Round) -> Result<(), DrillError> {
    let third = third::name();
    let serves = environment.settle()?;
    if serves != third {
        let ends = environment.log_lengths()?;
        let begun = hand_over(environment, &serves, &third)?.at;
        environment.settle()?;
        check_no_other_fence(environment, round, &ends, begun, None);
        let what = format!("the pool is moved from {serves} to {third}");
        let moved = act(environment, what, Kind::Move, begun);
        note(round, moved);
    }
    let ends = environment.log_lengths()?;
    let begun = Timestamp::now();
    environment.lab.power(&third, Power::Off)?;
    let is_over = |environment: &Environment| {
        let serving = environment.serving().ok().flatten();
        let is_elsewhere = serving.is_some_and(|head| head != third);
        is_elsewhere && environment.client.seen.has_passed(begun)
    };
    let is_back = environment.wait_until(RETURN_LIMIT, is_over)?;
    let mut lost = act(
        environment,
        format!("{third} loses its power"),
        Kind::Crash,
        begun,
    );
    lost.pause_s = lost.pause_s.filter(|_| is_back);
    note(round, lost);
    environment.settle()?;
    check_no_other_fence(environment, round, &ends, begun, Some(&third));
    round.double_imports.extend(environment.watch.findings());
    Ok(())
}

/// No head but `lost` is powered off.
fn check_no_other_fence(
    environment: &Environment,
    round: &mut Round,
    ends: &LogLengths,
    begun: Timestamp,
    lost: Option<&HeadName>,
) {
    let (_, fenced) = environment.reported_since(ends, &environment.lab.heads(), begun);
    let others = fenced.iter().filter(|one| Some(*one) != lost);
    let complaints = others.map(|one| format!("{one} was powered off without need"));
    round.complaints.extend(complaints);
}

/// The observations of clients since its start.
fn act(environment: &Environment, what: String, kind: Kind, begun: Timestamp) -> Act {
    let pauses = environment.client.seen.pauses(begun);
    let pauses = pauses.values().map(|pause| pause.seconds);
    Act {
        what,
        kind,
        pause_s: pauses.max_by(f64::total_cmp),
    }
}

fn description(act: &Act) -> String {
    match act.pause_s {
        Some(pause_s) => format!("{} (pause {pause_s:.2} s)", act.what),
        None => format!("{} (no I/O again)", act.what),
    }
}

fn note(round: &mut Round, act: Act) {
    round.fault.push_str(&format!("; {}", description(&act)));
    round.acts.push(act);
}
