//! The server: portals, connections, sessions, and live changes to all of them.

mod commands;
mod connection;
mod desired;
mod execute;
mod framing;
mod full_feature;
mod limits;
mod log_limit;
mod management;
mod sender;
mod sessions;
mod shared;
mod status;
mod tasks;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

use serving::{
    Budget, Connection, Connections, Counters, Directive, EarlySockets, ListenAddress, ListenError,
    Listener, OpenSocket, Peer, Workers,
};

use crate::protocol::login::SessionKind;
use sessions::{Message, Session, Sessions};
use shared::{Configuration, FlushGroups, Shared, ends_of};

pub use desired::{Access, DesiredPortal, DesiredState, DesiredTarget, Initiators};
pub use limits::Limits;
pub use status::{ConnectionStatus, ServerStatus, SessionStatus};

/// Time-out of dropped connections.
const DROP_TIME: Duration = Duration::from_secs(5);

/// An iSCSI target server. Dropping it drops all sessions.
pub struct IscsiServer {
    shared: Arc<Shared>,
    connections: Arc<Connections>,
    listeners: Mutex<Vec<OpenPortal>>,
    early: Arc<EarlySockets>,
}

struct OpenPortal {
    desired: DesiredPortal,
    /// The portal with its actual port.
    portal: DesiredPortal,
    /// Accepts until it is dropped.
    _listener: Listener,
}

/// The result of [`IscsiServer::apply`].
#[derive(Debug, Default)]
pub struct Applied {
    /// Portals without a listener; the remaining ones are served.
    pub failed: Vec<ListenError>,
    /// Sessions that were dropped because they are no longer permitted.
    pub sessions_dropped: usize,
}

impl IscsiServer {
    /// Creates a server without targets. `workers` execute blocking operations, `budget` bounds the
    /// bytes of writes in memory.
    pub fn new(limits: Limits, workers: Arc<Workers>, budget: Arc<Budget>) -> Self {
        let sessions = Sessions::new(limits.sessions_max, limits.sessions_per_initiator_max);
        let shared = Shared {
            limits,
            sessions,
            configuration: RwLock::default(),
            workers,
            budget,
            flush_groups: FlushGroups::default(),
            counters: Counters::default(),
            log_limit: log_limit::LogLimit::new(),
            session_log_limit: log_limit::LogLimit::new(),
            refusals: serving::Refusals::default(),
            drain_until: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            connections: Connections::new(limits.connections),
            listeners: Mutex::default(),
            early: Arc::default(),
        }
    }

    /// Adds sockets that may have accepted connections before they are configured.
    #[must_use]
    pub fn with_early(mut self, early: Arc<EarlySockets>) -> Self {
        self.early = early;
        self
    }

    /// Applies the desired state. Sessions that are still permitted are not affected.
    pub fn apply(&self, desired: DesiredState) -> Applied {
        let mut listeners = self.listeners();
        let old = self.shared.configuration();
        let targets: HashMap<_, _> = desired
            .targets
            .into_iter()
            .map(|target| (target.name.clone(), target))
            .collect();
        listeners.retain(|open| desired.portals.contains(&open.desired));
        let mut applied = Applied::default();
        let mut opened = Vec::new();
        for portal in desired.portals {
            if listeners.iter().any(|open| open.desired == portal) {
                continue;
            }
            match OpenSocket::open(&ListenAddress::Tcp(portal.address), &self.early) {
                Ok(socket) => opened.push((portal, socket)),
                Err(error) => applied.failed.push(error),
            }
        }
        // Queued connections of a new portal find the complete configuration.
        let new = opened
            .iter()
            .map(|(desired, socket)| portal_of(desired, socket));
        let portals = listeners.iter().map(|open| open.portal).chain(new);
        self.configure(Configuration {
            targets,
            portals: portals.collect(),
            discovery: desired.discovery,
        });
        for (desired, socket) in opened {
            match self.listen(desired, socket) {
                Ok(open) => listeners.push(open),
                Err(error) => applied.failed.push(error),
            }
        }

        applied.sessions_dropped = self.drop_unwanted(&old);
        // Units may have been removed with their devices.
        self.shared.flush_groups.release_devices();
        applied
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<OpenPortal>> {
        self.listeners.lock().expect("no holder panics")
    }

    fn configure(&self, configuration: Configuration) {
        let mut place = self.shared.configuration.write().expect("no holder panics");
        *place = Arc::new(configuration);
    }

    fn listen(
        &self,
        desired: DesiredPortal,
        socket: OpenSocket,
    ) -> Result<OpenPortal, ListenError> {
        let portal = portal_of(&desired, &socket);
        let shared = Arc::clone(&self.shared);
        let listener = Listener::start(
            "iscsi",
            socket,
            Arc::clone(&self.connections),
            Arc::new(move |connection| connection::serve(&shared, portal, connection)),
        )?;
        Ok(OpenPortal {
            desired,
            portal,
            _listener: listener,
        })
    }

    /// Drops sessions that the configuration no longer permits. Returns their number.
    fn drop_unwanted(&self, old: &Configuration) -> usize {
        let configuration = self.shared.configuration();
        let mut dropped = 0;
        for session in self.shared.sessions.list() {
            if !is_wanted(&session, &configuration, old) {
                tracing::info!(
                    initiator = %session.initiator, tsih = session.tsih,
                    "session dropped: no longer allowed"
                );
                session.drop_connections();
                dropped += 1;
            }
        }
        for connection in self.connections.list() {
            let served = portals_at(&configuration, &connection).next().is_some();
            if !served {
                connection.direct(Directive::Drop);
            }
        }
        dropped
    }

    /// Returns the listening addresses with their actual ports, and the portal groups.
    pub fn portals(&self) -> Vec<(SocketAddr, u16)> {
        let listeners = self.listeners();
        let portals = listeners.iter().map(|open| open.portal);
        portals
            .map(|portal| (portal.address, portal.group))
            .collect()
    }

    /// Announces to initiators that the target is about to drop their sessions, and that they may
    /// log in again immediately (RFC 7143, section 11.9.1). Otherwise an initiator delays its login
    /// by the negotiated DefaultTime2Wait, two seconds by default.
    pub fn announce_end(&self) {
        for session in self.shared.sessions.list() {
            for member in session.connections() {
                member.send_message(Message::AnnounceEnd);
            }
        }
    }

    /// Silences connections of removed portal addresses, so that their initiators receive nothing
    /// more. Returns their number.
    pub fn silence_removed_addresses(&self) -> usize {
        self.connections.silence_removed_addresses()
    }

    /// Accepts no more connections, requests logouts, and drops connections that are left at
    /// `deadline`. Returns whether all had ended.
    pub fn drain(&self, deadline: Instant) -> bool {
        self.listeners().clear();
        self.shared.sessions.close();
        *self.shared.drain_until.lock().expect("no holder panics") = Some(deadline);
        self.connections.direct_all(Directive::Drain);
        if self.connections.wait_until_empty(deadline + DROP_TIME) {
            return true;
        }
        self.drop_all_sessions()
    }

    /// Drops all sessions immediately without further responses, for a head that lost the pool.
    /// Returns whether all pending operations ended soon.
    pub fn drop_all_sessions(&self) -> bool {
        self.listeners().clear();
        self.shared.sessions.close();
        self.connections.direct_all(Directive::Drop);
        self.connections
            .wait_until_empty(Instant::now() + DROP_TIME)
    }

    /// Returns the peers of all connections, including those without a login.
    pub fn peers(&self) -> Vec<Peer> {
        self.connections.peers()
    }

    /// Returns sessions and counters.
    pub fn status(&self) -> ServerStatus {
        status::status(&self.shared, &self.connections)
    }
}

impl Drop for IscsiServer {
    fn drop(&mut self) {
        self.drop_all_sessions();
    }
}

/// Returns the configured portal with its actual port.
fn portal_of(desired: &DesiredPortal, socket: &OpenSocket) -> DesiredPortal {
    let address = match socket.address() {
        ListenAddress::Tcp(address) => *address,
        ListenAddress::Unix(_) => desired.address,
    };
    DesiredPortal {
        address,
        group: desired.group,
    }
}

/// Returns the portals that may have accepted a connection.
fn portals_at<'a>(
    configuration: &'a Configuration,
    connection: &Connection,
) -> impl Iterator<Item = &'a DesiredPortal> + use<'a> {
    let local = match connection.peer {
        Peer::Tcp { local, .. } => Some(local),
        Peer::Unix { .. } => None,
    };
    let portals = configuration.portals.iter();
    portals.filter(move |portal| local.is_some_and(|local| portal.takes(local)))
}

/// Whether a session may remain under a new configuration.
fn is_wanted(session: &Session, new: &Configuration, old: &Configuration) -> bool {
    let SessionKind::Normal {
        target,
        portal_group,
    } = &session.kind
    else {
        // A changed secret drops sessions of the old one.
        return old.discovery == new.discovery;
    };
    let Some(desired) = new.targets.get(target) else {
        return false;
    };
    let same_target = session
        .port
        .as_ref()
        .is_some_and(|port| Arc::ptr_eq(&port.target, &desired.target));
    // A changed secret drops sessions of the old one.
    let same_secret = old
        .targets
        .get(target)
        .is_some_and(|before| before.access.chap == desired.access.chap);
    let members = session.connections();
    let allowed = members.iter().all(|member| {
        let same_group =
            portals_at(new, &member.connection).any(|portal| portal.group == *portal_group);
        let admitted = ends_of(&member.connection).is_some_and(|(remote, local)| {
            desired.access.allows(&session.initiator, remote, local)
        });
        same_group && admitted
    });
    same_target && same_secret && allowed && desired.is_in_group(*portal_group)
}
