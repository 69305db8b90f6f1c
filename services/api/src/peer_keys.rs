//! Queries another head about the keys of a pool that is about to move there, and about its current legs. No key is
//! transferred: a head only lists the missing ones, with reasons.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use control::Failure;
use control::answer::Status;
use control::key::KeyView;
use control::legs::LegsView;
use serde::de::DeserializeOwned;
use units::PoolName;

use crate::backend::MissingKey;
use crate::caller::{By, Caller, Link};
use crate::peer::{Peers, unreachable};
use crate::{Api, Role};

/// The path of the query for missing keys.
pub const MISSING_KEYS: &str = "/api/v1/peer/missing-keys";

/// Longest list of keys in a query, in bytes.
const KEYS_BYTES_MAX: usize = 2 << 20;
/// Most keys in one query; a longer list is split.
const KEYS_MAX: usize = 256;
/// Locations of one key.
const KEY_SOURCES_MAX: usize = 8;
/// Longest name of a dataset or a location, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// Concurrent queries of other heads.
pub(crate) const QUERIES_MAX: usize = 2;
/// Longest time of a query, in addition to its last key command: no client is blocked longer.
const QUERY_TIME_MAX: Duration = Duration::from_secs(30);

impl Peers {
    /// The keys of a pool that `head` serves.
    ///
    /// # Errors
    ///
    /// The head does not respond, or no longer serves it.
    pub async fn keys(&self, head: &str, pool: &PoolName) -> Result<Vec<KeyView>, Failure> {
        let target = format!("/api/v1/pools/{pool}/keys");
        self.answer(head, &Method::GET, &target, Bytes::new()).await
    }

    /// The legs of a pool that `head` serves; `None` if its disks are shared.
    ///
    /// # Errors
    ///
    /// The head does not respond, or no longer serves it.
    pub async fn legs(&self, head: &str, pool: &PoolName) -> Result<Option<LegsView>, Failure> {
        #[derive(serde::Deserialize)]
        struct Pool {
            legs: Option<LegsView>,
        }
        let target = format!("/api/v1/pools/{pool}");
        let pool: Pool = self
            .answer(head, &Method::GET, &target, Bytes::new())
            .await?;
        Ok(pool.legs)
    }

    /// The status of a pool that `head` serves.
    ///
    /// # Errors
    ///
    /// The head does not respond, or does not serve it.
    pub async fn pool_status(&self, head: &str, pool: &PoolName) -> Result<Status, Failure> {
        let target = format!("/api/v1/pools/{pool}");
        self.answer(head, &Method::GET, &target, Bytes::new()).await
    }

    /// Which of these keys are missing on `head`.
    ///
    /// # Errors
    ///
    /// The head does not respond.
    pub async fn missing_keys(
        &self,
        head: &str,
        keys: &[KeyView],
    ) -> Result<Vec<MissingKey>, Failure> {
        let mut missing = Vec::new();
        for keys in keys.chunks(KEYS_MAX) {
            let body = serde_json::to_vec(keys).expect("views are JSON");
            let answer = self.answer(head, &Method::POST, MISSING_KEYS, body.into());
            missing.extend::<Vec<MissingKey>>(answer.await?);
        }
        Ok(missing)
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        head: &str,
        method: &Method,
        target: &str,
        body: Bytes,
    ) -> Result<T, Failure> {
        let caller = Caller {
            user: "head".to_owned(),
            role: Role::ReadOnly,
            by: By::Head,
        };
        match self.exchange(head, method, target, body, &caller).await? {
            (StatusCode::OK, bytes) => {
                serde_json::from_slice(&bytes).map_err(|error| unreachable(head, &error))
            }
            (status, _) => Err(unreachable(head, &format!("it answers {status}"))),
        }
    }
}

/// Lists the keys in the query that are missing here, for another head.
pub(crate) async fn missing(
    State(api): State<Arc<Api>>,
    Extension(link): Extension<Arc<Link>>,
    body: Body,
) -> Response {
    // Unauthenticated peers are refused before their body is read.
    if !link.is_head.load(Ordering::Acquire) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let Ok(body) = axum::body::to_bytes(body, KEYS_BYTES_MAX).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let Ok(keys) = serde_json::from_slice::<Vec<KeyView>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    if keys.len() > KEYS_MAX || !keys.iter().all(is_of_a_size) {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    }
    // Each query may start processes, which keep running when the peer disconnects.
    let Ok(place) = Arc::clone(&api.key_looks).try_acquire_owned() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let backend = Arc::clone(&api.backend);
    let looked = tokio::task::spawn_blocking(move || {
        let _place = place;
        backend.missing_keys(&keys, Instant::now() + QUERY_TIME_MAX)
    });
    match looked.await {
        Ok(Some(missing)) => axum::Json(missing).into_response(),
        Ok(None) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Whether its texts are within the limits of a key.
fn is_of_a_size(key: &KeyView) -> bool {
    let texts = key.locations.iter().chain([&key.dataset]);
    key.locations.len() <= KEY_SOURCES_MAX
        && texts.map(String::len).all(|bytes| bytes <= TEXT_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{As, Head};

    fn key(dataset: &str, places: &[&str]) -> Value {
        let locations: Vec<&str> = places.to_vec();
        json!({"dataset": dataset, "encryption": "aes-256-gcm", "loaded": true, "locations": locations})
    }

    fn queried(head: &Head, who: &As, keys: Vec<Value>) -> u16 {
        head.send_request(who, "POST", "/peer/missing-keys", keys.into())
            .0
    }

    /// A compromised head could make another start a process for each key in its query.
    #[test]
    fn key_queries_to_a_head_are_bounded() {
        let head = Head::new();
        let looked = || head.machine.keys_looked.swap(0, Ordering::AcqRel);
        let fine = key("tank/v", &["prompt"; KEY_SOURCES_MAX]);
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let refused = [
            vec![fine.clone(); KEYS_MAX + 1],
            vec![
                fine.clone(),
                key("tank/v", &["prompt"; KEY_SOURCES_MAX + 1]),
            ],
            vec![key(&long, &["prompt"])],
            vec![key("tank/v", &[&format!("file:///{long}")])],
        ];
        for keys in refused {
            assert_eq!((queried(&head, &As::Head, keys), looked()), (413, 0));
        }
        let most = vec![fine; KEYS_MAX];
        assert_eq!(
            (queried(&head, &As::Anonymous, most.clone()), looked()),
            (403, 0)
        );
        assert_eq!(
            (queried(&head, &As::Head, most.clone()), looked()),
            (200, KEYS_MAX)
        );
        let held = head.api.key_looks.try_acquire_many(QUERIES_MAX as u32);
        assert_eq!(
            (queried(&head, &As::Head, most.clone()), looked()),
            (503, 0)
        );
        drop(held);
        assert_eq!((queried(&head, &As::Head, most), looked()), (200, KEYS_MAX));
    }
}
