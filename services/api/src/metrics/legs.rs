//! Metrics of pools with legs on several heads.

use control::answer::Status;
use control::legs::{LegState, LegView};

use super::{Family, truth};

pub(super) fn families(statuses: &[(&str, &Status)]) -> Vec<Family> {
    let gauge = |name, help| Family::new(name, "gauge", help);
    let mut state = gauge(
        "bulkhead_leg_state",
        "1 for the state of a leg, 0 for all other states.",
    );
    let mut since = gauge(
        "bulkhead_leg_state_timestamp_seconds",
        "When a leg came into its state, in seconds since 1970.",
    );
    let mut retry = gauge(
        "bulkhead_leg_retry_timestamp_seconds",
        "When a leg that failed too often is tried again, in seconds since 1970.",
    );
    let mut left = gauge(
        "bulkhead_leg_return_left_bytes",
        "Data still to be copied to a leg that returned, at most.",
    );
    let mut copied = gauge(
        "bulkhead_leg_return_copied_bytes",
        "Data copied to a leg since it returned.",
    );
    let mut remaining = gauge(
        "bulkhead_leg_return_remaining_seconds",
        "Remaining time of that copy at its current speed, at most.",
    );
    let mut member = gauge(
        "bulkhead_leg_member_up",
        "Whether a head or the witness responds for the record of a pool's legs.",
    );
    let mut waits = gauge(
        "bulkhead_leg_writes_wait",
        "Whether writes are blocked until the failure of a leg is recorded.",
    );
    let mut epoch = gauge(
        "bulkhead_leg_record_epoch",
        "The epoch of the record: it grows with every owner.",
    );
    for (pool, status) in statuses {
        let Some(legs) = &status.pool.legs else {
            continue;
        };
        for leg in &legs.legs {
            let labels = [("pool", *pool), ("head", &leg.head), ("path", &leg.path)];
            for one in LegState::ALL {
                let labels = [&labels[..], &[("state", one.word())]].concat();
                state.add(&labels, truth(leg.state == one));
            }
            if let Some(since_ms) = leg.since_ms {
                since.add(&labels, since_ms as f64 / 1000.0);
            }
            if let Some(again_ms) = leg.tried_again_ms {
                retry.add(&labels, again_ms as f64 / 1000.0);
            }
            type Get = fn(&LegView) -> Option<u64>;
            let amounts: [(&mut Family, Get); 3] = [
                (&mut left, |leg| leg.left),
                (&mut copied, |leg| leg.copied),
                (&mut remaining, |leg| leg.remaining_s),
            ];
            for (family, get) in amounts {
                if let Some(amount) = get(leg) {
                    family.add(&labels, amount as f64);
                }
            }
        }
        for one in &legs.members {
            let kind = match one.is_witness {
                true => "witness",
                false => "head",
            };
            let labels = [("pool", *pool), ("member", &one.name), ("kind", kind)];
            member.add(&labels, truth(one.answers));
        }
        waits.add(&[("pool", pool)], truth(legs.writes_wait));
        epoch.add(&[("pool", pool)], legs.epoch as f64);
    }
    vec![
        state, since, retry, left, copied, remaining, member, waits, epoch,
    ]
}

#[cfg(test)]
mod tests {
    use control::legs::{LegMemberView, LegsView};

    use super::*;

    #[test]
    fn resilvering_leg_and_silent_witness_have_metrics() {
        let mut status = Status::default();
        status.pool.legs = Some(LegsView {
            epoch: 7,
            writes_wait: false,
            legs: vec![LegView {
                head: "right".into(),
                path: "/dev/b".into(),
                state: LegState::Copying,
                since_ms: Some(2_500),
                copied: Some(10),
                left: Some(4096),
                remaining_s: Some(3),
                tried_again_ms: Some(3_500),
                ..LegView::default()
            }],
            members: vec![LegMemberView {
                name: "witness".into(),
                is_witness: true,
                answers: false,
                ..LegMemberView::default()
            }],
            ..LegsView::default()
        });
        let mut text = String::new();
        for family in families(&[("tank", &status)]) {
            family.text(&mut text);
        }
        let leg = r#"pool="tank",head="right",path="/dev/b""#;
        for wanted in [
            format!(r#"bulkhead_leg_state{{{leg},state="copying"}} 1"#),
            format!(r#"bulkhead_leg_state{{{leg},state="current"}} 0"#),
            format!("bulkhead_leg_state_timestamp_seconds{{{leg}}} 2.5"),
            format!("bulkhead_leg_retry_timestamp_seconds{{{leg}}} 3.5"),
            format!("bulkhead_leg_return_left_bytes{{{leg}}} 4096"),
            format!("bulkhead_leg_return_copied_bytes{{{leg}}} 10"),
            format!("bulkhead_leg_return_remaining_seconds{{{leg}}} 3"),
            r#"bulkhead_leg_member_up{pool="tank",member="witness",kind="witness"} 0"#.into(),
            r#"bulkhead_leg_writes_wait{pool="tank"} 0"#.into(),
            r#"bulkhead_leg_record_epoch{pool="tank"} 7"#.into(),
        ] {
            assert!(text.contains(&wanted), "{wanted}\n{text}");
        }
    }
}
