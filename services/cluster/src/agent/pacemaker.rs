//! Pacemaker's view of another head: whether it is a member, was fenced, or has stopped a pool.

use std::time::{Duration, Instant};

use appliance::render::pool_id;
use appliance::xml::Element;
use takeover::{Peer, Records};
use units::{HeadName, PoolName};

use crate::host::Host;
use crate::process::Invocation;

/// The part of a `node_state` that lists the operations there: erased by a fence, written at a join.
const OPERATIONS: &str = "lrm";
/// Time limit for Pacemaker, after it has recorded a fence, to erase that part on every head.
const STABLE_LIMIT: Duration = Duration::from_millis(500);
/// Polling interval of this.
const STABLE_PAUSE: Duration = Duration::from_millis(10);

/// The agent's interface to the cluster.
pub trait ClusterView {
    /// The state of the host that a label names, with regard to `pool`.
    fn peer(&self, host_name: &str, pool: &PoolName) -> Peer;
}

/// Pacemaker's own tools, on this host.
pub struct Pacemaker<'a> {
    /// The host that runs the tools.
    pub machine: &'a dyn Host,
}

impl ClusterView for Pacemaker<'_> {
    fn peer(&self, host_name: &str, pool: &PoolName) -> Peer {
        // Queries are for names of heads only, and only such are safe in an XPath.
        let Ok(head) = host_name.parse::<HeadName>() else {
            return Peer::Unknown;
        };
        let deadline = Instant::now() + STABLE_LIMIT;
        loop {
            let Some(records) = self.records(&head, pool) else {
                return Peer::Unknown;
            };
            if !records.may_be_settling() || Instant::now() >= deadline {
                let peer = records.peer();
                tracing::debug!(%pool, %head, ?peer, ?records, "state of a head by Pacemaker");
                return peer;
            }
            tracing::trace!(%pool, %head, "waiting for Pacemaker to record the fence");
            std::thread::sleep(STABLE_PAUSE);
        }
    }
}

impl Pacemaker<'_> {
    fn records(&self, head: &HeadName, pool: &PoolName) -> Option<Records> {
        // Both concurrently, because clients wait.
        let (state, has_been_fenced) = std::thread::scope(|scope| {
            let history = scope.spawn(|| self.has_been_fenced(head));
            let state = self.node_state(head);
            (state, history.join().ok().flatten())
        });
        let state = state?;
        let is_seen = is_seen(&state);
        Some(Records {
            is_seen,
            is_down: is_down(&state),
            has_operations: find(&state, &|one| one.name == OPERATIONS).is_some(),
            // Irrelevant for a head that is seen. A head that is not seen may have been fenced if the history is not
            // available.
            has_been_fenced: has_been_fenced.or(is_seen.then_some(false))?,
            has_stopped: has_stopped(&state, pool),
        })
    }

    fn node_state(&self, head: &HeadName) -> Option<Element> {
        let query = format!("//node_state[@uname='{head}']");
        let invocation = Invocation::new("cibadmin", &["--query", "--xpath", &query]);
        let output = self.machine.run(&invocation).ok()?;
        if output.code != 0 {
            tracing::warn!(%head, complaint = output.complaint(), "Pacemaker has no state of this head");
            return None;
        }
        Element::parse(&output.text()).ok()
    }

    /// Whether a power-off of `head` ever succeeded; `None` if Pacemaker does not report it.
    fn has_been_fenced(&self, head: &HeadName) -> Option<bool> {
        let arguments = ["--history", head.as_str(), "--output-as", "xml"];
        let invocation = Invocation::new("stonith_admin", &arguments);
        let output = self.machine.run(&invocation).ok()?;
        if output.code != 0 {
            tracing::warn!(%head, complaint = output.complaint(), "Pacemaker cannot report whether it was fenced");
            return None;
        }
        let history = Element::parse(&output.text()).ok()?;
        Some(has_fence(&history, head))
    }
}

/// `in_ccm` and `crmd` are booleans in older versions and join times in newer ones.
fn is_yes(value: Option<&str>) -> bool {
    match value {
        Some("true" | "online") => true,
        Some(time) => time.parse::<u64>().is_ok_and(|time| time > 0),
        None => false,
    }
}

/// Either attribute counts: the two are not updated in one step.
fn is_seen(state: &Element) -> bool {
    is_yes(state.attribute("in_ccm")) || is_yes(state.attribute("crmd"))
}

/// Set by Pacemaker after a fence, and also after an orderly shutdown.
fn is_down(state: &Element) -> bool {
    let is_down = |name| state.attribute(name) == Some("down");
    is_down("expected") && is_down("join")
}

/// Whether the last start, stop or first probe of the pool there found or left no process.
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

fn has_fence(history: &Element, head: &HeadName) -> bool {
    let is_it = |event: &Element| {
        let is = |name, value| event.attribute(name) == Some(value);
        let is_power = is("action", "off") || is("action", "reboot");
        event.name == "fence_event"
            && is("target", head.as_str())
            && is_power
            && is("status", "success")
    };
    find(history, &is_it).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Output, RunError};

    /// A host with tools that print the test's output.
    struct Tools {
        node_state: String,
        history: String,
    }

    impl Host for Tools {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            let said = match invocation.program.as_str() {
                "cibadmin" => &self.node_state,
                "stonith_admin" => &self.history,
                other => panic!("unexpected query of {other}"),
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

    /// After a fence: it is empty.
    fn erased(attributes: &str) -> String {
        format!(r#"<node_state id="1" uname="left" {attributes}/>"#)
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
    fn head_is_fenced_only_without_later_record() {
        let good = event("off", "success", "2026-01-02 10:00:00");
        let failed = event("off", "failed", "2026-01-02 11:00:00");
        let pending = event("off", "pending", "2026-01-02 11:00:00");
        let switched_on = event("on", "success", "2026-01-02 10:00:00");
        let both = |other: &String| vec![other.clone(), good.clone()];
        for (state, events, expected) in [
            (erased(DOWN), vec![good.clone()], Peer::Fenced),
            (erased(DOWN_NEW), vec![good.clone()], Peer::Fenced),
            // Independent of the order of the timestamps.
            (erased(DOWN), both(&pending), Peer::Fenced),
            (erased(DOWN), both(&failed), Peer::Fenced),
            (erased(DOWN), vec![failed.clone()], Peer::Lost),
            (erased(DOWN), vec![pending], Peer::Lost),
            (erased(DOWN), vec![switched_on], Peer::Lost),
            (erased(DOWN), vec![], Peer::Lost),
            // Fenced before, rejoined, and shut down in order: the old fence proves nothing.
            (state(DOWN, ""), vec![good.clone()], Peer::Lost),
            (state(DOWN_NEW, ""), vec![good.clone()], Peer::Lost),
            // The same head, now lost.
            (state(LOST, ""), vec![good.clone()], Peer::Lost),
            (state(MEMBER, ""), vec![good.clone()], Peer::Member),
            (state(MEMBER_NEW, ""), vec![good.clone()], Peer::Member),
        ] {
            let found = peer(&state, &history(&events));
            assert_eq!(found, expected, "{state} {events:?}");
        }
    }

    /// Recorded output of `cibadmin` and `stonith_admin` of Pacemaker 2.1.5 for one head: fenced, rejoined, its
    /// Pacemaker stopped, then its Corosync.
    #[test]
    fn absence_kinds_match_recorded_pacemaker_output() {
        let fenced_once = include_str!("recorded/history.xml");
        for (said, expected) in [
            (include_str!("recorded/fenced.xml"), Peer::Fenced),
            (include_str!("recorded/back.xml"), Peer::Stopped),
            (include_str!("recorded/pacemaker-ended.xml"), Peer::Stopped),
            (include_str!("recorded/corosync-ended.xml"), Peer::Lost),
        ] {
            assert_eq!(peer(said, fenced_once), expected, "{said}");
        }
    }

    /// Returns the outputs in order; the last one repeats.
    struct Settles(std::sync::Mutex<Vec<String>>, String);

    impl Host for Settles {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            let mut states = self.0.lock().expect("no panic");
            let said = match invocation.program.as_str() {
                "cibadmin" if states.len() > 1 => states.remove(0),
                "cibadmin" => states[0].clone(),
                _ => self.1.clone(),
            };
            Ok(Output {
                code: 0,
                stdout: said.into_bytes(),
                stderr: Vec::new(),
            })
        }
    }

    #[test]
    fn record_being_erased_is_awaited() {
        let states = vec![state(DOWN, ""), state(DOWN, ""), erased(DOWN)];
        let fenced = history(&[event("off", "success", "2026-01-02 10:00:00")]);
        let machine = Settles(std::sync::Mutex::new(states), fenced);
        let pool = "tank".parse().expect("a good name");
        let found = Pacemaker { machine: &machine }.peer("left", &pool);
        assert_eq!(found, Peer::Fenced);
    }

    #[test]
    fn resource_is_released_only_if_last_operation_was_stop() {
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
        // A stop that it reported before it was lost proves nothing now.
        let lost = state(LOST, &op("stop", "0", "0"));
        assert_eq!(peer(&lost, &history(&[])), Peer::Lost);
        assert_eq!(peer(&lost, ""), Peer::Unknown, "it may have been fenced");
    }

    #[test]
    fn host_unknown_to_cluster_is_no_proof() {
        assert_eq!(peer("", ""), Peer::Unknown);
        assert_eq!(peer("no xml", ""), Peer::Unknown);
        let tools = Tools {
            node_state: erased(DOWN),
            history: history(&[event("off", "success", "2026")]),
        };
        let pool = "tank".parse().expect("a good name");
        let hostile = Pacemaker { machine: &tools }.peer("x' or '1'='1", &pool);
        assert_eq!(hostile, Peer::Unknown);
    }
}
