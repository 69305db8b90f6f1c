//! Persistent reservations of one logical unit or namespace: registrations, the reservation, what each request does to
//! them, and the form in which they are stored. Pure, and of no protocol: SCSI (SPC-4, section 5.13) and NVMe (NVM Express
//! Base, section 8.19) have the same model. A protocol says who its clients are ([`Stored`]), and translates requests,
//! [`Refusal`]s and [`Event`]s.

#![forbid(unsafe_code)]

mod state;
mod store;
#[cfg(test)]
mod tests;

pub use state::{
    Access, Event, Holder, Notice, Ports, Refusal, Registrant, Request, ReservationType,
    Reservations, Transition,
};
pub use store::{
    NoReservationStore, ReservationStore, Stored, StoredReservationsError, decode, encode,
};

/// Most registrations of one unit. Enough for 64 hosts with 4 paths each.
pub const REGISTRANTS_MAX: usize = 256;
