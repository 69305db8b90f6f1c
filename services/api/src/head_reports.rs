//! Queries the other heads for their reports about themselves ([`crate::report`]), and judges them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use control::legs::reports::{HeadReport, NO_REPORT};

use crate::Api;
use crate::backend::Backend;
use crate::peer::{self, Peers};
use crate::report::{PeerReport, difference};
use crate::view::HeadView;

/// Interval of queries of a head that responds.
const QUERY_INTERVAL_MS: u64 = 10_000;
/// Time until a missing report, or a difference of the files, is reported: a head starts, and a file is distributed to
/// all heads, within it.
const GRACE_MS: u64 = 60_000;

/// The reports of all heads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// The connections to members, by head. A head that is not in the cluster has no entry.
    pub members: BTreeMap<String, HeadReport>,
    /// Heads whose appliance file cannot be used, or differs from that of this head, in sentences.
    pub problems: Vec<String>,
}

/// Queries the other heads, and stores the last reports.
#[derive(Default)]
pub struct HeadReports {
    heads: BTreeMap<String, (u64, PeerReport)>,
    /// Since when a trouble exists, in milliseconds since 1970.
    troubles: BTreeMap<String, u64>,
    /// In a process that queries once: the age of a trouble is unknown.
    is_single: bool,
}

impl HeadReports {
    /// For a process that queries only once.
    pub fn once() -> Self {
        Self {
            is_single: true,
            ..Self::default()
        }
    }

    /// The reports of this head and of the other ones that are in the cluster. May block for as long as a head does not
    /// respond.
    pub fn query(
        &mut self,
        backend: &dyn Backend,
        heads: &[HeadView],
        peers: Option<&Peers>,
        now_ms: u64,
    ) -> Reported {
        let here = backend.head();
        let is_member = |head: &&HeadView| matches!(&*head.state, "online" | "standby" | "pending");
        let members: Vec<&HeadView> = heads.iter().filter(is_member).collect();
        self.heads
            .retain(|name, _| members.iter().any(|head| head.name == *name));
        for head in &members {
            let known = self.heads.get(&head.name);
            if known.is_some_and(|(at_ms, _)| now_ms.abs_diff(*at_ms) < QUERY_INTERVAL_MS) {
                continue;
            }
            let report = match head.name == here {
                true => Some(backend.report()),
                false => peers.and_then(|peers| peers.report(&head.name)),
            };
            match report {
                Some(report) => self.heads.insert(head.name.clone(), (now_ms, report)),
                None => self.heads.remove(&head.name),
            };
        }
        let names: Vec<&str> = members.iter().map(|head| head.name.as_str()).collect();
        self.judge(&here, &names, now_ms)
    }

    /// Judges the last reports of the heads with these names.
    fn judge(&mut self, here: &str, names: &[&str], now_ms: u64) -> Reported {
        let mut troubles = BTreeMap::new();
        let known = std::mem::take(&mut self.troubles);
        let mut is_lasting = |key: String| {
            let since_ms = known.get(&key).copied().unwrap_or(now_ms);
            troubles.insert(key, since_ms);
            now_ms.saturating_sub(since_ms) >= GRACE_MS
        };
        let mut reported = Reported::default();
        let own_file = self
            .heads
            .get(here)
            .and_then(|(_, report)| report.file.as_ref());
        for name in names {
            let report = self.heads.get(*name).map(|(_, report)| report);
            let members = report.and_then(|report| report.members.clone());
            let members = members.map_or_else(
                || {
                    let why = match report {
                        Some(_) => NO_REPORT,
                        None => "it sends no report: its bulkhead-head does not run, or is of an earlier release",
                    };
                    HeadReport::Unknown {
                        why: why.to_owned(),
                        is_lasting: is_lasting(format!("members {name}")),
                    }
                },
                HeadReport::Members,
            );
            reported.members.insert((*name).to_owned(), members);
            let file = report.and_then(|report| report.file.as_ref());
            let (Some(own_file), Some(file)) = (own_file, file.filter(|_| *name != here)) else {
                continue;
            };
            if let Some(problem) = difference((here, own_file), (*name, file)) {
                if is_lasting(format!("file {name}")) || self.is_single {
                    reported.problems.push(problem);
                }
            }
        }
        self.troubles = troubles;
        reported
    }
}

/// Returns the report of this head to another head.
pub(crate) async fn own(State(api): State<Arc<Api>>) -> Response {
    let backend = Arc::clone(&api.backend);
    peer::respond(move || backend.report()).await
}

#[cfg(test)]
mod tests {
    use control::legs::reports::MemberReport;

    use super::*;
    use crate::report::FileReport;
    use crate::testing::{As, Head};
    use serde_json::Value;

    const NOW_MS: u64 = 1_795_887_180_000;

    fn file(change: impl FnOnce(&str) -> String) -> FileReport {
        let text = change(include_str!("../../../examples/pair.toml"));
        let parsed = appliance::parse(&text).map(|parsed| parsed.appliance);
        FileReport::of(&parsed.map_err(|_| "line 7: expected a value".to_owned()))
    }

    fn reported(right: Option<PeerReport>, now_ms: u64, reports: &mut HeadReports) -> Reported {
        let own = PeerReport {
            members: Some(MemberReport::default()),
            file: Some(file(str::to_owned)),
        };
        reports.heads.insert("left".to_owned(), (now_ms, own));
        match right {
            Some(report) => reports.heads.insert("right".to_owned(), (now_ms, report)),
            None => reports.heads.remove("right"),
        };
        reports.judge("left", &["left", "right"], now_ms)
    }

    fn with_file(file: FileReport) -> Option<PeerReport> {
        Some(PeerReport {
            members: Some(MemberReport::default()),
            file: Some(file),
        })
    }

    #[test]
    fn typo_in_the_file_of_another_head_is_reported_with_the_names() {
        let same = with_file(file(|text| format!("# a comment\n{text}")));
        let mistyped = with_file(file(|text| {
            text.replace("[pools.tank]", "[pools.tnak]")
                .replace("pools.tank.", "pools.tnak.")
        }));
        let broken = with_file(file(|text| format!("{text}\n[[[")));
        let once = |report: Option<PeerReport>| {
            reported(report, NOW_MS, &mut HeadReports::once()).problems
        };
        assert_eq!(once(same), [""; 0]);
        let differing = once(mistyped);
        assert_eq!(differing.len(), 1, "{differing:?}");
        for part in [
            "pools on left: tank",
            "on right: tnak",
            "`bulkhead appliance apply`",
        ] {
            assert!(differing[0].contains(part), "{part}: {differing:?}");
        }
        let unusable = once(broken.clone());
        assert!(
            unusable[0].contains("of right cannot be used: line 7"),
            "{unusable:?}"
        );
        // `apply` copies the file to one head after the other.
        let mut reports = HeadReports::default();
        assert_eq!(
            reported(broken.clone(), NOW_MS, &mut reports).problems,
            [""; 0]
        );
        let later = reported(broken, NOW_MS + GRACE_MS, &mut reports);
        assert_eq!(later.problems.len(), 1);
    }

    #[test]
    fn report_is_sent_to_heads_only() {
        let head = Head::new();
        let ask = |who: &As| head.send_request(who, "GET", "/peer/report", Value::Null);
        assert_eq!(ask(&As::Anonymous).0, 403);
        let (code, body) = ask(&As::Head);
        let report: PeerReport = serde_json::from_value(body).expect("a report");
        assert_eq!((code, report), (200, PeerReport::default()));
    }

    #[test]
    fn another_value_in_the_file_is_a_difference_within_a_release_only() {
        let changed = file(|text| text.replacen("10.77.1.100", "10.77.1.101", 1));
        let mut newer = changed.clone();
        let once = |file| reported(with_file(file), NOW_MS, &mut HeadReports::once()).problems;
        assert_eq!(once(changed).len(), 1);
        newer.release = "next".to_owned();
        assert_eq!(once(newer), [""; 0]);
    }

    #[test]
    fn head_without_a_report_is_unknown_and_after_a_while_lastingly_so() {
        let mut reports = HeadReports::default();
        let state = |reported: &Reported| match &reported.members["right"] {
            HeadReport::Members(_) => None,
            HeadReport::Unknown { is_lasting, .. } => Some(*is_lasting),
        };
        let young = reported(None, NOW_MS, &mut reports);
        assert_eq!(state(&young), Some(false));
        let old = reported(None, NOW_MS + GRACE_MS, &mut reports);
        assert_eq!(state(&old), Some(true));
        let well = reported(
            with_file(file(str::to_owned)),
            NOW_MS + GRACE_MS,
            &mut reports,
        );
        assert_eq!(state(&well), None);
        assert_eq!(
            state(&reported(None, NOW_MS + 2 * GRACE_MS, &mut reports)),
            Some(false)
        );
    }
}
