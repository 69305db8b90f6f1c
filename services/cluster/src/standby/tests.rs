//! Planned absences of the heads of a simulated cluster of two.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;
use crate::process::{Output, RunError};

/// Two heads with the pools `tank` and `vault`.
#[derive(Default)]
struct State {
    /// The head of each pool.
    served: BTreeMap<&'static str, &'static str>,
    standby: BTreeMap<String, &'static str>,
    stopped: BTreeSet<&'static str>,
    /// A head that no device powers off. Its resources are listed there until it is confirmed to be off.
    lost: Option<&'static str>,
    /// Whether an attempt to power it off has failed.
    has_failed: bool,
    /// Whether the heads that run see too few others.
    has_no_quorum: bool,
    is_lost_by_standby: bool,
    log: Vec<String>,
}

impl State {
    fn can_serve(&self, head: &str) -> bool {
        !self.stopped.contains(head) && !self.standby.contains_key(head)
    }

    /// What Pacemaker does after each change.
    fn settle(&mut self) {
        let heads: Vec<&str> = ["left", "right"]
            .into_iter()
            .filter(|head| self.can_serve(head))
            .collect();
        for pool in ["tank", "vault"] {
            let by = self.served.get(pool).copied();
            if by.is_some_and(|by| heads.contains(&by) || self.lost == Some(by)) {
                continue;
            }
            match heads.first() {
                Some(head) => self.served.insert(pool, head),
                None => self.served.remove(pool),
            };
        }
    }

    fn mon(&self) -> String {
        let nodes = ["left", "right"].map(|head| {
            let is_lost = self.lost == Some(head);
            format!(
                r#"<node name="{head}" online="{}" standby="{}" unclean="{is_lost}"/>"#,
                !self.stopped.contains(head) && !is_lost,
                self.standby.contains_key(head)
            )
        });
        let attempts = self.lost.filter(|_| self.has_failed).map(|head| {
            format!(
                r#"<fence_event action="off" target="{head}" status="failed" completed="now"/>"#
            )
        });
        let resources = ["tank", "vault"].map(|pool| match self.served.get(pool) {
            Some(head) => format!(
                r#"<resource id="pool-{pool}" role="Started" active="true"><node name="{head}"/></resource>"#
            ),
            None => format!(r#"<resource id="pool-{pool}" role="Stopped" active="false"/>"#),
        });
        let quorum = match self.has_no_quorum {
            true => r#"<summary><current_dc present="true" with_quorum="false"/></summary>"#,
            false => "",
        };
        format!(
            "<pacemaker-result>{quorum}<nodes>{}</nodes><resources>{}</resources><fence_history>{}</fence_history>\
             </pacemaker-result>",
            nodes.concat(),
            resources.concat(),
            attempts.unwrap_or_default()
        )
    }
}

struct Head(&'static str, Arc<Mutex<State>>);

impl Host for Head {
    fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
        let mut state = self.1.lock().expect("no panic");
        let words: Vec<&str> = invocation.arguments.iter().map(String::as_str).collect();
        let (mut code, mut stdout) = (0, String::new());
        match (invocation.program.as_str(), words.as_slice()) {
            ("cibadmin", _) => code = state.stopped.contains(self.0).into(),
            ("crm_mon", _) => stdout = state.mon(),
            ("crm_attribute", ["--node", head, _, _, "--update", _, _, lifetime]) => {
                let lifetime = if *lifetime == "reboot" {
                    "reboot"
                } else {
                    "forever"
                };
                state.log.push(format!("standby {head} {lifetime}"));
                state.standby.insert((*head).to_owned(), lifetime);
                if state.is_lost_by_standby {
                    (state.lost, state.has_failed) = (Some("left"), true);
                }
                state.settle();
            }
            ("crm_attribute", ["--node", head, _, _, "--query", ..]) => {
                let lifetime = state.standby.get(*head).copied();
                stdout = (if lifetime == Some("forever") {
                    "on"
                } else {
                    ""
                })
                .to_owned();
                code = i32::from(stdout.is_empty()) * 6;
            }
            ("crm_attribute", ["--node", head, _, _, "--delete", _, lifetime]) => {
                if state
                    .standby
                    .get(*head)
                    .is_some_and(|found| found == lifetime)
                {
                    state.standby.remove(*head);
                    state.settle();
                }
            }
            ("systemctl", ["is-active" | "is-enabled", ..]) => {}
            ("systemctl", [verb @ ("stop" | "start"), unit]) => {
                state.log.push(format!("{verb} {} {unit}", self.0));
                match (*verb, unit.starts_with("pacemaker")) {
                    ("stop", true) => {
                        state.stopped.insert(self.0);
                        state.standby.retain(|head, lifetime| {
                            head.as_str() != self.0 || *lifetime != "reboot"
                        });
                    }
                    ("start", true) => {
                        state.stopped.remove(self.0);
                        state.settle();
                    }
                    _ => {}
                }
            }
            ("systemctl", ["poweroff"]) => state.log.push(format!("off {}", self.0)),
            ("/bulkhead", ["pool", "move", pool, to]) => {
                state.log.push(format!("move {pool} {to}"));
                let to = if *to == "left" { "left" } else { "right" };
                let pool = if *pool == "tank" { "tank" } else { "vault" };
                state.served.insert(pool, to);
            }
            other => panic!("{other:?}"),
        }
        Ok(Output {
            code,
            stdout: stdout.into_bytes(),
            ..Output::default()
        })
    }
}

fn appliance() -> Appliance {
    let text = include_str!("../../../../examples/pair.toml");
    let mut appliance = appliance::parse(text).expect("well formed").appliance;
    let tank = appliance.pools.values().next().expect("a pool").clone();
    let name = |name: &str| name.parse().expect("a name");
    appliance.pools = [(name("tank"), tank.clone()), (name("vault"), tank)].into();
    appliance
}

struct World {
    state: Arc<Mutex<State>>,
    machines: Hosts,
}

impl World {
    fn new() -> Self {
        let state = Arc::new(Mutex::new(State {
            served: [("tank", "left"), ("vault", "right")].into(),
            ..State::default()
        }));
        let head =
            |name: &'static str| -> Box<dyn Host> { Box::new(Head(name, Arc::clone(&state))) };
        let machines = ["left", "right"].map(|name| (name.parse().expect("a name"), head(name)));
        Self {
            machines: machines.into(),
            state,
        }
    }

    fn plan<R>(&self, then: impl FnOnce(&mut Planned<'_>) -> R) -> R {
        then(&mut Planned {
            machines: &self.machines,
            appliance: &appliance(),
            program: Path::new("/bulkhead"),
            progress: &mut |_| {},
        })
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().expect("no panic").log)
    }

    fn served(&self) -> Vec<(&'static str, &'static str)> {
        let state = self.state.lock().expect("no panic");
        state
            .served
            .iter()
            .map(|(pool, head)| (*pool, *head))
            .collect()
    }
}

fn head(name: &str) -> HeadName {
    name.parse().expect("a name")
}

#[test]
fn maintenance_moves_the_pools_first_and_ends() {
    let world = World::new();
    let begun = world.plan(|planned| planned.begin_maintenance(&head("left"), false));
    assert_eq!(begun.expect("it begins"), Outcome::Changed);
    assert_eq!(world.log(), ["move tank right", "standby left forever"]);
    let again = world.plan(|planned| planned.begin_maintenance(&head("left"), false));
    assert_eq!(again.expect("it is there"), Outcome::Already);
    // The other head has no substitute now.
    let refused = world.plan(|planned| planned.begin_maintenance(&head("right"), false));
    let message = refused.expect_err("no other head").to_string();
    for part in ["tank", "vault", "left: it is in standby"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(world.log().is_empty());
    let ended = world.plan(|planned| planned.end_maintenance(&head("left")));
    assert_eq!(ended.expect("it ends"), Outcome::Changed);
    let ended = world.plan(|planned| planned.end_maintenance(&head("left")));
    assert_eq!(ended.expect("it has ended"), Outcome::Already);
    let unknown = world.plan(|planned| planned.end_maintenance(&head("middle")));
    assert!(
        unknown
            .expect_err("unknown")
            .to_string()
            .contains("left, right")
    );
}

#[test]
fn shutdown_stops_pools_before_any_cluster_and_start_serves_again() {
    let world = World::new();
    let is_here = |head: &HeadName| head.as_str() == "left";
    let done = world.plan(|planned| planned.shut_down(true, &is_here));
    assert_eq!(done.expect("it stops"), Outcome::Changed);
    assert_eq!(
        world.log(),
        [
            "standby left reboot",
            "standby right reboot",
            "stop left pacemaker.service",
            "stop left corosync-qdevice.service",
            "stop left corosync.service",
            "stop right pacemaker.service",
            "stop right corosync-qdevice.service",
            "stop right corosync.service",
            "off right",
            "off left"
        ]
    );
    assert!(world.served().is_empty());
    let again = world.plan(|planned| planned.shut_down(false, &is_here));
    assert_eq!(again.expect("it is stopped"), Outcome::Already);
    let started = world.plan(|planned| planned.start());
    assert_eq!(started.expect("it starts"), Outcome::Changed);
    assert_eq!(world.served().len(), 2);
    let again = world.plan(|planned| planned.start());
    assert_eq!(again.expect("it is served"), Outcome::Already);
}

#[test]
fn shutdown_that_was_cut_off_is_taken_back_by_start() {
    let world = World::new();
    for name in ["left", "right"] {
        let mut state = world.state.lock().expect("no panic");
        state.standby.insert(name.to_owned(), "reboot");
        state.settle();
    }
    assert!(world.served().is_empty());
    world.plan(|planned| planned.start()).expect("it starts");
    assert_eq!(world.served().len(), 2);
}

/// Without ssh the command starts its own head only, and the other one is off.
#[test]
fn start_reports_at_once_the_heads_that_it_does_not_reach() {
    let mut world = World::new();
    world.machines.remove(&head("right"));
    {
        let mut state = world.state.lock().expect("no panic");
        state.stopped.extend(["left", "right"]);
        state.settle();
    }
    let mut steps = Vec::new();
    let started = Planned {
        machines: &world.machines,
        appliance: &appliance(),
        program: Path::new("/bulkhead"),
        progress: &mut |step| steps.push(step.to_string()),
    }
    .start();
    assert_eq!(started.expect("left serves alone"), Outcome::Changed);
    assert_eq!(steps.len(), 2, "{steps:?}");
    for part in ["right: not started", "--ssh", "power it on"] {
        assert!(steps[1].contains(part), "{part}: {steps:?}");
    }
}

fn message<T: fmt::Debug>(refused: Result<T, StandbyError>) -> String {
    let error = refused.expect_err("a power-off is pending");
    assert!(matches!(error, StandbyError::PowerOff(_)), "{error}");
    error.to_string()
}

/// No device confirms that `left` is off: Pacemaker neither stops nor starts a pool.
#[test]
fn a_pending_power_off_refuses_maintenance_shutdown_and_start_at_once() {
    for has_failed in [false, true] {
        let mut world = World::new();
        world.machines.remove(&head("left"));
        {
            let mut state = world.state.lock().expect("no panic");
            (state.lost, state.has_failed) = (Some("left"), has_failed);
        }
        let begun = Instant::now();
        for (name, stop_pools) in [("right", true), ("right", false), ("left", true)] {
            let refused = world.plan(|planned| planned.begin_maintenance(&head(name), stop_pools));
            let message = message(refused);
            assert!(
                message.contains("the power-off of left is pending"),
                "{message}"
            );
            assert_eq!(message.contains("--confirm left"), has_failed, "{message}");
        }
        message(world.plan(|planned| planned.shut_down(false, &|_| false)));
        // A first attempt may still succeed.
        if has_failed {
            message(world.plan(|planned| planned.start()));
        }
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert!(world.log().is_empty());
    }
}

/// A pool does not stop, so that its head has to be powered off, which fails.
#[test]
fn a_power_off_that_fails_during_a_shutdown_ends_the_wait() {
    let world = World::new();
    world.state.lock().expect("no panic").is_lost_by_standby = true;
    let begun = Instant::now();
    let message = message(world.plan(|planned| planned.shut_down(false, &|_| false)));
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert!(
        message.contains("`stonith_admin --confirm left`"),
        "{message}"
    );
    let state = world.state.lock().expect("no panic");
    assert!(state.standby.is_empty(), "{:?}", state.standby);
}

#[test]
fn unreachable_member_prevents_the_shutdown() {
    let mut world = World::new();
    world.machines.remove(&head("right"));
    let refused = world.plan(|planned| planned.shut_down(false, &|_| false));
    let message = refused.expect_err("a member is missing").to_string();
    assert!(message.contains("right is a member"), "{message}");
    assert!(world.log().is_empty());
    assert_eq!(world.served().len(), 2);
}

/// The head booted without its networks: the other one serves, and is no member for it.
#[test]
fn shutdown_without_quorum_is_refused_and_stops_nothing() {
    let mut world = World::new();
    world.machines.remove(&head("right"));
    world.state.lock().expect("no panic").has_no_quorum = true;
    world
        .state
        .lock()
        .expect("no panic")
        .stopped
        .insert("right");
    let refused = world.plan(|planned| planned.shut_down(false, &|_| false));
    let message = refused.expect_err("right may serve").to_string();
    assert!(message.contains("left has no quorum"), "{message}");
    assert!(message.contains("right may serve"), "{message}");
    assert!(world.log().is_empty());
}

/// Both heads are in maintenance: without the check the command would block until its time limit.
#[test]
fn start_with_all_heads_in_maintenance_fails_at_once_with_their_names_and_the_command() {
    let world = World::new();
    {
        let mut state = world.state.lock().expect("no panic");
        for head in ["left", "right"] {
            state.stopped.insert(head);
            state.standby.insert(head.to_owned(), "forever");
        }
        state.settle();
    }
    let begun = Instant::now();
    let started = world.plan(|planned| planned.start());
    let error = started.expect_err("no head may serve");
    assert!(
        begun.elapsed() < START_TIME_LIMIT / 2,
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        error.to_string(),
        "not served: tank (left, right in maintenance), vault (left, right in maintenance)"
    );
    let StandbyError::Held(pools) = error else {
        panic!("{error:?}");
    };
    assert_eq!(
        pools[0].command(),
        "bulkhead appliance maintenance left off"
    );
}
