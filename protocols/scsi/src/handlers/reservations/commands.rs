//! PERSISTENT RESERVE IN and OUT as commands of a unit.

use super::{
    Request, attention, full_status, parse, read_capabilities, read_keys, read_reservation, refused,
};
use crate::command::{DataOut, NexusId, Outcome, Stop};
use crate::handlers::Context;
use crate::handlers::primary::cut;
use crate::sense::{Asc, Sense};

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

/// PERSISTENT RESERVE OUT (SPC-4, section 6.16). The change is stored before the status is
/// returned.
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
    let at_all_ports = |nexus: &NexusId| -> Vec<NexusId> {
        let at = |port: &u16| NexusId {
            portal_group: *port,
            ..nexus.clone()
        };
        ports.iter().map(at).collect()
    };
    let (notices, abort) = {
        let _one_at_a_time = unit.state.reserve_out.lock().expect("no holder panics");
        let before = unit.state.reservations();
        let transition = before
            .decide(nexus, &at_all_ports, request)
            .map_err(refused)?;
        context.may_take_effect()?;
        let store = &*unit.config.reservations;
        if let Err(error) = unit.state.commit_reservations(store, transition.next) {
            tracing::error!(lun = unit.config.lun, %error, "reservations cannot be stored");
            let asc = Asc::INSUFFICIENT_REGISTRATION_RESOURCES;
            return Err(Sense::illegal(asc).into());
        }
        (transition.notices, transition.abort)
    };
    for notice in notices {
        let lun = unit.config.lun;
        context
            .target
            .queue_attention(&notice.nexus, lun, attention(notice.event));
    }
    Ok(Outcome {
        abort,
        ..Outcome::good()
    })
}
