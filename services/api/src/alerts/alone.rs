//! Folds the consequences of a head that does not act, because it does not see the other heads, into one alert: without
//! quorum, or during the wait at its boot.

use control::legs::STALE_HERE;
use control::{Advice, Severity};

use super::{ERROR, is_unserved, with_advice};
use crate::backend::CLUSTER_SILENT;
use crate::view::{Alert, Overview};

/// The subject of the alert.
const CLUSTER: &str = "cluster";
/// The beginnings of the reason of a wait at the boot (`appliance::render::await_heads_script`).
const BOOT_WAIT: [&str; 2] = [
    "Pacemaker is not started yet",
    "this head waits for the other one",
];

/// Replaces the alerts about consequences by details of one alert. Returns the problems that have another cause.
pub(super) fn fold_into<'a>(
    overview: &Overview,
    problems: &'a [String],
    alerts: &mut Vec<Alert>,
) -> Vec<&'a String> {
    let is_wait = |problem: &&String| BOOT_WAIT.iter().any(|begin| problem.starts_with(begin));
    let (reasons, rest): (Vec<&String>, Vec<&String>) = problems.iter().partition(is_wait);
    let has_no_quorum = overview.safeguards.no_quorum_since_ms.is_some();
    let cause = alerts
        .iter()
        .position(|alert| has_no_quorum && alert.about == CLUSTER);
    let mut alert = match (cause, reasons.first()) {
        (Some(at), _) => alerts.remove(at),
        (None, Some(reason)) => with_advice(ERROR, CLUSTER, (*reason).clone(), Some(&boot())),
        (None, None) => return rest,
    };
    let new_reasons = reasons.iter().filter(|reason| ***reason != alert.sentence);
    let new_reasons: Vec<String> = new_reasons.map(|reason| (*reason).clone()).collect();
    alert.details.extend(new_reasons);
    if reasons.iter().any(|reason| reason.contains(STALE_HERE)) {
        alert.advice = Some(boot_the_current_head());
    }
    let (consequences, others): (Vec<Alert>, Vec<Alert>) = std::mem::take(alerts)
        .into_iter()
        .partition(|alert| is_consequence(overview, alert));
    *alerts = others;
    for consequence in consequences {
        alert.details.push(consequence.sentence);
        alert.details.extend(consequence.details);
        alert.since_ms = [alert.since_ms, consequence.since_ms]
            .into_iter()
            .flatten()
            .min();
    }
    alerts.insert(0, alert);
    rest.into_iter()
        .filter(|problem| *problem != CLUSTER_SILENT)
        .collect()
}

/// Whether the alert is about another head that is not seen, about the networks to it, or about a pool without a head.
fn is_consequence(overview: &Overview, alert: &Alert) -> bool {
    let mut heads = overview
        .heads
        .iter()
        .filter(|head| head.name != overview.this_head);
    let is_of_head = heads.any(|head| alert.sentence == format!("{} is {}", head.name, head.state));
    is_of_head || alert.about.starts_with("network ") || is_unserved(&alert.sentence)
}

fn boot() -> Advice {
    let what =
        "power the other heads on, or repair the networks to them: this head starts its pools then";
    Advice::new(Severity::Error, what, "").by("corosync-cfgtool -n")
}

/// A head with stale legs must not act alone: it would power the head with the current legs off.
fn boot_the_current_head() -> Advice {
    let what = "boot the head with these legs: the pools are served then, and the legs of this head are copied. Do not cancel \
                wait_for_all on this head: it would power that head off, and open no stale leg. Writes since then are lost if \
                the pools continue with the legs of this head";
    Advice::new(Severity::Error, what, "").by("bulkhead leg-server may-start-alone")
}

#[cfg(test)]
mod tests {
    use super::super::of;
    use super::*;
    use crate::view::{HeadView, LinkView, PoolOverview, Safeguards};

    fn overview(state: &str, no_quorum_since_ms: Option<u64>) -> Overview {
        let head = |name: &str, state: &str| HeadView {
            name: name.to_owned(),
            state: state.to_owned(),
            ..HeadView::default()
        };
        let pool = |name: &str| PoolOverview {
            name: name.to_owned(),
            state: "stopped".to_owned(),
            heads: vec!["left".to_owned(), "right".to_owned()],
            ..PoolOverview::default()
        };
        Overview {
            this_head: "left".to_owned(),
            heads: vec![
                head("left", if state == "unknown" { state } else { "online" }),
                head("right", state),
            ],
            pools: vec![pool("tank"), pool("vm")],
            links: vec![LinkView {
                network: "storage-a".to_owned(),
                from: "left".to_owned(),
                to: "third".to_owned(),
                state: "down".to_owned(),
                ..LinkView::default()
            }],
            safeguards: Safeguards {
                has_quorum: no_quorum_since_ms.map(|_| false),
                no_quorum_since_ms,
                ..Safeguards::default()
            },
            ..Overview::default()
        }
    }

    #[test]
    fn head_without_quorum_after_its_boot_has_one_alert_with_the_consequences() {
        let alerts = of(&overview("offline", Some(9000)), &[]);
        assert_eq!(alerts.len(), 1, "{alerts:#?}");
        assert!(
            alerts[0].sentence.starts_with("left has no quorum"),
            "{alerts:#?}"
        );
        assert_eq!(alerts[0].since_ms, Some(9000));
        for part in [
            "right is offline",
            "it is unknown whether another head serves tank: left does not serve it",
            "it is unknown whether another head serves vm",
            "storage-a",
        ] {
            let has = alerts[0].details.iter().any(|detail| detail.contains(part));
            assert!(has, "{part}: {alerts:#?}");
        }
    }

    #[test]
    fn booting_head_without_pacemaker_has_one_alert_with_the_reason() {
        let problems = [
            CLUSTER_SILENT.to_owned(),
            "Pacemaker is not started yet: the other heads have 60 s to boot (1 of 2 heads are members), and then".to_owned(),
        ];
        let alerts = of(&overview("unknown", None), &problems);
        assert_eq!(alerts.len(), 1, "{alerts:#?}");
        assert!(
            alerts[0]
                .sentence
                .starts_with("Pacemaker is not started yet")
        );
        let advice = alerts[0].advice.as_ref().expect("advice").to_string();
        assert!(advice.contains("power the other heads on"), "{advice}");
    }

    #[test]
    fn stale_head_is_advised_to_boot_the_current_one_and_not_to_act() {
        let problems = [format!(
            "this head waits for the other one: {STALE_HERE}: tank needs right:/y"
        )];
        for no_quorum_since_ms in [None, Some(9000)] {
            let alerts = of(&overview("offline", no_quorum_since_ms), &problems);
            assert_eq!(alerts.len(), 1, "{alerts:#?}");
            let texts = format!("{} {:?}", alerts[0].sentence, alerts[0].details);
            assert!(texts.contains("tank needs right:/y"), "{texts}");
            let advice = alerts[0].advice.as_ref().expect("advice").to_string();
            assert!(advice.contains("boot the head with these legs"), "{advice}");
            assert!(!advice.contains("Both heads were off"), "{advice}");
        }
    }

    #[test]
    fn faults_with_another_cause_stay_alerts() {
        let mut overview = overview("offline", Some(9000));
        overview.pools[0].problems = vec!["vm0 is no volume".to_owned()];
        let problems = ["the power supply ups-a does not respond".to_owned()];
        let alerts = of(&overview, &problems);
        assert_eq!(alerts.len(), 3, "{alerts:#?}");
    }
}
