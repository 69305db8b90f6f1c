//! PERSISTENT RESERVE IN and OUT as commands of a unit.

use super::{Refusal, Request, full_status, parse, read_capabilities, read_keys, read_reservation};
use crate::command::{DataOut, Outcome, Stop};
use crate::primary::cut;
use crate::sense::{Asc, Sense};
use crate::target::Context;

/// PERSISTENT RESERVE IN (SPC-4, section 6.15).
pub(crate) fn reserve_in(context: &Context<'_>) -> Result<Outcome, Stop> {
    let state = context.unit.state.reservations();
    let data = match context.row.action {
        Some(0) => read_keys(&state),
        Some(1) => read_reservation(&state),
        Some(2) => read_capabilities(&state),
        _ => full_status(&state),
    };
    let allocation = u32::from(context.command.cdb.be16(7));
    Ok(Outcome::data(cut(data, allocation)))
}

/// PERSISTENT RESERVE OUT (SPC-4, section 6.16). What the initiator is told is stored before.
pub(crate) fn reserve_out(context: &Context<'_>, data: &mut DataOut<'_>) -> Result<Outcome, Stop> {
    context.may_block()?;
    let unit = context.unit;
    let nexus = &context.nexus.id;
    if unit.state.is_legacy_reserved_by_other(context.nexus) {
        return Err(Stop::Conflict);
    }
    let request = parse(&context.command.cdb, data.bytes(), nexus)?;
    let ports = context.target.portal_groups();
    if let Request::Move { to, .. } = &request {
        if !ports.contains(&to.portal_group) {
            return Err(Sense::invalid_parameter(18, None).into());
        }
    }
    let transition = {
        let _one_at_a_time = unit.state.reserve_out.lock().expect("no holder panics");
        let before = unit.state.reservations();
        let transition = match before.decide(nexus, &ports, request) {
            Ok(transition) => transition,
            Err(Refusal::Conflict) => return Err(Stop::Conflict),
            Err(Refusal::Sense(sense)) => return Err(sense.into()),
        };
        context.may_take_effect()?;
        let store = &*unit.config.reservations;
        if let Err(error) = unit.state.commit_reservations(store, transition.next) {
            tracing::error!(lun = unit.config.lun, %error, "reservations cannot be stored");
            let asc = Asc::INSUFFICIENT_REGISTRATION_RESOURCES;
            return Err(Sense::illegal(asc).into());
        }
        (transition.attentions, transition.abort)
    };
    let (attentions, abort) = transition;
    for attention in attentions {
        let lun = unit.config.lun;
        context.target.attend(&attention.nexus, lun, attention.asc);
    }
    Ok(Outcome {
        abort,
        ..Outcome::good()
    })
}
