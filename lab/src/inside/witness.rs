//! The witness: a machine that runs corosync-qnetd, and knows the heads by certificates where the
//! file asks for them.

use std::collections::BTreeMap;
use std::io;

use appliance::{Appliance, Witness};

use super::boot::{Service, Services};
use crate::fabric::{Port, single_port};

/// Its one interface.
const INTERFACE: &str = "net0";
/// Shortest time between heartbeats that it accepts, in milliseconds; its own default is longer than a
/// short token.
const HEARTBEAT_MS_MIN: u32 = 100;

/// The witness in the file.
pub fn of(appliance: &Appliance) -> Option<&Witness> {
    appliance.quorum.as_ref()?.witness.as_ref()
}

/// Its interface; none where no network holds its address.
pub fn ports(appliance: &Appliance) -> Vec<Port> {
    let witness = of(appliance);
    let port = witness.and_then(|witness| single_port(appliance, witness.address, INTERFACE));
    port.into_iter().collect()
}

/// Starts its daemon.
pub fn start(services: &Services, appliance: &Appliance) -> io::Result<()> {
    let Some(witness) = of(appliance) else {
        return Ok(());
    };
    let tls = if witness.tls { "req" } else { "off" };
    let script = format!(
        "set -e; mkdir -p /run/corosync-qnetd; \
         [ {tls} = off ] || [ -e /etc/corosync/qnetd/nssdb ] || corosync-qnetd-certutil -i >/dev/null; \
         exec corosync-qnetd -f -s {tls} -p {port} -S heartbeat_interval_min={HEARTBEAT_MS_MIN}",
        port = witness.port,
    );
    services.start(Service {
        name: "qnetd".to_owned(),
        words: ["sh", "-c", &script].map(str::to_owned).to_vec(),
        environment: BTreeMap::new(),
        restarts: true,
    });
    Ok(())
}
