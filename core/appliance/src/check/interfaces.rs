//! The interfaces of each head: valid names of Linux interfaces, one for each network.

use std::collections::BTreeMap;

use units::NetworkName;

use super::{Checker, Code, head_key};

/// Longest name of an interface, in bytes (`IFNAMSIZ` - 1).
const INTERFACE_BYTES_MAX: usize = 15;

pub(super) fn check(checker: &mut Checker<'_>) {
    for (name, head) in &checker.appliance.heads {
        let mut first: BTreeMap<&str, &NetworkName> = BTreeMap::new();
        for (network, link) in &head.links {
            let key = head_key(name).field("links").field(network);
            let interface = link.interface.as_str();
            if !is_interface(interface) {
                checker.find(
                    Code::InterfaceName,
                    &key.field("interface"),
                    format!("{interface:?} is no name of an interface"),
                    "write it as `ip link` prints it: at most 15 characters, without blanks and /",
                );
            }
            if let Some(other) = first.insert(interface, network) {
                checker.find(
                    Code::InterfaceShared,
                    &key.field("interface"),
                    format!("{other} and {network} are both on {interface} of {name}"),
                    "give each network an interface and a cable of its own",
                );
            }
        }
    }
}

fn is_interface(name: &str) -> bool {
    (1..=INTERFACE_BYTES_MAX).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace())
}
