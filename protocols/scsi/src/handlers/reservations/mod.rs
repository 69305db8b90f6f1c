//! Persistent reservations (SPC-4, section 5.13) for SCSI: parameter lists and data, the identity
//! of registrants, and the sense codes of refusals and events. The state machine is the crate
//! `reservations`.

mod commands;
mod report;
mod request;
#[cfg(test)]
mod tests;

use ::reservations::{Event, Refusal};

use crate::command::{NexusId, Stop};
use crate::sense::{Asc, Sense};

pub(crate) use commands::{reserve_in, reserve_out};
pub(crate) use report::{full_status, read_capabilities, read_keys, read_reservation};
pub(crate) use request::parse;

/// A change of the reservations.
pub(crate) type Request = ::reservations::Request<NexusId>;

/// Returns the unit attention of an event (SPC-4, section 5.13).
pub(crate) fn attention(event: Event) -> Asc {
    match event {
        Event::Released => Asc::RESERVATIONS_RELEASED,
        Event::ReservationPreempted => Asc::RESERVATIONS_PREEMPTED,
        Event::RegistrationPreempted => Asc::REGISTRATIONS_PREEMPTED,
    }
}

/// Returns the status of a refusal. Sense data points to the field of the CDB or parameter list.
pub(crate) fn refused(refusal: Refusal) -> Stop {
    let sense = match refusal {
        Refusal::Conflict => return Stop::Conflict,
        Refusal::TooManyRegistrants => Sense::illegal(Asc::INSUFFICIENT_REGISTRATION_RESOURCES),
        Refusal::OthersAfterFirst => Sense::invalid_parameter(20, Some(3)),
        Refusal::OtherType => Sense::illegal(Asc::INVALID_RELEASE_OF_PERSISTENT_RESERVATION),
        Refusal::NoType => Sense::invalid_cdb(2, Some(3)),
        Refusal::ZeroKey => Sense::invalid_parameter(8, None),
        Refusal::MoveToSelf => Sense::invalid_parameter(24, None),
    };
    sense.into()
}
