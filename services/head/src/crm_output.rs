//! Parts of the output of crm_mon(8).

use appliance::xml::Element;

/// A resource in the output of crm_mon.
pub fn resource<'a>(monitor: &'a Element, id: &str) -> Option<&'a Element> {
    let resources = &monitor.child("resources")?.children;
    resources.iter().find(|one| one.id() == Some(id))
}
