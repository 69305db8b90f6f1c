//! Which clients may have something open, kept in the pool for its next server (docs/formats/nfs-clients.md).

use std::sync::Arc;

use ::nfs::v4::{ClientKey, ClientRecord, Holders};
use engine::dataset::Value;
use operations::DocumentCache;

use super::super::super::shared_pool::SharedPool;

/// The property of the root dataset.
const PROPERTY: &str = "bulkhead:nfs-clients";
/// Clients that are listed; ZFS keeps 8,191 bytes.
const LISTED_MAX: usize = 480;
/// In the place of a list that is too long.
const ANYBODY: &str = "any";
const NOBODY: &str = "none";

/// The record in a pool.
pub struct PoolRecord {
    pool: Arc<SharedPool>,
    documents: Arc<DocumentCache>,
}

impl PoolRecord {
    /// That of `pool`.
    pub const fn new(pool: Arc<SharedPool>, documents: Arc<DocumentCache>) -> Self {
        Self { pool, documents }
    }

    /// Whom the server before has kept.
    pub fn read(&self) -> Holders {
        let Some(pool) = self.pool.get() else {
            return Holders::Anybody;
        };
        match self.documents.all(&*pool) {
            Ok(all) => {
                let own = all.own(pool.name().as_str());
                decode(own.and_then(|own| own.get(PROPERTY)).map_or(NOBODY, String::as_str))
            }
            Err(failure) => {
                tracing::warn!(%failure, "clients of NFS that were known to the server before");
                Holders::Anybody
            }
        }
    }
}

impl ClientRecord for PoolRecord {
    fn keep(&self, holders: &Holders) -> bool {
        let Some(pool) = self.pool.get() else {
            return false;
        };
        let values = [(PROPERTY.to_owned(), Value::Text(encode(holders)))];
        let set = pool.set_dataset_properties(pool.name().into(), &values);
        self.documents.changed(pool.name().as_str());
        if let Err(error) = &set {
            tracing::error!(%error, "clients of NFS cannot be kept, and wait");
        }
        set.is_ok()
    }
}

fn encode(holders: &Holders) -> String {
    match holders {
        Holders::Known(clients) if clients.is_empty() => NOBODY.to_owned(),
        Holders::Known(clients) if clients.len() <= LISTED_MAX => {
            let clients = clients.iter().map(|client| format!("{client:016x}"));
            clients.collect::<Vec<_>>().join(" ")
        }
        _ => ANYBODY.to_owned(),
    }
}

/// What cannot be read says that anybody may have something open.
fn decode(text: &str) -> Holders {
    if text == NOBODY {
        return Holders::default();
    }
    let is_digit = |byte: u8| byte.is_ascii_hexdigit();
    let clients = text.split(' ').map(|client| match client.len() {
        16 if client.bytes().all(is_digit) => ClientKey::from_str_radix(client, 16).ok(),
        _ => None,
    });
    clients.collect::<Option<_>>().map_or(Holders::Anybody, Holders::Known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        for (holders, text) in [
            (Holders::default(), "none".to_owned()),
            (Holders::Known([7, 1 << 63].into()), "0000000000000007 8000000000000000".to_owned()),
            (Holders::Anybody, "any".to_owned()),
        ] {
            assert_eq!(encode(&holders), text);
            assert_eq!(decode(&text), holders);
        }
        let many = |count: usize| Holders::Known((0..count as u64).collect());
        assert!(encode(&many(LISTED_MAX)).len() <= 8191);
        assert_eq!(decode(&encode(&many(LISTED_MAX))), many(LISTED_MAX));
        assert_eq!(decode(&encode(&many(LISTED_MAX + 1))), Holders::Anybody);
    }

    #[test]
    fn what_cannot_be_read_admits_anybody() {
        for text in ["", "x", "0000000000000007,0000000000000008", "+000000000000007", "7"] {
            assert_eq!(decode(text), Holders::Anybody, "{text:?}");
        }
    }
}
