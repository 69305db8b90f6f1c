//! How registrations and the reservation survive a power loss (APTPL): one line of JSON, small
//! enough for a property of the volume.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::state::{Holder, Registrant, ReservationType, Reservations};

/// The client of a stored registration.
pub trait Stored: Clone + PartialEq {
    /// A registration of it in JSON. Unknown members must be refused.
    type Form: Serialize + DeserializeOwned;

    /// Converts a registration to its stored form.
    fn store(registrant: &Registrant<Self>) -> Self::Form;

    /// Converts a stored form to a registration, or returns the error.
    fn restore(form: Self::Form) -> Result<Registrant<Self>, &'static str>;
}

/// Stable storage of the reservations of one unit. Both calls may block.
pub trait ReservationStore: Send + Sync {
    /// Returns the last saved bytes; `None` if there are none.
    fn load(&self) -> io::Result<Option<Vec<u8>>>;

    /// Replaces the saved bytes: durable on return. Empty bytes mean that there is no state.
    fn save(&self, bytes: &[u8]) -> io::Result<()>;
}

/// Stores nothing: for devices that do not survive the process either.
pub struct NoReservationStore;

impl ReservationStore for NoReservationStore {
    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn save(&self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// Why stored reservations cannot be restored. The unit must not be served without them, because
/// they isolate the hosts of a cluster.
#[derive(Debug, thiserror::Error)]
pub enum StoredReservationsError {
    /// The store cannot be read.
    #[error("load the reservations")]
    Load(#[source] io::Error),
    /// The bytes were not written by [`ReservationStore::save`].
    #[error("decode the stored reservations")]
    Malformed(#[source] serde_json::Error),
    /// Well-formed, and contradictory or of another version.
    #[error("the stored reservations are inconsistent: {0}")]
    Contradictory(&'static str),
}

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State<F> {
    version: u32,
    registrants: Vec<F>,
    /// Type code and index of the holding registrant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reservation: Option<(u8, usize)>,
}

/// Returns the bytes to save; empty if the state need not survive.
pub fn encode<N: Stored>(state: &Reservations<N>) -> Vec<u8> {
    if !state.aptpl || state.registrants.is_empty() {
        return Vec::new();
    }
    let registrants = state.registrants.iter().map(N::store).collect();
    let reservation = state.holder.as_ref().map(|holder| {
        let index = state
            .registrants
            .iter()
            .position(|one| one.nexus == holder.nexus);
        // All registrants hold these types, so that the nexus may have been removed.
        (holder.kind as u8, index.unwrap_or(0))
    });
    let stored = State {
        version: VERSION,
        registrants,
        reservation,
    };
    serde_json::to_vec(&stored).expect("strings and numbers are always JSON")
}

/// Decodes saved state.
///
/// # Errors
///
/// The bytes were not created by [`encode`].
pub fn decode<N: Stored>(bytes: &[u8]) -> Result<Reservations<N>, StoredReservationsError> {
    if bytes.is_empty() {
        return Ok(Reservations::default());
    }
    let stored: State<N::Form> =
        serde_json::from_slice(bytes).map_err(StoredReservationsError::Malformed)?;
    let contradiction = StoredReservationsError::Contradictory;
    if stored.version != VERSION {
        return Err(contradiction("another version wrote them"));
    }
    let mut state = Reservations {
        aptpl: true,
        ..Reservations::default()
    };
    for form in stored.registrants {
        state
            .registrants
            .push(N::restore(form).map_err(contradiction)?);
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
