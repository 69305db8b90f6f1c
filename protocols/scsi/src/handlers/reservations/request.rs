//! Parameter lists of PERSISTENT RESERVE OUT (SPC-4, section 6.16), and iSCSI TransportIDs (SPC-4,
//! section 7.6.4.6).

use units::IscsiName;

use ::reservations::ReservationType;

use super::Request;
use crate::command::{Cdb, NexusId};
use crate::sense::{Asc, Sense};
use crate::state::parse_isid;

/// Bytes of the basic parameter list.
const BASIC_BYTES: usize = 24;
/// Maximum TransportIDs of one parameter list.
const TRANSPORT_IDS_MAX: usize = 64;

const LENGTH_ERROR: Sense = Sense::illegal(Asc::PARAMETER_LIST_LENGTH_ERROR);

fn be64(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(value)
}

fn be32(bytes: &[u8], at: usize) -> usize {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(value) as usize
}

/// Decodes the request of a CDB and its parameter list; `nexus` is the sender.
pub(crate) fn parse(cdb: &Cdb, list: &[u8], nexus: &NexusId) -> Result<Request, Sense> {
    let action = cdb.byte(1) & 0x1f;
    if cdb.be32(5) as usize != list.len() || list.len() < BASIC_BYTES {
        return Err(LENGTH_ERROR);
    }
    let key = be64(list, 0);
    let other_key = be64(list, 8);
    if action == 0x07 {
        return parse_move(list, nexus, key, other_key);
    }
    let flags = list[20];
    let specifies_ports = flags & 0x08 != 0;
    if specifies_ports && action != 0x00 {
        return Err(Sense::invalid_parameter(20, Some(3)));
    }
    if !specifies_ports && list.len() != BASIC_BYTES {
        return Err(LENGTH_ERROR);
    }
    let kind = ReservationType::from_code(cdb.byte(2) & 0x0f);
    let scope_is_unit = cdb.byte(2) & 0xf0 == 0;
    let required_kind = || {
        if !scope_is_unit {
            return Err(Sense::invalid_cdb(2, Some(7)));
        }
        kind.ok_or(Sense::invalid_cdb(2, Some(3)))
    };
    Ok(match action {
        0x00 | 0x06 => Request::Register {
            key: (action == 0x00).then_some(key),
            new_key: other_key,
            aptpl: flags & 0x01 != 0,
            all_target_ports: flags & 0x04 != 0,
            others: if specifies_ports {
                parse_ports(list, nexus)?
            } else {
                Vec::new()
            },
        },
        0x01 => Request::Reserve {
            key,
            kind: required_kind()?,
        },
        0x02 => Request::Release {
            key,
            kind: required_kind()?,
        },
        0x03 => Request::Clear { key },
        0x04 | 0x05 => Request::Preempt {
            key,
            victim: other_key,
            kind: kind.filter(|_| scope_is_unit),
            abort: action == 0x05,
        },
        _ => return Err(Sense::invalid_cdb(1, Some(4))),
    })
}

/// Decodes SPEC_I_PT: a length and TransportIDs, which are registered for the port that received
/// the command.
fn parse_ports(list: &[u8], nexus: &NexusId) -> Result<Vec<NexusId>, Sense> {
    if list.len() < BASIC_BYTES + 4 || be32(list, 24) != list.len() - BASIC_BYTES - 4 {
        return Err(LENGTH_ERROR);
    }
    let mut at = BASIC_BYTES + 4;
    let mut others = Vec::new();
    while at < list.len() {
        if others.len() == TRANSPORT_IDS_MAX {
            return Err(Sense::illegal(Asc::INSUFFICIENT_REGISTRATION_RESOURCES));
        }
        let (initiator, isid, length) =
            parse_transport_id(&list[at..]).ok_or(Sense::invalid_parameter(at as u16, None))?;
        let other = NexusId {
            initiator,
            isid,
            portal_group: nexus.portal_group,
        };
        if other != *nexus && !others.contains(&other) {
            others.push(other);
        }
        at += length;
    }
    Ok(others)
}

fn parse_move(list: &[u8], _by: &NexusId, key: u64, new_key: u64) -> Result<Request, Sense> {
    if be32(list, 20) != list.len() - BASIC_BYTES {
        return Err(LENGTH_ERROR);
    }
    let (initiator, isid, length) =
        parse_transport_id(&list[BASIC_BYTES..]).ok_or(Sense::invalid_parameter(24, None))?;
    if length != list.len() - BASIC_BYTES {
        return Err(LENGTH_ERROR);
    }
    let portal_group = u16::from_be_bytes([list[18], list[19]]);
    Ok(Request::Move {
        key,
        new_key,
        to: NexusId {
            initiator,
            isid,
            portal_group,
        },
        unregister: list[17] & 0x02 != 0,
        aptpl: list[17] & 0x01 != 0,
    })
}

/// Decodes an initiator port's TransportID (`name,i,0xISID`) at the start of `bytes`. Returns it
/// with its length. The format without an ISID names no port and is refused.
fn parse_transport_id(bytes: &[u8]) -> Option<(IscsiName, [u8; 6], usize)> {
    const FORMAT_PORT: u8 = 0x45;
    let (&[format, _, high, low], _) = bytes.split_first_chunk::<4>()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if format != FORMAT_PORT || length < 20 || length % 4 != 0 {
        return None;
    }
    let text = bytes.get(4..4 + length)?;
    let end = text.iter().position(|b| *b == 0)?;
    let text = std::str::from_utf8(&text[..end]).ok()?;
    let (name, isid) = text.split_once(",i,0x")?;
    Some((name.parse().ok()?, parse_isid(isid)?, 4 + length))
}

/// The TransportID of an initiator port.
pub(super) fn transport_id(nexus: &NexusId) -> Vec<u8> {
    let isid: String = nexus.isid.iter().map(|b| format!("{b:02x}")).collect();
    let mut text = format!("{},i,0x{isid}", nexus.initiator).into_bytes();
    // At least one NUL, then up to a multiple of four; never shorter than 20.
    let length = (text.len() + 1).next_multiple_of(4).max(20);
    text.resize(length, 0);
    let [high, low] = (length as u16).to_be_bytes();
    let mut bytes = vec![0x45, 0, high, low];
    bytes.extend(text);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nexus() -> NexusId {
        NexusId {
            initiator: "iqn.2026-01.org.example:a".parse().unwrap(),
            isid: [0x80, 0, 0, 1, 2, 3],
            portal_group: 1,
        }
    }

    #[test]
    fn a_transport_id_is_padded_and_read_back() {
        let bytes = transport_id(&nexus());
        assert_eq!(&bytes[..4], [0x45, 0, 0, 44]);
        assert_eq!(
            &bytes[4..45],
            b"iqn.2026-01.org.example:a,i,0x80000001020\x33"[..41].as_ref()
        );
        let (name, isid, length) = parse_transport_id(&bytes).unwrap();
        assert_eq!((name, isid, length), (nexus().initiator, nexus().isid, 48));
    }

    #[test]
    fn truncated_lists_are_length_errors() {
        let mut cdb = [0; 10];
        cdb[0] = 0x5f;
        cdb[8] = 24;
        for length in [0, 8, 23, 25] {
            let parsed = parse(&Cdb::new(&cdb), &vec![0; length], &nexus());
            assert_eq!(parsed, Err(LENGTH_ERROR), "{length}");
        }
    }

    #[test]
    fn transport_ids_of_any_bytes_never_panic() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..10_000 {
            let mut bytes: Vec<u8> = (0..random.usize(..80)).map(|_| random.u8(..)).collect();
            if bytes.len() > 3 && random.bool() {
                bytes[0] = 0x45;
                bytes[2] = 0;
            }
            let _ = parse_transport_id(&bytes);
        }
    }
}
