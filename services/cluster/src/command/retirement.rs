//! `appliance retire`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use appliance::{Appliance, Facts, Severity, Shortened};
use control::failure::chain;
use control::{Failure, FailureKind};
use rendering::Printer;
use serde::Serialize;
use units::PoolName;

use super::{
    EXIT_OBSTACLE, HeadResponses, Settings, compare, compare_again, lock, observe, prepare_text,
    refuse_changed, report,
};
use crate::appliance_file;
use crate::arguments::RetireArgs;
use crate::retire::{self, Retired};

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

pub(super) fn retire_pool(args: &RetireArgs, out: Printer) -> Result<ExitCode, Failure> {
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
