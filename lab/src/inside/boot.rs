//! The first process of a machine: it mounts, sets addresses, starts what the machine is for, and
//! collects what ends.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use appliance::Appliance;
use rustix::process::{WaitOptions, WaitStatus, wait};
use units::HeadName;

use super::{root, step, switch, unit, witness};
use crate::fabric;
use crate::place::{Folder, PATH_IN_MACHINE, SHARED_IN_MACHINE, Setup, disks_of};

/// Names of the machines that are no heads.
pub const CLIENT: &str = "client";
/// The witness.
pub const WITNESS: &str = "witness";
/// What a head is told when its cluster may start.
pub const START_CLUSTER: &str = "cluster";
/// Pause before a service that failed is started again, as its unit file says.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// Pause of the collector when there is nothing to collect.
const IDLE: Duration = Duration::from_millis(100);
/// Pacemaker's way to say that it must not be started again (CRM_EX_FATAL).
const CODE_FATAL: i32 = 100;

/// Starts what needs Corosync once that answers; gives up after a minute.
const AFTER_COROSYNC: &str = "tries=0; until corosync-cfgtool -s >/dev/null 2>&1; do \
    tries=$((tries + 1)); [ $tries -lt 600 ] || exit 100; sleep 0.1; done;";
/// As their unit files do.
const COROSYNC: &str =
    "set -a; [ -r /etc/default/corosync ] && . /etc/default/corosync; exec corosync -f";
const PACEMAKER: &str =
    "set -a; [ -r /etc/default/pacemaker ] && . /etc/default/pacemaker; exec pacemakerd -f";
/// The options are those that the appliance's setup wrote; the unit file reads the same file.
const QDEVICE: &str = "[ -r /etc/default/corosync-qdevice ] && . /etc/default/corosync-qdevice; \
    grep -q '^ *device {' /etc/corosync/corosync.conf || exit 100; mkdir -p /run/corosync-qdevice; \
    exec corosync-qdevice -f $COROSYNC_QDEVICE_OPTIONS";

/// Boots a machine and never returns while it has power.
pub fn run(folder: &Folder, name: &str) -> io::Result<ExitCode> {
    let setup = Setup::load(folder)?;
    let appliance = setup.appliance()?;
    let orders = unit::greet()?;
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
        witness::start(&services, &appliance)?;
    }
    unit::is_up()?;
    let listening = services.clone();
    std::thread::spawn(move || obey(orders, &listening, &setup, &appliance));
    services.collect()
}

/// Starts the cluster when told to.
fn obey(orders: impl BufRead, services: &Services, setup: &Setup, appliance: &Appliance) {
    for order in orders.lines() {
        match order.as_deref() {
            Ok(START_CLUSTER) => start_cluster(services, setup, appliance),
            Ok(other) => tracing::error!(order = other, "not understood"),
            Err(_) => return,
        }
    }
}

fn start_cluster(services: &Services, setup: &Setup, appliance: &Appliance) {
    if !Path::new(appliance::plan::COROSYNC_CONF_PATH).exists() {
        tracing::info!("there is no configuration of Corosync: the cluster is not started");
        return;
    }
    let environment: BTreeMap<String, String> = [
        ("PCMK_logfacility", "none".to_owned()),
        ("PCMK_logpriority", "info".to_owned()),
        ("BULKHEAD_ARC_SIZE_MAX", setup.arc_bytes_max.to_string()),
        ("BULKHEAD_LEG_FAULTS", SHARED_IN_MACHINE.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let service = |name: &str, words: &[&str], restarts| Service {
        name: name.to_owned(),
        words: words.iter().map(|&word| word.to_owned()).collect(),
        environment: environment.clone(),
        restarts,
    };
    let after = |what: &str| format!("{AFTER_COROSYNC} {what}");
    services.start(service("corosync", &["sh", "-c", COROSYNC], false));
    let quorum = appliance.quorum.as_ref();
    if quorum.is_some_and(|quorum| quorum.witness.is_some()) {
        services.start(service("qdevice", &["sh", "-c", &after(QDEVICE)], true));
    }
    services.start(service("pacemaker", &["sh", "-c", &after(PACEMAKER)], true));
}

/// A program that runs as long as the machine.
#[derive(Clone, Debug)]
pub struct Service {
    /// For the log.
    pub name: String,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// What is added to its environment.
    pub environment: BTreeMap<String, String>,
    /// Whether it is started again after it failed.
    pub restarts: bool,
}

/// What runs on a machine, by number.
#[derive(Clone, Default)]
pub struct Services(Arc<Mutex<BTreeMap<i32, Service>>>);

impl Services {
    fn running(&self) -> MutexGuard<'_, BTreeMap<i32, Service>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a program. That it cannot be started is the machine's own trouble.
    pub fn start(&self, service: Service) {
        let Some((program, arguments)) = service.words.split_first() else {
            return;
        };
        // Held until the number is known, so that the collector does not come first.
        let mut running = self.running();
        let spawned = Command::new(program)
            .args(arguments)
            .env("PATH", PATH_IN_MACHINE)
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

    /// Collects what ends, for ever: processes without a parent become children of the first one.
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
