//! A power distribution unit: stock `snmpd` in a network namespace of its own, which delegates the subtree of switched
//! outlets to [`respond`]. It is of the type that `fence_apc_snmp` calls "APC rPDU" (PowerNet-MIB, rPDUOutletControl and
//! rPDUOutletStatus).

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use appliance::{Appliance, Pdu};

use super::{COMMAND, root, step, switch, unit};
use crate::directory::{LabDirectory, Setup};
use crate::fabric::{Port, outlets, single_port};
use crate::wire::{Order, send_order};

/// Its one interface.
const INTERFACE: &str = "pdu0";
/// The port of SNMP (RFC 3430).
const PORT: u16 = 161;
/// The community of the agent if the file names none.
const COMMUNITY: &str = "private";
/// `rPDU`, the type that the unit reports (sysObjectID).
const KIND: &str = ".1.3.6.1.4.1.318.1.3.4.5";
/// `rPDU`: the delegated subtree.
const TREE: &str = ".1.3.6.1.4.1.318.1.1.12.3";
/// `rPDUOutletControlOutletCommand`, without the outlet's number.
const CONTROL: &str = ".1.3.6.1.4.1.318.1.1.12.3.3.1.1.4";
/// `rPDUOutletStatusOutletName`.
const NAME: &str = ".1.3.6.1.4.1.318.1.1.12.3.5.1.1.2";
/// `rPDUOutletStatusOutletState`.
const STATE: &str = ".1.3.6.1.4.1.318.1.1.12.3.5.1.1.4";
/// Values of state and command.
const ON: &str = "1";
const OFF: &str = "2";

/// Its interface; none where no network holds its address.
pub fn ports(appliance: &Appliance, name: &str) -> Vec<Port> {
    let pdu = appliance.pdus.get(name);
    let port = pdu.and_then(|pdu| single_port(appliance, pdu.address, INTERFACE));
    port.into_iter().collect()
}

/// The name of its directory.
pub fn device(name: &str) -> String {
    format!("pdu-{name}")
}

/// Becomes the SNMP agent.
pub fn run(folder: &LabDirectory, name: &str) -> io::Result<ExitCode> {
    let appliance = Setup::load(folder)?.appliance()?;
    let pdu = appliance.pdus.get(name);
    let pdu = pdu.ok_or_else(|| io::Error::other("there is no such unit"))?;
    let own = folder.device(&device(name));
    let conf = own.join("snmpd.conf");
    std::fs::write(&conf, snmpd_conf(folder, name, pdu))?;
    let _told_no_more = unit::handshake()?;
    root::build_for_device()?;
    switch::configure(&ports(&appliance, name))?;
    unit::is_up()?;
    let port = pdu.port.unwrap_or(PORT);
    let listens = match pdu.address.is_ipv4() {
        true => format!("udp:{}:{port}", pdu.address),
        false => format!("udp6:[{}]:{port}", pdu.address),
    };
    let error = Command::new("snmpd")
        .args(["-f", "-C", "-Le", "-c"])
        .arg(&conf)
        // Only the values that identify it.
        .args([
            "-I",
            "system_mib,sysORTable,pass_persist,vacm_conf,vacm_vars",
            &listens,
        ])
        .env("SNMP_PERSISTENT_DIR", &own)
        .env("MIBS", "")
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .exec();
    Err(error).map_err(step("run snmpd"))
}

fn snmpd_conf(folder: &LabDirectory, name: &str, pdu: &Pdu) -> String {
    let community = pdu
        .parameters
        .get("community")
        .map_or(COMMUNITY, String::as_str);
    let (program, path) = (folder.program(), folder.path().display());
    let program = program.display();
    format!(
        "rwcommunity {community}\nrwcommunity6 {community}\nsysObjectID {KIND}\n\
         pass_persist {TREE} {program} {COMMAND} outlets {path} {name}\n"
    )
}

/// One value that the unit has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    column: &'static str,
    outlet: String,
}

impl Variable {
    fn path(&self) -> String {
        format!("{}.{}", self.column, self.outlet)
    }

    /// Compares as the protocol orders its tree: number by number.
    fn order(path: &str) -> Vec<u64> {
        let parts = path.split('.').filter(|part| !part.is_empty());
        parts.filter_map(|part| part.parse().ok()).collect()
    }
}

/// Every value of the unit, in order.
fn variables(appliance: &Appliance, name: &str) -> Vec<Variable> {
    let all = outlets(appliance);
    let unit = all.get(name);
    let own: BTreeSet<&String> = unit
        .into_iter()
        .flatten()
        .map(|(outlet, _)| outlet)
        .collect();
    let columns = [CONTROL, NAME, STATE].into_iter();
    let mut variables: Vec<Variable> = columns
        .flat_map(|column| own.iter().map(move |outlet| (column, (*outlet).clone())))
        .map(|(column, outlet)| Variable { column, outlet })
        .collect();
    variables.sort_by_key(|one| Variable::order(&one.path()));
    variables
}

/// Serves snmpd's requests until it terminates (snmpd.conf(5), pass_persist).
pub fn respond(folder: &LabDirectory, name: &str) -> io::Result<ExitCode> {
    let appliance = Setup::load(folder)?.appliance()?;
    let variables = variables(&appliance, name);
    let is_off = |outlet: &str| -> io::Result<bool> {
        let state = send_order(&folder.control(), &Order::Tell)?.map_err(io::Error::other)?;
        Ok(state
            .outlets_off
            .contains(&(name.to_owned(), outlet.to_owned())))
    };
    let set = |outlet: &str, on| {
        let (pdu, outlet) = (name.to_owned(), outlet.to_owned());
        let order = Order::Outlet { pdu, outlet, on };
        send_order(&folder.control(), &order)?.map_err(io::Error::other)
    };
    let mut lines = io::stdin().lock().lines();
    let mut next = || lines.next().transpose();
    while let Some(question) = next()? {
        let answer = match question.trim() {
            "PING" => "PONG\n".to_owned(),
            "get" => match find(&variables, &next()?.unwrap_or_default()) {
                Some(found) => shown(found, is_off(&found.outlet)?),
                None => "NONE\n".to_owned(),
            },
            "getnext" => match find_next(&variables, &next()?.unwrap_or_default()) {
                Some(found) => shown(found, is_off(&found.outlet)?),
                None => "NONE\n".to_owned(),
            },
            "set" => {
                let (path, value) = (next()?.unwrap_or_default(), next()?.unwrap_or_default());
                let found = find(&variables, &path).filter(|one| one.column == CONTROL);
                match (found, value.split_whitespace().last()) {
                    (Some(found), Some(value @ (ON | OFF))) => {
                        set(&found.outlet, value == ON)?;
                        "DONE\n".to_owned()
                    }
                    (Some(_), _) => "wrong-value\n".to_owned(),
                    (None, _) => "not-writable\n".to_owned(),
                }
            }
            _ => continue,
        };
        let mut stdout = io::stdout();
        stdout.write_all(answer.as_bytes())?;
        stdout.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn find<'a>(variables: &'a [Variable], path: &str) -> Option<&'a Variable> {
    let wanted = Variable::order(path.trim());
    variables
        .iter()
        .find(|one| Variable::order(&one.path()) == wanted)
}

fn find_next<'a>(variables: &'a [Variable], path: &str) -> Option<&'a Variable> {
    let after = Variable::order(path.trim());
    variables
        .iter()
        .find(|one| Variable::order(&one.path()) > after)
}

fn shown(variable: &Variable, is_off: bool) -> String {
    let path = variable.path();
    match variable.column {
        NAME => format!("{path}\nstring\noutlet {}\n", variable.outlet),
        _ => format!("{path}\ninteger\n{}\n", if is_off { OFF } else { ON }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_walked_in_order() {
        let text = include_str!("../../../examples/pair.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let variables = variables(&appliance, "a");
        assert_eq!(variables.len(), 6);
        let mut path = TREE.to_owned();
        let mut walked = Vec::new();
        while let Some(found) = find_next(&variables, &path) {
            path = found.path();
            walked.push(path.clone());
        }
        assert_eq!(walked.len(), 6);
        assert_eq!(walked[0], format!("{CONTROL}.1"));
        assert_eq!(walked[5], format!("{STATE}.2"));
        assert_eq!(
            find(&variables, &walked[3]).map(Variable::path),
            Some(walked[3].clone())
        );
        assert_eq!(find(&variables, &format!("{STATE}.9")), None);
    }
}
