//! Alerts about the safeguards that a takeover depends on: quorum, the witness, fence devices, power-offs.

use std::collections::BTreeMap;

use control::calendar::utc;
use control::{Advice, Severity};

use super::{ERROR, WARNING, with_advice};
use crate::view::{Alert, FenceDeviceView, Overview, PowerOffView};

/// The alerts of the safeguards of an overview.
pub(super) fn of(overview: &Overview, alerts: &mut Vec<Alert>) {
    let safeguards = &overview.safeguards;
    for wait in &safeguards.power_offs {
        alerts.push(power_off(overview, wait));
    }
    alerts.extend(quorum(overview));
    alerts.extend(witness(overview));
    let mut heads: BTreeMap<&str, Vec<&FenceDeviceView>> = BTreeMap::new();
    for device in &safeguards.fence_devices {
        heads.entry(&device.head).or_default().push(device);
    }
    for (head, devices) in heads {
        // While the head is lost, the alert about its power-off contains the instructions.
        if safeguards.power_offs.iter().all(|wait| wait.head != head) {
            fencing(head, &devices, alerts);
        }
    }
}

/// Whether a pool is not served because of a pending power-off, which is reported already.
pub(super) fn explains(overview: &Overview, pool: &str) -> bool {
    let waits = &overview.safeguards.power_offs;
    waits
        .iter()
        .any(|wait| unserved(overview, wait).any(|name| name == pool))
}

/// Pools that the lost head may have open, and that no head serves.
fn unserved<'a>(overview: &'a Overview, wait: &'a PowerOffView) -> impl Iterator<Item = &'a str> {
    let pools = overview.pools.iter();
    let unserved = pools.filter(|pool| pool.state != "served" && pool.heads.contains(&wait.head));
    unserved.map(|pool| pool.name.as_str())
}

fn since(at_ms: u64) -> String {
    utc(at_ms / 1000)
}

fn power_off(overview: &Overview, wait: &PowerOffView) -> Alert {
    let head = &wait.head;
    let pools: Vec<&str> = unserved(overview, wait).collect();
    let consequence = match pools.is_empty() {
        true => String::new(),
        false => format!("; until then no head serves {}", pools.join(", ")),
    };
    let sentence = format!(
        "{head} is lost, and its power-off is pending since {}{consequence}",
        since(wait.since_ms)
    );
    let advice = match (wait.failed_count, &wait.refusal) {
        // `--confirm` is not its command: this head could not open the pools, or the other one still has them open.
        (_, Some(refusal)) => Advice::new(
            Severity::Error,
            control::advice::after_refused_power_off(head, refusal),
            "",
        ),
        (0, None) => Advice::new(
            Severity::Error,
            "wait until its fence devices have been tried",
            "",
        ),
        _ => Advice::new(
            Severity::Error,
            format!(
                "it failed: if {head} still serves pools, repair the networks to it. Otherwise go to {head}, \
                 cut all its power, and only then confirm that it is off (if it still runs, two heads write to the same pool and destroy it)"
            ),
            "",
        )
        .by(format!("stonith_admin --confirm {head}")),
    };
    Alert {
        since_ms: Some(wait.since_ms),
        ..with_advice(ERROR, &format!("head {head}"), sentence, Some(&advice))
    }
}

fn quorum(overview: &Overview) -> Option<Alert> {
    let since_ms = overview.safeguards.no_quorum_since_ms?;
    let sentence = format!(
        "{} has no quorum: it serves no pool and powers no head off",
        overview.this_head
    );
    let what = match overview.safeguards.witness.is_some() {
        true => "start the other head or the witness, or repair the networks to them",
        false => {
            "start the other head, or repair the networks to it; if it is broken and off for certain, see \
             \"Both heads were off\" in the guide to failures"
        }
    };
    let advice = Advice::new(Severity::Error, what, "").by("corosync-quorumtool -s");
    Some(Alert {
        since_ms: Some(since_ms),
        ..with_advice(ERROR, "cluster", sentence, Some(&advice))
    })
}

fn witness(overview: &Overview) -> Option<Alert> {
    let witness = overview.safeguards.witness.as_ref()?;
    if witness.has_vote != Some(false) {
        return None;
    }
    let why = witness.why.as_ref();
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    let sentence = format!(
        "the witness at {} has no vote at {}{why}: if one head is lost now, the remaining ones stop all pools",
        witness.address,
        witness.without_vote.join(", "),
    );
    let what = "start corosync-qnetd on the witness, or repair the network to it; this command shows the missing part";
    let advice = Advice::new(Severity::Error, what, "").by("corosync-qdevice-tool -s");
    Some(Alert {
        since_ms: witness.since_ms,
        ..with_advice(ERROR, "witness", sentence, Some(&advice))
    })
}

/// Whether a device is known to be broken.
fn is_broken(device: &FenceDeviceView) -> bool {
    matches!(device.state.as_str(), "failed" | "unverified")
}

fn fencing(head: &str, devices: &[&FenceDeviceView], alerts: &mut Vec<Alert>) {
    let mut levels: BTreeMap<u32, bool> = BTreeMap::new();
    for device in devices {
        *levels.entry(device.level).or_default() |= is_broken(device);
    }
    let is_helpless = levels.values().all(|is_broken| *is_broken);
    let (severity, consequence) = match is_helpless {
        true => (
            ERROR,
            format!(
                "no other device can power {head} off: if it is lost, its pools stay down until a person confirms \
                 that it is off"
            ),
        ),
        false => (
            WARNING,
            format!(
                "if {head} is lost, another device has to power it off, and the takeover can take longer"
            ),
        ),
    };
    for device in devices.iter().filter(|device| is_broken(device)) {
        let name = &device.name;
        let trouble = match (device.state.as_str(), &device.why) {
            ("unverified", _) => "was never started, so that nothing has verified it".to_owned(),
            (_, Some(why)) => format!("does not work: {why}"),
            (_, None) => "does not work".to_owned(),
        };
        let sentence = format!("the fence device {name} {trouble}; {consequence}");
        let level = match severity {
            ERROR => Severity::Error,
            _ => Severity::Warning,
        };
        let what = "repair it (\"A fence device does not respond\" in the guide to failures), then have it tried again";
        let advice = Advice::new(level, what, "")
            .by(format!("crm_resource --cleanup --resource {name}"))
            .about(name);
        alerts.push(Alert {
            since_ms: device.since_ms,
            ..with_advice(severity, &format!("head {head}"), sentence, Some(&advice))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::of;
    use super::*;
    use crate::view::{HeadView, PoolOverview, Safeguards, WitnessView};

    fn device(name: &str, level: u32, state: &str) -> FenceDeviceView {
        FenceDeviceView {
            name: format!("fence-left-{name}"),
            head: "left".into(),
            level,
            state: state.into(),
            since_ms: Some(7000),
            ..FenceDeviceView::default()
        }
    }

    fn overview(safeguards: Safeguards) -> Overview {
        let head = |name: &str, state: &str| HeadView {
            name: name.into(),
            state: state.into(),
            ..HeadView::default()
        };
        let is_lost = !safeguards.power_offs.is_empty();
        Overview {
            this_head: "right".into(),
            heads: vec![
                head("left", if is_lost { "unclean" } else { "online" }),
                head("right", "online"),
            ],
            pools: vec![PoolOverview {
                name: "tank".into(),
                state: if is_lost { "stopped" } else { "served" }.into(),
                heads: vec!["left".into(), "right".into()],
                ..PoolOverview::default()
            }],
            safeguards,
            ..Overview::default()
        }
    }

    fn alerts_for(safeguards: Safeguards) -> Vec<Alert> {
        of(&overview(safeguards), &[])
    }

    #[test]
    fn broken_fence_device_is_warning_with_fallback_else_error() {
        let with = |devices: &[(&str, u32, &str)]| {
            let devices = devices.iter();
            alerts_for(Safeguards {
                fence_devices: devices
                    .map(|(name, level, state)| device(name, *level, state))
                    .collect(),
                ..Safeguards::default()
            })
        };
        let works = with(&[("bmc", 1, "works"), ("a", 2, "unknown"), ("b", 2, "works")]);
        assert_eq!(works, []);
        let one = with(&[("bmc", 1, "failed"), ("a", 2, "works"), ("b", 2, "works")]);
        assert_eq!((one.len(), one[0].severity.as_str()), (1, WARNING));
        assert_eq!(one[0].since_ms, Some(7000));
        let advice = one[0].advice.as_ref().expect("advice");
        assert_eq!(
            advice.command.as_deref(),
            Some("crm_resource --cleanup --resource fence-left-bmc")
        );
        // Both outlets are needed.
        let all = with(&[
            ("bmc", 1, "unverified"),
            ("a", 2, "failed"),
            ("b", 2, "works"),
        ]);
        assert_eq!(all.len(), 2);
        assert!(
            all.iter().all(|alert| alert.severity == ERROR
                && alert.sentence.contains("until a person confirms"))
        );
    }

    #[test]
    fn unconfirmed_power_off_is_one_alert_with_details() {
        let with = |failed_count, refusal: Option<&str>| {
            let alerts = alerts_for(Safeguards {
                has_quorum: Some(true),
                power_offs: vec![PowerOffView {
                    head: "left".into(),
                    since_ms: 1_795_887_180_000,
                    failed_count,
                    refusal: refusal.map(str::to_owned),
                }],
                fence_devices: vec![device("bmc", 1, "failed")],
                ..Safeguards::default()
            });
            assert_eq!(alerts.len(), 1, "{alerts:?}");
            alerts.into_iter().next().expect("an alert")
        };
        let failed = with(1, None);
        assert_eq!(
            failed.sentence,
            "left is lost, and its power-off is pending since 2026-11-28T17:33:00Z; until then no head \
             serves tank"
        );
        let advice = failed.advice.expect("advice").to_string();
        for part in [
            "`stonith_admin --confirm left`",
            "cut all its power",
            "destroy it",
        ] {
            assert!(advice.contains(part), "{part}: {advice}");
        }
        // No confirmation is offered while the devices are being tried.
        let tried = with(0, None).advice.expect("advice").to_string();
        assert!(!tried.contains("confirm"), "{tried}");
        // Nor while the witness does not answer: this head could not open the pools then.
        let refused = with(2, Some("the witness does not respond"));
        let refused = refused.advice.expect("advice");
        assert_eq!(refused.command, None);
        let refused = refused.to_string();
        for part in [
            "only if left is certainly off",
            "stays closed until the witness or left",
        ] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        assert!(refused.contains("does not respond") && refused.contains("start bulkhead-witness"));
    }

    #[test]
    fn a_lost_vote_and_a_lost_quorum_are_errors() {
        let alerts = alerts_for(Safeguards {
            has_quorum: Some(false),
            no_quorum_since_ms: Some(9000),
            witness: Some(WitnessView {
                address: "10.77.9.31".into(),
                has_vote: Some(false),
                without_vote: vec!["left".into(), "right".into()],
                why: Some("corosync-qdevice on right reports: Connect failed".into()),
                since_ms: Some(8000),
            }),
            ..Safeguards::default()
        });
        let seen: Vec<_> = alerts
            .iter()
            .map(|one| (one.about.as_str(), one.severity.as_str(), one.since_ms))
            .collect();
        assert_eq!(
            seen,
            [
                ("cluster", ERROR, Some(9000)),
                ("witness", ERROR, Some(8000))
            ]
        );
        assert!(
            alerts[1]
                .sentence
                .contains("at left, right (corosync-qdevice on right")
        );
        // An unknown vote causes no alert.
        let unknown = alerts_for(Safeguards {
            witness: Some(WitnessView::default()),
            ..Safeguards::default()
        });
        assert_eq!(unknown, []);
    }
}
