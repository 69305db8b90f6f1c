//! The parts that the protocol servers share: listeners, connections, queues of replies, worker
//! threads, shared flushes and a memory budget. Independent of any protocol.
//!
//! **The model.** Each connection has one thread. It receives a large piece of input, with many
//! requests per system call. It executes each request without blocking and queues the replies in
//! its [`Outbound`]. They are sent together when the input is consumed. Operations that would block
//! are passed to [`Workers`], and durable writes to a [`FlushGroup`]; these push their replies to
//! the same [`Outbound`]. A worker never blocks on a socket.
//!
//! **Bounds.** A [`Budget`] bounds the payload in memory; [`OutboundLimits`] bound queued replies
//! and pending operations of one connection; [`ConnectionLimits`] bound connections. A peer that
//! does not read is dropped after a time-out.

#![forbid(unsafe_code)]

mod budget;
mod changes_in_flight;
mod connections;
mod counters;
mod datagrams;
mod early;
mod flush;
mod link;
mod listener;
mod outbound;
mod refusals;
mod reply;
mod silent_close;
mod stale_connection;
mod stream;
mod tls;
mod waker;
mod workers;

pub use budget::{Budget, Reservation};
pub use changes_in_flight::{Change, ConnectionChanges, OwnChange, RequestedChanges};
pub use connections::{Connection, ConnectionLimits, Connections, Directive, network};
pub use counters::{Counters, CountersSnapshot};
pub use datagrams::{bind_udp, wait_for_datagrams};
pub use early::EarlySockets;
pub use flush::{FlushGroup, FlushOutcome};
pub use link::{Link, Turn};
pub use listener::{
    ListenAddress, ListenError, Listener, OpenSocket, ParseListenAddressError, UnixBinder,
    bind_tcp, bind_unix, bind_unix_by, is_here,
};
pub use outbound::{Flushed, Outbound, OutboundLimits, Pending};
pub use refusals::Refusals;
pub use reply::{InlineBytes, Payload, Reply, Split};
pub use stale_connection::{Reach, StaleConnection, reset_clients};
pub use stream::{Peer, ReceiveWait, Stream, Transport};
pub use tls::{TlsError, TlsFiles, TlsTransport, TlsUse};
pub use waker::Waker;
pub use workers::{Job, Workers};
