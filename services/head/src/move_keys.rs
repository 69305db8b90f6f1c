//! Checks that the head that a pool moves to has the keys of its encrypted volumes, so that a move does
//! not make volumes unavailable unexpectedly.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use api::{MissingKey, Peers};
use appliance::Appliance;
use control::key::{KeyLocation, KeyLocationError, KeyView};
use control::operations::key::KeyRequest;
use control::operations::key::status::Status;
use control::{Answer, Failure, FailureKind, Request};
use operations::key_source;
use pool_access::common::Common;
use units::{HeadName, PoolName};

use crate::peer_key::PeerKey;

/// Time-out of the other head, which may have to run key programs.
const RESPONSE_WAIT: Duration = Duration::from_secs(30);
/// Most keys that a failure names.
const NAMED_MAX: usize = 3;
/// The check of the keys timed out.
const LATE: &str = "it did not respond in time";
/// Encryption of a volume that is not encrypted.
const PLAIN: &str = "off";

/// How requests reach other heads.
#[derive(Clone, Debug)]
pub struct PeerAccess {
    /// The shared key.
    pub key: PeerKey,
    /// The port of their API.
    pub port: u16,
}

/// The keys that are missing on this host; `None` if the check was incomplete at the deadline. No key is
/// checked after it.
pub fn missing_on_this_host(keys: &[KeyView], deadline: Instant) -> Option<Vec<MissingKey>> {
    let mut missing = Vec::new();
    for key in keys {
        let mut wrong = Vec::new();
        let mut is_here = false;
        for place in &key.locations {
            if Instant::now() >= deadline {
                return None;
            }
            match look_at(place) {
                Ok(()) => {
                    is_here = true;
                    break;
                }
                Err(why) => wrong.push(why),
            }
        }
        if !is_here {
            missing.push(MissingKey {
                dataset: key.dataset.clone(),
                why: wrong.join("; "),
            });
        }
    }
    Some(missing)
}

fn look_at(place: &str) -> Result<(), String> {
    let place: KeyLocation = place
        .parse()
        .map_err(|error: KeyLocationError| error.to_string())?;
    let found = key_source::fetch(&place);
    found.map(drop).map_err(|error| error.to_string())
}

/// Refuses a move of `pool` to a head with missing keys. Returns a remark if the check was not
/// possible.
pub fn check(
    common: &Common,
    appliance: &Appliance,
    way: &PeerAccess,
    pool: &PoolName,
    (from, to): (&HeadName, &HeadName),
) -> Result<Option<String>, Failure> {
    let missing = with_peers(appliance, way, &[from, to], async |peers| {
        look(common, peers, pool, (from, to)).await
    })?;
    match missing {
        Ok(missing) if missing.is_empty() => Ok(None),
        Ok(missing) => Err(refusal(pool, to, &missing)),
        Err(why) => Ok(Some(format!(
            "it is unknown whether {to} has its keys: {why}"
        ))),
    }
}

/// Runs `ask` with connections to other heads, for a bounded time.
pub(crate) fn with_peers<T>(
    appliance: &Appliance,
    way: &PeerAccess,
    heads: &[&HeadName],
    ask: impl AsyncFnOnce(&Peers) -> Result<T, String>,
) -> Result<Result<T, String>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(Failure::of("start the runtime"))?;
    Ok(runtime.block_on(async {
        let peers = Peers::new(way.key.read());
        let addresses = |head: &&HeadName| {
            let addresses = appliance.addresses_of(head).into_iter();
            let addresses = addresses.map(|address| SocketAddr::new(address, way.port));
            (head.to_string(), addresses.collect())
        };
        peers.set_heads(heads.iter().map(addresses).collect());
        let limited = tokio::time::timeout(RESPONSE_WAIT, ask(&peers)).await;
        limited.unwrap_or_else(|_| Err(LATE.to_owned()))
    }))
}

async fn look(
    common: &Common,
    peers: &Peers,
    pool: &PoolName,
    (from, to): (&HeadName, &HeadName),
) -> Result<Vec<MissingKey>, String> {
    let own = engine::host_name();
    let keys = if from.as_str() == own {
        let status = Request::Key(KeyRequest::Status(Status { name: None }));
        match pool_access::ask_server(common, pool, status) {
            Ok(Answer::Keys(keys)) => keys,
            Ok(_) => Vec::new(),
            Err(failure) => return Err(failure.message),
        }
    } else {
        let keys = peers.keys(from.as_str(), pool).await;
        keys.map_err(|failure| failure.message)?
    };
    let keys = needed(keys);
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    if to.as_str() == own {
        let missing = missing_on_this_host(&keys, Instant::now() + RESPONSE_WAIT);
        return missing.ok_or_else(|| LATE.to_owned());
    }
    let missing = peers.missing_keys(to.as_str(), &keys).await;
    missing.map_err(|failure| failure.message)
}

/// Keys of datasets that are served now and would not be served without them.
fn needed(keys: Vec<KeyView>) -> Vec<KeyView> {
    let is_needed =
        |key: &KeyView| key.loaded && key.shared_with.is_none() && key.encryption != PLAIN;
    keys.into_iter().filter(is_needed).collect()
}

fn refusal(pool: &PoolName, to: &HeadName, missing: &[MissingKey]) -> Failure {
    let named = missing.iter().take(NAMED_MAX);
    let named: Vec<String> = named
        .map(|key| format!("{} ({})", key.dataset, key.why))
        .collect();
    let more = match missing.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let message = format!(
        "keys of {pool} are missing on {to}, and their volumes would not be served there: {}{more}",
        named.join(", ")
    );
    let first = missing.first().map_or("NAME", |key| key.dataset.as_str());
    Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
        "copy the key files and programs to {to}; or move it with --without-keys, and enter each key there, such as \
         `bulkhead volume key load {first} --prompt`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(dataset: &str, place: &str) -> KeyView {
        KeyView {
            dataset: dataset.to_owned(),
            encryption: "aes-256-gcm".to_owned(),
            shared_with: None,
            format: Some("raw".to_owned()),
            loaded: true,
            locations: vec![place.to_owned()],
        }
    }

    #[test]
    fn existing_keys_are_not_missing_and_prompts_always_are() {
        let folder = tempfile::tempdir().expect("folder");
        let file = folder.path().join("key");
        let place = format!("file://{}", file.display());
        let keys = [key("tank/a", &place), key("tank/b", "prompt")];
        let names = || -> Vec<String> {
            let missing = missing_on_this_host(&keys, Instant::now() + RESPONSE_WAIT);
            let missing = missing.expect("in time").into_iter();
            missing.map(|key| key.dataset).collect()
        };
        assert_eq!(names(), ["tank/a", "tank/b"]);
        std::fs::write(&file, [7; 32]).expect("key");
        assert_eq!(names(), ["tank/b"]);
        assert_eq!(
            missing_on_this_host(&keys, Instant::now()),
            None,
            "the time is over"
        );
    }

    #[test]
    fn only_currently_loaded_keys_would_be_missed() {
        let shared = KeyView {
            shared_with: Some("tank/a".to_owned()),
            ..key("tank/a/b", "prompt")
        };
        let locked = KeyView {
            loaded: false,
            ..key("tank/c", "prompt")
        };
        let names: Vec<String> = needed(vec![key("tank/a", "prompt"), shared, locked])
            .into_iter()
            .map(|key| key.dataset)
            .collect();
        assert_eq!(names, ["tank/a"]);
    }

    #[test]
    fn refusal_names_keys_and_confirmation_flag() {
        let (pool, to) = (
            "tank".parse().expect("name"),
            "right".parse().expect("name"),
        );
        let missing: Vec<MissingKey> = (0..5)
            .map(|number| MissingKey {
                dataset: format!("tank/v{number}"),
                why: "no such file".to_owned(),
            })
            .collect();
        let failure = refusal(&pool, &to, &missing);
        assert!(
            failure
                .message
                .contains("tank/v2 (no such file), and 2 more")
        );
        assert!(failure.advice.expect("advice").contains("--without-keys"));
    }
}
