//! Reads the state that an upgrade depends on: the version on each head, the processes that still run other versions, and
//! the members and pools of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use appliance::Appliance;
use appliance::plan::{HEAD_UNIT, LEG_UNIT};
use appliance::render::pool_id;
use control::answer::ScanView;
use control::failure::chain;
use control::legs::{LegState, LegsView};
use serde::Deserialize;
use units::{HeadName, PoolName};

use super::PACKAGE;
use super::decide::{HeadState, Observed, PoolState};
use crate::host::{Host, HostError, Hosts, must};
use crate::observe::pacemaker_runs;
use crate::process::Invocation;
use crate::situation::{Situation, SituationError};
use crate::standby::{UNITS, active_on, is_excluded};

/// The attribute of a node with the version that an upgrade began to install there.
const MARK: &str = "bulkhead-upgrade";
/// Time limit for the state of a head.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Prints lines of words separated by tabs: the version of the binary `$1` and of the package `$2`, the processes that
/// run another binary than the one at that path now, and the state of each unit in the remaining arguments. Processes of
/// containers and labs on the head do not count.
const SCRIPT: &str = r#"
tab=$(printf '\t'); name=${1##*/}; set -f
report() { local IFS="$tab"; printf '%s\n' "$*"; }
report version "$("$1" --version 2>/dev/null | head -n 1)"
report package "$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$2" 2>/dev/null)"
installed=$(stat -L -c %d:%i "$1" 2>/dev/null)
shift 2
for unit in "$@"; do
    if systemctl is-active --quiet "$unit" 2>/dev/null; then report active "$unit"
    elif systemctl is-enabled --quiet "$unit" 2>/dev/null; then report stopped "$unit"; fi
done
set +f
own=$(readlink /proc/self/ns/pid)
grep -alsF "$name" /proc/[0-9]*/cmdline | while read -r file; do
    [ "$(readlink "${file%/cmdline}/ns/pid" 2>/dev/null)" = "$own" ] || continue
    set -f; set -- $({ tr '\0' ' ' <"$file"; } 2>/dev/null); set +f
    [ "${1##*/}" = "$name" ] || continue
    case "$2" in head | leg-server | pool-server | pool-keys) ;; *) continue ;; esac
    runs=$(stat -L -c %d:%i "${file%/cmdline}/exe" 2>/dev/null) || continue
    [ "$runs" = "$installed" ] || report replaced "$2"
done
true
"#;

/// Why the state is not known.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// No Pacemaker responds.
    #[error("Pacemaker responds on no head")]
    NoCluster,
    /// Its state cannot be read.
    #[error("read the state of the cluster")]
    Situation(#[from] SituationError),
    /// A command failed on a head.
    #[error("{0}: read the state of the cluster")]
    Head(HeadName, #[source] HostError),
}

/// A head and its connection.
pub(super) type Reached<'a> = (&'a HeadName, &'a dyn Host);

/// Reads the state of all heads and pools. Of fences it returns those that the cluster has recorded, by head and time.
///
/// # Errors
///
/// No head returns the state of the cluster.
pub fn observe(
    machines: &Hosts,
    appliance: &Appliance,
    program: &Path,
) -> Result<(Observed, BTreeSet<(String, String)>), StateError> {
    let ((by, machine), now) = best_view(machines)?;
    let mut observed = Observed {
        power_off: now.pending_power_off().map(|pending| pending.to_string()),
        ..Observed::default()
    };
    for head in appliance.heads.keys() {
        let state = match machines.get(head) {
            None => Err("there is no connection".to_owned()),
            Some(machine) => head_state(machine.as_ref(), program).map_err(|error| chain(&error)),
        };
        let failed = |error| StateError::Head(by.clone(), error);
        let state = match state {
            Ok(state) => Ok(HeadState {
                is_member: now.node(head).is_some_and(|node| {
                    node.is("online") && !node.is("pending") && !node.is("shutdown")
                }),
                is_excluded: is_excluded(machine, head).map_err(failed)?,
                mark: mark(machine, head).map_err(failed)?,
                resources: active_on(appliance, &now, head).into_iter().collect(),
                ..state
            }),
            Err(why) => Err(why),
        };
        observed.heads.insert(head.clone(), state);
    }
    observed.pools = pools(machines, appliance, program, &now);
    Ok((observed, fences(&now)))
}

/// A head that can change the cluster's configuration: of those with a Pacemaker, the one that sees most members, since
/// a head that has just started sees itself only.
pub(super) fn best_view(machines: &Hosts) -> Result<(Reached<'_>, Situation), StateError> {
    let mut best: Option<((bool, usize), Reached<'_>, Situation)> = None;
    let mut failure = None;
    for (head, machine) in machines {
        if !pacemaker_runs(machine.as_ref()) {
            continue;
        }
        let now = match Situation::look(machine.as_ref()) {
            Ok(now) => now,
            Err(error) => {
                failure = Some(error);
                continue;
            }
        };
        let members = now.section("nodes").filter(|node| node.is("online"));
        let score = (now.has_quorum(), members.count());
        if best.as_ref().is_none_or(|(other, ..)| score > *other) {
            best = Some((score, (head, machine.as_ref()), now));
        }
    }
    match (best, failure) {
        (Some((_, by, now)), _) => Ok((by, now)),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(StateError::NoCluster),
    }
}

/// The units of a head that run our binary, or that belong to the cluster.
pub(super) fn units() -> Vec<&'static str> {
    UNITS.into_iter().chain([LEG_UNIT, HEAD_UNIT]).collect()
}

fn head_state(machine: &dyn Host, program: &Path) -> Result<HeadState, HostError> {
    let program = program.to_string_lossy();
    let mut arguments = vec!["-c", SCRIPT, "state", &program, PACKAGE];
    arguments.extend(units());
    let invocation = Invocation::new("sh", &arguments).within(TIME_LIMIT);
    Ok(parse(&must(machine, &invocation)?.text()))
}

fn parse(text: &str) -> HeadState {
    let mut state = HeadState::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words.as_slice() {
            ["version", text] => {
                let version = text.split_whitespace().nth(1);
                state.program = version.map(str::to_owned);
            }
            ["package", text] => {
                let version = text.strip_prefix("installed ");
                state.package = version.map(str::to_owned);
            }
            ["active", unit] => state.active_units.extend([(*unit).to_owned()]),
            ["stopped", unit] => state.stopped_units.extend([(*unit).to_owned()]),
            ["replaced", process] => state.replaced.extend([(*process).to_owned()]),
            _ => tracing::debug!(line, "ignored an unknown line"),
        }
    }
    state
}

fn attribute(head: &HeadName, action: &[&str]) -> Invocation {
    let mut arguments = vec!["--node", head.as_str(), "--name", MARK];
    arguments.extend(action);
    arguments.extend(["--lifetime", "forever"]);
    Invocation::new("crm_attribute", &arguments)
}

/// The mark of a head. Without one the command fails.
fn mark(machine: &dyn Host, head: &HeadName) -> Result<Option<String>, HostError> {
    let output = machine.run(&attribute(head, &["--query", "--quiet"]))?;
    let version = output.text().trim().to_owned();
    Ok((output.code == 0 && !version.is_empty()).then_some(version))
}

/// Marks a head, or removes its mark.
pub(super) fn set_mark(
    machine: &dyn Host,
    head: &HeadName,
    version: Option<&str>,
) -> Result<(), HostError> {
    let invocation = match version {
        Some(version) => attribute(head, &["--update", version]),
        None => attribute(head, &["--delete"]),
    };
    must(machine, &invocation).map(drop)
}

/// The power-offs that the cluster has recorded, by head and time.
fn fences(now: &Situation) -> BTreeSet<(String, String)> {
    let events = now.section("fence_history").filter(|event| {
        event.attribute("status") == Some("success") && event.attribute("action") != Some("on")
    });
    let found = events.filter_map(|event| {
        let (target, at) = (event.attribute("target")?, event.attribute("completed")?);
        Some((target.to_owned(), at.to_owned()))
    });
    found.collect()
}

/// The pools that the cluster runs, and that no administrator has stopped.
fn pools(
    machines: &Hosts,
    appliance: &Appliance,
    program: &Path,
    now: &Situation,
) -> BTreeMap<PoolName, PoolState> {
    let mut found = BTreeMap::new();
    for (name, pool) in &appliance.pools {
        let id = pool_id(name);
        let is_stopped = now.resource(&id).is_none_or(|resource| {
            let role = resource.attribute("target_role");
            role.is_some_and(|role| role.eq_ignore_ascii_case("stopped"))
        });
        if is_stopped {
            continue;
        }
        let server: Option<HeadName> = now.server(&id).and_then(|server| server.parse().ok());
        let machine = server.as_ref().and_then(|server| machines.get(server));
        let state = PoolState {
            trouble: machine.and_then(|machine| trouble(machine.as_ref(), program, name)),
            home: pool.home.clone(),
            server,
        };
        found.insert(name.clone(), state);
    }
    found
}

/// A part of the response of `bulkhead status POOL --json`.
#[derive(Deserialize)]
struct Response {
    pool: Status,
}

#[derive(Deserialize)]
struct Status {
    health: String,
    legs: Option<LegsView>,
    scan: Option<ScanView>,
}

/// Why the pool is not complete.
fn trouble(machine: &dyn Host, program: &Path, pool: &PoolName) -> Option<String> {
    let program = program.to_string_lossy();
    let invocation = Invocation::new(&program, &["status", pool.as_str(), "--json"]);
    let output = match machine.run(&invocation) {
        Ok(output) if output.code == 0 => output,
        Ok(output) => return Some(output.complaint()),
        Err(error) => return Some(chain(&error)),
    };
    match serde_json::from_slice::<Response>(&output.stdout) {
        Ok(response) => response.pool.trouble(),
        Err(error) => Some(format!("its status cannot be parsed: {error}")),
    }
}

impl Status {
    fn trouble(&self) -> Option<String> {
        if self.health != "ONLINE" {
            return Some(format!("it is {}", self.health));
        }
        let legs = self.legs.iter().flat_map(|legs| &legs.legs);
        let mut out = legs.filter(|leg| leg.state != LegState::Current);
        if let Some(leg) = out.next() {
            return Some(format!("leg {} is {}", leg.name, leg.state));
        }
        let scan = self.scan.as_ref()?;
        let is_copying = scan.function == "resilver" && scan.state == "running";
        is_copying.then(|| "a resilver is running".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Local;

    #[test]
    fn state_of_a_head_is_parsed() {
        let text = "version\tbulkhead 0.2.0\npackage\tinstalled 0.2.0~deb12\nactive\tpacemaker.service\n\
                    stopped\tcorosync.service\nreplaced\thead\nnews\tx\n";
        let state = parse(text);
        assert_eq!(state.program.as_deref(), Some("0.2.0"));
        assert_eq!(state.package.as_deref(), Some("0.2.0~deb12"));
        let set = |word: &str| BTreeSet::from([word.to_owned()]);
        assert_eq!(state.active_units, set("pacemaker.service"));
        assert_eq!(state.stopped_units, set("corosync.service"));
        assert_eq!(state.replaced, set("head"));
        // An install that was cut off.
        let state = parse("version\t\npackage\thalf-configured 0.2.0~deb12\n");
        assert_eq!((state.program, state.package), (None, None));
    }

    /// A real process, before and after its file was replaced.
    #[test]
    fn process_of_a_replaced_binary_is_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory
            .path()
            .join(format!("upgraded-{}", std::process::id()));
        std::fs::copy("/bin/sh", &program).expect("a copy");
        // The second argument selects the servers: a script of that name.
        std::fs::write(directory.path().join("head"), "echo ready; read line\n").expect("written");
        let mut server = std::process::Command::new(&program)
            .arg("head")
            .current_dir(directory.path())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("runs");
        let mut ready = [0; 6];
        let stdout = server.stdout.as_mut().expect("piped");
        std::io::Read::read_exact(stdout, &mut ready).expect("it runs");
        let state = || head_state(&Local::default(), &program).expect("read");
        assert!(state().replaced.is_empty(), "{:?}", state());
        let new = directory.path().join("new");
        std::fs::copy("/bin/sh", &new).expect("a copy");
        std::fs::rename(&new, &program).expect("replaced");
        assert_eq!(state().replaced, BTreeSet::from(["head".to_owned()]));
        drop(server.stdin.take());
        assert!(server.wait().expect("it exits").code().is_some());
        assert!(state().replaced.is_empty(), "{:?}", state());
    }

    #[test]
    fn incomplete_pools_are_named_with_the_reason() {
        let pool = |json: &str| {
            let response: Response = serde_json::from_str(json).expect("JSON");
            response.pool.trouble()
        };
        let scan = |function: &str| {
            format!(
                r#"{{"pool":{{"health":"ONLINE","legs":null,"scan":{{"function":"{function}","state":"running",
                "examined":1,"to_examine":2,"repaired":0,"errors":0}}}}}}"#
            )
        };
        assert_eq!(pool(&scan("scrub")), None);
        assert_eq!(
            pool(&scan("resilver")).as_deref(),
            Some("a resilver is running")
        );
        let degraded = r#"{"pool":{"health":"DEGRADED","legs":null,"scan":null}}"#;
        assert_eq!(pool(degraded).as_deref(), Some("it is DEGRADED"));
    }
}
