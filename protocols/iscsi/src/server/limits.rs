//! The limits of a server.

use std::time::Duration;

use serving::ConnectionLimits;

use crate::protocol::parameters::Capabilities;

/// Limits and time-outs. The defaults suit a storage network.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections. Those in discovery count as unauthenticated.
    pub connections: ConnectionLimits,
    /// Sessions in all.
    pub sessions_max: usize,
    /// Sessions of one initiator name.
    pub sessions_per_initiator_max: usize,
    /// Pending ordinary commands of a session (its command window).
    pub tasks_per_session: u32,
    /// Pending immediate commands of a connection.
    pub immediate_tasks_max: usize,
    /// Bytes of a session's commands that arrived early and are held until a gap in CmdSN closes.
    pub held_bytes_max: usize,
    /// Time-out of a login.
    pub login_time: Duration,
    /// Time-out of an idle discovery session, which needs no authentication.
    pub discovery_idle_time: Duration,
    /// A connection is pinged after this time without input.
    pub ping_after: Duration,
    /// Time-out of a ping.
    pub ping_answer_time: Duration,
    /// Time-out of requested data.
    pub data_out_time: Duration,
    /// Time-out of a new login for the tasks of the session that it replaces.
    pub reinstatement_time: Duration,
    /// A peer that does not read for this time is dropped.
    pub stall_time: Duration,
    /// The limits for the negotiation.
    pub capabilities: Capabilities,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: ConnectionLimits::default(),
            sessions_max: 2048,
            sessions_per_initiator_max: 512,
            tasks_per_session: 128,
            immediate_tasks_max: 32,
            held_bytes_max: 4 << 20,
            login_time: Duration::from_secs(15),
            discovery_idle_time: Duration::from_secs(60),
            ping_after: Duration::from_secs(30),
            ping_answer_time: Duration::from_secs(15),
            data_out_time: Duration::from_secs(30),
            reinstatement_time: Duration::from_secs(20),
            stall_time: Duration::from_secs(30),
            capabilities: Capabilities {
                first_burst_bytes_max: 64 * 1024,
                ..Capabilities::default()
            },
        }
    }
}
