//! Upgrades of two heads that are simulated command by command: every command can be the last one of a run.

use std::sync::{Arc, Mutex};

use super::*;
use crate::process::{Output, RunError};

const OLD: &str = "0.1.0";
const NEW: &str = "0.2.0";
const HEADS: [&str; 2] = ["left", "right"];
const POOLS: [&str; 2] = ["tank", "vault"];

/// One fault of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    InstallFails,
    InstallHasNoEffect,
    HeadDoesNotReturn,
    Fence,
    CheckFindsError,
    PoolStaysIncomplete,
    HeadUnitCrashes,
}

struct State {
    installed: BTreeMap<&'static str, &'static str>,
    /// The version that each active unit of a head was started with.
    units: BTreeMap<(&'static str, String), &'static str>,
    served: BTreeMap<&'static str, &'static str>,
    attributes: BTreeMap<(String, String), String>,
    fenced: Option<&'static str>,
    /// A head that started and does not join.
    lost: Option<&'static str>,
    fault: Option<Fault>,
    /// Number of changes until the run is killed.
    changes_left: usize,
    log: Vec<String>,
}

impl State {
    fn new() -> Self {
        let all = super::super::observe::units();
        let units = HEADS.iter().flat_map(|head| {
            let used = all.iter().filter(|unit| !unit.contains("qdevice"));
            used.map(|unit| ((*head, (*unit).to_owned()), OLD))
        });
        Self {
            installed: HEADS.map(|head| (head, OLD)).into(),
            units: units.collect(),
            served: [("tank", "left"), ("vault", "right")].into(),
            attributes: BTreeMap::new(),
            fenced: None,
            lost: None,
            fault: None,
            changes_left: usize::MAX,
            log: Vec::new(),
        }
    }

    fn is_active(&self, head: &str, unit: &str) -> bool {
        self.units
            .keys()
            .any(|(other, name)| *other == head && name == unit)
    }

    fn is_member(&self, head: &str) -> bool {
        let is_off = [self.fenced, self.lost].contains(&Some(head_of(head)));
        self.is_active(head, "pacemaker.service") && !is_off
    }

    fn attribute(&self, head: &str, name: &str) -> Option<&String> {
        self.attributes.get(&(head.to_owned(), name.to_owned()))
    }

    /// What Pacemaker does after each change. A pool must never be without a head.
    fn settle(&mut self) {
        for pool in POOLS {
            let can =
                |head: &&&str| self.is_member(head) && self.attribute(head, "standby").is_none();
            let by = self.served.get(pool).copied();
            if by.is_some_and(|by| can(&&by)) {
                continue;
            }
            let other = HEADS.iter().find(can).copied();
            match other {
                Some(head) => {
                    self.served.insert(pool, head);
                }
                None => {
                    self.log.push(format!("{pool} has no head"));
                    self.served.remove(pool);
                }
            }
        }
    }

    fn mon(&self) -> String {
        let nodes = HEADS.map(|head| {
            let standby = self.attribute(head, "standby").is_some();
            let online = self.is_member(head);
            format!(
                r#"<node name="{head}" online="{online}" standby="{standby}" unclean="false"/>"#
            )
        });
        let resources = POOLS.map(|pool| match self.served.get(pool) {
            Some(head) => format!(
                r#"<resource id="pool-{pool}" role="Started" active="true"><node name="{head}"/></resource>"#
            ),
            None => format!(r#"<resource id="pool-{pool}" role="Stopped" active="false"/>"#),
        });
        let fences = self.fenced.map(|head| {
            format!(
                r#"<fence_event action="off" target="{head}" status="success" completed="now"/>"#
            )
        });
        format!(
            "<pacemaker-result><nodes>{}</nodes><resources>{}</resources><fence_history>{}</fence_history>\
             </pacemaker-result>",
            nodes.concat(),
            resources.concat(),
            fences.unwrap_or_default()
        )
    }

    fn report(&self, head: &'static str) -> String {
        let mut text = format!("version\tbulkhead {}\npackage\t\n", self.installed[head]);
        for unit in super::super::observe::units() {
            match self.is_active(head, unit) {
                true => text += &format!("active\t{unit}\n"),
                false if unit.contains("qdevice") => {}
                false => text += &format!("stopped\t{unit}\n"),
            }
        }
        let units = self.units.iter().filter(|((other, _), _)| *other == head);
        for ((_, unit), version) in units {
            let is_ours = unit.starts_with("bulkhead");
            if is_ours && *version != self.installed[head] {
                text += "replaced\thead\n";
            }
        }
        text
    }

    fn switch(&mut self, head: &'static str, verb: &str, unit: &str) {
        self.log.push(format!("{verb} {head} {unit}"));
        match verb {
            "stop" => {
                self.units.remove(&(head, unit.to_owned()));
                if self.fault == Some(Fault::Fence) && unit == "pacemaker.service" {
                    self.fenced = Some(head);
                }
            }
            _ if self.fault == Some(Fault::HeadUnitCrashes) && unit == HEAD_UNIT => {}
            _ => {
                self.units
                    .insert((head, unit.to_owned()), self.installed[head]);
                if self.fault == Some(Fault::HeadDoesNotReturn) {
                    self.lost = Some(head);
                }
            }
        }
        self.settle();
    }

    /// Counts a change; false if the run is killed before it.
    fn may_change(&mut self) -> bool {
        let may = self.changes_left > 0;
        self.changes_left = self.changes_left.saturating_sub(1);
        may
    }
}

fn head_of(name: &str) -> &'static str {
    if name == "left" { "left" } else { "right" }
}

fn killed() -> RunError {
    RunError::Start {
        program: "killed".to_owned(),
        source: std::io::ErrorKind::Interrupted.into(),
    }
}

struct Head(&'static str, Arc<Mutex<State>>);

impl Host for Head {
    fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
        let mut state = self.1.lock().expect("no panic");
        let words: Vec<&str> = invocation.arguments.iter().map(String::as_str).collect();
        let is_change = match (invocation.program.as_str(), words.as_slice()) {
            ("crm_attribute", [.., "--query", _, _, _]) => false,
            ("crm_attribute", _) | ("/bulkhead", ["pool", ..]) => true,
            ("systemctl", [verb, ..]) => matches!(*verb, "start" | "stop"),
            _ => false,
        };
        if state.changes_left == 0 || is_change && !state.may_change() {
            return Err(killed());
        }
        let (mut code, mut stdout) = (0, String::new());
        match (invocation.program.as_str(), words.as_slice()) {
            ("cibadmin", _) => code = i32::from(!state.is_member(self.0)),
            ("crm_mon", _) => stdout = state.mon(),
            ("crm_attribute", ["--node", head, "--name", name, action, rest @ ..]) => {
                let key = ((*head).to_owned(), (*name).to_owned());
                match *action {
                    "--update" => {
                        state.attributes.insert(key, rest[0].to_owned());
                    }
                    "--delete" if *rest == ["--lifetime", "forever"] => {
                        state.attributes.remove(&key);
                    }
                    "--delete" => {}
                    _ => match state.attributes.get(&key) {
                        Some(value) => stdout.clone_from(value),
                        None => code = 6,
                    },
                }
                state.settle();
            }
            ("systemctl", ["is-active", _, unit]) => {
                code = i32::from(!state.is_active(self.0, unit));
            }
            ("systemctl", ["is-enabled", _, unit]) => code = i32::from(unit.contains("qdevice")),
            ("systemctl", [verb, unit]) => state.switch(self.0, verb, unit),
            ("sh", ["-c", _, "state", ..]) => stdout = state.report(self.0),
            ("/bulkhead", ["pool", "move", pool, to]) => {
                state.log.push(format!("move {pool} {to}"));
                let pool = if *pool == "tank" { "tank" } else { "vault" };
                state.served.insert(pool, head_of(to));
            }
            ("/bulkhead", ["status", ..]) => {
                let is_incomplete = state.fault == Some(Fault::PoolStaysIncomplete)
                    && state.installed.values().any(|version| *version == NEW);
                let health = if is_incomplete { "DEGRADED" } else { "ONLINE" };
                stdout = format!(r#"{{"pool":{{"health":"{health}","legs":null,"scan":null}}}}"#);
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
    let text = include_str!("../../../../../examples/pair.toml");
    let mut appliance = appliance::parse(text).expect("well formed").appliance;
    let mut pool = appliance.pools.values().next().expect("a pool").clone();
    let name = |name: &str| name.parse().expect("a name");
    appliance.pools.clear();
    for (pool_name, home) in [("tank", "left"), ("vault", "right")] {
        pool.home = Some(home.parse().expect("a name"));
        appliance.pools.insert(name(pool_name), pool.clone());
    }
    appliance
}

struct World {
    state: Arc<Mutex<State>>,
    machines: Hosts,
}

impl World {
    fn new() -> Self {
        let state = Arc::new(Mutex::new(State::new()));
        let machines = HEADS.map(|name| -> (HeadName, Box<dyn Host>) {
            let machine = Head(name, Arc::clone(&state));
            (name.parse().expect("a name"), Box::new(machine))
        });
        Self {
            machines: machines.into(),
            state,
        }
    }

    fn change<R>(&self, then: impl FnOnce(&mut State) -> R) -> R {
        then(&mut self.state.lock().expect("no panic"))
    }

    fn upgrade(&self, version: &'static str) -> Result<usize, UpgradeError> {
        let install = |head: &HeadName, _: &dyn Host| {
            self.change(|state| {
                if !state.may_change() {
                    return Err("killed".to_owned());
                }
                let head = head_of(head.as_str());
                let is_idle = !state.served.values().any(|by| *by == head);
                assert!(is_idle && !state.is_member(head), "{head} is in use");
                state.log.push(format!("install {head}"));
                match state.fault {
                    Some(Fault::InstallFails) => return Err("no space left on device".to_owned()),
                    Some(Fault::InstallHasNoEffect) => {}
                    _ => state.installed.extend([(head, version)]),
                }
                Ok(())
            })
        };
        let verify = |_: &HeadName| {
            let finds = self.change(|state| state.fault == Some(Fault::CheckFindsError));
            Ok(match finds {
                true => vec!["error[disk-missing]".to_owned()],
                false => Vec::new(),
            })
        };
        let wanted = Wanted {
            program: version.to_owned(),
            package: None,
            downgrade: version == OLD,
        };
        Upgrade {
            machines: &self.machines,
            appliance: &appliance(),
            program: Path::new("/bulkhead"),
            wanted: &wanted,
            install: &install,
            verify: &verify,
            limits: Limits {
                member: Duration::ZERO,
                served: Duration::ZERO,
                complete: Duration::ZERO,
                poll: Duration::ZERO,
            },
            progress: &mut |_| {},
        }
        .run()
    }

    #[track_caller]
    fn assert_done(&self, version: &str) {
        self.change(|state| {
            for head in HEADS {
                assert_eq!(state.installed[head], version, "{head}");
                assert!(!state.report(head).contains("replaced"), "{head}");
                assert!(state.is_member(head), "{head}");
            }
            assert!(state.attributes.is_empty(), "{:?}", state.attributes);
            assert_eq!(state.served, [("tank", "left"), ("vault", "right")].into());
            let outages = state.log.iter().filter(|line| line.contains("no head"));
            assert_eq!(outages.count(), 0, "{:?}", state.log);
        });
    }
}

#[test]
fn heads_are_upgraded_one_after_the_other_and_pools_return() {
    let world = World::new();
    let steps = world.upgrade(NEW).expect("upgraded");
    world.assert_done(NEW);
    let log = world.change(|state| std::mem::take(&mut state.log));
    let picked: Vec<&str> = log
        .iter()
        .map(String::as_str)
        .filter(|line| line.starts_with("move") || line.starts_with("install"))
        .collect();
    assert_eq!(
        picked,
        [
            "move tank right",
            "install left",
            "move tank left",
            "move vault left",
            "install right",
            "move vault right"
        ],
        "{log:?}"
    );
    assert!(steps > 10, "{steps}");
    assert_eq!(world.upgrade(NEW).expect("nothing is left"), 0);
    assert!(
        world.change(|state| state.log.is_empty()),
        "nothing was changed"
    );
}

#[test]
fn run_that_is_killed_before_any_change_is_continued_by_the_next() {
    let mut changes = 0;
    loop {
        let world = World::new();
        world.change(|state| state.changes_left = changes);
        let first = world.upgrade(NEW);
        world.change(|state| state.changes_left = usize::MAX);
        if first.is_ok() {
            break;
        }
        let second = world.upgrade(NEW);
        assert!(second.is_ok(), "killed before change {changes}: {second:?}");
        world.assert_done(NEW);
        changes += 1;
    }
    assert!(changes > 20, "{changes}");
}

/// Each fault, the sentence about it, and whether the next run completes once it is repaired.
#[test]
fn each_fault_stops_the_upgrade_at_one_head_and_the_next_run_completes() {
    for (fault, sentence) in [
        (Fault::InstallFails, "no space left on device"),
        (
            Fault::InstallHasNoEffect,
            "succeeded without effect; left: 0.1.0",
        ),
        (Fault::HeadUnitCrashes, "succeeded without effect"),
        (Fault::CheckFindsError, "error[disk-missing]"),
        (Fault::PoolStaysIncomplete, "is not complete"),
        (
            Fault::HeadDoesNotReturn,
            "left did not become a member of the cluster within 0 s",
        ),
        (Fault::Fence, "left was powered off by the cluster"),
    ] {
        let world = World::new();
        world.change(|state| state.fault = Some(fault));
        let error = world.upgrade(NEW).expect_err("it stops");
        assert!(error.to_string().contains(sentence), "{fault:?}: {error}");
        let UpgradeError::Stopped(stopped) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(stopped.heads.len(), 2, "{:?}", stopped.heads);
        world.change(|state| {
            assert_eq!(state.installed["right"], OLD, "{fault:?}: the other head");
            assert_eq!(state.served["tank"], "right", "{fault:?}");
            (state.fault, state.fenced, state.lost) = (None, None, None);
        });
        let next = world.upgrade(NEW);
        assert!(next.is_ok(), "{fault:?}: {next:?}");
        world.assert_done(NEW);
    }
}

#[test]
fn failed_upgrade_is_reverted_by_the_older_version() {
    for fault in [Fault::CheckFindsError, Fault::InstallFails] {
        let world = World::new();
        world.change(|state| state.fault = Some(fault));
        world.upgrade(NEW).expect_err("it stops");
        world.change(|state| state.fault = None);
        world.upgrade(OLD).expect("the older version");
        world.assert_done(OLD);
    }
    // From the end of a complete upgrade, too.
    let world = World::new();
    world.upgrade(NEW).expect("upgraded");
    world.upgrade(OLD).expect("the older version");
    world.assert_done(OLD);
}

#[test]
fn unfinished_upgrade_refuses_another_version() {
    let world = World::new();
    world.change(|state| state.fault = Some(Fault::InstallFails));
    world.upgrade(NEW).expect_err("it stops");
    world.change(|state| state.fault = None);
    let error = world.upgrade("0.3.0").expect_err("another version");
    assert!(
        error
            .to_string()
            .contains("the upgrade of left to 0.2.0 is not completed"),
        "{error}"
    );
}
