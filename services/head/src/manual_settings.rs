//! Settings of Pacemaker that an administrator makes by hand, with crm or pcs, and that prevent every takeover while they
//! last: maintenance mode, and resources that the cluster does not manage.

use std::collections::BTreeSet;

use appliance::Appliance;
use appliance::render::{pool_id, resource_ids};
use appliance::xml::Element;

use crate::crm_output::resource;

/// A sentence for each setting in the output of crm_mon(8), with the command that reverts it.
pub fn problems(monitor: &Element, appliance: &Appliance) -> Vec<String> {
    let summary = monitor.child("summary").into_iter();
    let mut summary = summary.flat_map(|summary| &summary.children);
    let options = summary.find(|one| one.name == "cluster_options");
    let has = |option: &str| options.is_some_and(|options| options.is(option));
    if has("maintenance-mode") {
        // Each resource and head is unmanaged by it.
        return vec![
            "Pacemaker is in maintenance mode: it starts, moves and monitors no pool, and no head takes over. \
             `crm_attribute --name maintenance-mode --delete` reverts that"
                .to_owned(),
        ];
    }
    let mut problems = Vec::new();
    if has("stop-all-resources") {
        problems.push(
            "Pacemaker stops all resources (`stop-all-resources`), so no head serves a pool. \
             `crm_attribute --name stop-all-resources --delete` reverts that"
                .to_owned(),
        );
    }
    let nodes = monitor.child("nodes").into_iter();
    let nodes: Vec<&Element> = nodes.flat_map(|nodes| &nodes.children).collect();
    let mut in_maintenance = BTreeSet::new();
    for head in appliance.heads.keys() {
        let is_it = |node: &&&Element| node.attribute("name") == Some(head.as_str());
        let node = nodes.iter().find(is_it);
        if node.is_some_and(|node| node.is("maintenance")) {
            in_maintenance.insert(head.as_str());
            problems.push(format!(
                "Pacemaker has {head} in maintenance mode: its pools are not monitored, and no head takes them over. \
                 `crm_attribute --node {head} --name maintenance --delete` reverts that"
            ));
        }
    }
    for (name, pool) in &appliance.pools {
        let ids = resource_ids(name, pool);
        let unmanaged = ids.iter().filter(|id| {
            let found = resource(monitor, id);
            let is_explained = found.is_some_and(|found| {
                let mut places = found
                    .children
                    .iter()
                    .filter_map(|node| node.attribute("name"));
                places.any(|place| in_maintenance.contains(place))
            });
            !is_explained && found.is_some_and(is_unmanaged)
        });
        let unmanaged: Vec<&str> = unmanaged.map(String::as_str).collect();
        let Some(first) = unmanaged.first() else {
            continue;
        };
        let consequence = match *first == pool_id(name) {
            true => format!("it does not monitor {name}, and no head takes it over"),
            false => format!("addresses of {name} do not move with it"),
        };
        problems.push(format!(
            "Pacemaker does not manage {}: {consequence}. `crm_resource --resource {first} --meta --delete-parameter is-managed` (or \
             `maintenance`) reverts that",
            unmanaged.join(", ")
        ));
    }
    problems
}

fn is_unmanaged(resource: &Element) -> bool {
    resource.attribute("managed") == Some("false") || resource.is("maintenance")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(options: &str, right: &str, tank: &str) -> Vec<String> {
        let text = include_str!("../../../examples/pair.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let monitor = format!(
            r#"<pacemaker-result><summary><cluster_options {options}/></summary>
            <nodes><node name="left" online="true"/><node name="right" online="true" {right}/></nodes>
            <resources><resource id="pool-tank" role="Started" {tank}><node name="right" id="1"/></resource></resources>
            </pacemaker-result>"#
        );
        problems(&Element::parse(&monitor).expect("XML"), &appliance)
    }

    #[test]
    fn settings_by_hand_that_prevent_a_takeover_are_problems_with_the_command_that_reverts_them() {
        const UNMANAGED: &str = r#"managed="false""#;
        const NODE: &str = r#"maintenance="true""#;
        assert_eq!(found("", "", r#"managed="true""#), [""; 0]);
        for (options, right, tank, part) in [
            (
                r#"maintenance-mode="true""#,
                NODE,
                UNMANAGED,
                "--name maintenance-mode --delete",
            ),
            (
                r#"stop-all-resources="true""#,
                "",
                "",
                "--name stop-all-resources --delete",
            ),
            (
                "",
                NODE,
                UNMANAGED,
                "--node right --name maintenance --delete",
            ),
            (
                "",
                "",
                UNMANAGED,
                "--resource pool-tank --meta --delete-parameter is-managed",
            ),
            ("", "", NODE, "no head takes it over"),
        ] {
            let found = found(options, right, tank);
            assert_eq!(found.len(), 1, "{part}: {found:?}");
            assert!(found[0].contains(part), "{part}: {found:?}");
        }
    }
}
