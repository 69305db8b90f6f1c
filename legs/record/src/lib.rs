//! Legs: pools with disks that are not shared. Decides which disks are current, and which head may write.
//!
//! Pure: callers feed events, and perform the returned actions. There is no clock, socket or file in this crate.
//!
//! * [`Record`]: the replicated state of a pool. [`MemberState`]: the state of a member, a head or the witness, and its
//!   rules.
//! * [`Owner`]: a head that owns the pool or is a candidate. [`Lender`]: lends a disk, to one session at a time.
//! * [`Config`]: the members, their quorum, and the disks that can be read from.
//!
//! **Invariants.** Every write that was acknowledged to a client as durable is on every disk that the newest committed
//! record calls current. One head at a time writes. A disk with missing data is never opened alone. The explorer in
//! `explorer/` (tests only) searches for states that violate one of these, with all rules and without each
//! (`rules.rs`). `docs/decisions/0080-record-of-legs.md` explains the protocol, and the flaws of its first draft.
//!
//! **Obligations of callers.**
//!
//! * A member makes [`Reply::write`] durable before it responds; a lender [`LenderReply::write`].
//! * From [`Event::LegFailed`] on until [`Action::ReleaseErrors`], and from the proposal to make a leg current on, no error of
//!   the leg reaches ZFS.
//! * [`Event::Received`] comes before the event of the message itself, for every message of another head.
//! * [`Event::Fenced`] means that the head was off at a time after [`Action::Fence`] was returned.
//! * A process that starts begins with [`Owner::new`] and a boot number that never repeats; so does a lender with its
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
    DecodeError, RECORD_BYTES_MAX, STAMP_BYTES, decode_stamp, decode_state, encode_stamp,
    encode_state,
};
pub use lender::{
    Denial, Holder, Lender, LenderReply, LenderRequest, LenderResponse, LenderState, Observed,
    process_of,
};
pub use member::{MemberState, Reply, Request, Response, Tag};
pub use membership::{Config, LegGroup, Membership, VoteSubstitute};
pub use owner::{Action, Completeness, Event, Owner};
pub use record::{
    Ballot, DiskId, Marks, MemberId, MissingData, Record, Roots, Session, Stale, Version,
};
pub use refusal::{Newer, Notice, Refusal};
