//! NBD.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use ::protocol_list::Description;
use ::protocol_list::nbd::PROTOCOL;
use block_device::SharedDevice;
use control::answer::{NbdView, Status};
use control::portal::PortalView;
use control::{Answer, Failure, FailureKind};
use nbd::{
    Access, ApplyError, DesiredExport, DesiredState, Farewell, NbdServer, ServerLimits, TlsMode, TlsSettings,
};
use serving::{ListenAddress, Peer};
use units::{PoolName, VolumeName};

use super::super::portals::{self, Addresses};
use super::super::serving::Setup;
use super::{
    Client, ContentsNotified, Export, Protocol, Served, Start, Wanted, portal_views, sessions,
};

/// The NBD server of a pool.
pub struct Server {
    server: NbdServer,
    tls: Option<TlsSettings>,
}

impl Server {
    fn client(one: nbd::ConnectionStatus) -> Client {
        Client {
            name: one.export.clone(),
            export: one.export,
            title: "NBD client".to_owned(),
            peers: vec![one.peer],
        }
    }

    fn connected(&self, exports: &mut [NbdView]) {
        let mut sessions = sessions(self.clients());
        for one in exports {
            one.sessions = sessions.remove(&one.export.name).unwrap_or_default();
        }
    }

    fn access(rule: &control::exports::AccessRule) -> Access {
        if rule.everyone {
            Access::Everyone
        } else if rule.networks.is_empty() && rule.identities.is_empty() {
            Access::Local
        } else {
            Access::Listed {
                networks: rule.networks.clone(),
                identities: rule.identities.clone(),
            }
        }
    }
}

impl Protocol for Server {
    fn new(start: &Start<'_>) -> Self {
        let setup = start.setup;
        let limits = ServerLimits {
            connections: setup.connections,
            workers_max: setup.workers,
            ..ServerLimits::default()
        };
        Self {
            server: NbdServer::new(limits).with_early(Arc::clone(&setup.early)),
            tls: tls(setup),
        }
    }

    fn description(&self) -> &'static Description {
        &PROTOCOL
    }

    fn check_settings(setup: &Setup) -> Result<(), Failure> {
        super::check_tls(&PROTOCOL, setup.tls.get(PROTOCOL.name))
    }

    fn check(&self) -> Result<(), Failure> {
        let files = self.tls.as_ref().map(|tls| &tls.files);
        super::check_tls(&PROTOCOL, files)
    }

    fn exports(&self, wanted: &Wanted<'_>) -> Vec<Export> {
        let exports = wanted.desired.nbd.iter().map(|(name, export)| Export {
            name: name.clone(),
            volumes: [export.volume.clone()].into(),
            file_system: None,
        });
        exports.collect()
    }

    /// NBD has no "not ready": a volume that cannot be read has no export, and clients reconnect.
    fn apply(&self, wanted: &Wanted<'_>) -> Result<(), Failure> {
        let ready = wanted.desired.nbd.values().filter(|one| {
            !wanted.locked.contains_key(&one.volume) && !wanted.rescued.contains(&one.volume)
        });
        let exports = ready.map(|one| DesiredExport {
            name: one.export.name.clone(),
            description: one.volume.to_string(),
            device: wanted.volumes.device(&one.volume) as SharedDevice,
            read_only: one.export.read_only,
            access: Self::access(&one.export.access),
            hidden: false,
        });
        let desired = DesiredState {
            exports: exports.collect(),
            listeners: wanted.addresses.listeners(PROTOCOL.name),
            tls: self.tls.clone(),
        };
        let applied = self.server.apply(desired);
        applied.map(drop).map_err(|error| match &error {
            ApplyError::Listen(listen) => portals::refused(listen),
            _ => Failure::from_chain(FailureKind::Usage, &error),
        })
    }

    /// NBD clients cannot be notified. Only a new size invalidates their state.
    fn contents_changed(
        &self,
        _volume: &VolumeName,
        device: &SharedDevice,
        was_resized: bool,
    ) -> ContentsNotified {
        let closed = match was_resized {
            true => self.server.drop_sessions_of(device) as u64,
            false => 0,
        };
        ContentsNotified {
            sessions: 0,
            closed,
        }
    }

    fn show(&self, served: &Served<'_>, status: &mut Status) {
        let exports = served.desired.nbd.values();
        status.nbd = exports.map(operations::nbd_view).collect();
        self.connected(&mut status.nbd);
    }

    fn add_sessions(&self, answer: &mut Answer) {
        if let Answer::Nbd(exports) = answer {
            self.connected(exports);
        }
    }

    fn clients(&self) -> Vec<Client> {
        let sessions = self.server.sessions().into_iter();
        sessions.map(Self::client).collect()
    }

    fn clients_beyond(&self, addresses: &Addresses) -> Vec<Client> {
        let left = addresses.listeners(PROTOCOL.name);
        let sessions = self.server.sessions().into_iter();
        let lost = sessions.filter(|one| !left.contains(&one.listener));
        lost.map(Self::client).collect()
    }

    fn portals(&self, pool: &PoolName, addresses: &Addresses) -> Vec<PortalView> {
        let sessions = self.server.sessions();
        let came_by = |listener: &ListenAddress| {
            let came = sessions.iter().filter(|one| one.listener == *listener);
            came.count() as u64
        };
        portal_views(pool, PROTOCOL.name, addresses, came_by)
    }

    fn listeners(&self) -> Vec<String> {
        let listeners = self.server.listeners();
        listeners.iter().map(ToString::to_string).collect()
    }

    fn tcp_listeners(&self) -> Vec<SocketAddr> {
        let listeners = self.server.listeners();
        listeners.iter().filter_map(ListenAddress::tcp).collect()
    }

    fn peers(&self) -> Vec<Peer> {
        self.server.peers()
    }

    fn silence_removed_addresses(&self) -> usize {
        self.server.silence_removed_addresses()
    }

    fn drop_all(&self) {
        self.server.drop_all();
    }

    fn drain(&self, deadline: Instant) {
        self.server.drain(deadline, Farewell::HandOver);
    }
}

fn tls(setup: &Setup) -> Option<TlsSettings> {
    Some(TlsSettings {
        mode: TlsMode::Required,
        files: setup.tls.get(PROTOCOL.name)?.clone(),
    })
}
