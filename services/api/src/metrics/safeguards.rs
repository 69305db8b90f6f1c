//! Metrics of the safeguards that a takeover depends on.

use super::{Family, truth};
use crate::view::Overview;

/// A single head has none.
pub(super) fn families(overview: &Overview) -> Vec<Family> {
    let safeguards = &overview.safeguards;
    let gauge = |name, help| Family::new(name, "gauge", help);
    let mut quorum = gauge(
        "bulkhead_quorum",
        "Whether the part of the cluster that this head is in may act.",
    );
    if let Some(has_quorum) = safeguards.has_quorum {
        quorum.add(&[], truth(has_quorum));
    }
    let mut vote = gauge(
        "bulkhead_witness_vote",
        "Whether the vote of the witness counts at every head that is up.",
    );
    if let Some(witness) = &safeguards.witness {
        if let Some(has_vote) = witness.has_vote {
            vote.add(&[("witness", &witness.address)], truth(has_vote));
        }
    }
    let mut device = gauge(
        "bulkhead_fence_device_works",
        "Whether the last test of a fence device succeeded. All devices of a level are needed.",
    );
    let known = safeguards.fence_devices.iter();
    for one in known.filter(|one| one.state != "unknown") {
        let level = one.level.to_string();
        let labels = [
            ("head", one.head.as_str()),
            ("device", &one.name),
            ("level", &level),
        ];
        device.add(&labels, truth(one.state == "works"));
    }
    let mut wait = gauge(
        "bulkhead_power_off_wait_seconds",
        "Time since the power-off of a lost head is pending; 0 if it is not.",
    );
    // Without fence devices the cluster does not power heads off.
    if !safeguards.fence_devices.is_empty() {
        for head in &overview.heads {
            let mut waits = safeguards.power_offs.iter();
            let since_ms = waits.find(|one| one.head == head.name);
            let waited_ms = since_ms.map_or(0, |one| overview.at_ms.saturating_sub(one.since_ms));
            wait.add(&[("head", &head.name)], waited_ms as f64 / 1000.0);
        }
    }
    vec![quorum, vote, device, wait]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{FenceDeviceView, HeadView, PowerOffView, Safeguards, WitnessView};

    #[test]
    fn each_safeguard_has_a_metric() {
        let device = |name: &str, level, state: &str| FenceDeviceView {
            name: name.into(),
            head: "left".into(),
            level,
            state: state.into(),
            ..FenceDeviceView::default()
        };
        let safeguards = Safeguards {
            has_quorum: Some(true),
            witness: Some(WitnessView {
                address: "10.77.9.31".into(),
                has_vote: Some(false),
                ..WitnessView::default()
            }),
            fence_devices: vec![
                device("bmc", 1, "failed"),
                device("outlet", 2, "works"),
                device("other", 2, "unknown"),
            ],
            power_offs: vec![PowerOffView {
                head: "left".into(),
                since_ms: 1_000,
                failed_count: 1,
                refusal: None,
            }],
            ..Safeguards::default()
        };
        let head = |name: &str| HeadView {
            name: name.into(),
            ..HeadView::default()
        };
        let overview = Overview {
            heads: vec![head("left"), head("right")],
            at_ms: 91_500,
            safeguards,
            ..Overview::default()
        };
        let mut text = String::new();
        for family in families(&overview) {
            family.text(&mut text);
        }
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "bulkhead_quorum 1",
                r#"bulkhead_witness_vote{witness="10.77.9.31"} 0"#,
                r#"bulkhead_fence_device_works{head="left",device="bmc",level="1"} 0"#,
                r#"bulkhead_fence_device_works{head="left",device="outlet",level="2"} 1"#,
                r#"bulkhead_power_off_wait_seconds{head="left"} 90.5"#,
                r#"bulkhead_power_off_wait_seconds{head="right"} 0"#,
            ]
        );
        let alone = families(&Overview::default());
        assert!(alone.iter().all(|family| family.samples.is_empty()));
    }
}
