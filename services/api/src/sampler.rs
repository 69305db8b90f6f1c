//! Samples the state once a second while a client watches, less often otherwise, and caches it: the overview, the state
//! of each pool, and the rates of volumes. One sample serves all watchers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use control::answer::{Event, ServerStatus, Status};
use control::operations::pool::events::Events;
use control::{Answer, Request};
use tokio::sync::broadcast;
use units::PoolName;

use crate::audit::Audit;
use crate::backend::{Backend, ClusterState, Listener, Notifier, PeerLosses, PoolLocation};
use crate::hardware_faults::HardwareFaults;
use crate::head_reports::{HeadReports, Reported};
use crate::operations::Operations;
use crate::peer::Peers;
use crate::takeovers::{LogSources, Takeovers};
use crate::view::{
    Alert, FileSystemRates, HardwareFault, Metrics, Overview, PoolEvent, PoolOverview, Step,
    Takeover, VolumeRates,
};
use crate::{Accounts, alerts, now_ms};

/// Sampling interval while a client watches.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// Sampling interval without watchers.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// The cluster's tools cost processor time, so they run less often.
const CLUSTER_STATE_INTERVAL: Duration = Duration::from_secs(3);
/// Interval between two comparisons of the accounts with those of other heads.
const ACCOUNTS_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum age of a sample in a response.
const FRESH: Duration = Duration::from_millis(1500);
/// Most frames that a watcher may lag behind.
const BEHIND_MAX: usize = 256;

/// One serialized event of the stream.
#[derive(Debug)]
pub struct Frame {
    /// `overview`, `metrics` or `event`.
    pub name: &'static str,
    /// JSON.
    pub data: String,
}

impl Frame {
    fn new(name: &'static str, value: &impl serde::Serialize) -> Arc<Self> {
        let data = serde_json::to_string(value).expect("views are JSON");
        Arc::new(Self { name, data })
    }
}

/// The last sample.
#[derive(Clone, Default)]
pub struct Seen {
    /// The overview.
    pub overview: Arc<Overview>,
    /// The states of pools with a responding server, on any head.
    pub statuses: BTreeMap<String, Arc<Status>>,
    /// Losses of clients of the pools that are served here.
    pub client_losses: Arc<Vec<PeerLosses>>,
    /// The state of the cluster and the appliance file.
    pub cluster_state: Arc<ClusterState>,
    /// The reports of the heads about themselves.
    pub reported: Arc<Reported>,
    at: Option<Instant>,
    /// Whether no later change happened through this head.
    is_current: bool,
    surroundings_at: Option<Instant>,
}

/// Samples the state and caches it.
pub struct Sampler {
    backend: Arc<dyn Backend>,
    operations: Arc<Operations>,
    seen: RwLock<Seen>,
    /// Number of changes: a sample from before the last one is outdated.
    changes: AtomicU64,
    /// Held while sampling: concurrent samples would distort the rates.
    looking: Mutex<SamplerThread>,
    frames: broadcast::Sender<Arc<Frame>>,
}

#[derive(Default)]
struct SamplerThread {
    events: BTreeMap<String, u64>,
    takeovers: BTreeMap<String, Takeover>,
    explained: Takeovers,
    peers: Option<Peers>,
    /// The last known listeners of the servers on this head: a server may be too busy to respond.
    listeners: BTreeMap<String, Vec<Listener>>,
    alerts: alerts::FirstSeen,
    /// Since when servers of this head respond slowly.
    slow: BTreeMap<String, u64>,
    hardware: HardwareFaults,
    reports: HeadReports,
}

impl Sampler {
    /// A sampler without a sample.
    pub fn new(backend: Arc<dyn Backend>, operations: Arc<Operations>) -> Self {
        Self {
            backend,
            operations,
            seen: RwLock::default(),
            changes: AtomicU64::new(0),
            looking: Mutex::default(),
            frames: broadcast::Sender::new(BEHIND_MAX),
        }
    }

    /// Subscribes to all future frames.
    pub fn watch(&self) -> broadcast::Receiver<Arc<Frame>> {
        self.frames.subscribe()
    }

    /// The overview as a frame, for a new watcher.
    pub fn first_frame(&self) -> Arc<Frame> {
        Frame::new("overview", &*self.seen().overview)
    }

    /// Marks the sample as outdated after a change.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.seen.write().expect("no holder panics").is_current = false;
    }

    fn seen(&self) -> Seen {
        self.seen.read().expect("no holder panics").clone()
    }

    /// Returns a fresh sample. May block.
    pub fn fresh(&self) -> Seen {
        let is_fresh =
            |seen: &Seen| seen.is_current && seen.at.is_some_and(|at| at.elapsed() < FRESH);
        let seen = self.seen();
        if is_fresh(&seen) {
            return seen;
        }
        let mut looking = self.looking.lock().expect("no holder panics");
        // Another thread may have taken one concurrently.
        let seen = self.seen();
        if !is_fresh(&seen) {
            self.look(&mut looking);
        }
        drop(looking);
        self.seen()
    }

    /// Returns the overview. May block.
    pub fn overview(&self) -> Overview {
        let mut overview = (*self.fresh().overview).clone();
        overview.operations = self.operations.list();
        overview
    }

    /// Returns the other head that serves a pool, if one does.
    pub fn served_elsewhere(&self, pool: &str) -> Option<String> {
        let seen = self.seen.read().expect("no holder panics");
        let place = seen.cluster_state.pools.get(pool)?;
        let by = place.served_by.clone()?;
        let is_here = by == seen.overview.this_head;
        let is_served_here = seen.overview.pools.iter().any(|found| {
            found.name == pool && found.served_by.as_deref() == Some(&seen.overview.this_head)
        });
        (!is_here && !is_served_here).then_some(by)
    }

    /// Corrects the failures that a pool survives in a response of its server, by the state of the heads in the cluster.
    pub fn exclude_unable_heads(&self, answer: &mut Answer) {
        let status = match answer {
            Answer::Status(status) => &mut status.pool,
            Answer::Pool(status) => &mut **status,
            _ => return,
        };
        let seen = self.seen.read().expect("no holder panics");
        if let Some(place) = seen.cluster_state.pools.get(&status.name) {
            let server = place.served_by.as_deref();
            let reports = &seen.reported.members;
            control::answer::exclude_heads(status, server, &place.cannot_serve, reports);
        }
    }

    /// Samples until the process terminates.
    pub fn run(&self, peers: &Peers, accounts: &Accounts, audit: &Audit) {
        self.looking.lock().expect("no holder panics").peers = Some(peers.clone());
        let mut accounts_at = None::<Instant>;
        let mut last = None::<Instant>;
        loop {
            let is_watched = self.frames.receiver_count() > 0;
            let due = last.is_none_or(|last| last.elapsed() >= IDLE_INTERVAL);
            if is_watched || due {
                self.look(&mut self.looking.lock().expect("no holder panics"));
                last = Some(Instant::now());
            }
            if accounts_at.is_none_or(|at| at.elapsed() >= ACCOUNTS_INTERVAL) {
                peers.compare_accounts(accounts, audit);
                accounts_at = Some(Instant::now());
            }
            std::thread::sleep(SAMPLE_INTERVAL);
        }
    }

    fn look(&self, looking: &mut SamplerThread) {
        let changes = self.changes.load(Ordering::Acquire);
        let before = self.seen();
        let (cluster_state, reported, surroundings_at) = match before.surroundings_at {
            Some(at) if at.elapsed() < CLUSTER_STATE_INTERVAL => {
                (before.cluster_state.clone(), before.reported.clone(), at)
            }
            _ => {
                let state = self.backend.cluster_state();
                let (backend, peers) = (self.backend.as_ref(), looking.peers.as_ref());
                let reported = looking
                    .reports
                    .query(backend, &state.heads, peers, now_ms());
                (Arc::new(state), Arc::new(reported), Instant::now())
            }
        };
        let here = self.backend.head();
        let mut statuses = BTreeMap::new();
        let mut served: BTreeMap<String, String> = BTreeMap::new();
        let own = self.backend.served();
        for pool in &own {
            served.insert(pool.to_string(), here.clone());
            if let Ok(Answer::Status(status)) = self.backend.ask_server(pool, Request::Status) {
                looking
                    .listeners
                    .insert(pool.to_string(), listeners(&status));
                let status = with_able_heads(*status, &here, &cluster_state, &reported);
                statuses.insert(pool.to_string(), Arc::new(status));
                looking.slow.remove(pool.as_str());
            } else if self.backend.is_slow(pool) {
                looking.slow.entry(pool.to_string()).or_insert_with(now_ms);
                let known = before.statuses.get(pool.as_str());
                statuses.extend(known.map(|known| (pool.to_string(), Arc::clone(known))));
            } else {
                looking.slow.remove(pool.as_str());
            }
            self.send_events(looking, pool, None);
        }
        looking.slow.retain(|pool, _| served.contains_key(pool));
        looking
            .listeners
            .retain(|pool, _| served.contains_key(pool));
        let all: Vec<Listener> = looking.listeners.values().flatten().cloned().collect();
        let client_losses = Arc::new(self.backend.client_losses(&all));
        for (name, place) in &cluster_state.pools {
            let Some(by) = place.served_by.as_ref().filter(|by| **by != here) else {
                continue;
            };
            if served.contains_key(name) {
                continue;
            }
            served.insert(name.clone(), by.clone());
            let status = looking
                .peers
                .as_ref()
                .and_then(|peers| peers.status(by, name));
            if let Some(status) = status {
                let status = with_able_heads(status, by, &cluster_state, &reported);
                statuses.insert(name.clone(), Arc::new(status));
            }
            if let Ok(pool) = name.parse() {
                self.send_events(looking, &pool, Some(by));
            }
        }
        if let Some(fills) = self.backend.fills() {
            fills.note(&statuses, now_ms() / 1000);
        }
        let metrics = metrics(&before, &statuses);
        let left = self.backend.left();
        let faults = looking.hardware.of_all(
            self.backend.hardware_faults(),
            &cluster_state.heads,
            looking.peers.as_ref(),
        );
        let mut overview = self.overview_of(
            here,
            (&cluster_state, &reported),
            (&served, &looking.slow),
            &left,
            &statuses,
            faults,
        );
        looking.alerts.note(&mut overview.alerts, overview.at_ms);
        let last = last_takeover(&looking.takeovers, &served, &statuses);
        let places = LogSources {
            backend: self.backend.as_ref(),
            peers: looking.peers.as_ref(),
            heads: &cluster_state.heads,
        };
        overview.last_takeover = last.map(|last| {
            let status = statuses.get(&last.pool);
            looking.explained.explained(last, status, &places, now_ms())
        });
        if let Some(notifier) = self.backend.notifier() {
            notifier.observed(&overview);
        }
        let frames = [
            differs(&before.overview, &overview).then(|| Frame::new("overview", &overview)),
            Some(Frame::new("metrics", &metrics)),
        ];
        let mut seen = self.seen.write().expect("no holder panics");
        *seen = Seen {
            overview: Arc::new(overview),
            statuses,
            client_losses,
            cluster_state,
            reported,
            at: Some(Instant::now()),
            is_current: self.changes.load(Ordering::Acquire) == changes,
            surroundings_at: Some(surroundings_at),
        };
        drop(seen);
        for frame in frames.into_iter().flatten() {
            // There may be no watcher.
            let _ = self.frames.send(frame);
        }
    }

    fn overview_of(
        &self,
        here: String,
        (cluster_state, reported): (&ClusterState, &Reported),
        (served, slow): (&BTreeMap<String, String>, &BTreeMap<String, u64>),
        left: &[PoolName],
        statuses: &BTreeMap<String, Arc<Status>>,
        hardware_faults: Vec<HardwareFault>,
    ) -> Overview {
        let none = PoolLocation::default();
        let known = cluster_state.pools.keys().chain(served.keys());
        let known = known.map(String::as_str);
        let mut names: Vec<&str> = known.chain(left.iter().map(PoolName::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        let all: Vec<&Status> = statuses.values().map(Arc::as_ref).collect();
        let mut shared = control::answer::shared_names(&all);
        let pools = names.into_iter().map(|name| {
            let place = cluster_state.pools.get(name).unwrap_or(&none);
            let status = statuses.get(name).map(Arc::as_ref);
            let mut pool = pool_overview(name, place, served.get(name), status);
            pool.slow_since_ms = slow.get(name).copied();
            if pool.slow_since_ms.is_some() {
                pool.state = "served".to_owned();
            }
            pool.problems
                .extend(shared.remove(name).unwrap_or_default());
            pool.forecast = status
                .zip(self.backend.fills())
                .and_then(|(status, fills)| fills.forecast(&status.pool.guid, now_ms() / 1000));
            pool
        });
        let mut overview = Overview {
            appliance: cluster_state.appliance.clone(),
            this_head: here,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at_ms: now_ms(),
            heads: cluster_state.heads.clone(),
            pools: pools.collect(),
            links: cluster_state.links.clone(),
            safeguards: cluster_state.safeguards.clone(),
            hardware_faults,
            last_takeover: None,
            alerts: Vec::new(),
            receivers: self
                .backend
                .notifier()
                .map_or_else(Vec::new, Notifier::receivers),
            operations: self.operations.list(),
        };
        overview.alerts = alerts::of(&overview, &all_problems(cluster_state, reported));
        overview
    }

    /// Streams the events of a pool since the last sample.
    fn send_events(&self, looking: &mut SamplerThread, pool: &PoolName, by: Option<&String>) {
        let known = looking.events.get(pool.as_str()).copied();
        let events: Option<Vec<Event>> = match by {
            None => {
                let request = Request::Pool(Events { after: known }.into());
                match self.backend.ask_server(pool, request) {
                    Ok(Answer::Events(events)) => Some(events),
                    _ => None,
                }
            }
            Some(head) => {
                let peers = looking.peers.as_ref();
                peers.and_then(|peers| peers.events(head, pool.as_str(), known))
            }
        };
        let Some(events) = events else { return };
        let newest = events
            .last()
            .map_or(known.unwrap_or(0), |event| event.number);
        looking.events.insert(pool.to_string(), newest);
        if let Some(takeover) = takeover(pool.as_str(), &events, known.is_some()) {
            looking.takeovers.insert(pool.to_string(), takeover);
        }
        // In the first sample all events are old.
        if known.is_none() {
            return;
        }
        for event in events {
            let pool = pool.to_string();
            let _ = self
                .frames
                .send(Frame::new("event", &PoolEvent { pool, event }));
        }
    }
}

/// The alerts from a single sample, in a process that does not serve the API. Start times that only a continuously
/// sampling process has observed are missing. May block for as long as other heads do not respond.
///
/// `peers` includes this head: its running daemon knows the start of alerts.
pub fn alerts_now(backend: Arc<dyn Backend>, peers: Peers) -> Vec<Alert> {
    let observed = peers.overview(&backend.head());
    let sampler = Sampler::new(backend, Arc::new(Operations::default()));
    {
        let mut looking = sampler.looking.lock().expect("no holder panics");
        looking.peers = Some(peers);
        looking.reports = HeadReports::once();
    }
    let seen = sampler.fresh();
    let mut overview = (*seen.overview).clone();
    let own = overview.this_head.clone();
    // A head that this process cannot query serves its pools nevertheless.
    let is_away = |pool: &PoolOverview| {
        let is_other = pool.served_by.as_ref().is_some_and(|by| *by != own);
        is_other && !seen.statuses.contains_key(&pool.name)
    };
    overview
        .pools
        .iter_mut()
        .filter(|pool| is_away(pool))
        .for_each(|pool| pool.state = "served".to_owned());
    let mut alerts = alerts::of(
        &overview,
        &all_problems(&seen.cluster_state, &seen.reported),
    );
    if let Some(observed) = observed {
        alerts::date(&mut alerts, &observed.alerts);
    }
    alerts
}

/// The problems of this head, and those that the reports of the other heads show.
fn all_problems(cluster_state: &ClusterState, reported: &Reported) -> Vec<String> {
    let own = cluster_state.problems.iter();
    own.chain(&reported.problems).cloned().collect()
}

/// Corrects the failures that the pool survives by the state of the heads in the cluster, which the pool's server cannot
/// query. `by`: the head that serves it.
fn with_able_heads(
    mut status: Status,
    by: &str,
    cluster_state: &ClusterState,
    reported: &Reported,
) -> Status {
    if let Some(place) = cluster_state.pools.get(&status.pool.name) {
        let reports = &reported.members;
        control::answer::exclude_heads(&mut status.pool, Some(by), &place.cannot_serve, reports);
    }
    status
}

/// The TCP ports among the listeners of a server.
fn listeners(status: &Status) -> Vec<Listener> {
    let server = status.server.iter();
    let listed = server.flat_map(ServerStatus::all_listeners);
    let addresses = listed.flat_map(|(name, places)| places.iter().map(move |place| (name, place)));
    let listeners = addresses.filter_map(|(service, address)| {
        let place: protocol_list::Place = address.parse().ok()?;
        Some(Listener {
            service: service.to_owned().into(),
            port: place.tcp()?.port(),
        })
    });
    listeners.collect()
}

fn pool_overview(
    name: &str,
    place: &PoolLocation,
    by: Option<&String>,
    status: Option<&Status>,
) -> PoolOverview {
    let state = match (by, status) {
        (Some(_), Some(_)) => "served",
        (Some(_), None) => "unreachable",
        (None, _) if place.has_failed => "failed",
        (None, _) => "stopped",
    };
    let sessions = |status: &Status| {
        let targets = status.targets.iter().map(|target| target.sessions.len());
        let exports = status.nbd.iter().map(|export| export.sessions.len());
        let others = status.other_protocols.iter();
        let others = others.flat_map(|protocol| protocol.exports.iter());
        let others = others.map(|export| export.sessions.len());
        targets.chain(exports).chain(others).sum::<usize>() as u64
    };
    PoolOverview {
        name: name.to_owned(),
        state: state.to_owned(),
        slow_since_ms: None,
        served_by: by.cloned(),
        home: place.home.clone(),
        heads: place.heads.clone(),
        addresses: place.addresses.clone(),
        pool: status.map(|status| status.pool.clone()),
        volume_count: status.map_or(0, |status| status.volume_count),
        target_count: status.map_or(0, |status| status.targets.len() as u64),
        nbd_count: status.map_or(0, |status| status.nbd.len() as u64),
        session_count: status.map_or(0, sessions),
        uptime_s: status.and_then(|status| Some(status.server.as_ref()?.uptime_s)),
        problems: match (status, by) {
            (Some(status), _) => status.problems.clone(),
            (None, None) => place.problem.iter().cloned().collect(),
            (None, Some(_)) => Vec::new(),
        },
        forecast: None,
    }
}

/// The last takeover of a pool in these events: after an export it was a start, without one the previous server had no
/// time for an export. `was_served` is true if there was a server before the first event. The heads are named in the
/// messages.
fn takeover(pool: &str, events: &[Event], was_served: bool) -> Option<Takeover> {
    let at = events.iter().rposition(|event| event.kind == "imported")?;
    let mut before = events[..at].iter().rev();
    let before = before.find(|event| matches!(event.kind.as_str(), "imported" | "exported"));
    let kind = match before {
        Some(event) if event.kind == "imported" => match machine(event) == machine(&events[at]) {
            true => "restart",
            false => "takeover",
        },
        None if was_served => "takeover",
        _ => "start",
    };
    Some(Takeover {
        pool: pool.to_owned(),
        kind: kind.to_owned(),
        at_ms: events[at].at_ms,
        ..Takeover::default()
    })
}

/// `left` in "imported by bulkhead 0.1.0 on left".
fn machine(event: &Event) -> Option<&str> {
    event
        .message
        .rsplit_once(" on ")
        .map(|(_, machine)| machine)
}

/// The latest takeover, with the start times reported by its server.
fn last_takeover(
    takeovers: &BTreeMap<String, Takeover>,
    served: &BTreeMap<String, String>,
    statuses: &BTreeMap<String, Arc<Status>>,
) -> Option<Takeover> {
    let known = takeovers.values();
    let known = known.filter(|takeover| served.contains_key(&takeover.pool));
    let mut last = known.max_by_key(|takeover| takeover.at_ms)?.clone();
    last.to = served.get(&last.pool).cloned().unwrap_or_default();
    let status = statuses.get(&last.pool);
    let Some(server) = status.and_then(|status| status.server.as_ref()) else {
        return Some(last);
    };
    let steps = [
        (Takeover::SERVER_STARTED, Some(0)),
        ("listening", server.listening_after_ms),
        ("logs replayed", server.replayed_after_ms),
        ("first read served", server.first_read_after_ms),
    ];
    let steps = steps.into_iter().filter_map(|(name, after_ms)| {
        Some(Step {
            name: name.to_owned(),
            after_ms: after_ms?,
        })
    });
    last.steps = steps.collect();
    last.steps.sort_by_key(|step| step.after_ms);
    last.duration_ms = server.listening_after_ms;
    Some(last)
}

/// Whether they differ in more than times.
fn differs(old: &Overview, new: &Overview) -> bool {
    let still = |overview: &Overview| {
        let mut overview = overview.clone();
        overview.at_ms = 0;
        for pool in &mut overview.pools {
            pool.uptime_s = None;
        }
        overview
    };
    still(old) != still(new)
}

fn metrics(before: &Seen, statuses: &BTreeMap<String, Arc<Status>>) -> Metrics {
    let seconds = before.at.map_or(0.0, |at| at.elapsed().as_secs_f64());
    let (mut volumes, mut filesystems) = (Vec::new(), Vec::new());
    for (pool, status) in statuses {
        let old = before.statuses.get(pool);
        let known: BTreeMap<_, _> = old
            .iter()
            .flat_map(|old| &old.file_system_activity)
            .map(|activity| (&activity.name, activity))
            .collect();
        for new in &status.file_system_activity {
            let old = known.get(&new.name).copied().unwrap_or(new);
            filesystems.push(FileSystemRates::between(pool, old, new, seconds));
        }
        let old: BTreeMap<_, _> = old
            .iter()
            .flat_map(|old| &old.activity)
            .map(|activity| (&activity.name, activity))
            .collect();
        for new in &status.activity {
            // A volume in its first sample has no rates yet.
            let old = old.get(&new.name).copied().unwrap_or(new);
            volumes.push(VolumeRates::between(pool, old, new, seconds));
        }
    }
    Metrics {
        at_ms: now_ms(),
        volumes,
        filesystems,
    }
}

#[cfg(test)]
mod tests {
    use control::answer::{FileSystemActivity, RequestActivity, VolumeActivity};

    use super::*;

    fn status(reads: u64, read_us: u64) -> BTreeMap<String, Arc<Status>> {
        let activity = VolumeActivity {
            name: "tank/a".parse().expect("a name"),
            reads,
            read_bytes: reads * 4096,
            read_us,
            read_times: Vec::new(),
            writes: 0,
            write_bytes: 0,
            write_us: 0,
            write_times: Vec::new(),
            errors: 0,
            refused_for_space: 0,
            frozen: None,
        };
        let requests = RequestActivity {
            count: reads,
            us: read_us,
            ..RequestActivity::default()
        };
        let in_files = FileSystemActivity {
            name: "tank/home".to_owned(),
            others: requests,
            ..FileSystemActivity::default()
        };
        let status = Status {
            activity: vec![activity],
            file_system_activity: vec![in_files],
            ..Status::default()
        };
        BTreeMap::from([("tank".to_owned(), Arc::new(status))])
    }

    #[test]
    fn listeners_include_tcp_ports_and_sockets() {
        let server = control::answer::ServerStatus {
            iscsi_portals: vec![
                "10.77.1.100:3260,1".to_owned(),
                "[fd00::1]:3261,2".to_owned(),
            ],
            nbd_listeners: vec!["unix:/run/tank.nbd".to_owned(), "0.0.0.0:10809".to_owned()],
            ..Default::default()
        };
        let status = Status {
            server: Some(server),
            ..Status::default()
        };
        let found: Vec<_> = listeners(&status)
            .into_iter()
            .map(|one| (one.service, one.port))
            .collect();
        let expected = [("iscsi", 3260), ("iscsi", 3261), ("nbd", 10809)];
        assert_eq!(
            found,
            expected.map(|(service, port)| (service.into(), port))
        );
        assert_eq!(listeners(&Status::default()), []);
    }

    #[test]
    fn unknown_protocol_is_counted() {
        let places = ["unix:/run/echo", "10.0.0.1:7,3"].map(str::to_owned);
        let listening = BTreeMap::from([("echo".to_owned(), places.to_vec())]);
        let status = serde_json::json!({
            "name": "echo", "listeners": [], "exports": [
                {"name": "e", "volumes": ["tank/v"], "sessions": [{"name": "somebody", "peers": ["unix"]}]}
            ],
        });
        let status = Status {
            server: Some(ServerStatus::default().listening(listening)),
            other_protocols: vec![serde_json::from_value(status).expect("a protocol")],
            ..Status::default()
        };
        let [listener] = &listeners(&status)[..] else {
            panic!("one port");
        };
        assert_eq!((&listener.service[..], listener.port), ("echo", 7));
        let overview = pool_overview("tank", &PoolLocation::default(), None, Some(&status));
        assert_eq!(overview.session_count, 1);
    }

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let before = Seen {
            statuses: status(100, 1000),
            at: Instant::now().checked_sub(Duration::from_secs(2)),
            ..Seen::default()
        };
        let metrics = metrics(&before, &status(300, 11_000));
        let volume = &metrics.volumes[0];
        assert!(
            (99.0..=100.0).contains(&volume.read_ops_per_s),
            "{volume:?}"
        );
        assert_eq!(volume.read_latency_us, Some(50.0));
        assert_eq!(volume.write_latency_us, None);
        let files = &metrics.filesystems[0];
        assert_eq!(files.filesystem, "tank/home");
        assert!((99.0..=100.0).contains(&files.other_ops_per_s), "{files:?}");
        assert_eq!(files.other_latency_us, Some(50.0));
        assert_eq!(files.read_latency_us, None);
    }

    #[test]
    fn restarted_server_has_no_negative_rates() {
        let before = Seen {
            statuses: status(100, 1000),
            at: Some(Instant::now()),
            ..Seen::default()
        };
        let metrics = metrics(&before, &status(5, 10));
        assert!(metrics.volumes[0].read_ops_per_s >= 0.0);
    }

    #[test]
    fn exit_without_export_counts_as_takeover() {
        let events = |kinds: &[&str]| -> Vec<Event> {
            let kinds = kinds.iter().zip(1..);
            kinds
                .map(|(kind, number)| Event {
                    number,
                    at_ms: number * 1000,
                    kind: (*kind).to_owned(),
                    ..Event::default()
                })
                .collect()
        };
        let kind =
            |kinds: &[&str]| takeover("tank", &events(kinds), false).map(|t| (t.kind, t.at_ms));
        let again = Some(("restart".to_owned(), 3000));
        assert_eq!(kind(&["imported", "scan", "imported"]), again);
        let mut moved = events(&["imported", "scan", "imported"]);
        moved[0].message = "imported by bulkhead 0.1.0 on left".to_owned();
        moved[2].message = "imported by bulkhead 0.1.0 on right".to_owned();
        let taken = takeover("tank", &moved, false).map(|taken| taken.kind);
        assert_eq!(taken.as_deref(), Some("takeover"));
        let started = Some(("start".to_owned(), 3000));
        assert_eq!(kind(&["imported", "exported", "imported", "scan"]), started);
        assert_eq!(kind(&["scan"]), None);
    }

    #[test]
    fn clock_changes_alone_are_ignored() {
        let overview = |at_ms, uptime_s, state: &str| Overview {
            at_ms,
            pools: vec![PoolOverview {
                uptime_s,
                state: state.to_owned(),
                ..PoolOverview::default()
            }],
            ..Overview::default()
        };
        let old = overview(1, Some(1), "served");
        assert!(!differs(&old, &overview(2, Some(2), "served")));
        assert!(differs(&old, &overview(1, Some(1), "stopped")));
    }
}
