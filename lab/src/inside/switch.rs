//! The switches of a lab: a bridge for each network, and the cables from it.

use std::io;

use appliance::Appliance;
use units::NetworkName;

use super::{ip, must};
use crate::fabric::{Port, mac};
use crate::wire::Impairment;

/// The node of a cable: part of the names and hardware addresses at both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plug {
    /// A letter for names, and a number for hardware addresses.
    kind: (char, u8),
    /// Which of its kind.
    number: u32,
}

impl Plug {
    /// A head, by its number in the file.
    pub const fn head(number: u32) -> Self {
        Self {
            kind: ('h', 1),
            number,
        }
    }

    /// The BMC of a head.
    pub const fn bmc(number: u32) -> Self {
        Self {
            kind: ('b', 2),
            number,
        }
    }

    /// A power distribution unit.
    pub const fn pdu(number: u32) -> Self {
        Self {
            kind: ('p', 3),
            number,
        }
    }

    /// The client.
    pub const CLIENT: Self = Self {
        kind: ('c', 4),
        number: 0,
    };

    /// The witness.
    pub const WITNESS: Self = Self {
        kind: ('w', 5),
        number: 0,
    };

    /// Name of the end at the switch.
    fn outer(self, port: usize) -> String {
        format!("{}{}-{port}", self.kind.0, self.number)
    }
}

fn bridge(appliance: &Appliance, network: &NetworkName) -> String {
    let position = appliance.networks.keys().position(|name| name == network);
    format!("switch{}", position.unwrap_or_default())
}

/// Creates the switches.
pub fn make(appliance: &Appliance) -> io::Result<()> {
    let mut lines = vec!["link set lo up".to_owned()];
    for (name, network) in &appliance.networks {
        let (bridge, mtu) = (bridge(appliance, name), network.mtu);
        lines.push(format!(
            "link add {bridge} mtu {mtu} type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        ));
        lines.push(format!("link set {bridge} up"));
    }
    ip(&lines)
}

/// Plugs `ports` of a node into their switches. `pid` is a process of that node.
pub fn plug(appliance: &Appliance, plug: Plug, ports: &[Port], pid: i32) -> io::Result<()> {
    let mut lines = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let (outer, inner, mtu) = (plug.outer(index), &port.interface, port.mtu);
        let mac = mac(plug.kind.1, plug.number, index);
        let bridge = bridge(appliance, &port.network);
        lines.push(format!(
            "link add {outer} mtu {mtu} type veth peer name {inner} mtu {mtu} address {mac} netns {pid}"
        ));
        lines.push(format!("link set {outer} master {bridge} up"));
    }
    ip(&lines)
}

/// Removes the cables; the node's namespace may be gone already.
pub fn unplug(plug: Plug, ports: &[Port]) {
    for index in 0..ports.len() {
        // It goes by itself with the namespace at its other end, sooner or later.
        if let Err(error) = ip(&[format!("link del {}", plug.outer(index))]) {
            tracing::debug!(%error, "the cable was gone");
        }
    }
}

/// Pulls or plugs in the cables that `is_meant` selects.
pub fn set_carrier(
    plug: Plug,
    ports: &[Port],
    up: bool,
    is_meant: impl Fn(&NetworkName) -> bool,
) -> io::Result<()> {
    let word = if up { "up" } else { "down" };
    let meant = ports.iter().enumerate();
    let meant = meant.filter(|(_, port)| is_meant(&port.network));
    let lines: Vec<String> = meant
        .map(|(index, _)| format!("link set {} {word}", plug.outer(index)))
        .collect();
    ip(&lines)
}

/// Impairs the cables as `impairment` describes, or repairs them.
pub fn impair(
    plug: Plug,
    ports: &[Port],
    impairment: impl Fn(&NetworkName) -> Option<Impairment>,
) -> io::Result<()> {
    for (index, port) in ports.iter().enumerate() {
        let Some(wanted) = impairment(&port.network) else {
            continue;
        };
        let outer = plug.outer(index);
        let words = impair_arguments(&outer, wanted);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match (must("tc", &words, ""), wanted.is_none()) {
            (Ok(_), _) => {}
            // A cable that was good has nothing to remove.
            (Err(_), true) => {}
            (Err(error), false) => {
                let what =
                    "a kernel without netem (module sch_netem) cannot make a cable slow or lossy";
                return Err(io::Error::other(format!("{what}: {error}")));
            }
        }
    }
    Ok(())
}

/// Words for tc(8).
fn impair_arguments(outer: &str, wanted: Impairment) -> Vec<String> {
    let words = match wanted.is_none() {
        true => format!("qdisc del dev {outer} root"),
        false => format!(
            "qdisc replace dev {outer} root netem delay {}us loss {}%",
            wanted.delay_us, wanted.loss_percent
        ),
    };
    words.split(' ').map(str::to_owned).collect()
}

/// Sets addresses on the machine's own side and switches its interfaces on.
pub fn configure(ports: &[Port]) -> io::Result<()> {
    let mut lines = vec!["link set lo up".to_owned()];
    for port in ports {
        for (address, prefix) in &port.addresses {
            // No other node has the address: duplicate address detection would cost a second.
            let way = match address.is_ipv4() {
                true => "broadcast +",
                false => "nodad",
            };
            let interface = &port.interface;
            lines.push(format!("addr add {address}/{prefix} {way} dev {interface}"));
        }
        lines.push(format!("link set {} up", port.interface));
    }
    ip(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cable_delay_and_loss_are_set_and_cleared() {
        let words = |delay_us, loss_percent| {
            let wanted = Impairment {
                delay_us,
                loss_percent,
            };
            impair_arguments(&Plug::head(2).outer(1), wanted).join(" ")
        };
        assert_eq!(
            words(500, 2),
            "qdisc replace dev h2-1 root netem delay 500us loss 2%"
        );
        assert_eq!(words(0, 0), "qdisc del dev h2-1 root");
    }
}
