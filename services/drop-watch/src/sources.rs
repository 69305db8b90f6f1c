//! Reads all counters of this host once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use cluster::process::{Invocation, RunError, run};
use network_drops::counters::{
    INTERFACE_COUNTERS, driver, interface, processors, protocols, protocols6, qdiscs,
};
use network_drops::sockets::{SocketCounter, tcp, udp};
use network_drops::{Layer, Snapshot, Source};

/// Most interfaces that are read.
const INTERFACES_MAX: usize = 256;
/// Time limit of a tool.
const TOOL_TIME_MAX: Duration = Duration::from_secs(10);
/// Beginnings of the names of processes with sockets of the appliance. The kernel cuts names after 15 characters.
const OWN_PROCESSES: [&str; 2] = ["bulkhead", "corosync"];
/// Directory of the interfaces.
const INTERFACES: &str = "sys/class/net";

/// What is read.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The interfaces.
    pub interfaces: Vec<String>,
    /// Also sockets of other processes.
    pub all_sockets: bool,
}

/// All counters, the ports of the appliance's sockets, and what could not be read.
#[derive(Debug, Default)]
pub struct Reading {
    /// The counters.
    pub counters: Snapshot,
    /// The last parts of `ADDRESS:PORT` of the appliance's sockets: `:PORT`.
    pub own_ports: BTreeSet<String>,
    /// Missing tools and files, each with the remedy.
    pub notes: BTreeSet<String>,
}

/// The names of all interfaces but the loopback, sorted.
pub fn interfaces(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join(INTERFACES)).into_iter().flatten();
    let names = entries.flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| name != "lo")
        .take(INTERFACES_MAX)
        .collect();
    names.sort();
    names
}

/// Whether there is such an interface.
pub fn has_interface(root: &Path, name: &str) -> bool {
    !name.contains('/') && !name.starts_with('.') && root.join(INTERFACES).join(name).exists()
}

/// Reads everything. `root` is `/` except in tests.
pub fn read(root: &Path, selection: &Selection) -> Reading {
    let mut reading = Reading::default();
    for name in &selection.interfaces {
        let folder = root.join(INTERFACES).join(name).join("statistics");
        let counters = INTERFACE_COUNTERS.iter().filter_map(|counter| {
            let text = fs::read_to_string(folder.join(counter)).ok()?;
            interface(name, counter, &text)
        });
        reading.counters.extend(counters);
        if let Some(text) = tool(
            &mut reading.notes,
            "ethtool",
            &["-S", name],
            "counters of queues",
        ) {
            reading.counters.extend(driver(name, &text));
        }
    }
    if let Some(text) = tool(
        &mut reading.notes,
        "tc",
        &["-s", "-j", "qdisc", "show"],
        "drops of qdiscs",
    ) {
        let mut found = qdiscs(&text);
        found.retain(|(source, _)| selection.interfaces.contains(&source.at));
        reading.counters.extend(found);
    }
    let file =
        |name: &str| fs::read_to_string(root.join("proc/net").join(name)).unwrap_or_default();
    reading.counters.extend(processors(&file("softnet_stat")));
    reading.counters.extend(protocols(&file("snmp")));
    reading.counters.extend(protocols(&file("netstat")));
    reading.counters.extend(protocols6(&file("snmp6")));
    sockets(&mut reading, selection.all_sockets);
    reading
}

fn sockets(reading: &mut Reading, all: bool) {
    let text = tool(
        &mut reading.notes,
        "ss",
        &["-tainpOH"],
        "retransmissions by peer",
    );
    let mut found = tcp(&text.unwrap_or_default());
    let text = tool(
        &mut reading.notes,
        "ss",
        &["-uanmpOH"],
        "drops of UDP sockets",
    );
    found.extend(udp(&text.unwrap_or_default()));
    for one in found {
        let is_own = is_own(&one);
        if is_own {
            reading.own_ports.extend(port_of(&one.source));
        }
        if is_own || all {
            reading.counters.add(one.source, one.count);
        }
    }
}

fn is_own(socket: &SocketCounter) -> bool {
    let mut names = socket.processes.iter();
    names.any(|name| OWN_PROCESSES.iter().any(|own| name.starts_with(own)))
}

/// `:PORT` of this host's end.
pub fn port_of(source: &Source) -> Option<String> {
    let (_, port) = source.local.as_deref()?.rsplit_once(':')?;
    Some(format!(":{port}"))
}

/// The output of a tool; none where it fails, such as `ethtool -S` on an interface without such counters.
fn tool(
    notes: &mut BTreeSet<String>,
    program: &str,
    arguments: &[&str],
    without: &str,
) -> Option<String> {
    match run(&Invocation::new(program, arguments).within(TOOL_TIME_MAX)) {
        Ok(output) => (output.code == 0).then(|| output.text()),
        Err(RunError::Start { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            let package = if program == "ethtool" {
                "ethtool"
            } else {
                "iproute2"
            };
            notes.insert(format!(
                "without {program} there are no {without}: install it with `apt-get install {package}`"
            ));
            None
        }
        Err(error) => {
            notes.insert(format!("{without} are missing: {error}"));
            None
        }
    }
}

/// Whether a report of the kernel is shown: without addresses always, else if its port here is one of the appliance.
pub fn concerns(source: &Source, own_ports: &BTreeSet<String>) -> bool {
    source.layer != Layer::Kernel
        || source.local.is_none()
        || port_of(source).is_some_and(|port| own_ports.contains(&port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_below_a_root_are_read() {
        let root = tempfile::tempdir().expect("a directory");
        let statistics = root.path().join(INTERFACES).join("ens1f0/statistics");
        fs::create_dir_all(&statistics).expect("a directory");
        fs::create_dir_all(root.path().join(INTERFACES).join("lo")).expect("a directory");
        fs::write(statistics.join("rx_missed_errors"), "41\n").expect("a file");
        assert_eq!(interfaces(root.path()), ["ens1f0"]);
        assert!(has_interface(root.path(), "lo"));
        assert!(!has_interface(root.path(), "../class"));
        let selection = Selection {
            interfaces: interfaces(root.path()),
            all_sockets: false,
        };
        let before = read(root.path(), &selection);
        fs::write(statistics.join("rx_missed_errors"), "44\n").expect("a file");
        let after = read(root.path(), &selection);
        let grown = network_drops::grown(&before.counters, &after.counters);
        let missed = grown
            .iter()
            .find(|loss| loss.source.reason == "rx_missed_errors");
        assert_eq!(
            missed.map(|loss| (loss.count, loss.total)),
            Some((3, Some(44)))
        );
    }

    #[test]
    fn reports_about_ports_of_other_processes_are_left_out() {
        let ports = BTreeSet::from([":3260".to_owned()]);
        let report = Source::new(Layer::Kernel, "TCP", "retransmitted");
        let ours = report.clone().between("[fd00::1]:3260", "[fd00::2]:900");
        let foreign = report.clone().between("10.0.0.1:443", "10.0.0.2:900");
        assert!(concerns(&ours, &ports));
        assert!(!concerns(&foreign, &ports));
        assert!(concerns(&report, &ports));
    }
}
