//! Folds the consequences of one cause, in all pools, into one alert: a lost head, the networks to it, or the witness.

use std::collections::{BTreeMap, BTreeSet};

use control::{Advice, Severity};

use super::{ERROR, WARNING, with_advice};
use crate::view::{Alert, Overview};

/// The lost heads, and the consequences that pools report.
pub(super) struct Causes<'a> {
    lost: BTreeSet<&'a str>,
    /// The heads that the cluster sees.
    online: BTreeSet<&'a str>,
    /// The names of the witnesses of records.
    witnesses: BTreeSet<&'a str>,
    /// By head or witness: the pool, and the advice of its server.
    consequences: BTreeMap<&'a str, Vec<(&'a str, &'a Advice)>>,
}

impl<'a> Causes<'a> {
    /// Those of an overview.
    pub(super) fn of(overview: &'a Overview) -> Self {
        let waits = overview.safeguards.power_offs.iter();
        let waits = waits.map(|wait| wait.head.as_str());
        let heads = overview.heads.iter();
        let gone = heads.filter(|head| matches!(&*head.state, "offline" | "unclean"));
        let online = overview.heads.iter();
        let online = online.filter(|head| matches!(&*head.state, "online" | "standby"));
        let legs = overview
            .pools
            .iter()
            .filter_map(|pool| pool.pool.as_ref()?.legs.as_ref());
        let members = legs.flat_map(|legs| &legs.members);
        let witnesses = members.filter(|member| member.is_witness);
        let witnesses: BTreeSet<&str> = witnesses.map(|member| member.name.as_str()).collect();
        let mut consequences: BTreeMap<&str, Vec<(&str, &Advice)>> = BTreeMap::new();
        for pool in &overview.pools {
            let advice = pool.pool.iter().flat_map(|status| &status.advice);
            for advice in advice.filter(|advice| advice.severity != Severity::Info) {
                if let Some(cause) = cause_of(&witnesses, advice) {
                    let of_cause = consequences.entry(cause).or_default();
                    of_cause.push((&pool.name, advice));
                }
            }
        }
        Self {
            lost: gone.map(|head| head.name.as_str()).chain(waits).collect(),
            online: online.map(|head| head.name.as_str()).collect(),
            witnesses,
            consequences,
        }
    }

    /// Whether the cluster has lost the head.
    pub(super) fn is_lost(&self, head: &str) -> bool {
        self.lost.contains(head)
    }

    /// Whether there is an alert about this head that includes its legs.
    pub(super) fn has(&self, head: &str) -> bool {
        self.is_lost(head) || self.consequences.contains_key(head)
    }

    /// Whether the advice is a consequence that is part of the alert about a head.
    pub(super) fn is_about(&self, advice: &Advice) -> bool {
        let cause = cause_of(&self.witnesses, advice);
        cause.is_some_and(|head| advice.severity != Severity::Info && self.has(head))
    }

    /// Adds the consequences to the alerts about their heads. A head that the cluster has not lost has one alert of its
    /// own.
    pub(super) fn fold_into(&self, alerts: &mut Vec<Alert>) {
        for (head, found) in &self.consequences {
            let is_witness = self.witnesses.contains(head);
            let about = match is_witness {
                true => "witness".to_owned(),
                false => format!("head {head}"),
            };
            let is_about = |alert: &&mut Alert| match is_witness {
                true => alert.about == about,
                // Alerts about its fence devices have the same subject.
                false if self.is_lost(head) => {
                    alert.about == about && alert.sentence.starts_with(head)
                }
                false => is_way_to(alert, head),
            };
            let known = alerts.iter_mut().find(is_about);
            let alert = match known {
                Some(alert) => alert,
                None => {
                    let Some((pool, first)) = found.first() else {
                        continue;
                    };
                    let is_error = found.iter().any(|(_, one)| one.severity == Severity::Error);
                    let severity = if is_error { ERROR } else { WARNING };
                    let is_one = found.iter().all(|(other, _)| other == pool);
                    let about = match is_one && !is_witness {
                        true => format!("pool {pool}"),
                        false => about,
                    };
                    let mut advice = (*first).clone();
                    // The alert has them.
                    advice.details.clear();
                    advice.risk = None;
                    let same = found.iter().filter(|(_, one)| one.why == first.why);
                    let same: Vec<&str> = same.map(|(pool, _)| *pool).collect();
                    let sentence = format!("{}: {}", same.join(", "), first.why);
                    let mut alert = with_advice(severity, &about, sentence, Some(&advice));
                    if self.online.contains(head) {
                        let seen = format!("{head} is on: the cluster sees it over its heartbeats");
                        alert.details.push(seen);
                    }
                    alerts.push(alert);
                    alerts.last_mut().expect("just added")
                }
            };
            add(alert, found);
        }
    }
}

/// The head or the witness that is the cause of an advice.
fn cause_of<'a>(witnesses: &BTreeSet<&'a str>, advice: &'a Advice) -> Option<&'a str> {
    let device = advice.device.as_deref();
    let witness = device.filter(|device| witnesses.contains(device));
    advice.head.as_deref().or(witness)
}

/// Whether the alert is about networks to the head. Its legs and its leg-server are reached over them.
fn is_way_to(alert: &Alert, head: &str) -> bool {
    let mut words = alert.sentence.split_whitespace();
    alert.about.starts_with("network ") && words.any(|word| word == head)
}

fn add(alert: &mut Alert, found: &[(&str, &Advice)]) {
    let mut risks: Vec<String> = Vec::new();
    for (pool, advice) in found {
        if !alert.sentence.contains(&advice.why) {
            alert.details.push(format!("{pool}: {}", advice.why));
        }
        alert.details.extend(advice.details.iter().cloned());
        risks.extend(advice.risk.clone().filter(|risk| !risks.contains(risk)));
    }
    let is_way = alert.about.starts_with("network ");
    if let Some(advice) = &mut alert.advice {
        // A cut cable has a risk of its own, and the cause may be the process after all.
        let own = advice.risk.take().filter(|_| is_way);
        let all: Vec<String> = own.into_iter().chain(risks).collect();
        advice.risk = (!all.is_empty()).then(|| all.join("; "));
    }
    if is_way {
        let actions = found.iter().map(|(_, advice)| advice.what.as_str());
        for action in actions.collect::<BTreeSet<_>>() {
            let detail = format!("if the network is sound: {action}");
            alert.details.push(detail);
        }
        if found
            .iter()
            .any(|(_, advice)| advice.severity == Severity::Error)
        {
            ERROR.clone_into(&mut alert.severity);
        }
    }
    let first_ms = found.iter().filter_map(|(_, advice)| advice.since_ms).min();
    alert.since_ms = [alert.since_ms, first_ms].into_iter().flatten().min();
}

#[cfg(test)]
mod tests {
    use control::answer::{DeviceView, PoolStatus};
    use control::legs::{LegMemberView, LegView, LegsView};

    use super::super::of;
    use super::*;
    use crate::view::{HeadView, LinkView, PoolOverview};

    fn pool(name: &str) -> PoolOverview {
        let why =
            format!("member right does not answer: refused; its leg of pool {name} is missing");
        let lost = Advice::new(Severity::Warning, "start right", why)
            .caused_by("right")
            .risking(Some(format!(
                "one copy only: if one more disk fails, {name} is down"
            )))
            .with_details(vec![format!("leg right:/{name} is missing all writes")]);
        let lost = Advice {
            since_ms: Some(5000),
            ..lost
        };
        let device = format!("/run/bulkhead/legs/{name}/22");
        PoolOverview {
            name: name.to_owned(),
            state: "served".to_owned(),
            served_by: Some("left".to_owned()),
            home: Some("right".to_owned()),
            pool: Some(PoolStatus {
                name: name.to_owned(),
                health: "DEGRADED".to_owned(),
                advice: vec![lost],
                devices: vec![DeviceView {
                    name: device.clone(),
                    write_errors: 4,
                    ..DeviceView::default()
                }],
                legs: Some(LegsView {
                    legs: vec![LegView {
                        name: format!("right:/{name}"),
                        head: "right".to_owned(),
                        device,
                        ..LegView::default()
                    }],
                    ..LegsView::default()
                }),
                ..PoolStatus::default()
            }),
            ..PoolOverview::default()
        }
    }

    fn overview(state: &str) -> Overview {
        let head = |name: &str, state: &str| HeadView {
            name: name.to_owned(),
            state: state.to_owned(),
            ..HeadView::default()
        };
        Overview {
            this_head: "left".to_owned(),
            heads: vec![head("left", "online"), head("right", state)],
            pools: vec![pool("tank"), pool("vm")],
            links: vec![LinkView {
                from: "left".to_owned(),
                to: "right".to_owned(),
                state: if state == "online" { "up" } else { "down" }.to_owned(),
                ..LinkView::default()
            }],
            ..Overview::default()
        }
    }

    /// Two pools of legs, with a link, device errors and homes: one cause.
    #[test]
    fn lost_head_is_one_alert_with_all_consequences() {
        let alerts = of(&overview("offline"), &[]);
        assert_eq!(alerts.len(), 1, "{alerts:#?}");
        let alert = &alerts[0];
        assert_eq!((&*alert.about, &*alert.severity), ("head right", ERROR));
        assert_eq!(alert.since_ms, Some(5000));
        for part in [
            "pool tank is missing",
            "pool vm is missing",
            "leg right:/vm",
        ] {
            let has = alert.details.iter().any(|detail| detail.contains(part));
            assert!(has, "{part}: {alert:#?}");
        }
        let advice = alert.advice.as_ref().expect("advice").to_string();
        for part in [
            "`bulkhead appliance check --ssh`",
            "tank is down",
            "vm is down",
        ] {
            assert!(advice.contains(part), "{part}: {advice}");
        }
    }

    /// The head is in the cluster, and its leg-server is dead.
    #[test]
    fn dead_leg_server_is_one_alert_for_all_pools() {
        let alerts = of(&overview("online"), &[]);
        let (info, alerts): (Vec<Alert>, Vec<Alert>) = alerts
            .into_iter()
            .partition(|alert| alert.severity == "info");
        assert_eq!(info.len(), 2, "the pools are not at home");
        assert_eq!(alerts.len(), 1, "{alerts:#?}");
        assert_eq!(
            (&*alerts[0].about, &*alerts[0].severity),
            ("head right", WARNING)
        );
        assert!(
            alerts[0]
                .sentence
                .starts_with("tank: member right does not answer")
        );
        assert_eq!(alerts[0].details.len(), 4, "{alerts:#?}");
        assert!(
            alerts[0].details[0].starts_with("right is on"),
            "{alerts:#?}"
        );
    }

    /// The cables of both networks of the legs are cut, and the heartbeats use a third one.
    #[test]
    fn cut_cables_of_legs_are_one_alert_with_the_consequences() {
        let mut overview = overview("online");
        let link = |network: &str, client_pools: &[&str]| LinkView {
            network: network.to_owned(),
            from: "left".to_owned(),
            to: "right".to_owned(),
            state: "down".to_owned(),
            client_pools: client_pools.iter().map(|&pool| pool.to_owned()).collect(),
        };
        overview.links = vec![link("storage-a", &["tank"]), link("storage-b", &[])];
        overview.pools.iter_mut().for_each(|pool| pool.home = None);
        let alerts = of(&overview, &[]);
        assert_eq!(alerts.len(), 1, "{alerts:#?}");
        let alert = &alerts[0];
        assert_eq!(
            alert.sentence,
            "left does not reach right over storage-a, storage-b"
        );
        assert_eq!(alert.since_ms, Some(5000));
        for part in [
            "storage-a is a network of clients of tank",
            "leg of pool tank is missing",
            "leg of pool vm is missing",
            "if the network is sound: start right",
        ] {
            let has = alert.details.iter().any(|detail| detail.contains(part));
            assert!(has, "{part}: {alert:#?}");
        }
        let advice = alert.advice.as_ref().expect("advice").to_string();
        for part in [
            "check the cable",
            "one of them is powered off",
            "vm is down",
        ] {
            assert!(advice.contains(part), "{part}: {advice}");
        }
    }

    #[test]
    fn witness_that_responds_for_no_pool_is_one_alert() {
        let mut overview = overview("online");
        for pool in &mut overview.pools {
            pool.home = None;
            let status = pool.pool.as_mut().expect("a status");
            let lost = Advice::new(
                Severity::Warning,
                "start it",
                "member third does not respond",
            );
            status.advice = vec![lost.about("third")];
            status.devices.clear();
            status.health = "ONLINE".to_owned();
            status.legs.as_mut().expect("legs").members = vec![LegMemberView {
                name: "third".to_owned(),
                is_witness: true,
                ..LegMemberView::default()
            }];
        }
        let alerts = of(&overview, &[]);
        assert_eq!(alerts.len(), 1, "{alerts:#?}");
        assert_eq!(alerts[0].about, "witness");
        assert_eq!(
            alerts[0].sentence,
            "tank, vm: member third does not respond"
        );
        // Its vote in the cluster is lost, too.
        overview.safeguards.witness = Some(crate::view::WitnessView {
            address: "10.77.9.31".to_owned(),
            has_vote: Some(false),
            ..crate::view::WitnessView::default()
        });
        let alerts = of(&overview, &[]);
        assert_eq!(alerts.len(), 1, "{alerts:#?}");
        assert!(
            alerts[0].sentence.starts_with("the witness at"),
            "{alerts:#?}"
        );
    }

    #[test]
    fn device_of_a_leg_is_reported_by_its_name() {
        let mut overview = overview("online");
        for pool in &mut overview.pools {
            let status = pool.pool.as_mut().expect("a status");
            status.advice.clear();
            status.health = "ONLINE".to_owned();
        }
        let alerts = of(&overview, &[]);
        let errors: Vec<&str> = alerts
            .iter()
            .filter(|alert| alert.severity == WARNING)
            .map(|alert| alert.sentence.as_str())
            .collect();
        assert_eq!(
            errors,
            ["right:/tank has 4 errors", "right:/vm has 4 errors"]
        );
    }
}
