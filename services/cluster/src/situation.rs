//! The state of the cluster as crm_mon(8) reports it.

use std::fmt;

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

/// A head that has to be off before Pacemaker acts on its resources, and that no fence device has confirmed to be off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPowerOff {
    /// The head.
    pub head: String,
    /// Time of the last attempt, if it failed.
    pub failed_at: Option<String>,
}

impl fmt::Display for PendingPowerOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = &self.head;
        write!(
            f,
            "the power-off of {head} is pending, and no fence device has confirmed it; until then the cluster moves no pool. "
        )?;
        match self.failed_at {
            None => write!(
                f,
                "Its fence devices are being tried: repeat the command in a minute"
            )?,
            Some(_) => write!(
                f,
                "The last attempt failed: repair the fence device, or cut all power of {head} and only then run \
                 `stonith_admin --confirm {head}`"
            )?,
        }
        f.write_str(" (\"No takeover: fencing is not confirmed\" in the guide to failures)")
    }
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

    /// The names of the resources that run, or that failed and may run.
    pub(crate) fn active_or_failed(&self) -> Vec<String> {
        let all = self.section("resources");
        let active = all.filter(|one| is(one, "active") || is(one, "failed"));
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

    /// Whether the heads that see each other may act.
    pub(crate) fn has_quorum(&self) -> bool {
        let dc = self.section("summary").find(|e| e.name == "current_dc");
        dc.is_none_or(|dc| dc.attribute("with_quorum") != Some("false"))
    }

    /// The power-off that the cluster requires and that is not confirmed. Without quorum it powers no head off.
    pub(crate) fn pending_power_off(&self) -> Option<PendingPowerOff> {
        let mut nodes = self.section("nodes");
        let node = nodes.find(|node| is(node, "unclean") && self.has_quorum())?;
        let head = node.attribute("name")?;
        Some(PendingPowerOff {
            head: head.to_owned(),
            failed_at: self.failed_power_off(head).map(str::to_owned),
        })
    }

    /// A pending power-off with an attempt that has failed since `before`: waiting longer is useless.
    pub(crate) fn new_failed_power_off(&self, before: &Self) -> Option<PendingPowerOff> {
        let pending = self.pending_power_off()?;
        let is_new = pending.failed_at.as_deref() != before.failed_power_off(&pending.head);
        (pending.failed_at.is_some() && is_new).then_some(pending)
    }

    /// Time of the last finished attempt to power the head off, if it failed.
    fn failed_power_off(&self, head: &str) -> Option<&str> {
        let mut events = self.section("fence_history").filter(|event| {
            event.attribute("target") == Some(head)
                && event.attribute("action") != Some("on")
                && event.attribute("status") != Some("pending")
        });
        let last = events.next()?;
        let is_failed = last.attribute("status") == Some("failed");
        is_failed.then(|| last.attribute("completed").unwrap_or_default())
    }

    pub(crate) fn resource(&self, id: &str) -> Option<&Element> {
        self.section("resources").find(|one| one.id() == Some(id))
    }

    /// The only head on which `resource` is started. A lost head may still serve, and no client can rely on it.
    pub(crate) fn server<'a>(&'a self, resource: &str) -> Option<&'a str> {
        let resource = self.resource(resource)?;
        let is_started = resource.attribute("role") == Some("Started")
            && resource.attribute("pending").is_none()
            && !is(resource, "failed");
        let name = match resource.children.as_slice() {
            [node] if is_started => node.attribute("name")?,
            _ => return None,
        };
        let mut nodes = self.section("nodes");
        let is_lost = nodes.any(|node| {
            node.attribute("name") == Some(name) && is(node, "unclean") && !is(node, "online")
        });
        (!is_lost).then_some(name)
    }

    pub(crate) fn is_served(&self, resource: &str, by: &HeadName) -> bool {
        self.server(resource) == Some(by.as_str())
    }
}

/// Whether a flag of crm_mon is set.
pub(crate) fn is(element: &Element, attribute: &str) -> bool {
    element.attribute(attribute) == Some("true")
}
