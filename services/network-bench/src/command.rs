//! `bulkhead bench network`: measures each number of connections, and prints the table.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use control::Failure;
use drop_watch::interval::during;
use network_drops::{Layer, Loss};
use rendering::{Printer, Table};
use serde::Serialize;

use crate::arguments::NetworkArgs;
use crate::bound::{Measured, bound};
use crate::host::{Ticks, busiest, interface_to, link_gb_per_s, ticks};
use crate::iperf::{Connection, OMITTED_S, measure};
use crate::{chart, server};

/// Directory of the interfaces.
const INTERFACES: &str = "/sys/class/net";
/// The part of a measurement during which the processors are observed: connections do not start and end together.
const OBSERVED_PERCENT: u64 = 80;

/// The whole result.
#[derive(Debug, Serialize)]
struct Report {
    /// The peer.
    address: IpAddr,
    /// Whether this host receives.
    is_reverse: bool,
    /// The interface to the peer; none if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<String>,
    /// Its speed, in Gb/s; none for one without a cable.
    #[serde(skip_serializing_if = "Option::is_none")]
    link_gb_per_s: Option<f64>,
    /// Seconds of each measurement.
    seconds: u64,
    /// The measurements.
    rows: Vec<Measured>,
}

/// Performs the command.
///
/// # Errors
///
/// iperf3 is not installed, the server does not respond, or the output fails.
pub fn run(args: &NetworkArgs, out: Printer) -> Result<(), Failure> {
    let Some(address) = args.address else {
        return server::serve(args, out);
    };
    let interface = interface_to(address);
    let link = interface
        .as_ref()
        .and_then(|name| link_gb_per_s(Path::new(INTERFACES), name));
    let mut rows = Vec::new();
    for connections in args.steps() {
        out.progress(&format!("{connections} connections, {} s", args.seconds));
        rows.push(one(args, address, connections, interface.as_deref(), link)?);
    }
    let report = Report {
        address,
        is_reverse: args.reverse,
        interface,
        link_gb_per_s: link,
        seconds: args.seconds,
        rows,
    };
    if let Some(file) = &args.svg {
        let direction = if args.reverse { "from" } else { "to" };
        let title = format!("TCP {direction} {address}");
        let picture = chart::svg(&title, &report.rows, link);
        fs::write(file, picture).map_err(Failure::of(&format!("write {}", file.display())))?;
    }
    out.either(&report, || text(&report))
}

/// Measures one number of connections.
fn one(
    args: &NetworkArgs,
    address: IpAddr,
    connections: u16,
    interface: Option<&str>,
    link: Option<f64>,
) -> Result<Measured, Failure> {
    let all = || {
        std::thread::scope(|scope| {
            let observed = scope.spawn(|| observe(args.seconds));
            let running: Vec<_> = (0..connections)
                .map(|number| {
                    let port = args.port + number;
                    scope.spawn(move || measure(address, port, args.seconds, args.reverse))
                })
                .collect();
            let joined = running.into_iter().map(|one| match one.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            let results: Vec<Result<Connection, Failure>> = joined.collect();
            let results: Result<Vec<Connection>, Failure> = results.into_iter().collect();
            results.map(|results| (results, observed.join().ok()))
        })
    };
    let (result, losses) = during(interface, all);
    let (results, observed) = result?;
    let mut measured = summed(connections, &results);
    measured.busiest = observed.and_then(|(before, after)| busiest(&before, &after));
    measured.drops = losses
        .iter()
        .filter(|loss| is_drop(loss))
        .map(|loss| loss.count)
        .sum();
    measured.bound = bound(&measured, args.seconds, link);
    Ok(measured)
}

/// The times of the processors at the begin and the end of the middle of a measurement.
fn observe(seconds: u64) -> (Ticks, Ticks) {
    // The interval of a measurement: there is no event to poll for.
    std::thread::sleep(Duration::from_secs(OMITTED_S));
    let before = ticks();
    std::thread::sleep(Duration::from_millis(seconds * 10 * OBSERVED_PERCENT));
    (before, ticks())
}

/// Losses of the parts that a faster host would not have. Other counters are those of all connections of the host.
fn is_drop(loss: &Loss) -> bool {
    let is_late = loss.source.reason == "budget_exhausted";
    let layer = loss.source.layer;
    matches!(
        layer,
        Layer::Interface | Layer::Queue | Layer::Qdisc | Layer::Processor
    ) && !is_late
}

fn summed(connections: u16, results: &[Connection]) -> Measured {
    let sum = |value: fn(&Connection) -> f64| results.iter().map(value).sum::<f64>();
    let max = |value: fn(&Connection) -> f64| results.iter().map(value).fold(0.0, f64::max);
    let mut again = results.iter().map(|one| one.retransmits);
    Measured {
        connections,
        gb_per_s: sum(|one| one.bits_per_s) / 1e9,
        retransmits: again.try_fold(0_u64, |sum, one| Some(sum.saturating_add(one?))),
        cpu_percent: sum(|one| one.cpu_percent),
        peer_cpu_percent: sum(|one| one.peer_cpu_percent),
        process_percent_max: (max(|one| one.cpu_percent), max(|one| one.peer_cpu_percent)),
        ..Measured::default()
    }
}

fn text(report: &Report) -> String {
    let headings = [
        ">CONNECTIONS",
        ">GB/S",
        ">SENT AGAIN",
        ">CPU HERE",
        ">CPU PEER",
        ">BUSIEST",
        ">LOST HERE",
        "BOUND BY",
    ];
    let mut table = Table::new(&headings);
    for row in &report.rows {
        table.row([
            row.connections.to_string(),
            format!("{:.2}", row.gb_per_s),
            row.retransmits
                .map_or_else(|| "-".to_owned(), |count| count.to_string()),
            format!("{:.0} %", row.cpu_percent),
            format!("{:.0} %", row.peer_cpu_percent),
            row.busiest
                .map_or_else(|| "-".to_owned(), |(_, share)| format!("{share:.0} %")),
            row.drops.to_string(),
            row.bound.clone(),
        ]);
    }
    let direction = if report.is_reverse { "from" } else { "to" };
    let over = report
        .interface
        .as_deref()
        .unwrap_or("an unknown interface");
    let link = report.link_gb_per_s.map(|speed| format!(" ({speed} Gb/s)"));
    format!(
        "TCP {direction} {} over {}{}, {} s each. Gb/s are 10^9 bits; CPU is in percent of one processor.\n\n{}",
        report.address,
        rendering::harmless(over),
        link.unwrap_or_default(),
        report.seconds,
        table.render()
    )
}

#[cfg(test)]
mod tests {
    use network_drops::Source;

    use super::*;

    #[test]
    fn connections_are_summed_and_the_fullest_processes_found() {
        let connection = |bits_per_s, retransmits, cpu_percent| Connection {
            bits_per_s,
            retransmits,
            cpu_percent,
            peer_cpu_percent: 10.0,
        };
        let found = summed(
            2,
            &[
                connection(4e9, Some(3), 80.0),
                connection(2e9, Some(4), 99.0),
            ],
        );
        assert_eq!((found.gb_per_s, found.retransmits), (6.0, Some(7)));
        assert_eq!(
            (found.cpu_percent, found.process_percent_max),
            (179.0, (99.0, 10.0))
        );
        let unknown = summed(
            2,
            &[connection(4e9, Some(3), 0.0), connection(2e9, None, 0.0)],
        );
        assert_eq!(unknown.retransmits, None);
    }

    #[test]
    fn late_packets_and_counters_of_the_host_are_no_drops() {
        let loss = |layer, reason| Loss {
            source: Source::new(layer, "x", reason),
            count: 1,
            total: None,
        };
        assert!(is_drop(&loss(Layer::Interface, "rx_missed_errors")));
        assert!(is_drop(&loss(Layer::Processor, "backlog_full")));
        assert!(!is_drop(&loss(Layer::Processor, "budget_exhausted")));
        assert!(!is_drop(&loss(Layer::Protocol, "RetransSegs")));
    }
}
