//! The state of the cluster as crm_mon(8) reports it.

use appliance::xml::{Element, XmlError};
use units::HeadName;

use crate::host::{Host, HostError, must};
use crate::process::Invocation;

/// Why the state of the cluster is not known.
#[derive(Debug, thiserror::Error)]
pub enum SituationError {
    /// crm_mon failed.
    #[error(transparent)]
    Tool(#[from] HostError),
    /// Its output cannot be parsed.
    #[error("parse the output of crm_mon")]
    Xml(#[from] XmlError),
}

/// The output of crm_mon(8).
#[derive(Clone, Debug)]
pub(crate) struct Situation(Element);

impl Situation {
    pub(crate) fn look(machine: &dyn Host) -> Result<Self, SituationError> {
        let output = must(
            machine,
            &Invocation::new("crm_mon", &["--output-as", "xml"]),
        )?;
        Ok(Self(Element::parse(&output.text())?))
    }

    pub(crate) fn section<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a Element> + use<'a> {
        let section = self.0.child(name);
        section.into_iter().flat_map(|section| &section.children)
    }

    pub(crate) fn node(&self, head: &HeadName) -> Option<&Element> {
        let mut nodes = self.section("nodes");
        nodes.find(|node| node.attribute("name") == Some(head.as_str()))
    }

    /// Whether the head is a member of the cluster.
    pub(crate) fn is_member(&self, head: &HeadName) -> bool {
        self.node(head).is_some_and(|node| is(node, "online"))
    }

    /// The names of the resources that run, or may still run, on any head.
    pub(crate) fn active(&self) -> Vec<String> {
        let all = self.section("resources");
        let active =
            all.filter(|one| is(one, "active") || one.attribute("role") == Some("Started"));
        active.filter_map(Element::id).map(str::to_owned).collect()
    }

    /// The names of the resources that run, or may still run, on this head.
    pub(crate) fn active_on(&self, head: &HeadName) -> Vec<String> {
        let is_on = |one: &&Element| {
            let mut nodes = one.children.iter();
            (is(one, "active") || is(one, "failed"))
                && nodes.any(|node| node.attribute("name") == Some(head.as_str()))
        };
        let active = self.section("resources").filter(is_on);
        active.filter_map(Element::id).map(str::to_owned).collect()
    }

    pub(crate) fn resource(&self, id: &str) -> Option<&Element> {
        self.section("resources").find(|one| one.id() == Some(id))
    }

    /// The only head on which `resource` is started.
    pub(crate) fn server<'a>(&'a self, resource: &str) -> Option<&'a str> {
        let resource = self.resource(resource)?;
        let is_started = resource.attribute("role") == Some("Started")
            && resource.attribute("pending").is_none()
            && !is(resource, "failed");
        match resource.children.as_slice() {
            [node] if is_started => node.attribute("name"),
            _ => None,
        }
    }

    pub(crate) fn is_served(&self, resource: &str, by: &HeadName) -> bool {
        self.server(resource) == Some(by.as_str())
    }
}

/// Whether a flag of crm_mon is set.
pub(crate) fn is(element: &Element, attribute: &str) -> bool {
    element.attribute(attribute) == Some("true")
}
