//! The kernel's counters of this head's interfaces: bytes, and packets that it or the hardware lost.

use std::fs;
use std::path::Path;

use api::backend::InterfaceCounters;
use appliance::Appliance;
use units::HeadName;

/// Directory of the interfaces.
const INTERFACES: &str = "/sys/class/net";
/// Names of its counters (Documentation/ABI/testing/sysfs-class-net-statistics) by our reason.
const LOST: &[(&str, &str)] = &[
    ("receive_dropped", "rx_dropped"),
    ("receive_error", "rx_errors"),
    ("receive_missed", "rx_missed_errors"),
    ("send_dropped", "tx_dropped"),
    ("send_error", "tx_errors"),
];

/// The interfaces that the appliance file names for this head; all but the loopback where there is no such
/// file.
pub fn counters(appliance: Option<&Appliance>, own: &str) -> Vec<InterfaceCounters> {
    let own: Option<HeadName> = own.parse().ok();
    let head = own.and_then(|own| appliance?.heads.get(&own));
    let named: Vec<(String, String)> = match head {
        Some(head) => {
            let links = head.links.iter();
            links
                .map(|(network, link)| (link.interface.clone(), network.to_string()))
                .collect()
        }
        None => all()
            .into_iter()
            .map(|name| (name, String::new()))
            .collect(),
    };
    let folder = Path::new(INTERFACES);
    named
        .into_iter()
        .filter_map(|(interface, network)| read(&folder.join(&interface), interface, network))
        .collect()
}

fn all() -> Vec<String> {
    let entries = fs::read_dir(INTERFACES).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name != "lo").collect();
    names.sort();
    names
}

/// Returns `None` for a missing interface.
fn read(folder: &Path, interface: String, network: String) -> Option<InterfaceCounters> {
    let counter = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(folder.join("statistics").join(name)).ok()?;
        text.trim().parse().ok()
    };
    Some(InterfaceCounters {
        received_bytes: counter("rx_bytes")?,
        sent_bytes: counter("tx_bytes")?,
        lost: LOST
            .iter()
            .filter_map(|(reason, name)| Some((*reason, counter(name)?)))
            .collect(),
        interface,
        network,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_counters_are_read_from_kernel() {
        let folder = Path::new(INTERFACES).join("lo");
        let found = read(&folder, "lo".to_owned(), String::new()).expect("a loopback");
        assert_eq!(found.lost.len(), LOST.len());
        assert!(read(&folder.join("none"), "none".to_owned(), String::new()).is_none());
    }

    #[test]
    fn missing_interfaces_of_the_file_are_skipped() {
        let text = include_str!("../../../examples/pair.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let found = counters(Some(&appliance), "left");
        assert!(found.iter().all(|one| !one.network.is_empty()), "{found:?}");
    }
}
