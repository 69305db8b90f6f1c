//! Performs the decisions about power in the cluster. A mark is an attribute of a node that Pacemaker forgets when it
//! stops, as the standby of a shutdown is: after the next boot the pools are served again, without a command.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use appliance::Appliance;
use appliance::render::resource_ids;
use units::HeadName;

use super::judge::{Action, ClusterView};
use crate::host::{Host, HostError, must};
use crate::observe::pacemaker_runs;
use crate::process::Invocation;
use crate::situation::{Situation, SituationError};
use crate::standby;

/// The attribute of a marked node. Its value is the head that set it.
const MARK: &str = "bulkhead-power";
/// The attribute by which Pacemaker runs no resource on a node.
const STANDBY: &str = "standby";

/// Why an action was not performed.
#[derive(Debug, thiserror::Error)]
pub enum PowerError {
    /// A command failed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The state of the cluster is not known.
    #[error(transparent)]
    Situation(#[from] SituationError),
    /// The note that this head has left the cluster.
    #[error("write {path}: {source}")]
    Note {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// Performs actions on this head.
pub struct Actor<'a> {
    /// This host.
    pub machine: &'a dyn Host,
    /// The appliance.
    pub appliance: &'a Appliance,
    /// This head.
    pub own: &'a HeadName,
    /// A file that exists after this head has left the cluster. Its directory is empty after a boot.
    pub note: &'a Path,
}

impl Actor<'_> {
    /// Whether this head has left the cluster for lack of power.
    pub fn has_left(&self) -> bool {
        self.note.exists()
    }

    /// The state of the cluster; `None` if no Pacemaker responds here.
    pub fn look(&self) -> Option<ClusterView> {
        if !pacemaker_runs(self.machine) {
            return None;
        }
        let now = Situation::look(self.machine).ok()?;
        let heads = self.appliance.heads.keys();
        let is_member = |head: &&HeadName| {
            let node = now.node(head);
            node.is_some_and(|node| node.is("online") && !node.is("unclean") && !node.is("pending"))
        };
        let members: BTreeSet<HeadName> = heads.filter(is_member).cloned().collect();
        let pools = self.appliance.pools.iter();
        let ours: BTreeSet<String> = pools
            .flat_map(|(name, pool)| resource_ids(name, pool))
            .collect();
        let is_busy = |head: &&HeadName| now.active_on(head).iter().any(|one| ours.contains(one));
        let is_standby = |head: &&HeadName| now.node(head).is_some_and(|node| node.is(STANDBY));
        Some(ClusterView {
            busy: members.iter().filter(is_busy).cloned().collect(),
            // Each mark comes with a standby.
            marks: self.marks(members.iter().filter(is_standby)),
            members,
        })
    }

    fn marks<'b>(&self, heads: impl Iterator<Item = &'b HeadName>) -> BTreeMap<HeadName, HeadName> {
        let marked = heads.filter_map(|head| {
            let query = attribute(head, MARK, &["--query", "--quiet"]);
            let output = self
                .machine
                .run(&query)
                .ok()
                .filter(|output| output.code == 0)?;
            Some((head.clone(), output.text().trim().parse().ok()?))
        });
        marked.collect()
    }

    /// Performs an action. It may be repeated.
    ///
    /// # Errors
    ///
    /// A command fails. The next decision is about the state that exists then.
    pub fn perform(&self, action: &Action) -> Result<(), PowerError> {
        match action {
            Action::None => Ok(()),
            Action::Mark(heads) => self.for_each(heads, |head| {
                // First the mark: a standby without one is not reverted.
                self.set(head, MARK, &["--update", self.own.as_str()])?;
                self.set(head, STANDBY, &["--update", "on"])
            }),
            Action::Release(heads) => self.for_each(heads, |head| {
                self.set(head, STANDBY, &["--delete"])?;
                self.set(head, MARK, &["--delete"])
            }),
            Action::Leave => {
                self.write_note()?;
                Ok(standby::stop_units(self.machine)?)
            }
            Action::Return => {
                standby::start_units(self.machine)?;
                self.remove_note();
                Ok(())
            }
            Action::PowerOff => {
                must(self.machine, &Invocation::new("systemctl", &["poweroff"]))?;
                Ok(())
            }
        }
    }

    /// Forgets that this head has left, because its cluster runs.
    pub fn remove_note(&self) {
        let _ = std::fs::remove_file(self.note);
    }

    fn write_note(&self) -> Result<(), PowerError> {
        let failed = |source| PowerError::Note {
            path: self.note.to_owned(),
            source,
        };
        if let Some(directory) = self.note.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        std::fs::write(self.note, "").map_err(failed)
    }

    /// Continues after a failure, and returns the first one.
    fn for_each(
        &self,
        heads: &[HeadName],
        then: impl Fn(&HeadName) -> Result<(), HostError>,
    ) -> Result<(), PowerError> {
        let mut first = Ok(());
        for head in heads {
            let done = then(head);
            first = first.and(done);
        }
        Ok(first?)
    }

    fn set(&self, head: &HeadName, name: &str, action: &[&str]) -> Result<(), HostError> {
        must(self.machine, &attribute(head, name, action)).map(drop)
    }
}

fn attribute(head: &HeadName, name: &str, action: &[&str]) -> Invocation {
    let mut arguments = vec!["--node", head.as_str(), "--name", name];
    arguments.extend(action);
    arguments.extend(["--lifetime", "reboot"]);
    Invocation::new("crm_attribute", &arguments)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::process::{Output, RunError};

    /// A head of a cluster that stores attributes.
    #[derive(Default)]
    struct Head {
        attributes: Mutex<BTreeMap<(String, String), String>>,
        log: Mutex<Vec<String>>,
        is_stopped: Mutex<bool>,
    }

    impl Host for Head {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            let words: Vec<&str> = invocation.arguments.iter().map(String::as_str).collect();
            let mut attributes = self.attributes.lock().expect("no panic");
            let (mut code, mut text) = (0, String::new());
            match (invocation.program.as_str(), words.as_slice()) {
                ("cibadmin", _) => code = i32::from(*self.is_stopped.lock().expect("no panic")),
                ("crm_mon", _) => {
                    let standby =
                        |head: &str| attributes.contains_key(&(head.into(), STANDBY.into()));
                    text = format!(
                        r#"<pacemaker-result><nodes>
                        <node name="left" online="true" unclean="false" pending="false" standby="{}"/>
                        <node name="right" online="false" unclean="true" pending="false" standby="{}"/></nodes>
                        <resources><resource id="pool-tank" role="Started" active="true"><node name="left"/></resource>
                        <resource id="fence-right" role="Started" active="true"><node name="left"/></resource>
                        </resources></pacemaker-result>"#,
                        standby("left"),
                        standby("right")
                    );
                }
                (
                    "crm_attribute",
                    [
                        "--node",
                        head,
                        "--name",
                        name,
                        action @ ..,
                        "--lifetime",
                        "reboot",
                    ],
                ) => {
                    let key = ((*head).to_owned(), (*name).to_owned());
                    match action {
                        ["--update", value] => {
                            attributes.insert(key, (*value).to_owned());
                        }
                        ["--delete"] => {
                            attributes.remove(&key);
                        }
                        _ => match attributes.get(&key) {
                            Some(value) => text = format!("{value}\n"),
                            None => code = 6,
                        },
                    }
                }
                ("systemctl", ["is-active" | "is-enabled", ..]) => {}
                (program, words) => {
                    let line = format!("{program} {}", words.join(" "));
                    self.log.lock().expect("no panic").push(line);
                }
            }
            let stdout = text.into_bytes();
            Ok(Output {
                code,
                stdout,
                ..Output::default()
            })
        }
    }

    #[test]
    fn mark_is_a_standby_that_its_head_reverts() {
        let text = include_str!("../../../../examples/pair.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let folder = tempfile::tempdir().expect("a directory");
        let (own, note) = (
            "left".parse().expect("a name"),
            folder.path().join("run/left"),
        );
        let machine = Head::default();
        let actor = Actor {
            machine: &machine,
            appliance: &appliance,
            own: &own,
            note: &note,
        };
        let only_left = BTreeSet::from([own.clone()]);
        let before = actor.look().expect("it responds");
        // A head that is about to be fenced is no member.
        assert_eq!(before.members, only_left);
        assert_eq!((before.busy, before.marks), (only_left, BTreeMap::new()));
        let heads = vec![own.clone()];
        actor.perform(&Action::Mark(heads.clone())).expect("marked");
        let marks = actor.look().expect("it responds").marks;
        assert_eq!(marks, [(own.clone(), own.clone())].into());
        actor.perform(&Action::Release(heads)).expect("released");
        assert!(machine.attributes.lock().expect("no panic").is_empty());
        // A standby of an administrator is no mark.
        let key = ("left".to_owned(), STANDBY.to_owned());
        machine
            .attributes
            .lock()
            .expect("no panic")
            .insert(key, "on".to_owned());
        assert!(actor.look().expect("it responds").marks.is_empty());
    }

    #[test]
    fn head_leaves_in_order_and_returns() {
        let text = include_str!("../../../../examples/pair.toml");
        let appliance = appliance::parse(text).expect("well formed").appliance;
        let folder = tempfile::tempdir().expect("a directory");
        let (own, note) = (
            "left".parse().expect("a name"),
            folder.path().join("run/left"),
        );
        let machine = Head::default();
        let actor = Actor {
            machine: &machine,
            appliance: &appliance,
            own: &own,
            note: &note,
        };
        assert!(!actor.has_left());
        for action in [
            Action::Leave,
            Action::Return,
            Action::Leave,
            Action::PowerOff,
        ] {
            actor.perform(&action).expect("performed");
        }
        assert!(actor.has_left());
        let [stop, start] = [
            ["pacemaker", "corosync-qdevice", "corosync"],
            ["corosync", "corosync-qdevice", "pacemaker"],
        ];
        let stop = stop.map(|unit| format!("systemctl stop {unit}.service"));
        let start = start.map(|unit| format!("systemctl start {unit}.service"));
        let off = vec!["systemctl poweroff".to_owned()];
        let wanted = [stop.to_vec(), start.to_vec(), stop.to_vec(), off].concat();
        assert_eq!(*machine.log.lock().expect("no panic"), wanted);
        *machine.is_stopped.lock().expect("no panic") = true;
        assert_eq!(actor.look(), None);
    }
}
