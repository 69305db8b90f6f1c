//! What one member lets the others, and strangers, take of it.

use std::time::Duration;

use leg_record::RECORD_BYTES_MAX;
pub use takeover::budget::{ACKNOWLEDGE_WAIT, ALIVE_INTERVAL, SILENCE_MAX};

/// Longest message, in bytes: a memory, and what says whose it is.
pub const MESSAGE_BYTES_MAX: usize = RECORD_BYTES_MAX + 64;
/// Connections that have not shown who they are.
pub const HANDSHAKES_MAX: usize = 32;
/// As above, from one address.
pub const HANDSHAKES_OF_ONE_ADDRESS_MAX: usize = 4;
/// Time to show it.
pub const HANDSHAKE_WAIT: Duration = Duration::from_secs(5);
/// Connections of one member: each pool server of its machine has one, and its leg-server. A further one ends the oldest, which the
/// machine may have forgotten.
pub const CONNECTIONS_OF_ONE_MEMBER_MAX: usize = 64;
/// Messages that one connection may send in a second, and how many at once.
pub const MESSAGES_PER_SECOND_MAX: u32 = 200;
/// How many messages may come at once before they are slowed down.
pub const MESSAGES_AT_ONCE_MAX: u32 = 100;
/// Answers that may come at once before they are slowed down: one for each disk of the largest pool, and some. The receiver queues what came,
/// and a member whose key was stolen must not fill the memory of a head.
pub const ANSWERS_AT_ONCE_MAX: u32 = 2048;
/// Time to take a message.
pub const SEND_WAIT: Duration = Duration::from_secs(5);
/// Time for a connection to one address.
pub const CONNECT_WAIT: Duration = Duration::from_secs(1);
/// A member's next address is tried, too, when the ones before have not led to it for so long.
pub const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(200);
/// What was said before the end has so long to get out.
pub const LAST_WORDS_WAIT: Duration = Duration::from_millis(20);
/// Pause before a lost connection is tried again.
pub const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
/// Messages that wait for one connection. Further ones are dropped.
pub const QUEUE_MAX: usize = 256;
/// Claims of disks that one connection may have under way. Each may wait for a disk, and further ones wait for those.
pub const CLAIMS_MAX: usize = 32;
/// Claims of all connections that are under way: each has a thread, and threads are needed for what is remembered, too.
pub const CLAIMS_OF_ALL_MAX: usize = 128;
/// Claims that one connection may have under way or waiting: one for each disk of the largest pool. Further ones are dropped.
pub const CLAIMS_WAITING_MAX: usize = 1024;
/// Answers that wait for one connection to take them.
pub const ANSWERS_MAX: usize = 16;
/// Pools that one member remembers.
pub const POOLS_MAX: usize = 1024;
/// Pause after a change that could not be kept, until it is tried whether that is so still.
pub const KEEP_AGAIN: Duration = Duration::from_secs(1);
