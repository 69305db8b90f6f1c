//! Contradictory time-outs.

use units::HeadName;

use super::{Checker, Code};
use crate::file::Head;
use crate::key::Key;

/// Shorter tokens are within the range of stalls of healthy hosts, in milliseconds.
const TOKEN_MS_MIN: u32 = 300;
/// Shorter tokens are within the range of pauses of hypervisors' guests, in milliseconds.
const GUEST_TOKEN_MS_MIN: u32 = 1_000;
/// Probes that must fit into the time-out of a link.
const PROBES_PER_TIMEOUT_MIN: u32 = 3;
/// Shortest bound of a monitor that tolerates full load, in seconds. The response time-out of the
/// agent is a tenth of it.
const MONITOR_TIMEOUT_S_MIN: u32 = 3;
/// Least time for the stop of a pool with dirty data, in seconds.
const STOP_S_MIN: u32 = 5;
/// Corosync's `join`: how long heads wait for each other's responses, in milliseconds. Corosync accepts no consensus
/// below 30.
const JOIN_MS: u32 = 50;
/// Shortest bound of a power-off that slow BMCs meet, in seconds.
const FENCE_S_MIN: u32 = 5;
/// Shortest bound of a disk's response that stalls of good disks do not reach, in seconds.
const DISK_RESPONSE_S_MIN: u32 = 4;

pub(super) fn check(checker: &mut Checker<'_>) {
    check_zero(checker);
    check_detection(checker);
    check_operations(checker);
    check_disks(checker);
    check_clients(checker);
}

fn key(field: &str) -> Key {
    Key::of("timeouts").field(field)
}

fn check_zero(checker: &mut Checker<'_>) {
    let times = checker.appliance.timeouts();
    for (field, value) in [
        ("token_ms", times.token_ms),
        ("consensus_ms", times.consensus_ms),
        ("link_probe_interval_ms", times.link_probe_interval_ms),
        ("link_probe_timeout_ms", times.link_probe_timeout_ms),
        ("link_probes_up", times.link_probes_up),
        ("fence_s", times.fence_s),
        ("fence_monitor_s", times.fence_monitor_s),
        ("pool_start_s", times.pool_start_s),
        ("pool_stop_s", times.pool_stop_s),
        ("pool_monitor_s", times.pool_monitor_s),
        ("pool_monitor_timeout_s", times.pool_monitor_timeout_s),
        ("disk_answer_s", times.disk_answer_s),
        ("takeover_budget_s", times.takeover_budget_s),
        ("boot_wait_s", times.boot_wait_s),
    ] {
        if value == 0 {
            checker.find(
                Code::TimeoutZero,
                &key(field),
                format!("{field} is 0"),
                "leave it out to get the profile's value",
            );
        }
    }
}

/// Returns the longest wait before a head is powered off, in seconds.
fn delay_s_max(checker: &Checker<'_>) -> u32 {
    let heads = checker.appliance.heads.values();
    heads
        .filter_map(|head| Some(head.fencing.as_ref()?.delay_s))
        .max()
        .unwrap_or(0)
}

/// Returns the name of a head that is a virtual machine.
fn guest<'a>(checker: &Checker<'a>) -> Option<&'a HeadName> {
    let mut heads = checker.appliance.heads.iter();
    let is_guest = |head: &Head| {
        let fencing = head.fencing.as_ref();
        fencing.is_some_and(|fencing| fencing.virtual_machine.is_some())
    };
    heads.find(|(_, head)| is_guest(head)).map(|(name, _)| name)
}

fn check_detection(checker: &mut Checker<'_>) {
    let times = checker.appliance.timeouts();
    let heads = checker.appliance.heads.len();
    let guest = guest(checker).filter(|_| times.token_ms < GUEST_TOKEN_MS_MIN);
    if let Some(guest) = guest {
        checker.find(
            Code::TokenShortForGuest,
            &key("token_ms"),
            format!("{guest} is a virtual machine and counts as lost after {} ms", times.token_ms),
            format!("write {GUEST_TOKEN_MS_MIN} or more, or choose the profile \"default\" or \"conservative\""),
        );
    }
    if times.token_ms < TOKEN_MS_MIN {
        checker.find(
            Code::TokenShort,
            &key("token_ms"),
            format!("a head counts as lost after {} ms", times.token_ms),
            format!("write {TOKEN_MS_MIN} or more"),
        );
    }
    check_consensus(checker);
    let probes = times.link_probe_timeout_ms / times.link_probe_interval_ms.max(1);
    if probes < PROBES_PER_TIMEOUT_MIN {
        checker.find(
            Code::ProbeTimeoutShort,
            &key("link_probe_timeout_ms"),
            format!(
                "a link is given up after {} ms and probed every {} ms",
                times.link_probe_timeout_ms, times.link_probe_interval_ms
            ),
            format!("let {PROBES_PER_TIMEOUT_MIN} probes or more fit; 1000 and 200 are good"),
        );
    }
    let detection_ms = times
        .token_effective_ms(heads)
        .saturating_add(times.consensus_ms)
        .saturating_add(delay_s_max(checker).saturating_mul(1_000));
    if heads > 1 && times.takeover_budget_s.saturating_mul(1_000) <= detection_ms {
        checker.find(
            Code::BudgetBelowDetection,
            &key("takeover_budget_s"),
            format!(
                "a takeover within {} s is promised, and token, consensus and fence delay alone take {detection_ms} ms",
                times.takeover_budget_s
            ),
            "promise more, or shorten them",
        );
    }
}

/// corosync.conf(5): a consensus above `join` is safe.
fn check_consensus(checker: &mut Checker<'_>) {
    let times = checker.appliance.timeouts();
    let heads = checker.appliance.heads.len();
    if heads > 1 && (1..=JOIN_MS).contains(&times.consensus_ms) {
        checker.find(
            Code::ConsensusShort,
            &key("consensus_ms"),
            format!(
                "heads look for agreement for {} ms only",
                times.consensus_ms
            ),
            format!("write more than {JOIN_MS}, or leave it out to get the profile's value"),
        );
    }
}

fn check_operations(checker: &mut Checker<'_>) {
    let times = checker.appliance.timeouts();
    if times.pool_monitor_timeout_s > times.pool_start_s {
        checker.find(
            Code::MonitorLong,
            &key("pool_monitor_timeout_s"),
            format!(
                "a test may take {} s, a start {} s",
                times.pool_monitor_timeout_s, times.pool_start_s
            ),
            "set a longer time-out for the start than for the test; the test responds from memory",
        );
    }
    if (1..MONITOR_TIMEOUT_S_MIN).contains(&times.pool_monitor_timeout_s) {
        checker.find(
            Code::MonitorShort,
            &key("pool_monitor_timeout_s"),
            format!("a test may take {} s only", times.pool_monitor_timeout_s),
            format!("write {MONITOR_TIMEOUT_S_MIN} or more; the interval may stay short"),
        );
    }
    if (1..STOP_S_MIN).contains(&times.pool_stop_s) {
        checker.find(
            Code::StopShort,
            &key("pool_stop_s"),
            format!("a pool has {} s to stop", times.pool_stop_s),
            format!("write {STOP_S_MIN} or more; a stop that is quick stays quick"),
        );
    }
    if (1..FENCE_S_MIN).contains(&times.fence_s) {
        checker.find(
            Code::FenceTimeoutShort,
            &key("fence_s"),
            format!("a power-off may take {} s only", times.fence_s),
            format!("write {FENCE_S_MIN} or more"),
        );
    }
}

fn check_disks(checker: &mut Checker<'_>) {
    let times = checker.appliance.timeouts();
    if (1..DISK_RESPONSE_S_MIN).contains(&times.disk_answer_s) {
        checker.find(
            Code::DiskAnswerShort,
            &key("disk_answer_s"),
            format!("a disk counts as failed after {} s", times.disk_answer_s),
            format!("write {DISK_RESPONSE_S_MIN} or more; 8 or more for spinning disks"),
        );
    }
    let operation_s = times.pool_start_s.min(times.pool_stop_s);
    if operation_s > 0 && times.disk_answer_s >= operation_s {
        checker.find(
            Code::DiskAnswerLong,
            &key("disk_answer_s"),
            format!(
                "a disk may take {} s, a start or stop of the pool {operation_s} s",
                times.disk_answer_s
            ),
            "let pool_start_s and pool_stop_s be at least twice as long",
        );
    }
}

fn check_clients(checker: &mut Checker<'_>) {
    let appliance = checker.appliance;
    let times = appliance.timeouts();
    let patience_s = appliance.clients.replacement_timeout_s;
    let worst_s = times.takeover_worst_s(appliance.heads.len(), delay_s_max(checker));
    let place = Key::of("clients").field("replacement_timeout_s");
    if patience_s <= times.takeover_budget_s {
        checker.find(
            Code::ClientPatienceShort,
            &place,
            format!(
                "initiators wait {patience_s} s, and a takeover may take {} s",
                times.takeover_budget_s
            ),
            format!(
                "set the initiators' replacement timeout to {} s or more",
                worst_s.saturating_add(1)
            ),
        );
    } else if patience_s < worst_s {
        checker.find(
            Code::ClientPatienceThin,
            &place,
            format!("initiators wait {patience_s} s; if every step uses its full time-out, a takeover lasts {worst_s} s"),
            format!("set the initiators' replacement timeout to {worst_s} s or more, or shorten fence_s and pool_start_s"),
        );
    }
}
