//! One connection of iperf3: its process, and its report. The peer influences the report, so nothing of it is trusted.

use std::net::IpAddr;
use std::time::Duration;

use cluster::process::{Invocation, RunError, run};
use control::{Failure, FailureKind};
use serde::Deserialize;

/// The binary.
pub const PROGRAM: &str = "iperf3";
/// Seconds before the measurement, while the windows of TCP grow.
pub const OMITTED_S: u64 = 1;
/// Time in addition to the measurement: to connect, and to exchange results.
const EXTRA: Duration = Duration::from_secs(15);
/// Attempts to connect: a server does not listen for an instant after each test.
const ATTEMPTS: u32 = 5;
/// Pause between them.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(300);
/// Longest report, in bytes.
const REPORT_BYTES_MAX: usize = 1 << 20;
/// Longest text of a report that is shown, in characters.
const TEXT_CHARS_MAX: usize = 200;
/// A larger value of bits in a second is none: a terabit.
const BITS_PER_S_MAX: f64 = 1e15;
/// A larger share of processors is none, in percent of one.
const CPU_PERCENT_MAX: f64 = 1e6;

/// The result of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Connection {
    /// Bits per second at the receiver.
    pub bits_per_s: f64,
    /// Segments that the sender sent again; none if it does not report them.
    pub retransmits: Option<u64>,
    /// Use of processors by the process here, in percent of one.
    pub cpu_percent: f64,
    /// The same of the process of the peer.
    pub peer_cpu_percent: f64,
}

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    end: End,
    error: Option<String>,
}

#[derive(Default, Deserialize)]
struct End {
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
    cpu_utilization_percent: Option<Cpu>,
}

#[derive(Deserialize)]
struct Sum {
    bits_per_second: f64,
    retransmits: Option<u64>,
}

#[derive(Deserialize)]
struct Cpu {
    host_total: f64,
    remote_total: f64,
}

/// Runs one connection for the time of the measurement.
///
/// # Errors
///
/// iperf3 is not installed, has no connection, or reports nothing useful.
pub fn measure(
    address: IpAddr,
    port: u16,
    seconds: u64,
    is_reverse: bool,
) -> Result<Connection, Failure> {
    let [address_text, port_text, seconds_text, omitted] = [
        address.to_string(),
        port.to_string(),
        seconds.to_string(),
        OMITTED_S.to_string(),
    ];
    let mut arguments = vec![
        "--client",
        &address_text,
        "--port",
        &port_text,
        "--time",
        &seconds_text,
        "--omit",
        &omitted,
        "--interval",
        "0",
        "--connect-timeout",
        "5000",
        "--json",
    ];
    if is_reverse {
        arguments.push("--reverse");
    }
    let limit = Duration::from_secs(seconds + OMITTED_S) + EXTRA;
    let invocation = Invocation::new(PROGRAM, &arguments).within(limit);
    let mut result = Err(String::new());
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(ATTEMPT_PAUSE);
        }
        result = parse(&run(&invocation).map_err(not_run)?.stdout);
        if !result.as_ref().is_err_and(|why| is_between_tests(why)) {
            break;
        }
    }
    result.map_err(|why| {
        Failure::new(
            FailureKind::Failed,
            format!("iperf3 measured nothing to {address} port {port}: {why}"),
        )
        .advise(
            "run `bulkhead bench network --serve` there with at least as many --connections and the same --port; a \
             firewall must permit one port for each connection",
        )
    })
}

/// Whether the server may be about to listen again.
fn is_between_tests(why: &str) -> bool {
    why.contains("refused") || why.contains("busy")
}

/// The failure of a command that did not run.
fn not_run(error: RunError) -> Failure {
    match &error {
        RunError::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Failure::new(FailureKind::Unsupported, "iperf3 is not installed")
                .advise("run `apt-get install iperf3` on both hosts")
        }
        _ => Failure::from_chain(FailureKind::Failed, &error),
    }
}

fn parse(report: &[u8]) -> Result<Connection, String> {
    if report.len() > REPORT_BYTES_MAX {
        return Err(format!("its report has {} bytes", report.len()));
    }
    let report: Report = serde_json::from_slice(report)
        .map_err(|error| format!("its report is invalid: {error}"))?;
    if let Some(error) = report.error {
        return Err(units::printable(&error, TEXT_CHARS_MAX));
    }
    let within = |value: f64, max: f64| (0.0..=max).contains(&value).then_some(value);
    let end = report.end;
    let sent = end.sum_sent.ok_or("its report has no sum")?;
    let received = end.sum_received.unwrap_or(Sum {
        bits_per_second: sent.bits_per_second,
        retransmits: None,
    });
    let cpu = end.cpu_utilization_percent;
    let cpu = cpu.map_or((0.0, 0.0), |cpu| (cpu.host_total, cpu.remote_total));
    let valid = || {
        Some(Connection {
            bits_per_s: within(received.bits_per_second, BITS_PER_S_MAX)?,
            retransmits: sent.retransmits,
            cpu_percent: within(cpu.0, CPU_PERCENT_MAX)?,
            peer_cpu_percent: within(cpu.1, CPU_PERCENT_MAX)?,
        })
    };
    valid().ok_or_else(|| "its report has impossible values".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_throughput_of_the_receiver() {
        let report = r#"{"start": {}, "intervals": [], "end": {"sum_sent": {"bits_per_second": 5e9, "retransmits": 7},
            "sum_received": {"bits_per_second": 4.5e9}, "cpu_utilization_percent": {"host_total": 31.5, "remote_total": 88}}}"#;
        let expected = Connection {
            bits_per_s: 4.5e9,
            retransmits: Some(7),
            cpu_percent: 31.5,
            peer_cpu_percent: 88.0,
        };
        assert_eq!(parse(report.as_bytes()), Ok(expected));
    }

    #[test]
    fn hostile_reports_are_refused_in_a_sentence() {
        let huge = format!(r#"{{"error": "{}"}}"#, "x".repeat(REPORT_BYTES_MAX));
        let deep = "[".repeat(100_000);
        let escape = format!(r#"{{"error": "busy\u001b[2J{}"}}"#, "y".repeat(500));
        for (report, part) in [
            (huge.as_str(), "bytes"),
            (&deep, "invalid"),
            ("", "invalid"),
            ("[]", "invalid"),
            (r#"{"end": {}}"#, "no sum"),
            (
                r#"{"end": {"sum_sent": {"bits_per_second": -1}}}"#,
                "impossible",
            ),
            (
                r#"{"end": {"sum_sent": {"bits_per_second": 1e300}}}"#,
                "impossible",
            ),
            (
                r#"{"end": {"sum_sent": {"bits_per_second": 1, "retransmits": -3}}}"#,
                "invalid",
            ),
            (&escape, "busy[2J"),
        ] {
            let why = parse(report.as_bytes()).expect_err(part);
            assert!(why.contains(part), "{why}");
            assert!(
                why.chars().count() < 300 && !why.contains(char::is_control),
                "{why:?}"
            );
        }
    }
}
