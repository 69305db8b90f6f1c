//! The witness: a node that runs corosync-qnetd, and authenticates the heads by certificates if the file requires it;
//! or bulkhead-witness, which stores the record of legs; or both.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use appliance::{Appliance, LegWitness, Witness};

use super::boot::{Service, Services};
use crate::fabric::{Port, single_port};

/// Shortest time between heartbeats that it accepts, in milliseconds; its own default is longer than a
/// short token.
const HEARTBEAT_MS_MIN: u32 = 100;

/// The file with the options of `bulkhead-witness`.
const OPTIONS_PATH: &str = "/etc/bulkhead/witness.conf";

/// The one with a vote.
fn of(appliance: &Appliance) -> Option<&Witness> {
    appliance.quorum.as_ref()?.witness.as_ref()
}

/// Where the witness of the file is; nowhere where there is none.
pub fn addresses(appliance: &Appliance) -> BTreeSet<IpAddr> {
    let voting = of(appliance).map(|witness| witness.address);
    let remembering = appliance.witness.iter();
    let remembering = remembering.flat_map(|witness| &witness.addresses);
    voting.into_iter().chain(remembering.copied()).collect()
}

/// Its interfaces, one in each network that holds an address of it.
pub fn ports(appliance: &Appliance) -> Vec<Port> {
    let mut ports: Vec<Port> = Vec::new();
    for address in addresses(appliance) {
        let interface = format!("net{}", ports.len());
        let Some(port) = single_port(appliance, address, &interface) else {
            continue;
        };
        match ports.iter_mut().find(|one| one.network == port.network) {
            Some(same) => same.addresses.extend(port.addresses),
            None => ports.push(port),
        }
    }
    ports
}

/// Starts its daemons. The options of `bulkhead-witness` are in its file, as on a real host.
///
/// # Errors
///
/// The file cannot be written.
pub fn start(services: &Services, appliance: &Appliance) -> io::Result<()> {
    if let Some(witness) = &appliance.witness {
        let path = Path::new(OPTIONS_PATH);
        if !path.exists() {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            fs::write(path, format!("OPTIONS={}\n", options(appliance, witness)))?;
        }
    }
    let voting = of(appliance).map(|witness| ("qnetd", qnetd(witness)));
    let remembering = appliance.witness.as_ref();
    let remembering = remembering.map(|_| ("bulkhead-witness", leg_witness()));
    for (name, script) in voting.into_iter().chain(remembering) {
        services.start(Service {
            name: name.to_owned(),
            words: ["sh", "-c", &script].map(str::to_owned).to_vec(),
            environment: BTreeMap::new(),
            restarts: true,
        });
    }
    Ok(())
}

fn qnetd(witness: &Witness) -> String {
    let tls = if witness.tls { "req" } else { "off" };
    format!(
        "set -e; mkdir -p /run/corosync-qnetd; \
         [ {tls} = off ] || [ -e /etc/corosync/qnetd/nssdb ] || corosync-qnetd-certutil -i >/dev/null; \
         exec corosync-qnetd -f -s {tls} -p {port} -S heartbeat_interval_min={HEARTBEAT_MS_MIN}",
        port = witness.port,
    )
}

/// Reads the options at each start, as its unit does.
fn leg_witness() -> String {
    format!(
        "mkdir -p -m 700 /run/bulkhead-witness; exec bulkhead-witness serve $(sed -n 's/^OPTIONS=//p' {OPTIONS_PATH})"
    )
}

fn options(appliance: &Appliance, witness: &LegWitness) -> String {
    let listen = witness.addresses.iter();
    let listen = listen.map(|one| format!(" --listen {}", SocketAddr::new(*one, witness.port)));
    let heads = appliance.heads.values();
    let heads = heads.filter_map(|head| {
        let fingerprint = head.fingerprint.as_ref()?;
        Some(format!(" --head {}={fingerprint}", head.number))
    });
    let words: String = listen.chain(heads).collect();
    format!("--number {}{words}", witness.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Appliance {
        let text = include_str!("../../../examples/legs-two-heads-witness.toml");
        appliance::parse(text).expect("well formed").appliance
    }

    #[test]
    fn one_host_votes_and_stores_records_at_all_addresses() {
        let mut appliance = example();
        assert_eq!(ports(&appliance).len(), 1);
        let more: [IpAddr; 2] =
            ["10.77.3.31", "10.77.9.32"].map(|one| one.parse().expect("an address"));
        let witness = appliance.witness.as_mut().expect("there");
        witness.addresses.extend(more);
        let ports = ports(&appliance);
        let counts: Vec<(&str, usize)> = ports
            .iter()
            .map(|port| (port.interface.as_str(), port.addresses.len()))
            .collect();
        assert_eq!(counts, [("net0", 1), ("net1", 2)]);
        let witness = appliance.witness.as_ref().expect("there");
        let options = options(&appliance, witness);
        let part = "--number 3 --listen 10.77.9.31:7071 --listen 10.77.3.31:7071";
        assert!(options.starts_with(part), "{options}");
        assert!(options.contains(" --head 2=2a2a"), "{options}");
    }
}
