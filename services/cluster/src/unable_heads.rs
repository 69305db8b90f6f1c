//! Heads on which the cluster would not start a pool: in standby or in maintenance, offline, or banned by a rule, by
//! failures or by the appliance file. Such a head is no replacement for the head that serves the pool.

use std::collections::BTreeMap;
use std::time::Duration;

use appliance::Appliance;
use appliance::render::pool_id;
use appliance::xml::Element;
use units::{HeadName, PoolName};

use crate::host::Host;
use crate::process::Invocation;
use crate::situation::Situation;

/// Time-out of the query of Pacemaker. The status of a pool is shown without it then.
const QUERY_WAIT: Duration = Duration::from_secs(5);

/// The heads that cannot serve `pool` now, each with the reason, by the output of crm_mon(8).
pub fn in_output(
    monitor: &Element,
    appliance: &Appliance,
    pool: &PoolName,
) -> BTreeMap<String, String> {
    let Some(described) = appliance.pools.get(pool) else {
        return BTreeMap::new();
    };
    let situation = Situation::of(monitor.clone());
    let allowed = appliance.heads_of(described);
    let resource = pool_id(pool);
    let obstacle = |head: &HeadName| match allowed.contains(head) {
        false => Some("`heads` of the pool in the appliance file leaves it out".to_owned()),
        true => situation.obstacle_on(&resource, head),
    };
    let heads = appliance.heads.keys();
    heads
        .filter_map(|head| Some((head.to_string(), obstacle(head)?)))
        .collect()
}

/// The same by a query of the Pacemaker of `machine`; empty if it does not respond in time.
pub fn query(
    machine: &dyn Host,
    appliance: &Appliance,
    pool: &PoolName,
) -> BTreeMap<String, String> {
    let invocation = Invocation::new("crm_mon", &["--output-as", "xml"]).within(QUERY_WAIT);
    let output = machine
        .run(&invocation)
        .ok()
        .filter(|output| output.code == 0);
    let monitor = output.and_then(|output| Element::parse(&output.text()).ok());
    monitor.map_or_else(BTreeMap::new, |monitor| {
        in_output(&monitor, appliance, pool)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONLINE: &str = r#"online="true" standby="false""#;
    const BAN: &str = r#"<ban id="cli-ban" resource="pool-tank" node="right" weight="-1000000"/>"#;

    fn unable(right: &str, bans: &str) -> BTreeMap<String, String> {
        let text = include_str!("../../../examples/pair.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let monitor = format!(
            r#"<pacemaker-result><nodes><node name="left" {ONLINE}/><node name="right" {right}/></nodes>
            <resources><resource id="pool-tank" role="Started"><node name="left" id="1"/></resource></resources>
            <bans>{bans}</bans></pacemaker-result>"#
        );
        let monitor = Element::parse(&monitor).expect("XML");
        in_output(&monitor, &appliance, &"tank".parse().expect("a name"))
    }

    #[test]
    fn standby_and_bans_exclude_a_head_and_healthy_heads_are_able() {
        assert_eq!(unable(ONLINE, ""), BTreeMap::new());
        for (right, bans, part) in [
            (
                r#"online="true" standby="true""#,
                "",
                "maintenance right off",
            ),
            (r#"online="false""#, "", "offline"),
            (r#"online="true" maintenance="true""#, "", "in maintenance"),
            (ONLINE, BAN, "--clear --resource pool-tank --node right"),
        ] {
            let unable = unable(right, bans);
            let names: Vec<&str> = unable.keys().map(String::as_str).collect();
            assert_eq!(names, ["right"], "{part}");
            assert!(unable["right"].contains(part), "{part}: {unable:?}");
        }
        // Maintenance mode applies to all heads.
        let text = include_str!("../../../examples/pair.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let monitor = r#"<pacemaker-result><summary><cluster_options maintenance-mode="true"/></summary>
            <nodes><node name="left" online="true"/><node name="right" online="true"/></nodes></pacemaker-result>"#;
        let monitor = Element::parse(monitor).expect("XML");
        let all = in_output(&monitor, &appliance, &"tank".parse().expect("a name"));
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all["right"].contains("--name maintenance-mode --delete"));
        let elsewhere = BAN.replace("pool-tank", "pool-vm");
        assert_eq!(unable(ONLINE, &elsewhere), BTreeMap::new());
    }
}
