//! Merges the desired configuration into a CIB, and computes the difference.
//!
//! Configuration that Pacemaker owns is retained: the nodes with their attributes (standby, maintenance), the
//! properties that it writes, and the constraints that `crm_resource` leaves while a pool is moved by hand. Temporary
//! settings of an operator are retained, too: maintenance of the cluster or of a resource, and stopped resources. All
//! other configuration comes from the file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::render::Cib;
use crate::secret::{HIDDEN, is_secret};
use crate::xml::Element;

/// The property set that has precedence in Pacemaker, which writes its own properties into it, too.
const OPTIONS_ID: &str = "cib-bootstrap-options";
/// Properties that Pacemaker writes.
const PROPERTIES_OF_PACEMAKER: &[&str] = &[
    "dc-version",
    "cluster-infrastructure",
    "cluster-name",
    "have-watchdog",
    "last-lrm-refresh",
];
/// Properties that an operator sets temporarily.
const PROPERTIES_OF_OPERATORS: &[&str] = &["maintenance-mode", "stop-all-resources"];
/// Values of a resource that an operator sets temporarily.
const META_OF_OPERATORS: &[&str] = &["target-role", "is-managed", "maintenance"];
/// Prefix of the identity of a role that stops a removed resource. Those of an operator have no
/// such prefix.
const REMOVAL_PREFIX: &str = "going-";
/// The prefixes of the constraints of a move by `crm_resource`.
const MOVE_PREFIX: &str = "cli-";
/// The schema of a new CIB: supported by Debian 12's Pacemaker and later ones, which upgrade it
/// automatically.
const SCHEMA: &str = "pacemaker-3.0";
/// The feature set of the oldest supported Pacemaker (2.1.5). Without it, its tools write patches in a form that it
/// rejects. The cluster raises it.
const FEATURE_SET: &str = "3.16.1";

/// A change to one object of Pacemaker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "change")]
pub enum CibChange {
    /// It is new.
    Add {
        /// Its kind and name.
        what: String,
    },
    /// Its values change.
    Modify {
        /// Its kind and name.
        what: String,
        /// Single values, before and after.
        values: Vec<ValueChange>,
    },
    /// It goes.
    Remove {
        /// Its kind and name.
        what: String,
    },
}

/// One value before and after; none where there is no such value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ValueChange {
    /// Its name.
    pub name: String,
    /// The value before.
    pub before: Option<String>,
    /// The value after.
    pub after: Option<String>,
}

impl fmt::Display for CibChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { what } => write!(f, "+ {what}"),
            Self::Remove { what } => write!(f, "- {what}"),
            Self::Modify { what, values } => {
                write!(f, "~ {what}")?;
                for value in values {
                    let shown = |value: &Option<String>| value.clone().unwrap_or("nothing".into());
                    let (before, after) = (shown(&value.before), shown(&value.after));
                    write!(f, "\n    {}: {before} -> {after}", value.name)?;
                }
                Ok(())
            }
        }
    }
}

/// Returns an empty CIB, as Pacemaker creates one at its first start.
pub fn empty_cib() -> Element {
    let sections = ["crm_config", "nodes", "resources", "constraints"];
    Element::new("cib")
        .with("crm_feature_set", FEATURE_SET)
        .with("validate-with", SCHEMA)
        .with("admin_epoch", 0)
        .with("epoch", 1)
        .with("num_updates", 0)
        .containing(Element::new("configuration").containing_all(sections.map(Element::new)))
        .containing(Element::new("status"))
}

/// Returns `current`, a whole `<cib>`, with the configuration that `desired` describes.
pub fn merged(current: &Element, desired: &Cib) -> Element {
    let mut cib = current.clone();
    let configuration = cib.child_or_new("configuration");
    merge_properties(configuration.child_or_new("crm_config"), desired);
    let resources = configuration.child_or_new("resources");
    let before = std::mem::replace(resources, desired.resources());
    for resource in &mut resources.children {
        let mut known = before.children.iter();
        if let Some(known) = known.find(|one| one.id() == resource.id()) {
            keep_meta(resource, known);
        }
    }
    let ids: BTreeSet<&str> = desired
        .primitives
        .iter()
        .map(|one| one.id.as_str())
        .collect();
    let constraints = configuration.child_or_new("constraints");
    let moves = std::mem::take(&mut constraints.children)
        .into_iter()
        .filter(|one| one.id().is_some_and(|id| id.starts_with(MOVE_PREFIX)))
        // Pacemaker rejects a constraint of a resource that does not exist.
        .filter(|one| one.attribute("rsc").is_none_or(|id| ids.contains(id)));
    let moves: Vec<Element> = moves.collect();
    *constraints = desired.constraints().containing_all(moves);
    configuration
        .children
        .retain(|section| section.name != "fencing-topology");
    configuration.children.extend(desired.fencing_topology());
    *configuration.child_or_new("rsc_defaults") = desired.rsc_defaults();
    cib
}

fn meta_of(resource: &Element) -> impl Iterator<Item = &Element> {
    let sets = resource.children.iter();
    sets.filter(|set| set.name == "meta_attributes")
        .flat_map(|set| &set.children)
}

fn is_of_operator(pair: &Element, names: &[&str]) -> bool {
    let is_named = pair
        .attribute("name")
        .is_some_and(|name| names.contains(&name));
    is_named && pair.id().is_none_or(|id| !id.starts_with(REMOVAL_PREFIX))
}

/// Retains an operator's settings of a resource.
fn keep_meta(resource: &mut Element, known: &Element) {
    let kept = meta_of(known).filter(|pair| is_of_operator(pair, META_OF_OPERATORS));
    let kept: Vec<Element> = kept.cloned().collect();
    if kept.is_empty() {
        return;
    }
    meta_set(resource).children.extend(kept);
}

/// Returns the set of values of a resource that is ours.
fn meta_set(resource: &mut Element) -> &mut Element {
    let id = format!("{}-meta", resource.id().unwrap_or_default());
    let is_ours = |set: &Element| set.name == "meta_attributes" && set.id() == Some(&id);
    let at = resource.children.iter().position(is_ours);
    let at = at.unwrap_or_else(|| {
        // The schema has such sets first.
        let set = Element::new("meta_attributes").with("id", &id);
        resource.children.insert(0, set);
        0
    });
    &mut resource.children[at]
}

/// Returns `current` with these resources stopped permanently, as far as they are in it.
pub fn stopped(current: &Element, ids: &BTreeSet<String>) -> Element {
    let mut cib = current.clone();
    let resources = cib.child_or_new("configuration").child_or_new("resources");
    for resource in &mut resources.children {
        let Some(id) = resource
            .id()
            .filter(|id| ids.contains(*id))
            .map(str::to_owned)
        else {
            continue;
        };
        let is_role = |pair: &Element| pair.attribute("name") == Some("target-role");
        for set in resource
            .children
            .iter_mut()
            .filter(|set| set.name == "meta_attributes")
        {
            set.children.retain(|pair| !is_role(pair));
        }
        let role = Element::new("nvpair")
            .with("id", format!("{REMOVAL_PREFIX}{id}"))
            .with("name", "target-role")
            .with("value", "Stopped");
        meta_set(resource).children.push(role);
    }
    cib
}

/// Lists an operator's settings that `apply` retains, in words.
pub(super) fn of_operators(cib: &Element) -> Vec<String> {
    let Some(configuration) = cib.child("configuration") else {
        return Vec::new();
    };
    let sections = |name: &str| {
        let section = configuration.child(name);
        section
            .into_iter()
            .flat_map(|section| &section.children)
            .collect::<Vec<_>>()
    };
    let is_off = |value: &str| ["false", "no", "off", "0", "n"].contains(&value);
    let set = |of: &str, pair: &Element| {
        let (name, value) = (pair.attribute("name")?, pair.attribute("value")?);
        let is_usual = match name {
            "target-role" => value.eq_ignore_ascii_case("started"),
            "is-managed" => !is_off(value),
            _ => is_off(value),
        };
        let word = format!("{of}: an operator set {name} = {value}, which stays");
        (!is_usual).then_some(word)
    };
    let properties = sections("crm_config")
        .into_iter()
        .flat_map(|set| &set.children);
    let properties = properties.filter(|pair| is_of_operator(pair, PROPERTIES_OF_OPERATORS));
    let mut words: Vec<String> = properties
        .filter_map(|pair| set("Pacemaker", pair))
        .collect();
    for resource in sections("resources") {
        let id = resource.id().unwrap_or_default();
        let meta = meta_of(resource).filter(|pair| is_of_operator(pair, META_OF_OPERATORS));
        words.extend(meta.filter_map(|pair| set(id, pair)));
    }
    words
}

/// Returns whether Pacemaker currently starts and stops nothing.
pub(super) fn is_in_maintenance(cib: &Element) -> bool {
    of_operators(cib)
        .iter()
        .any(|word| word.starts_with("Pacemaker: an operator set maintenance-mode"))
}

fn merge_properties(crm_config: &mut Element, desired: &Cib) {
    let old_sets = std::mem::take(&mut crm_config.children);
    let kept = old_sets
        .into_iter()
        .filter(|set| set.id() == Some(OPTIONS_ID))
        .flat_map(|set| set.children)
        .filter(|pair| {
            pair.attribute("name")
                .is_some_and(|name| PROPERTIES_OF_PACEMAKER.contains(&name))
                || is_of_operator(pair, PROPERTIES_OF_OPERATORS)
        });
    let ours = desired.properties.iter().map(|(name, value)| {
        Element::new("nvpair")
            .with("id", format!("{OPTIONS_ID}-{name}"))
            .with("name", name)
            .with("value", value)
    });
    crm_config.children.push(
        Element::new("cluster_property_set")
            .with("id", OPTIONS_ID)
            .containing_all(kept.chain(ours)),
    );
}

/// All named objects of a configuration: by kind and name, with their values flattened.
type Objects = BTreeMap<String, BTreeMap<String, String>>;

fn objects(cib: &Element) -> Objects {
    let mut objects = Objects::new();
    let Some(configuration) = cib.child("configuration") else {
        return objects;
    };
    for section in &configuration.children {
        for thing in &section.children {
            let mut values = BTreeMap::new();
            flatten(thing, "", &mut values);
            let id = thing.id().unwrap_or("without id");
            objects.insert(format!("{} {id}", thing.name), values);
        }
    }
    objects
}

/// Collects name/value pairs under their names, other attributes under their paths.
fn flatten(element: &Element, path: &str, values: &mut BTreeMap<String, String>) {
    if element.name == "nvpair" {
        let name = element.attribute("name").unwrap_or_default();
        let value = element.attribute("value").unwrap_or_default();
        values.insert(format!("{path}{name}"), value.to_owned());
        return;
    }
    for (name, value) in element.attributes.iter().filter(|(name, _)| *name != "id") {
        values.insert(format!("{path}{name}"), value.clone());
    }
    for child in &element.children {
        // Parameters of a resource are distinguished by name alone; elements that can occur several
        // times by id.
        let path = match (child.name.as_str(), child.id()) {
            ("nvpair" | "operations", _) => path.to_owned(),
            (_, Some(id)) => format!("{path}{id}."),
            (name, None) => format!("{path}{name}."),
        };
        flatten(child, &path, values);
    }
}

/// Returns the differences between two CIBs, apart from their status.
pub fn cib_changes(before: &Element, after: &Element) -> Vec<CibChange> {
    let (before, after) = (objects(before), objects(after));
    let mut changes = Vec::new();
    for (what, values) in &after {
        match before.get(what) {
            None => changes.push(CibChange::Add { what: what.clone() }),
            Some(old) if old != values => changes.push(CibChange::Modify {
                what: what.clone(),
                values: value_changes(old, values),
            }),
            Some(_) => {}
        }
    }
    for what in before.keys().filter(|what| !after.contains_key(*what)) {
        changes.push(CibChange::Remove { what: what.clone() });
    }
    changes
}

fn value_changes(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> Vec<ValueChange> {
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| {
            // The identity of its set precedes a parameter's own name.
            let parameter = name.rsplit('.').next().unwrap_or_default();
            let shown = |value: Option<&String>| match is_secret(parameter) {
                true => value.map(|_| HIDDEN.to_owned()),
                false => value.cloned(),
            };
            ValueChange {
                name: name.clone(),
                before: shown(old.get(name)),
                after: shown(new.get(name)),
            }
        })
        .collect()
}
