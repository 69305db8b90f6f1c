//! Persistent reservations of one logical unit or namespace: registrations, the reservation, the
//! effect of each request, and the stored format. Pure and independent of the protocol: SCSI
//! (SPC-4, section 5.13) and NVMe (NVM Express Base, section 8.19) have the same model. A protocol
//! defines its client identity ([`Stored`]), and translates requests, [`Refusal`]s and [`Event`]s.

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

/// Maximum registrations of one unit. Enough for 64 hosts with 4 paths each.
pub const REGISTRANTS_MAX: usize = 256;
