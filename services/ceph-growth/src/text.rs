//! The plan as text.

use std::fmt::Write as _;

use control::words::bytes;
use growth::plan::{Disk, Figures, Plan, StagePlan};
use growth::progress::{DiskProgress, Progress};
use growth::rates::{Bound, Hours};
use rendering::{Table, harmless};

/// Disks that are shown without `--all`.
const DISKS_SHOWN: usize = 10;

fn dash() -> String {
    "-".to_owned()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn hours(hours: f64) -> String {
    match hours {
        hours if hours >= 100.0 => format!("{hours:.0} h"),
        hours if hours >= 1.0 || hours == 0.0 => format!("{hours:.1} h"),
        hours => format!("{:.1} min", hours * 60.0),
    }
}

/// Renders a plan.
pub fn plan(plan: &Plan, all: bool) -> String {
    let mut text = format!(
        "{} disks become {} (epoch {} of cluster {})\n\n",
        plan.disks_before,
        plan.disks_after,
        plan.epoch,
        harmless(&plan.fsid)
    );
    text.push_str(&summary(plan));
    text.push_str(&bounds(&plan.at_once.hours));
    text.push_str(&stages(plan));
    text.push_str(&disks(plan, all));
    text.push_str(&over_full(plan));
    for note in &plan.notes {
        let _ = writeln!(text, "note: {}", harmless(note));
    }
    if !plan.notes.is_empty() {
        text.push('\n');
    }
    text.push_str(&commands(plan));
    text
}

fn summary(plan: &Plan) -> String {
    let staged = match plan.stages.len() {
        1 => ">IN 1 STAGE".to_owned(),
        stages => format!(">IN {stages} STAGES"),
    };
    let mut table = Table::new(&["", ">AT ONCE", &staged, ""]);
    let row = |table: &mut Table, name: &str, of: &dyn Fn(&Figures) -> String, more: String| {
        table.row([name.to_owned(), of(&plan.at_once), of(&plan.staged), more]);
    };
    let figures = &plan.at_once;
    row(
        &mut table,
        "copies that move",
        &|figures: &Figures| percent(figures.copies_moved_share),
        format!(
            "of {}; at least {} must",
            figures.copies,
            percent(plan.ideal_share)
        ),
    );
    row(
        &mut table,
        "bytes that move",
        &|figures: &Figures| bytes(figures.bytes_moved),
        format!("of {}", bytes(figures.bytes)),
    );
    row(
        &mut table,
        "groups touched",
        &|figures: &Figures| percent(figures.groups_touched_share),
        format!("of {}: objects of which a copy moves", figures.groups),
    );
    if plan.at_once.hours.expected.is_some() {
        let expected = |figures: &Figures| figures.hours.expected.map_or_else(dash, hours);
        row(
            &mut table,
            "expected",
            &expected,
            "at the measured rate".to_owned(),
        );
    }
    let mut text = table.render();
    let _ = writeln!(
        text,
        "\nmean fill {} before, {} after\n",
        percent(plan.mean_fill_before),
        percent(plan.mean_fill_after)
    );
    text
}

fn bounds(found: &Hours) -> String {
    let rows: [(&str, &Option<Bound>); 3] = [
        ("disk", &found.disk),
        ("network", &found.network),
        ("journal", &found.journal),
    ];
    if rows.iter().all(|(_, bound)| bound.is_none()) {
        return "no lower bounds: give --disk-rate, --network-rate or --journal-rate\n\n"
            .to_owned();
    }
    let mut table = Table::new(&[
        "AT LEAST, BY",
        ">HOURS",
        "SLOWEST",
        ">EVENLY SPREAD",
        ">ALL COPIES OF TOUCHED GROUPS",
    ]);
    for (name, bound) in rows {
        if let Some(bound) = bound {
            table.row([
                name.to_owned(),
                hours(bound.hours),
                bound.slowest.clone(),
                hours(bound.hours_evenly),
                hours(bound.hours_touched),
            ]);
        }
    }
    format!("{}\n", table.render())
}

/// The disks of a stage: `osd.170`, or their number and the first and the last.
fn members(stage: &StagePlan) -> String {
    let one = |sign: char, disks: &[u32]| match disks {
        [] => None,
        [only] => Some(format!("{sign}osd.{only}")),
        [first, .., last] => Some(format!(
            "{sign}{} disks, osd.{first} to osd.{last}",
            disks.len()
        )),
    };
    let parts = [one('+', &stage.raised), one('-', &stage.removed)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn stages(plan: &Plan) -> String {
    let mut table = Table::new(&[
        ">STAGE",
        "DISKS",
        ">COPIES",
        ">GROUPS",
        ">BYTES",
        ">AT LEAST",
        ">EXPECTED",
        ">PEAK FILL",
        "",
    ]);
    for (number, stage) in (1..).zip(&plan.stages) {
        let figures = &stage.figures;
        table.push(vec![
            number.to_string(),
            members(stage),
            percent(figures.copies_moved_share),
            percent(figures.groups_touched_share),
            bytes(figures.bytes_moved),
            figures.hours.bound().map_or_else(dash, hours),
            figures.hours.expected.map_or_else(dash, hours),
            percent(stage.fullest_peak),
            format!("osd.{}", stage.fullest),
        ]);
    }
    format!("{}\n", table.render())
}

fn disks(plan: &Plan, all: bool) -> String {
    let mut shown: Vec<&Disk> = plan.disks.iter().collect();
    if !all {
        let peak = |disk: &Disk| disk.fill(disk.used_peak());
        shown.sort_by(|one, other| peak(other).total_cmp(&peak(one)));
        shown.truncate(DISKS_SHOWN);
    }
    let mut table = Table::new(&[
        "DISK", "HOST", ">SIZE", ">BEFORE", ">PEAK", ">AFTER", ">IN", ">OUT", ">GROUPS", "",
    ]);
    for disk in &shown {
        table.push(vec![
            format!("osd.{}", disk.osd),
            harmless(&disk.host),
            bytes(disk.size),
            percent(disk.fill(disk.used_before)),
            percent(disk.fill(disk.used_peak())),
            percent(disk.fill(disk.used_after(disk.stages.len()))),
            bytes(disk.bytes_in()),
            bytes(disk.bytes_out()),
            disk.groups_after.to_string(),
            match (disk.is_new, disk.is_removed) {
                (true, _) => "new".to_owned(),
                (_, true) => "removed".to_owned(),
                _ => String::new(),
            },
        ]);
    }
    let mut text = table.render();
    if plan.disks.len() > shown.len() {
        let _ = writeln!(
            text,
            "the {} with the highest peak of {}; --all shows each",
            shown.len(),
            plan.disks.len()
        );
    }
    text.push('\n');
    text
}

fn over_full(plan: &Plan) -> String {
    let mut text = String::new();
    if plan.over_full.is_empty() {
        return text;
    }
    let _ = writeln!(
        text,
        "{} disks are far above the mean fill afterwards:",
        plan.over_full.len()
    );
    let mut table = Table::new(&["DISK", ">AFTER", ">REWEIGHT", ">THEN"]);
    for disk in plan.over_full.iter().take(DISKS_SHOWN) {
        table.row([
            format!("osd.{}", disk.osd),
            percent(disk.fill),
            disk.reweight.clone().unwrap_or_else(dash),
            disk.fill_reweighted.map_or_else(dash, percent),
        ]);
    }
    text.push_str(&table.render());
    match &plan.reweighting {
        Some(reweighting) => {
            let _ = writeln!(
                text,
                "the reweighting moves {} and leaves {} on the fullest disk:",
                bytes(reweighting.figures.bytes_moved),
                percent(reweighting.fullest_after)
            );
            write_commands(&mut text, &reweighting.commands);
        }
        None => text.push_str("--reweight computes proposals\n"),
    }
    text.push('\n');
    text
}

fn write_commands(text: &mut String, commands: &[String]) {
    for command in commands {
        let _ = writeln!(text, "    {}", harmless(command));
    }
}

fn commands(plan: &Plan) -> String {
    let mut text = String::from("to do it:\n");
    if !plan.commands.prepare.is_empty() {
        text.push_str("before the disks are created, which then have weight 0:\n");
        write_commands(&mut text, &plan.commands.prepare);
    }
    for (number, commands) in (1..).zip(&plan.commands.stages) {
        let _ = writeln!(text, "stage {number}, when all groups are active+clean:");
        write_commands(&mut text, commands);
    }
    if !plan.commands.finish.is_empty() {
        text.push_str("after the last stage, when all groups are active+clean:\n");
        write_commands(&mut text, &plan.commands.finish);
    }
    text
}

/// One line about a stage that runs.
pub fn progress_line(progress: &Progress) -> String {
    let mut line = format!(
        "{} of {} ({}) in {}",
        bytes(progress.bytes_gained),
        bytes(progress.bytes_predicted),
        percent(progress.share),
        control::words::duration(progress.elapsed_s)
    );
    if let Some(rate) = progress.rate_per_disk {
        let _ = write!(line, ", {}/s for each receiving disk", bytes(rate));
    }
    if let (Some(seconds), false) = (progress.remaining_s, progress.is_settled) {
        let _ = write!(line, ", {} to go", control::words::duration(seconds));
    }
    line
}

/// The disks of a stage that runs, those farthest from the plan first.
pub fn progress(progress: &Progress, all: bool) -> String {
    let mut shown: Vec<&DiskProgress> = progress.disks.iter().collect();
    if !all {
        let far = |disk: &DiskProgress| (disk.fill_now - disk.fill_predicted).abs();
        shown.sort_by(|one, other| far(other).total_cmp(&far(one)));
        shown.truncate(DISKS_SHOWN);
    }
    let mut table = Table::new(&["DISK", "HOST", ">BEFORE", ">NOW", ">PREDICTED", ""]);
    for disk in &shown {
        table.row([
            format!("osd.{}", disk.osd),
            harmless(&disk.host),
            percent(disk.fill_before),
            percent(disk.fill_now),
            percent(disk.fill_predicted),
            if disk.is_new {
                "new".to_owned()
            } else {
                String::new()
            },
        ]);
    }
    let mut text = format!("{}\n{}", progress_line(progress), table.render());
    if progress.is_settled {
        let _ = writeln!(
            text,
            "the last samples are equal: no disk is farther than {} from the plan",
            percent(progress.largest_difference)
        );
    }
    text
}
