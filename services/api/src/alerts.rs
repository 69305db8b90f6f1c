//! Derives the alerts, in sentences, the worst first. Pure.

mod alone;
mod cause;
mod network;
mod safeguards;

use std::collections::BTreeMap;

use control::answer::{DeviceView, PoolStatus};
use control::space::full_level;
use control::{Advice, Button, Severity};
use units::PoolName;

use self::cause::Causes;
use crate::fill::ALERT_DAYS;
use crate::view::{Alert, HeadView, Overview, PoolOverview};

const ERROR: &str = "error";
const WARNING: &str = "warning";
const INFO: &str = "info";
/// The start of the sentence about a pool without a server.
const NOT_SERVED: &str = "no head serves";
/// The start of the sentence about a pool that another head may serve, which this head cannot know.
const UNKNOWN_SERVER: &str = "it is unknown whether another head serves";
/// The start of the sentence about a pool with failures on every head.
const GIVEN_UP: &str = "the cluster gave up serving";

/// The advice for an export that is not served.
const PROBLEM_ADVICE: &str = "repair the export, or remove it and create it again";

fn alert(severity: &str, about: &str, sentence: String, advice: Option<&str>) -> Alert {
    Alert {
        severity: severity.to_owned(),
        about: about.to_owned(),
        sentence,
        since_ms: None,
        advice: advice.map(|what| Advice::new(Severity::default(), what, "")),
        details: Vec::new(),
    }
}

/// The alerts of an overview, and of the `problems` of the surroundings.
pub fn of(overview: &Overview, problems: &[String]) -> Vec<Alert> {
    let mut alerts = Vec::new();
    let causes = Causes::of(overview);
    safeguards::of(overview, &mut alerts);
    let waits = &overview.safeguards.power_offs;
    let heads = overview.heads.iter();
    for head in heads.filter(|head| waits.iter().all(|wait| wait.head != head.name)) {
        let about = format!("head {}", head.name);
        let idle = || {
            format!(
                "until then {} serves no pool, also if another head is lost",
                head.name
            )
        };
        let (severity, advice) = match head.state.as_str() {
            "online" | "unknown" => continue,
            "pending" => (
                WARNING,
                Advice::new(
                    Severity::Warning,
                    format!(
                        "wait if {0} has just booted; else start Pacemaker on {0} with `systemctl start pacemaker`",
                        head.name
                    ),
                    "",
                )
                .risking(Some(idle())),
            ),
            "standby" => (
                INFO,
                Advice::new(Severity::Info, "let it serve again when it is ready", "")
                    .by(format!("bulkhead appliance maintenance {} off", head.name))
                    .risking(Some(idle())),
            ),
            _ => (
                ERROR,
                Advice::new(
                    Severity::Error,
                    format!(
                        "find out why {} is gone (\"A head was powered off\" in the guide to failures), power it on, and check the appliance; \
                         until it is back, no head can take over from the remaining ones",
                        head.name
                    ),
                    "",
                )
                .by("bulkhead appliance check --ssh"),
            ),
        };
        let sentence = format!("{} is {}", head.name, head.state);
        alerts.push(with_advice(severity, &about, sentence, Some(&advice)));
    }
    network::of_links(overview, &causes, &mut alerts);
    for pool in &overview.pools {
        match safeguards::explains(overview, &pool.name) {
            true => of_problems(pool, &mut alerts),
            false => of_pool((overview, pool), &causes, &mut alerts),
        }
    }
    let faults = overview.hardware_faults.iter();
    let faults = faults.filter(|fault| !causes.is_lost(&fault.head));
    alerts.extend(faults.map(crate::hardware_faults::alert));
    of_exclusions(overview, &causes, &mut alerts);
    of_receivers(overview, &mut alerts);
    causes.fold_into(&mut alerts);
    network::fold_into(overview, &mut alerts);
    let problems = alone::fold_into(overview, problems, &mut alerts);
    for problem in problems {
        alerts.push(alert(WARNING, "appliance", problem.clone(), None));
    }
    if overview.pools.is_empty() {
        let advice =
            "serve one of those that `bulkhead pool list` shows, or create one on some disks";
        alerts.push(alert(
            INFO,
            "pools",
            "no pool is served, and the appliance file lists none".to_owned(),
            Some(advice),
        ));
    }
    let rank = |alert: &Alert| {
        [ERROR, WARNING, INFO]
            .iter()
            .position(|s| *s == alert.severity)
    };
    alerts.sort_by_key(rank);
    alerts
}

/// Whether this head has a cluster, and its Pacemaker does not run.
fn is_blind(overview: &Overview) -> bool {
    let mut heads = overview.heads.iter();
    !overview.heads.is_empty() && heads.all(|head| head.state == "unknown")
}

/// Advice on a pool that no head serves.
fn of_unserved(overview: &Overview, pool: &PoolOverview) -> Advice {
    let advice = |what: &str| Advice::new(Severity::Error, what, "");
    let may_serve = |head: &&HeadView| pool.heads.is_empty() || pool.heads.contains(&head.name);
    let heads: Vec<&HeadView> = overview.heads.iter().filter(may_serve).collect();
    let is_any = |state: &str| heads.iter().any(|head| head.state == state);
    let in_maintenance = heads.iter().find(|head| head.state == "standby");
    match in_maintenance {
        _ if overview.heads.is_empty() => {
            advice("start its server").by(format!("bulkhead pool-server {}", pool.name))
        }
        Some(_) if overview.heads.iter().all(|head| head.state == "standby") => advice(
            "after an interrupted `bulkhead appliance shutdown`, start the appliance; heads in maintenance return by \
             `bulkhead appliance maintenance HEAD off`",
        )
        .by("bulkhead appliance start --ssh"),
        Some(head) if !is_any("online") => {
            advice("end the maintenance of a head: no other one that may serve the pool is online")
                .by(format!("bulkhead appliance maintenance {} off", head.name))
        }
        _ if overview.safeguards.has_quorum == Some(false) => {
            advice("query a head with quorum, or reconnect this one").by("corosync-quorumtool -s")
        }
        None if is_blind(overview) => advice(
            "after a shutdown of the appliance, start it: Pacemaker does not run on this head",
        )
        .by("bulkhead appliance start --ssh"),
        _ => {
            advice("find out why the cluster does not start it").by("crm_mon -1 -rf --include=bans")
        }
    }
}

fn of_pool(
    (overview, pool): (&Overview, &PoolOverview),
    causes: &Causes<'_>,
    alerts: &mut Vec<Alert>,
) {
    let about = format!("pool {}", pool.name);
    let name = &pool.name;
    match pool.state.as_str() {
        // The cluster does not have it, which is one of its problems.
        "stopped" if !pool.problems.is_empty() => {}
        "stopped" => alerts.push(with_advice(
            ERROR,
            &about,
            match (is_blind(overview), overview.safeguards.has_quorum) {
                (true, _) => format!("{NOT_SERVED} {name}, as far as this head can see"),
                // The heads with quorum may serve it.
                (false, Some(false)) => format!(
                    "{UNKNOWN_SERVER} {name}: {} does not serve it, and has no quorum",
                    overview.this_head
                ),
                (false, _) => format!("{NOT_SERVED} {name}"),
            },
            Some(&of_unserved(overview, pool)),
        )),
        "failed" => alerts.push(alert(
            ERROR,
            &about,
            format!("{GIVEN_UP} {name}"),
            Some(
                "read the failure with `crm_mon`, repair its cause, then `crm_resource --cleanup`",
            ),
        )),
        "unreachable" => alerts.push(of_unreachable(overview, pool)),
        _ => {}
    }
    if let Some(since_ms) = pool.slow_since_ms {
        let sentence = format!(
            "the server of {name} responds slowly: its process runs, and its last state is shown"
        );
        let what = "reduce the load of this head, or find the disk that delays it; the server need not be stopped";
        let advice = Advice::new(Severity::Warning, what, "")
            .by(format!("bulkhead pool iostat {name}"))
            .risking(Some("a server that does not respond within the time of a monitor is restarted by the cluster".to_owned()));
        alerts.push(Alert {
            since_ms: Some(since_ms),
            ..with_advice(WARNING, &about, sentence, Some(&advice))
        });
    }
    if let (Some(home), Some(by)) = (&pool.home, &pool.served_by) {
        if home != by && !causes.is_lost(home) {
            let sentence = format!("{name} is served by {by}, its home is {home}");
            alerts.push(alert(
                INFO,
                &about,
                sentence,
                Some("move it home when that suits its clients"),
            ));
        }
    }
    of_problems(pool, alerts);
    if let Some(status) = &pool.pool {
        of_status(&about, status, causes, alerts);
    }
    of_forecast(&about, pool, alerts);
}

/// A pool that will be full soon. A pool that is full already has its own alert.
fn of_forecast(about: &str, pool: &PoolOverview, alerts: &mut Vec<Alert>) {
    let space = pool.pool.as_ref().and_then(|status| status.space.as_ref());
    let is_full = space.is_some_and(|space| full_level(space.full_percent) > 0 || space.refuses);
    let forecast = pool
        .forecast
        .as_ref()
        .filter(|forecast| forecast.is_alert());
    let Some(full_at) = forecast
        .and_then(|forecast| forecast.full_at)
        .filter(|_| !is_full)
    else {
        return;
    };
    let name = &pool.name;
    // The date may change with each day, and the alert stays the same.
    let sentence =
        format!("{name} will be full within {ALERT_DAYS} days at the rate of the last 30 days");
    let advice = Advice::new(
        Severity::Warning,
        "add devices, or destroy unneeded data",
        "",
    )
    .by(format!("bulkhead pool growth {name}"))
    .risking(Some(
        "writes of clients are refused when the pool is full".to_owned(),
    ));
    alerts.push(Alert {
        details: vec![format!("expected on {}", day(full_at))],
        ..with_advice(WARNING, about, sentence, Some(&advice))
    });
}

/// Such as `2026-12-01`.
fn day(at_s: u64) -> String {
    let mut text = control::calendar::utc(at_s);
    text.truncate("2026-12-01".len());
    text
}

/// No status of a pool that is served. Of a pool on another head only that head can say why.
fn of_unreachable(overview: &Overview, pool: &PoolOverview) -> Alert {
    let (about, name) = (format!("pool {}", pool.name), &pool.name);
    let other = pool
        .served_by
        .as_ref()
        .filter(|by| **by != overview.this_head);
    match other {
        Some(head) if !overview.this_head.is_empty() => {
            let sentence = format!(
                "{head}, which serves {name}, does not report its state to {}",
                overview.this_head
            );
            let what = format!(
                "check that the head daemon runs on {head}, and the networks to it: clients may be served all the same"
            );
            let advice = Advice::new(Severity::Warning, what, "")
                .by(format!("ssh root@{head} systemctl status bulkhead-head"));
            with_advice(WARNING, &about, sentence, Some(&advice))
        }
        _ => alert(
            ERROR,
            &about,
            format!("the server of {name} does not respond"),
            Some("check its log"),
        ),
    }
}

/// Alerts about heads that could not serve a pool: each would fail to take it over, too. Of a pool that no head serves
/// they are the reasons.
fn of_exclusions(overview: &Overview, causes: &Causes<'_>, alerts: &mut Vec<Alert>) {
    let exclusions = &overview.safeguards.exclusions;
    for exclusion in exclusions.iter().filter(|one| !causes.is_lost(&one.head)) {
        let (pool, head) = (&exclusion.pool, &exclusion.head);
        let about = format!("pool {pool}");
        let why = exclusion.why.as_ref();
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let sentence = format!("{head} could not serve {pool}{why}");
        let unserved = alerts.iter_mut().find(|alert| {
            alert.about == about && alert.severity == ERROR && is_unserved(&alert.sentence)
        });
        if let Some(unserved) = unserved {
            unserved.since_ms = unserved.since_ms.or(exclusion.since_ms);
            unserved.details.push(sentence);
            continue;
        }
        let served_by = overview.pools.iter().find(|one| one.name == *pool);
        let served_by = served_by.and_then(|one| one.served_by.as_deref());
        let risk =
            served_by.map(|by| format!("if {by} is lost now, {head} does not take {pool} over"));
        let what = "repair the cause, and let the cluster try it again";
        let advice = Advice::new(Severity::Warning, what, "")
            .by(format!(
                "crm_resource --cleanup --resource {} --node {head}",
                resource_of(pool)
            ))
            .risking(risk);
        alerts.push(Alert {
            since_ms: exclusion.since_ms,
            ..with_advice(WARNING, &about, sentence, Some(&advice))
        });
    }
}

/// Receivers that get no messages about alerts.
fn of_receivers(overview: &Overview, alerts: &mut Vec<Alert>) {
    for receiver in overview.receivers.iter().filter(|one| one.is_failing) {
        let name = &receiver.name;
        // The reason may change with each attempt, and the alert stays the same.
        let sentence = format!("messages to the receiver {name} fail");
        let what = "repair the cause, and test the receiver";
        let advice = Advice::new(Severity::Warning, what, "")
            .by(format!("bulkhead alert test {name}"))
            .risking(Some("alerts are not noticed".to_owned()));
        let about = format!("receiver {name}");
        alerts.push(Alert {
            since_ms: receiver.failing_since_ms,
            details: receiver.last_failure.iter().cloned().collect(),
            ..with_advice(WARNING, &about, sentence, Some(&advice))
        });
    }
}

/// Whether an alert says that no head serves a pool.
fn is_unserved(sentence: &str) -> bool {
    let begins = [NOT_SERVED, UNKNOWN_SERVER, GIVEN_UP];
    begins.iter().any(|begin| sentence.starts_with(begin))
}

fn of_problems(pool: &PoolOverview, alerts: &mut Vec<Alert>) {
    let about = format!("pool {}", pool.name);
    for problem in &pool.problems {
        // A sentence with a command contains its own advice.
        let advice = (!problem.contains('`')).then_some(PROBLEM_ADVICE);
        alerts.push(alert(ERROR, &about, problem.clone(), advice));
    }
}

fn of_status(about: &str, status: &PoolStatus, causes: &Causes<'_>, alerts: &mut Vec<Alert>) {
    let name = &status.name;
    let is_folded = |advice: &&Advice| causes.is_about(advice);
    let is_degraded_by_head = status.advice.iter().any(|advice| is_folded(&advice));
    let health = match status.health.as_str() {
        "ONLINE" => None,
        "DEGRADED" => Some(WARNING),
        _ => Some(ERROR),
    };
    let mut alerts_for = status.advice.iter().filter(|advice| !is_folded(advice));
    let severity = match (health, alerts_for.clone().next()) {
        // The alert about the head contains it.
        (Some(WARNING), None) if is_degraded_by_head => None,
        (health, _) => health,
    };
    if let Some(severity) = severity {
        let first = alerts_for.next();
        let why = first.map(|advice| format!(": {}", advice.why));
        let sentence = format!("{name} is {}{}", status.health, why.unwrap_or_default());
        alerts.push(with_advice(severity, about, sentence, first));
    }
    // Informational advice is shown on the page of the pool only.
    for advice in alerts_for.filter(|advice| advice.severity != Severity::Info) {
        let severity = match advice.severity {
            Severity::Error => ERROR,
            _ => WARNING,
        };
        alerts.push(with_advice(
            severity,
            about,
            advice.why.clone(),
            Some(advice),
        ));
    }
    let mut named = status.clone();
    named.name_legs();
    let legs = status.legs.iter().flat_map(|legs| &legs.legs);
    let lost_legs = legs.filter(|leg| causes.has(&leg.head));
    let lost_legs: Vec<&str> = lost_legs.map(|leg| leg.name.as_str()).collect();
    for device in &named.devices {
        of_device(about, name, device, (&status.advice, &lost_legs), alerts);
    }
}

fn with_advice(severity: &str, about: &str, sentence: String, advice: Option<&Advice>) -> Alert {
    Alert {
        advice: advice.cloned(),
        since_ms: advice.and_then(|advice| advice.since_ms),
        details: advice.map_or_else(Vec::new, |advice| advice.details.clone()),
        ..alert(severity, about, sentence, None)
    }
}

/// Device errors that the `advice` of the pool's server, and an alert about the head of the legs in `lost_legs`, do not
/// cover.
fn of_device(
    about: &str,
    pool: &str,
    device: &DeviceView,
    (alerts_for, lost_legs): (&[Advice], &[&str]),
    alerts: &mut Vec<Alert>,
) {
    for member in &device.members {
        of_device(about, pool, member, (alerts_for, lost_legs), alerts);
    }
    let name = &device.name;
    let errors = device.read_errors + device.write_errors + device.checksum_errors;
    let is_told = |advice: &Advice| advice.device.as_ref() == Some(name);
    if lost_legs.contains(&name.as_str()) {
        return;
    }
    if errors == 0 || !device.members.is_empty() || alerts_for.iter().any(is_told) {
        return;
    }
    let why = format!("{name} has {errors} errors");
    let what = "replace it if they grow; clear them once the cause is repaired";
    let advice = Advice::new(Severity::Warning, what, why.clone())
        .by(format!("bulkhead pool clear {pool} {name}"))
        .offering(Button::Clear)
        .about(name);
    alerts.push(with_advice(WARNING, about, why, Some(&advice)));
}

/// Sets the start of alerts without one to that of the same alert in `observed`.
pub fn date(alerts: &mut [Alert], observed: &[Alert]) {
    for alert in alerts.iter_mut().filter(|alert| alert.since_ms.is_none()) {
        let known = observed.iter().find(|known| key(known) == key(alert));
        alert.since_ms = known.and_then(|known| known.since_ms);
    }
}

/// Counts in a sentence change while the condition stays the same.
fn key(alert: &Alert) -> (String, String) {
    let sentence = alert
        .sentence
        .replace(|letter: char| letter.is_ascii_digit(), "");
    (alert.about.clone(), sentence)
}

/// The start of each alert, where its subject does not provide one.
#[derive(Default)]
pub struct FirstSeen(BTreeMap<(String, String), u64>);

impl FirstSeen {
    /// Completes the alerts of a sample, and drops those that are gone.
    pub fn note(&mut self, alerts: &mut [Alert], now_ms: u64) {
        let mut still = BTreeMap::new();
        for alert in alerts {
            let key = key(alert);
            let first_ms = self.0.get(&key).copied().unwrap_or(now_ms);
            alert.since_ms.get_or_insert(first_ms);
            still.insert(key, first_ms);
        }
        self.0 = still;
    }
}

/// The name of a pool's resource in Pacemaker.
fn resource_of(pool: &str) -> String {
    let parsed = pool.parse::<PoolName>();
    parsed.map_or_else(
        |_| format!("pool-{pool}"),
        |pool| appliance::render::pool_id(&pool),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::ForecastView;
    use crate::view::{HeadView, LinkView};
    use control::answer::PoolSpace;

    fn pool(change: impl FnOnce(&mut PoolOverview)) -> PoolOverview {
        let mut pool = PoolOverview {
            name: "tank".into(),
            state: "served".into(),
            served_by: Some("left".into()),
            pool: Some(PoolStatus {
                name: "tank".into(),
                health: "ONLINE".into(),
                size: 100,
                allocated: 10,
                ..PoolStatus::default()
            }),
            ..PoolOverview::default()
        };
        change(&mut pool);
        pool
    }

    fn severities(overview: &Overview) -> Vec<(String, String)> {
        let alerts = of(overview, &[]);
        alerts
            .into_iter()
            .map(|alert| (alert.severity, alert.about))
            .collect()
    }

    #[test]
    fn healthy_state_has_no_alerts() {
        let overview = Overview {
            pools: vec![pool(|_| ())],
            ..Overview::default()
        };
        assert!(severities(&overview).is_empty());
    }

    #[test]
    fn pool_that_is_full_within_two_weeks_is_a_warning_until_it_is_reported_as_full() {
        let with = |full_in_days, full_percent| Overview {
            pools: vec![pool(|pool| {
                pool.forecast = Some(ForecastView {
                    full_in_days,
                    full_at: full_in_days.map(|days| days * 86_400),
                    ..ForecastView::default()
                });
                pool.pool.as_mut().expect("a state").space = Some(PoolSpace {
                    full_percent,
                    ..PoolSpace::default()
                });
            })],
            ..Overview::default()
        };
        for (full_in_days, full_percent, is_alert) in [
            (Some(13), 70, true),
            (Some(0), 79, true),
            (Some(14), 70, false),
            (None, 70, false),
            (Some(3), 80, false),
        ] {
            let alerts = of(&with(full_in_days, full_percent), &[]);
            assert_eq!(
                alerts.len(),
                usize::from(is_alert),
                "{full_in_days:?} {full_percent}"
            );
        }
        let alerts = of(&with(Some(10), 70), &[]);
        assert_eq!(alerts[0].details, ["expected on 1970-01-11"]);
        assert_eq!(alerts[0].severity, WARNING);
    }

    #[test]
    fn each_problem_has_a_sentence_and_worst_is_first() {
        let sick = |status: &mut PoolOverview| {
            let status = status.pool.as_mut().expect("a state");
            let advice = Advice::new(Severity::Error, "make room", "tank is 96 % full");
            status.advice = vec![advice];
            status.devices = vec![DeviceView {
                name: "sda".into(),
                checksum_errors: 3,
                ..DeviceView::default()
            }];
        };
        let overview = Overview {
            heads: vec![HeadView {
                name: "right".into(),
                state: "offline".into(),
                ..HeadView::default()
            }],
            links: vec![LinkView {
                state: "down".into(),
                ..LinkView::default()
            }],
            pools: vec![
                pool(|pool| pool.home = Some("third".into())),
                pool(|pool| pool.state = "failed".into()),
                pool(sick),
            ],
            ..Overview::default()
        };
        let found = severities(&overview);
        let count = |severity| found.iter().filter(|(one, _)| one == severity).count();
        assert_eq!(
            (count(ERROR), count(WARNING), count(INFO)),
            (3, 2, 1),
            "{found:?}"
        );
        assert_eq!((found[0].0.as_str(), found[5].0.as_str()), (ERROR, INFO));
    }

    #[test]
    fn excluded_head_is_reported_with_reason_and_risk() {
        let exclusion = crate::view::ExclusionView {
            pool: "tank".into(),
            head: "right".into(),
            why: Some("its legs are stale (start on right)".into()),
            since_ms: Some(4000),
        };
        let with = |change: fn(&mut PoolOverview)| {
            let overview = Overview {
                pools: vec![pool(change)],
                safeguards: crate::view::Safeguards {
                    exclusions: vec![exclusion.clone()],
                    ..crate::view::Safeguards::default()
                },
                ..Overview::default()
            };
            let mut alerts = of(&overview, &[]);
            assert_eq!(alerts.len(), 1, "{alerts:#?}");
            alerts.remove(0)
        };
        let served = with(|_| ());
        assert_eq!((&*served.severity, served.since_ms), (WARNING, Some(4000)));
        assert_eq!(
            served.sentence,
            "right could not serve tank: its legs are stale (start on right)"
        );
        let advice = served.advice.expect("advice").to_string();
        for part in [
            "`crm_resource --cleanup --resource pool-tank --node right`",
            "at risk: if left is lost now, right does not take tank over",
        ] {
            assert!(advice.contains(part), "{part}: {advice}");
        }
        let stopped = with(|pool| {
            pool.state = "stopped".into();
            pool.served_by = None;
            pool.pool = None;
        });
        assert_eq!(stopped.sentence, "no head serves tank");
        assert!(stopped.details[0].contains("its legs are stale"));
        assert_eq!(stopped.since_ms, Some(4000));
    }

    /// Each kind of trouble tells since when, and what to do; a fault that clients do not notice tells what is at risk.
    #[test]
    fn every_trouble_has_its_start_an_action_and_a_risk() {
        use crate::view::{FenceDeviceView, PowerOffView, Safeguards, WitnessView};
        let head = |state: &str| HeadView {
            name: "right".into(),
            state: state.into(),
            ..HeadView::default()
        };
        let served = || vec![pool(|_| ())];
        let with_pool = |change: fn(&mut PoolOverview)| Overview {
            pools: vec![pool(change)],
            ..Overview::default()
        };
        let with = |safeguards| Overview {
            this_head: "left".into(),
            pools: served(),
            safeguards,
            ..Overview::default()
        };
        let device = |state: &str| FenceDeviceView {
            name: "fence-right-bmc".into(),
            head: "right".into(),
            level: 1,
            state: state.into(),
            ..FenceDeviceView::default()
        };
        let troubles: Vec<(&str, Overview, bool)> = vec![
            (
                "a lost head",
                Overview {
                    heads: vec![head("offline")],
                    pools: served(),
                    ..Overview::default()
                },
                true,
            ),
            (
                "a cut link",
                Overview {
                    links: vec![LinkView {
                        from: "left".into(),
                        to: "right".into(),
                        state: "down".into(),
                        ..LinkView::default()
                    }],
                    pools: served(),
                    ..Overview::default()
                },
                true,
            ),
            (
                "a pool without a head",
                with_pool(|one| one.state = "stopped".into()),
                false,
            ),
            (
                "a failed pool",
                with_pool(|one| one.state = "failed".into()),
                false,
            ),
            (
                "a silent server",
                with_pool(|one| one.state = "unreachable".into()),
                false,
            ),
            (
                "an export",
                with_pool(|one| one.problems = vec!["vm0 is no volume".into()]),
                false,
            ),
            (
                "a late copy",
                with_pool(|one| {
                    let status = one.pool.as_mut().expect("a state");
                    let late = "the replication of tank/vm0 to attic is late: its copy has the contents of yesterday";
                    let advice = Advice::new(Severity::Warning, "find the cause", late);
                    status.advice = vec![advice.by("bulkhead replicate list tank")];
                }),
                false,
            ),
            (
                "a broken fence device",
                with(Safeguards {
                    fence_devices: vec![device("failed")],
                    ..Safeguards::default()
                }),
                true,
            ),
            (
                "an unverified fence device",
                with(Safeguards {
                    fence_devices: vec![device("unverified")],
                    ..Safeguards::default()
                }),
                true,
            ),
            (
                "an unconfirmed power-off",
                with(Safeguards {
                    power_offs: vec![PowerOffView {
                        head: "right".into(),
                        since_ms: 5,
                        failed_count: 1,
                        refusal: None,
                    }],
                    ..Safeguards::default()
                }),
                true,
            ),
            (
                "no quorum",
                with(Safeguards {
                    no_quorum_since_ms: Some(5),
                    ..Safeguards::default()
                }),
                true,
            ),
            (
                "a lost vote",
                with(Safeguards {
                    witness: Some(WitnessView {
                        address: "10.77.9.31".into(),
                        has_vote: Some(false),
                        ..WitnessView::default()
                    }),
                    ..Safeguards::default()
                }),
                true,
            ),
            (
                "an excluded head",
                with(Safeguards {
                    exclusions: vec![crate::view::ExclusionView {
                        pool: "tank".into(),
                        head: "right".into(),
                        ..crate::view::ExclusionView::default()
                    }],
                    ..Safeguards::default()
                }),
                true,
            ),
        ];
        for (trouble, overview, has_risk) in troubles {
            let mut alerts = of(&overview, &[]);
            FirstSeen::default().note(&mut alerts, 9);
            assert_eq!(alerts.len(), 1, "{trouble}: {alerts:#?}");
            let alert = &alerts[0];
            assert!(alert.since_ms.is_some(), "{trouble}");
            let advice = alert.advice.as_ref().expect(trouble);
            assert!(!advice.what.is_empty(), "{trouble}");
            let text = format!("{} {advice}", alert.sentence);
            let risks = ["if ", "until ", "no head", "no quorum"];
            let names_risk = risks.iter().any(|risk| text.contains(risk));
            assert!(names_risk || !has_risk, "{trouble}: {text}");
        }
    }

    #[test]
    fn slow_server_is_a_warning_and_no_dead_one() {
        let with = |change: fn(&mut PoolOverview)| {
            let overview = Overview {
                this_head: "left".into(),
                pools: vec![pool(change)],
                ..Overview::default()
            };
            let mut alerts = of(&overview, &[]);
            assert_eq!(alerts.len(), 1, "{alerts:#?}");
            alerts.remove(0)
        };
        let slow = with(|pool| pool.slow_since_ms = Some(7000));
        assert_eq!((&*slow.severity, slow.since_ms), (WARNING, Some(7000)));
        assert!(slow.sentence.contains("responds slowly"), "{slow:?}");
        let dead = with(|pool| pool.state = "unreachable".into());
        assert_eq!(&*dead.severity, ERROR);
        assert!(dead.sentence.contains("does not respond"), "{dead:?}");
        let elsewhere = with(|pool| {
            pool.state = "unreachable".into();
            pool.served_by = Some("right".into());
        });
        assert_eq!(&*elsewhere.severity, WARNING);
        assert!(
            elsewhere
                .sentence
                .starts_with("right, which serves tank, does not report")
        );
    }

    fn alerts_for(change: impl FnOnce(&mut PoolStatus)) -> Vec<Alert> {
        let pools = vec![pool(|pool| change(pool.pool.as_mut().expect("a state")))];
        of(
            &Overview {
                pools,
                ..Overview::default()
            },
            &[],
        )
    }

    fn replace(device: &str) -> Advice {
        Advice::new(
            Severity::Warning,
            format!("replace {device}"),
            format!("{device} is FAULTED"),
        )
        .by(format!("bulkhead pool replace-disk tank {device}"))
        .offering(Button::ReplaceDisk)
        .about(device)
    }

    fn faulted(name: &str) -> DeviceView {
        DeviceView {
            name: name.into(),
            checksum_errors: 300,
            ..DeviceView::default()
        }
    }

    #[test]
    fn degraded_pool_alert_has_cause_and_advice_of_its_page() {
        let alerts = alerts_for(|status| {
            status.health = "DEGRADED".into();
            status.advice = vec![replace("sda")];
            status.devices = vec![faulted("sda")];
        });
        assert_eq!(alerts.len(), 1, "{alerts:?}");
        assert_eq!(alerts[0].sentence, "tank is DEGRADED: sda is FAULTED");
        assert_eq!(alerts[0].advice, Some(replace("sda")));
    }

    #[test]
    fn device_missing_in_pool_advice_has_its_own_advice() {
        let alerts = alerts_for(|status| {
            status.advice = vec![replace("sda")];
            status.devices = vec![faulted("sda"), faulted("sdb")];
        });
        let devices: Vec<_> = alerts
            .iter()
            .filter_map(|one| one.advice.as_ref()?.device.clone())
            .collect();
        assert_eq!(devices, ["sda", "sdb"]);
    }

    #[test]
    fn informational_state_raises_no_alert() {
        let wait = Advice::new(Severity::Info, "wait for the scrub", "the scrub runs");
        assert!(alerts_for(|status| status.advice = vec![wait]).is_empty());
    }

    /// A command with a single sample has the start from the daemon of its head.
    #[test]
    fn alert_of_a_single_check_has_the_start_that_the_daemon_observed() {
        let new = |sentence: &str| alert(WARNING, "pool tank", sentence.to_owned(), None);
        let mut alerts = vec![new("sda has 4 errors"), new("sdb is FAULTED")];
        let observed = Alert {
            since_ms: Some(70),
            ..new("sda has 3 errors")
        };
        date(&mut alerts, &[observed]);
        let starts: Vec<_> = alerts.iter().map(|alert| alert.since_ms).collect();
        assert_eq!(starts, [Some(70), None]);
    }

    #[test]
    fn alert_keeps_its_start_time_when_its_numbers_change() {
        let mut seen = FirstSeen::default();
        let mut look = |sentences: &[&str], now_ms| -> Vec<Option<u64>> {
            let alerts = sentences.iter();
            let alerts = alerts.map(|one| alert(WARNING, "pool tank", (*one).to_owned(), None));
            let mut alerts: Vec<Alert> = alerts.collect();
            seen.note(&mut alerts, now_ms);
            alerts.iter().map(|alert| alert.since_ms).collect()
        };
        assert_eq!(look(&["sda has 3 errors"], 10), [Some(10)]);
        assert_eq!(
            look(&["sda has 4 errors", "sdb is FAULTED"], 20),
            [Some(10), Some(20)]
        );
        assert_eq!(look(&[], 30), []);
        assert_eq!(look(&["sda has 5 errors"], 40), [Some(40)]);
    }

    #[test]
    fn advice_on_an_unserved_pool_follows_the_state_of_the_heads() {
        let command = |states: &[&str]| {
            let heads = states.iter().zip(["left", "right"]);
            let heads = heads.map(|(state, name)| HeadView {
                name: name.to_owned(),
                state: (*state).to_owned(),
                ..HeadView::default()
            });
            let overview = Overview {
                heads: heads.collect(),
                ..Overview::default()
            };
            let pool = PoolOverview {
                name: "tank".to_owned(),
                ..PoolOverview::default()
            };
            of_unserved(&overview, &pool).command.unwrap_or_default()
        };
        for (states, expected) in [
            (&[][..], "bulkhead pool-server tank"),
            // A shutdown that was interrupted.
            (&["standby", "standby"], "bulkhead appliance start --ssh"),
            (
                &["offline", "standby"],
                "bulkhead appliance maintenance right off",
            ),
            (&["unknown", "unknown"], "bulkhead appliance start --ssh"),
            (&["online", "standby"], "crm_mon -1 -rf --include=bans"),
            (&["online", "offline"], "crm_mon -1 -rf --include=bans"),
        ] {
            assert_eq!(command(states), expected, "{states:?}");
        }
    }
}
