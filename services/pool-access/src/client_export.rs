//! `bulkhead target export`: a volume, a target, its unit and the access of a client in one command, which ends with the
//! commands for the client.

use clap::Args;
use control::answer::{ServerStatus, TargetView};
use control::operations::target::{self, Who};
use control::operations::{bytes, volume};
use control::request::{TargetRequest, VolumeRequest};
use control::{Answer, Failure, FailureKind, Request};
use rendering::Printer;
use serde_json::json;
use units::{IscsiName, Network, PoolName, VolumeName};

use crate::common::Common;

/// Examples of the help.
pub const EXAMPLES: &str = "Examples:
  bulkhead target export tank/vm0 --initiator iqn.1993-08.org.debian:01:host7
  bulkhead target export tank/vm1 --size 10G --network 10.77.1.0/24

The server of the pool must be running. It prints the commands for a Linux client. What exists already stays as it is, so that the command can be repeated.";

/// A domain that is reserved for examples, for hosts without one.
const EXAMPLE_DOMAIN: &str = "org.example";
/// The year and month since when this project's names are proposed.
const SINCE: &str = "2026-01";

/// `target export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The volume; with --size it is created if it does not exist
    pub volume: VolumeName,
    /// Create the volume with this size, such as 10G
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub size: Option<u64>,
    /// Reserve no space for a new volume
    #[arg(long, requires = "size")]
    pub sparse: bool,
    /// The target; it is created if it does not exist [default: a name of this host's domain and the volume]
    #[arg(long, value_name = "IQN")]
    pub target: Option<IscsiName>,
    /// The clients.
    #[command(flatten)]
    pub clients: Clients,
}

/// The clients that are allowed.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct Clients {
    /// An initiator by its name; may be repeated
    #[arg(long, value_name = "IQN")]
    pub initiator: Vec<IscsiName>,
    /// Clients of a network such as 10.0.0.0/24; may be repeated
    #[arg(long, value_name = "CIDR")]
    pub network: Vec<Network>,
    /// Any client that reaches a portal
    #[arg(long)]
    pub everyone: bool,
}

/// Performs `bulkhead target export`.
pub fn run(args: ExportArgs, common: &Common, out: Printer) -> Result<(), Failure> {
    let ExportArgs {
        volume,
        size,
        sparse,
        target,
        clients,
    } = args;
    let is_proposed = target.is_none();
    let name = match target {
        Some(name) => name,
        None => proposed(&units::host_name(), &volume)?,
    };
    let pool = volume.pool();
    let ask = |request| crate::ask_server(common, &pool, request);
    if is_proposed {
        refuse_another_volume(ask(show(&name)), &name, &volume)?;
    }
    for request in steps(&volume, size, sparse, &name, clients) {
        ask(request)?;
    }
    let Answer::Target(view) = ask(show(&name))? else {
        return Err(unexpected(&pool));
    };
    let Answer::Status(status) = ask(Request::Status)? else {
        return Err(unexpected(&pool));
    };
    let addresses = status.server.as_ref().map(portals).unwrap_or_default();
    report(&pool, &volume, &view, &addresses, out)
}

fn show(name: &IscsiName) -> Request {
    let show = target::show::Show { name: name.clone() };
    Request::Target(show.into())
}

/// Names of volumes can differ in characters that names of targets do not have. Clients of a target with such a name
/// would get this volume, too.
fn refuse_another_volume(
    found: Result<Answer, Failure>,
    name: &IscsiName,
    volume: &VolumeName,
) -> Result<(), Failure> {
    let Ok(Answer::Target(view)) = found else {
        return Ok(());
    };
    match view.units.iter().find(|unit| unit.volume != *volume) {
        None => Ok(()),
        Some(unit) => {
            let message = format!("target {name} exports {} already", unit.volume);
            Err(Failure::new(FailureKind::Exists, message)
                .advise("name a target by --target; nothing was changed"))
        }
    }
}

/// Each step succeeds if its result exists.
fn steps(
    volume: &VolumeName,
    size: Option<u64>,
    sparse: bool,
    name: &IscsiName,
    clients: Clients,
) -> Vec<Request> {
    let create = size.map(|size| volume::create::Create {
        name: volume.clone(),
        size,
        block_size: None,
        sparse,
        properties: Default::default(),
        parents: true,
        exist_ok: true,
        key: None,
    });
    let create = create.map(|create| Request::Volume(VolumeRequest::from(create)));
    let of_target = [
        TargetRequest::from(target::create::Create {
            name: name.clone(),
            portal_groups: Vec::new(),
        }),
        TargetRequest::from(target::map::Map {
            name: name.clone(),
            volume: volume.clone(),
            lun: None,
            read_only: false,
            write_cache: None,
        }),
        TargetRequest::from(target::allow::Allow {
            name: name.clone(),
            who: Who {
                initiators: clients.initiator,
                networks: clients.network,
                everyone: clients.everyone,
                instead_of_everyone: false,
            },
        }),
    ];
    create
        .into_iter()
        .chain(of_target.map(Request::Target))
        .collect()
}

fn unexpected(pool: &PoolName) -> Failure {
    Failure::new(
        FailureKind::Failed,
        format!("the server of pool {pool} sent an unexpected response"),
    )
}

/// A name for the target of a volume: `iqn.2026-01.org.example:tank-vm0` for `tank/vm0` of
/// `left.example.org`.
fn proposed(host: &str, volume: &VolumeName) -> Result<IscsiName, Failure> {
    let labels: Vec<&str> = host
        .split('.')
        .skip(1)
        .filter(|label| !label.is_empty())
        .collect();
    let domain = match labels.len() {
        0 | 1 => EXAMPLE_DOMAIN.to_owned(),
        _ => labels.iter().rev().copied().collect::<Vec<_>>().join("."),
    };
    let plain = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_lowercase(),
        false => '-',
    };
    let last: String = volume.as_str().chars().map(plain).collect();
    let name = format!("iqn.{SINCE}.{}:{last}", domain.to_ascii_lowercase());
    let parsed = name.parse::<IscsiName>();
    parsed.map_err(|error| Failure::usage(error.to_string()).advise("name it by --target"))
}

/// The addresses of portals, without their groups. Those of this host alone come last.
fn portals(server: &ServerStatus) -> Vec<String> {
    let plain = |text: &String| text.split(',').next().unwrap_or_default().to_owned();
    let mut addresses: Vec<String> = server.iscsi_portals.iter().map(plain).collect();
    addresses.sort_by_key(|address| is_of_this_host(address));
    addresses
}

fn is_of_this_host(address: &str) -> bool {
    address
        .parse::<std::net::SocketAddr>()
        .is_ok_and(|address| address.ip().is_loopback())
}

fn report(
    pool: &PoolName,
    volume: &VolumeName,
    target: &TargetView,
    addresses: &[String],
    out: Printer,
) -> Result<(), Failure> {
    let unit = target.units.iter().find(|unit| unit.volume == *volume);
    let lun = unit.map(|unit| unit.lun);
    let portal = addresses.first().map_or("ADDRESS:3260", String::as_str);
    let commands = [
        format!("iscsiadm -m discovery -t sendtargets -p {portal}"),
        format!("iscsiadm -m node -T {} --login", target.name),
    ];
    let view = json!({
        "volume": volume,
        "target": target.name,
        "lun": lun,
        "portals": addresses,
        "client_commands": commands,
    });
    out.either(&view, || {
        let lun = lun.map_or_else(String::new, |lun| format!(" as LUN {lun}"));
        let mut text = format!("{volume} is exported by {}{lun}\non the client:\n", target.name);
        for command in &commands {
            text.push_str(&format!("  {command}\n"));
        }
        if !target.chap_users.is_empty() {
            let users = target.chap_users.join(", ");
            text.push_str(&format!("before the login, set the secret of {users} there\n"));
        }
        match addresses.first() {
            None => text.push_str(&format!(
                "the server has no portal: `bulkhead portal add {pool} --iscsi ADDRESS:3260,1` adds one\n"
            )),
            Some(first) if is_of_this_host(first) => text.push_str(&format!(
                "the server listens on this host only: `bulkhead portal add {pool} --iscsi ADDRESS:3260,1` adds an address\n"
            )),
            Some(_) => {}
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposed_name_has_the_domain_and_the_volume() {
        for (host, volume, name) in [
            (
                "left.example.com",
                "tank/vm0",
                "iqn.2026-01.com.example:tank-vm0",
            ),
            (
                "left",
                "tank/VMs/a_b",
                "iqn.2026-01.org.example:tank-vms-a-b",
            ),
            ("left.local", "tank/v", "iqn.2026-01.org.example:tank-v"),
        ] {
            let volume = volume.parse().expect("a name");
            let proposed = proposed(host, &volume).expect("a name");
            assert_eq!(proposed.as_str(), name, "{host}");
        }
    }
}
