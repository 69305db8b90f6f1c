//! NFS 4.0, 4.1 and 4.2 (RFC 7530, RFC 8881, RFC 7862), without sockets and clock: converts the
//! arguments of a compound to its results.

mod answer;
mod attributes;
mod commits;
mod compound;
mod creators;
mod extended;
mod grace;
mod hosts;
mod input_output;
mod kinds;
mod names;
mod numbers;
mod opening;
mod opens;
mod owners;
mod removal;
mod seqids;
mod sessions;
mod state;
mod usage;
mod waiting;
mod without_sessions;

pub(crate) use commits::Uncommitted;
pub use compound::{Caller, NoReply, Presentation, Service};
#[cfg(test)]
pub(crate) use grace::key_of_host;
pub use grace::{
    ClientKey, ClientRecord, Clients, Holders, NoRecord, PersistentState, ReclaimableState,
    Recovery,
};
pub(crate) use hosts::{LockRequest, NoHostLock, Share as HostShare};
pub(crate) use opens::{Conflict, Span, WRITE};
pub use opens::{LockUse, OpenUse};
pub use state::MESSAGE_BYTES_MAX;
pub(crate) use state::State;
pub use usage::{ClientUse, FileUse, Usage};
pub(crate) use waiting::Long;
pub use waiting::slow_payload;

#[cfg(test)]
mod tests;
