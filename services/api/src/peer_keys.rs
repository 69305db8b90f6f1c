//! Queries another head about the keys of a pool that is about to move there, about its current legs, and for lists of
//! a pool that it serves. No key is transferred: a head only lists the missing ones, with reasons.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use control::answer::Status;
use control::key::KeyView;
use control::legs::LegsView;
use control::{Answer, Failure, FailureKind, Request};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::backend::MissingKey;
use crate::caller::{By, Caller};
use crate::peer::{Peers, unreachable};
use crate::report::PeerReport;
use crate::{Api, Role};

/// The path of the query for missing keys.
pub const MISSING_KEYS: &str = "/api/v1/peer/missing-keys";

/// The path of the query for a list of a pool.
pub const LIST: &str = "/api/v1/peer/list";

/// Longest request for a list, in bytes.
const LIST_BYTES_MAX: usize = 64 << 10;
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
        Ok(self.pool_status(head, pool).await?.pool.legs)
    }

    /// The report of `head` about itself: the members that respond to it, and its appliance file.
    ///
    /// # Errors
    ///
    /// The head does not respond, or is of an earlier release.
    pub async fn head_report(&self, head: &str) -> Result<PeerReport, Failure> {
        self.answer(head, &Method::GET, crate::peer::REPORT, Bytes::new())
            .await
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

    /// The list that `request` asks for, of a pool that `head` serves.
    ///
    /// # Errors
    ///
    /// The head does not respond, does not serve the pool, or refuses the request.
    pub async fn list(
        &self,
        head: &str,
        pool: &PoolName,
        request: &Request,
    ) -> Result<Answer, Failure> {
        let query = ListQuery {
            pool: pool.clone(),
            request: request.clone(),
        };
        let body = serde_json::to_vec(&query).expect("requests are JSON");
        self.answer::<Result<Answer, Failure>>(head, &Method::POST, LIST, body.into())
            .await?
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
            (status, bytes) => Err(refused(head, status, &bytes)),
        }
    }
}

/// The failure that a head reports.
fn refused(head: &str, status: StatusCode, body: &[u8]) -> Failure {
    /// As [`crate::view::Refusal`].
    #[derive(Deserialize)]
    struct Refusal {
        failure: Failure,
    }
    match serde_json::from_slice::<Refusal>(body) {
        Ok(Refusal { failure }) => Failure {
            kind: FailureKind::Unreachable,
            message: format!("{head} reports: {}", failure.message),
            ..failure
        },
        Err(_) => unreachable(head, &format!("it answers {status}")),
    }
}

/// A request for a list, between heads.
#[derive(Serialize, Deserialize)]
struct ListQuery {
    pool: PoolName,
    request: Request,
}

/// Returns a list of a pool that is served here, for another head. Only requests that read, and that are answered for
/// all pools where none is named, are performed: a compromised head must not change a pool, or get the contents of one.
pub(crate) async fn list(State(api): State<Arc<Api>>, body: Body) -> Response {
    let Ok(body) = axum::body::to_bytes(body, LIST_BYTES_MAX).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let Ok(ListQuery { pool, request }) = serde_json::from_slice(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    if !(request.is_read_only() && request.operation().covers_all_pools()) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let permit = api.pool_permits.take(Some(pool.as_str()), None).await;
    let backend = Arc::clone(&api.backend);
    let asked = tokio::task::spawn_blocking(move || {
        let _permit = permit?;
        backend.ask_server(&pool, request)
    });
    match asked.await {
        Ok(answer) => axum::Json(answer).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Lists the keys in the query that are missing here, for another head.
pub(crate) async fn missing(State(api): State<Arc<Api>>, body: Body) -> Response {
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

    /// A pool of which the server is being started again, in a refusal as heads send it.
    #[test]
    fn a_refusal_of_another_head_is_shown_with_its_reason() {
        let failure = Failure::new(FailureKind::NeedsConfirmation, "pool tank is not opened");
        let body = json!({"failure": failure}).to_string();
        let told = refused("left", StatusCode::PRECONDITION_REQUIRED, body.as_bytes());
        assert_eq!(told.kind, FailureKind::Unreachable);
        assert_eq!(told.message, "left reports: pool tank is not opened");
        let none = refused("left", StatusCode::PRECONDITION_REQUIRED, b"");
        assert!(none.message.contains("428"), "{}", none.message);
    }

    #[test]
    fn list_query_is_for_heads_and_for_requests_that_only_list() {
        let head = Head::new();
        let tank = Status {
            pool: control::answer::PoolStatus {
                name: "tank".to_owned(),
                ..Default::default()
            },
            ..Status::default()
        };
        *head.machine.statuses.lock().expect("no holder panics") = vec![tank];
        let ask = |who: &As, request: Value| {
            let body = json!({"pool": "tank", "request": request});
            head.send_request(who, "POST", "/peer/list", body)
        };
        assert_eq!(ask(&As::Anonymous, json!("status")).0, 403);
        let (code, answer) = ask(&As::Head, json!("status"));
        assert_eq!(
            (code, answer["Ok"].to_string().contains("\"name\":\"tank\"")),
            (200, true)
        );
        let none = ask(&As::Head, json!({"volume": "list"}));
        assert_eq!(
            (none.0, none.1["Err"]["kind"].as_str()),
            (200, Some("not_found"))
        );
        let scrub = json!({"pool": {"scrub": {"action": "start", "wait": false}}});
        for change in [json!({"pool": "export"}), scrub] {
            assert_eq!(ask(&As::Head, change.clone()).0, 403, "{change}");
        }
        let long = json!({"volume": {"list": {"only": "x".repeat(LIST_BYTES_MAX)}}});
        assert_eq!(ask(&As::Head, long).0, 413);
        assert_eq!(ask(&As::Head, json!({"volume": "explode"})).0, 400);
    }
}
