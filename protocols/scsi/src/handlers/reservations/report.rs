//! Parameter data of PERSISTENT RESERVE IN (SPC-4, section 6.15), not yet truncated.

use super::request::transport_id;
use crate::state::Reservations;

fn with_header(state: &Reservations, body: Vec<u8>) -> Vec<u8> {
    let mut data = state.generation.to_be_bytes().to_vec();
    data.extend((body.len() as u32).to_be_bytes());
    data.extend(body);
    data
}

/// READ KEYS.
pub(crate) fn read_keys(state: &Reservations) -> Vec<u8> {
    let keys = state
        .registrants
        .iter()
        .flat_map(|one| one.key.to_be_bytes())
        .collect();
    with_header(state, keys)
}

/// READ RESERVATION.
pub(crate) fn read_reservation(state: &Reservations) -> Vec<u8> {
    let mut body = Vec::new();
    if let Some(holder) = &state.holder {
        // An all registrants reservation has no single key.
        let key = match state.registrant(&holder.nexus) {
            Some(one) if !holder.kind.is_all_registrants() => one.key,
            _ => 0,
        };
        body.extend(key.to_be_bytes());
        body.extend([0, 0, 0, 0, 0, holder.kind as u8, 0, 0]);
    }
    with_header(state, body)
}

/// REPORT CAPABILITIES: SPEC_I_PT, ALL_TG_PT and APTPL are supported, and all six types.
pub(crate) fn read_capabilities(state: &Reservations) -> Vec<u8> {
    const SIP_C: u8 = 0x08;
    const ATP_C: u8 = 0x04;
    const PTPL_C: u8 = 0x01;
    const TYPE_MASK_VALID: u8 = 0x80;
    vec![
        0,
        8,
        SIP_C | ATP_C | PTPL_C,
        TYPE_MASK_VALID | u8::from(state.aptpl),
        0xea,
        0x01,
        0,
        0,
    ]
}

/// READ FULL STATUS.
pub(crate) fn full_status(state: &Reservations) -> Vec<u8> {
    let mut body = Vec::new();
    for one in &state.registrants {
        let holds = state.is_holder(&one.nexus);
        body.extend(one.key.to_be_bytes());
        body.extend([0; 4]);
        body.push(u8::from(one.all_target_ports) << 1 | u8::from(holds));
        body.push(match &state.holder {
            Some(holder) if holds => holder.kind as u8,
            _ => 0,
        });
        body.extend([0; 4]);
        body.extend(one.nexus.portal_group.to_be_bytes());
        let id = transport_id(&one.nexus);
        body.extend((id.len() as u32).to_be_bytes());
        body.extend(id);
    }
    with_header(state, body)
}
