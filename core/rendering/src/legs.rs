//! Renders the legs of a pool, and the members of their record.

use std::fmt::Write as _;

use control::calendar::utc;
use control::legs::{LegMemberView, LegState, LegView, LegsView, Survives};
use control::words::bytes;

use crate::table::Table;

/// Renders a line about the record, and a table of the legs.
pub fn legs(view: &LegsView) -> String {
    let mut text = String::new();
    let named = |answers: bool| {
        let members = view.members.iter().filter(|one| one.answers == answers);
        let names: Vec<String> = members.map(member_label).collect();
        names.join(", ")
    };
    let silent = match named(false) {
        none if none.is_empty() => String::new(),
        silent => format!("; silent: {silent}"),
    };
    let others = match view.not_on_record.join(", ") {
        none if none.is_empty() => none,
        others => format!("; not by {others}, which legs.toml names"),
    };
    let _ = writeln!(
        text,
        "record:   epoch {}, remembered by {}{silent}{others}",
        view.epoch,
        named(true)
    );
    if let Some(survives) = &view.survives {
        let _ = writeln!(text, "survives: {}", failures(survives));
        for (head, why) in &survives.cannot_serve {
            let _ = writeln!(text, "          {head} cannot serve it: {why}");
        }
        for (head, why) in &survives.unknown {
            let _ = writeln!(
                text,
                "          it is unknown whether {head} could serve it: {why}"
            );
        }
    }
    let mut table = Table::new(&["LEG", "STATE", "SINCE", ">COPIED", ">LEFT", "TIME LEFT"]);
    for leg in &view.legs {
        let amount = |of: Option<u64>| of.map(bytes).unwrap_or_default();
        table.row([
            leg.name.clone(),
            leg.state.to_string(),
            leg.since_ms.map(|ms| utc(ms / 1000)).unwrap_or_default(),
            amount(leg.copied),
            left(leg),
            time_left(leg),
        ]);
    }
    let _ = write!(text, "\n{}", table.render());
    text
}

/// Returns the failures that a pool survives, in words.
fn failures(survives: &Survives) -> String {
    let disks = |count: usize| match count {
        0 => "no disk".to_owned(),
        1 => "any one disk".to_owned(),
        count => format!("any {count} disks"),
    };
    let uncertain = match survives.uncertain_heads.join(" or ") {
        none if none.is_empty() => none,
        heads => format!(" (unknown for {heads})"),
    };
    let heads = match (&*survives.heads, &*survives.not_heads) {
        ([], _) => "no head".to_owned(),
        (heads, []) if !uncertain.is_empty() => heads.join(" or "),
        (heads, []) => format!("any one head ({})", heads.join(", ")),
        (heads, others) => format!("{}, not {}", heads.join(" or "), others.join(" or ")),
    };
    let beyond = match survives.heads.is_empty() {
        true => String::new(),
        false => format!(", and then {}", disks(survives.disks_without_head)),
    };
    format!("{}; {heads}{uncertain}{beyond}", disks(survives.disks))
}

/// Returns a member's name. While the removal of a witness is pending, it still has a vote.
fn member_label(member: &LegMemberView) -> String {
    match member.is_leaving {
        true => format!("{} (leaving)", member.name),
        false => member.name.clone(),
    }
}

/// Returns the remaining time of the resynchronization, or of the pause in it.
fn time_left(leg: &LegView) -> String {
    match (leg.remaining_s, leg.tried_again_ms) {
        (Some(seconds), _) => format!("{seconds} s"),
        (None, Some(ms)) => format!("tried again {}", utc(ms / 1000)),
        (None, None) => String::new(),
    }
}

/// Returns the amount of missing data of a leg: bytes where they are known, else since when.
fn left(leg: &LegView) -> String {
    match (leg.left, leg.lacks_since_group) {
        (Some(left), _) => bytes(left),
        (None, Some(group)) if leg.state != LegState::Current => match leg.since_ms {
            // The column SINCE has the time.
            Some(_) => "writes since then".to_owned(),
            None => format!("writes since group {group}"),
        },
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaving_witness_is_shown_as_leaving() {
        let member = |name: &str, is_leaving, answers| LegMemberView {
            name: name.to_owned(),
            is_leaving,
            answers,
            ..LegMemberView::default()
        };
        let line = |answers| {
            let members = vec![member("a", false, true), member("w", true, answers)];
            let view = LegsView {
                members,
                ..LegsView::default()
            };
            legs(&view).lines().next().map(str::to_owned)
        };
        let told = |words: &str| Some(format!("record:   epoch 0, remembered by {words}"));
        assert_eq!(line(true), told("a, w (leaving)"));
        assert_eq!(line(false), told("a; silent: w (leaving)"));
    }

    #[test]
    fn the_failures_that_a_pool_survives_are_a_line() {
        let line = |disks, heads: &[&str], not_heads: &[&str], disks_without_head| {
            let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
            let survives = Survives {
                disks,
                heads: names(heads),
                not_heads: names(not_heads),
                disks_without_head,
                ..Survives::default()
            };
            let view = LegsView {
                survives: Some(survives),
                ..LegsView::default()
            };
            legs(&view).lines().nth(1).map(str::to_owned)
        };
        for (shown, words) in [
            (
                line(3, &["a", "b"], &[], 1),
                "any 3 disks; any one head (a, b), and then any one disk",
            ),
            (
                line(1, &["b"], &["a"], 0),
                "any one disk; b, not a, and then no disk",
            ),
            (line(0, &[], &["a", "b"], 0), "no disk; no head"),
        ] {
            assert_eq!(shown, Some(format!("survives: {words}")));
        }
    }

    #[test]
    fn head_that_cannot_serve_is_a_line_with_the_reason() {
        let mut survives = Survives {
            disks: 1,
            heads: vec!["a".to_owned(), "b".to_owned()],
            ..Survives::default()
        };
        let reason = ("b".to_owned(), "it is in standby".to_owned());
        survives.exclude(Some("a"), [reason].into());
        let view = LegsView {
            survives: Some(survives),
            ..LegsView::default()
        };
        let text = legs(&view);
        let lines: Vec<&str> = text.lines().skip(1).take(2).collect();
        assert_eq!(
            lines,
            [
                "survives: any one disk; b, not a, and then no disk",
                "          b cannot serve it: it is in standby",
            ]
        );
    }

    #[test]
    fn head_without_a_report_is_unknown() {
        let unknown = ("b".to_owned(), "it sends no report".to_owned());
        let view = LegsView {
            survives: Some(Survives {
                disks: 1,
                heads: vec!["b".to_owned()],
                uncertain_heads: vec!["a".to_owned()],
                unknown: [unknown].into(),
                ..Survives::default()
            }),
            ..LegsView::default()
        };
        let text = legs(&view);
        let lines: Vec<&str> = text.lines().skip(1).take(2).collect();
        assert_eq!(
            lines,
            [
                "survives: any one disk; b (unknown for a), and then no disk",
                "          it is unknown whether b could serve it: it sends no report",
            ]
        );
    }

    #[test]
    fn copy_progress_and_unresponsive_members_are_shown() {
        let leg = |name: &str| LegView {
            name: name.to_owned(),
            ..LegView::default()
        };
        let member = |name: &str, answers| LegMemberView {
            name: name.to_owned(),
            answers,
            ..LegMemberView::default()
        };
        let view = LegsView {
            epoch: 7,
            legs: vec![
                leg("a:/x"),
                LegView {
                    state: LegState::Copying,
                    since_ms: Some(1_000),
                    lacks_since_group: Some(30),
                    copied: Some(1 << 20),
                    left: Some(3 << 20),
                    remaining_s: Some(6),
                    ..leg("b:/y")
                },
                LegView {
                    state: LegState::Stale,
                    lacks_since_group: Some(30),
                    ..leg("b:/z")
                },
                LegView {
                    state: LegState::Faulted,
                    tried_again_ms: Some(3_600_000),
                    ..leg("b:/w")
                },
            ],
            members: vec![
                member("a", true),
                member("b", true),
                member("witness", false),
            ],
            not_on_record: vec!["new".to_owned()],
            ..LegsView::default()
        };
        let text = legs(&view);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines[0].join(" "),
            "record: epoch 7, remembered by a, b; silent: witness; not by new, which legs.toml names"
        );
        assert_eq!(lines[3], ["a:/x", "current"]);
        let copying = lines[4].join(" ");
        assert!(copying.starts_with("b:/y copying 1970-01-01"), "{copying}");
        assert!(copying.ends_with("1M 3M 6 s"), "{copying}");
        assert!(lines[5].join(" ").ends_with("since group 30"), "{text}");
        let faulted = lines[6].join(" ");
        assert!(
            faulted.ends_with("faulted tried again 1970-01-01T01:00:00Z"),
            "{faulted}"
        );
    }
}
