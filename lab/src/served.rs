//! The state of heads and pools of a lab as Pacemaker reports it.

use std::collections::{BTreeMap, BTreeSet};

use appliance::Appliance;
use appliance::render::{address_id, pool_id};
use appliance::xml::Element;
use serde::Serialize;
use units::PoolName;

/// The cluster as one head sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClusterState {
    /// The head that decides.
    pub decides: Option<String>,
    /// Whether the heads that it sees have quorum. Without it they serve no pool.
    pub has_quorum: bool,
    /// Heads that are members.
    pub online: BTreeSet<String>,
    /// By pool.
    pub pools: BTreeMap<PoolName, PoolState>,
    /// Things that are started and not started yet, fence devices among them, by Pacemaker's name.
    pub stopped: BTreeSet<String>,
}

/// Where a pool is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolState {
    /// The head that serves it.
    pub head: Option<String>,
    /// Addresses that are up there.
    pub addresses_up: usize,
    /// Addresses that it has.
    pub addresses: usize,
}

impl ClusterState {
    /// Parses the XML output of crm_mon(8).
    pub fn parse(text: &str, appliance: &Appliance) -> Option<Self> {
        let result = Element::parse(text).ok()?;
        let mut state = Self::default();
        let summary = result.child("summary");
        let decides = summary.and_then(|summary| summary.child("current_dc"));
        let decides = decides.and_then(|dc| dc.attribute("name"));
        let quorum = summary
            .and_then(|summary| summary.child("current_dc"))
            .and_then(|dc| dc.attribute("with_quorum"));
        state.has_quorum = quorum == Some("true");
        state.decides = decides.map(str::to_owned);
        for node in &result.child("nodes")?.children {
            let is = |name, value| node.attribute(name) == Some(value);
            if is("online", "true") && is("pending", "false") && is("unclean", "false") {
                state
                    .online
                    .extend(node.attribute("name").map(str::to_owned));
            }
        }
        let mut started: BTreeMap<&str, &str> = BTreeMap::new();
        for resource in result
            .child("resources")
            .iter()
            .flat_map(|all| &all.children)
        {
            let Some(id) = resource.id() else { continue };
            let is_started = resource.attribute("role") == Some("Started")
                && resource.attribute("failed") != Some("true");
            match resource
                .child("node")
                .and_then(|node| node.attribute("name"))
            {
                Some(head) if is_started => {
                    started.insert(id, head);
                }
                _ => {
                    state.stopped.insert(id.to_owned());
                }
            }
        }
        for (name, pool) in &appliance.pools {
            let head = started.get(pool_id(name).as_str()).copied();
            let up = pool.addresses.iter().filter(|address| {
                let id = address_id(address.address);
                head.is_some() && started.get(id.as_str()).copied() == head
            });
            let pool = PoolState {
                head: head.map(str::to_owned),
                addresses_up: up.count(),
                addresses: pool.addresses.len(),
            };
            state.pools.insert(name.clone(), pool);
        }
        Some(state)
    }

    /// Whether every head is a member and every pool and fence device is in use.
    pub fn is_complete(&self, appliance: &Appliance) -> bool {
        let is_online = |head: &units::HeadName| self.online.contains(head.as_str());
        appliance.heads.keys().all(is_online)
            && self.stopped.is_empty()
            && self.decides.is_some()
            && self.pools.values().all(PoolState::is_served)
    }
}

impl PoolState {
    /// Whether clients reach it.
    pub fn is_served(&self) -> bool {
        self.head.is_some() && self.addresses_up == self.addresses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MONITORED: &str = r#"<pacemaker-result api-version="2.25" request="crm_mon --output-as xml">
      <summary><stack type="corosync"/><current_dc present="true" name="left" id="1"/></summary>
      <nodes>
        <node name="left" id="1" online="true" standby="false" pending="false" unclean="false" is_dc="true"/>
        <node name="right" id="2" online="true" standby="false" pending="true" unclean="false" is_dc="false"/>
      </nodes>
      <resources>
        <resource id="fence-left-bmc" role="Started" active="true" failed="false"><node name="right" id="2"/></resource>
        <resource id="pool-tank" role="Started" active="true" failed="false"><node name="left" id="1"/></resource>
        <resource id="address-10.77.1.100" role="Started" failed="false"><node name="left" id="1"/></resource>
        <resource id="address-10.77.2.100" role="Stopped" failed="false"/>
      </resources>
    </pacemaker-result>"#;

    #[test]
    fn a_pool_is_served_when_it_and_its_addresses_run() {
        let text = include_str!("../../examples/pair.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let state = ClusterState::parse(MONITORED, &appliance).expect("understood");
        assert_eq!(state.decides.as_deref(), Some("left"));
        assert_eq!(state.online.len(), 1);
        let tank = state.pools.values().next().expect("a pool");
        assert_eq!((tank.head.as_deref(), tank.addresses_up), (Some("left"), 1));
        assert!(!tank.is_served() && !state.is_complete(&appliance));
        let all = MONITORED
            .replace(r#"pending="true""#, r#"pending="false""#)
            .replace(
                r#"role="Stopped" failed="false"/>"#,
                r#"role="Started" failed="false"><node name="left" id="1"/></resource>"#,
            );
        let state = ClusterState::parse(&all, &appliance).expect("understood");
        assert!(state.is_complete(&appliance), "{state:?}");
        assert!(!state.has_quorum);
        let quorate = MONITORED.replace("present=", r#"with_quorum="true" present="#);
        let state = ClusterState::parse(&quorate, &appliance).expect("understood");
        assert!(state.has_quorum);
        assert_eq!(ClusterState::parse("nonsense", &appliance), None);
    }
}
