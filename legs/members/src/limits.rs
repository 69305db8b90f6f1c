//! Limits on the resources that members and unauthenticated peers can use.

use std::time::Duration;

use leg_record::RECORD_BYTES_MAX;
pub use takeover::budget::{
    ACKNOWLEDGE_WAIT, ALIVE_INTERVAL, FENCE_REFUSAL, FENCE_YIELD, SILENCE_MAX, SILENT_AT_WITNESS,
    SILENT_BEFORE_FENCE, STEADY_BEFORE_FENCE, WITNESS_HEARTBEAT,
};

/// Longest message, in bytes: an encoded memory and its header.
pub const MESSAGE_BYTES_MAX: usize = RECORD_BYTES_MAX + 64;
/// Connections that are not authenticated yet.
pub const HANDSHAKES_MAX: usize = 32;
/// The same for one address.
pub const HANDSHAKES_OF_ONE_ADDRESS_MAX: usize = 4;
/// Time-out of the TLS handshake, and of the greeting after it.
pub const HANDSHAKE_WAIT: Duration = Duration::from_secs(5);
/// Connections of one member: one per pool server of its host, and one of its leg-server. A further one closes the
/// oldest, which may be left over from before a crash.
pub const CONNECTIONS_OF_ONE_MEMBER_MAX: usize = 64;
/// Messages per second that one connection may send.
pub const MESSAGES_PER_SECOND_MAX: u32 = 200;
/// Messages that may arrive in a burst before they are throttled.
pub const MESSAGES_BURST_MAX: u32 = 100;
/// Responses that may arrive in a burst before they are throttled: more than one for each disk of the largest pool. The
/// receiver queues them, and a member with a stolen key must not fill the memory of a head.
pub const RESPONSES_PENDING_MAX: u32 = 2048;
/// Time-out for sending one message.
pub const SEND_WAIT: Duration = Duration::from_secs(5);
/// Time-out for connecting to one address.
pub const CONNECT_WAIT: Duration = Duration::from_secs(1);
/// Delay before the next address of a member is tried as well.
pub const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(200);
/// Time to send queued messages when the connections are closed.
pub const LAST_MESSAGE_WAIT: Duration = Duration::from_millis(20);
/// Pause before a reconnect.
pub const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
/// Longest time from the end of an outage until a member is connected again, without the handshake: a connection breaks
/// late, or an attempt began before the end.
pub const RECONNECT_MAX: Duration = ACKNOWLEDGE_WAIT
    .saturating_add(CONNECT_WAIT)
    .saturating_add(RECONNECT_PAUSE);
// An outage of both heads is not mistaken for the loss of the head that reconnects later. The rest is for the handshake.
const _: () = assert!(RECONNECT_MAX.as_millis() + 500 <= STEADY_BEFORE_FENCE.as_millis());
/// Messages queued for one connection. Further ones are dropped.
pub const QUEUE_MAX: usize = 256;
/// Claims of disks that one connection may have in progress. Each may block on a disk; further ones are queued.
pub const CLAIMS_MAX: usize = 32;
/// Claims in progress on all connections. Each occupies a thread, and storing records needs threads, too.
pub const CLAIMS_OF_ALL_MAX: usize = 128;
/// Claims that one connection may have in progress or queued: one for each disk of the largest pool. Further ones are
/// dropped.
pub const CLAIMS_WAITING_MAX: usize = 1024;
/// Responses queued for one connection.
pub const RESPONSES_MAX: usize = 16;
/// Pools that one member stores.
pub const POOLS_MAX: usize = 1024;
/// Pause after a change could not be written, before the next attempt.
pub const STORE_RETRY_AFTER: Duration = Duration::from_secs(1);
