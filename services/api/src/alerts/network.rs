//! The alerts about networks: failed links between heads, and fence devices in one network. A cut cable, or a switch
//! without power, is one cause.

use std::collections::BTreeMap;

use control::{Advice, Severity};

use super::cause::Causes;
use super::{ERROR, WARNING, with_advice};
use crate::view::{Alert, LinkView, Overview};

/// Least devices without a failed link for which their network is the probable cause.
const DEVICES_MIN: usize = 2;

/// The alerts about failed links, one for each pair of heads.
pub(super) fn of_links(overview: &Overview, causes: &Causes<'_>, alerts: &mut Vec<Alert>) {
    // A lost head is not reached over any network.
    let is_explained = |link: &LinkView| causes.is_lost(&link.from) || causes.is_lost(&link.to);
    let links = overview.links.iter();
    let links = links.filter(|link| link.state == "down" && !is_explained(link));
    let mut between: BTreeMap<(&str, &str), Vec<&LinkView>> = BTreeMap::new();
    for link in links {
        let of_heads = between.entry((link.from.as_str(), link.to.as_str()));
        of_heads.or_default().push(link);
    }
    alerts.extend(between.values().map(|links| of_cables(links)));
}

/// The alert about the failed links between two heads: one cable or switch may have several networks.
fn of_cables(links: &[&LinkView]) -> Alert {
    let names: Vec<&str> = links.iter().map(|link| link.network.as_str()).collect();
    let (from, to) = links
        .first()
        .map_or(("", ""), |link| (link.from.as_str(), link.to.as_str()));
    let about = format!("network {}", names.join(", "));
    let sentence = format!("{from} does not reach {to} over {}", names.join(", "));
    let advice = Advice::new(
        Severity::Warning,
        "check the cable, the switch and the interfaces of both heads",
        "",
    )
    .by("corosync-cfgtool -s")
    .risking(Some(format!(
        "if the other networks between {from} and {to} fail, too, one of them is powered off"
    )));
    let of_clients = links.iter().filter(|link| !link.client_pools.is_empty());
    let of_clients = of_clients.map(|link| {
        format!(
            "{} is a network of clients of {}: those behind the same cable or switch do not reach their pool over it",
            link.network,
            link.client_pools.join(", ")
        )
    });
    Alert {
        details: of_clients.collect(),
        ..with_advice(WARNING, &about, sentence, Some(&advice))
    }
}

/// Replaces the alerts about devices by details of the alert about their network.
pub(super) fn fold_into(overview: &Overview, alerts: &mut Vec<Alert>) {
    let devices = overview.safeguards.fence_devices.iter();
    let networks: BTreeMap<&str, &str> = devices
        .filter_map(|device| Some((device.name.as_str(), device.network.as_deref()?)))
        .collect();
    let network_of = |alert: &Alert| {
        let device = alert.advice.as_ref()?.device.as_deref()?;
        networks.get(device).copied()
    };
    let mut found: BTreeMap<&str, Vec<Alert>> = BTreeMap::new();
    let mut rest = Vec::new();
    for alert in std::mem::take(alerts) {
        match network_of(&alert) {
            Some(network) => found.entry(network).or_default().push(alert),
            None => rest.push(alert),
        }
    }
    for (network, devices) in found {
        let is_about = |alert: &&mut Alert| {
            let names = alert.about.strip_prefix("network ");
            names.is_some_and(|names| names.split(", ").any(|name| name == network))
        };
        match rest.iter_mut().find(is_about) {
            Some(alert) => add(alert, &devices),
            None if devices.len() >= DEVICES_MIN => rest.push(of_devices(network, &devices)),
            None => rest.extend(devices),
        }
    }
    *alerts = rest;
}

fn add(alert: &mut Alert, devices: &[Alert]) {
    if devices.iter().any(|device| device.severity == ERROR) {
        ERROR.clone_into(&mut alert.severity);
    }
    alert
        .details
        .extend(devices.iter().map(|device| device.sentence.clone()));
    let starts = devices.iter().filter_map(|device| device.since_ms);
    alert.since_ms = starts.chain(alert.since_ms).min();
}

/// The alert about several devices in a network, over which no link is known to have failed.
fn of_devices(network: &str, devices: &[Alert]) -> Alert {
    let advice = devices.iter().filter_map(|alert| alert.advice.as_ref());
    let names: Vec<&str> = advice
        .filter_map(|advice| advice.device.as_deref())
        .collect();
    let names = names.join(", ");
    let sentence =
        format!("the fence devices {names} do not work, and are in one network, {network}");
    let what = "repair the network to them, or the devices (\"A fence device does not respond\" in the guide to failures), then have each \
                tried again by `crm_resource --cleanup --resource DEVICE`";
    let risk = "a head that is lost is not powered off by them, and its pools stay down until a person confirms that it is off";
    let advice = Advice::new(Severity::Warning, what, "").risking(Some(risk.to_owned()));
    let about = format!("network {network}");
    let mut alert = with_advice(WARNING, &about, sentence, Some(&advice));
    add(&mut alert, devices);
    alert
}

#[cfg(test)]
mod tests {
    use super::super::of;
    use super::*;
    use crate::view::{FenceDeviceView, PoolOverview, Safeguards};

    fn overview(states: [&str; 2], link: &str) -> Overview {
        let device = |(head, state): (&str, &str)| FenceDeviceView {
            name: format!("fence-{head}-bmc"),
            head: head.to_owned(),
            level: 1,
            state: state.to_owned(),
            network: Some("management".to_owned()),
            since_ms: Some(7000),
            ..FenceDeviceView::default()
        };
        let devices = ["left", "right"].into_iter().zip(states);
        Overview {
            this_head: "left".to_owned(),
            pools: vec![PoolOverview {
                name: "tank".to_owned(),
                state: "served".to_owned(),
                ..PoolOverview::default()
            }],
            links: vec![LinkView {
                network: "management".to_owned(),
                from: "left".to_owned(),
                to: "right".to_owned(),
                state: link.to_owned(),
                ..LinkView::default()
            }],
            safeguards: Safeguards {
                fence_devices: devices.map(device).collect(),
                ..Safeguards::default()
            },
            ..Overview::default()
        }
    }

    #[test]
    fn cut_management_network_is_one_alert_with_the_fence_devices() {
        for (states, link, about, details) in [
            (["failed", "failed"], "down", "network management", 2),
            (["failed", "works"], "down", "network management", 1),
            (["failed", "failed"], "up", "network management", 2),
            (["failed", "works"], "up", "head left", 0),
        ] {
            let alerts = of(&overview(states, link), &[]);
            assert_eq!(alerts.len(), 1, "{states:?} {link}: {alerts:#?}");
            assert_eq!((&*alerts[0].about, &*alerts[0].severity), (about, ERROR));
            assert_eq!(
                (alerts[0].details.len(), alerts[0].since_ms),
                (details, Some(7000))
            );
            assert!(alerts[0].advice.is_some());
        }
    }
}
