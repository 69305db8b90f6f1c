//! Stores in the pool which clients may have open files, for its next server (docs/formats/nfs-clients.md).

use std::sync::Arc;

use ::nfs::hosts::Hosts;
use ::nfs::v4::{ClientKey, ClientRecord, ReclaimableState, Holders, PersistentState};
use engine::dataset::Value;
use operations::DocumentCache;

use super::super::super::shared_pool::SharedPool;

/// The property of the root dataset.
pub const PROPERTY: &str = "bulkhead:nfs-clients";
/// The same for hosts that lock over NFS 3.
const HOSTS_PROPERTY: &str = "bulkhead:nfs-hosts";
/// Longest list, in bytes; ZFS stores 8,191.
const LIST_BYTES_MAX: usize = 8_191;
/// Replaces a list that is too long.
const ANY_CLIENT: &str = "any";
const NOBODY: &str = "none";
/// The prefix of a list. Lists of earlier versions used a hash for which a client could construct a colliding name.
const FORM: &str = "2 ";

/// The record in a pool.
pub struct PoolRecord {
    pool: Arc<SharedPool>,
    documents: Arc<DocumentCache>,
}

impl PoolRecord {
    /// The record of `pool`.
    pub const fn new(pool: Arc<SharedPool>, documents: Arc<DocumentCache>) -> Self {
        Self { pool, documents }
    }

    /// Reads the clients that the previous server stored.
    pub fn read(&self) -> PersistentState {
        let Some(pool) = self.pool.get() else {
            return Holders::AnyClient.into();
        };
        match self.documents.all(&*pool) {
            Ok(all) => {
                let own = all.own(pool.name().as_str());
                let text = |property: &str| own.and_then(|own| own.get(property)).map(String::as_str);
                let holders = decode(text(PROPERTY).unwrap_or(NOBODY));
                tracing::debug!(pool = %pool.name(), ?holders, "grace period: clients of the previous server");
                PersistentState {
                    holders,
                    hosts: text(HOSTS_PROPERTY).map_or_else(Hosts::default, read_hosts),
                }
            }
            Err(failure) => {
                tracing::warn!(%failure, "cannot read the NFS clients of the previous server");
                Holders::AnyClient.into()
            }
        }
    }
}

impl ClientRecord for PoolRecord {
    fn keep(&self, persistent_state: &PersistentState) -> bool {
        let Some(pool) = self.pool.get() else {
            return false;
        };
        let text = |property: &str, text: String| (property.to_owned(), Value::Text(text));
        let values = [
            text(PROPERTY, encode(&persistent_state.holders)),
            text(HOSTS_PROPERTY, persistent_state.hosts.to_string()),
        ];
        let set = pool.set_dataset_properties(pool.name().into(), &values);
        self.documents.changed(pool.name().as_str());
        match &set {
            Ok(()) => tracing::debug!(pool = %pool.name(), holders = ?persistent_state.holders, "NFS clients stored"),
            Err(error) => tracing::error!(%error, "NFS clients cannot be stored, and are paused"),
        }
        set.is_ok()
    }
}

/// Hosts that cannot be parsed are not notified.
fn read_hosts(text: &str) -> Hosts {
    text.parse().unwrap_or_else(|error| {
        tracing::warn!(text, %error, "cannot parse the hosts that locked over NFS 3 at the previous server");
        Hosts::default()
    })
}

fn encode(holders: &Holders) -> String {
    match holders {
        Holders::Known(clients) if clients.is_empty() => NOBODY.to_owned(),
        Holders::Known(clients) => {
            let clients = clients.iter().map(|(client, had)| {
                let locks = if had.locks { "l" } else { "" };
                let denials = if had.denials { "d" } else { "" };
                format!("{client:016x}o{locks}{denials}")
            });
            let list = format!("{FORM}{}", clients.collect::<Vec<_>>().join(" "));
            match list.len() <= LIST_BYTES_MAX {
                true => list,
                false => ANY_CLIENT.to_owned(),
            }
        }
        Holders::AnyClient => ANY_CLIENT.to_owned(),
    }
}

/// A client of the list. Without letters after its number it may have had any state.
fn decode_one(text: &str) -> Option<(ClientKey, ReclaimableState)> {
    let (number, letters) = text.split_at_checked(16)?;
    let had = match letters {
        "o" => ReclaimableState::open(false),
        "ol" => ReclaimableState::LOCKS,
        "od" => ReclaimableState::open(true),
        "old" | "" => ReclaimableState::ALL,
        _ => return None,
    };
    let is_number = number.bytes().all(|byte| byte.is_ascii_hexdigit());
    let client = ClientKey::from_str_radix(number, 16).ok()?;
    is_number.then_some((client, had))
}

/// A list that cannot be parsed counts as "any".
fn decode(text: &str) -> Holders {
    if text == NOBODY {
        return Holders::default();
    }
    let clients = text.strip_prefix(FORM).map(|list| list.split(' ').map(decode_one));
    let known = clients.and_then(Iterator::collect::<Option<_>>);
    known.map_or(Holders::AnyClient, Holders::Known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_record_survives_encode_and_decode() {
        for (holders, text) in [
            (Holders::default(), "none".to_owned()),
            (
                Holders::Known([(7, ReclaimableState::open(false)), (8, ReclaimableState::LOCKS), (9, ReclaimableState::open(true)), (1 << 63, ReclaimableState::ALL)].into()),
                "2 0000000000000007o 0000000000000008ol 0000000000000009od 8000000000000000old".to_owned(),
            ),
            (Holders::AnyClient, "any".to_owned()),
        ] {
            assert_eq!(encode(&holders), text);
            assert_eq!(decode(&text), holders);
        }
        let many = |count: u64| Holders::Known((0..count).map(|client| (client, ReclaimableState::LOCKS)).collect());
        assert_eq!(decode(&encode(&many(431))), many(431));
        assert_eq!(decode(&encode(&many(432))), Holders::AnyClient);
    }

    #[test]
    fn client_list_of_an_older_version_allows_any_client() {
        assert_eq!(decode("2 0000000000000007"), Holders::Known([(7, ReclaimableState::ALL)].into()));
        for text in ["0000000000000007", "0000000000000007o 0000000000000008ol"] {
            assert_eq!(decode(text), Holders::AnyClient);
        }
    }

    #[test]
    fn unreadable_client_list_allows_any_client() {
        for text in ["", "x", "2", "2 ", "2 x", "2 7", "3 0000000000000007", "0000000000000007,0000000000000008", "+000000000000007", "7", "0000000000000007x", "000000000000007ö"] {
            assert_eq!(decode(text), Holders::AnyClient, "{text:?}");
        }
    }
}
