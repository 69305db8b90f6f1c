//! Renders the progress of long work on the devices of a pool, and the plan of a change.

use std::fmt::Write as _;

use control::answer::{GroupChange, PlanView, WorkView};
use control::calendar::utc;
use control::words::{bytes, duration};

use crate::table::{Table, dash};
use crate::wrap;

/// One line for each work. Scrubs and resilvers have the line `scan:` with their result, so here is the rate.
pub fn work_lines(work: &[WorkView], text: &mut String) {
    for one in work {
        let _ = writeln!(text, "work:     {}", work_line(one));
    }
}

/// Such as `removal of mirror-1 running, 45%, 1.2G of 2.7G, 150M a second, 12 min 3 s to go`.
fn work_line(work: &WorkView) -> String {
    let group = work.group.as_ref();
    let group = group.map_or_else(String::new, |group| format!(" of {group}"));
    let mut line = format!(
        "{}{group} {}, {}%, {} of {}",
        work.kind,
        work.state,
        work.percent(),
        bytes(work.done),
        bytes(work.total)
    );
    if let Some(rate) = work.bytes_per_s {
        let _ = write!(line, ", {} a second", bytes(rate));
    }
    if let Some(seconds) = work.remaining_s {
        let _ = write!(line, ", {} to go", duration(seconds));
    }
    line
}

/// A plan, with the command that performs it.
pub fn plan(view: &PlanView) -> String {
    let mut text = format!("pool {}: {}\n", view.pool, view.change);
    if let Some(refused) = &view.refused {
        text.push_str(&wrap::line("refused:", refused));
        return text;
    }
    if !view.moves.is_empty() {
        let mut table = Table::new(&["DEVICE", ">READ", ">WRITTEN"]);
        for moved in &view.moves {
            let shown = |count: u64| match count {
                0 => dash(),
                count => bytes(count),
            };
            table.row([
                moved.device.clone(),
                shown(moved.read),
                shown(moved.written),
            ]);
        }
        let _ = write!(text, "\n{}\n", table.render());
    }
    moved_lines(view, &mut text);
    if !view.groups.is_empty() {
        let mut table = Table::new(&[
            "GROUP", ">ALLOC", ">SIZE", ">FULL", ">THEN", ">SIZE", ">FULL",
        ]);
        for group in &view.groups {
            table.row(group_row(group));
        }
        let _ = write!(text, "\n{}", table.render());
    }
    if let (Some(before), Some(after)) = (view.usable_before, view.usable_after) {
        let percent = |percent: Option<u64>| percent.unwrap_or_default();
        let _ = writeln!(
            text,
            "\nusable:   {}, {} % full; then about {}, {} % full",
            bytes(before),
            percent(view.full_percent_before),
            bytes(after),
            percent(view.full_percent_after)
        );
    }
    for sentence in &view.meanwhile {
        text.push_str(&wrap::line("until then:", sentence));
    }
    for note in &view.notes {
        text.push_str(&wrap::line("note:", note));
    }
    let _ = writeln!(text, "\nto do it: {}", view.command);
    text
}

fn moved_lines(view: &PlanView, text: &mut String) {
    match view.total {
        0 => text.push_str("moves:    no data\n"),
        total => {
            let _ = writeln!(text, "moves:    {}", bytes(total));
        }
    }
    let (Some(rate), Some(seconds)) = (&view.rate, view.duration_s) else {
        return;
    };
    let measured = match rate.ended {
        0 => format!("the running {}", rate.measured_by),
        ended => format!("the {} that ended {}", rate.measured_by, utc(ended)),
    };
    let _ = writeln!(
        text,
        "duration: about {} at {} a second, by {measured}",
        duration(seconds),
        bytes(rate.bytes_per_s)
    );
}

fn group_row(group: &GroupChange) -> [String; 7] {
    let shown = |count: Option<u64>| count.map_or_else(dash, bytes);
    let full = |allocated: Option<u64>, size: Option<u64>| {
        let (Some(allocated), Some(size)) = (allocated, size.filter(|size| *size > 0)) else {
            return dash();
        };
        format!("{} %", u128::from(allocated) * 100 / u128::from(size))
    };
    [
        group.group.clone(),
        shown(group.allocated_before),
        shown(group.size_before),
        full(group.allocated_before, group.size_before),
        shown(group.allocated_after),
        shown(group.size_after),
        full(group.allocated_after, group.size_after),
    ]
}

#[cfg(test)]
mod tests {
    use control::answer::{MovedBytes, RateView};

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn work_line_shows_bytes_rate_and_remaining_time() {
        let mut work = WorkView {
            kind: "removal".to_owned(),
            state: "running".to_owned(),
            group: Some("mirror-1".to_owned()),
            done: 100 * MIB,
            total: 400 * MIB,
            bytes_per_s: Some(10 * MIB),
            remaining_s: Some(30),
            ..WorkView::default()
        };
        let mut text = String::new();
        work_lines(std::slice::from_ref(&work), &mut text);
        let line =
            "work:     removal of mirror-1 running, 25%, 100M of 400M, 10M a second, 30 s to go\n";
        assert_eq!(text, line);
        (work.bytes_per_s, work.remaining_s, work.group) = (None, None, None);
        assert_eq!(work_line(&work), "removal running, 25%, 100M of 400M");
    }

    #[test]
    fn plan_without_a_measured_rate_shows_bytes_only() {
        let mut view = PlanView {
            pool: "tank".to_owned(),
            change: "remove".to_owned(),
            moves: vec![MovedBytes {
                device: "/a".to_owned(),
                read: MIB,
                written: 0,
            }],
            total: MIB,
            groups: vec![GroupChange {
                group: "/a".to_owned(),
                allocated_before: Some(MIB),
                size_before: Some(4 * MIB),
                ..GroupChange::default()
            }],
            command: "bulkhead pool remove tank /a".to_owned(),
            ..PlanView::default()
        };
        let text = plan(&view);
        assert!(text.contains("moves:    1M\n"), "{text}");
        assert!(text.contains("25 %"), "{text}");
        assert!(!text.contains("duration"), "{text}");
        assert!(
            text.ends_with("to do it: bulkhead pool remove tank /a\n"),
            "{text}"
        );
        view.duration_s = Some(2);
        view.rate = Some(RateView {
            bytes_per_s: MIB / 2,
            measured_by: "scrub".to_owned(),
            ended: 0,
        });
        let text = plan(&view);
        assert!(
            text.contains("duration: about 2 s at 512K a second, by the running scrub"),
            "{text}"
        );
    }

    #[test]
    fn refused_plan_shows_the_reason_and_no_command() {
        let view = PlanView {
            pool: "tank".to_owned(),
            change: "remove".to_owned(),
            refused: Some("it is the only group".to_owned()),
            command: "bulkhead pool remove tank /a".to_owned(),
            ..PlanView::default()
        };
        let text = plan(&view);
        assert!(text.contains("it is the only group"), "{text}");
        assert!(!text.contains("to do it"), "{text}");
    }
}
