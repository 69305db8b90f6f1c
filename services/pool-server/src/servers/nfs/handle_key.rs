//! The key that signs the file handles of clients, stored in the pool for its next server
//! (docs/formats/nfs-handles.md).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ::nfs::handles::HandleKey;
use control::exports::{HANDLE_KEY_PROPERTY, PROPERTY_PREFIX};
use control::{Failure, FailureKind};
use engine::Pool;
use engine::dataset::Value;
use operations::documents::Own;
use operations::{DocumentCache, dataset_failure};

use super::super::super::connections;
use super::PROTOCOL;
use super::clients;

/// The version field of the property.
const FORM: &str = "1";
/// How long clients may use the unsigned handles of an earlier version.
const UNSIGNED_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The stored form.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kept {
    key: [u8; HandleKey::BYTES],
    /// Seconds since 1970, until which handles without a code are accepted; 0 if they never were.
    unsigned_until: u64,
}

/// Returns the key of a pool. Creates one if there is none, durable on return, so that handles stay valid.
pub fn of(pool: &dyn Pool, documents: &DocumentCache) -> Result<HandleKey, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let own = pool.own_user_properties(pool.name().into(), PROPERTY_PREFIX);
    let own = own.map_err(dataset_failure)?;
    let kept = match own.get(HANDLE_KEY_PROPERTY) {
        Some(text) => decode(text).ok_or_else(unreadable)?,
        None => make(pool, documents, &own, now)?,
    };
    let left = Duration::from_secs(kept.unsigned_until).saturating_sub(now);
    if !left.is_zero() {
        let days = left.as_secs().div_ceil(24 * 60 * 60);
        tracing::info!(days, "clients of NFS may still use the file handles of an earlier version");
    }
    // A clock that was set back does not extend the time.
    let left_ms = left.min(UNSIGNED_FOR).as_millis() as u64;
    Ok(HandleKey::new(&kept.key).with_unsigned_until(left_ms))
}

fn make(pool: &dyn Pool, documents: &DocumentCache, own: &Own, now: Duration) -> Result<Kept, Failure> {
    let mut key = [0; HandleKey::BYTES];
    getrandom::fill(&mut key).map_err(Failure::of("make a key for file handles"))?;
    let until = was_served_without(own).then_some(now + UNSIGNED_FOR);
    let kept = Kept {
        key,
        unsigned_until: until.map_or(0, |until| until.as_secs()),
    };
    let value = (HANDLE_KEY_PROPERTY.to_owned(), Value::Text(encode(&kept)));
    let set = pool.set_dataset_properties(pool.name().into(), &[value]);
    documents.changed(pool.name().as_str());
    set.map_err(dataset_failure)?;
    Ok(kept)
}

/// Whether an earlier version served NFS clients from this pool: they had state, or were connected at its end.
fn was_served_without(own: &Own) -> bool {
    let has_record = own.contains_key(clients::PROPERTY);
    let connected = connections::previous(Some(own));
    has_record || connected.iter().any(|one| one.local.port() == PROTOCOL.port)
}

fn unreadable() -> Failure {
    let message = format!("the property {HANDLE_KEY_PROPERTY} of the pool has a form that this version does not know");
    Failure::new(FailureKind::Failed, message)
        .advise("serve the pool with the version of Bulkhead that wrote it, or a newer one")
}

fn encode(kept: &Kept) -> String {
    let key = units::hex::encode(&kept.key);
    match kept.unsigned_until {
        0 => format!("{FORM} {key}"),
        until => format!("{FORM} {key} {until}"),
    }
}

fn decode(text: &str) -> Option<Kept> {
    let mut words = text.split(' ');
    let (form, hex) = (words.next()?, words.next()?);
    let until = words.next().map(str::parse);
    if form != FORM || words.next().is_some() {
        return None;
    }
    let key = units::hex::decode(hex)?.try_into().ok()?;
    Some(Kept { key, unsigned_until: until.transpose().ok()?.unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_key_survives_encode_and_decode() {
        let mut key = [0; HandleKey::BYTES];
        (key[0], key[31]) = (0x01, 0xfe);
        let zeros = "00".repeat(30);
        for (unsigned_until, end) in [(0, ""), (1_700_000_000, " 1700000000")] {
            let text = format!("1 01{zeros}fe{end}");
            let kept = Kept { key, unsigned_until };
            assert_eq!(encode(&kept), text);
            assert!(decode(&text) == Some(kept));
        }
    }

    #[test]
    fn handle_key_of_another_format_is_rejected() {
        let key = "0a".repeat(32);
        for text in ["", "1", "1 ", &key, &format!("2 {key}"), &format!("1 {key}0"), &format!("1 {key} x"), &format!("1 {key} 1 2"), &format!("1 +{}", &key[1..])] {
            assert!(decode(text).is_none(), "{text:?}");
        }
    }
}
