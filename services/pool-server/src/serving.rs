//! Serves the pool's documents: reads them and has every protocol apply the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ::protocol_list::Description;
use block_device::SharedDevice;
use control::answer::{OpenFilesView, Status};
use control::exports::{Change, DesiredState, Problem, difference};
use control::portal::PortalView;
use control::{Answer, Failure, FailureKind};
use file_system::FileSystem;
use operations::in_use::Used;
use operations::seals::Ring;
use operations::secrets;
use operations::{self, DocumentCache, documents};
use serving::{ConnectionLimits, EarlySockets, Peer, StaleConnection};
use units::{PoolName, VolumeName};

use super::connections;
use super::listen::{Keytabs, Tls};
use super::portals::{self, Addresses};
use super::rescue::Rescues;
use super::servers::{self, Client, ContentsNotified, Export, FileProtocol, Protocol, Wanted};
use super::shared_pool::SharedPool;
use super::volumes::Volumes;

/// Where and how to serve.
#[derive(Default)]
pub struct Setup {
    /// Initial listening addresses.
    pub addresses: Addresses,
    /// True if a cluster agent started this server. The appliance file then defines the addresses.
    pub is_of_a_cluster: bool,
    /// Protocols that require TLS, and the TLS files.
    pub tls: Tls,
    /// Keytabs of protocols that support Kerberos.
    pub keytabs: Keytabs,
    /// Connection limit of each protocol.
    pub connections: ConnectionLimits,
    /// Number of worker threads for blocking operations.
    pub workers: usize,
    /// Sockets on which clients may queue already.
    pub early: Arc<EarlySockets>,
    /// Protections that this host does not have.
    pub unprotected: Vec<&'static str>,
}

/// The protocols and the exports they serve.
pub struct Serving {
    setup: Setup,
    pool: Arc<SharedPool>,
    /// The volumes that are shown.
    pub volumes: Volumes,
    /// The pool's documents.
    pub documents: Arc<DocumentCache>,
    /// Rescues, which exist in addition to the exports.
    pub rescues: Rescues,
    protocols: Vec<Box<dyn Protocol>>,
    /// Datasets that stay closed, with their descendants.
    closed: Mutex<Vec<VolumeName>>,
    served: Mutex<Served>,
}

#[derive(Default)]
struct Served {
    /// Listening addresses with real ports. A change is applied under the lock before the next one starts.
    addresses: Addresses,
    desired: DesiredState,
    /// Exports of each protocol, by protocol name.
    exports: BTreeMap<&'static str, Vec<Export>>,
    problems: Vec<Problem>,
    /// Volumes with documents.
    volume_count: u64,
    /// Volumes without documents: created by other software and not exported yet.
    other_count: u64,
}

impl Serving {
    /// Serves nothing yet.
    pub fn new(
        setup: Setup,
        protocols: Vec<Box<dyn Protocol>>,
        pool: Arc<SharedPool>,
        documents: Arc<DocumentCache>,
        rescues: Rescues,
        started: Instant,
    ) -> Self {
        let served = Served {
            addresses: setup.addresses.clone(),
            ..Served::default()
        };
        Self {
            volumes: Volumes::new(Arc::clone(&pool), started),
            documents,
            rescues,
            setup,
            pool,
            protocols,
            closed: Mutex::default(),
            served: Mutex::new(served),
        }
    }

    fn served(&self) -> MutexGuard<'_, Served> {
        self.served.lock().expect("no holder panics")
    }

    /// Like [`Self::reconcile`], with the documents read again from the pool.
    pub fn read_again(&self) -> Result<(), Failure> {
        self.documents.forget();
        self.reconcile()
    }

    /// Applies the documents. Idempotent; sessions that no change affects notice nothing.
    pub fn reconcile(&self) -> Result<(), Failure> {
        // Held throughout, so that concurrent changes are applied one after the other.
        self.apply(&mut self.served())
    }

    fn apply(&self, served: &mut Served) -> Result<(), Failure> {
        let begun = Instant::now();
        let (root, all) = {
            let pool = self.pool.require()?;
            (pool.name().to_string(), self.documents.all(&*pool)?)
        };
        let read_us = begun.elapsed().as_micros() as u64;
        let (desired, mut problems) = documents::desired_state(&root, &all);
        let ring = self.ring(&desired);
        let rescued = self.rescues.exclusive();
        let closed = self.closed().clone();
        let mut wanted = Wanted {
            documents: &all,
            desired: &desired,
            locked: &BTreeMap::new(),
            rescued: &rescued,
            closed: &closed,
            ring: &ring,
            volumes: &self.volumes,
            addresses: &served.addresses,
        };
        let protocols = self.protocols.iter();
        let exports: BTreeMap<_, _> = protocols
            .map(|protocol| (protocol.name(), protocol.exports(&wanted)))
            .collect();
        let volumes = exports.values().flatten();
        let volumes: BTreeSet<&VolumeName> = volumes.flat_map(|one| &one.volumes).collect();
        let locked = self.locked(&volumes)?;
        wanted.locked = &locked;
        problems.extend(locked.iter().map(|(volume, key)| Problem {
            subject: volume.to_string(),
            sentence: format!(
                "the key of {key} is missing, and clients are paused: {}; `bulkhead volume key status {volume}` shows its location",
                control::key::how_to_load("volume", key)
            ),
        }));
        problems.extend(secrets::problems(&desired, &ring));
        problems.extend(self.setup.unprotected.iter().map(|what| Problem {
            subject: "isolation".to_owned(),
            sentence: format!(
                "this host has no {what}: a client that compromises the pool's server could reach more of it; start a kernel that has it"
            ),
        }));
        let changes = difference(&served.desired, &desired);
        report(&changes);
        let volume_count = all.volumes().count() as u64;
        let decided_us = begun.elapsed().as_micros() as u64;
        let protocols = self.protocols.iter();
        // Every protocol applies, even after one failed.
        let applied: Vec<_> = protocols.map(|protocol| protocol.apply(&wanted)).collect();
        problems.extend(
            self.protocols
                .iter()
                .flat_map(|protocol| protocol.problems()),
        );
        for problem in problems.iter().filter(|p| !served.problems.contains(p)) {
            tracing::error!(subject = problem.subject, "{}", problem.sentence);
        }
        let mut kept = volumes;
        kept.extend(&rescued);
        self.volumes.keep_only(&kept);
        let applied_us = begun.elapsed().as_micros() as u64;
        tracing::debug!(read_us, decided_us, applied_us, "exports read and applied");
        served.volume_count = volume_count;
        served.desired = desired;
        served.exports = exports;
        served.problems = problems;
        applied.into_iter().collect()
    }

    /// The keys of the secrets. Without them no initiator can log in where a secret is required.
    fn ring(&self, desired: &DesiredState) -> Ring {
        let of_targets = desired
            .targets
            .values()
            .map(|target| &target.document.users);
        let mut users = of_targets.chain(&desired.discovery);
        if !users.any(|users| users.all().next().is_some()) {
            return Ring::none();
        }
        let ring = self
            .pool
            .require()
            .and_then(|pool| self.documents.ring(&*pool));
        ring.unwrap_or_else(|failure| {
            tracing::error!(%failure, "no secret of the pool can be read");
            Ring::none()
        })
    }

    /// Volumes that should be served but are locked, each with the dataset that owns its key.
    fn locked(
        &self,
        wanted: &BTreeSet<&VolumeName>,
    ) -> Result<BTreeMap<VolumeName, String>, Failure> {
        let pool = self.pool.require()?;
        let locked = operations::encrypted_datasets(&*pool)?.into_iter();
        let locked = locked
            .filter(engine::keys::KeyInfo::is_locked)
            .filter_map(|info| {
                let name: VolumeName = info.dataset.parse().ok()?;
                wanted.contains(&name).then_some((name, info.root?))
            });
        Ok(locked.collect())
    }

    /// Renames the dataset `from` and all below it.
    pub fn renamed(&self, from: &VolumeName, to: &VolumeName) {
        self.volumes.renamed(from, to);
        for protocol in &self.protocols {
            protocol.renamed(from, to);
        }
    }

    fn closed(&self) -> MutexGuard<'_, Vec<VolumeName>> {
        self.closed.lock().expect("no holder panics")
    }

    /// The protocols that share file systems.
    fn file_protocols(&self) -> impl Iterator<Item = &dyn FileProtocol> {
        self.protocols.iter().filter_map(|one| one.as_files())
    }

    /// Closes `name` and all below it. File systems stay closed until [`Self::may_open`]. May block.
    pub fn close(&self, name: &VolumeName) {
        self.closed().push(name.clone());
        self.volumes.close(name);
        for files in self.file_protocols() {
            files.close(name);
        }
    }

    /// Closes the file systems at and below `dataset`. The next [`Self::reconcile`] reopens them. May block.
    pub fn close_for_reopen(&self, dataset: &str) {
        for files in self.file_protocols() {
            files.close_for_reopen(dataset);
        }
    }

    /// Reverts one [`Self::close`]. The next [`Self::reconcile`] reopens shared file systems.
    pub fn may_open(&self, name: &VolumeName) {
        let mut closed = self.closed();
        if let Some(at) = closed.iter().position(|one| one == name) {
            closed.swap_remove(at);
        }
    }

    /// Whether another [`Self::reconcile`] may succeed where the last one failed. Never blocks.
    pub fn wants_retry(&self) -> bool {
        let mut protocols = self.protocols.iter();
        protocols.any(|protocol| protocol.wants_retry())
    }

    /// Retries failed steps that do not depend on the documents.
    pub fn try_again(&self) {
        for protocol in &self.protocols {
            protocol.try_again();
        }
    }

    /// Refused writes for lack of space, per volume and file system. `None` while that cannot be read without blocking.
    pub fn refused_for_space(&self) -> Option<BTreeMap<VolumeName, u64>> {
        let mut refused = self.volumes.refused_for_space();
        for files in self.file_protocols() {
            refused.extend(files.refused_for_space()?);
        }
        Some(refused)
    }

    /// Notifies the clients of `volume` that its contents, and perhaps its size, changed.
    pub(super) fn notify_contents_changed(
        &self,
        volume: &VolumeName,
        was_resized: bool,
    ) -> ContentsNotified {
        let device = self.volumes.device(volume) as SharedDevice;
        let mut told = ContentsNotified::default();
        for protocol in &self.protocols {
            told += protocol.contents_changed(volume, &device, was_resized);
        }
        told
    }

    /// The clients of an export as text; for a volume, the clients of every export that shows it.
    pub(super) fn users_of(&self, used: &Used<'_>) -> Vec<String> {
        let served = self.served();
        let mut users = Vec::new();
        for protocol in &self.protocols {
            let exports = served.exports.get(protocol.name()).into_iter().flatten();
            let meant = exports.filter(|export| match used {
                Used::Export(of, name) => *of == protocol.name() && *name == export.name,
                Used::Volume(volume) => {
                    export.volumes.contains(volume) || export.file_system.as_ref() == Some(volume)
                }
            });
            let meant: BTreeSet<&str> = meant.map(|export| export.name.as_str()).collect();
            let clients = protocol.clients().into_iter();
            let clients = clients.filter(|client| meant.contains(client.export.as_str()));
            users.extend(clients.map(|client| client.to_string()));
        }
        users
    }

    /// The open files and locks of clients in a file system. `None` if it is not shared. May block on disks.
    pub(super) fn open_files(&self, name: &VolumeName) -> Option<OpenFilesView> {
        self.file_protocols()
            .find_map(|files| files.open_files(name))
    }

    /// The files of a file system that is shared.
    pub(super) fn files(&self, name: &VolumeName) -> Option<Arc<dyn FileSystem>> {
        self.file_protocols().find_map(|files| files.files(name))
    }

    /// Revokes a client's open files and locks. Returns whether the client exists.
    pub(super) fn expire_client(&self, client: u64) -> bool {
        self.file_protocols()
            .any(|files| files.expire_client(client))
    }

    /// Whether the appliance file defines the listening addresses.
    pub const fn is_of_a_cluster(&self) -> bool {
        self.setup.is_of_a_cluster
    }

    /// Descriptions of the protocols.
    pub fn descriptions(&self) -> Vec<&'static Description> {
        let protocols = self.protocols.iter();
        protocols.map(|protocol| protocol.description()).collect()
    }

    /// The addresses where the server listens or is about to.
    pub fn listens_at(&self) -> Addresses {
        self.served().addresses.clone()
    }

    /// Listens at `wanted` only, and returns the addresses with real ports. On failure nothing changes.
    pub fn listen_at(&self, mut wanted: Addresses) -> Result<Addresses, Failure> {
        let mut served = self.served();
        for protocol in &self.protocols {
            protocol.check()?;
        }
        let early = &self.setup.early;
        let opened = wanted.open_new(&served.addresses, early);
        let opened = opened.map_err(|error| portals::refused(&error))?;
        let before = std::mem::replace(&mut served.addresses, wanted.clone());
        let Err(failure) = self.apply(&mut served) else {
            return Ok(wanted);
        };
        early.forget(&opened);
        served.addresses = before;
        if let Err(failure) = self.apply(&mut served) {
            tracing::error!(%failure, "the previous listening addresses could not be restored completely");
        }
        Err(failure)
    }

    /// The connected clients as text.
    pub fn users(&self) -> Vec<String> {
        self.users_beyond(&Addresses::default())
    }

    /// The clients connected by an address that is not in `wanted`, as text.
    pub fn users_beyond(&self, wanted: &Addresses) -> Vec<String> {
        let protocols = self.protocols.iter();
        let clients = protocols.flat_map(|protocol| protocol.clients_beyond(wanted));
        clients.map(|client| client.to_string()).collect()
    }

    /// The portals of the server of `pool`, each with the number of connections accepted there.
    pub fn portals(&self, pool: &PoolName) -> Vec<PortalView> {
        let addresses = self.listens_at();
        let protocols = self.protocols.iter();
        let portals = protocols.flat_map(|protocol| protocol.portals(pool, &addresses));
        portals.collect()
    }

    /// The addresses as text, by protocol name.
    pub fn listeners(&self) -> BTreeMap<String, Vec<String>> {
        let protocols = self.protocols.iter();
        protocols
            .map(|protocol| (protocol.name().to_owned(), protocol.addresses()))
            .collect()
    }

    /// Updates the volume count after a volume was created or destroyed without a change of exports.
    pub fn count_volumes(&self, pool: &dyn engine::Pool) {
        if let Ok(all) = self.documents.all(pool) {
            self.served().volume_count = all.volumes().count() as u64;
        }
        // Volumes created by Bulkhead have documents from the start, so the other count never grows.
        if self.served().other_count > 0 {
            self.count_others(pool);
        }
    }

    /// Counts the volumes without documents, which means to visit every dataset.
    pub fn count_others(&self, pool: &dyn engine::Pool) {
        if let Ok(count) = pool.volume_count() {
            self.note_count(pool, count);
        }
    }

    /// Like [`Self::count_others`], before any change since the import. `false` if the count is not available.
    pub fn count_others_at_import(&self, pool: &dyn engine::Pool) -> bool {
        let count = pool.volume_count_at_import();
        count.is_some_and(|count| self.note_count(pool, count))
    }

    fn note_count(&self, pool: &dyn engine::Pool, count: u64) -> bool {
        let Ok(all) = self.documents.all(pool) else {
            return false;
        };
        let documented = all.volumes().count() as u64;
        self.served().other_count = count.saturating_sub(documented);
        true
    }

    /// The served exports, without access to the pool.
    pub fn glance(&self, pool: &PoolName) -> Status {
        let served = self.served();
        let mut status = Status {
            volume_count: served.volume_count + served.other_count,
            problems: served.problems.iter().map(ToString::to_string).collect(),
            activity: self.volumes.activity(),
            ..Status::default()
        };
        for protocol in &self.protocols {
            if let Some(files) = protocol.as_files() {
                status.file_system_activity.extend(files.activity());
            }
            let exports = served.exports.get(protocol.name());
            let shown = servers::Served {
                pool,
                desired: &served.desired,
                exports: exports.map_or(&[], Vec::as_slice),
            };
            protocol.show(&shown, &mut status);
        }
        status
    }

    /// Adds the connected clients to a response that lists exports.
    pub fn add_sessions(&self, answer: &mut Answer) {
        for protocol in &self.protocols {
            protocol.add_sessions(answer);
        }
    }

    fn clients(&self) -> impl Iterator<Item = Client> + '_ {
        let protocols = self.protocols.iter();
        protocols.flat_map(|protocol| protocol.clients())
    }

    /// Number of connections that use an export.
    pub fn session_count(&self) -> usize {
        self.clients().map(|client| client.peers.len()).sum()
    }

    /// The peers of all connections.
    pub fn peers(&self) -> Vec<Peer> {
        let protocols = self.protocols.iter();
        protocols.flat_map(|protocol| protocol.peers()).collect()
    }

    /// Resets the connections of clients of the pool's previous server, except those in `told`. Returns the ones it
    /// reset.
    pub fn reset_previous_clients(&self, told: &[StaleConnection]) -> Vec<StaleConnection> {
        let Some(pool) = self.pool.get() else {
            return Vec::new();
        };
        // Cached by the preceding read of the exports.
        match self.documents.all(&*pool) {
            Ok(all) => {
                let stale_connections = connections::previous(all.own(pool.name().as_str()));
                let left = stale_connections.iter().filter(|one| !told.contains(one));
                connections::reset_previous(&left.copied().collect::<Vec<_>>(), &self.listening());
                stale_connections
            }
            Err(failure) => {
                tracing::warn!(%failure, "the clients of the previous server cannot be read");
                Vec::new()
            }
        }
    }

    /// The TCP addresses that accept connections.
    fn listening(&self) -> Vec<SocketAddr> {
        let protocols = self.protocols.iter();
        protocols
            .flat_map(|protocol| protocol.tcp_listeners())
            .collect()
    }

    /// Announces to clients that their sessions are about to end and that they may reconnect at once, where the
    /// protocol has such a message.
    pub fn announce_end(&self) {
        for protocol in &self.protocols {
            protocol.announce_end();
        }
    }

    /// Closes connections without sending a packet after their local address moved to another head. Otherwise these
    /// clients would reconnect before that head serves them.
    fn silence_removed_addresses(&self) {
        let protocols = self.protocols.iter();
        let silenced: usize = protocols
            .map(|protocol| protocol.silence_removed_addresses())
            .sum();
        if silenced > 0 {
            tracing::info!(
                connections = silenced,
                "closed without a FIN or RST: their address was removed"
            );
        }
    }

    /// Terminates all sessions without further replies and leaves the volumes open.
    pub fn drop_sessions(&self) {
        self.silence_removed_addresses();
        for protocol in &self.protocols {
            protocol.drop_all();
        }
    }

    /// Lets clients finish and log out until `wait` has passed, then terminates the remaining sessions.
    pub fn drain(&self, wait: Duration) {
        self.silence_removed_addresses();
        let deadline = Instant::now() + wait;
        std::thread::scope(|scope| {
            for protocol in &self.protocols {
                scope.spawn(|| protocol.drain(deadline));
            }
        });
    }

    /// Closes all volumes and file systems. Each flushes its pending data first.
    pub fn close_volumes(&self) {
        std::thread::scope(|scope| {
            for protocol in &self.protocols {
                scope.spawn(|| {
                    if let Some(files) = protocol.as_files() {
                        files.close_all();
                    }
                });
            }
            self.volumes.close_all();
        });
    }
}

/// Describes a failure to bind a listener.
pub fn listen_failure(error: &serving::ListenError) -> Failure {
    use std::io::ErrorKind::{AddrInUse, PermissionDenied};
    let kind = match error.cause.kind() {
        AddrInUse => FailureKind::Busy,
        PermissionDenied => FailureKind::Denied,
        _ => FailureKind::Failed,
    };
    let failure = Failure::from_chain(kind, error);
    match kind {
        FailureKind::Busy => failure.advise(format!(
            "another process listens on {}: stop it, or choose another port",
            error.address
        )),
        _ => failure,
    }
}

/// Logs the changes. A start with many exports logs one line.
fn report(changes: &[Change]) {
    /// Above this count, changes are logged as a sum.
    const LINES_MAX: usize = 16;
    if changes.len() > LINES_MAX {
        tracing::info!(count = changes.len(), "exports changed");
        return;
    }
    for change in changes {
        tracing::info!("{change}");
    }
}
