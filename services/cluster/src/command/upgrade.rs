//! `appliance upgrade`, and the description of the formats in a package.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use appliance::formats::{FormatTable, own_formats};
use appliance::{Appliance, Code, Facts, Finding, Parsed, Severity};
use control::failure::chain;
use control::{Failure, FailureKind};
use rendering::Printer;
use serde_json::json;
use units::HeadName;

use super::{
    EXIT_DIFFERENCE, EXIT_ERRORS, EXIT_OBSTACLE, HeadResponses, all_hosts, facts, lock,
    query_heads, refuse_unknown_heads, report,
};
use crate::Depth;
use crate::appliance_file;
use crate::arguments::UpgradeArgs;
use crate::host::{Host, Hosts, Local, must};
use crate::process::Invocation;
use crate::upgrade::decide::{Surprise, Wanted, order};
use crate::upgrade::install::Source;
use crate::upgrade::observe::observe;
use crate::upgrade::run::{Limits, Stopped, Upgrade, UpgradeError};

/// Prints the formats of this version, and the features of the library that it loads.
pub(super) fn print_formats(out: Printer) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(Failure::of("find this binary"))?;
    let table = own_table(&program);
    out.text(&(serde_json::to_string_pretty(&table).unwrap_or_default() + "\n"))
}

/// The description of this version. Another process loads the library.
fn own_table(program: &Path) -> FormatTable {
    let invocation = Invocation::new(&program.to_string_lossy(), &["appliance", "facts"]);
    let lines = Local::default().run(&invocation);
    let lines = lines.map(|output| output.text()).unwrap_or_default();
    let features = lines.lines().filter_map(|line| {
        let feature = line.strip_prefix("zfs_feature\t")?;
        Some(feature.to_owned())
    });
    own_formats(features.collect())
}

/// The input of a run.
struct Prepared {
    parsed: Parsed,
    machines: Hosts,
    source: Source,
    wanted: Wanted,
    program: PathBuf,
}

fn prepare(args: &UpgradeArgs) -> Result<Prepared, Failure> {
    let text = appliance_file::read(&args.of.file)?;
    // With the sentence and the line of the mistake.
    appliance_file::load(&args.of.file)?;
    let parsed = appliance::parse(&text).map_err(|finding| Failure::usage(finding.what))?;
    let appliance = &parsed.appliance;
    refuse_unknown_heads(appliance, &args.of.ways)?;
    if appliance.heads.len() < 2 {
        let message =
            "the appliance has one head: no other head can serve its pools during the upgrade";
        return Err(Failure::new(FailureKind::Unavailable, message).advise(
            "install the package, and restart the servers: clients see one pause (\"One head\" in the guide to upgrades)",
        ));
    }
    let machines = all_hosts(appliance, &args.of.ways)?;
    let source = source(args, &machines)?;
    let wanted = Wanted {
        program: source.program().to_owned(),
        package: source.package().map(str::to_owned),
        downgrade: args.downgrade,
    };
    let program = match &args.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(Failure::of("find this binary"))?,
    };
    Ok(Prepared {
        parsed,
        machines,
        source,
        wanted,
        program,
    })
}

fn source(args: &UpgradeArgs, machines: &Hosts) -> Result<Source, Failure> {
    let refused = |error| Failure::from_chain(FailureKind::Usage, &error);
    if let (Some(command), Some(to)) = (&args.install_command, &args.to) {
        return Source::command(command, to).map_err(refused);
    }
    if !args.from_repository {
        return Source::packages(&Local::default(), &args.package).map_err(refused);
    }
    let mut found: Option<(&HeadName, Source)> = None;
    for (head, machine) in machines {
        let source = Source::repository(machine.as_ref(), args.to.as_deref()).map_err(|error| {
            let message = format!("{head}: {}", chain(&error));
            Failure::new(FailureKind::NotFound, message).advise(
                "see /etc/apt/sources.list.d on that head, or copy a package with --package",
            )
        })?;
        match &found {
            Some((other, same)) if same.package() != source.package() => {
                let message = format!(
                    "the repository of {other} has {}, that of {head} has {}",
                    same.package().unwrap_or_default(),
                    source.package().unwrap_or_default()
                );
                return Err(Failure::new(FailureKind::Exists, message)
                    .advise("name a version that both have, with --to"));
            }
            Some(_) => {}
            None => found = Some((head, source)),
        }
    }
    found
        .map(|(_, source)| source)
        .ok_or_else(|| Failure::usage("the file has no heads"))
}

/// The remarks about formats, or the refusal of a downgrade.
fn compare_formats(
    args: &UpgradeArgs,
    prepared: &Prepared,
    facts: &Facts,
) -> Result<Vec<String>, Failure> {
    let own = own_table(&prepared.program);
    let to = prepared.wanted.mark();
    let Some(other) = prepared.source.formats(&Local::default()) else {
        let unknown = format!("the formats of {to} are not known before it is installed");
        return match args.downgrade && !args.yes {
            true => Err(unchecked(unknown)),
            false => Ok(vec![unknown]),
        };
    };
    let exchanged = own.not_exchanged_with(&other);
    if prepared.parsed.appliance.has_legs() && !exchanged.is_empty() {
        let message = format!(
            "heads with {} and heads with {} do not exchange: {}; pools with legs on several heads would lose them during the upgrade",
            own.version,
            other.version,
            exchanged.join(", ")
        );
        return Err(Failure::new(FailureKind::Unsupported, message)
            .advise("stop the appliance (`bulkhead appliance shutdown --ssh`), install on all heads, start it"));
    }
    if !args.downgrade {
        let refusals = own.refusals_of(&other);
        return Ok(match refusals.is_empty() {
            true => vec![format!("{} reads all formats of {to}", own.version)],
            false => refusals,
        });
    }
    for (pool, known) in &facts.pools {
        let unsupported = other.unsupported(&known.active_features);
        if !unsupported.is_empty() {
            let message = format!(
                "pool {pool} uses features that the library of {} does not support: {}",
                other.version,
                unsupported.join(", ")
            );
            return Err(Failure::new(FailureKind::Unsupported, message).advise(
                "an active feature cannot be removed from a pool: stay with this version",
            ));
        }
    }
    let refusals = other.refusals_of(&own);
    match refusals.is_empty() || args.yes {
        true => Ok(refusals),
        false => Err(unchecked(refusals.join("; "))),
    }
}

fn unchecked(message: String) -> Failure {
    Failure::new(FailureKind::NeedsConfirmation, message).advise(
        "nothing was changed; \"Going back\" in the guide to upgrades lists how to remove such data; then repeat it with --yes",
    )
}

/// A finding in one line.
fn in_short(finding: &Finding) -> String {
    format!("[{}] {}: {}", finding.code, finding.place.key, finding.what)
}

/// The findings that stop an upgrade: errors, and warnings that were not there before. Versions differ on the way.
fn new_findings(findings: &[Finding], before: &BTreeSet<String>) -> Vec<String> {
    let is_new = |finding: &&Finding| match finding.severity {
        Severity::Error => true,
        Severity::Warning => {
            let is_expected = matches!(finding.code, Code::VersionsDiffer | Code::FeaturesDiffer);
            !is_expected && !before.contains(&in_short(finding))
        }
        Severity::Hint => false,
    };
    findings.iter().filter(is_new).map(in_short).collect()
}

/// Upgrades the heads of an appliance.
pub(super) fn upgrade(args: &UpgradeArgs, out: Printer) -> Result<ExitCode, Failure> {
    let prepared = prepare(args)?;
    let _locks = match args.dry_run {
        true => Vec::new(),
        false => lock(&prepared.machines)?,
    };
    let answers = query_heads(&prepared.parsed.appliance, &args.of.ways, Depth::Quick);
    let known = facts(&answers);
    let findings = appliance::check(&prepared.parsed, &known);
    let (observed, _) = observe(
        &prepared.machines,
        &prepared.parsed.appliance,
        &prepared.program,
    )
    .map_err(|error| state_failure(&error))?;
    let heads = order(&prepared.wanted, &observed);
    let is_begun = observed
        .heads
        .values()
        .any(|state| state.as_ref().is_ok_and(|state| state.mark.is_some()));
    let worst = appliance::check::worst(&findings);
    // A head that an earlier run has stopped is verified later.
    if worst == Some(Severity::Error) && !is_begun {
        report(&args.of.file, &findings, &answers, out)?;
        return Ok(ExitCode::from(EXIT_ERRORS));
    }
    let notes = match heads.is_empty() {
        true => Vec::new(),
        false => compare_formats(args, &prepared, &known)?,
    };
    let before = findings.iter().map(in_short).collect();
    if args.dry_run {
        return show(&prepared, &observed.summary(), &heads, &notes, out);
    }
    perform(args, &prepared, &before, &notes, out)
}

/// Prints the order, the steps, and the remarks.
fn show(
    prepared: &Prepared,
    state: &[String],
    heads: &[HeadName],
    notes: &[String],
    out: Printer,
) -> Result<ExitCode, Failure> {
    let version = prepared.wanted.mark();
    let document = json!({"version": version, "heads": heads, "state": state, "notes": notes});
    out.either(&document, || {
        let mut text = String::new();
        for line in state {
            text += &format!("{line}\n");
        }
        for (at, head) in heads.iter().enumerate() {
            text += &format!(
                "{}. {head}: check, move its pools away, stop its services, install {version}, start, verify, serve again\n",
                at + 1
            );
        }
        for note in notes {
            text += &format!("note: {note}\n");
        }
        text + &match heads.is_empty() {
            true => format!("all heads run {version} already\n"),
            false => format!("{}. each pool moves to its home\n", heads.len() + 1),
        }
    })?;
    Ok(match heads.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_DIFFERENCE),
    })
}

fn perform(
    args: &UpgradeArgs,
    prepared: &Prepared,
    before: &BTreeSet<String>,
    notes: &[String],
    out: Printer,
) -> Result<ExitCode, Failure> {
    let appliance: &Appliance = &prepared.parsed.appliance;
    let mut steps = Vec::new();
    let mut progress = |text: &str| {
        if !out.is_json() {
            // The steps do not depend on the reader of the output.
            let _ = out.text(&format!("{text}\n"));
        }
        steps.push(text.to_owned());
    };
    for note in notes {
        progress(&format!("note: {note}"));
    }
    let install = |_: &HeadName, machine: &dyn Host| {
        let installed = prepared.source.install(machine, args.downgrade);
        installed.map_err(|error| chain(&error))
    };
    let verify = |head: &HeadName| {
        let answers: HeadResponses = query_heads(appliance, &args.of.ways, Depth::Quick);
        let findings = appliance::check(&prepared.parsed, &facts(&answers));
        let mut wrong = new_findings(&findings, before);
        wrong.extend(live_formats(prepared, head)?);
        Ok(wrong)
    };
    let mut upgrade = Upgrade {
        machines: &prepared.machines,
        appliance,
        program: &prepared.program,
        wanted: &prepared.wanted,
        install: &install,
        verify: &verify,
        limits: Limits::of(appliance, Duration::from_secs(args.legs_within)),
        progress: &mut progress,
    };
    let result = upgrade.run();
    let version = prepared.wanted.mark();
    match result {
        Ok(performed) => {
            let document = json!({"changed": performed > 0, "version": version, "steps": steps});
            out.either(&document, || match performed {
                0 => format!("all heads run {version} already, and all pools are at home\n"),
                _ => format!("all heads run {version}, and all pools are at home\n"),
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Err(UpgradeError::State(error)) => Err(state_failure(&error)),
        Err(UpgradeError::Stopped(stopped)) => show_stop(&stopped, version, &steps, out),
    }
}

/// A head with another form of the protocols between heads, found after the install and before it serves.
fn live_formats(prepared: &Prepared, head: &HeadName) -> Result<Vec<String>, String> {
    if !prepared.parsed.appliance.has_legs() {
        return Ok(Vec::new());
    }
    let program = prepared.program.to_string_lossy();
    let mut tables = Vec::new();
    for (name, machine) in &prepared.machines {
        let invocation = Invocation::new(&program, &["appliance", "formats"]);
        // A version without the command has no description.
        let output = must(machine.as_ref(), &invocation);
        let table = output
            .ok()
            .and_then(|output| FormatTable::parse(&output.stdout));
        tables.push((name, table));
    }
    let own = tables.iter().find(|(name, _)| *name == head);
    let Some((_, Some(own))) = own else {
        return Ok(Vec::new());
    };
    let others = tables.iter().filter(|(name, _)| *name != head);
    let wrong = others.filter_map(|(name, table)| {
        let differing = own.not_exchanged_with(table.as_ref()?);
        (!differing.is_empty()).then(|| {
            format!(
                "{head} and {name} do not exchange: {}",
                differing.join(", ")
            )
        })
    });
    Ok(wrong.collect())
}

/// Prints why an upgrade stopped, the state of each head, and the next command.
fn show_stop(
    stopped: &Stopped,
    version: &str,
    steps: &[String],
    out: Printer,
) -> Result<ExitCode, Failure> {
    let found = stopped.surprise.to_string();
    let next = match &stopped.surprise {
        Surprise::OtherUpgrade(_, other) => format!(
            "complete the upgrade to {other} with the same command as before, or go back: \
             `bulkhead appliance upgrade --package OLD.deb --downgrade`"
        ),
        Surprise::Newer(..) => "to go back to the older version, add --downgrade".to_owned(),
        _ => "repair the cause, and repeat the command: it continues with that head. To go back: \
             `bulkhead appliance upgrade --package OLD.deb --downgrade`"
            .to_owned(),
    };
    let document = json!({
        "changed": !steps.is_empty(),
        "version": version,
        "steps": steps,
        "stopped": found,
        "heads": stopped.heads,
        "next": next,
    });
    out.either(&document, || {
        let heads: String = stopped
            .heads
            .iter()
            .map(|head| format!("  {head}\n"))
            .collect();
        format!("stopped: {found}\nThe heads now:\n{heads}next: {next}\n")
    })?;
    Ok(ExitCode::from(EXIT_OBSTACLE))
}

fn state_failure(error: &crate::upgrade::observe::StateError) -> Failure {
    Failure::from_chain(FailureKind::Unreachable, error).advise(
        "run it as root on a head of the cluster, or with --ssh; `bulkhead appliance start --ssh` starts a stopped cluster",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(code: Code, severity: Severity, what: &str) -> Finding {
        Finding {
            code,
            severity,
            place: appliance::Place {
                key: "heads.left".to_owned(),
                line: None,
            },
            what: what.to_owned(),
            why: "",
            mend: String::new(),
        }
    }

    #[test]
    fn only_errors_and_new_warnings_stop_an_upgrade() {
        let old = finding(Code::DiskMissing, Severity::Warning, "known before");
        let findings = [
            old.clone(),
            finding(Code::DiskMissing, Severity::Warning, "new"),
            finding(Code::DiskMissing, Severity::Error, "an error"),
            finding(
                Code::VersionsDiffer,
                Severity::Warning,
                "expected on the way",
            ),
            finding(Code::DiskMissing, Severity::Hint, "a hint"),
        ];
        let found = new_findings(&findings, &[in_short(&old)].into());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].ends_with(": new") && found[1].ends_with(": an error"));
    }
}
