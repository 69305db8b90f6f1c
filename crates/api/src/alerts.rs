//! What somebody should look at, in sentences, the worst first. Pure.

use control::answer::{DeviceView, PoolStatus};

use crate::view::{Alert, Overview, PoolOverview};

/// A pool this full in percent soon refuses writes.
const FULL_PERCENT_ERROR: u64 = 95;
/// A pool this full in percent becomes slow.
const FULL_PERCENT_WARNING: u64 = 80;

const ERROR: &str = "error";
const WARNING: &str = "warning";
const INFO: &str = "info";

/// Of an export that is not served.
const PROBLEM_ADVICE: &str = "mend the export, or remove it and make it again";

fn alert(severity: &str, about: &str, sentence: String, advice: Option<&str>) -> Alert {
    Alert {
        severity: severity.to_owned(),
        about: about.to_owned(),
        sentence,
        advice: advice.map(str::to_owned),
    }
}

/// The alerts of what is at a glance, and `problems` of the surroundings.
pub fn of(overview: &Overview, problems: &[String]) -> Vec<Alert> {
    let mut alerts = Vec::new();
    for head in &overview.heads {
        let about = format!("head {}", head.name);
        let (severity, advice) = match head.state.as_str() {
            "online" | "unknown" => continue,
            "standby" => (
                INFO,
                "`pcs node unstandby` or `crm_standby -D` lets it serve again",
            ),
            _ => (
                ERROR,
                "find out why; until it is back, no head can take over from the others",
            ),
        };
        alerts.push(alert(
            severity,
            &about,
            format!("{} is {}", head.name, head.state),
            Some(advice),
        ));
    }
    for link in overview.links.iter().filter(|link| link.state == "down") {
        let about = format!("network {}", link.network);
        let sentence = format!(
            "{} does not reach {} over {}",
            link.from, link.to, link.network
        );
        let advice = "look at the cable, the switch and the interfaces of both heads";
        alerts.push(alert(WARNING, &about, sentence, Some(advice)));
    }
    for pool in &overview.pools {
        of_pool(pool, &mut alerts);
    }
    for problem in problems {
        alerts.push(alert(WARNING, "appliance", problem.clone(), None));
    }
    if overview.pools.is_empty() {
        let advice = "make one of some disks, then a volume in it";
        alerts.push(alert(
            INFO,
            "pools",
            "there is no pool yet".to_owned(),
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

fn of_pool(pool: &PoolOverview, alerts: &mut Vec<Alert>) {
    let about = format!("pool {}", pool.name);
    let name = &pool.name;
    match pool.state.as_str() {
        "stopped" => alerts.push(alert(
            ERROR,
            &about,
            format!("no head serves {name}"),
            Some("start its server, or look at the cluster if it should run already"),
        )),
        "failed" => alerts.push(alert(
            ERROR,
            &about,
            format!("the cluster gave up serving {name}"),
            Some("read the failure with `crm_mon`, mend its cause, then `crm_resource --cleanup`"),
        )),
        "unreachable" => alerts.push(alert(
            ERROR,
            &about,
            format!("the server of {name} does not answer"),
            Some("look at its log"),
        )),
        _ => {}
    }
    if let (Some(home), Some(by)) = (&pool.home, &pool.served_by) {
        if home != by {
            let sentence = format!("{name} is served by {by}, its home is {home}");
            alerts.push(alert(
                INFO,
                &about,
                sentence,
                Some("move it home when that suits its clients"),
            ));
        }
    }
    for problem in &pool.problems {
        // A sentence that has a command says itself what to do.
        let advice = (!problem.contains('`')).then_some(PROBLEM_ADVICE);
        alerts.push(alert(ERROR, &about, problem.clone(), advice));
    }
    if let Some(status) = &pool.pool {
        of_status(&about, status, alerts);
    }
}

fn of_status(about: &str, status: &PoolStatus, alerts: &mut Vec<Alert>) {
    let severity = match status.health.as_str() {
        "ONLINE" => None,
        "DEGRADED" => Some(WARNING),
        _ => Some(ERROR),
    };
    let name = &status.name;
    let advice = (!status.advice.is_empty()).then(|| status.advice.join(" "));
    match severity {
        Some(severity) => {
            let sentence = format!("{name} is {}", status.health);
            alerts.push(alert(severity, about, sentence, advice.as_deref()));
        }
        None if advice.is_some() => {
            let sentence = format!("{name} wants attention");
            alerts.push(alert(WARNING, about, sentence, advice.as_deref()));
        }
        None => {}
    }
    // What names the device already need not be said again.
    let told = advice.unwrap_or_default();
    for device in &status.devices {
        of_device(about, device, &told, status.next.as_deref(), alerts);
    }
    let percent = status
        .allocated
        .saturating_mul(100)
        .checked_div(status.size)
        .unwrap_or(0);
    let severity = match percent {
        FULL_PERCENT_ERROR.. => ERROR,
        FULL_PERCENT_WARNING.. => WARNING,
        _ => return,
    };
    let advice = "destroy snapshots or volumes that nobody needs, or add disks";
    alerts.push(alert(
        severity,
        about,
        format!("{name} is {percent} % full"),
        Some(advice),
    ));
}

/// `next` is what the pool's server says is to be done first.
fn of_device(
    about: &str,
    device: &DeviceView,
    told: &str,
    next: Option<&str>,
    alerts: &mut Vec<Alert>,
) {
    for member in &device.members {
        of_device(about, member, told, next, alerts);
    }
    let errors = device.read_errors + device.write_errors + device.checksum_errors;
    if errors == 0 || !device.members.is_empty() || told.contains(&device.name) {
        return;
    }
    let sentence = format!("{} has {errors} errors", device.name);
    let usual = "replace it if they grow; clear them once the cause is mended";
    let advice = next.filter(|next| next.contains(&device.name));
    alerts.push(alert(
        WARNING,
        about,
        sentence,
        Some(advice.unwrap_or(usual)),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{HeadView, LinkView};

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
    fn all_well_needs_no_word() {
        let overview = Overview {
            pools: vec![pool(|_| ())],
            ..Overview::default()
        };
        assert!(severities(&overview).is_empty());
    }

    #[test]
    fn each_trouble_has_its_sentence_and_the_worst_comes_first() {
        let sick = |status: &mut PoolOverview| {
            let status = status.pool.as_mut().expect("a state");
            status.allocated = 96;
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
                pool(|pool| pool.home = Some("right".into())),
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
    fn a_device_that_the_pools_advice_names_is_told_once() {
        let overview = Overview {
            pools: vec![pool(|pool| {
                let status = pool.pool.as_mut().expect("a state");
                status.advice = vec!["sda returned wrong data: scrub the pool".into()];
                status.devices = vec![DeviceView {
                    name: "sda".into(),
                    checksum_errors: 3,
                    ..DeviceView::default()
                }];
            })],
            ..Overview::default()
        };
        assert_eq!(severities(&overview).len(), 1);
    }

    #[test]
    fn what_to_do_about_a_device_is_the_same_here_as_on_the_page_of_its_pool() {
        let next = "replace sda, which had 300 errors: `bulkhead pool replace-disk tank sda`";
        let bad = |name: &str| DeviceView {
            name: name.into(),
            checksum_errors: 300,
            ..DeviceView::default()
        };
        let overview = Overview {
            pools: vec![pool(|pool| {
                let status = pool.pool.as_mut().expect("a state");
                status.next = Some(next.into());
                status.devices = vec![bad("sda"), bad("sdb")];
            })],
            ..Overview::default()
        };
        let advice: Vec<_> = of(&overview, &[])
            .into_iter()
            .map(|one| one.advice)
            .collect();
        assert_eq!(advice[0].as_deref(), Some(next));
        assert_ne!(advice[1].as_deref(), Some(next));
    }
}
