//! `fence_bulkhead`, a fence agent that powers nothing off: it stands before the devices of a head in each level of Pacemaker's fencing
//! topology, as `fence_heuristics_ping` of fence-agents does, and fails if this head should not power that head off. It decides by the witness of
//! the records of legs (`leg_door::PowerOff`).
//!
//! A head that the cluster sees is powered off for a reason of its own, such as a failed stop: that is permitted at once.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use cluster::host::Host;
use cluster::process::Invocation;
use leg_door::{LegFiles, PowerOff};
use rustix::time::{ClockId, clock_gettime};

/// Longest input, in bytes.
const INPUT_BYTES_MAX: u64 = 64 << 10;
/// Time limit for Corosync's tool.
const TOOL_LIMIT: Duration = Duration::from_secs(2);
/// A refusal holds for the next level of the same power-off, which follows within this time.
const SAME_REQUEST: Duration = Duration::from_millis(250);
/// A head that returned to the cluster within this time after a refusal was lost, and did not fail.
const RETURNED: Duration = Duration::from_secs(60);

/// The agent's `metadata`.
const META_DATA: &str = r#"<?xml version="1.0"?>
<resource-agent name="fence_bulkhead" shortdesc="The consent of a Bulkhead witness before a power-off">
  <longdesc>Powers nothing off. It succeeds if this head should power the other one off, and must stand before a fence device in the same level of a
fencing topology. In a split of the networks between two heads it fails on the head that could not serve the pools of the other one.</longdesc>
  <vendor-url>https://example.org/bulkhead</vendor-url>
  <parameters>
    <parameter name="action" unique="0" required="1"><getopt mixed="-o, --action=[action]"/><content type="string" default="off"/><shortdesc lang="en">Fencing action</shortdesc></parameter>
    <parameter name="head" unique="0" required="1"><getopt mixed="--head=[head]"/><content type="string"/><shortdesc lang="en">Name of the head to be powered off</shortdesc></parameter>
    <parameter name="number" unique="0" required="1"><getopt mixed="--number=[number]"/><content type="integer"/><shortdesc lang="en">Its number in the cluster</shortdesc></parameter>
    <parameter name="shared_pools" unique="0" required="0"><getopt mixed="--shared-pools"/><content type="boolean" default="0"/><shortdesc lang="en">All heads reach the disks of some pools</shortdesc></parameter>
  </parameters>
  <actions>
    <action name="off"/>
    <action name="on"/>
    <action name="status"/>
    <action name="monitor"/>
    <action name="metadata"/>
    <action name="validate-all"/>
  </actions>
</resource-agent>
"#;

/// The surroundings of one run.
pub(crate) struct Fence<'a> {
    pub(crate) machine: &'a dyn Host,
    pub(crate) legs: &'a dyn LegFiles,
    /// The configuration of legs.
    pub(crate) config: &'a Path,
    /// Directory of the notes about refusals; empty after a boot.
    pub(crate) run_dir: &'a Path,
}

/// The result of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) is_success: bool,
    /// For standard output.
    pub(crate) output: &'static str,
    /// For standard error, which Pacemaker copies into its log.
    pub(crate) why: Option<String>,
}

impl Outcome {
    const fn done(output: &'static str) -> Self {
        Self {
            is_success: true,
            output,
            why: None,
        }
    }

    fn of(decision: Result<String, String>) -> Self {
        Self {
            is_success: decision.is_ok(),
            output: "",
            why: Some(match decision {
                Ok(why) => format!("permitted: {why}"),
                Err(why) => format!("refused: {why}"),
            }),
        }
    }
}

/// For a person who runs it.
const USAGE: &str = "fence_bulkhead reads its action and parameters from standard input, one NAME=VALUE a line, and takes no arguments.
It powers nothing off: it succeeds if this head should power the other one off.

Example:
  printf 'action=off\\nhead=left\\nnumber=1\\n' | fence_bulkhead

`stonith_admin --fence HEAD` has the cluster power a head off.
";

/// Runs the agent with the parameters on standard input.
pub(crate) fn run(fence: &Fence<'_>, arguments: &[String]) -> ExitCode {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Tools that list agents request it by arguments.
    if let ["-o", "metadata"] | ["--action=metadata"] = arguments[..] {
        let _ = std::io::stdout().write_all(META_DATA.as_bytes());
        return ExitCode::SUCCESS;
    }
    if !arguments.is_empty() || std::io::stdin().is_terminal() {
        output::log().write_line(USAGE);
        return ExitCode::FAILURE;
    }
    let mut input = String::new();
    let read = std::io::stdin()
        .take(INPUT_BYTES_MAX)
        .read_to_string(&mut input);
    let outcome = match read {
        Ok(_) => fence.perform(&input),
        Err(error) => Outcome::of(Err(format!("read the parameters: {error}"))),
    };
    // Pacemaker may be gone; then the result has no receiver.
    let _ = std::io::stdout().write_all(outcome.output.as_bytes());
    if let Some(why) = outcome.why {
        output::log().write_line(&format!("{why}\n"));
    }
    ExitCode::from(u8::from(!outcome.is_success))
}

impl Fence<'_> {
    fn perform(&self, input: &str) -> Outcome {
        let lines = input.lines().filter_map(|line| line.split_once('='));
        let parameters: BTreeMap<&str, &str> = lines
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        match parameters.get("action").copied().unwrap_or("off") {
            "metadata" | "meta-data" => Outcome::done(META_DATA),
            "off" | "reboot" => Outcome::of(self.decide(&parameters)),
            "on" | "status" | "monitor" | "validate-all" => Outcome::done(""),
            other => Outcome::of(Err(format!("there is no action {other}"))),
        }
    }

    fn decide(&self, parameters: &BTreeMap<&str, &str>) -> Result<String, String> {
        let parameter = |name: &str| {
            let value = parameters.get(name).copied();
            value.ok_or_else(|| format!("the parameter {name} is missing"))
        };
        let head: units::HeadName = parameter("head")?
            .parse()
            .map_err(|error| format!("the parameter head: {error}"))?;
        let number: u32 = parameter("number")?
            .parse()
            .map_err(|error| format!("the parameter number: {error}"))?;
        let note = self.run_dir.join(format!("fence-{head}.refused"));
        let since_refusal = refused_before(&note);
        if since_refusal.is_some_and(|age| age < SAME_REQUEST) {
            return Err("refused just now".to_owned());
        }
        let is_member = || self.is_member(number);
        if is_member() && since_refusal.is_none_or(|age| age >= RETURNED) {
            return Ok(format!("the cluster sees {head}"));
        }
        let decision = self.legs.may_power_off(&PowerOff {
            config: self.config,
            head: head.as_str(),
            has_shared_pools: parameters.get("shared_pools") == Some(&"1"),
            is_member: &is_member,
        });
        match &decision {
            // The note of the refusal for which the head was lost counts. Renewed at each request, it would also hold for
            // requests for a reason of their own, such as a failed stop.
            Err(_) if since_refusal.is_some_and(|age| age < RETURNED) && is_member() => {}
            // Without the note each level decides again, which is slower only.
            Err(why) => drop(std::fs::write(
                &note,
                format!("{}\n{why}\n", now().as_millis()),
            )),
            Ok(_) => drop(std::fs::remove_file(&note)),
        }
        decision
    }

    /// Whether Corosync sees the head; not if its tool fails.
    fn is_member(&self, number: u32) -> bool {
        let key = format!("runtime.members.{number}.status");
        let get = Invocation::new("corosync-cmapctl", &["-g", &key]).within(TOOL_LIMIT);
        let output = self.machine.run(&get);
        output
            .is_ok_and(|output| output.code == 0 && output.text().trim_end().ends_with("= joined"))
    }
}

/// Time since the boot.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

/// Time since the refusal in the note; none if there is none.
fn refused_before(note: &Path) -> Option<Duration> {
    let text = std::fs::read_to_string(note).ok()?;
    let at = Duration::from_millis(text.lines().next()?.parse().ok()?);
    Some(now().saturating_sub(at))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use cluster::process::{Output, RunError};
    use leg_door::{FenceRequest, LastOwner};

    use super::*;

    /// A cluster in which the other head is a member or not, and a witness with this decision.
    struct World {
        is_member: bool,
        decision: Result<String, String>,
        requests: RefCell<Vec<(String, bool)>>,
    }

    struct Tool(bool);

    impl Host for Tool {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            assert_eq!(invocation.arguments, ["-g", "runtime.members.1.status"]);
            let status = if self.0 { "joined" } else { "left" };
            Ok(Output {
                stdout: format!("runtime.members.1.status (str) = {status}\n").into(),
                ..Output::default()
            })
        }
    }

    impl LegFiles for World {
        fn last_owner(&self, _: u64) -> LastOwner {
            LastOwner::Unknown
        }
        fn requested_fence(&self, _: u64) -> Option<FenceRequest> {
            None
        }
        fn confirm_fence(&self, _: u64, _: u64) -> Result<(), String> {
            Ok(())
        }
        fn may_power_off(&self, request: &PowerOff<'_>) -> Result<String, String> {
            let of = (request.head.to_owned(), request.has_shared_pools);
            assert_eq!((request.is_member)(), self.is_member);
            self.requests.borrow_mut().push(of);
            self.decision.clone()
        }
    }

    fn perform(world: &World, folder: &Path, input: &str) -> Outcome {
        let fence = Fence {
            machine: &Tool(world.is_member),
            legs: world,
            config: Path::new("/etc/bulkhead/legs.toml"),
            run_dir: folder,
        };
        fence.perform(input)
    }

    fn world(is_member: bool, decision: Result<&str, &str>) -> World {
        World {
            is_member,
            decision: decision.map(str::to_owned).map_err(str::to_owned),
            requests: RefCell::default(),
        }
    }

    const OFF: &str = "action=off\nnodename=left\nhead=left\nnumber=1\nshared_pools=1\n";

    #[test]
    fn a_lost_head_is_powered_off_with_consent_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let consents = world(false, Ok("silent"));
        let outcome = perform(&consents, folder.path(), OFF);
        assert_eq!(outcome.why.as_deref(), Some("permitted: silent"));
        assert!(outcome.is_success);
        assert_eq!(*consents.requests.borrow(), [("left".to_owned(), true)]);
        let refuses = world(false, Err("alive"));
        let outcome = perform(&refuses, folder.path(), OFF);
        assert_eq!(outcome.why.as_deref(), Some("refused: alive"));
        assert!(!outcome.is_success);
    }

    /// The next level of the topology belongs to the same power-off: the head may have returned in between.
    #[test]
    fn a_refusal_holds_for_the_next_level_and_for_a_head_that_returned() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(!perform(&world(false, Err("alive")), folder.path(), OFF).is_success);
        let returned = world(true, Ok("silent"));
        let outcome = perform(&returned, folder.path(), OFF);
        assert_eq!(outcome.why.as_deref(), Some("refused: refused just now"));
        let note = folder.path().join("fence-left.refused");
        let second = now().saturating_sub(Duration::from_secs(1));
        std::fs::write(&note, second.as_millis().to_string()).expect("writable");
        perform(&returned, folder.path(), OFF);
        assert_eq!(returned.requests.borrow().len(), 1);
        assert!(!note.exists());
    }

    /// It returned, and then a stop of a resource fails there. Each request is refused for a minute, but not longer.
    #[test]
    fn a_refusal_is_not_renewed_by_requests_after_the_head_returned() {
        let folder = tempfile::tempdir().expect("a folder");
        let note = folder.path().join("fence-left.refused");
        let returned = world(true, Err("left is a member of the cluster again"));
        let since = |age_s: u64| {
            let at = now().saturating_sub(Duration::from_secs(age_s));
            let text = at.as_millis().to_string();
            std::fs::write(&note, &text).expect("writable");
            text
        };
        let read = || std::fs::read_to_string(&note).expect("a note");
        let before = since(59);
        assert!(!perform(&returned, folder.path(), OFF).is_success);
        assert_eq!(read(), before);
        since(60);
        assert!(perform(&returned, folder.path(), OFF).is_success);
        // It is lost again: another refusal.
        let before = since(20);
        assert!(!perform(&world(false, Err("alive")), folder.path(), OFF).is_success);
        assert_ne!(read(), before);
    }

    #[test]
    fn a_head_that_the_cluster_sees_is_powered_off_without_the_witness() {
        let folder = tempfile::tempdir().expect("a folder");
        let failed = world(true, Err("alive"));
        assert!(perform(&failed, folder.path(), OFF).is_success);
        assert!(failed.requests.borrow().is_empty());
    }

    #[test]
    fn other_actions_succeed_without_a_decision_and_bad_parameters_do_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let world = world(false, Ok("silent"));
        let perform = |input: &str| perform(&world, folder.path(), input);
        assert!(
            perform("action=metadata\n")
                .output
                .contains("name=\"fence_bulkhead\"")
        );
        for action in ["monitor", "status", "on", "validate-all"] {
            assert!(
                perform(&format!("action={action}\n")).is_success,
                "{action}"
            );
        }
        for bad in [
            "action=off\n",
            "action=off\nhead=left\n",
            "action=off\nhead=../x\nnumber=1\n",
            "action=off\nhead=left\nnumber=x\n",
            "action=list\n",
        ] {
            assert!(!perform(bad).is_success, "{bad}");
        }
        assert!(world.requests.borrow().is_empty());
    }
}
