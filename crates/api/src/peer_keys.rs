//! Whether another head has the keys of a pool that is about to move there. No key is told: a head
//! answers only which ones it lacks, and why.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use control::Failure;
use control::key::KeyView;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::caller::{By, Caller, Link};
use crate::peer::{Peers, unreachable};
use crate::{Api, Role};

/// Where a head is asked which keys it lacks.
pub const MISSING_KEYS: &str = "/api/v1/peer/missing-keys";

/// Longest list of keys that another head may ask about, in bytes.
const KEYS_BYTES_MAX: usize = 2 << 20;

/// A key that a head does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingKey {
    /// Whose key it is.
    pub dataset: String,
    /// What was found in its places.
    pub why: String,
}

impl Peers {
    /// The keys of a pool that `head` serves.
    ///
    /// # Errors
    ///
    /// The head does not answer, or serves it no more.
    pub async fn keys(&self, head: &str, pool: &PoolName) -> Result<Vec<KeyView>, Failure> {
        let target = format!("/api/v1/pools/{pool}/keys");
        self.answer(head, &Method::GET, &target, Bytes::new()).await
    }

    /// Which of these keys `head` lacks.
    ///
    /// # Errors
    ///
    /// The head does not answer.
    pub async fn missing_keys(
        &self,
        head: &str,
        keys: &[KeyView],
    ) -> Result<Vec<MissingKey>, Failure> {
        let body = serde_json::to_vec(keys).expect("views are JSON");
        self.answer(head, &Method::POST, MISSING_KEYS, body.into())
            .await
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

/// Tells another head which of the keys that it names are missing here.
pub(crate) async fn missing(
    State(api): State<Arc<Api>>,
    Extension(link): Extension<Arc<Link>>,
    body: Body,
) -> Response {
    // Nothing of a stranger's is taken in.
    if !link.is_head.load(Ordering::Acquire) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let Ok(body) = axum::body::to_bytes(body, KEYS_BYTES_MAX).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let Ok(keys) = serde_json::from_slice::<Vec<KeyView>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let backend = Arc::clone(&api.backend);
    let looked = tokio::task::spawn_blocking(move || backend.missing_keys(&keys));
    match looked.await {
        Ok(missing) => axum::Json(missing).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
