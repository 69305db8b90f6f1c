//! Serves what the pool's documents say: reads them, and has both protocol servers change what
//! differs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use block_device::SharedDevice;
use control::answer::Status;
use control::exports::{
    Change, ChapUser, ChapUsers, DISCOVERY_PROPERTY, DesiredState, DesiredTarget, DesiredUnit,
    Problem, TargetDocument, difference, target_property,
};
use control::failure::chain;
use control::portal::{PortalView, Protocol};
use control::{Failure, FailureKind};
use iscsi::{
    Access as IscsiAccess, Chap, Credentials, DesiredPortal, Initiators, IscsiServer, Limits,
};
use nbd::{Access as NbdAccess, DesiredExport, Farewell, NbdServer, ServerLimits, TlsSettings};
use serving::{
    Budget, ConnectionLimits, EarlySockets, ListenAddress, Peer, StaleConnection, Workers,
};
use units::{IscsiName, PoolName, VolumeName};

use super::connections;
use super::portals::{self, Addresses};
use super::rescue::Rescues;
use super::shared_pool::SharedPool;
use super::unit_store::UnitStore;
use super::volumes::Volumes;
use crate::operations::documents::All;
use crate::operations::in_use::Used;
use crate::operations::secrets::{self, Direction};
use crate::operations::{self, DocumentCache, discovery_glance, documents, nbd_view, target_view};
use crate::seals::Ring;

/// Bytes of writes in memory over all iSCSI connections.
const ISCSI_PAYLOAD_BYTES_MAX: u64 = 512 << 20;
/// Shown to initiators in the standard INQUIRY data.
const VENDOR: &str = "BULKHEAD";
/// INQUIRY has room for four characters.
const REVISION: &str = concat!(
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR")
);
const PRODUCT: &str = "ZFS VOLUME";

/// Where and how to serve.
pub struct Setup {
    /// Where to listen at first.
    pub addresses: Addresses,
    /// An agent started this server: the appliance file says where it listens.
    pub is_of_a_cluster: bool,
    /// TLS of NBD.
    pub nbd_tls: Option<TlsSettings>,
    /// Connections that each protocol takes.
    pub connections: ConnectionLimits,
    /// Threads for what has to wait.
    pub workers: usize,
    /// Where clients may wait already.
    pub early: Arc<EarlySockets>,
    /// The test word: every access rule is as if it said everyone.
    pub all_to_everyone: bool,
}

/// Both protocol servers, and what they serve.
pub struct Serving {
    setup: Setup,
    pool: Arc<SharedPool>,
    /// The volumes that are shown.
    pub volumes: Volumes,
    /// The pool's documents.
    pub documents: Arc<DocumentCache>,
    /// What is looked at beside the exports.
    pub rescues: Rescues,
    iscsi: IscsiServer,
    nbd: NbdServer,
    served: Mutex<Served>,
}

#[derive(Default)]
struct Served {
    /// Where to listen, with real ports. Whoever changes it makes it so before another can.
    addresses: Addresses,
    desired: DesiredState,
    problems: Vec<Problem>,
    /// Volumes with documents.
    volume_count: u64,
    /// Volumes without any: made by other software, and not exported yet.
    other_count: u64,
    targets: BTreeMap<IscsiName, Arc<scsi::Target>>,
    reservations: BTreeMap<(IscsiName, u16), Arc<UnitStore>>,
}

impl Serving {
    /// Serves nothing yet.
    pub fn new(
        setup: Setup,
        pool: Arc<SharedPool>,
        documents: DocumentCache,
        rescues: Rescues,
        started: Instant,
    ) -> Self {
        let workers = Arc::new(Workers::new("iscsi-worker", setup.workers));
        let budget = Budget::new(ISCSI_PAYLOAD_BYTES_MAX);
        let iscsi_limits = Limits {
            connections: setup.connections,
            ..Limits::default()
        };
        let limits = ServerLimits {
            connections: setup.connections,
            workers_max: setup.workers,
            ..ServerLimits::default()
        };
        let served = Served {
            addresses: setup.addresses.clone(),
            ..Served::default()
        };
        let (iscsi_early, nbd_early) = (Arc::clone(&setup.early), Arc::clone(&setup.early));
        Self {
            volumes: Volumes::new(Arc::clone(&pool), started),
            documents: Arc::new(documents),
            rescues,
            setup,
            pool,
            iscsi: IscsiServer::new(iscsi_limits, workers, budget).with_early(iscsi_early),
            nbd: NbdServer::new(limits).with_early(nbd_early),
            served: Mutex::new(served),
        }
    }

    fn served(&self) -> MutexGuard<'_, Served> {
        self.served.lock().expect("no holder panics")
    }

    /// As [`Self::reconcile`], with documents that are read again from the pool.
    pub fn read_again(&self) -> Result<(), Failure> {
        self.documents.forget();
        self.reconcile()
    }

    /// Serves what the documents say. Sessions that nothing changes for notice
    /// nothing; calling it again is harmless.
    pub fn reconcile(&self) -> Result<(), Failure> {
        // Held throughout, so that two changes at a time are applied one after the other.
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
        let locked = self.locked(&desired)?;
        problems.extend(locked.iter().map(|(volume, key)| Problem {
            subject: volume.to_string(),
            sentence: format!(
                "it waits for the key of {key}, and initiators wait for it: `bulkhead volume key \
                 status {volume}` shows where the key is kept"
            ),
        }));
        let ring = self.ring(&desired);
        problems.extend(secrets::problems(&desired, &ring));
        let changes = difference(&served.desired, &desired);
        for problem in problems.iter().filter(|p| !served.problems.contains(p)) {
            tracing::error!(subject = problem.subject, "{}", problem.sentence);
        }
        report(&changes);
        served.volume_count = all.volumes().count() as u64;
        let decided_us = begun.elapsed().as_micros() as u64;
        let iscsi = self.iscsi_desired(served, &desired, &all, &ring);
        let nbd = self.nbd_desired(&desired, &locked, served.addresses.nbd.clone());
        let applied = self.iscsi.apply(iscsi);
        let nbd_applied = self.nbd.apply(nbd);
        let rescued = self.rescues.exclusive();
        let mut wanted = desired.volumes();
        wanted.extend(&rescued);
        self.volumes.keep_only(&wanted);
        served
            .targets
            .retain(|name, _| desired.targets.contains_key(name));
        served.reservations.retain(|(name, lun), _| {
            let target = desired.targets.get(name);
            target.is_some_and(|target| target.units.contains_key(lun))
        });
        let applied_us = begun.elapsed().as_micros() as u64;
        tracing::debug!(read_us, decided_us, applied_us, "exports read and applied");
        served.desired = desired;
        served.problems = problems;
        if let Some(error) = applied.failed.first() {
            return Err(portals::refused(error));
        }
        nbd_applied.map(drop).map_err(|error| match &error {
            nbd::ApplyError::Listen(listen) => portals::refused(listen),
            _ => Failure::from_chain(FailureKind::Usage, &error),
        })
    }

    fn iscsi_desired(
        &self,
        served: &mut Served,
        desired: &DesiredState,
        properties: &All,
        ring: &Ring,
    ) -> iscsi::DesiredState {
        let mut targets = Vec::new();
        let rescued = self.rescues.exclusive();
        for (name, wanted) in &desired.targets {
            let groups = groups_of(wanted, &served.addresses.iscsi);
            let target = served.targets.entry(name.clone()).or_insert_with(|| {
                scsi::Target::new(scsi::TargetConfig {
                    name: name.clone(),
                    vendor: VENDOR.to_owned(),
                    product: PRODUCT.to_owned(),
                    revision: REVISION.to_owned(),
                    portal_groups: groups.clone(),
                })
            });
            let target = Arc::clone(target);
            target.set_portal_groups(groups);
            let units = wanted.units.iter().map(|(lun, unit)| {
                let key = (name.clone(), *lun);
                let store = self.store(served, key, &unit.volume, properties);
                let ready = !rescued.contains(&unit.volume);
                self.unit(*lun, unit, ready, store)
            });
            let changes = target.apply(units.collect());
            for (lun, error) in &changes.refused {
                let error = chain(error);
                tracing::error!(target = %name, lun, error, "unit not served without its reservations");
            }
            // A resize is no change of the desired state.
            target.check_capacities();
            targets.push(iscsi::DesiredTarget {
                name: name.clone(),
                portal_groups: wanted.document.portal_groups.clone(),
                access: self.iscsi_access(name, &wanted.document, ring),
                target,
            });
        }
        iscsi::DesiredState {
            targets,
            portals: served.addresses.iscsi.clone(),
            discovery: desired
                .discovery
                .as_ref()
                .map(|users| chap(DISCOVERY_PROPERTY, users, ring)),
        }
    }

    /// The place of a unit's reservations; the same one while the unit lives.
    fn store(
        &self,
        served: &mut Served,
        key: (IscsiName, u16),
        volume: &VolumeName,
        properties: &All,
    ) -> Arc<UnitStore> {
        let (target, lun) = key.clone();
        let own = properties.own(volume.as_str());
        let kept = |name: &str| own?.get(name).cloned();
        if let Some(store) = served.reservations.get(&key) {
            if store.volume() == *volume {
                return Arc::clone(store);
            }
        }
        let pool = (Arc::clone(&self.pool), Arc::clone(&self.documents));
        let store = UnitStore::new(pool, target, lun, volume.clone(), kept);
        let store = Arc::new(store);
        served.reservations.insert(key, Arc::clone(&store));
        store
    }

    fn unit(
        &self,
        lun: u16,
        unit: &DesiredUnit,
        ready: bool,
        store: Arc<UnitStore>,
    ) -> scsi::UnitConfig {
        scsi::UnitConfig {
            lun,
            device: self.volumes.device(&unit.volume),
            identity: scsi::Identity {
                naa: unit.identity.naa_bits().to_be_bytes().to_vec(),
                serial: unit.identity.serial.clone(),
                eui: Some(unit.identity.eui_bits().to_be_bytes()),
            },
            write_cache: unit.write_cache,
            read_only: unit.read_only,
            ready,
            // A reservation keeps room for writes; what is unmapped is free for snapshots all the same.
            thin: true,
            show_physical_block: false,
            visibility: scsi::Visibility::All,
            reservations: store.clone(),
            modes: store,
        }
    }

    /// The keys of the secrets. Without them nobody logs in where a secret is asked for.
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
            .and_then(|pool| self.documents.ring(&pool));
        ring.unwrap_or_else(|failure| {
            tracing::error!(%failure, "no secret of the pool can be read");
            Ring::none()
        })
    }

    fn iscsi_access(
        &self,
        name: &IscsiName,
        document: &TargetDocument,
        ring: &Ring,
    ) -> IscsiAccess {
        let rule = &document.access;
        let everyone = rule.everyone || self.setup.all_to_everyone;
        let initiators = match (everyone, rule.initiators.is_empty()) {
            (true, _) => Initiators::Everyone,
            (false, false) => Initiators::Listed(rule.initiators.clone()),
            (false, true) => Initiators::Unspecified,
        };
        let networks = if everyone {
            Vec::new()
        } else {
            rule.networks.clone()
        };
        let users = &document.users;
        let chap = (!users.chap.is_empty()).then(|| chap(&target_property(name), users, ring));
        IscsiAccess {
            initiators,
            networks,
            chap,
        }
    }

    /// The volumes that shall be shown and whose keys are missing, and what the keys are those of.
    fn locked(&self, desired: &DesiredState) -> Result<BTreeMap<VolumeName, String>, Failure> {
        let pool = self.pool.require()?;
        let encrypted = pool.encrypted_datasets();
        let wanted = desired.volumes();
        let locked = encrypted.map_err(operations::dataset_failure)?.into_iter();
        let locked = locked
            .filter(zpool::keys::KeyInfo::is_locked)
            .filter_map(|info| {
                let name: VolumeName = info.dataset.parse().ok()?;
                wanted.contains(&name).then_some((name, info.root?))
            });
        Ok(locked.collect())
    }

    /// An iSCSI unit without its key says that it is not ready, and initiators wait. NBD knows no
    /// such word: there is no export, and clients come again.
    fn nbd_desired(
        &self,
        desired: &DesiredState,
        locked: &BTreeMap<VolumeName, String>,
        listeners: Vec<ListenAddress>,
    ) -> nbd::DesiredState {
        let rescued = self.rescues.exclusive();
        let ready = desired.nbd.values().filter(|wanted| {
            !locked.contains_key(&wanted.volume) && !rescued.contains(&wanted.volume)
        });
        let exports = ready.map(|wanted| {
            let rule = &wanted.export.access;
            let access = if rule.everyone || self.setup.all_to_everyone {
                NbdAccess::Everyone
            } else if rule.networks.is_empty() && rule.identities.is_empty() {
                NbdAccess::Local
            } else {
                NbdAccess::Listed {
                    networks: rule.networks.clone(),
                    identities: rule.identities.clone(),
                }
            };
            DesiredExport {
                name: wanted.export.name.clone(),
                description: wanted.volume.to_string(),
                device: self.volumes.device(&wanted.volume) as SharedDevice,
                read_only: wanted.export.read_only,
                access,
            }
        });
        nbd::DesiredState {
            exports: exports.collect(),
            listeners,
            tls: self.setup.nbd_tls.clone(),
        }
    }

    /// `from`, and all below it, has another name: devices and reservations follow it.
    pub fn renamed(&self, from: &VolumeName, to: &VolumeName) {
        self.volumes.renamed(from, to);
        let served = self.served();
        for store in served.reservations.values() {
            if let Some(name) = store.volume().moved(from, to) {
                store.renamed(name);
            }
        }
    }

    /// Tells the initiators that see `volume` that its contents, and perhaps its size, are
    /// others; how many sessions there are.
    pub(super) fn tell_contents_changed(&self, volume: &VolumeName) -> u64 {
        let served = self.served();
        let mut told = 0;
        for (name, desired) in &served.desired.targets {
            let Some(target) = served.targets.get(name) else {
                continue;
            };
            let shown = desired
                .units
                .iter()
                .filter(|(_, unit)| unit.volume == *volume);
            for (lun, _) in shown {
                told += target.contents_changed(*lun) as u64;
                target.check_capacities();
            }
        }
        told
    }

    /// Who is connected to an export, in words; of a volume, also to a target that shows it.
    pub(super) fn users_of(&self, used: &Used<'_>) -> Vec<String> {
        let sessions = self.sessions();
        let served = self.served();
        let is_meant = |target: &IscsiName, desired: &DesiredTarget| match used {
            Used::Target(name) => *name == target,
            Used::Volume(volume) => desired.units.values().any(|unit| unit.volume == **volume),
            Used::Nbd(_) => false,
        };
        let mut users = Vec::new();
        let targets = served.desired.targets.iter();
        for (name, _) in targets.filter(|(name, desired)| is_meant(name, desired)) {
            let found = sessions.iscsi.get(name).into_iter().flatten();
            users.extend(found.map(|one| {
                format!(
                    "initiator {} from {} at {name}",
                    one.name,
                    one.peers.join(" ")
                )
            }));
        }
        let exports = served.desired.nbd.values().filter(|one| match used {
            Used::Nbd(name) => one.export.name == *name,
            Used::Volume(volume) => one.volume == **volume,
            Used::Target(_) => false,
        });
        for export in exports {
            let name = &export.export.name;
            let found = sessions.nbd.get(name).into_iter().flatten();
            users.extend(found.map(|one| format!("NBD client {} at {name}", one.peers.join(" "))));
        }
        users
    }

    /// Closes the NBD connections on exports of a device; their number.
    pub(super) fn drop_nbd_sessions(&self, device: &SharedDevice) -> u64 {
        self.nbd.drop_sessions_of(device) as u64
    }

    /// Whether the appliance file says where this server listens.
    pub const fn is_of_a_cluster(&self) -> bool {
        self.setup.is_of_a_cluster
    }

    /// Where it listens, or is about to.
    pub fn listens_at(&self) -> Addresses {
        self.served().addresses.clone()
    }

    /// Listens at `wanted`, and nowhere else; where that is, with real ports. What fails changes nothing.
    pub fn listen_at(&self, mut wanted: Addresses) -> Result<Addresses, Failure> {
        let mut served = self.served();
        check_tls(self.setup.nbd_tls.as_ref())?;
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
            tracing::error!(%failure, "the server does not listen everywhere as before");
        }
        Err(failure)
    }

    /// Who is connected, in words.
    pub fn users(&self) -> Vec<String> {
        self.users_beyond(&Addresses::default())
    }

    /// Who is connected by an address that is not among `wanted`, in words.
    pub fn users_beyond(&self, wanted: &Addresses) -> Vec<String> {
        let mut users = Vec::new();
        for session in self.iscsi.status().sessions {
            let (Some(target), Some(group)) = (&session.target, session.portal_group) else {
                continue;
            };
            let peers = session.connections.iter().map(|one| one.peer);
            let lost = peers.filter(|peer| !wanted.iscsi.iter().any(|one| is_by(one, group, peer)));
            users.extend(
                lost.map(|peer| format!("initiator {} from {peer} at {target}", session.initiator)),
            );
        }
        let clients = self.nbd.sessions().into_iter();
        let lost = clients.filter(|client| !wanted.nbd.contains(&client.listener));
        users.extend(lost.map(|one| format!("NBD client {} at {}", one.peer, one.export)));
        users
    }

    /// Where the server of `pool` listens, and how many came in there.
    pub fn portals(&self, pool: &PoolName) -> Vec<PortalView> {
        let (sessions, clients) = (self.iscsi.status().sessions, self.nbd.sessions());
        let addresses = self.listens_at();
        let portals = addresses.iscsi.iter().map(|portal| {
            let came = sessions.iter().filter(|session| {
                let group = session.target.as_ref().and(session.portal_group);
                let mut peers = session.connections.iter().map(|one| one.peer);
                group.is_some_and(|group| peers.any(|peer| is_by(portal, group, &peer)))
            });
            PortalView {
                pool: pool.clone(),
                protocol: Protocol::Iscsi,
                address: portal.address.to_string(),
                group: Some(portal.group),
                is_here: serving::is_here(portal.address.ip()),
                clients: came.count() as u64,
            }
        });
        let listeners = addresses.nbd.iter().map(|listener| PortalView {
            pool: pool.clone(),
            protocol: Protocol::Nbd,
            address: listener.to_string(),
            group: None,
            is_here: match listener {
                ListenAddress::Tcp(address) => serving::is_here(address.ip()),
                ListenAddress::Unix(_) => true,
            },
            clients: clients
                .iter()
                .filter(|one| one.listener == *listener)
                .count() as u64,
        });
        portals.chain(listeners).collect()
    }

    /// Bound portals and listeners, as text.
    pub fn addresses(&self) -> (Vec<String>, Vec<String>) {
        let portals = self.iscsi.portals().into_iter();
        let portals = portals.map(|(address, group)| format!("{address},{group}"));
        let listeners = self.nbd.listeners();
        let listeners = listeners.iter().map(ToString::to_string);
        (portals.collect(), listeners.collect())
    }

    /// Counts the volumes again, after one may have come or gone without any export of it.
    pub fn count_volumes(&self, pool: &zpool::Pool) {
        if let Ok(all) = self.documents.all(pool) {
            self.served().volume_count = all.volumes().count() as u64;
        }
        // Ours have documents from the beginning: others do not become more.
        if self.served().other_count > 0 {
            self.count_others(pool);
        }
    }

    /// Counts the volumes without documents, which means to look at every dataset.
    pub fn count_others(&self, pool: &zpool::Pool) {
        if let Ok(count) = pool.volume_count() {
            self.note_count(pool, count);
        }
    }

    /// The same, before anything was changed since the import. `false` if it is not known.
    pub fn count_others_at_import(&self, pool: &zpool::Pool) -> bool {
        let count = pool.volume_count_at_import();
        count.is_some_and(|count| self.note_count(pool, count))
    }

    fn note_count(&self, pool: &zpool::Pool, count: u64) -> bool {
        let Ok(all) = self.documents.all(pool) else {
            return false;
        };
        let documented = all.volumes().count() as u64;
        self.served().other_count = count.saturating_sub(documented);
        true
    }

    /// What is served, without asking the pool.
    pub fn glance(&self, pool: &PoolName) -> Status {
        let served = self.served();
        let targets = served.desired.targets.iter();
        Status {
            discovery: discovery_glance(pool.as_str(), &served.desired),
            volume_count: served.volume_count + served.other_count,
            targets: targets
                .map(|(name, desired)| target_view(name, desired))
                .collect(),
            nbd: served.desired.nbd.values().map(nbd_view).collect(),
            problems: served.problems.iter().map(ToString::to_string).collect(),
            activity: self.volumes.activity(),
            ..Status::default()
        }
    }

    /// Sessions by target, and connections by NBD export: name and peers.
    pub fn sessions(&self) -> Sessions {
        let mut sessions = Sessions::default();
        for session in self.iscsi.status().sessions {
            let peers = session.connections.iter();
            let peers = peers
                .map(|connection| connection.peer.to_string())
                .collect();
            let view = control::answer::SessionView {
                name: session.initiator.to_string(),
                peers,
            };
            if let Some(target) = session.target {
                sessions.iscsi.entry(target).or_default().push(view);
            }
        }
        for connection in self.nbd.sessions() {
            let view = control::answer::SessionView {
                name: connection.export.clone(),
                peers: vec![connection.peer.to_string()],
            };
            sessions
                .nbd
                .entry(connection.export)
                .or_default()
                .push(view);
        }
        sessions
    }

    /// Connections that have logged in, over all protocols.
    pub fn session_count(&self) -> usize {
        let status = self.iscsi.status();
        let iscsi = status.sessions.iter().map(|one| one.connections.len());
        iscsi.sum::<usize>() + self.nbd.sessions().len()
    }

    /// Who is connected, over all protocols.
    pub fn peers(&self) -> Vec<Peer> {
        [self.iscsi.peers(), self.nbd.peers()].concat()
    }

    /// Tells the clients of the pool's previous server that their connections are gone, but for those that
    /// were `told` already. Returns these.
    pub fn tell_previous_clients(&self, told: &[StaleConnection]) -> Vec<StaleConnection> {
        let Some(pool) = self.pool.get() else {
            return Vec::new();
        };
        // Read a moment ago, to know the exports.
        match self.documents.all(&*pool) {
            Ok(all) => {
                let stale_connections = connections::previous(all.own(pool.name().as_str()));
                let left = stale_connections.iter().filter(|one| !told.contains(one));
                connections::tell_previous(&left.copied().collect::<Vec<_>>(), &self.listening());
                stale_connections
            }
            Err(failure) => {
                tracing::warn!(%failure, "no clients of a previous server are known");
                Vec::new()
            }
        }
    }

    /// The TCP addresses that take connections.
    fn listening(&self) -> Vec<SocketAddr> {
        let portals = self.iscsi.portals().into_iter().map(|(address, _)| address);
        let listeners = self.nbd.listeners().into_iter();
        let listeners = listeners.filter_map(|listener| match listener {
            ListenAddress::Tcp(address) => Some(address),
            ListenAddress::Unix(_) => None,
        });
        portals.chain(listeners).collect()
    }

    /// Says to initiators that their sessions are about to end, and that they may come back at once. NBD has no
    /// word for it.
    pub fn announce_end(&self) {
        self.iscsi.announce_end();
    }

    /// Clients whose address is another head's by now hear nothing of what follows: they would come back
    /// before that head serves them.
    fn silence_withdrawn(&self) {
        let silenced = self.iscsi.silence_withdrawn() + self.nbd.silence_withdrawn();
        if silenced > 0 {
            tracing::info!(
                connections = silenced,
                "end without a word: their address went away"
            );
        }
    }

    /// Ends all sessions without another answer, and leaves the volumes as they are.
    pub fn drop_sessions(&self) {
        self.silence_withdrawn();
        self.nbd.drop_all();
        self.iscsi.drop_all_sessions();
    }

    /// Lets clients finish and log out until `wait` has passed, then ends what is left.
    pub fn drain(&self, wait: Duration) {
        self.silence_withdrawn();
        let deadline = Instant::now() + wait;
        std::thread::scope(|scope| {
            scope.spawn(|| self.iscsi.drain(deadline));
            self.nbd.drain(deadline, Farewell::HandOver);
        });
    }

    /// Closes all volumes. What is not on disk yet, each of them waits for.
    pub fn close_volumes(&self) {
        self.volumes.close_all();
    }
}

/// What initiators are asked for by the document `property`. Whose secret cannot be read stays out: never is less
/// asked for than the document says.
fn chap(property: &str, users: &ChapUsers, ring: &Ring) -> Chap {
    let credentials = |direction, chap: &ChapUser| {
        let secret = secrets::open(ring, property, direction, chap).ok()?;
        Some(Credentials {
            user: chap.user.clone(),
            secret: iscsi::Secret::new(secret.reveal().as_bytes().to_vec()),
        })
    };
    let initiators = users.chap.iter();
    let mutual = users.mutual.as_ref();
    Chap {
        initiators: initiators
            .filter_map(|chap| credentials(Direction::Initiator, chap))
            .collect(),
        mutual: mutual.and_then(|chap| credentials(Direction::Target, chap)),
    }
}

/// Who is connected.
#[derive(Default)]
pub struct Sessions {
    /// Sessions by target.
    pub iscsi: BTreeMap<IscsiName, Vec<control::answer::SessionView>>,
    /// Connections by export.
    pub nbd: BTreeMap<String, Vec<control::answer::SessionView>>,
}

/// The portal groups that offer a target: those it names, or all.
fn groups_of(wanted: &DesiredTarget, portals: &[DesiredPortal]) -> Vec<u16> {
    if !wanted.document.portal_groups.is_empty() {
        return wanted.document.portal_groups.clone();
    }
    let mut groups: Vec<u16> = portals.iter().map(|portal| portal.group).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// Whether `peer`, who logged in by `group`, may have come in by `portal`.
fn is_by(portal: &DesiredPortal, group: u16, peer: &Peer) -> bool {
    match peer {
        Peer::Tcp { local, .. } => portal.group == group && portal.takes(*local),
        Peer::Unix { .. } => false,
    }
}

/// Whether NBD could do TLS with the files as they are now.
pub fn check_tls(tls: Option<&TlsSettings>) -> Result<(), Failure> {
    tls.map_or(Ok(()), TlsSettings::check).map_err(|error| {
        Failure::from_chain(FailureKind::Usage, &error).advise(
            "give PEM files that fit together: --nbd-tls-cert, --nbd-tls-key and, for the \
             authority of the clients, --nbd-tls-ca",
        )
    })
}

/// A listener that could not be had.
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
            "another program listens on {}: stop it, or choose another port",
            error.address
        )),
        _ => failure,
    }
}

/// Logs what changes; a start with many exports is one line.
fn report(changes: &[Change]) {
    /// More are summed up.
    const LINES_MAX: usize = 16;
    if changes.len() > LINES_MAX {
        tracing::info!(count = changes.len(), "exports changed");
        return;
    }
    for change in changes {
        tracing::info!("{change}");
    }
}
