//! The supervisor of a lab: it creates the switches, starts nodes and devices, and carries out
//! orders. Only the supervisor has the state of power and cables.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use appliance::Appliance;
use units::{HeadName, NetworkName};

use super::switch::{self, Plug};
use super::unit::{Kind, Unit};
use super::{bmc, boot, chain, pdu, root, step, witness};
use crate::directory::{LabDirectory, Setup};
use crate::fabric::{self, Port};
use crate::memory::MemoryGroup;
use crate::power::Power;
use crate::wire::{HeadState, Impairment, Order, Response, State, read_line};

/// The message that `lab up` expects.
pub const READY: &str = "ready";
/// Options of unshare(1) for a node.
const NODE_NAMESPACES: &[&str] = &["--net", "--mount", "--pid", "--uts", "--ipc"];
/// The same for a device; its processes are those of the supervisor.
const DEVICE: &[&str] = &["--net", "--mount"];
/// Time limit for the processes of a head to stop: a process in a disk request stops after that
/// request.
const FREEZE_TIME_LIMIT: Duration = Duration::from_secs(10);
/// Interval between two scans, for processes that were started in the meantime.
const FREEZE_POLL: Duration = Duration::from_millis(1);

/// A head as hardware: its cables and its processes.
struct Head {
    plug: Plug,
    ports: Vec<Port>,
    unit: Option<Unit>,
    state: HeadState,
}

/// A device outside of the nodes.
struct Device {
    plug: Plug,
    ports: Vec<Port>,
    /// Kept, so that its pipes stay open.
    _unit: Unit,
}

/// The state of the lab.
struct Supervisor {
    folder: LabDirectory,
    appliance: Appliance,
    heads: BTreeMap<HeadName, Mutex<Head>>,
    bmcs: BTreeMap<HeadName, Device>,
    /// The client, the witness and the power distribution units, by name.
    others: BTreeMap<String, Unit>,
    outlets_off: Mutex<BTreeSet<(String, String)>>,
}

/// Builds the lab and carries out orders until it is stopped.
pub fn run(folder: &LabDirectory) -> io::Result<ExitCode> {
    let setup = Setup::load(folder)?;
    let supervisor = Arc::new(Supervisor::build(folder, &setup)?);
    let listener = UnixListener::bind(folder.control()).map_err(step("listen for orders"))?;
    for head in supervisor.heads.keys() {
        supervisor.power(head, Power::On)?;
    }
    let mut stdout = io::stdout();
    stdout.write_all(format!("{READY}\n").as_bytes())?;
    stdout.flush()?;
    for stream in listener.incoming() {
        let supervisor = Arc::clone(&supervisor);
        let stream = stream?;
        std::thread::spawn(move || {
            if let Err(error) = supervisor.serve(&stream) {
                tracing::warn!(error = %chain(&error), "an order was not taken");
            }
        });
    }
    Ok(ExitCode::SUCCESS)
}

impl Supervisor {
    fn build(folder: &LabDirectory, setup: &Setup) -> io::Result<Self> {
        let appliance = setup.appliance()?;
        switch::make(&appliance).map_err(step("make the switches"))?;
        let mut heads = BTreeMap::new();
        for (name, head) in &appliance.heads {
            root::prepare(folder, setup, name.as_str()).map_err(step(format!("prepare {name}")))?;
            let head = Head {
                plug: Plug::head(head.number),
                ports: fabric::head_ports(&appliance, name),
                unit: None,
                state: HeadState::default(),
            };
            heads.insert(name.clone(), Mutex::new(head));
        }
        let mut supervisor = Self {
            folder: folder.clone(),
            appliance,
            heads,
            bmcs: BTreeMap::new(),
            others: BTreeMap::new(),
            outlets_off: Mutex::default(),
        };
        supervisor.add_bmcs()?;
        supervisor.add_pdus()?;
        let client = fabric::client_ports(&supervisor.appliance);
        supervisor.add_node(boot::CLIENT, Plug::CLIENT, &client)?;
        if !witness::addresses(&supervisor.appliance).is_empty() {
            root::prepare(folder, setup, boot::WITNESS).map_err(step("prepare the witness"))?;
            let ports = witness::ports(&supervisor.appliance);
            supervisor.add_node(boot::WITNESS, Plug::WITNESS, &ports)?;
        }
        Ok(supervisor)
    }

    fn add_bmcs(&mut self) -> io::Result<()> {
        for (name, head) in &self.appliance.heads {
            if bmc::of(&self.appliance, name).is_none() {
                continue;
            }
            let (plug, ports) = (Plug::bmc(head.number), bmc::ports(&self.appliance, name));
            let device = bmc::device(name);
            let unit = self.device("bmc", name.as_str(), &device, plug, &ports)?;
            let device = Device {
                plug,
                ports,
                _unit: unit,
            };
            self.bmcs.insert(name.clone(), device);
        }
        Ok(())
    }

    fn add_pdus(&mut self) -> io::Result<()> {
        for (number, name) in (0..).zip(self.appliance.pdus.keys()) {
            let ports = pdu::ports(&self.appliance, name);
            let device = pdu::device(name);
            let unit = self.device("pdu", name, &device, Plug::pdu(number), &ports)?;
            self.others.insert(device, unit);
        }
        Ok(())
    }

    fn device(
        &self,
        part: &str,
        name: &str,
        device: &str,
        plug: Plug,
        ports: &[Port],
    ) -> io::Result<Unit> {
        let own = self.folder.device(device);
        std::fs::create_dir_all(&own)?;
        let path = self.folder.path().to_string_lossy();
        let kind = Kind {
            words: &[part, &path, name],
            namespaces: DEVICE,
            console: own.join("console.log"),
            in_front: true,
        };
        Unit::start(&self.folder, &self.appliance, &kind, plug, ports).map_err(step(device))
    }

    fn machine(&self, name: &str, plug: Plug, ports: &[Port]) -> io::Result<Unit> {
        let own = self.folder.machine(name);
        std::fs::create_dir_all(&own)?;
        let path = self.folder.path().to_string_lossy();
        let kind = Kind {
            words: &["machine", &path, name],
            namespaces: NODE_NAMESPACES,
            console: own.join("console.log"),
            in_front: false,
        };
        Unit::start(&self.folder, &self.appliance, &kind, plug, ports).map_err(step(name))
    }

    fn add_node(&mut self, name: &str, plug: Plug, ports: &[Port]) -> io::Result<()> {
        let unit = self.machine(name, plug, ports)?;
        self.others.insert(name.to_owned(), unit);
        Ok(())
    }

    fn serve(&self, mut stream: &UnixStream) -> io::Result<()> {
        let order: Order = read_line(stream)?;
        let (begun, told) = (Instant::now(), order.clone());
        let done = self.execute(order);
        if told != Order::Tell {
            let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            tracing::info!(order = ?told, took_ms, ?done, "ordered");
        }
        let answer: Response = match done {
            Ok(()) => Ok(self.state()),
            Err(error) => Err(chain(&error)),
        };
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        stream.write_all(&line)
    }

    fn execute(&self, order: Order) -> io::Result<()> {
        match order {
            Order::Tell => Ok(()),
            Order::Power { head, to, by_bmc } => {
                if by_bmc {
                    // Not while the head is locked: a slow BMC still reports its state.
                    let delay_ms = self.head(&head)?.state.bmc_delay_ms;
                    std::thread::sleep(Duration::from_millis(delay_ms));
                }
                self.power(&head, to)
            }
            Order::Outlet { pdu, outlet, on } => self.switch_outlet(pdu, outlet, on),
            Order::Cut { head, networks } => self.set_cables(&head, &networks, false),
            Order::Mend { head, networks } => self.set_cables(&head, &networks, true),
            Order::Impair {
                head,
                networks,
                impairment,
            } => self.impair(&head, &networks, impairment),
            Order::Freeze { head } => self.freeze(&head),
            Order::Thaw { head } => self.thaw(&head),
            Order::SlowBmc { head, delay_ms } => {
                self.head(&head)?.state.bmc_delay_ms = delay_ms;
                Ok(())
            }
            Order::DeadBmc { head, dead } => {
                let mut locked = self.head(&head)?;
                locked.state.bmc_dead = dead;
                let has_power = self.has_power_at_outlets(&head);
                self.set_bmc_carrier(&head, !dead && has_power)
            }
        }
    }

    fn head(&self, name: &HeadName) -> io::Result<MutexGuard<'_, Head>> {
        match self.heads.get(name) {
            Some(head) => Ok(head.lock().unwrap_or_else(PoisonError::into_inner)),
            None => Err(io::Error::other(format!("there is no head {name}"))),
        }
    }

    fn state(&self) -> State {
        let heads = self.heads.iter().map(|(name, head)| {
            let head = head.lock().unwrap_or_else(PoisonError::into_inner);
            (name.clone(), head.state.clone())
        });
        let others = self.others.iter();
        State {
            heads: heads.collect(),
            others: others
                .map(|(name, unit)| (name.clone(), unit.pid))
                .collect(),
            outlets_off: self.outlets_off().clone(),
        }
    }

    fn outlets_off(&self) -> MutexGuard<'_, BTreeSet<(String, String)>> {
        self.outlets_off
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn power(&self, name: &HeadName, to: Power) -> io::Result<()> {
        let mut head = self.head(name)?;
        if to != Power::On {
            head.switch_off()?;
            self.record_power(name, false)?;
        }
        if to != Power::Off && !head.state.powered {
            if !self.has_power_at_outlets(name) {
                return Err(io::Error::other(format!("the outlets of {name} are off")));
            }
            self.switch_on(name, &mut head)?;
        }
        Ok(())
    }

    fn switch_on(&self, name: &HeadName, head: &mut Head) -> io::Result<()> {
        switch::unplug(head.plug, &head.ports);
        let mut unit = self.machine(name.as_str(), head.plug, &head.ports)?;
        // Without it all functions but one drill are available, which reports that.
        let grouped = MemoryGroup::make(&self.folder, name.as_str());
        if let Err(error) = grouped.and_then(|group| group.add(unit.pid)) {
            tracing::warn!(%error, %name, "has no memory group");
        }
        let cut = head.state.cut.clone();
        switch::set_carrier(head.plug, &head.ports, false, |one| cut.contains(one))?;
        let impaired = &head.state.impaired;
        switch::impair(head.plug, &head.ports, |one| impaired.get(one).copied())?;
        unit.send(boot::START_UNITS)?;
        head.state.first_pid = Some(unit.pid);
        head.state.powered = true;
        head.state.boots += 1;
        head.unit = Some(unit);
        self.record_power(name, true)
    }

    fn record_power(&self, name: &HeadName, powered: bool) -> io::Result<()> {
        match self.bmcs.contains_key(name) {
            true => bmc::record_power(&self.folder, name, powered),
            false => Ok(()),
        }
    }

    fn impair(
        &self,
        name: &HeadName,
        networks: &BTreeSet<NetworkName>,
        wanted: Impairment,
    ) -> io::Result<()> {
        let mut head = self.head(name)?;
        let meant = head.networks(name, networks)?;
        if head.state.powered {
            switch::impair(head.plug, &head.ports, |one| {
                meant.contains(one).then_some(wanted)
            })?;
        }
        for network in meant {
            match wanted.is_none() {
                true => head.state.impaired.remove(&network),
                false => head.state.impaired.insert(network, wanted),
            };
        }
        Ok(())
    }

    fn set_cables(
        &self,
        name: &HeadName,
        networks: &BTreeSet<NetworkName>,
        up: bool,
    ) -> io::Result<()> {
        let mut head = self.head(name)?;
        let meant = head.networks(name, networks)?;
        if head.state.powered {
            switch::set_carrier(head.plug, &head.ports, up, |one| meant.contains(one))?;
        }
        for network in meant {
            match up {
                true => head.state.cut.remove(&network),
                false => head.state.cut.insert(network),
            };
        }
        Ok(())
    }

    fn freeze(&self, name: &HeadName) -> io::Result<()> {
        let mut head = self.head(name)?;
        let Some(pid) = head.state.first_pid else {
            return Err(io::Error::other(format!("{name} is switched off")));
        };
        let deadline = Instant::now() + FREEZE_TIME_LIMIT;
        loop {
            let mut running = Vec::new();
            for process in processes_of(pid)? {
                signal(process, rustix::process::Signal::STOP);
                if !is_stopped(process) {
                    running.push(process);
                }
            }
            if running.is_empty() {
                head.state.frozen = true;
                return Ok(());
            }
            if Instant::now() >= deadline {
                let message = format!("processes of {name} do not stop: {running:?}");
                return Err(io::Error::other(message));
            }
            std::thread::sleep(FREEZE_POLL);
        }
    }

    fn thaw(&self, name: &HeadName) -> io::Result<()> {
        let mut head = self.head(name)?;
        // A head that was switched off in the meantime has no process to thaw.
        if let Some(pid) = head.state.first_pid {
            for process in processes_of(pid)? {
                signal(process, rustix::process::Signal::CONT);
            }
        }
        head.state.frozen = false;
        Ok(())
    }

    fn set_bmc_carrier(&self, name: &HeadName, up: bool) -> io::Result<()> {
        match self.bmcs.get(name) {
            Some(bmc) => switch::set_carrier(bmc.plug, &bmc.ports, up, |_| true),
            None => Err(io::Error::other(format!("{name} has no BMC"))),
        }
    }

    /// Whether any power supply of the head has power. One without outlets in the file is
    /// plugged in somewhere else.
    fn has_power_at_outlets(&self, name: &HeadName) -> bool {
        let fencing = self
            .appliance
            .heads
            .get(name)
            .and_then(|head| head.fencing.as_ref());
        let outlets = fencing.map_or(&[][..], |fencing| &fencing.outlets);
        let off = self.outlets_off();
        let is_off = |one: &appliance::Outlet| off.contains(&(one.pdu.clone(), one.outlet.clone()));
        outlets.is_empty() || !outlets.iter().all(is_off)
    }

    /// Switches an outlet. A head without a powered outlet loses power, and its BMC with it; it boots when power
    /// returns, as is the usual setting of servers.
    fn switch_outlet(&self, pdu: String, outlet: String, on: bool) -> io::Result<()> {
        let all = fabric::outlets(&self.appliance);
        let unit = all.get(&pdu);
        let Some(unit) = unit else {
            return Err(io::Error::other(format!("nothing hangs on {pdu}")));
        };
        let heads: Vec<HeadName> = unit
            .iter()
            .filter(|(name, _)| *name == outlet)
            .map(|(_, head)| head.clone())
            .collect();
        let had_power: Vec<bool> = heads.iter().map(|h| self.has_power_at_outlets(h)).collect();
        match on {
            true => self.outlets_off().remove(&(pdu, outlet)),
            false => self.outlets_off().insert((pdu, outlet)),
        };
        for (head, had_power) in heads.iter().zip(had_power) {
            let has_power = self.has_power_at_outlets(head);
            if had_power == has_power {
                continue;
            }
            let dead = self.head(head)?.state.bmc_dead;
            if self.bmcs.contains_key(head) {
                self.set_bmc_carrier(head, has_power && !dead)?;
            }
            let to = if has_power { Power::On } else { Power::Off };
            self.power(head, to)?;
        }
        Ok(())
    }
}

impl Head {
    /// The networks that are meant by `some`: all of this head where there is none.
    fn networks(
        &self,
        name: &HeadName,
        some: &BTreeSet<NetworkName>,
    ) -> io::Result<BTreeSet<NetworkName>> {
        let all: BTreeSet<NetworkName> = self.ports.iter().map(|p| p.network.clone()).collect();
        if let Some(unknown) = some.iter().find(|one| !all.contains(*one)) {
            return Err(io::Error::other(format!("{name} is not in {unknown}")));
        }
        Ok(if some.is_empty() { all } else { some.clone() })
    }

    fn switch_off(&mut self) -> io::Result<()> {
        let Some(unit) = self.unit.take() else {
            self.state.powered = false;
            return Ok(());
        };
        // The links drop with the power, before anything that still runs can send.
        switch::set_carrier(self.plug, &self.ports, false, |_| true)?;
        unit.end()?;
        self.state.powered = false;
        self.state.first_pid = None;
        self.state.frozen = false;
        Ok(())
    }
}

/// Every process of the node with the first process `first`.
fn processes_of(first: i32) -> io::Result<Vec<i32>> {
    let space = |pid: i32| std::fs::read_link(format!("/proc/{pid}/ns/pid"));
    let own = space(first)?;
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process that has exited in the meantime is ignored.
        if space(pid).is_ok_and(|space| space == own) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Whether the process is stopped, or gone.
fn is_stopped(pid: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = text.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    matches!(state, None | Some(None | Some('T' | 't' | 'Z' | 'X')))
}

fn signal(pid: i32, signal: rustix::process::Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        // It may have ended.
        let _ = rustix::process::kill_process(pid, signal);
    }
}
