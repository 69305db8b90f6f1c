//! The state of the cluster as crm_mon(8) reports it.

use std::fmt;

use appliance::render::pool_id;
use appliance::xml::{Element, XmlError};
use units::{HeadName, PoolName};

use crate::host::{Host, HostError};
use crate::pool_management::power_off_refusal;
use crate::process::Invocation;

/// `CRM_EX_DISCONNECT`: no Pacemaker responds on the host.
const EXIT_DISCONNECTED: i32 = 102;

/// Why the state of the cluster is not known.
#[derive(Debug, thiserror::Error)]
pub enum SituationError {
    /// Pacemaker is stopped.
    #[error(
        "Pacemaker does not run on this head, so the state of the cluster is unknown: `bulkhead appliance start --ssh` starts the cluster after \
         a shutdown, and `systemctl start pacemaker` this head"
    )]
    Stopped,
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
    /// Why `fence_bulkhead` refused it on this head.
    pub refusal: Option<String>,
}

impl fmt::Display for PendingPowerOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = &self.head;
        write!(
            f,
            "the power-off of {head} is pending, and no fence device has confirmed it; until then the cluster moves no pool. "
        )?;
        if let Some(refusal) = &self.refusal {
            let action = control::advice::after_refused_power_off(head, refusal);
            return write!(f, "The power-off: {action}");
        }
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

/// The start of a pool by the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PoolStart {
    /// A head serves it.
    Served,
    /// An administrator has stopped it.
    Stopped,
    /// It is not started yet.
    Pending,
    /// No head serves it, and its start failed, with the reason.
    Failed(String),
}

/// The output of crm_mon(8).
#[derive(Clone, Debug)]
pub(crate) struct Situation(Element);

impl Situation {
    pub(crate) const fn of(monitor: Element) -> Self {
        Self(monitor)
    }

    pub(crate) fn look(machine: &dyn Host) -> Result<Self, SituationError> {
        let invocation = Invocation::new("crm_mon", &["--output-as", "xml"]);
        let output = machine.run(&invocation).map_err(HostError::from)?;
        match output.code {
            0 => {}
            EXIT_DISCONNECTED => return Err(SituationError::Stopped),
            code => {
                return Err(SituationError::Tool(HostError::Failed {
                    program: invocation.program,
                    code,
                    complaint: output.complaint(),
                }));
            }
        }
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
        self.node(head).is_some_and(|node| node.is("online"))
    }

    /// The names of the resources that run, or may still run, on any head.
    pub(crate) fn active(&self) -> Vec<String> {
        let all = self.section("resources");
        let active = all.filter(|one| one.is("active") || one.attribute("role") == Some("Started"));
        active.filter_map(Element::id).map(str::to_owned).collect()
    }

    /// The names of the resources that run, or that failed and may run.
    pub(crate) fn active_or_failed(&self) -> Vec<String> {
        let all = self.section("resources");
        let active = all.filter(|one| one.is("active") || one.is("failed"));
        active.filter_map(Element::id).map(str::to_owned).collect()
    }

    /// The names of the resources that run, or may still run, on this head.
    pub(crate) fn active_on(&self, head: &HeadName) -> Vec<String> {
        let is_on = |one: &&Element| {
            let mut nodes = one.children.iter();
            (one.is("active") || one.is("failed"))
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
        let node = nodes.find(|node| node.is("unclean") && self.has_quorum())?;
        let head = node.attribute("name")?;
        Some(PendingPowerOff {
            head: head.to_owned(),
            failed_at: self.failed_power_off(head).map(str::to_owned),
            refusal: power_off_refusal(head),
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

    /// Whether an administrator has stopped the resource.
    pub(crate) fn is_stopped_by_administrator(&self, resource: &str) -> bool {
        let role = self.resource(resource);
        let role = role.and_then(|resource| resource.attribute("target_role"));
        role.is_some_and(|role| role.eq_ignore_ascii_case("stopped"))
    }

    /// The only head on which `resource` is started. A lost head may still serve, and no client can rely on it.
    pub(crate) fn server<'a>(&'a self, resource: &str) -> Option<&'a str> {
        let resource = self.resource(resource)?;
        let is_started = resource.attribute("role") == Some("Started")
            && resource.attribute("pending").is_none()
            && !resource.is("failed");
        let name = match resource.children.as_slice() {
            [node] if is_started => node.attribute("name")?,
            _ => return None,
        };
        let mut nodes = self.section("nodes");
        let is_lost = nodes.any(|node| {
            node.attribute("name") == Some(name) && node.is("unclean") && !node.is("online")
        });
        (!is_lost).then_some(name)
    }

    /// Whether the pool is served, or could be started on no head.
    pub(crate) fn start_of(&self, pool: &PoolName) -> PoolStart {
        let resource = pool_id(pool);
        if self.server(&resource).is_some() {
            return PoolStart::Served;
        }
        if self.is_stopped_by_administrator(&resource) {
            return PoolStart::Stopped;
        }
        let begin = format!("{resource}_start_");
        let mut failures = self.section("failures");
        let failure = failures.find(|failure| {
            let key = failure.attribute("op_key").unwrap_or_default();
            key.starts_with(&begin)
        });
        match failure {
            None => PoolStart::Pending,
            Some(failure) => {
                let reason = failure
                    .attribute("exitreason")
                    .filter(|text| !text.is_empty());
                let reason = reason.unwrap_or("its start failed");
                let head = failure.attribute("node").unwrap_or("a head");
                PoolStart::Failed(format!("{head}: {reason}"))
            }
        }
    }

    pub(crate) fn is_served(&self, resource: &str, by: &HeadName) -> bool {
        self.server(resource) == Some(by.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Output, RunError};

    /// The witness is lost, and then the head that serves the pools.
    #[test]
    fn refused_power_off_advises_the_witness_and_describes_the_confirmation() {
        let pending = |refusal: Option<&str>| PendingPowerOff {
            head: "left".to_owned(),
            failed_at: Some("2026-11-28 17:35:34Z".to_owned()),
            refusal: refusal.map(str::to_owned),
        };
        let refused = pending(Some("the witness does not respond")).to_string();
        for part in [
            "refused, and tried again within a minute: the witness does not respond",
            "start bulkhead-witness on its host, or power left on",
            "only if left is certainly off (cut all its power), `stonith_admin --confirm left`",
        ] {
            assert!(refused.contains(part), "{part}: {refused}");
        }
        assert!(!refused.contains("repair the fence device"), "{refused}");
        let failed = pending(None).to_string();
        assert!(failed.contains("repair the fence device"), "{failed}");
    }

    #[test]
    fn pool_that_could_be_started_on_no_head_has_the_reason() {
        let start = |role: &str, nodes: &str, failures: &str| {
            let text = format!(
                r#"<pacemaker-result><nodes><node name="left" online="true"/></nodes>
                <resources><resource id="pool-tank" role="{role}">{nodes}</resource></resources>
                <failures>{failures}</failures></pacemaker-result>"#
            );
            let situation = Situation::of(Element::parse(&text).expect("XML"));
            situation.start_of(&"tank".parse().expect("a name"))
        };
        const FAILURE: &str = r#"<failure op_key="pool-tank_start_0" node="left" exitreason="no disk has pool tank"/>"#;
        const OTHER: &str = r#"<failure op_key="pool-vm_start_0" node="left" exitreason="x"/>"#;
        let served = start("Started", r#"<node name="left" id="1"/>"#, FAILURE);
        assert_eq!(served, PoolStart::Served);
        assert_eq!(start("Stopped", "", OTHER), PoolStart::Pending);
        let failed = PoolStart::Failed("left: no disk has pool tank".to_owned());
        assert_eq!(start("Stopped", "", FAILURE), failed);
    }

    /// The cluster is stopped: its tools print XML, and the failure is a sentence.
    #[test]
    fn stopped_pacemaker_is_a_sentence_without_xml() {
        struct Stopped(i32);
        impl Host for Stopped {
            fn run(&self, _: &Invocation) -> Result<Output, RunError> {
                let xml = r#"<pacemaker-result api-version="2.30"><status code="102" message="Not connected"/></pacemaker-result>"#;
                Ok(Output {
                    code: self.0,
                    stdout: xml.into(),
                    ..Output::default()
                })
            }
        }
        let failed = |code| {
            let error = Situation::look(&Stopped(code)).expect_err("stopped");
            control::failure::chain(&error)
        };
        let stopped = failed(EXIT_DISCONNECTED);
        assert!(stopped.contains("`systemctl start pacemaker`"), "{stopped}");
        let other = failed(1);
        assert_eq!(other, "crm_mon ended with 1: Not connected");
    }
}
