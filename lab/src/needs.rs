//! Requirements of a lab on its host. Missing ones are reported by name, before the start.

use std::path::Path;

use appliance::facts::programs_required;
use appliance::{Appliance, Bmc, Fencing};
use cluster::process::{Invocation, run};
use units::HeadName;

use crate::directory::PDU_AGENT;
use crate::inside::is_possible;

/// Programs that every lab uses, with Debian's packages.
const REQUIRED_BINARIES: &[(&str, &str)] = &[
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("chrt", "util-linux"),
    ("ip", "iproute2"),
    ("cp", "coreutils"),
    ("chown", "coreutils"),
    ("crm_mon", "pacemaker-cli-utils"),
    ("send_arp", "resource-agents"),
];
/// The binary of the witness for the record of legs.
const WITNESS_BINARY: &str = "bulkhead-witness";
/// The way from head to head.
const SSH: &[(&str, &str)] = &[
    (crate::inside::ssh::PROGRAM, "dropbear-bin"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
];
/// Where programs are, besides the search path: much of it is for root only.
const BINARY_DIRECTORIES: &[&str] = &[
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/usr/libexec/heartbeat",
];

/// Tries all operations on namespaces that a lab uses; the last output is the name of the failed
/// one.
const TRIAL: &str = "fail() { echo \"$1\"; exit 9; }; \
    mount -t proc proc /proc || fail 'mounting /proc in a new process namespace'; \
    mount -t sysfs sysfs /sys || fail 'mounting /sys in a new network namespace'; \
    mount -t tmpfs tmpfs /run || fail 'mounting a file system in memory'; \
    mkdir /run/pts && mount -t devpts devpts /run/pts || fail 'mounting terminals'; \
    mount --bind /run /mnt || fail 'mounting a folder at another place'; \
    hostname lab-trial || fail 'a host name of its own'; \
    ip link add trial0 type bridge || fail 'network bridges (kernel module bridge)'; \
    ip link add trial1 type veth peer name trial2 || fail 'network cables (kernel module veth)'; \
    ip link set trial1 master trial0 up || fail 'a cable in a bridge'";

/// The missing requirements of a lab of `appliance` on this host. `needs_ssh`: heads must reach
/// each other by ssh.
pub fn missing(appliance: &Appliance, needs_ssh: bool) -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root: namespaces and networks are made by root only".to_owned());
    }
    let mut programs: Vec<(String, String)> = REQUIRED_BINARIES
        .iter()
        .map(|(program, package)| ((*program).to_owned(), (*package).to_owned()))
        .collect();
    let required = programs_required(appliance).into_iter();
    let required = required.filter(|program| program != "bulkhead");
    programs.extend(required.map(|program| (program.clone(), program)));
    programs.extend(devices(appliance));
    if appliance.witness.is_some() && !is_sibling_binary(WITNESS_BINARY) {
        programs.push((WITNESS_BINARY.to_owned(), WITNESS_BINARY.to_owned()));
    }
    if needs_ssh {
        let both = SSH.iter();
        programs.extend(both.map(|(program, package)| ((*program).into(), (*package).into())));
    }
    for (program, package) in programs {
        let note = match program == package {
            true => format!("the program {program}"),
            false => format!("the program {program} (package {package})"),
        };
        if !has(&program) && !missing.contains(&note) {
            missing.push(note);
        }
    }
    if missing.is_empty() {
        missing.extend(namespaces());
    }
    missing
}

/// Whether a binary is in the directory of this one.
fn is_sibling_binary(program: &str) -> bool {
    let own = std::env::current_exe();
    own.is_ok_and(|own| own.with_file_name(program).is_file())
}

fn has(program: &str) -> bool {
    let mut places = BINARY_DIRECTORIES.iter();
    places.any(|place| Path::new(place).join(program).exists())
}

/// Whether heads can reach each other by ssh here.
pub fn has_ssh() -> bool {
    SSH.iter().all(|(program, _)| has(program))
}

/// Requirements of BMCs, power distribution units and the witness.
fn devices(appliance: &Appliance) -> Vec<(String, String)> {
    let mut programs = Vec::new();
    let mut add = |program: &str, package: &str| {
        programs.push((program.to_owned(), package.to_owned()));
    };
    let mut fencing = appliance
        .heads
        .values()
        .filter_map(|head| head.fencing.as_ref());
    if fencing.any(|fencing| fencing.bmc.is_some()) {
        add("ipmi_sim", "openipmi");
    }
    if !appliance.pdus.is_empty() {
        add("snmpd", "snmpd");
        add("snmpset", "snmp");
    }
    if appliance.has_voting_witness() {
        add("corosync-qnetd", "corosync-qnetd");
        add("certutil", "libnss3-tools");
    }
    programs
}

/// The first thing about namespaces that does not work.
fn namespaces() -> Option<String> {
    let spaces = ["--net", "--mount", "--pid", "--uts", "--ipc"];
    let command = ["--fork", "--kill-child=KILL", "--", "sh", "-c", TRIAL];
    let words: Vec<&str> = spaces.into_iter().chain(command).collect();
    match run(&Invocation::new("unshare", &words)) {
        Ok(output) if output.code == 0 => None,
        Ok(output) if output.code == 9 => {
            let text = output.text();
            let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Some(format!("{} ({complaint})", text.trim()))
        }
        Ok(output) => Some(format!("namespaces ({})", output.complaint())),
        Err(error) => Some(format!("namespaces ({error})")),
    }
}

/// Parts of the file that no lab can provide, after the parts that are not imitated were removed.
pub fn impossible(appliance: &Appliance) -> Vec<String> {
    let mut found = Vec::new();
    let reserved = [crate::inside::CLIENT, crate::inside::WITNESS];
    for (name, head) in &appliance.heads {
        if reserved.contains(&name.as_str()) {
            found.push(format!("a head cannot be called {name} in a lab"));
        }
        let is_fenced = head.fencing.as_ref().is_some_and(Fencing::has_device);
        if appliance.heads.len() > 1 && !is_fenced {
            found.push(format!(
                "{name} has neither a BMC nor outlets of a unit that {PDU_AGENT} supports, and the lab imitates no other fence device"
            ));
        }
    }
    for (name, bmc) in bmcs(appliance) {
        if !bmc.user.chars().all(|c| c.is_ascii_graphic() && c != '"') {
            found.push(format!(
                "the user of the BMC of {name} has a space or a quote in its name"
            ));
        }
    }
    let mut addresses = Vec::new();
    for (name, head) in &appliance.heads {
        let bmc = head
            .fencing
            .as_ref()
            .and_then(|fencing| fencing.bmc.as_ref());
        addresses.extend(bmc.map(|bmc| (format!("the BMC of {name}"), bmc.address)));
    }
    let pdus = appliance.pdus.iter();
    addresses.extend(pdus.map(|(name, pdu)| (format!("the unit {name}"), pdu.address)));
    let witness = crate::inside::witness::addresses(appliance).into_iter();
    addresses.extend(witness.map(|address| ("the witness".to_owned(), address)));
    for (what, address) in addresses {
        if appliance.network_of(address).is_none() {
            found.push(format!(
                "{what} is at {address}, which is in no network of the file"
            ));
        }
    }
    let shared = appliance.pools.values().flat_map(|pool| &pool.disks);
    let own = appliance
        .heads
        .values()
        .flat_map(|head| head.disks.values());
    let disks = shared.chain(own.map(|disk| &disk.path));
    for disk in disks.filter(|disk| !is_possible(disk)) {
        found.push(crate::LabError::Place(disk.clone()).to_string());
    }
    found
}

/// All BMCs, by head.
fn bmcs(appliance: &Appliance) -> impl Iterator<Item = (&HeadName, &Bmc)> {
    let heads = appliance.heads.iter();
    heads.filter_map(|(name, head)| Some((name, head.fencing.as_ref()?.bmc.as_ref()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_run_in_lab_except_other_fence_devices() {
        let of = |text: &str| {
            let appliance = appliance::parse(text).expect("well formed").appliance;
            impossible(&crate::directory::imitated(appliance).0)
        };
        assert_eq!(of(include_str!("../../examples/pair.toml")), [""; 0]);
        assert_eq!(of(include_str!("../../examples/witness.toml")), [""; 0]);
        assert_eq!(of(include_str!("../../examples/virtual.toml")), [""; 0]);
        let legs = include_str!("../../examples/legs-two-heads-witness.toml");
        assert_eq!(of(legs), [""; 0]);
        let moved = legs.replace(
            "addresses = [\"10.77.9.31\"]",
            "addresses = [\"10.99.9.31\"]",
        );
        assert!(of(&moved)[0].contains("the witness is at 10.99.9.31"));
        let moved = legs.replace("/dev/disk/by-id/nvme-eui.0025385200000002", "/usr/disk");
        assert!(of(&moved)[0].contains("/usr/disk"));
        let others = include_str!("../../examples/virtual.toml").replace(PDU_AGENT, "fence_other");
        assert!(
            of(&others)[0].contains("imitates no other fence device"),
            "{:?}",
            of(&others)
        );
        let quoted = include_str!("../../examples/pair.toml").replace("\"fence\"", "'f\"'");
        assert!(of(&quoted)[0].contains("quote"), "{:?}", of(&quoted));
        let moved = include_str!("../../examples/pair.toml").replace("10.77.9.21", "10.99.9.21");
        assert!(of(&moved)[0].contains("10.99.9.21"), "{:?}", of(&moved));
    }
}
