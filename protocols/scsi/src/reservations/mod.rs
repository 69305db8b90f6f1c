//! Persistent reservations (SPC-4, section 5.13): a pure state machine, its parameter lists and
//! data, and the form in which it is stored.

mod commands;
mod report;
mod request;
mod state;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use commands::{reserve_in, reserve_out};
pub(crate) use report::{full_status, read_capabilities, read_keys, read_reservation};
pub(crate) use request::parse;
pub use state::{
    Attention, Holder, Refusal, Registrant, Request, ReservationType, Reservations, Transition,
};
pub use store::{NoReservationStore, ReservationStore, StoredReservationsError};
pub(crate) use store::{decode, encode};

/// Most registrations of one unit; beyond it: INSUFFICIENT REGISTRATION RESOURCES. Enough for 64
/// hosts with 4 paths each.
pub const REGISTRANTS_MAX: usize = 256;
