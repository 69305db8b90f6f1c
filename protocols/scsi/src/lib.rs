//! A SCSI target device: logical units on block devices, I_T nexuses, reservations, unit
//! attentions (SAM-5, SPC-4, SBC-4). Pure: no sockets, no clock, no threads.
//!
//! A transport creates a [`Target`], sets its units with [`Target::apply`], and calls
//! [`Target::login`] for each session. For each command it calls [`Target::plan`] (which may be
//! skipped for commands that carry no data out), collects data, and calls [`Target::execute`]:
//!
//! ```text
//! plan ─ NoData ──────────────────────────────► execute ─ Done ──────► send
//!      ─ DataOut ─► receive (loan or memory) ──►        ─ Durable ───► flush, then send
//!      ─ Refuse ──► send                                ─ WouldBlock ► a worker: Pending::execute
//!                                                       ─ DropSession► close, without a response
//! ```
//!
//! The reported commands (REPORT SUPPORTED OPERATION CODES) and their execution use one table,
//! [`opcodes`]. Any bytes are a valid input as a CDB or as a parameter list.

#![forbid(unsafe_code)]

mod command;
mod handlers;
pub mod opcodes;
mod sense;
mod state;

pub use ::reservations::{NoReservationStore, ReservationStore};
pub use command::{
    CDB_BYTES_MAX, Cdb, Command, DataIn, DataOut, Landing, Lun, LunAddress, NexusId, Outcome, Plan,
    Status, TaskAttribute,
};
pub use handlers::{Executed, Pending, Reading};
pub use sense::{Asc, FieldPointer, Sense, SenseFormat, SenseKey};
pub use state::{
    Changes, Identity, ModeStore, Nexus, Target, TargetConfig, TaskManagement, TaskScope,
    TmfOutcome, TmfResponse, UnitConfig, Visibility,
};

/// Maximum bytes of a command's parameter list (plain block data is bounded by
/// [`TRANSFER_BYTES_MAX`]).
pub const PARAMETER_LIST_BYTES_MAX: u32 = 64 * 1024;
/// Maximum data bytes of one command, reported as the MAXIMUM TRANSFER LENGTH of the block limits
/// page. By default ESXi sends up to 32 MiB.
pub const TRANSFER_BYTES_MAX: u64 = 32 << 20;
