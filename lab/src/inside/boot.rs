//! The first process of a node: it mounts, sets addresses, starts the processes of the node, and
//! reaps children.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{WaitOptions, WaitStatus, wait};
use units::HeadName;

use super::systemctl::Units;
use super::{root, step, switch, unit, witness};
use crate::directory::{LabDirectory, PATH_IN_NODE, SHARED_IN_NODE, Setup, disks_of};
use crate::fabric;
pub use crate::keys::WITNESS;

/// Names of the machines that are no heads.
pub const CLIENT: &str = "client";
/// The message to a head that is complete.
pub const START_UNITS: &str = "units";
/// Pause before a failed service is restarted, as in its unit file.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// Pause of the collector when there is nothing to collect.
const IDLE: Duration = Duration::from_millis(100);
/// Pacemaker's way to say that it must not be started again (CRM_EX_FATAL).
const CODE_FATAL: i32 = 100;

/// Boots a node and never returns while it has power.
pub fn run(folder: &LabDirectory, name: &str) -> io::Result<ExitCode> {
    let setup = Setup::load(folder)?;
    let appliance = setup.appliance()?;
    let orders = unit::handshake()?;
    rustix::system::sethostname(name.as_bytes())?;
    let head: Option<HeadName> = name.parse().ok();
    let head = head.filter(|head| appliance.heads.contains_key(head));
    let ports = match (&head, name) {
        (Some(head), _) => fabric::head_ports(&appliance, head),
        (None, WITNESS) => witness::ports(&appliance),
        (None, _) => fabric::client_ports(&appliance),
    };
    match (&head, name) {
        (Some(head), _) => root::build(folder, name, &disks_of(folder, &appliance, head)),
        (None, WITNESS) => root::build(folder, name, &[]),
        (None, _) => root::build_for_client(),
    }
    .map_err(step("mount the machine's files"))?;
    std::env::set_current_dir("/")?;
    switch::configure(&ports).map_err(step("set addresses"))?;
    let services = Services::default();
    if head.is_none() && name == WITNESS {
        witness::start(&services, &appliance).map_err(step("start the witness"))?;
    }
    let units = match head {
        Some(_) => Some(Units::listen(&services, &setup, environment(&setup))?),
        None => None,
    };
    unit::is_up()?;
    std::thread::spawn(move || execute(orders, units.as_ref()));
    services.collect()
}

/// Starts the units on request: the head is complete by then, with its cables and its bounds.
fn execute(orders: impl BufRead, units: Option<&Units>) {
    for order in orders.lines().map_while(Result::ok) {
        match (order.as_str(), units) {
            (START_UNITS, Some(units)) => units.start_enabled(),
            (other, _) => tracing::error!(order = other, "not understood"),
        }
    }
}

/// Additional environment of the services of a head.
fn environment(setup: &Setup) -> BTreeMap<String, String> {
    [
        ("PCMK_logfacility", "none".to_owned()),
        ("PCMK_logpriority", "info".to_owned()),
        ("BULKHEAD_ARC_SIZE_MAX", setup.arc_bytes_max.to_string()),
        ("BULKHEAD_LEG_FAULTS", SHARED_IN_NODE.to_owned()),
        ("BULKHEAD_HEADS_SHARE_KERNEL", "true".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// A process that runs as long as the node.
#[derive(Clone, Debug)]
pub struct Service {
    /// For the log.
    pub name: String,
    /// The command and its arguments.
    pub words: Vec<String>,
    /// The additional environment.
    pub environment: BTreeMap<String, String>,
    /// Whether it is started again after it failed.
    pub restarts: bool,
}

/// The processes of a node, by pid.
#[derive(Clone, Default)]
pub struct Services(Arc<Shared>);

#[derive(Default)]
struct Shared {
    running: Mutex<BTreeMap<i32, Service>>,
    /// Notified when one has exited.
    ended: Condvar,
}

impl Services {
    fn running(&self) -> MutexGuard<'_, BTreeMap<i32, Service>> {
        self.0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a service of this name runs.
    pub fn runs(&self, name: &str) -> bool {
        self.running().values().any(|service| service.name == name)
    }

    /// Requests a service to stop, and blocks until it has. Returns whether it has stopped.
    pub fn stop(&self, name: &str, limit: Duration) -> bool {
        let mut running = self.running();
        for (pid, service) in running.iter_mut().filter(|(_, one)| one.name == name) {
            service.restarts = false;
            let pid = rustix::process::Pid::from_raw(*pid);
            // A service that has just exited is equally stopped.
            let _ =
                pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
        }
        let is_there =
            |running: &mut BTreeMap<i32, Service>| running.values().any(|one| one.name == name);
        let waited = self.0.ended.wait_timeout_while(running, limit, is_there);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Starts a process. A failure to start concerns the node alone.
    pub fn start(&self, service: Service) {
        let Some((program, arguments)) = service.words.split_first() else {
            return;
        };
        // Held until the number is known, so that the collector does not come first.
        let mut running = self.running();
        let spawned = Command::new(program)
            .args(arguments)
            .env("PATH", PATH_IN_NODE)
            .env("HOME", "/root")
            .envs(&service.environment)
            .stdin(Stdio::null())
            .stdout(std::io::stderr())
            .spawn();
        match spawned {
            Ok(child) => {
                let pid = i32::try_from(child.id()).unwrap_or_default();
                tracing::info!(service = service.name, pid, "started");
                running.insert(pid, service);
            }
            Err(error) => tracing::error!(service = service.name, %error, "not started"),
        }
    }

    /// Reaps children, for ever: processes without a parent become children of the first one.
    fn collect(&self) -> ! {
        loop {
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) => self.ended(pid.as_raw_pid(), status),
                // No child, so nothing to wait for but a service that is yet to be started.
                Err(rustix::io::Errno::CHILD) => std::thread::sleep(IDLE),
                Ok(None) | Err(_) => {}
            }
        }
    }

    fn ended(&self, pid: i32, status: WaitStatus) {
        let Some(service) = self.running().remove(&pid) else {
            return;
        };
        self.0.ended.notify_all();
        tracing::warn!(service = service.name, pid, ?status, "ended");
        let failed = !matches!(status.exit_status(), Some(0 | CODE_FATAL));
        if service.restarts && failed {
            let services = self.clone();
            std::thread::spawn(move || {
                std::thread::sleep(RESTART_DELAY);
                services.start(service);
            });
        }
    }
}
