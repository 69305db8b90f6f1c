//! What Pacemaker knows of another head: whether it is a member, was fenced, or has let go of a
//! pool.

use appliance::render::pool_id;
use appliance::xml::Element;
use takeover::Peer;
use units::{HeadName, PoolName};

use crate::machine::Machine;
use crate::process::Invocation;

/// What the agent asks of the cluster.
pub trait ClusterView {
    /// What is known of the host that a label names, with regard to `pool`.
    fn peer(&self, host_name: &str, pool: &PoolName) -> Peer;
}

/// Pacemaker's own tools, on this machine.
pub struct Pacemaker<'a> {
    /// Where the tools are run.
    pub machine: &'a dyn Machine,
}

impl ClusterView for Pacemaker<'_> {
    fn peer(&self, host_name: &str, pool: &PoolName) -> Peer {
        // Only names of heads are asked for, and only such can stand in a query.
        let Ok(head) = host_name.parse::<HeadName>() else {
            return Peer::Unknown;
        };
        // Both at once: clients wait. The second answer counts only where the first says down.
        let (state, was_fenced) = std::thread::scope(|scope| {
            let history = scope.spawn(|| self.was_fenced(&head));
            let state = self.node_state(&head);
            (state, history.join().unwrap_or(false))
        });
        let Some(state) = state else {
            return Peer::Unknown;
        };
        match standing(&state) {
            Standing::Member if has_stopped(&state, pool) => Peer::Stopped,
            Standing::Member => Peer::Member,
            // Down is what Pacemaker notes after a fence, and also after an orderly end.
            Standing::Down if was_fenced => Peer::Fenced,
            Standing::Down | Standing::Lost => Peer::Lost,
        }
    }
}

impl Pacemaker<'_> {
    fn node_state(&self, head: &HeadName) -> Option<Element> {
        let query = format!("//node_state[@uname='{head}']");
        let invocation = Invocation::new("cibadmin", &["--query", "--xpath", &query]);
        let output = self.machine.run(&invocation).ok()?;
        if output.code != 0 {
            tracing::warn!(%head, complaint = output.complaint(), "Pacemaker does not know it");
            return None;
        }
        Element::parse(&output.text()).ok()
    }

    /// Whether the last power-off of `head` that ended, ended well.
    fn was_fenced(&self, head: &HeadName) -> bool {
        let arguments = ["--history", head.as_str(), "--output-as", "xml"];
        let Ok(output) = self
            .machine
            .run(&Invocation::new("stonith_admin", &arguments))
        else {
            return false;
        };
        Element::parse(&output.text()).is_ok_and(|history| last_fence_succeeded(&history, head))
    }
}

/// Where a head stands, by its `node_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Member,
    Down,
    Lost,
}

/// `in_ccm` and `crmd` are words in older versions and times of joining in newer ones.
fn is_yes(value: Option<&str>) -> bool {
    match value {
        Some("true" | "online") => true,
        Some(time) => time.parse::<u64>().is_ok_and(|time| time > 0),
        None => false,
    }
}

fn standing(state: &Element) -> Standing {
    let is_down = |name| state.attribute(name) == Some("down");
    // Either sign of life counts: the two are not updated in one step.
    if is_yes(state.attribute("in_ccm")) || is_yes(state.attribute("crmd")) {
        Standing::Member
    } else if is_down("expected") && is_down("join") {
        Standing::Down
    } else {
        Standing::Lost
    }
}

/// Whether the last start, stop or first test of the pool there found or left no process.
fn has_stopped(state: &Element, pool: &PoolName) -> bool {
    let id = pool_id(pool);
    let resource = find(state, &|one| {
        one.name == "lrm_resource" && one.id() == Some(id.as_str())
    });
    let last_id = format!("{id}_last_0");
    let last = resource.and_then(|resource| find(resource, &|one| one.id() == Some(&last_id)));
    last.is_some_and(|last| {
        let is = |name, value| last.attribute(name) == Some(value);
        // -1 is pending: a start that has only begun must not look like a stop.
        let is_over = is("op-status", "0");
        let found_none = is("operation", "monitor") && is("rc-code", "7");
        let stopped = is("operation", "stop") && is("rc-code", "0");
        is_over && (found_none || stopped)
    })
}

fn find<'a>(element: &'a Element, wanted: &dyn Fn(&Element) -> bool) -> Option<&'a Element> {
    if wanted(element) {
        return Some(element);
    }
    element
        .children
        .iter()
        .find_map(|child| find(child, wanted))
}

fn last_fence_succeeded(history: &Element, head: &HeadName) -> bool {
    let mut events = Vec::new();
    collect(history, "fence_event", &mut events);
    let ended = events.into_iter().filter(|event| {
        let is = |name, value| event.attribute(name) == Some(value);
        let is_power = is("action", "off") || is("action", "reboot");
        is("target", head.as_str()) && is_power && !is("status", "pending")
    });
    // Times of one format of one clock: later ones are greater as text.
    let last =
        ended.max_by_key(|event| event.attribute("completed").unwrap_or_default().to_owned());
    last.is_some_and(|event| event.attribute("status") == Some("success"))
}

fn collect<'a>(element: &'a Element, name: &str, found: &mut Vec<&'a Element>) {
    if element.name == name {
        found.push(element);
    }
    for child in &element.children {
        collect(child, name, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Output, RunError};

    /// A machine whose tools say what a test wants.
    struct Tools {
        node_state: String,
        history: String,
    }

    impl Machine for Tools {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            let said = match invocation.program.as_str() {
                "cibadmin" => &self.node_state,
                "stonith_admin" => &self.history,
                other => panic!("{other} is not asked"),
            };
            Ok(Output {
                code: if said.is_empty() { 105 } else { 0 },
                stdout: said.clone().into_bytes(),
                stderr: Vec::new(),
            })
        }
    }

    fn peer(node_state: &str, history: &str) -> Peer {
        let tools = Tools {
            node_state: node_state.to_owned(),
            history: history.to_owned(),
        };
        let pool = "tank".parse().expect("a good name");
        Pacemaker { machine: &tools }.peer("left", &pool)
    }

    fn state(attributes: &str, last: &str) -> String {
        format!(
            r#"<node_state id="1" uname="left" {attributes}><lrm id="1"><lrm_resources>
            <lrm_resource id="pool-tank" type="pool" class="ocf" provider="bulkhead">{last}</lrm_resource>
            </lrm_resources></lrm></node_state>"#
        )
    }

    fn event(action: &str, status: &str, completed: &str) -> String {
        format!(
            r#"<fence_event action="{action}" target="left" client="c" origin="right" status="{status}" completed="{completed}"/>"#
        )
    }

    fn history(events: &[String]) -> String {
        format!(
            r#"<pacemaker-result api-version="2.28"><fence_history target="left">{}</fence_history><status code="0"/></pacemaker-result>"#,
            events.concat()
        )
    }

    const MEMBER: &str = r#"in_ccm="true" crmd="online" join="member" expected="member""#;
    const MEMBER_NEW: &str =
        r#"in_ccm="1700000000" crmd="1700000001" join="member" expected="member""#;
    const DOWN: &str = r#"in_ccm="false" crmd="offline" join="down" expected="down""#;
    const DOWN_NEW: &str = r#"in_ccm="0" crmd="0" join="down" expected="down""#;
    const LOST: &str = r#"in_ccm="false" crmd="offline" join="member" expected="member""#;

    fn op(operation: &str, code: &str, status: &str) -> String {
        format!(
            r#"<lrm_rsc_op id="pool-tank_last_0" operation="{operation}" rc-code="{code}" op-status="{status}" interval="0"/>"#
        )
    }

    #[test]
    fn a_head_is_fenced_only_if_it_is_down_and_its_last_fence_succeeded() {
        let good = event("off", "success", "2026-01-02 10:00:00");
        let later_failed = event("off", "failed", "2026-01-02 11:00:00");
        let later_pending = event("off", "pending", "2026-01-02 11:00:00");
        for (attributes, events, expected) in [
            (DOWN, vec![good.clone()], Peer::Fenced),
            (DOWN_NEW, vec![good.clone()], Peer::Fenced),
            (DOWN, vec![good.clone(), later_pending], Peer::Fenced),
            (DOWN, vec![later_failed, good.clone()], Peer::Lost),
            (
                DOWN,
                vec![event("on", "success", "2026-01-02 10:00:00")],
                Peer::Lost,
            ),
            (DOWN, vec![], Peer::Lost),
            // Fenced before, came back, and is lost now: the old fence proves nothing.
            (LOST, vec![good.clone()], Peer::Lost),
            (MEMBER, vec![good.clone()], Peer::Member),
            (MEMBER_NEW, vec![good], Peer::Member),
        ] {
            let found = peer(&state(attributes, ""), &history(&events));
            assert_eq!(found, expected, "{attributes} {events:?}");
        }
    }

    #[test]
    fn a_member_has_let_go_only_if_its_last_operation_says_so() {
        for (last, expected) in [
            (op("stop", "0", "0"), Peer::Stopped),
            (op("monitor", "7", "0"), Peer::Stopped),
            (op("start", "0", "0"), Peer::Member),
            (op("start", "193", "-1"), Peer::Member),
            (op("stop", "1", "4"), Peer::Member),
            (op("stop", "0", "-1"), Peer::Member),
            (op("monitor", "0", "0"), Peer::Member),
            (String::new(), Peer::Member),
        ] {
            assert_eq!(peer(&state(MEMBER, &last), ""), expected, "{last}");
        }
        // Its word from before it was lost is not its word now.
        assert_eq!(peer(&state(LOST, &op("stop", "0", "0")), ""), Peer::Lost);
    }

    #[test]
    fn a_host_that_the_cluster_does_not_know_proves_nothing() {
        assert_eq!(peer("", ""), Peer::Unknown);
        assert_eq!(peer("no xml", ""), Peer::Unknown);
        let tools = Tools {
            node_state: state(DOWN, ""),
            history: history(&[event("off", "success", "2026")]),
        };
        let pool = "tank".parse().expect("a good name");
        let hostile = Pacemaker { machine: &tools }.peer("x' or '1'='1", &pool);
        assert_eq!(hostile, Peer::Unknown);
    }
}
