//! The negotiated parameters (RFC 7143 section 13) of a connection and of a session.

/// Parameters of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionParameters {
    /// PDU headers carry a CRC32C.
    pub header_digest: bool,
    /// Data segments carry a CRC32C.
    pub data_digest: bool,
    /// Maximum data bytes of a PDU to the initiator (its MaxRecvDataSegmentLength).
    pub initiator_segment_bytes_max: u32,
}

impl Default for ConnectionParameters {
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            initiator_segment_bytes_max: SEGMENT_BYTES_DEFAULT,
        }
    }
}

/// Parameters of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionParameters {
    /// Maximum connections.
    pub max_connections: u16,
    /// The initiator must receive an R2T before any Data-Out.
    pub initial_r2t: bool,
    /// A command may carry data.
    pub immediate_data: bool,
    /// Maximum bytes of a Data-In or solicited Data-Out sequence.
    pub max_burst_bytes: u32,
    /// Maximum unsolicited bytes of a command.
    pub first_burst_bytes: u32,
    /// Seconds before a reconnect.
    pub time_to_wait_s: u16,
    /// Seconds that tasks are retained after a connection is lost.
    pub time_to_retain_s: u16,
    /// Maximum outstanding R2Ts of a task.
    pub max_outstanding_r2t: u16,
    /// Data PDUs of a sequence come in order.
    pub data_pdu_in_order: bool,
    /// Sequences come in order.
    pub data_sequence_in_order: bool,
}

impl Default for SessionParameters {
    /// The standard's defaults, for keys that were not negotiated.
    fn default() -> Self {
        Self {
            max_connections: 1,
            initial_r2t: true,
            immediate_data: true,
            max_burst_bytes: 262_144,
            first_burst_bytes: 65_536,
            time_to_wait_s: 2,
            time_to_retain_s: 0,
            max_outstanding_r2t: 1,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
        }
    }
}

/// MaxRecvDataSegmentLength until it is declared.
pub const SEGMENT_BYTES_DEFAULT: u32 = 8192;

/// The limits of this target.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// The target's MaxRecvDataSegmentLength.
    pub segment_bytes_max: u32,
    /// Maximum connections of a session.
    pub connections_max: u16,
    /// Maximum MaxBurstLength.
    pub burst_bytes_max: u32,
    /// Maximum FirstBurstLength.
    pub first_burst_bytes_max: u32,
    /// Maximum MaxOutstandingR2T.
    pub outstanding_r2t_max: u16,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            segment_bytes_max: 256 * 1024,
            connections_max: 8,
            burst_bytes_max: 1024 * 1024,
            first_burst_bytes_max: 256 * 1024,
            outstanding_r2t_max: 4,
        }
    }
}
