//! The state of the safeguards of a takeover: quorum, the vote of the witness, fence devices, and power-offs without
//! confirmation by a device. Reads the output of crm_mon(8), corosync-quorumtool(8) and corosync-qdevice-tool(8).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use api::view::{ExclusionView, FenceDeviceView, PowerOffView, Safeguards, WitnessView};
use appliance::Appliance;
use appliance::render::{fencing_levels, pool_id};
use appliance::xml::Element;
use control::calendar::from_compact_utc;
use units::HeadName;

use super::cluster_view::head_by_number;
use super::crm_output::resource;

/// Time until a missing vote is reported. A new membership forms faster.
const VOTE_GRACE_MS: u64 = 10_000;
/// Time until a fence device that is not started, and has not failed, is reported as unverified.
const DEVICE_GRACE_MS: u64 = 60_000;
/// The longest reason that is shown, in characters.
const REASON_CHARS_MAX: usize = 200;

/// The last refusal to power a head off, if there is one.
pub type RefusalOf = dyn Fn(&str) -> Option<String>;

/// The output of the tools of the cluster; `None` if a tool failed or timed out.
#[derive(Clone, Copy, Default)]
pub struct Printed<'a> {
    /// `crm_mon --output-as xml`.
    pub monitor: Option<&'a Element>,
    /// `corosync-quorumtool -s`.
    pub quorum: Option<&'a str>,
    /// `corosync-qdevice-tool -s`.
    pub device: Option<&'a str>,
    /// The last refusal of the fence agent that asks the witness, by the head that it would have powered off.
    pub refusal: Option<&'a RefusalOf>,
}

/// Stores since when a trouble exists.
#[derive(Default)]
pub struct Watch {
    troubles: Mutex<BTreeMap<String, Problem>>,
    /// For a single check.
    is_single: bool,
    /// The last look has left out a trouble that a head which has just booted has, too.
    has_young: AtomicBool,
    /// Reports without the delays.
    is_impatient: AtomicBool,
}

#[derive(Clone)]
struct Problem {
    since_ms: u64,
    why: Option<String>,
}

/// One check, with the earlier troubles.
struct Check<'a> {
    troubles: &'a mut BTreeMap<String, Problem>,
    now_ms: u64,
    is_single: bool,
    is_impatient: bool,
    has_young: bool,
}

impl Check<'_> {
    /// Notes a trouble, since now at the latest, or since `reported_ms`.
    fn wrong(&mut self, key: String, reported_ms: Option<u64>, why: Option<String>) -> Problem {
        let now_ms = self.now_ms;
        let since_ms = reported_ms.unwrap_or(now_ms).min(now_ms);
        let trouble = self.troubles.entry(key).or_insert(Problem {
            since_ms,
            why: None,
        });
        trouble.since_ms = trouble.since_ms.min(since_ms);
        trouble.why = why.or(trouble.why.take());
        trouble.clone()
    }

    fn well(&mut self, key: &str) {
        self.troubles.remove(key);
    }

    fn is_older(&mut self, trouble: &Problem, grace_ms: u64) -> bool {
        let is_older =
            self.is_impatient || self.now_ms.saturating_sub(trouble.since_ms) >= grace_ms;
        self.has_young |= !is_older;
        is_older
    }
}

impl Watch {
    /// For a process that checks only once, and so does not observe the age of a trouble.
    pub fn once() -> Self {
        Self {
            is_single: true,
            ..Self::default()
        }
    }

    /// Whether another look could show that a trouble is over, in a process that checks only once.
    pub fn is_undecided(&self) -> bool {
        self.is_single && self.has_young.load(Ordering::Relaxed)
    }

    /// The next look reports each trouble.
    pub fn decide(&self) {
        self.is_impatient.store(true, Ordering::Relaxed);
    }

    /// The present state. A tool without output leaves its earlier state unchanged.
    pub fn look(
        &self,
        appliance: &Appliance,
        own: &str,
        printed: Printed<'_>,
        now_ms: u64,
    ) -> Safeguards {
        if appliance.heads.len() < 2 {
            return Safeguards::default();
        }
        let mut troubles = self.troubles.lock().expect("no holder panics");
        let mut look = Check {
            troubles: &mut troubles,
            now_ms,
            is_single: self.is_single,
            is_impatient: self.is_impatient.load(Ordering::Relaxed),
            has_young: false,
        };
        let has_quorum = printed.quorum.and_then(is_quorate);
        let no_quorum_since_ms = match has_quorum {
            Some(false) => Some(look.wrong("quorum".to_owned(), None, None).since_ms),
            Some(true) => {
                look.well("quorum");
                None
            }
            None => None,
        };
        let safeguards = Safeguards {
            has_quorum,
            no_quorum_since_ms,
            witness: witness(appliance, own, printed, &mut look),
            fence_devices: fence_devices(appliance, printed.monitor, &mut look),
            exclusions: printed
                .monitor
                .map_or_else(Vec::new, |monitor| exclusions(appliance, monitor)),
            // Without quorum no head is powered off, so no operation depends on it.
            power_offs: match has_quorum {
                Some(false) => Vec::new(),
                _ => power_offs(appliance, printed, &mut look),
            },
        };
        self.has_young.store(look.has_young, Ordering::Relaxed);
        safeguards
    }
}

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

fn is_quorate(text: &str) -> Option<bool> {
    value(text, "Quorate").map(|answer| answer == "Yes")
}

/// The members of the cluster by number, each with whether the witness votes there. Parses the last table of
/// `corosync-quorumtool -s`: `1  1  A,V,NMW left (local)`. There is no third column where no device is registered.
fn votes(text: &str) -> Vec<(u32, bool)> {
    let mut lines = text.lines().skip_while(|line| !line.contains("Nodeid"));
    let has_device = lines.next().is_some_and(|head| head.contains("Qdevice"));
    let members = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        let node = words.next()?.parse().ok().filter(|node| *node > 0)?;
        let flags = words.nth(1)?;
        let has = |flag| flags.split(',').any(|one| one == flag);
        Some((node, has_device && has("A") && has("V")))
    });
    members.collect()
}

fn witness(
    appliance: &Appliance,
    own: &str,
    printed: Printed<'_>,
    look: &mut Check<'_>,
) -> Option<WitnessView> {
    const KEY: &str = "witness";
    if !appliance.has_voting_witness() {
        return None;
    }
    let address = appliance.quorum.as_ref()?.witness.as_ref()?.address;
    let view = WitnessView {
        address: address.to_string(),
        ..WitnessView::default()
    };
    let Some(quorum) = printed.quorum else {
        return Some(view);
    };
    let without = votes(quorum).into_iter().filter(|(_, votes)| !votes);
    let without = without.filter_map(|(node, _)| head_by_number(appliance, node));
    let without_vote: Vec<String> = without.map(ToString::to_string).collect();
    if without_vote.is_empty() {
        look.well(KEY);
        return Some(WitnessView {
            has_vote: Some(true),
            ..view
        });
    }
    let state = printed.device.and_then(|text| value(text, "State"));
    let why = match state {
        Some("Connected") => None,
        Some(state) => Some(format!("corosync-qdevice on {own} reports: {state}")),
        None => Some(format!("corosync-qdevice does not respond on {own}")),
    };
    let trouble = look.wrong(KEY.to_owned(), None, None);
    // A single check need not look again after a reply that the witness cannot be reached.
    let is_certain = look.is_single && state == Some("Connect failed");
    if !is_certain && !look.is_older(&trouble, VOTE_GRACE_MS) {
        return Some(view);
    }
    Some(WitnessView {
        has_vote: Some(false),
        without_vote,
        why,
        since_ms: Some(trouble.since_ms),
        ..view
    })
}

/// Heads on which Pacemaker can run resources.
fn usable_heads(monitor: &Element) -> BTreeSet<&str> {
    let nodes = monitor.child("nodes").into_iter();
    let nodes = nodes.flat_map(|nodes| &nodes.children);
    let up = nodes.filter(|node| {
        node.is("online") && !node.is("unclean") && !node.is("standby") && !node.is("pending")
    });
    up.filter_map(|node| node.attribute("name")).collect()
}

fn fence_devices(
    appliance: &Appliance,
    monitor: Option<&Element>,
    look: &mut Check<'_>,
) -> Vec<FenceDeviceView> {
    let usable = monitor.map(usable_heads);
    let mut views = Vec::new();
    for (head, machine) in &appliance.heads {
        let Some(fencing) = &machine.fencing else {
            continue;
        };
        for (level, ids) in (1..).zip(fencing_levels(appliance, head, fencing)) {
            for id in ids {
                let view = FenceDeviceView {
                    network: network_of_device(appliance, head, &id),
                    name: id,
                    head: head.to_string(),
                    level,
                    state: "unknown".to_owned(),
                    ..FenceDeviceView::default()
                };
                views.push(match (monitor, &usable) {
                    (Some(monitor), Some(usable)) => fence_device(view, monitor, usable, look),
                    _ => view,
                });
            }
        }
    }
    views
}

/// The network of the BMC of a head; none for other devices.
fn network_of_device(appliance: &Appliance, head: &HeadName, id: &str) -> Option<String> {
    let fencing = appliance.heads.get(head)?.fencing.as_ref()?;
    let bmc = fencing
        .bmc
        .as_ref()
        .filter(|_| id == format!("fence-{head}-bmc"))?;
    appliance.network_of(bmc.address).map(ToString::to_string)
}

fn fence_device(
    view: FenceDeviceView,
    monitor: &Element,
    usable: &BTreeSet<&str>,
    look: &mut Check<'_>,
) -> FenceDeviceView {
    let key = format!("device {}", view.name);
    let in_state = |state: &str, trouble: Option<Problem>| FenceDeviceView {
        state: state.to_owned(),
        since_ms: trouble.as_ref().map(|trouble| trouble.since_ms),
        why: trouble.and_then(|trouble| trouble.why),
        ..view.clone()
    };
    if let Some(failure) = failure_of(monitor, &view.name) {
        let at_ms = failure.attribute("last-rc-change").and_then(timestamp_ms);
        return in_state("failed", Some(look.wrong(key, at_ms, reason(failure))));
    }
    let resource = resource(monitor, &view.name);
    let is_started = resource.is_some_and(|one| {
        let mut nodes = one
            .children
            .iter()
            .filter_map(|node| node.attribute("name"));
        one.attribute("role") == Some("Started")
            && !one.is("failed")
            && nodes.any(|node| usable.contains(node))
    });
    if is_started {
        look.well(&key);
        return in_state("works", None);
    }
    // There is no head that would use it.
    if usable.iter().all(|head| *head == view.head) {
        look.well(&key);
        return in_state("unknown", None);
    }
    let trouble = look.wrong(key, None, None);
    match (&trouble.why, look.is_older(&trouble, DEVICE_GRACE_MS)) {
        // It failed, and is retried now.
        (Some(_), _) => in_state("failed", Some(trouble)),
        (None, true) => in_state("unverified", Some(trouble)),
        (None, false) => in_state("unknown", None),
    }
}

/// Heads on which a pool has failed, and that do not serve it now. Pacemaker removes a failure when it tries the head
/// again.
fn exclusions(appliance: &Appliance, monitor: &Element) -> Vec<ExclusionView> {
    let mut views: Vec<ExclusionView> = Vec::new();
    for pool in appliance.pools.keys() {
        let id = pool_id(pool);
        let serving = resource(monitor, &id)
            .into_iter()
            .flat_map(|one| &one.children);
        let serving: Vec<&str> = serving.filter_map(|node| node.attribute("name")).collect();
        for failure in failures_of(monitor, &id) {
            let Some(head) = failure
                .attribute("node")
                .filter(|head| !serving.contains(head))
            else {
                continue;
            };
            let pool = pool.to_string();
            if views
                .iter()
                .any(|view| view.pool == pool && view.head == head)
            {
                continue;
            }
            views.push(ExclusionView {
                pool,
                head: head.to_owned(),
                why: reason(failure),
                since_ms: failure.attribute("last-rc-change").and_then(timestamp_ms),
            });
        }
    }
    views
}

/// The last failure of a resource.
fn failure_of<'a>(monitor: &'a Element, id: &'a str) -> Option<&'a Element> {
    failures_of(monitor, id).next()
}

/// The failures of a resource, the last one first: `<failure op_key="ID_monitor_60000" task="monitor" ...>`.
fn failures_of<'a>(monitor: &'a Element, id: &'a str) -> impl Iterator<Item = &'a Element> {
    let failures = monitor.child("failures").into_iter();
    let failures = failures.flat_map(|failures| failures.children.iter().rev());
    failures.filter(move |failure| {
        let key = failure.attribute("op_key").and_then(|key| {
            let operation = key.strip_prefix(id)?.strip_prefix('_')?;
            operation.split_once('_')
        });
        key.is_some_and(|(_, interval)| interval.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

fn reason(failure: &Element) -> Option<String> {
    let said = |name| failure.attribute(name).filter(|text| !text.is_empty());
    let what = said("exitreason").or_else(|| said("status").filter(|text| *text != "complete"));
    let task = said("task").unwrap_or("operation");
    let text = match (what, said("node")) {
        (Some(what), Some(node)) => format!("{what} ({task} on {node})"),
        (None, Some(node)) => format!("its {task} failed on {node}"),
        (_, None) => format!("its {task} failed"),
    };
    Some(text.chars().take(REASON_CHARS_MAX).collect())
}

/// Heads that are lost, and that no fence device has confirmed to be off.
fn power_offs(
    appliance: &Appliance,
    printed: Printed<'_>,
    look: &mut Check<'_>,
) -> Vec<PowerOffView> {
    let Some(monitor) = printed.monitor else {
        return Vec::new();
    };
    let nodes = monitor.child("nodes").into_iter();
    let nodes: Vec<&Element> = nodes.flat_map(|nodes| &nodes.children).collect();
    let mut views = Vec::new();
    for head in appliance.heads.keys().map(|head| head.as_str()) {
        let key = format!("power-off {head}");
        let is_lost = nodes.iter().any(|node| {
            node.attribute("name") == Some(head) && node.is("unclean") && !node.is("online")
        });
        if !is_lost {
            look.well(&key);
            continue;
        }
        let failures = failed_power_offs(monitor, head);
        let first_ms = failures.iter().flatten().min().copied();
        views.push(PowerOffView {
            head: head.to_owned(),
            since_ms: look.wrong(key, first_ms, None).since_ms,
            failed_count: failures.len() as u64,
            refusal: printed.refusal.and_then(|of| of(head)),
        });
    }
    views
}

/// End times of the failed attempts since a head was last powered off, newest first.
fn failed_power_offs(monitor: &Element, head: &str) -> Vec<Option<u64>> {
    let events = monitor.child("fence_history").into_iter();
    let events = events.flat_map(|history| &history.children);
    let of_head = events.filter(|event| {
        event.attribute("target") == Some(head) && event.attribute("action") != Some("on")
    });
    let of_absence = of_head.take_while(|event| event.attribute("status") != Some("success"));
    let failed = of_absence.filter(|event| event.attribute("status") == Some("failed"));
    failed
        .map(|event| event.attribute("completed").and_then(timestamp_ms))
        .collect()
}

/// Parses `2026-11-28 17:32:17Z` and `2026-11-28 18:32:17 +01:00`; `None` without a time zone.
fn timestamp_ms(text: &str) -> Option<u64> {
    let (local, zone) = text.split_at_checked("2026-11-28 17:32:17".len())?;
    let digits = local.replace(['-', ':'], "").replace(' ', "T");
    let local_s = i64::try_from(from_compact_utc(&format!("{digits}Z"))?).ok()?;
    let zone = zone.trim();
    let offset_s = match zone.split_at_checked(1)? {
        ("Z", "") => 0,
        (sign @ ("+" | "-"), offset) => {
            let (hours, minutes) = offset.split_once(':')?;
            let seconds = hours.parse::<u32>().ok()? * 3600 + minutes.parse::<u32>().ok()? * 60;
            i64::from(seconds) * if sign == "+" { 1 } else { -1 }
        }
        _ => return None,
    };
    u64::try_from(local_s - offset_s).ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-28T17:33:00Z.
    const NOW_MS: u64 = 1_795_887_180_000;

    fn parsed(text: &str) -> Appliance {
        appliance::parse(text).expect("well formed").appliance
    }

    fn witness_pair() -> Appliance {
        parsed(include_str!("../../../examples/witness.toml"))
    }

    fn recorded(text: &str) -> Element {
        Element::parse(text).expect("XML")
    }

    const VOTES: &str = include_str!("recorded/quorum-with-witness.txt");
    const NO_VOTES: &str = include_str!("recorded/quorum-without-witness.txt");
    const NO_QNETD: &str = include_str!("recorded/qdevice-without-witness.txt");

    #[test]
    fn a_witness_that_was_killed_has_no_vote_on_both_heads() {
        let (watch, appliance) = (Watch::default(), witness_pair());
        let look = |quorum, now_ms| {
            let printed = Printed {
                quorum: Some(quorum),
                device: Some(NO_QNETD),
                ..Printed::default()
            };
            watch.look(&appliance, "right", printed, now_ms)
        };
        let well = look(VOTES, NOW_MS).witness.expect("a witness");
        assert_eq!(
            (well.has_vote, well.address.as_str()),
            (Some(true), "10.77.9.31")
        );
        // A membership that forms is no failure.
        let young = look(NO_VOTES, NOW_MS + 1000);
        assert_eq!(young.witness.expect("a witness").has_vote, None);
        let seen = look(NO_VOTES, NOW_MS + 1000 + VOTE_GRACE_MS);
        assert_eq!(
            (seen.has_quorum, seen.no_quorum_since_ms),
            (Some(true), None)
        );
        let lost = seen.witness.expect("a witness");
        assert_eq!(lost.without_vote, ["left", "right"]);
        assert_eq!(lost.since_ms, Some(NOW_MS + 1000));
        let why = lost.why.expect("a reason");
        assert!(
            why.contains("on right") && why.contains("Connect failed"),
            "{why}"
        );
        // No reply of Corosync is no vote that returned.
        let silent = watch.look(&appliance, "right", Printed::default(), NOW_MS + 20_000);
        assert_eq!(silent.witness.expect("a witness").has_vote, None);
        let still = look(NO_VOTES, NOW_MS + 30_000).witness.expect("a witness");
        assert_eq!(still.since_ms, Some(NOW_MS + 1000));
    }

    #[test]
    fn head_without_quorum_is_detected_and_cannot_fence() {
        let watch = Watch::default();
        let text = NO_VOTES.replace("Quorate:          Yes", "Quorate:          No");
        let monitor = recorded(include_str!("recorded/power-off-pending.xml"));
        let printed = Printed {
            quorum: Some(&text),
            monitor: Some(&monitor),
            ..Printed::default()
        };
        let seen = watch.look(&witness_pair(), "right", printed, NOW_MS);
        assert_eq!(seen.has_quorum, Some(false));
        assert_eq!(seen.no_quorum_since_ms, Some(NOW_MS));
        assert_eq!(seen.power_offs, []);
    }

    #[test]
    fn a_fence_device_whose_monitor_failed_is_broken_until_it_is_started_again() {
        let (watch, appliance) = (Watch::default(), witness_pair());
        let look = |text: &str, now_ms| {
            let monitor = recorded(text);
            let printed = Printed {
                monitor: Some(&monitor),
                ..Printed::default()
            };
            let seen = watch
                .look(&appliance, "left", printed, now_ms)
                .fence_devices;
            assert_eq!(seen.len(), 6);
            let bmc = seen.iter().find(|one| one.name == "fence-left-bmc");
            let others = seen.iter().filter(|one| one.name != "fence-left-bmc");
            assert!(others.clone().all(|one| one.state == "works"), "{seen:?}");
            bmc.expect("a device").clone()
        };
        const FAILED: &str = include_str!("recorded/fence-device-failed.xml");
        let failed = look(FAILED, NOW_MS);
        assert_eq!((failed.state.as_str(), failed.level), ("failed", 1));
        assert_eq!(failed.network.as_deref(), Some("management"));
        assert_eq!(failed.since_ms, Some(NOW_MS - 43_000));
        assert_eq!(failed.why.as_deref(), Some("its monitor failed on right"));
        // Pacemaker has removed the failure, and retries the device.
        let again = FAILED.replace("fence-left-bmc_monitor_60000", "other_monitor_60000");
        let trying = look(&again, NOW_MS + 900_000);
        assert_eq!(
            (trying.state.as_str(), trying.since_ms),
            ("failed", failed.since_ms)
        );
        let started = again.replace(
            r#"resource_agent="stonith:fence_ipmilan" role="Stopped""#,
            r#"resource_agent="stonith:fence_ipmilan" role="Started""#,
        );
        let started = started.replace(
            r#"nodes_running_on="0"/>"#,
            r#"nodes_running_on="1"><node name="right"/></resource>"#,
        );
        assert_eq!(look(&started, NOW_MS + 901_000).state, "works");
        // Stopped without a failure: never verified, after a while.
        assert_eq!(look(&again, NOW_MS + 902_000).state, "unknown");
        let unverified = look(&again, NOW_MS + 902_000 + DEVICE_GRACE_MS);
        assert_eq!(unverified.state, "unverified");
        assert_eq!(unverified.since_ms, Some(NOW_MS + 902_000));
    }

    /// A head that has just booted starts its fence devices within seconds. `head alerts` has no earlier look.
    #[test]
    fn a_device_that_is_about_to_start_is_no_trouble_for_a_single_check() {
        const FAILED: &str = include_str!("recorded/fence-device-failed.xml");
        let stopped = FAILED.replace("fence-left-bmc_monitor_60000", "other_monitor_60000");
        let (watch, appliance) = (Watch::once(), witness_pair());
        let look = |watch: &Watch| {
            let monitor = recorded(&stopped);
            let printed = Printed {
                monitor: Some(&monitor),
                ..Printed::default()
            };
            let seen = watch
                .look(&appliance, "left", printed, NOW_MS)
                .fence_devices;
            let bmc = seen.into_iter().find(|one| one.name == "fence-left-bmc");
            bmc.expect("a device").state
        };
        assert_eq!(look(&watch), "unknown");
        assert!(watch.is_undecided());
        watch.decide();
        assert_eq!(look(&watch), "unverified");
        assert!(!watch.is_undecided());
        // The head itself looks again anyway.
        let watch = Watch::default();
        assert_eq!(look(&watch), "unknown");
        assert!(!watch.is_undecided());
    }

    /// The witness of two heads with legs must consent to a power-off.
    #[test]
    fn a_consent_device_that_does_not_run_is_broken_as_a_fence_device_is() {
        let appliance = parsed(include_str!(
            "../../../examples/legs-two-heads-witness.toml"
        ));
        let ids = ["left", "right"].map(|head| format!("fence-{head}-consent"));
        let failure = format!(
            r#"<failure op_key="{}_start_0" node="right" exitreason="not installed" task="start"/>"#,
            ids[0]
        );
        let monitor = recorded(&format!(
            r#"<pacemaker-result><nodes><node name="left" online="true"/><node name="right" online="true"/></nodes>
            <resources><resource id="{}" role="Started"><node name="left"/></resource></resources>
            <failures>{failure}</failures></pacemaker-result>"#,
            ids[1]
        ));
        let printed = Printed {
            monitor: Some(&monitor),
            ..Printed::default()
        };
        let seen = Watch::default().look(&appliance, "left", printed, NOW_MS);
        let found: Vec<_> = ids
            .iter()
            .map(|id| {
                let device = seen.fence_devices.iter().find(|one| one.name == *id);
                let device = device.expect("it is watched");
                (device.level, device.state.as_str(), device.why.as_deref())
            })
            .collect();
        let why = Some("not installed (start on right)");
        assert_eq!(found, [(1, "failed", why), (1, "works", None)]);
    }

    #[test]
    fn head_that_could_not_start_a_pool_is_excluded_until_it_serves_it() {
        const FAILED: &str = include_str!("recorded/fence-device-failed.xml");
        let (watch, appliance) = (Watch::default(), witness_pair());
        let pool = appliance.pools.keys().next().expect("a pool").clone();
        let text = FAILED.replace(
            "fence-left-bmc_monitor_60000",
            &format!("{}_start_0", pool_id(&pool)),
        );
        let look = |text: &str| {
            let monitor = recorded(text);
            let printed = Printed {
                monitor: Some(&monitor),
                ..Printed::default()
            };
            watch.look(&appliance, "left", printed, NOW_MS).exclusions
        };
        assert_eq!(look(FAILED), [], "the failure is of a fence device");
        let found = look(&text);
        let expected = ExclusionView {
            pool: pool.to_string(),
            head: "right".to_owned(),
            why: found[0].why.clone(),
            since_ms: Some(NOW_MS - 43_000),
        };
        assert_eq!(found, [expected]);
        // An old failure of the head that serves the pool now excludes no head.
        let again = text.replace("node=\"right\" exitstatus", "node=\"left\" exitstatus");
        assert_eq!(look(&again), []);
    }

    #[test]
    fn a_power_off_that_no_device_confirms_is_pending_since_the_first_attempt() {
        let appliance = parsed(include_str!("../../../examples/pair.toml"));
        let watch = Watch::default();
        let monitor = recorded(include_str!("recorded/power-off-failed.xml"));
        let refusal = |head: &str| Some(format!("{head} is refused"));
        let printed = Printed {
            refusal: Some(&refusal),
            monitor: Some(&monitor),
            ..Printed::default()
        };
        let seen = watch.look(&appliance, "right", printed, NOW_MS + 180_000);
        let expected = PowerOffView {
            head: "left".to_owned(),
            // 17:35:00, when the first attempt had failed.
            since_ms: NOW_MS + 120_000,
            failed_count: 2,
            refusal: Some("left is refused".to_owned()),
        };
        assert_eq!(seen.power_offs, [expected]);
        // The devices that would power the survivor off are useless to it.
        let right = seen.fence_devices.iter().filter(|one| one.head == "right");
        assert!(right.clone().all(|one| one.state == "unknown"), "{seen:?}");
    }

    #[test]
    fn timestamps_have_a_time_zone() {
        assert_eq!(timestamp_ms("2026-11-28 17:33:00Z"), Some(NOW_MS));
        assert_eq!(timestamp_ms("2026-11-28 18:33:00 +01:00"), Some(NOW_MS));
        assert_eq!(timestamp_ms("2026-11-28 12:03:00 -05:30"), Some(NOW_MS));
        for text in [
            "",
            "Sat Nov 28 17:33:00 2026",
            "2026-11-28 17:33:00",
            "2026-11-28 17:33:00 +1",
        ] {
            assert_eq!(timestamp_ms(text), None, "{text}");
        }
    }

    #[test]
    fn single_head_has_no_safeguards() {
        let appliance = parsed(include_str!("../../../examples/single.toml"));
        let seen = Watch::default().look(&appliance, "one", Printed::default(), NOW_MS);
        assert_eq!(seen, Safeguards::default());
    }
}
