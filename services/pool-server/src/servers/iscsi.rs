//! iSCSI: targets with logical units.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use ::protocol_list::iscsi::PROTOCOL;
use ::protocol_list::{Description, Place};
use block_device::SharedDevice;
use control::answer::{Status, TargetView};
use control::exports::{
    ChapUser, ChapUsers, DISCOVERY_PROPERTY, DesiredTarget, DesiredUnit, TargetDocument,
    target_property,
};
use control::failure::chain;
use control::portal::PortalView;
use control::{Answer, Failure};
use iscsi::{
    Access, Chap, Credentials, DesiredPortal, DesiredState, Initiators, IscsiServer, Limits,
    SessionStatus,
};
use operations::DocumentCache;
use operations::documents::All;
use operations::seals::Ring;
use operations::secrets::{self, Direction};
use serving::{Budget, Peer, Workers};
use units::{IscsiName, PoolName, VolumeName};

use super::super::portals::{self, Addresses};
use super::super::shared_pool::SharedPool;
use super::super::unit_store::UnitStore;
use super::{Client, ContentsNotified, Export, Protocol, Start, Wanted, sessions};

/// Write buffers over all connections.
const PAYLOAD_BYTES_MAX: u64 = 512 << 20;
/// Shown to initiators in the standard INQUIRY data.
const VENDOR: &str = "BULKHEAD";
/// INQUIRY has room for four characters.
const REVISION: &str = concat!(
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR")
);
const PRODUCT: &str = "ZFS VOLUME";

/// The iSCSI server of a pool.
pub struct Server {
    server: IscsiServer,
    pool: Arc<SharedPool>,
    documents: Arc<DocumentCache>,
    served: Mutex<Served>,
}

#[derive(Default)]
struct Served {
    /// The targets, and the volume of each unit.
    targets: BTreeMap<IscsiName, Shown>,
    reservations: BTreeMap<(IscsiName, u16), Arc<UnitStore>>,
}

struct Shown {
    target: Arc<scsi::Target>,
    volumes: BTreeMap<u16, VolumeName>,
}

impl Served {
    fn keep_only(&mut self, targets: &BTreeMap<IscsiName, DesiredTarget>) {
        self.targets.retain(|name, _| targets.contains_key(name));
        self.reservations.retain(|(name, lun), _| {
            let target = targets.get(name);
            target.is_some_and(|target| target.units.contains_key(lun))
        });
    }
}

impl Server {
    fn served(&self) -> MutexGuard<'_, Served> {
        self.served.lock().expect("no holder panics")
    }

    fn connected(&self, targets: &mut [TargetView]) {
        let mut sessions = sessions(self.clients());
        for one in targets {
            one.sessions = sessions.remove(one.name.as_str()).unwrap_or_default();
        }
    }

    fn desired(&self, served: &mut Served, wanted: &Wanted<'_>) -> DesiredState {
        let targets = wanted.desired.targets.iter();
        let targets = targets.map(|(name, target)| self.target(served, name, target, wanted));
        let discovery = wanted.desired.discovery.as_ref();
        DesiredState {
            targets: targets.collect(),
            portals: portals_of(wanted.addresses).collect(),
            discovery: discovery.map(|users| chap(DISCOVERY_PROPERTY, users, wanted.ring)),
        }
    }

    fn target(
        &self,
        served: &mut Served,
        name: &IscsiName,
        desired: &DesiredTarget,
        wanted: &Wanted<'_>,
    ) -> iscsi::DesiredTarget {
        let groups = groups_of(desired, wanted.addresses);
        let shown = served.targets.entry(name.clone()).or_insert_with(|| Shown {
            target: scsi::Target::new(scsi::TargetConfig {
                name: name.clone(),
                vendor: VENDOR.to_owned(),
                product: PRODUCT.to_owned(),
                revision: REVISION.to_owned(),
                portal_groups: groups.clone(),
            }),
            volumes: BTreeMap::new(),
        });
        let volumes = desired.units.iter();
        shown.volumes = volumes
            .map(|(lun, unit)| (*lun, unit.volume.clone()))
            .collect();
        let target = Arc::clone(&shown.target);
        target.set_portal_groups(groups);
        let units = desired.units.iter().map(|(lun, unit)| {
            let key = (name.clone(), *lun);
            let store = self.store(served, key, &unit.volume, wanted.documents);
            unit_config(*lun, unit, wanted, store)
        });
        let changes = target.apply(units.collect());
        for (lun, error) in &changes.refused {
            let error = chain(error);
            tracing::error!(target = %name, lun, error, "unit not served without its reservations");
        }
        // A resize is no change of the desired state.
        target.check_capacities();
        iscsi::DesiredTarget {
            name: name.clone(),
            portal_groups: desired.document.portal_groups.clone(),
            access: Self::access(name, &desired.document, wanted.ring),
            target,
        }
    }

    /// Returns the store of a unit's reservations; the same object for as long as the unit exists.
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

    fn access(name: &IscsiName, document: &TargetDocument, ring: &Ring) -> Access {
        let rule = &document.access;
        let initiators = match (rule.everyone, rule.initiators.is_empty()) {
            (true, _) => Initiators::Everyone,
            (false, false) => Initiators::Listed(rule.initiators.clone()),
            (false, true) => Initiators::Unspecified,
        };
        let networks = if rule.everyone {
            Vec::new()
        } else {
            rule.networks.clone()
        };
        let users = &document.users;
        let chap = (!users.chap.is_empty()).then(|| chap(&target_property(name), users, ring));
        Access {
            initiators,
            networks,
            chap,
        }
    }
}

impl Protocol for Server {
    fn new(start: &Start<'_>) -> Self {
        let setup = start.setup;
        let limits = Limits {
            connections: setup.connections,
            ..Limits::default()
        };
        let workers = Arc::new(Workers::new("iscsi-worker", setup.workers));
        let budget = Budget::new(PAYLOAD_BYTES_MAX);
        let server = IscsiServer::new(limits, workers, budget);
        Self {
            server: server.with_early(Arc::clone(&setup.early)),
            pool: Arc::clone(start.pool),
            documents: Arc::clone(start.documents),
            served: Mutex::default(),
        }
    }

    fn description(&self) -> &'static Description {
        &PROTOCOL
    }

    fn exports(&self, wanted: &Wanted<'_>) -> Vec<Export> {
        let targets = wanted.desired.targets.iter();
        let targets = targets.map(|(name, target)| Export {
            name: name.to_string(),
            volumes: target
                .units
                .values()
                .map(|unit| unit.volume.clone())
                .collect(),
            file_system: None,
        });
        targets.collect()
    }

    /// A unit that cannot be used reports "not ready", and initiators retry.
    fn apply(&self, wanted: &Wanted<'_>) -> Result<(), Failure> {
        let mut served = self.served();
        let desired = self.desired(&mut served, wanted);
        let applied = self.server.apply(desired);
        served.keep_only(&wanted.desired.targets);
        let failed = applied.failed.first();
        failed.map_or(Ok(()), |error| Err(portals::refused(error)))
    }

    fn renamed(&self, from: &VolumeName, to: &VolumeName) {
        let mut served = self.served();
        for store in served.reservations.values() {
            if let Some(name) = store.volume().moved(from, to) {
                store.renamed(name);
            }
        }
        let shown = served.targets.values_mut();
        for volume in shown.flat_map(|shown| shown.volumes.values_mut()) {
            if let Some(name) = volume.moved(from, to) {
                *volume = name;
            }
        }
    }

    fn contents_changed(
        &self,
        volume: &VolumeName,
        _device: &SharedDevice,
        _was_resized: bool,
    ) -> ContentsNotified {
        let served = self.served();
        let mut sessions = 0;
        for Shown { target, volumes } in served.targets.values() {
            for (lun, _) in volumes.iter().filter(|(_, shown)| *shown == volume) {
                sessions += target.contents_changed(*lun) as u64;
                target.check_capacities();
            }
        }
        ContentsNotified {
            sessions,
            closed: 0,
        }
    }

    fn show(&self, now: &super::Served<'_>, status: &mut Status) {
        let targets = now.desired.targets.iter();
        let targets = targets.map(|(name, desired)| operations::target_view(name, desired));
        status.targets = targets.collect();
        self.connected(&mut status.targets);
        status.discovery = operations::discovery_glance(now.pool.as_str(), now.desired);
    }

    fn add_sessions(&self, answer: &mut Answer) {
        match answer {
            Answer::Targets(targets) => self.connected(targets),
            Answer::Target(target) => self.connected(std::slice::from_mut(target)),
            _ => {}
        }
    }

    fn clients(&self) -> Vec<Client> {
        let sessions = self.server.status().sessions;
        sessions
            .iter()
            .filter_map(|one| client(one, |_, _| true))
            .collect()
    }

    fn clients_beyond(&self, addresses: &Addresses) -> Vec<Client> {
        let is_lost = |group: u16, peer: &Peer| {
            let mut portals = portals_of(addresses);
            !portals.any(|portal| is_by(&portal, group, peer))
        };
        let sessions = self.server.status().sessions;
        let lost = sessions.iter().filter_map(|one| client(one, is_lost));
        lost.filter(|client| !client.peers.is_empty()).collect()
    }

    fn portals(&self, pool: &PoolName, addresses: &Addresses) -> Vec<PortalView> {
        let sessions = self.server.status().sessions;
        let came_by = |portal: &DesiredPortal| {
            let is_by = |group: u16, peer: &Peer| is_by(portal, group, peer);
            let clients = sessions.iter().filter_map(|one| client(one, is_by));
            clients.filter(|one| !one.peers.is_empty()).count() as u64
        };
        let portals = portals_of(addresses).map(|portal| PortalView {
            pool: pool.clone(),
            protocol: PROTOCOL.name.to_owned(),
            address: portal.address.to_string(),
            group: Some(portal.group),
            is_here: serving::is_here(portal.address.ip()),
            clients: came_by(&portal),
        });
        portals.collect()
    }

    fn listeners(&self) -> Vec<String> {
        let portals = self.server.portals().into_iter();
        portals
            .map(|(address, group)| format!("{address},{group}"))
            .collect()
    }

    fn tcp_listeners(&self) -> Vec<SocketAddr> {
        let portals = self.server.portals().into_iter();
        portals.map(|(address, _)| address).collect()
    }

    fn peers(&self) -> Vec<Peer> {
        self.server.peers()
    }

    fn announce_end(&self) {
        self.server.announce_end();
    }

    fn silence_removed_addresses(&self) -> usize {
        self.server.silence_removed_addresses()
    }

    fn drop_all(&self) {
        self.server.drop_all_sessions();
    }

    fn drain(&self, deadline: Instant) {
        self.server.drain(deadline);
    }
}

fn unit_config(
    lun: u16,
    unit: &DesiredUnit,
    wanted: &Wanted<'_>,
    store: Arc<UnitStore>,
) -> scsi::UnitConfig {
    scsi::UnitConfig {
        lun,
        device: wanted.volumes.device(&unit.volume),
        identity: scsi::Identity {
            naa: unit.identity.naa_bits().to_be_bytes().to_vec(),
            serial: unit.identity.serial.clone(),
            eui: Some(unit.identity.eui_bits().to_be_bytes()),
        },
        write_cache: unit.write_cache,
        read_only: unit.read_only,
        ready: !wanted.rescued.contains(&unit.volume),
        // A reservation guarantees room for writes; unmapped blocks are free for snapshots all the same.
        thin: true,
        show_physical_block: false,
        visibility: scsi::Visibility::All,
        reservations: store.clone(),
        modes: store,
    }
}

/// The CHAP requirement of the document `property`. A user with an unreadable secret cannot log in: the requirement
/// never gets weaker than the document.
fn chap(property: &str, users: &ChapUsers, ring: &Ring) -> Chap {
    let credentials = |direction, chap: &ChapUser| {
        let secret = secrets::open(ring, property, direction, chap).ok()?;
        Some(Credentials {
            user: chap.user.clone(),
            secret: iscsi::Secret::new(secret.reveal().as_bytes().to_vec()),
            initiators: chap.initiators.clone(),
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

fn portals_of(addresses: &Addresses) -> impl Iterator<Item = DesiredPortal> {
    addresses.of(PROTOCOL.name).filter_map(|place| match place {
        Place::Grouped(address, group) => Some(DesiredPortal {
            address: *address,
            group: *group,
        }),
        Place::Tcp(_) | Place::Unix(_) => None,
    })
}

/// The portal groups that offer a target: the ones it names, or all.
fn groups_of(wanted: &DesiredTarget, addresses: &Addresses) -> Vec<u16> {
    if !wanted.document.portal_groups.is_empty() {
        return wanted.document.portal_groups.clone();
    }
    let groups: BTreeSet<u16> = portals_of(addresses).map(|portal| portal.group).collect();
    groups.into_iter().collect()
}

/// The initiator of a session, with the connections that `is_meant` selects; `None` for a discovery session.
fn client(session: &SessionStatus, is_meant: impl Fn(u16, &Peer) -> bool) -> Option<Client> {
    let (target, group) = (session.target.as_ref()?, session.portal_group?);
    let peers = session.connections.iter().map(|one| one.peer);
    let peers = peers.filter(|peer| is_meant(group, peer));
    Some(Client {
        export: target.to_string(),
        name: session.initiator.to_string(),
        title: format!("initiator {} from", session.initiator),
        peers: peers.collect(),
    })
}

/// Whether `peer`, logged in by `group`, may have arrived at `portal`.
fn is_by(portal: &DesiredPortal, group: u16, peer: &Peer) -> bool {
    match peer {
        Peer::Tcp { local, .. } => portal.group == group && portal.takes(*local),
        Peer::Unix { .. } => false,
    }
}
