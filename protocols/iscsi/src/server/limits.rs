//! The bounds of a server, in one place.

use std::time::Duration;

use serving::ConnectionLimits;

use crate::protocol::parameters::Capabilities;

/// Bounds and time-outs. The defaults suit a storage network.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections. Those in discovery count as not let in.
    pub connections: ConnectionLimits,
    /// Sessions in all.
    pub sessions_max: usize,
    /// Sessions of one initiator name.
    pub sessions_per_initiator_max: usize,
    /// Unfinished ordinary commands of a session (its command window).
    pub tasks_per_session: u32,
    /// Unfinished immediate commands of a connection.
    pub immediate_tasks_max: usize,
    /// Bytes of commands that arrived early, held until a gap in CmdSN closes, for a session.
    pub held_bytes_max: usize,
    /// A connection that is not logged in after so long is dropped.
    pub login_time: Duration,
    /// A discovery session that asks for nothing for so long is ended: anybody may have one.
    pub discovery_idle_time: Duration,
    /// A connection that is silent for so long is pinged.
    pub ping_after: Duration,
    /// A ping that is not answered after so long ends the connection.
    pub ping_answer_time: Duration,
    /// Asked-for data that does not come for so long ends the connection.
    pub data_out_time: Duration,
    /// A new login waits so long for the tasks of the session that it replaces.
    pub reinstatement_time: Duration,
    /// A peer that takes no answers for so long is dropped.
    pub stall_time: Duration,
    /// What login offers.
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
