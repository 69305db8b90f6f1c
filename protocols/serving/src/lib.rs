//! What the protocol servers share: listening, connections, answers on their way out, worker
//! threads, shared flushes and a budget for memory. No protocol is known here.
//!
//! **The model.** Each connection has one thread. It receives a large piece of input (one system
//! call brings many requests), executes each request at once without waiting, queues the answers
//! in its [`Outbound`], and sends them together when its input is used up. Only what would have
//! to wait goes to [`Workers`], and what must be durable to a [`FlushGroup`]; those push their
//! answers into the same [`Outbound`] when they are done. A worker never waits for a socket.
//!
//! **Bounds.** Payload in memory is paid from a [`Budget`]; queued answers and unfinished
//! operations of one connection are bounded by [`OutboundLimits`]; connections by
//! [`ConnectionLimits`]. A peer that takes nothing for a while is dropped.

#![forbid(unsafe_code)]

mod answer;
mod budget;
mod connections;
mod counters;
mod datagrams;
mod early;
mod flush;
mod link;
mod listener;
mod outbound;
mod refusals;
mod silent_close;
mod stale_connection;
mod standing;
mod stream;
mod tls;
mod waker;
mod workers;

pub use answer::{Answer, InlineBytes, Payload, Split};
pub use budget::{Budget, Reservation};
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
pub use stale_connection::{Reach, StaleConnection, tell_clients};
pub use standing::{Asked, Change, OwnChange, Standing};
pub use stream::{Peer, ReceiveWait, Stream, Transport};
pub use tls::{TlsError, TlsFiles, TlsTransport, TlsUse};
pub use waker::Waker;
pub use workers::{Job, Workers};
