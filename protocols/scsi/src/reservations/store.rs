//! How registrations and the reservation survive a power loss (APTPL): one line of JSON, small
//! enough for a property of the volume.

use std::io;

use serde::{Deserialize, Serialize};
use units::IscsiName;

use super::{Holder, Registrant, ReservationType, Reservations};
use crate::command::NexusId;

/// Where the reservations of one unit are kept. Both calls may block.
pub trait ReservationStore: Send + Sync {
    /// What was saved last; `None` if nothing ever was.
    fn load(&self) -> io::Result<Option<Vec<u8>>>;

    /// Replaces it: durable when this returns. Empty bytes mean that there is nothing to keep.
    fn save(&self, bytes: &[u8]) -> io::Result<()>;
}

/// Keeps nothing: for devices that are gone with the process, too.
pub struct NoReservationStore;

impl ReservationStore for NoReservationStore {
    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn save(&self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// Why stored reservations cannot be taken over. The unit must not be served without them: they
/// keep hosts of a cluster apart.
#[derive(Debug, thiserror::Error)]
pub enum StoredReservationsError {
    /// The store does not answer.
    #[error("load the reservations")]
    Load(#[source] io::Error),
    /// Not what [`ReservationStore::save`] was given.
    #[error("understand the stored reservations")]
    Malformed(#[source] serde_json::Error),
    /// Well-formed, and contradictory or of another version.
    #[error("the stored reservations make no sense: {0}")]
    Contradictory(&'static str),
}

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    registrants: Vec<StoredRegistrant>,
    /// Type code and index of the holding registrant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservation: Option<(u8, usize)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredRegistrant {
    initiator: IscsiName,
    isid: String,
    portal_group: u16,
    key: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    all_target_ports: bool,
}

/// The bytes to save; empty if the state need not survive.
pub(crate) fn encode(state: &Reservations) -> Vec<u8> {
    if !state.aptpl || state.registrants.is_empty() {
        return Vec::new();
    }
    let registrants = state
        .registrants
        .iter()
        .map(|one| StoredRegistrant {
            initiator: one.nexus.initiator.clone(),
            isid: one.nexus.isid.iter().map(|b| format!("{b:02x}")).collect(),
            portal_group: one.nexus.portal_group,
            key: format!("{:x}", one.key),
            all_target_ports: one.all_target_ports,
        })
        .collect();
    let reservation = state.holder.as_ref().map(|holder| {
        let index = state
            .registrants
            .iter()
            .position(|one| one.nexus == holder.nexus);
        // All registrants hold the types for which the nexus may have gone.
        (holder.kind as u8, index.unwrap_or(0))
    });
    let stored = Stored {
        version: VERSION,
        registrants,
        reservation,
    };
    serde_json::to_vec(&stored).expect("strings and numbers are always JSON")
}

/// The state that was saved.
pub(crate) fn decode(bytes: &[u8]) -> Result<Reservations, StoredReservationsError> {
    if bytes.is_empty() {
        return Ok(Reservations::default());
    }
    let stored: Stored =
        serde_json::from_slice(bytes).map_err(StoredReservationsError::Malformed)?;
    let contradiction = StoredReservationsError::Contradictory;
    if stored.version != VERSION {
        return Err(contradiction("another version wrote them"));
    }
    let mut state = Reservations {
        aptpl: true,
        ..Reservations::default()
    };
    for one in stored.registrants {
        state.registrants.push(Registrant {
            nexus: NexusId {
                initiator: one.initiator,
                isid: parse_isid(&one.isid).ok_or(contradiction("an ISID is not 12 digits"))?,
                portal_group: one.portal_group,
            },
            key: u64::from_str_radix(&one.key, 16)
                .map_err(|_| contradiction("a key is not hexadecimal"))?,
            all_target_ports: one.all_target_ports,
        });
    }
    if let Some((code, index)) = stored.reservation {
        let kind = ReservationType::from_code(code).ok_or(contradiction("unknown type"))?;
        let one = state
            .registrants
            .get(index)
            .ok_or(contradiction("the holder is not registered"))?;
        let nexus = one.nexus.clone();
        state.holder = Some(Holder { kind, nexus });
    }
    if !state.invariant_holds() {
        return Err(contradiction("a key is zero or a nexus registered twice"));
    }
    Ok(state)
}

/// 12 hexadecimal digits.
pub(super) fn parse_isid(digits: &str) -> Option<[u8; 6]> {
    if digits.len() != 12 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let value = u64::from_str_radix(digits, 16).ok()?;
    let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
    Some([a, b, c, d, e, f])
}
