//! The processors of this host, and the interface to an address.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use cluster::process::{Invocation, run};
use serde::Deserialize;

/// Time limit of ip(8).
const TOOL_TIME_MAX: Duration = Duration::from_secs(5);
/// Most processors.
const PROCESSORS_MAX: usize = 4096;

/// The times of the processors since the start of the host, in ticks: busy, and all.
pub type Ticks = BTreeMap<u32, (u64, u64)>;

/// Reads the times.
pub fn ticks() -> Ticks {
    parse_ticks(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// Parses lines such as `cpu0 user nice system idle iowait irq softirq steal` (proc(5)).
fn parse_ticks(text: &str) -> Ticks {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let number: u32 = words.next()?.strip_prefix("cpu")?.parse().ok()?;
        // Time of guests is part of the time of users.
        let times: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
        let all = times
            .iter()
            .fold(0_u64, |sum, time| sum.saturating_add(*time));
        let idle = times.get(3)?.saturating_add(*times.get(4)?);
        Some((number, (all.saturating_sub(idle), all)))
    });
    lines.take(PROCESSORS_MAX).collect()
}

/// The busiest processor between two readings, and its use in percent.
pub fn busiest(before: &Ticks, after: &Ticks) -> Option<(u32, f64)> {
    let shares = after.iter().filter_map(|(number, (busy, all))| {
        let (busy_before, all_before) = before.get(number)?;
        let (busy, all) = (
            busy.checked_sub(*busy_before)?,
            all.checked_sub(*all_before)?,
        );
        (all > 0).then(|| (*number, 100.0 * busy as f64 / all as f64))
    });
    shares.max_by(|left, right| left.1.total_cmp(&right.1))
}

#[derive(Deserialize)]
struct Route {
    dev: String,
}

/// The interface to an address; none if it is unknown.
pub fn interface_to(address: IpAddr) -> Option<String> {
    let address = address.to_string();
    let arguments = ["-json", "route", "get", &address];
    let output = run(&Invocation::new("ip", &arguments).within(TOOL_TIME_MAX)).ok()?;
    let routes: Vec<Route> = serde_json::from_slice(&output.stdout).ok()?;
    let name = routes.into_iter().next()?.dev;
    (!name.contains('/')).then_some(name)
}

/// The speed of an interface, in Gb/s; none for one without a cable, such as the loopback.
pub fn link_gb_per_s(interfaces: &Path, name: &str) -> Option<f64> {
    let text = fs::read_to_string(interfaces.join(name).join("speed")).ok()?;
    let megabits: i64 = text.trim().parse().ok()?;
    (megabits > 0).then(|| megabits as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busiest_processor_is_found_between_two_readings() {
        let before = parse_ticks(
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 0 0 900 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\nintr 1\n",
        );
        let after =
            parse_ticks("cpu0 110 0 0 990 0 0 0 0 0 0\ncpu1 10 0 20 5 0 0 65 0 0 0\ncpu2 1 1\n");
        assert_eq!(before.len(), 2);
        assert_eq!(busiest(&before, &after), Some((1, 95.0)));
        assert_eq!(busiest(&before, &before), None);
        assert_eq!(busiest(&after, &before), None);
    }

    #[test]
    fn speed_of_a_link_is_in_its_file() {
        let root = tempfile::tempdir().expect("a directory");
        for (name, text) in [("ens1f0", "25000\n"), ("veth0", "-1\n"), ("odd", "fast\n")] {
            fs::create_dir(root.path().join(name)).expect("a directory");
            fs::write(root.path().join(name).join("speed"), text).expect("a file");
        }
        assert_eq!(link_gb_per_s(root.path(), "ens1f0"), Some(25.0));
        for none in ["veth0", "odd", "none"] {
            assert_eq!(link_gb_per_s(root.path(), none), None, "{none}");
        }
    }

    #[test]
    fn loopback_leads_to_its_own_address() {
        assert_eq!(
            interface_to(IpAddr::from([127, 0, 0, 1])).as_deref(),
            Some("lo")
        );
    }
}
