//! The environment of a drill: a lab, the active clients, and the watch over the disks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use appliance::render::{address_id, pool_id};
use cluster::process::Invocation;
use lab::{ClusterState, Lab, Node, Power};
use units::{HeadName, PoolName};

use crate::client::{Client, Pace};
use crate::damaged::Damage;
use crate::error::DrillError;
use crate::exhausted::Exhausted;
use crate::health;
use crate::other_pools::OtherPools;
use crate::watch::Watch;
use crate::workload::{
    START_LIMIT, bulkhead, client_log, disks, files, not_served, path_count, serving_head,
    start_workload,
};
use drill_verdict::{Clients, LogClock, Mark, Resources, Timestamp, marks};

/// How long the lab may take to be well again between two drills: heads boot and resilver.
const SETTLE_LIMIT: Duration = Duration::from_secs(240);
/// When it is not well by itself after so long, old failures are forgotten, as an operator would.
const CLEAR_FAILURES_AFTER: Duration = Duration::from_secs(20);
/// Interval between two queries of the cluster. Each costs processor time.
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Every initiator must have received a reply within this time, in seconds, before the next fault.
const FRESH_S: f64 = 0.5;
/// How much of a log is read after a fault, in bytes.
const LOG_BYTES_MAX: u64 = 8 << 20;

/// Where pool servers keep their logs on heads.
const STATE_DIRECTORY: &str = "/var/lib/bulkhead";
/// The directory with the names of the legs on the active head, with a subdirectory for each pool.
const LEGS_DIRECTORY: &str = "/run/bulkhead/legs";

/// Logs of a head that show a takeover.
const LOGS: [&str; 3] = [
    "/var/log/corosync/corosync.log",
    "/var/log/pacemaker/pacemaker.log",
    "/var/lib/bulkhead/steps.jsonl",
];

/// A lab with clients at work.
pub struct Environment {
    /// The lab.
    pub lab: Lab,
    /// The pool that the drills are about.
    pub pool: PoolName,
    /// The clients.
    pub client: Client,
    /// The watch over the pool's disks.
    pub watch: Watch,
    /// The other pools of the appliance that clients reach.
    pub other_pools: Vec<OtherPools>,
    /// A head without memory, while there is one.
    pub exhausted: Option<Exhausted>,
    /// The blocks that a round damages.
    pub damage: Option<Damage>,
    path_count: usize,
}

impl Environment {
    /// Creates volumes and a file system in the pool, exports them, and starts clients.
    ///
    /// # Errors
    ///
    /// A command or a client fails.
    pub fn begin(
        lab: Lab,
        pool: PoolName,
        clients: Clients,
        more_volumes: u32,
        seed: u64,
    ) -> Result<Self, DrillError> {
        let state = lab.wait_complete(SETTLE_LIMIT)?;
        let head = serving_head(&state, &pool).ok_or_else(|| not_served(&pool))?;
        let mut other_pools = begin_other_pools(&lab, &state, &pool, clients, seed)?;
        let usual = Pace::Usual;
        let (mut client, watch) =
            start_workload(&lab, &pool, &head, more_volumes, clients, usual, seed)?;
        if !client.listen_until(START_LIMIT, |seen| seen.is_ready)? {
            let words = std::fs::read_to_string(client_log(&lab, &pool)).unwrap_or_default();
            let message = format!("it does not begin: {:?} {words}", client.seen.refusals);
            return Err(DrillError::Client(message));
        }
        for other in &mut other_pools {
            other.wait_ready()?;
        }
        Ok(Self {
            path_count: path_count(&lab, &pool),
            lab,
            pool,
            client,
            watch,
            other_pools,
            exhausted: None,
            damage: None,
        })
    }

    /// The pool's disks that a head reaches directly: the path there, and the path on this host.
    pub fn disks(&self, head: &HeadName) -> Vec<(PathBuf, PathBuf)> {
        disks(&self.lab, head, &self.pool)
    }

    /// The files behind all disks of the pool, on whatever head they are.
    pub fn files(&self) -> Vec<PathBuf> {
        files(&self.lab, &self.pool)
    }

    /// Whether the pool's disks belong to heads.
    pub fn has_legs(&self) -> bool {
        self.lab.appliance().pools[&self.pool].has_legs()
    }

    /// The device names that the pool's server uses for disks that `head` reaches directly.
    pub fn device_names(&self, head: &HeadName) -> Vec<PathBuf> {
        let appliance = self.lab.appliance();
        let pool = &appliance.pools[&self.pool];
        if !pool.has_legs() {
            let disks = self.disks(head).into_iter();
            return disks.map(|(name, _)| name).collect();
        }
        let folder = Path::new(LEGS_DIRECTORY).join(self.pool.as_str());
        let own = pool.all_legs().filter(|leg| leg.head == *head);
        let own = own.filter_map(|leg| appliance.own_disk(leg));
        own.map(|disk| folder.join(disk.number.to_string()))
            .collect()
    }

    /// Makes these devices of the pool fail as described, and no other device.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn set_device_faults(&self, devices: &[PathBuf], how: &str) -> Result<(), DrillError> {
        let devices = devices
            .iter()
            .map(|device| (device.as_path(), how.to_owned()));
        self.set_faults_of_devices(&devices.collect())
    }

    /// Makes each of these devices of the pool fail as described, and no other device.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn set_faults_of_devices(&self, how: &BTreeMap<&Path, String>) -> Result<(), DrillError> {
        let lines = how
            .iter()
            .map(|(device, how)| format!("{} {how}\n", device.display()));
        // A reader of the file sees either the old or the new contents.
        let file = self.lab.leg_faults(&self.pool);
        let new = file.with_extension("new");
        std::fs::write(&new, lines.collect::<String>())
            .and_then(|()| std::fs::rename(&new, &file))
            .map_err(DrillError::io("write the faults of disks"))
    }

    fn pool_log_path(&self, head: &HeadName) -> PathBuf {
        let path = format!("{STATE_DIRECTORY}/{}.log", self.pool);
        self.lab.file_of(head, &path)
    }

    /// The log of the pool's servers on a head.
    pub fn pool_log(&self, head: &HeadName) -> String {
        log_since(&self.pool_log_path(head), 0)
    }

    /// Truncates that log. Only while the head has no power.
    pub fn remove_pool_log(&self, head: &HeadName) {
        // None is as good.
        let _ = std::fs::remove_file(self.pool_log_path(head));
    }

    /// Runs `bulkhead` on a head.
    ///
    /// # Errors
    ///
    /// It fails.
    pub fn bulkhead(&self, head: &HeadName, words: &[&str]) -> Result<String, DrillError> {
        bulkhead(&self.lab, head, words)
    }

    /// Listens to the clients until it is so; whether it was in time.
    ///
    /// # Errors
    ///
    /// The clients have ended.
    pub fn wait_until(
        &mut self,
        limit: Duration,
        is_so: impl Fn(&Self) -> bool,
    ) -> Result<bool, DrillError> {
        /// Interval between two checks.
        const POLL_INTERVAL: Duration = Duration::from_millis(200);
        let deadline = Timestamp::now().after(limit);
        while !is_so(self) {
            if Timestamp::now() > deadline {
                return Ok(false);
            }
            self.client.listen(POLL_INTERVAL)?;
        }
        Ok(true)
    }

    /// Blocks until every head is a member, the pool is served, and all clients have all their paths. Powers on heads,
    /// repairs devices and clears old failures. Returns the head that serves the pool.
    ///
    /// # Errors
    ///
    /// It does not come to that.
    pub fn settle(&mut self) -> Result<HeadName, DrillError> {
        let started = Instant::now();
        let mut forgiven = Instant::now();
        let mut is_forgiven = false;
        loop {
            self.client.listen(POLL_INTERVAL)?;
            let why = match self.unhealthy()? {
                Ok(head) if is_forgiven => return Ok(head),
                Ok(_) => {
                    // Failures that earlier drills were about must not keep the pool away from a head. Only now:
                    // the tools wait for heads that are still booting.
                    self.clear_failures();
                    is_forgiven = true;
                    continue;
                }
                Err(why) => why,
            };
            if started.elapsed() > SETTLE_LIMIT {
                return Err(DrillError::Unsettled {
                    waited_s: SETTLE_LIMIT.as_secs(),
                    why,
                });
            }
            if forgiven.elapsed() > CLEAR_FAILURES_AFTER {
                self.clear_failures();
                forgiven = Instant::now();
            }
        }
    }

    /// Switches on a head that is off, and its outlets. Outlets of a head that is on are not touched while the cluster
    /// is busy: it may be about to switch off the remaining outlets, and would consider the head powered off.
    pub fn switch_on(&self, head: &HeadName) -> Result<(), DrillError> {
        let fencing = self.lab.appliance().heads[head].fencing.iter();
        for outlet in fencing.flat_map(|fencing| &fencing.outlets) {
            self.lab.outlet(&outlet.pdu, &outlet.outlet, true)?;
        }
        Ok(self.lab.power(head, Power::On)?)
    }

    /// The head that serves the pool, or the reason why the lab is not well.
    fn unhealthy(&mut self) -> Result<Result<HeadName, String>, DrillError> {
        let state = self.lab.state()?;
        for (head, state) in state.heads {
            if state.frozen {
                self.lab.thaw(&head)?;
            }
            if !state.cut.is_empty() {
                self.lab.mend(&head, &[])?;
            }
            if !state.powered {
                self.switch_on(&head)?;
                return Ok(Err(format!("{head} is booting")));
            }
        }
        if let Some(why) = self.busy()? {
            return Ok(Err(why));
        }
        for (pdu, outlet) in &state.outlets_off {
            self.lab.outlet(pdu, outlet, true)?;
        }
        let mut serving: BTreeSet<Option<HeadName>> = BTreeSet::new();
        for head in self.lab.heads() {
            let Some(state) = self.lab.cluster_view_of(&head)? else {
                return Ok(Err(format!("Pacemaker does not respond on {head}")));
            };
            if !state.is_complete(self.lab.appliance()) {
                return Ok(Err(format!("{head} sees {state:?}")));
            }
            serving.insert(serving_head(&state, &self.pool));
        }
        // The commands above may have taken longer than `FRESH_S`.
        self.client.listen(Duration::ZERO)?;
        let seen = &self.client.seen;
        let fresh = Timestamp(Timestamp::now().0 - FRESH_S);
        if !seen.all_responded_since(fresh) {
            return Ok(Err(format!("clients wait: {:?}", seen.refusals)));
        }
        if seen.paths_up.len() < self.path_count {
            return Ok(Err(format!("only these paths are up: {:?}", seen.paths_up)));
        }
        for other_pools in &mut self.other_pools {
            if let Some(why) = other_pools.unhealthy(fresh)? {
                return Ok(Err(why));
            }
        }
        match serving.pop_first() {
            Some(Some(head)) if serving.is_empty() => match self.unhealthy_devices(&head) {
                Some(why) => Ok(Err(why)),
                None => Ok(Ok(head)),
            },
            _ => Ok(Err(
                "heads do not agree on which head serves the pool".to_owned()
            )),
        }
    }

    /// The reason why devices of the pool, which `head` serves, are not well: after the fault of an earlier round a
    /// device may still be out of date.
    pub fn unhealthy_devices(&self, head: &HeadName) -> Option<String> {
        let status = ["pool", "status", self.pool.as_str(), "--json"];
        let complaint = match self.bulkhead(head, &status) {
            Ok(status) => health::complaint(&status),
            Err(error) => Some(error.to_string()),
        };
        if complaint.is_some() || !self.has_legs() {
            return complaint;
        }
        match self.bulkhead(head, &["status", self.pool.as_str()]) {
            Ok(status) => health::complaint_of_legs(&status),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Whether `head`, which serves the pool, reports every leg of `lender` as stale.
    pub fn are_stale(&self, head: &HeadName, lender: &HeadName) -> bool {
        let status = ["pool", "status", self.pool.as_str(), "--json"];
        let status = self.bulkhead(head, &status);
        status.is_ok_and(|status| health::are_stale(&status, lender.as_str()))
    }

    /// The current activity of the cluster: a takeover that begins now would be delayed by it.
    fn busy(&self) -> Result<Option<String>, DrillError> {
        let state = self.lab.cluster()?;
        let decides = state.and_then(|state| state.decides?.parse::<HeadName>().ok());
        let Some(head) = decides else {
            return Ok(Some("no head decides".to_owned()));
        };
        let ask = ["--quiet", "--status", head.as_str()];
        let ask = Invocation::new("crmadmin", &ask);
        let output = self.lab.exec(&Node::Head(head.clone()), &ask)?;
        let words = output.text() + &String::from_utf8_lossy(&output.stderr);
        let is_idle = words.contains("S_IDLE");
        Ok((!is_idle).then(|| format!("{head} decides, and is busy: {}", words.trim())))
    }

    /// Forgets failures of resources, of fence devices and of disks, as an operator does after a repair.
    pub fn clear_failures(&self) {
        if let Ok(Some(head)) = self.serving() {
            // One that fails still is found when the lab does not settle.
            let _ = self.bulkhead(&head, &["pool", "clear", self.pool.as_str()]);
        }
        for head in self.lab.heads() {
            let who = Node::Head(head);
            let cleanup = self.lab.must(&who, "crm_resource", &["--cleanup"]);
            let history = ["--cleanup", "--history", "*"];
            // A failure here shows again when the lab does not settle.
            if cleanup.is_ok() && self.lab.must(&who, "stonith_admin", &history).is_ok() {
                return;
            }
        }
    }

    /// Where the logs of all heads end now, also of machines that are none yet.
    ///
    /// # Errors
    ///
    /// The lab does not respond.
    pub fn log_lengths(&self) -> Result<LogLengths, DrillError> {
        let heads = self.lab.head_nodes()?.into_iter();
        let logs = heads.flat_map(|head| {
            let path = |path| self.lab.file_of(&head, path);
            LOGS.map(|log| (head.clone(), path(log)))
        });
        let ends = logs.map(|(head, path)| {
            let end = std::fs::metadata(&path).map_or(0, |meta| meta.len());
            ((head, path), end)
        });
        Ok(LogLengths(ends.collect()))
    }

    /// The heads were set up with another file: the watch follows the disks of that file from now
    /// on.
    ///
    /// # Errors
    ///
    /// The file is not understood, or a disk is not there.
    pub fn has_been_set_up(&mut self, text: &str) -> Result<(), DrillError> {
        self.lab.has_been_set_up(text)?;
        let watch = Watch::start(&self.files());
        let watch = watch.map_err(DrillError::io("watch the pool's disks"))?;
        watch.follow(&self.watch);
        self.watch = watch;
        Ok(())
    }

    /// Returns the steps after `fault` that the logs of `heads` recorded since `ends`, and the
    /// heads that were powered off.
    pub fn reported_since(
        &self,
        ends: &LogLengths,
        heads: &[HeadName],
        fault: Timestamp,
    ) -> (Vec<Mark>, Vec<HeadName>) {
        let resources = Resources {
            pool: pool_id(&self.pool),
            addresses: self.lab.appliance().pools[&self.pool]
                .addresses
                .iter()
                .map(|address| address_id(address.address))
                .collect(),
        };
        let clock = LogClock::near(fault);
        let mut steps = Vec::new();
        let mut fenced = BTreeSet::new();
        for ((head, path), end) in &ends.0 {
            let text = log_since(path, *end);
            fenced.extend(drill_verdict::fenced(&text));
            if heads.contains(head) {
                steps.extend(marks(&text, &resources, &clock, fault));
            }
        }
        let is_fenced = |head: &HeadName| fenced.contains(head.as_str());
        (
            steps,
            self.lab.heads().into_iter().filter(is_fenced).collect(),
        )
    }

    /// The head that serves the pool now.
    ///
    /// # Errors
    ///
    /// The lab does not respond.
    pub fn serving(&self) -> Result<Option<HeadName>, DrillError> {
        let state = self.lab.cluster()?;
        Ok(state.and_then(|state| serving_head(&state, &self.pool)))
    }
}

/// Lengths of the logs at one time.
pub struct LogLengths(BTreeMap<(HeadName, PathBuf), u64>);

/// Returns the text that was appended to a log. A log that was replaced by a shorter one is read
/// from its start.
fn log_since(path: &PathBuf, end: u64) -> String {
    let read = || {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(if length < end { 0 } else { end }))?;
        let mut bytes = Vec::new();
        file.take(LOG_BYTES_MAX).read_to_end(&mut bytes)?;
        std::io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    // A head that never wrote such a log has no steps.
    read().unwrap_or_default()
}

/// The other pools that can be taken over and that clients reach.
fn other_pools_of(appliance: &appliance::Appliance, pool: &PoolName) -> Vec<PoolName> {
    let others = appliance.pools.iter().filter(|(name, _)| *name != pool);
    let others = others.filter(|(_, other)| !other.addresses.is_empty());
    others.map(|(name, _)| name.clone()).collect()
}

/// Puts clients of the other pools to work, all at a time: each pool has a server of its own.
fn begin_other_pools(
    lab: &Lab,
    state: &ClusterState,
    pool: &PoolName,
    clients: Clients,
    seed: u64,
) -> Result<Vec<OtherPools>, DrillError> {
    let begin = |other: PoolName| {
        let head = serving_head(state, &other).ok_or_else(|| not_served(&other))?;
        OtherPools::begin(lab, &other, &head, clients, seed)
    };
    let others = other_pools_of(lab.appliance(), pool);
    std::thread::scope(|scope| {
        let begun: Vec<_> = others
            .into_iter()
            .map(|other| scope.spawn(move || begin(other)))
            .collect();
        let begun = begun.into_iter();
        begun
            .map(|thread| thread.join().expect("no thread panics"))
            .collect()
    })
}
