//! The status of a server.

use serving::{Connections, CountersSnapshot, Peer};
use units::IscsiName;

use super::shared::Shared;
use crate::protocol::login::SessionKind;

/// A connection of a session.
#[derive(Clone, Debug)]
pub struct ConnectionStatus {
    /// The connection ID.
    pub cid: u16,
    /// The peer.
    pub peer: Peer,
}

/// A session.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// The session ID of the target (TSIH).
    pub tsih: u16,
    /// The initiator.
    pub initiator: IscsiName,
    /// The target; `None` for a discovery session.
    pub target: Option<IscsiName>,
    /// The portal group.
    pub portal_group: Option<u16>,
    /// Its connections.
    pub connections: Vec<ConnectionStatus>,
    /// Counters of its commands.
    pub counters: CountersSnapshot,
}

/// The status of a server.
#[derive(Clone, Debug, Default)]
pub struct ServerStatus {
    /// Sessions, by their ids.
    pub sessions: Vec<SessionStatus>,
    /// Connections, logged in or not.
    pub connections: usize,
    /// Connections refused by a limit.
    pub connections_refused: u64,
    /// Counters since the start.
    pub counters: CountersSnapshot,
}

pub(super) fn status(shared: &Shared, connections: &Connections) -> ServerStatus {
    let mut sessions: Vec<_> = shared
        .sessions
        .list()
        .iter()
        .map(|session| {
            let (target, portal_group) = match &session.kind {
                SessionKind::Discovery => (None, None),
                SessionKind::Normal {
                    target,
                    portal_group,
                } => (Some(target.clone()), Some(*portal_group)),
            };
            let members = session.connections();
            SessionStatus {
                tsih: session.tsih,
                initiator: session.initiator.clone(),
                target,
                portal_group,
                connections: members
                    .iter()
                    .map(|member| ConnectionStatus {
                        cid: member.cid,
                        peer: member.connection.peer,
                    })
                    .collect(),
                counters: session.counters.snapshot(),
            }
        })
        .collect();
    sessions.sort_by_key(|session| session.tsih);
    ServerStatus {
        sessions,
        connections: connections.count(),
        connections_refused: connections.refused(),
        counters: shared.counters.snapshot(),
    }
}
