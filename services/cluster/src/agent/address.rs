//! `ocf:bulkhead:address`: one address of a pool on one interface. It does only the work that a takeover depends on: it
//! sets the address, and starts the tools that announce it without waiting for them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Exit, OCF_ERR_ARGS, OCF_ERR_CONFIGURED, OCF_ERR_UNIMPLEMENTED};
use crate::host::Host;
use crate::netlink::Change;
use crate::process::{Invocation, Output};

/// The agent's `meta-data`.
const META_DATA: &str = r#"<?xml version="1.0"?>
<!DOCTYPE resource-agent SYSTEM "ra-api-1.dtd">
<resource-agent name="address" version="1.0">
  <version>1.1</version>
  <longdesc lang="en">
Gives this head an address of a pool, IPv4 or IPv6, and announces it to the neighbours: gratuitous ARP, or
unsolicited neighbour advertisements. IPv6 addresses are not tested for duplicates, because the cluster makes sure that
no other head has them.
  </longdesc>
  <shortdesc lang="en">An address of a Bulkhead pool</shortdesc>
  <parameters>
    <parameter name="address" unique="1" required="1">
      <longdesc lang="en">The address.</longdesc>
      <shortdesc lang="en">Address</shortdesc>
      <content type="string"/>
    </parameter>
    <parameter name="prefix" unique="0" required="1">
      <longdesc lang="en">Length of the network's prefix, in bits.</longdesc>
      <shortdesc lang="en">Prefix length</shortdesc>
      <content type="integer"/>
    </parameter>
    <parameter name="interface" unique="0" required="0">
      <longdesc lang="en">The interface. Without it, one that has another address of the network.</longdesc>
      <shortdesc lang="en">Interface</shortdesc>
      <content type="string"/>
    </parameter>
  </parameters>
  <actions>
    <action name="start" timeout="20s"/>
    <action name="stop" timeout="20s"/>
    <action name="monitor" timeout="20s" interval="10s" depth="0"/>
    <action name="meta-data" timeout="5s"/>
    <action name="validate-all" timeout="5s"/>
  </actions>
</resource-agent>
"#;

/// Exit code of OCF 1.1: cleanly stopped.
const OCF_NOT_RUNNING: u8 = 7;
/// Tools of the package resource-agents that announce an address.
const SEND_ARP: &str = "/usr/libexec/heartbeat/send_arp";
const SEND_UA: &str = "/usr/libexec/heartbeat/send_ua";
/// How often an address is announced, and the interval in milliseconds: the first goes out at once.
const ANNOUNCEMENTS: &str = "5";
const ANNOUNCEMENT_INTERVAL_MS: &str = "200";

/// One address of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The address.
    pub address: IpAddr,
    /// Length of its network's prefix, in bits.
    pub prefix: u8,
    /// The interface; without it, one that has another address of the network.
    pub interface: Option<String>,
}

/// Runs the agent with its one argument, on `machine`, with parameters from `environment`.
pub fn run_address(
    action: &str,
    machine: &dyn Host,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Exit {
    if action == "meta-data" {
        return Exit::fine(META_DATA);
    }
    let parameters = Address::from_environment(environment);
    if action == "stop" {
        // Pacemaker has no parameters of a deleted resource that it found by a probe. A stop that fails powers this
        // head off.
        let named = || named_address(&environment("OCF_RESOURCE_INSTANCE")?);
        let address = parameters.as_ref().map(|one| one.address);
        return match (address.ok().or_else(named), parameters) {
            (Some(address), _) => exit(remove(address, machine)),
            (None, Err(reason)) => Exit::failed(OCF_ERR_CONFIGURED, reason),
            (None, Ok(_)) => unreachable!("parameters have an address"),
        };
    }
    let address = match parameters {
        Ok(address) => address,
        Err(reason) => return Exit::failed(OCF_ERR_CONFIGURED, reason),
    };
    let done = match action {
        "start" => address.start(machine),
        "monitor" | "status" => match address.is_set(machine) {
            Ok(false) => {
                return Exit {
                    code: OCF_NOT_RUNNING,
                    output: String::new(),
                    reason: None,
                };
            }
            other => other.map(drop),
        },
        "validate-all" => Ok(()),
        other => {
            let reason = format!("{other:?} is no action of this agent");
            return Exit::failed(OCF_ERR_UNIMPLEMENTED, reason);
        }
    };
    exit(done)
}

fn exit(done: Result<(), AddressError>) -> Exit {
    match done {
        Ok(()) => Exit::fine(""),
        Err(AddressError::NoInterface(reason)) => Exit::failed(OCF_ERR_ARGS, reason),
        Err(AddressError::Failed(reason)) => Exit::failed(1, reason),
    }
}

/// The address in a resource's name, which is built by [`appliance::render::address_id`].
fn named_address(resource: &str) -> Option<IpAddr> {
    let name = resource.strip_prefix("address-")?;
    name.parse()
        .or_else(|_| name.replace('-', ":").parse())
        .ok()
}

/// Removes `address` from this head, on any interface and with any prefix.
fn remove(address: IpAddr, machine: &dyn Host) -> Result<(), AddressError> {
    for Held { interface, own } in holders(machine, &address.to_string())? {
        let prefix = own.split_once('/').and_then(|(_, bits)| bits.parse().ok());
        let taken = prefix
            .and_then(|prefix| machine.change_address(Change::Remove, address, prefix, &interface));
        if let Some(Ok(true)) = taken {
            continue;
        }
        let output = ip(machine, &["addr", "del", &own, "dev", &interface])?;
        let is_gone = ["Cannot assign", "Cannot find device", "ddress not found"];
        if output.code != 0 && !says(&output, &is_gone) {
            return Err(refused(&output));
        }
    }
    Ok(())
}

/// Why the operation failed.
#[derive(Debug)]
pub(super) enum AddressError {
    /// This head has no such network; another may.
    NoInterface(String),
    /// The operation was tried.
    Failed(String),
}

impl AddressError {
    /// The reason as text.
    pub(super) fn into_reason(self) -> String {
        match self {
            Self::NoInterface(reason) | Self::Failed(reason) => reason,
        }
    }
}

impl Address {
    fn from_environment(environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let parameter = |name: &str| environment(&format!("OCF_RESKEY_{name}"));
        let needed = |name| parameter(name).ok_or(format!("the parameter {name} is missing"));
        let (address, prefix) = (needed("address")?, needed("prefix")?);
        let address: IpAddr = address
            .parse()
            .map_err(|_| format!("{address} is no address"))?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.parse().ok().filter(|bits: &u8| *bits <= bits_max);
        Ok(Self {
            address,
            prefix: prefix.ok_or(format!("the prefix must be a number up to {bits_max}"))?,
            interface: parameter("interface").filter(|name| !name.is_empty()),
        })
    }

    /// With its prefix, in the form of ip(8).
    fn with_prefix(&self) -> String {
        format!("{}/{}", self.address, self.prefix)
    }

    /// Sets and announces it.
    pub(super) fn start(&self, machine: &dyn Host) -> Result<(), AddressError> {
        let interface = match &self.interface {
            Some(interface) => interface.clone(),
            None => {
                // The kernel ignores the bits after the prefix.
                let found = holders(machine, &self.with_prefix())?;
                let why = || format!("no interface has an address in {}", self.with_prefix());
                let first = found.into_iter().next();
                first
                    .ok_or_else(|| AddressError::NoInterface(why()))?
                    .interface
            }
        };
        match machine.change_address(Change::Set, self.address, self.prefix, &interface) {
            Some(done) => {
                done.map_err(|error| self.unchanged(&interface, &error))?;
            }
            None => self.add_by_ip(machine, &interface)?,
        }
        self.announce(machine, &interface);
        Ok(())
    }

    fn add_by_ip(&self, machine: &dyn Host, interface: &str) -> Result<(), AddressError> {
        let address = self.with_prefix();
        let mut words = vec!["addr", "add", &address, "dev", interface];
        words.extend(match self.address.is_ipv4() {
            true => ["brd", "+"].as_slice(),
            false => &["nodad"],
        });
        let output = ip(machine, &words)?;
        if output.code == 0 || says(&output, &["File exists", "already assigned"]) {
            return Ok(());
        }
        match says(&output, &["Cannot find device"]) {
            true => Err(AddressError::NoInterface(output.complaint())),
            false => Err(refused(&output)),
        }
    }

    fn unchanged(&self, interface: &str, error: &std::io::Error) -> AddressError {
        let reason = format!("{} on {interface}: {error}", self.with_prefix());
        match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::NODEV.raw_os_error() => {
                AddressError::NoInterface(reason)
            }
            _ => AddressError::Failed(reason),
        }
    }

    /// Announces the address to the neighbours, in the background. Without this, clients find the address later.
    fn announce(&self, machine: &dyn Host, interface: &str) {
        let (address, prefix) = (self.address.to_string(), self.prefix.to_string());
        let pid_file = format!("/run/bulkhead-announce-{}", address.replace(':', "-"));
        let (program, words) = match self.address.is_ipv4() {
            true => (
                SEND_ARP,
                vec![
                    "-i",
                    ANNOUNCEMENT_INTERVAL_MS,
                    "-r",
                    ANNOUNCEMENTS,
                    "-p",
                    &pid_file,
                    interface,
                    &address,
                    "auto",
                    "unused",
                    "unused",
                ],
            ),
            false => (
                SEND_UA,
                vec![
                    "-i",
                    ANNOUNCEMENT_INTERVAL_MS,
                    "-c",
                    ANNOUNCEMENTS,
                    &address,
                    &prefix,
                    interface,
                ],
            ),
        };
        // Pacemaker would wait for every process that holds its pipes.
        if let Err(error) = machine.leave(&Invocation::new(program, &words)) {
            tracing::warn!(%address, %error, "the address is not announced");
        }
    }

    /// Removes the address. Clients wait, so the kernel is first requested to remove it from the expected interface;
    /// only if it is not there, all interfaces are searched.
    pub(super) fn stop(&self, machine: &dyn Host) -> Result<(), AddressError> {
        let interface = self.interface.as_deref();
        let taken = interface.and_then(|interface| {
            machine.change_address(Change::Remove, self.address, self.prefix, interface)
        });
        match taken {
            Some(Ok(true)) => Ok(()),
            _ => remove(self.address, machine),
        }
    }

    /// Whether this head has it, on its interface.
    fn is_set(&self, machine: &dyn Host) -> Result<bool, AddressError> {
        let held = holders(machine, &self.address.to_string())?;
        let Some(other) = held.first() else {
            return Ok(false);
        };
        let is_here = |one: &Held| {
            self.interface
                .as_ref()
                .is_none_or(|wanted| one.interface == *wanted)
        };
        match held.iter().any(is_here) {
            true => Ok(true),
            // Neither running nor stopped: it is stopped first.
            false => Err(AddressError::Failed(format!(
                "{} is on {}",
                self.address, other.interface
            ))),
        }
    }
}

/// An address on an interface.
struct Held {
    interface: String,
    /// With its prefix, in the form of ip(8).
    own: String,
}

/// The addresses in `range` that this head has.
fn holders(machine: &dyn Host, range: &str) -> Result<Vec<Held>, AddressError> {
    let output = ip(machine, &["-o", "addr", "show", "to", range])?;
    if output.code != 0 {
        return Err(refused(&output));
    }
    // `2: ens1f0    inet 10.77.1.100/24 …`
    let held = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (interface, own) = (words.next()?, words.nth(1)?);
        Some(Held {
            interface: interface.split('@').next()?.to_owned(),
            own: own.to_owned(),
        })
    };
    Ok(output.text().lines().filter_map(held).collect())
}

fn ip(machine: &dyn Host, words: &[&str]) -> Result<Output, AddressError> {
    let output = machine.run(&Invocation::new("ip", words));
    output.map_err(|error| AddressError::Failed(error.to_string()))
}

fn says(output: &Output, parts: &[&str]) -> bool {
    let complaint = output.complaint();
    parts.iter().any(|part| complaint.contains(part))
}

fn refused(output: &Output) -> AddressError {
    AddressError::Failed(format!("ip: {}", output.complaint()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::process::RunError;

    /// A head with one interface, and a log of its commands.
    #[derive(Default)]
    struct Head {
        addresses: Mutex<Vec<String>>,
        log: Mutex<Vec<String>>,
    }

    impl Host for Head {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            let words: Vec<&str> = invocation.arguments.iter().map(String::as_str).collect();
            let line = format!("{} {}", invocation.program, words.join(" "));
            self.log.lock().expect("no panic").push(line);
            let mut addresses = self.addresses.lock().expect("no panic");
            let fails = |complaint: &str| Output {
                code: 2,
                stderr: complaint.as_bytes().to_vec(),
                ..Output::default()
            };
            Ok(match words.as_slice() {
                ["addr", "add", address, ..] => {
                    if addresses.iter().any(|one| one == address) {
                        fails("RTNETLINK answers: File exists")
                    } else {
                        addresses.push((*address).to_owned());
                        Output::default()
                    }
                }
                ["addr", "del", address, ..] => {
                    if addresses.iter().any(|one| one == address) {
                        addresses.retain(|one| one != address);
                        Output::default()
                    } else {
                        fails("RTNETLINK answers: Cannot assign requested address")
                    }
                }
                ["-o", "addr", "show", "to", range] => {
                    let matches = |one: &&String| match range.contains('/') {
                        true => one.starts_with("10.77.1."),
                        false => one.split('/').next() == Some(range),
                    };
                    let lines = addresses.iter().filter(matches);
                    let lines = lines.map(|one| format!("2: ens1f0    inet {one} scope global\n"));
                    Output {
                        stdout: lines.collect::<String>().into_bytes(),
                        ..Output::default()
                    }
                }
                _ => Output::default(),
            })
        }
    }

    fn code(head: &Head, action: &str, address: &str, interface: &str) -> u8 {
        let environment = |name: &str| match name {
            "OCF_RESKEY_address" => Some(address.to_owned()),
            "OCF_RESKEY_prefix" => Some("24".to_owned()),
            "OCF_RESKEY_interface" => Some(interface.to_owned()),
            _ => None,
        };
        run_address(action, head, &environment).code
    }

    #[test]
    fn address_start_and_stop_are_idempotent() {
        for interface in ["ens1f0", ""] {
            let head = Head::default();
            head.addresses
                .lock()
                .expect("no panic")
                .push("10.77.1.11/24".into());
            for (action, expected) in [
                ("monitor", OCF_NOT_RUNNING),
                ("stop", 0),
                ("start", 0),
                ("start", 0),
                ("monitor", 0),
                ("stop", 0),
                ("stop", 0),
                ("monitor", OCF_NOT_RUNNING),
            ] {
                let found = code(&head, action, "10.77.1.100", interface);
                assert_eq!(found, expected, "{action} {interface}");
            }
            assert_eq!(*head.addresses.lock().expect("no panic"), ["10.77.1.11/24"]);
        }
    }

    #[test]
    fn each_family_is_announced_without_blocking() {
        for (address, program, added) in [
            ("10.77.1.100", SEND_ARP, "brd +"),
            ("fd77::100", SEND_UA, "nodad"),
        ] {
            let head = Head::default();
            assert_eq!(code(&head, "start", address, "ens1f0"), 0);
            let log = head.log.lock().expect("no panic");
            assert_eq!(log.len(), 2, "{log:?}");
            assert!(log[0].ends_with(added), "{log:?}");
            assert!(log[1].contains(program), "{log:?}");
            // A shell that starts it in the background, where there is no shorter way.
            assert!(log[1].starts_with("sh -c "), "{log:?}");
        }
    }

    /// Pacemaker has deleted the resource after it found it by a probe: it has no parameters. A failed stop powers the
    /// head off.
    #[test]
    fn address_without_parameters_is_stopped_by_name() {
        for (resource, held) in [
            ("address-10.77.1.100", "10.77.1.100/16"),
            ("address-fd77--100", "fd77::100/128"),
        ] {
            let head = Head::default();
            *head.addresses.lock().expect("no panic") = vec![held.into(), "10.77.1.11/24".into()];
            let environment =
                |name: &str| (name == "OCF_RESOURCE_INSTANCE").then(|| resource.to_owned());
            for _ in 0..2 {
                assert_eq!(
                    run_address("stop", &head, &environment).code,
                    0,
                    "{resource}"
                );
                assert_eq!(*head.addresses.lock().expect("no panic"), ["10.77.1.11/24"]);
            }
            let started = run_address("start", &head, &environment).code;
            assert_eq!(started, OCF_ERR_CONFIGURED);
        }
        let nameless = run_address("stop", &Head::default(), &|_| None);
        assert_eq!(nameless.code, OCF_ERR_CONFIGURED);
    }

    /// Another head is about to get it.
    #[test]
    fn address_with_other_prefix_or_interface_is_failed() {
        let head = Head::default();
        head.addresses
            .lock()
            .expect("no panic")
            .push("10.77.1.100/16".into());
        assert_eq!(code(&head, "monitor", "10.77.1.100", "eth9"), 1);
        assert_eq!(code(&head, "monitor", "10.77.1.100", "ens1f0"), 0);
        assert_eq!(code(&head, "stop", "10.77.1.100", "eth9"), 0);
        assert_eq!(
            code(&head, "monitor", "10.77.1.100", "eth9"),
            OCF_NOT_RUNNING
        );
    }

    #[test]
    fn head_without_the_network_cannot_run_the_address() {
        assert_eq!(
            code(&Head::default(), "start", "10.77.1.100", ""),
            OCF_ERR_ARGS
        );
    }

    #[test]
    fn invalid_parameters_are_refused() {
        let head = Head::default();
        assert_eq!(code(&head, "start", "10.77.1", "x"), OCF_ERR_CONFIGURED);
        assert_eq!(
            code(&head, "dance", "10.77.1.1", "x"),
            OCF_ERR_UNIMPLEMENTED
        );
        assert_eq!(run_address("meta-data", &head, &|_| None).output, META_DATA);
        assert!(head.log.lock().expect("no panic").is_empty());
    }
}
