//! `bulkhead drill`: runs drills and prints the report.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use control::{Failure, FailureKind};
use lab::{Lab, LabError, UpOptions};
use output::signals;
use rendering::{Printer, Table};
use serde_json::json;

use drill_verdict::{Clients, Drill, JudgedRound, Report};

use crate::arguments::DrillArgs;
use crate::{DrillError, Options, Progress};

/// A promise was broken.
const EXIT_BROKEN: u8 = 16;

/// Performs the command.
pub fn run(args: &DrillArgs, out: Printer) -> Result<ExitCode, Failure> {
    if args.list {
        list(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = options(args)?;
    clean_up(&options.lab)?;
    out.progress(&format!("seed {}", options.seed));
    let mut tell = |what: Progress<'_>| match what {
        Progress::Lab(line) => out.progress(line),
        Progress::Round(round) => out.progress(&round_line(round)),
        Progress::Skipped(drill, why) => out.progress(&format!("{drill}: skipped: {why}")),
    };
    let report = match crate::run(&options, &mut tell) {
        Ok(report) => report,
        Err(DrillError::Lab(LabError::Missing(missing))) => {
            return lab::command::report_missing("skipped: ", &missing, out);
        }
        Err(error) => return Err(failure(&error)),
    };
    if let Some(file) = &args.report {
        std::fs::write(file, rendering::document(&report))
            .map_err(Failure::of(format!("write {}", file.display())))?;
    }
    out.either(&report, || text(&report))?;
    Ok(match report.is_kept() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_BROKEN),
    })
}

fn options(args: &DrillArgs) -> Result<Options, Failure> {
    let program = std::env::current_exe().map_err(Failure::of("find this program"))?;
    let base = std::path::absolute(&args.labs.dir).map_err(Failure::of("--dir"))?;
    let mut text = match &args.file {
        Some(file) => cluster::appliance_file::read(file)?,
        None => crate::EXAMPLE.to_owned(),
    };
    if let Some(profile) = &args.profile {
        text = crate::with_profile(&text, profile);
    }
    let drills = match args.names.as_slice() {
        [] => crate::run::drills_of(&text, args.pool.as_ref()),
        names => names.to_vec(),
    };
    Ok(Options {
        lab: UpOptions {
            // Next to a lab that a person uses.
            name: Some(format!("{LAB_PREFIX}{}", std::process::id())),
            has_console: false,
            ..UpOptions::new(text, base, program)
        },
        pool: args.pool.clone(),
        drills,
        rounds: args.rounds,
        // One that is typed easily.
        seed: args.seed.unwrap_or_else(|| fastrand::u32(..).into()),
        load: args.load,
        clients: args.clients,
        more_volumes: args.more_volumes,
        budget_s: args.budget,
    })
}

/// Labs of drills are called so, and then by the process that runs them.
const LAB_PREFIX: &str = "drill-";

/// Stops the lab also when this process is terminated, and first the labs of drills that were killed.
fn clean_up(lab: &UpOptions) -> Result<(), Failure> {
    for name in Lab::names(&lab.base) {
        let process = name
            .strip_prefix(LAB_PREFIX)
            .map(|pid| format!("/proc/{pid}"));
        if process.is_some_and(|process| !Path::new(&process).exists()) {
            if let Err(error) = Lab::down(&lab.base, &name) {
                tracing::warn!(%error, name, "a lab of an earlier drill is left");
            }
        }
    }
    let (base, name) = (lab.base.clone(), lab.name.clone().unwrap_or_default());
    signals::stop_after(move || {
        // There may be none yet.
        let _ = Lab::down(&base, &name);
    })
    .map_err(Failure::of("wait for signals"))
}

fn failure(error: &DrillError) -> Failure {
    let kind = match error {
        DrillError::File(_) | DrillError::Lab(LabError::File(_)) => FailureKind::Usage,
        _ => FailureKind::Failed,
    };
    Failure::from_chain(kind, error)
}

fn list(out: Printer) -> Result<(), Failure> {
    let one = |drill: &Drill| json!({"name": drill, "about": drill.about(), "expectation": drill.expectation()});
    let all: Vec<_> = Drill::ALL.iter().map(one).collect();
    out.either(&all, || {
        let mut table = Table::new(&["DRILL", "WHAT HAPPENS"]);
        for drill in Drill::ALL {
            table.row([drill.to_string(), drill.about().to_owned()]);
        }
        table.render()
    })
}

/// One round on one line.
fn round_line(judged: &JudgedRound) -> String {
    let JudgedRound { round, broken } = judged;
    let mut line = format!("{} (seed {}): {}", round.drill, round.seed, round.fault);
    match round.pause_s() {
        Some(pause_s) => {
            let _ = write!(line, "; pause {pause_s:.2} s");
        }
        None => line.push_str("; no I/O again"),
    }
    for mark in &round.timeline {
        let _ = write!(line, ", {} {:.2}", mark.step.name(), mark.after_s);
    }
    for one in broken {
        let _ = write!(line, "\n  broken: {one}");
    }
    line
}

fn text(report: &Report) -> String {
    let mut rows = report.table().into_iter();
    let headings = rows.next().unwrap_or_default();
    let mut table = Table::new(&headings.each_ref().map(String::as_str));
    for row in rows {
        table.row(row);
    }
    format!(
        "\nappliance {}, profile {}, seed {}{}{}{}\n{}\n{}",
        report.appliance,
        report.profile,
        report.seed,
        match report.clients {
            Clients::Pinging => "",
            Clients::Patient => ", patient clients",
        },
        match report.more_volumes {
            0 => String::new(),
            count => format!(", {count} more volumes"),
        },
        if report.load {
            ", all processors busy"
        } else {
            ""
        },
        table.render(),
        report.details()
    )
}
