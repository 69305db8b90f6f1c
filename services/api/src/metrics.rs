//! `/metrics`: the last sample in the text format of Prometheus. Names carry their units.

mod filesystems;
mod growth;
mod legs;
mod replication;
mod safeguards;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use control::answer::{DeviceView, PoolSpace, PoolStatus, Status, VolumeActivity};

use crate::Api;
use crate::backend::{HeartbeatLosses, HostLosses, InterfaceCounters, PeerLosses};
use crate::caller::{self, Link};
use crate::view::{Overview, PowerView, ReceiverView};

/// The content type of the response.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The upper bound of the first class of latencies, in microseconds; each further bound is four times the previous one.
const FIRST_CLASS_US: u64 = 64;
const US_PER_S: f64 = 1e6;
/// Whole numbers below it have a unique decimal form.
const INTEGERS_BELOW: f64 = 9e15;

/// Serves the loopback, and elsewhere authenticated callers.
pub(crate) async fn serve(
    State(api): State<Arc<Api>>,
    Extension(link): Extension<Arc<Link>>,
    headers: HeaderMap,
) -> Response {
    if let Err(response) = crate::responses::admit(&api, &link, &headers) {
        return *response;
    }
    let is_near = link.peer.ip().to_canonical().is_loopback();
    if !is_near && caller::of(&api, &headers, &link).is_none() {
        return crate::responses::log_in_first(&api);
    }
    let text = tokio::task::spawn_blocking(move || text(&api)).await;
    let kind = HeaderValue::from_static(CONTENT_TYPE);
    let mut response = text.unwrap_or_default().into_response();
    crate::responses::secure(response.headers_mut(), link.is_encrypted);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// One metric with all its samples, which the format requires together.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: String,
}

type Labels<'a> = &'a [(&'a str, &'a str)];

impl Family {
    fn new(name: &'static str, kind: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind,
            help,
            samples: String::new(),
        }
    }

    fn add(&mut self, labels: Labels<'_>, value: f64) {
        self.add_as("", labels, value);
    }

    fn add_as(&mut self, suffix: &str, labels: Labels<'_>, value: f64) {
        self.sample(suffix, &written(labels), "", value);
    }

    /// A sample for each reason, with labels of the subject.
    fn add_reasons(&mut self, of: Labels<'_>, counts: &[(&str, u64)]) {
        for (reason, count) in counts {
            self.add(&[of, &[("reason", reason)]].concat(), *count as f64);
        }
    }

    /// One sample, with labels as they are [`written`] and `more` after them. A response has tens of thousands of
    /// samples, so this allocates no string.
    fn sample(&mut self, suffix: &str, labels: &str, more: &str, value: f64) {
        let to = &mut self.samples;
        for part in [self.name, suffix] {
            to.push_str(part);
        }
        if !labels.is_empty() || !more.is_empty() {
            to.push('{');
            to.push_str(labels);
            to.push_str(more);
            to.push('}');
        }
        let _ = match value.fract() == 0.0 && value.abs() < INTEGERS_BELOW {
            // The same digits, without the search for the shortest fraction.
            true => writeln!(to, " {}", value as i64),
            false => writeln!(to, " {value}"),
        };
    }

    fn text(&self, to: &mut String) {
        if !self.samples.is_empty() {
            let _ = writeln!(to, "# HELP {} {}", self.name, self.help);
            let _ = writeln!(to, "# TYPE {} {}", self.name, self.kind);
            to.push_str(&self.samples);
        }
    }
}

/// Labels without the braces.
fn written(labels: Labels<'_>) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        if !text.is_empty() {
            text.push(',');
        }
        let _ = write!(text, "{name}=\"");
        for letter in value.chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                plain => text.push(plain),
            }
        }
        text.push('"');
    }
    text
}

pub(crate) fn text(api: &Api) -> String {
    let seen = api.sampler.fresh();
    let mut text = String::new();
    let overview = &seen.overview;
    let families = of_overview(overview).into_iter();
    let forecasts = growth::of_forecasts(overview);
    for family in families
        .chain(safeguards::families(overview))
        .chain(forecasts)
    {
        family.text(&mut text);
    }
    let statuses: Vec<(&str, &Status)> = seen
        .statuses
        .iter()
        .map(|(pool, status)| (pool.as_str(), status.as_ref()))
        .collect();
    let pools = of_pools(&statuses).into_iter();
    let own = of_head(api).into_iter();
    let own = own.chain(of_interfaces(&api.backend.interfaces()));
    let heartbeats = &seen.cluster_state.heartbeats;
    let own = own.chain(of_peers(
        &seen.client_losses,
        heartbeats,
        &seen.overview.this_head,
    ));
    let own = own.chain([of_receivers(&overview.receivers)]);
    let own = own.chain([of_protocols(&api.backend.host_losses())]);
    let volumes = of_volumes(&statuses).into_iter();
    let served = volumes.chain(filesystems::families(&statuses));
    for family in pools.chain(served).chain(own) {
        family.text(&mut text);
    }
    text
}

fn of_receivers(receivers: &[ReceiverView]) -> Family {
    let mut sent = Family::new(
        "bulkhead_notifications_total",
        "counter",
        "Messages about alerts that this head has delivered, and attempts that failed.",
    );
    for one in receivers {
        let counts = [("delivered", one.sent_count), ("failed", one.failed_count)];
        for (result, count) in counts {
            sent.add(&[("receiver", &one.name), ("result", result)], count as f64);
        }
    }
    sent
}

fn truth(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn of_overview(overview: &Overview) -> Vec<Family> {
    let gauge = |name, help| Family::new(name, "gauge", help);
    let mut up = gauge(
        "bulkhead_head_online",
        "Whether the cluster counts the head as online.",
    );
    for head in overview.heads.iter().filter(|head| head.state != "unknown") {
        up.add(&[("head", &head.name)], truth(head.state == "online"));
    }
    let mut link = gauge(
        "bulkhead_link_up",
        "Whether a head reaches another over a network.",
    );
    for one in overview.links.iter().filter(|link| link.state != "unknown") {
        let labels = [
            ("network", one.network.as_str()),
            ("from", &one.from),
            ("to", &one.to),
        ];
        link.add(&labels, truth(one.state == "up"));
    }
    let mut served = gauge("bulkhead_pool_served", "Whether a head serves the pool.");
    for pool in &overview.pools {
        let head = pool.served_by.as_deref().unwrap_or_default();
        served.add(
            &[("pool", &pool.name), ("head", head)],
            truth(pool.state == "served"),
        );
    }
    let mut sessions = gauge(
        "bulkhead_pool_sessions",
        "Sessions and connections of clients.",
    );
    for pool in &overview.pools {
        sessions.add(&[("pool", &pool.name)], pool.session_count as f64);
    }
    let mut alerts = gauge(
        "bulkhead_alerts",
        "Conditions that need attention, by severity.",
    );
    for severity in ["error", "warning", "info"] {
        let same = overview
            .alerts
            .iter()
            .filter(|alert| alert.severity == severity);
        alerts.add(&[("severity", severity)], same.count() as f64);
    }
    let mut began = gauge(
        "bulkhead_last_takeover_timestamp_seconds",
        "When a head last began to serve a pool, in seconds since 1970.",
    );
    let mut took = gauge(
        "bulkhead_last_takeover_duration_seconds",
        "How long the last takeover took.",
    );
    if let Some(takeover) = &overview.last_takeover {
        let labels = [
            ("pool", takeover.pool.as_str()),
            ("head", &takeover.to),
            ("kind", &takeover.kind),
        ];
        began.add(&labels, takeover.at_ms as f64 / 1000.0);
        if let Some(duration_ms) = takeover.duration_ms {
            took.add(&labels, duration_ms as f64 / 1000.0);
        }
    }
    vec![up, link, served, sessions, alerts, began, took]
}

fn of_pools(statuses: &[(&str, &Status)]) -> Vec<Family> {
    type Get = fn(&PoolStatus) -> Option<f64>;
    let gauges: [(&'static str, &'static str, Get); 9] = [
        (
            "bulkhead_pool_size_bytes",
            "Capacity of the devices, with parity.",
            |p| Some(p.size as f64),
        ),
        (
            "bulkhead_pool_allocated_bytes",
            "Space of the devices that is allocated.",
            |p| Some(p.allocated as f64),
        ),
        (
            "bulkhead_pool_free_bytes",
            "Space of the devices that is free.",
            |p| Some(p.free as f64),
        ),
        (
            "bulkhead_pool_fragmentation_percent",
            "Fragmentation of the free space.",
            |p| p.fragmentation_percent.map(|percent| percent as f64),
        ),
        (
            "bulkhead_pool_healthy",
            "Whether all devices of the pool are well.",
            |p| Some(truth(p.health == "ONLINE")),
        ),
        (
            "bulkhead_pool_suspended",
            "Whether all I/O of the pool is blocked on devices.",
            |p| Some(truth(p.suspended)),
        ),
        (
            "bulkhead_pool_writes_wait_seconds",
            "Time since writes of the pool are blocked; 0 if they are not.",
            |p| {
                let since = p.writes_wait.as_ref().map(|wait| wait.since);
                Some(since.map_or(0.0, |since| {
                    UNIX_EPOCH
                        .elapsed()
                        .unwrap_or_default()
                        .as_secs()
                        .saturating_sub(since) as f64
                }))
            },
        ),
        (
            "bulkhead_pool_scan_running",
            "Whether a scrub or resilver runs.",
            |p| {
                Some(truth(
                    p.scan.as_ref().is_some_and(|scan| scan.state == "running"),
                ))
            },
        ),
        (
            "bulkhead_pool_scan_progress_ratio",
            "How far the scrub or resilver is.",
            |p| {
                let scan = p.scan.as_ref()?;
                Some(scan.examined as f64 / scan.to_examine.max(1) as f64)
            },
        ),
    ];
    let mut families: Vec<Family> = Vec::new();
    for (name, help, get) in gauges {
        let mut family = Family::new(name, "gauge", help);
        for (pool, status) in statuses {
            if let Some(value) = get(&status.pool) {
                family.add(&[("pool", pool)], value);
            }
        }
        families.push(family);
    }
    let mut uptime = Family::new(
        "bulkhead_pool_server_uptime_seconds",
        "gauge",
        "How long the pool's server runs.",
    );
    let mut problems = Family::new(
        "bulkhead_pool_export_problems",
        "gauge",
        "Exports that cannot be served.",
    );
    let mut errors = Family::new(
        "bulkhead_device_errors_total",
        "counter",
        "Errors of a device since they were cleared, by kind.",
    );
    let mut healthy = Family::new(
        "bulkhead_device_healthy",
        "gauge",
        "Whether the device is used.",
    );
    let mut returns = Family::new(
        "bulkhead_device_returns_total",
        "counter",
        "Devices that the server brought back after they had failed.",
    );
    let mut dropped = Family::new(
        "bulkhead_server_log_lines_dropped_total",
        "counter",
        "Lines of the server's log that were dropped because its reader was too slow.",
    );
    for (pool, status) in statuses {
        if let Some(server) = &status.server {
            uptime.add(&[("pool", pool)], server.uptime_s as f64);
            returns.add(&[("pool", pool)], server.device_returns as f64);
            dropped.add(&[("pool", pool)], server.log_lines_dropped as f64);
        }
        problems.add(&[("pool", pool)], status.problems.len() as f64);
        for device in &status.pool.devices {
            of_device(pool, device, &mut errors, &mut healthy);
        }
    }
    families.extend([uptime, problems, errors, healthy, returns, dropped]);
    families.extend(of_spaces(statuses));
    families.extend(growth::of_pools(statuses));
    families.extend(legs::families(statuses));
    families.extend(replication::families(statuses));
    families
}

/// The space of pools as available to their volumes.
fn of_spaces(statuses: &[(&str, &Status)]) -> Vec<Family> {
    type Get = fn(&PoolSpace) -> u64;
    let all: [(&'static str, &'static str, &'static str, Get); 8] = [
        (
            "bulkhead_pool_usable_bytes",
            "gauge",
            "Capacity for volumes.",
            |space| space.usable,
        ),
        (
            "bulkhead_pool_written_bytes",
            "gauge",
            "Space used by volumes and snapshots.",
            |space| space.written,
        ),
        (
            "bulkhead_pool_reserved_bytes",
            "gauge",
            "Space reserved and not written yet.",
            |space| space.reserved,
        ),
        (
            "bulkhead_pool_available_bytes",
            "gauge",
            "Space available beyond reservations.",
            |space| space.available,
        ),
        (
            "bulkhead_pool_promised_bytes",
            "gauge",
            "The sizes of all volumes.",
            |space| space.promised,
        ),
        (
            "bulkhead_pool_overcommitted_bytes",
            "gauge",
            "Space promised to clients beyond the available space.",
            |space| space.overcommitted,
        ),
        (
            "bulkhead_pool_full_percent",
            "gauge",
            "Percentage used, with reservations where a volume has none.",
            |space| space.full_percent,
        ),
        (
            "bulkhead_pool_refused_writes_total",
            "counter",
            "Writes of clients that were refused for lack of space.",
            |space| space.refused_writes,
        ),
    ];
    let family = |(name, kind, help, get): (&'static str, &'static str, &'static str, Get)| {
        let mut family = Family::new(name, kind, help);
        for (pool, status) in statuses {
            if let Some(space) = &status.pool.space {
                family.add(&[("pool", pool)], get(space) as f64);
            }
        }
        family
    };
    all.into_iter().map(family).collect()
}

fn of_device(pool: &str, device: &DeviceView, errors: &mut Family, healthy: &mut Family) {
    for member in &device.members {
        of_device(pool, member, errors, healthy);
    }
    if !device.members.is_empty() {
        return;
    }
    let kinds = [
        ("read", device.read_errors),
        ("write", device.write_errors),
        ("checksum", device.checksum_errors),
    ];
    for (kind, count) in kinds {
        let labels = [("pool", pool), ("device", &device.name), ("kind", kind)];
        errors.add(&labels, count as f64);
    }
    let is_well = matches!(device.state.as_str(), "ONLINE" | "AVAIL");
    healthy.add(&[("pool", pool), ("device", &device.name)], truth(is_well));
}

fn of_volumes(statuses: &[(&str, &Status)]) -> Vec<Family> {
    let counter = |name, help| Family::new(name, "counter", help);
    let mut operations = counter("bulkhead_volume_operations_total", "Requests of clients.");
    let mut bytes = counter("bulkhead_volume_bytes_total", "Bytes that clients moved.");
    let mut errors = counter(
        "bulkhead_volume_errors_total",
        "Requests that returned an error.",
    );
    let mut refused = counter(
        "bulkhead_volume_refused_writes_total",
        "Writes that were refused for lack of space.",
    );
    let mut frozen = Family::new(
        "bulkhead_volume_frozen",
        "gauge",
        "Whether writes are blocked, because the volume is frozen.",
    );
    let mut times = Family::new(
        "bulkhead_volume_latency_seconds",
        "histogram",
        "Time from the arrival of a request to its response.",
    );
    let mut ends = Vec::new();
    for (pool, status) in statuses {
        for volume in &status.activity {
            while ends.len() < volume.read_times.len().max(volume.write_times.len()) {
                ends.push(class_end(ends.len()));
            }
            let name = volume.name.as_str();
            for way in ways(volume) {
                let labels = [
                    ("pool", *pool),
                    ("volume", name),
                    ("direction", way.direction),
                ];
                let labels = written(&labels);
                operations.sample("", &labels, "", way.count as f64);
                bytes.sample("", &labels, "", way.bytes as f64);
                histogram(&mut times, &labels, &way, &ends);
            }
            let labels = [("pool", *pool), ("volume", name)];
            errors.add(&labels, volume.errors as f64);
            refused.add(&labels, volume.refused_for_space as f64);
            frozen.add(&labels, truth(volume.frozen.is_some()));
        }
    }
    vec![operations, bytes, errors, refused, frozen, times]
}

/// Requests of one kind.
struct Direction<'a> {
    direction: &'static str,
    count: u64,
    bytes: u64,
    us: u64,
    times: &'a [u64],
}

fn ways(volume: &VolumeActivity) -> [Direction<'_>; 2] {
    [
        Direction {
            direction: "read",
            count: volume.reads,
            bytes: volume.read_bytes,
            us: volume.read_us,
            times: &volume.read_times,
        },
        Direction {
            direction: "write",
            count: volume.writes,
            bytes: volume.write_bytes,
            us: volume.write_us,
            times: &volume.write_times,
        },
    ]
}

/// The label of the end of a class of latencies.
fn class_end(class: usize) -> String {
    let us = FIRST_CLASS_US << (2 * class);
    format!(",le=\"{}\"", us as f64 / US_PER_S)
}

/// `ends` are the labels of the classes.
fn histogram(family: &mut Family, labels: &str, way: &Direction<'_>, ends: &[String]) {
    let mut total = 0;
    let finite = way.times.len().saturating_sub(1);
    for (count, end) in way.times[..finite].iter().zip(ends) {
        total += count;
        family.sample("_bucket", labels, end, total as f64);
    }
    total += way.times.last().copied().unwrap_or(0);
    family.sample("_bucket", labels, ",le=\"+Inf\"", total as f64);
    family.sample("_sum", labels, "", way.us as f64 / US_PER_S);
    // The sum over the classes, since they are not read at the same instant as the count.
    family.sample("_count", labels, "", total as f64);
}

fn of_head(api: &Api) -> Vec<Family> {
    let counts = &api.limits;
    let mut connections = Family::new(
        "bulkhead_api_connections",
        "gauge",
        "Connections to the API.",
    );
    connections.add(&[], counts.connection_slots.count() as f64);
    let mut streams = Family::new("bulkhead_api_streams", "gauge", "Streams of changes.");
    streams.add(&[], counts.streams.load(Ordering::Relaxed) as f64);
    let mut refused = Family::new(
        "bulkhead_api_refused_total",
        "counter",
        "Connections and requests that were refused, by reason.",
    );
    let reasons = [
        ("no_place", &counts.refused),
        ("rate", &counts.limited),
        ("tls", &counts.unencrypted),
    ];
    for (reason, count) in reasons {
        refused.add(&[("reason", reason)], count.load(Ordering::Relaxed) as f64);
    }
    let mut power = Family::new("bulkhead_head_power_watts", "gauge", "Power, by the BMC.");
    let mut heat = Family::new(
        "bulkhead_head_temperature_celsius",
        "gauge",
        "Temperature, by the BMC.",
    );
    let mut fans = Family::new(
        "bulkhead_head_fan_rpm",
        "gauge",
        "Speed of a fan, by the BMC.",
    );
    let mut faults = Family::new(
        "bulkhead_hardware_fault",
        "gauge",
        "1 for each part that reports a fault: a disk by SMART, a sensor of a BMC.",
    );
    for sensor in api.backend.sensors() {
        let labels = [("head", sensor.head.as_str()), ("sensor", &sensor.name)];
        match sensor.unit.as_str() {
            "watts" => power.add(&labels, sensor.value),
            "degrees_celsius" => heat.add(&labels, sensor.value),
            "rpm" => fans.add(&labels, sensor.value),
            _ => {}
        }
    }
    for fault in api.backend.hardware_faults() {
        let is_failing = if fault.is_failing { "true" } else { "false" };
        let labels = [
            ("head", fault.head.as_str()),
            ("kind", &fault.kind),
            ("name", &fault.name),
            ("failing", is_failing),
        ];
        faults.add(&labels, 1.0);
    }
    let mut families = vec![connections, streams, refused, power, heat, fans, faults];
    families.extend(of_power(api.backend.power()));
    families
}

/// The states of a power supply.
const SUPPLY_STATES: [&str; 4] = ["mains", "battery", "low", "unknown"];

fn of_power(power: PowerView) -> [Family; 3] {
    let gauge = |name, help| Family::new(name, "gauge", help);
    let mut states = gauge(
        "bulkhead_ups_state",
        "1 for the state of the power supply, 0 for the other states.",
    );
    let mut charge = gauge(
        "bulkhead_ups_charge_ratio",
        "Charge of the battery of the power supply.",
    );
    let mut runtime = gauge(
        "bulkhead_ups_runtime_seconds",
        "How long the battery can supply the load.",
    );
    for feed in &power.feeds {
        let name = ("supply", feed.name.as_str());
        for state in SUPPLY_STATES {
            let is_this = f64::from(u8::from(feed.state == state));
            states.add(&[name, ("state", state)], is_this);
        }
        if let Some(percent) = feed.charge_percent {
            charge.add(&[name], f64::from(percent) / 100.0);
        }
        if let Some(seconds) = feed.runtime_s {
            runtime.add(&[name], f64::from(seconds));
        }
    }
    [states, charge, runtime]
}

fn of_interfaces(interfaces: &[InterfaceCounters]) -> Vec<Family> {
    let counter = |name, help| Family::new(name, "counter", help);
    let mut bytes = counter(
        "bulkhead_interface_bytes_total",
        "Bytes at an interface of this head.",
    );
    let mut lost = counter(
        "bulkhead_interface_packets_lost_total",
        "Packets that an interface of this head lost, by reason.",
    );
    for one in interfaces {
        let of = [
            ("interface", one.interface.as_str()),
            ("network", &one.network),
        ];
        for (direction, count) in [("receive", one.received_bytes), ("send", one.sent_bytes)] {
            bytes.add(
                &[&of[..], &[("direction", direction)]].concat(),
                count as f64,
            );
        }
        lost.add_reasons(&of, &one.lost);
    }
    vec![bytes, lost]
}

fn of_peers(clients: &[PeerLosses], heartbeats: &[HeartbeatLosses], own: &str) -> [Family; 2] {
    let counter = |name, help| Family::new(name, "counter", help);
    let mut lost = counter(
        "bulkhead_peer_packets_lost_total",
        "Packets to and from a peer that were lost or late, by the sign of the loss.",
    );
    let mut downs = counter(
        "bulkhead_link_down_total",
        "How often a heartbeat link went down since Corosync started.",
    );
    for one in clients {
        let of = [("peer", one.peer.as_str()), ("service", &one.service)];
        lost.add_reasons(&of, &one.lost);
    }
    for one in heartbeats {
        let of = [
            ("peer", one.to.as_str()),
            ("network", &one.network),
            ("service", "heartbeat"),
        ];
        lost.add_reasons(&of, &one.lost);
        let link = [
            ("network", one.network.as_str()),
            ("from", own),
            ("to", &one.to),
        ];
        downs.add(&link, one.downs as f64);
    }
    [lost, downs]
}

fn of_protocols(losses: &[HostLosses]) -> Family {
    let mut lost = Family::new(
        "bulkhead_host_packets_lost_total",
        "counter",
        "Packets that the protocols of this head lost, over all peers, by reason.",
    );
    for one in losses {
        let labels = [("protocol", one.protocol), ("reason", one.reason)];
        lost.add(&labels, one.count as f64);
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::PowerSupply;

    #[test]
    fn a_power_supply_has_one_state_and_no_reading_that_it_does_not_report() {
        let supply = |name: &str, state: &str, charge_percent| PowerSupply {
            name: name.to_owned(),
            state: state.to_owned(),
            charge_percent,
            ..PowerSupply::default()
        };
        let view = PowerView {
            feeds: vec![
                supply("a", "battery", Some(64)),
                supply("b", "unknown", None),
            ],
            ..PowerView::default()
        };
        let mut text = String::new();
        for family in of_power(view) {
            family.text(&mut text);
        }
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let state = |supply, state, value| {
            format!(r#"bulkhead_ups_state{{supply="{supply}",state="{state}"}} {value}"#)
        };
        assert_eq!(
            samples,
            [
                state("a", "mains", 0),
                state("a", "battery", 1),
                state("a", "low", 0),
                state("a", "unknown", 0),
                state("b", "mains", 0),
                state("b", "battery", 0),
                state("b", "low", 0),
                state("b", "unknown", 1),
                r#"bulkhead_ups_charge_ratio{supply="a"} 0.64"#.to_owned(),
            ]
        );
    }

    #[test]
    fn client_and_head_losses_are_one_metric() {
        let client = PeerLosses {
            peer: "10.0.0.7".to_owned(),
            service: "nbd".into(),
            lost: vec![("send_repeated", 3)],
        };
        let head = HeartbeatLosses {
            to: "right".to_owned(),
            network: "storage-a".to_owned(),
            lost: vec![("ping_unanswered", 20)],
            downs: 2,
        };
        let mut text = String::new();
        for family in of_peers(&[client], &[head], "left") {
            family.text(&mut text);
        }
        let name = "bulkhead_peer_packets_lost_total";
        for wanted in [
            format!(r#"{name}{{peer="10.0.0.7",service="nbd",reason="send_repeated"}} 3"#),
            format!(
                r#"{name}{{peer="right",network="storage-a",service="heartbeat",reason="ping_unanswered"}} 20"#
            ),
            r#"bulkhead_link_down_total{network="storage-a",from="left",to="right"} 2"#.to_owned(),
        ] {
            assert!(text.contains(&wanted), "{wanted}\n{text}");
        }
    }

    #[test]
    fn lost_packets_are_labelled_by_interface_and_reason() {
        let one = InterfaceCounters {
            interface: "ens1f0".to_owned(),
            network: "storage-a".to_owned(),
            lost: vec![("receive_missed", 7)],
            ..InterfaceCounters::default()
        };
        let mut text = String::new();
        of_interfaces(&[one])[1].text(&mut text);
        let wanted = r#"{interface="ens1f0",network="storage-a",reason="receive_missed"} 7"#;
        assert!(text.contains(wanted), "{text}");
    }

    #[test]
    fn label_values_are_escaped() {
        let mut family = Family::new("bulkhead_x", "gauge", "X.");
        family.add(&[("device", "a\"b\\c\nd")], 1.0);
        let mut text = String::new();
        family.text(&mut text);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains(r#"{device="a\"b\\c\nd"} 1"#), "{text}");
    }

    #[test]
    fn histogram_buckets_are_cumulative_up_to_inf() {
        let volume = VolumeActivity {
            name: "tank/a".parse().expect("a name"),
            reads: 6,
            read_bytes: 6,
            read_us: 3_000_000,
            read_times: vec![1, 2, 3],
            writes: 0,
            write_bytes: 0,
            write_us: 0,
            write_times: vec![0; 3],
            errors: 0,
            refused_for_space: 0,
            frozen: None,
        };
        let status = Status {
            activity: vec![volume],
            ..Status::default()
        };
        let mut text = String::new();
        for family in of_volumes(&[("tank", &status)]) {
            family.text(&mut text);
        }
        let labels = r#"pool="tank",volume="tank/a",direction="read""#;
        for line in [
            format!("bulkhead_volume_latency_seconds_bucket{{{labels},le=\"0.000064\"}} 1"),
            format!("bulkhead_volume_latency_seconds_bucket{{{labels},le=\"0.000256\"}} 3"),
            format!("bulkhead_volume_latency_seconds_bucket{{{labels},le=\"+Inf\"}} 6"),
            format!("bulkhead_volume_latency_seconds_sum{{{labels}}} 3"),
        ] {
            assert!(text.contains(&line), "{line}\n{text}");
        }
    }
}
