//! `appliance maintenance`, `appliance shutdown` and `appliance start`.

use std::path::Path;

use control::{Failure, FailureKind};
use rendering::Printer;
use serde_json::json;
use units::HeadName;

use super::{lock, machines, refuse_unknown_heads};
use crate::appliance_file;
use crate::arguments::{CheckArgs, MaintenanceArgs, ShutdownArgs, Switch, Transports};
use crate::standby::{HeldPool, Outcome, Planned, StandbyError, Step};

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
        E::NoCluster | E::NoQuorum { .. } | E::Unreachable(..) | E::Situation(_) => {
            FailureKind::Unreachable
        }
        E::NoOtherHead(_) | E::PowerOff(_) | E::Held(_) => FailureKind::Unavailable,
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
        E::NoQuorum { .. } => failure.advise(
            "nothing was changed; reconnect the networks of the heads and repeat the command, or run it on a head with quorum: \
             `bulkhead status` shows which",
        ),
        E::NoOtherHead(_) => failure.advise(
            "nothing was changed; repair the other head, or stop these pools with --stop-pools",
        ),
        E::Held(pools) => {
            let mut commands: Vec<String> = pools.iter().map(HeldPool::command).collect();
            commands.dedup();
            failure.advise(format!(
                "the heads run; this lets the cluster start the pools: `{}`",
                commands.join("` and `")
            ))
        }
        // The sentence contains the instructions.
        E::PowerOff(_) => failure,
        E::StillStandby { .. } => {
            failure.advise("`bulkhead appliance start --ssh` lets the heads serve again")
        }
        E::StillActive { .. } | E::NotAway { .. } | E::NotServed { .. } => failure.advise(
            "`crm_mon -1` and `bulkhead status` show the reason; repeat the command when it is repaired",
        ),
        _ => failure.advise("repeat the command when the cause is repaired"),
    }
}

pub(super) fn maintenance(args: &MaintenanceArgs, out: Printer) -> Result<(), Failure> {
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

pub(super) fn shut_down(args: &ShutdownArgs, out: Printer) -> Result<(), Failure> {
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

pub(super) fn start(args: &CheckArgs, out: Printer) -> Result<(), Failure> {
    let then = |planned: &mut Planned<'_>| planned.start().map_err(|error| standby_failure(&error));
    let sentence = |outcome| match outcome {
        Outcome::Already => "all pools are served already".to_owned(),
        Outcome::Changed => "all pools are served".to_owned(),
    };
    absence((&args.file, &args.ways), out, &then, &sentence)
}
