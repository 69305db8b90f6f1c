//! A running lab, from outside: enter its machines, switch their power, pull their cables, end it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use appliance::Appliance;
use cluster::Hosts;
use cluster::agent::started_ticks;
use cluster::host::Local;
use cluster::process::{Invocation, Output};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use units::{HeadName, NetworkName, PoolName};

use crate::clock;
use crate::directory::{FirstProcess, LabDirectory, PATH_IN_NODE, Setup, disks_of};
use crate::error::LabError;
use crate::inside::{CLIENT, WITNESS};
use crate::logs;
use crate::memory::MemoryGroup;
use crate::power::Power;
use crate::served::ClusterState;
use crate::wire::{HeadState, Impairment, Order, State, send_order};

/// Time limit for stopping a lab: all processes are killed, and devices may be slow.
const END_TIME_LIMIT: Duration = Duration::from_secs(60);
/// Interval between two polls of a state without events.
const POLL: Duration = Duration::from_millis(100);
/// How long one question to Pacemaker may take.
const MONITOR_TIME_LIMIT: Duration = Duration::from_secs(10);

/// Where a command is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// On a head.
    Head(HeadName),
    /// On the client node, which is attached to every network.
    Client,
    /// On the witness node.
    Witness,
    /// Among the switches: the lab's own namespaces.
    Switch,
}

impl FromStr for Node {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            CLIENT => Ok(Self::Client),
            WITNESS => Ok(Self::Witness),
            "switch" => Ok(Self::Switch),
            head => head
                .parse()
                .map(Self::Head)
                .map_err(|_| "write the name of a head, client, witness or switch".to_owned()),
        }
    }
}

/// A lab that is running, or was recently.
#[derive(Clone, Debug)]
pub struct Lab {
    name: String,
    folder: LabDirectory,
    appliance: Appliance,
    first: FirstProcess,
}

impl Lab {
    /// The running lab `name` in a directory below `base`.
    ///
    /// # Errors
    ///
    /// There is none, or it does not run any more.
    pub fn open(base: &Path, name: &str) -> Result<Self, LabError> {
        let folder = LabDirectory::new(base, name);
        if !folder.path().exists() {
            return Err(LabError::NotFound(name.to_owned()));
        }
        let read = || format!("read the setup of the lab {name}");
        let setup = Setup::load(&folder).map_err(LabError::io(read()))?;
        let first = FirstProcess::load(&folder).map_err(LabError::io(read()))?;
        let first = first.ok_or_else(|| LabError::Dead(name.to_owned()))?;
        let lab = Self {
            name: name.to_owned(),
            appliance: setup.applied().map_err(LabError::io(read()))?,
            folder,
            first,
        };
        match lab.is_alive() {
            true => Ok(lab),
            false => Err(LabError::Dead(name.to_owned())),
        }
    }

    /// Names of the labs in `base`, running or not.
    pub fn names(base: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
        let labs = entries.filter(|entry| entry.path().join("lock").exists());
        let mut names: Vec<String> = labs
            .filter_map(|e| e.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) const fn place(&self) -> &LabDirectory {
        &self.folder
    }

    /// The appliance of its heads, without fence devices that are not imitated.
    pub fn appliance(&self) -> &Appliance {
        &self.appliance
    }

    /// The text of the appliance file that its heads are set up by.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn file_text(&self) -> Result<String, LabError> {
        let read = format!("read the setup of the lab {}", self.name);
        let setup = Setup::load(&self.folder).map_err(LabError::io(read))?;
        Ok(setup.applied_text().to_owned())
    }

    /// The heads were set up by another file, on them: it is the file of the lab from now on. The nodes remain those of
    /// the first file.
    ///
    /// # Errors
    ///
    /// The file is not understood, or cannot be kept.
    pub fn has_been_set_up(&mut self, text: &str) -> Result<(), LabError> {
        let keep = || format!("keep the setup of the lab {}", self.name);
        let mut setup = Setup::load(&self.folder).map_err(LabError::io(keep()))?;
        setup.applied_text = Some(text.to_owned());
        let appliance = setup.applied().map_err(LabError::io(keep()))?;
        setup.save(&self.folder).map_err(LabError::io(keep()))?;
        self.appliance = appliance;
        Ok(())
    }

    /// All machines that can be heads, also those that the appliance has not got yet.
    ///
    /// # Errors
    ///
    /// The lab does not respond.
    pub fn head_nodes(&self) -> Result<Vec<HeadName>, LabError> {
        Ok(self.state()?.heads.into_keys().collect())
    }

    /// Its heads, by name.
    pub fn heads(&self) -> Vec<HeadName> {
        self.appliance.heads.keys().cloned().collect()
    }

    /// The process, by its pid on this host, whose end terminates the whole lab.
    pub fn first_pid(&self) -> i32 {
        self.first.pid
    }

    /// Whether it runs.
    pub fn is_alive(&self) -> bool {
        started_ticks(self.first.pid).is_ok_and(|ticks| ticks == Some(self.first.started_ticks))
    }

    fn send_order(&self, order: &Order) -> Result<State, LabError> {
        let answer =
            send_order(&self.folder.control(), order).map_err(|source| match source.kind() {
                _ if !self.is_alive() => LabError::Dead(self.name.clone()),
                _ => LabError::Io {
                    what: format!("send an order to the lab {}", self.name),
                    source,
                },
            })?;
        answer.map_err(LabError::Refused)
    }

    /// The state of the lab.
    ///
    /// # Errors
    ///
    /// The lab does not respond.
    pub fn state(&self) -> Result<State, LabError> {
        self.send_order(&Order::Tell)
    }

    /// How a head is.
    ///
    /// # Errors
    ///
    /// The lab does not respond, or has no such head.
    pub fn head_state(&self, head: &HeadName) -> Result<HeadState, LabError> {
        let mut state = self.state()?;
        let found = state.heads.remove(head);
        found.ok_or_else(|| LabError::NoNode(head.to_string()))
    }

    /// Whether a head has power.
    ///
    /// # Errors
    ///
    /// The lab does not respond, or has no such head.
    pub fn is_powered(&self, head: &HeadName) -> Result<bool, LabError> {
        Ok(self.head_state(head)?.powered)
    }

    /// Words before a command that make it run there, as root.
    ///
    /// # Errors
    ///
    /// The lab does not respond, there is no such node, or it has no power.
    pub fn enter(&self, who: &Node) -> Result<Vec<String>, LabError> {
        let pid = match who {
            Node::Head(head) => {
                let first = self.head_state(head)?.first_pid;
                Some(first.ok_or_else(|| LabError::Off(head.to_string()))?)
            }
            Node::Client => Some(self.other(CLIENT)?),
            Node::Witness => Some(self.other(WITNESS)?),
            Node::Switch => None,
        };
        // Pids of nodes are those of the lab: first enter the lab, then the node.
        let mut words = format!("nsenter -t {} -a --", self.first.pid);
        if let Some(pid) = pid {
            words.push_str(&format!(" nsenter -t {pid} -a --"));
        }
        if matches!(who, Node::Head(_) | Node::Witness) {
            words.push_str(&format!(" env PATH={PATH_IN_NODE} HOME=/root"));
        }
        Ok(words.split(' ').map(str::to_owned).collect())
    }

    fn other(&self, name: &str) -> Result<i32, LabError> {
        let state = self.state()?;
        let pid = state.others.get(name).copied();
        pid.ok_or_else(|| LabError::NoNode(name.to_owned()))
    }

    /// Runs a command there until it exits. An exit code other than 0 is no error here.
    ///
    /// # Errors
    ///
    /// The node cannot be entered, or the command exceeds its time limit.
    pub fn exec(&self, who: &Node, invocation: &Invocation) -> Result<Output, LabError> {
        let words = self.enter(who)?;
        let machine = Local { prefix: words };
        Ok(cluster::Host::run(&machine, invocation)?)
    }

    /// The same for a command that must exit with 0.
    ///
    /// # Errors
    ///
    /// As [`Lab::exec`], or the command fails.
    pub fn must(&self, who: &Node, program: &str, arguments: &[&str]) -> Result<String, LabError> {
        let output = self.exec(who, &Invocation::new(program, arguments))?;
        match output.code {
            0 => Ok(output.text()),
            code => Err(LabError::Program {
                program: format!("{program} {}", arguments.join(" ")),
                code,
                complaint: output.complaint(),
            }),
        }
    }

    /// The heads as the crate `cluster` reaches them. Only as long as they are not switched off.
    ///
    /// # Errors
    ///
    /// A head has no power.
    pub fn machines(&self) -> Result<Hosts, LabError> {
        let heads = self.appliance.heads.keys();
        heads
            .map(|head| {
                let prefix = self.enter(&Node::Head(head.clone()))?;
                let machine: Box<dyn cluster::Host> = Box::new(Local { prefix });
                Ok((head.clone(), machine))
            })
            .collect()
    }

    /// Switches the power of a head, hard, and blocks until that is done: a head that is on is
    /// booting its cluster then, a head that is off has no process left.
    ///
    /// # Errors
    ///
    /// The lab does not respond, or has no such head.
    pub fn power(&self, head: &HeadName, to: Power) -> Result<(), LabError> {
        let head = head.clone();
        let order = Order::Power {
            head,
            to,
            by_bmc: false,
        };
        self.send_order(&order).map(|_| ())
    }

    /// Switches an outlet of a power distribution unit. A head has no power when all its outlets are off.
    ///
    /// # Errors
    ///
    /// The lab does not respond, or has no such unit.
    pub fn outlet(&self, pdu: &str, outlet: &str, on: bool) -> Result<(), LabError> {
        let (pdu, outlet) = (pdu.to_owned(), outlet.to_owned());
        self.send_order(&Order::Outlet { pdu, outlet, on })
            .map(|_| ())
    }

    /// Pulls the cables of a head in `networks`, or all of them if there are none.
    ///
    /// # Errors
    ///
    /// The lab does not respond, or the head is not in such a network.
    pub fn cut(&self, head: &HeadName, networks: &[NetworkName]) -> Result<(), LabError> {
        let (head, networks) = (head.clone(), networks.iter().cloned().collect());
        self.send_order(&Order::Cut { head, networks }).map(|_| ())
    }

    /// Plugs the cables in again.
    ///
    /// # Errors
    ///
    /// As [`Lab::cut`].
    pub fn mend(&self, head: &HeadName, networks: &[NetworkName]) -> Result<(), LabError> {
        let (head, networks) = (head.clone(), networks.iter().cloned().collect());
        self.send_order(&Order::Mend { head, networks }).map(|_| ())
    }

    /// Stops every process of a head, as when a virtual machine is paused.
    ///
    /// # Errors
    ///
    /// The lab does not respond, or the head has no power.
    pub fn freeze(&self, head: &HeadName) -> Result<(), LabError> {
        let head = head.clone();
        self.send_order(&Order::Freeze { head }).map(|_| ())
    }

    /// Resumes a frozen head. A head that was switched off in the meantime stays off.
    ///
    /// # Errors
    ///
    /// The lab does not respond, or has no such head.
    pub fn thaw(&self, head: &HeadName) -> Result<(), LabError> {
        let head = head.clone();
        self.send_order(&Order::Thaw { head }).map(|_| ())
    }

    /// Delays the BMC of a head when it switches the power.
    ///
    /// # Errors
    ///
    /// The lab does not respond, or has no such head.
    pub fn set_bmc_delay(&self, head: &HeadName, delay: Duration) -> Result<(), LabError> {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let head = head.clone();
        self.send_order(&Order::SlowBmc { head, delay_ms })
            .map(|_| ())
    }

    /// Disconnects the BMC of a head from its network, or connects it.
    ///
    /// # Errors
    ///
    /// The lab does not respond, or the head has no BMC.
    pub fn set_bmc_dead(&self, head: &HeadName, dead: bool) -> Result<(), LabError> {
        let head = head.clone();
        self.send_order(&Order::DeadBmc { head, dead }).map(|_| ())
    }

    /// Sets the wall clock of a head so far ahead of this machine's, or behind it. It stays so without power.
    ///
    /// # Errors
    ///
    /// The lab was not made with clocks, or has no such head.
    pub fn set_clock(&self, head: &HeadName, ahead_s: i32) -> Result<(), LabError> {
        let what = || format!("set the clock of {head}");
        clock::set(&self.folder, head, ahead_s).map_err(LabError::io(what()))
    }

    /// The memory of a head; `None` if this host has no memory cgroups.
    pub fn memory_group(&self, head: &HeadName) -> Option<MemoryGroup> {
        MemoryGroup::of(&self.folder, head.as_str())
    }

    /// Copies the logs of all nodes into a directory, which outlives the lab.
    ///
    /// # Errors
    ///
    /// They cannot be copied.
    pub fn keep_logs(&self, to: &Path) -> Result<(), LabError> {
        logs::keep(&self.folder, to).map_err(LabError::io(format!("keep logs in {}", to.display())))
    }

    /// The disks that a head sees: their names there, and the files behind them.
    pub fn disks(&self, head: &HeadName) -> Vec<(PathBuf, PathBuf)> {
        disks_of(&self.folder, &self.appliance, head)
    }

    /// The file with the faults of the devices of a pool; its servers read it again when it changes. A line for each
    /// device, by its name on the heads, in the format of `pool-server --leg-faults`.
    pub fn leg_faults(&self, pool: &PoolName) -> PathBuf {
        self.folder.leg_faults(pool)
    }

    /// The path on this host of a file under `/etc` or `/var` of a head.
    pub fn file_of(&self, head: &HeadName, path: &str) -> PathBuf {
        let own = self.folder.machine(head.as_str());
        own.join(path.trim_start_matches('/'))
    }

    /// The state that Pacemaker reports on a head; `None` while it does not respond there.
    ///
    /// # Errors
    ///
    /// The head cannot be entered.
    pub fn cluster_view_of(&self, head: &HeadName) -> Result<Option<ClusterState>, LabError> {
        let monitor = Invocation::new("crm_mon", &["-1", "--output-as=xml", "--inactive"]);
        let monitor = monitor.within(MONITOR_TIME_LIMIT);
        let output = self.exec(&Node::Head(head.clone()), &monitor)?;
        Ok(ClusterState::parse(&output.text(), &self.appliance).filter(|_| output.code == 0))
    }

    /// The state that Pacemaker reports on the first head that has power, is not frozen, and
    /// responds. A head with quorum is preferred.
    ///
    /// # Errors
    ///
    /// The lab does not respond.
    pub fn cluster(&self) -> Result<Option<ClusterState>, LabError> {
        let mut without_quorum = None;
        for (head, state) in self.state()?.heads {
            if state.powered && !state.frozen {
                // It may be in the course of being switched off.
                if let Ok(Some(found)) = self.cluster_view_of(&head) {
                    if found.has_quorum {
                        return Ok(Some(found));
                    }
                    without_quorum.get_or_insert(found);
                }
            }
        }
        Ok(without_quorum)
    }

    /// The state as each head reports that has power, is not frozen, and responds: heads that do not see each other report
    /// different ones.
    ///
    /// # Errors
    ///
    /// The lab does not respond.
    pub fn cluster_views(&self) -> Result<BTreeMap<HeadName, ClusterState>, LabError> {
        let heads = self.state()?.heads.into_iter();
        let up = heads.filter(|(_, state)| state.powered && !state.frozen);
        let views = up.filter_map(|(head, _)| {
            let view = self.cluster_view_of(&head).ok().flatten()?;
            Some((head, view))
        });
        Ok(views.collect())
    }

    /// Impairs the cables of a head in some networks, or in all, or repairs them: packets to the head are delayed or
    /// lost.
    ///
    /// # Errors
    ///
    /// The lab does not respond, has no such head, or this host's kernel cannot do that.
    pub fn impair(
        &self,
        head: &HeadName,
        networks: &[NetworkName],
        impairment: Impairment,
    ) -> Result<(), LabError> {
        self.send_order(&Order::Impair {
            head: head.clone(),
            networks: networks.iter().cloned().collect(),
            impairment,
        })
        .map(|_| ())
    }

    /// Blocks until all heads are members and all pools and fence devices are in use.
    ///
    /// # Errors
    ///
    /// It does not come to that in time.
    pub fn wait_complete(&self, limit: Duration) -> Result<ClusterState, LabError> {
        self.wait_until("all heads and pools are up", limit, |state| {
            state.is_complete(&self.appliance)
        })
    }

    /// Blocks until Pacemaker reports the wanted state.
    ///
    /// # Errors
    ///
    /// It does not come to that in time.
    pub fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        is_wanted: impl Fn(&ClusterState) -> bool,
    ) -> Result<ClusterState, LabError> {
        let deadline = Instant::now() + limit;
        loop {
            let seen = self.cluster()?;
            if let Some(state) = seen.clone().filter(|state| is_wanted(state)) {
                return Ok(state);
            }
            if Instant::now() >= deadline {
                let seen = match seen {
                    Some(seen) => serde_json::to_string(&seen).unwrap_or_default(),
                    None => "Pacemaker responds on no head".to_owned(),
                };
                return Err(LabError::TimedOut {
                    what: what.to_owned(),
                    limit_s: limit.as_secs(),
                    seen,
                });
            }
            std::thread::sleep(POLL);
        }
    }

    /// Stops the lab: every process, mount, namespace and file of it is gone afterwards.
    ///
    /// # Errors
    ///
    /// As [`Lab::down`].
    pub fn end(self) -> Result<(), LabError> {
        Self::down(
            self.folder.path().parent().unwrap_or(Path::new("/")),
            &self.name,
        )
    }

    /// Stops the lab `name` in `base`, also an incomplete one, or one that is just starting.
    ///
    /// # Errors
    ///
    /// There is none, or a part of it cannot be removed.
    pub fn down(base: &Path, name: &str) -> Result<(), LabError> {
        let folder = LabDirectory::new(base, name);
        let lock = match File::open(folder.lock()) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LabError::NotFound(name.to_owned()));
            }
            Err(error) => return Err(LabError::io(format!("open the lock of {name}"))(error)),
        };
        let deadline = Instant::now() + END_TIME_LIMIT;
        // The holder of the lock may not have recorded its pid yet, or may be terminating.
        while !try_lock(&lock).map_err(LabError::io("lock the lab"))? {
            if let Ok(Some(first)) = FirstProcess::load(&folder) {
                kill(&first).map_err(LabError::io("kill the lab"))?;
            }
            if Instant::now() >= deadline {
                return Err(LabError::TimedOut {
                    what: format!("the end of the lab {name}"),
                    limit_s: END_TIME_LIMIT.as_secs(),
                    seen: "its lock is still held".to_owned(),
                });
            }
            std::thread::sleep(POLL);
        }
        remove_memory_groups(&folder).map_err(LabError::io("remove the memory groups of heads"))?;
        let removed = remove_directory(&folder);
        removed.map_err(LabError::io(format!("remove {}", folder.path().display())))
    }
}

/// The lock is removed last: as long as it exists, a lab that was stopped incompletely is found and stopped again.
fn remove_directory(folder: &LabDirectory) -> io::Result<()> {
    for entry in std::fs::read_dir(folder.path())? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false if entry.path() == folder.lock() => {}
            false => std::fs::remove_file(entry.path())?,
        }
    }
    std::fs::remove_dir_all(folder.path())
}

/// The only thing of a lab that the kernel does not remove by itself.
fn remove_memory_groups(folder: &LabDirectory) -> io::Result<()> {
    let machines = std::fs::read_dir(folder.machines()).into_iter().flatten();
    for machine in machines.flatten() {
        MemoryGroup::remove(folder, &machine.file_name().to_string_lossy())?;
    }
    Ok(())
}

fn try_lock(lock: &impl AsFd) -> io::Result<bool> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Kills the process if it is still the one that was noted.
fn kill(first: &FirstProcess) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(first.pid) else {
        return Ok(());
    };
    let handle = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    // Looked at after the handle was taken, so that the number cannot change hands between.
    if started_ticks(first.pid)? != Some(first.started_ticks) {
        return Ok(());
    }
    match pidfd_send_signal(&handle, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
