//! How an initiator's setting of the write cache survives a reset, a restart and a takeover: one
//! line of JSON, small enough for a property of the volume.

use std::io;

use serde::{Deserialize, Serialize};

use crate::NoReservationStore;

/// Stable storage of the saved mode parameters of one unit. Both calls may block.
pub trait ModeStore: Send + Sync {
    /// Returns the last saved bytes; `None` if there are none.
    fn load(&self) -> io::Result<Option<Vec<u8>>>;

    /// Replaces the saved bytes: durable on return.
    fn save(&self, bytes: &[u8]) -> io::Result<()>;
}

impl ModeStore for NoReservationStore {
    fn load(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn save(&self, _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    write_cache: bool,
}

/// Returns the bytes to save.
pub(crate) fn encode_write_cache(write_cache: bool) -> Vec<u8> {
    let stored = Stored {
        version: VERSION,
        write_cache,
    };
    serde_json::to_vec(&stored).expect("a number and a flag are always JSON")
}

/// Returns the saved WCE; `None` if there is none. Unreadable data counts as off: a disabled cache
/// costs time, an unexpectedly enabled one costs the initiator's data.
pub(crate) fn saved_write_cache(store: &dyn ModeStore, lun: u16) -> Option<bool> {
    let loaded = store.load().and_then(|bytes| match bytes {
        None => Ok(None),
        Some(bytes) => Ok(Some(serde_json::from_slice::<Stored>(&bytes)?)),
    });
    match loaded {
        Ok(None) => None,
        Ok(Some(stored)) if stored.version == VERSION => Some(stored.write_cache),
        Ok(Some(Stored { version, .. })) => {
            tracing::error!(
                lun,
                version,
                "saved mode parameters of another version: no write cache"
            );
            Some(false)
        }
        Err(error) => {
            tracing::error!(lun, %error, "saved mode parameters cannot be read: no write cache");
            Some(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Kept(&'static str);

    impl ModeStore for Kept {
        fn load(&self) -> io::Result<Option<Vec<u8>>> {
            Ok(Some(self.0.into()))
        }
        fn save(&self, _bytes: &[u8]) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn unreadable_saved_mode_disables_the_write_cache() {
        assert_eq!(saved_write_cache(&NoReservationStore, 0), None);
        let on = Kept(r#"{"version":1,"write_cache":true}"#);
        assert_eq!(encode_write_cache(true), on.0.as_bytes());
        assert_eq!(saved_write_cache(&on, 0), Some(true));
        for bad in ["", "{}", r#"{"version":2,"write_cache":true}"#] {
            assert_eq!(saved_write_cache(&Kept(bad), 0), Some(false), "{bad:?}");
        }
    }
}
