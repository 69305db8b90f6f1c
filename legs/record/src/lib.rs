//! Legs: pools whose disks are not shared. Which disks hold everything, who remembers it, and who may write.
//!
//! Pure: callers feed what happened, and perform the returned actions. Nothing here has a clock, a socket or a file.
//!
//! * [`Record`]: what is remembered of a pool. [`Memory`]: how a member, a head or the witness, keeps and changes it.
//! * [`Owner`]: a head that owns the pool or wants to. [`Lender`]: who lends a disk, to one session at a time.
//! * [`Config`]: who remembers, how many of them are a commit, and which disks can be read from.
//!
//! **What holds.** Every write that a client was told to be durable is on every disk that the newest committed record calls
//! current. One head at a time writes. A disk that lacks something is never opened alone. The explorer beside this
//! code (`explorer/`, in tests only) looks for states in which one of these is not so, with all rules and
//! without each (`rules.rs`). `docs/decisions/0080-record-of-legs.md` says why the protocol is as it is, and where the first
//! draft of it had holes.
//!
//! **What callers owe.**
//!
//! * A member writes [`Reply::write`] durably before it answers; a lender [`LenderReply::write`].
//! * From [`Event::LegFailed`] on until [`Action::ReleaseErrors`], and from the proposal to make a leg current on, no error of
//!   the leg reaches ZFS.
//! * [`Event::Heard`] comes before whatever was heard, for every message of another head.
//! * [`Event::Fenced`] says that the head was off at a moment after [`Action::Fence`] was returned.
//! * A process that starts anew begins with [`Owner::new`] and a boot number that never repeats; so does a lender with its
//!   incarnation.

#![forbid(unsafe_code)]

pub mod codec;
#[cfg(test)]
mod explorer;
mod lender;
mod member;
mod membership;
mod owner;
mod record;
mod refusal;
mod rules;

pub use codec::{
    DecodeError, RECORD_BYTES_MAX, STAMP_BYTES, decode_memory, decode_stamp, encode_memory,
    encode_stamp,
};
pub use lender::{
    Denial, Holder, Kept, Lender, LenderAnswer, LenderReply, LenderRequest, Observed, process_of,
};
pub use member::{Answer, Memory, Reply, Request, Tag};
pub use membership::{Config, LegGroup, Membership, StandIn};
pub use owner::{Action, Completeness, Event, Owner};
pub use record::{Ballot, DiskId, Lack, Marks, MemberId, Record, Roots, Session, Stale, Version};
pub use refusal::{Newer, Notice, Refusal};
