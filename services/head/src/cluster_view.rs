//! The state of heads, pools and links by the appliance file and the cluster.

use std::path::Path;
use std::time::Duration;

use api::backend::{CLUSTER_SILENT, ClusterState, PoolLocation};
use api::view::{HeadView, LinkView, Safeguards};
use appliance::Appliance;
use appliance::render::pool_id;
use appliance::xml::Element;
use cluster::host::{Host, Local};
use cluster::process::{Invocation, Output};
use cluster::unable_heads;
use units::{HeadName, NetworkName, PoolName};

use super::crm_output::resource;
use super::heartbeats::Heartbeats;
use super::{manual_settings, safeguards};
use crate::args::HeadArgs;

/// Time-out of a tool of the cluster or of this host.
const TOOL_WAIT: Duration = Duration::from_secs(5);
/// The name of this head.
pub fn own_name(args: &HeadArgs) -> String {
    args.name.clone().unwrap_or_else(engine::host_name)
}

/// The present state.
pub fn look(
    file: &Path,
    own: &str,
    heartbeats: &Heartbeats,
    safeguards: &safeguards::Watch,
) -> ClusterState {
    if !file.exists() {
        return alone(own);
    }
    let appliance = match cluster::appliance_file::load(file) {
        Ok(appliance) => appliance,
        Err(failure) => {
            return ClusterState {
                problems: vec![failure.message],
                ..alone(own)
            };
        }
    };
    let here = Local::default();
    // Concurrently: each tool depends on another process, and one that hangs must not delay the rest.
    let (monitor, links, quorum, device) = std::thread::scope(|scope| {
        let here = &here;
        let monitor = scope.spawn(|| print_of(here, "crm_mon", &["--output-as", "xml"]));
        let quorum = scope.spawn(|| reply_of(here, "corosync-quorumtool", &["-s"]));
        let device = appliance
            .has_voting_witness()
            .then(|| scope.spawn(|| print_of(here, "corosync-qdevice-tool", &["-s"])));
        let links = print_of(here, "corosync-cfgtool", &["-n"]);
        (
            joined(monitor),
            links,
            joined(quorum),
            device.and_then(joined),
        )
    });
    let monitor = monitor.and_then(|text| Element::parse(&text).ok());
    let around = of(&appliance, own, monitor.as_ref(), links.as_deref());
    let printed = safeguards::Printed {
        monitor: monitor.as_ref(),
        quorum: quorum.as_deref(),
        device: device.as_deref(),
        refusal: Some(&cluster::pool_management::power_off_refusal),
    };
    let safeguards = safeguards.look(&appliance, own, printed, api::now_ms());
    // A note that outlived its script is of no interest where Pacemaker runs.
    let waits = (safeguards.has_quorum == Some(false) || monitor.is_none())
        .then(cluster::pool_management::boot_wait_reason);
    // If Corosync has just failed to respond, it is not queried again.
    let counters = links.and_then(|_| print_of(&here, "corosync-cmapctl", &["-m", "stats"]));
    let losses = |text: String| heartbeats.losses(&appliance, own, &text);
    ClusterState {
        heartbeats: counters.map_or_else(Vec::new, losses),
        safeguards,
        problems: around.problems.into_iter().chain(waits.flatten()).collect(),
        ..around
    }
}

fn alone(own: &str) -> ClusterState {
    ClusterState {
        heads: vec![HeadView {
            name: own.to_owned(),
            here: true,
            state: "online".to_owned(),
            note: None,
        }],
        ..ClusterState::default()
    }
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The output of a command, or `None` if it fails.
pub fn print_of(machine: &dyn Host, program: &str, arguments: &[&str]) -> Option<String> {
    printed(machine, program, arguments, |output| output.code == 0)
}

/// The output of a command with an exit code that is part of its reply: corosync-quorumtool(8) fails without quorum.
fn reply_of(machine: &dyn Host, program: &str, arguments: &[&str]) -> Option<String> {
    printed(machine, program, arguments, |output| {
        !output.stdout.is_empty()
    })
}

fn printed(
    machine: &dyn Host,
    program: &str,
    arguments: &[&str],
    is_reply: impl Fn(&Output) -> bool,
) -> Option<String> {
    let invocation = Invocation::new(program, arguments).within(TOOL_WAIT);
    match machine.run(&invocation) {
        Ok(output) if is_reply(&output) => Some(output.text()),
        Ok(output) => {
            tracing::debug!(program, complaint = output.complaint(), "a tool failed");
            None
        }
        Err(error) => {
            tracing::debug!(program, %error, "a tool does not run");
            None
        }
    }
}

fn of(
    appliance: &Appliance,
    own: &str,
    monitor: Option<&Element>,
    links: Option<&str>,
) -> ClusterState {
    let heads = appliance.heads.keys().map(|name| HeadView {
        name: name.to_string(),
        here: name.as_str() == own,
        state: head_state(monitor, name.as_str()).to_owned(),
        note: None,
    });
    let pools = appliance.pools.iter().map(|(name, pool)| {
        let resource = monitor.and_then(|monitor| resource(monitor, &pool_id(name)));
        // Pacemaker shows a resource of a lost head as started there.
        let is_up = |head: &&str| !matches!(head_state(monitor, head), "offline" | "unclean");
        let place = PoolLocation {
            served_by: resource.and_then(server).filter(is_up).map(str::to_owned),
            has_failed: resource.is_some_and(|one| one.is("failed")),
            home: pool.home.as_ref().map(ToString::to_string),
            heads: appliance
                .heads_of(pool)
                .iter()
                .map(ToString::to_string)
                .collect(),
            addresses: pool
                .addresses
                .iter()
                .map(|one| one.address.to_string())
                .collect(),
            cannot_serve: monitor.map_or_else(Default::default, |monitor| {
                unable_heads::in_output(monitor, appliance, name)
            }),
            problem: (monitor.is_some() && resource.is_none()).then(|| unknown_pool(name)),
        };
        (name.to_string(), place)
    });
    let mut problems = Vec::new();
    if monitor.is_none() && appliance.heads.len() > 1 {
        problems.push(CLUSTER_SILENT.to_owned());
    }
    if let Some(monitor) = monitor {
        problems.extend(manual_settings::problems(monitor, appliance));
    }
    ClusterState {
        appliance: Some(appliance.name.clone()),
        heads: heads.collect(),
        pools: pools.collect(),
        links: with_unseen(
            appliance,
            own,
            links.map_or_else(Vec::new, |text| link_views(appliance, own, text)),
        ),
        heartbeats: Vec::new(),
        safeguards: Safeguards::default(),
        problems,
    }
}

/// A pool of the file that the cluster does not have: the file is not applied, or differs from that of the other heads.
fn unknown_pool(name: &PoolName) -> String {
    format!(
        "the cluster has no pool {name}, which the appliance file of this head names: correct a mistyped name; a pool that is new is created, and \
         then served after `bulkhead appliance apply --ssh`"
    )
}

fn head_state(monitor: Option<&Element>, head: &str) -> &'static str {
    let nodes = monitor.and_then(|monitor| monitor.child("nodes"));
    let mut nodes = nodes.into_iter().flat_map(|nodes| &nodes.children);
    let Some(node) = nodes.find(|node| node.attribute("name") == Some(head)) else {
        return "unknown";
    };
    match () {
        () if node.is("unclean") => "unclean",
        () if !node.is("online") => "offline",
        // A member of Corosync without Pacemaker.
        () if node.is("pending") => "pending",
        () if node.is("standby") => "standby",
        () => "online",
    }
}

/// The only head on which a resource is started.
fn server(resource: &Element) -> Option<&str> {
    let is_started = resource.attribute("role") == Some("Started") && !resource.is("failed");
    match resource.children.as_slice() {
        [node] if is_started => node.attribute("name"),
        _ => None,
    }
}

/// The head with this Corosync node number.
pub fn head_by_number(appliance: &Appliance, number: u32) -> Option<&HeadName> {
    let mut heads = appliance.heads.iter();
    let (name, _) = heads.find(|(_, head)| head.number == number)?;
    Some(name)
}

/// The network of the heartbeat link with this Corosync number.
pub fn network_by_heartbeat(appliance: &Appliance, number: u32) -> Option<&NetworkName> {
    let mut networks = appliance.networks.iter();
    let (name, _) =
        networks.find(|(_, network)| network.heartbeat.map(u32::from) == Some(number))?;
    Some(name)
}

/// Parses `corosync-cfgtool -n`: for each other node a line `nodeid: N ...`, then a line
/// `LINK: N ... connected ...` for each link.
fn link_views(appliance: &Appliance, own: &str, text: &str) -> Vec<LinkView> {
    let number = |text: &str| -> Option<u32> {
        let digits = text
            .trim_start()
            .split(|c: char| !c.is_ascii_digit())
            .next();
        digits?.parse().ok()
    };
    let mut views = Vec::new();
    let mut to = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("nodeid:") {
            let node = number(rest);
            to = node.and_then(|node| head_by_number(appliance, node));
        } else if let (Some(rest), Some(to)) = (line.strip_prefix("LINK:"), to) {
            let heartbeat = number(rest);
            let network = heartbeat.and_then(|number| network_by_heartbeat(appliance, number));
            let Some(network) = network else {
                continue;
            };
            let is_up = rest.split_whitespace().any(|word| word == "connected");
            views.push(LinkView {
                network: network.to_string(),
                from: own.to_owned(),
                to: to.to_string(),
                state: if is_up { "up" } else { "down" }.to_owned(),
                client_pools: client_pools(appliance, network),
            });
        }
    }
    views
}

/// The pools with addresses for clients in a network.
fn client_pools(appliance: &Appliance, network: &NetworkName) -> Vec<String> {
    let pools = appliance.pools.iter();
    let of_network = pools.filter(|(_, pool)| {
        let mut addresses = pool.addresses.iter();
        addresses.any(|one| one.network == *network)
    });
    of_network.map(|(name, _)| name.to_string()).collect()
}

/// Adds the links that Corosync does not list, such as those to a head that is off: they exist, in an
/// unknown state.
fn with_unseen(appliance: &Appliance, own: &str, mut views: Vec<LinkView>) -> Vec<LinkView> {
    let others = appliance
        .heads
        .iter()
        .filter(|(name, _)| name.as_str() != own);
    for (to, head) in others {
        let networks = head.links.keys().filter(|network| {
            let network = appliance.networks.get(*network);
            network.is_some_and(|network| network.heartbeat.is_some())
        });
        for network in networks {
            let is_this =
                |view: &LinkView| view.to == to.as_str() && view.network == network.as_str();
            if !views.iter().any(is_this) {
                views.push(LinkView {
                    network: network.to_string(),
                    from: own.to_owned(),
                    to: to.to_string(),
                    state: "unknown".to_owned(),
                    client_pools: client_pools(appliance, network),
                });
            }
        }
    }
    views
}

#[cfg(test)]
mod tests {
    use super::*;

    fn appliance() -> Appliance {
        let text = include_str!("../../../examples/pair.toml");
        appliance::parse(text).expect("well formed").appliance
    }

    #[test]
    fn link_is_up_when_corosync_reports_connected() {
        let text = "Local node ID 1, transport knet\nnodeid: 2 reachable\n\
                    \x20  LINK: 0 udp (10.77.1.11->10.77.1.12) enabled connected mtu: 1397\n\
                    \x20  LINK: 1 udp (10.77.2.11->10.77.2.12) enabled disconnected mtu: 1397\n";
        let views = link_views(&appliance(), "left", text);
        let states: Vec<_> = views
            .iter()
            .map(|view| (view.network.as_str(), view.to.as_str(), view.state.as_str()))
            .collect();
        assert_eq!(
            states,
            [("storage-a", "right", "up"), ("storage-b", "right", "down")]
        );
        assert_eq!(views[1].client_pools, ["tank"]);
    }

    #[test]
    fn links_to_powered_off_head_are_unknown() {
        let text =
            "nodeid: 2 reachable\n  LINK: 0 udp (10.77.1.11->10.77.1.12) enabled connected\n";
        let appliance = appliance();
        let states = |views: Vec<LinkView>| -> Vec<String> {
            let views = views.iter();
            views
                .map(|view| format!("{} {}", view.network, view.state))
                .collect()
        };
        let seen = with_unseen(&appliance, "left", link_views(&appliance, "left", text));
        assert_eq!(states(seen)[..2], ["storage-a up", "management unknown"]);
        let unseen = with_unseen(&appliance, "left", Vec::new());
        assert!(
            unseen
                .iter()
                .all(|view| view.state == "unknown" && view.to == "right")
        );
        assert_eq!(unseen.len(), appliance.networks.len());
    }

    #[test]
    fn cluster_state_maps_pools_to_heads() {
        let monitor = r#"<pacemaker-result><nodes>
            <node name="left" online="true" standby="false" unclean="false"/>
            <node name="right" online="false" standby="false" unclean="true"/></nodes>
            <resources><resource id="pool-tank" role="Started" failed="false">
            <node name="left" id="1"/></resource></resources></pacemaker-result>"#;
        let monitor = Element::parse(monitor).expect("XML");
        let around = of(&appliance(), "left", Some(&monitor), None);
        let states: Vec<_> = around
            .heads
            .iter()
            .map(|head| head.state.as_str())
            .collect();
        assert_eq!(states, ["online", "unclean"]);
        let tank = &around.pools["tank"];
        assert_eq!(tank.served_by.as_deref(), Some("left"));
        assert_eq!(
            (tank.home.as_deref(), tank.has_failed),
            (Some("left"), false)
        );
        assert_eq!(tank.addresses, ["10.77.1.100", "10.77.2.100"]);
    }

    /// A mistyped name in the file of this head: the pool is served under its own name.
    #[test]
    fn pool_that_the_cluster_does_not_have_is_a_problem_of_the_file() {
        let monitor = r#"<pacemaker-result><nodes><node name="left" online="true"/></nodes>
            <resources><resource id="pool-vault" role="Started"><node name="left" id="1"/></resource></resources></pacemaker-result>"#;
        let monitor = Element::parse(monitor).expect("XML");
        let problem = |monitor| {
            of(&appliance(), "left", monitor, None).pools["tank"]
                .problem
                .clone()
        };
        let found = problem(Some(&monitor)).expect("a problem");
        assert!(found.contains("the cluster has no pool tank"), "{found}");
        assert_eq!(problem(None), None);
    }

    #[test]
    fn pool_of_lost_head_is_not_served() {
        let monitor = include_str!("recorded/power-off-failed.xml");
        let monitor = Element::parse(monitor).expect("XML");
        let around = of(&appliance(), "right", Some(&monitor), None);
        assert_eq!(around.heads[0].state, "unclean");
        assert_eq!(around.pools["tank"].served_by, None);
    }

    #[test]
    fn host_without_file_is_single_and_healthy() {
        let around = look(
            Path::new("/nonexistent/appliance.toml"),
            "here",
            &Heartbeats::default(),
            &safeguards::Watch::default(),
        );
        assert_eq!((around.appliance, around.heads.len()), (None, 1));
    }
}
