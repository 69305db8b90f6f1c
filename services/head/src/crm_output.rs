//! Parts of the output of crm_mon(8).

use appliance::xml::Element;

/// A resource in the output of crm_mon.
pub fn resource<'a>(monitor: &'a Element, id: &str) -> Option<&'a Element> {
    let resources = &monitor.child("resources")?.children;
    resources.iter().find(|one| one.id() == Some(id))
}

/// Whether an attribute is `true`.
pub fn is(element: &Element, attribute: &str) -> bool {
    element.attribute(attribute) == Some("true")
}
