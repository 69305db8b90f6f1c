//! Messages about alerts: the receivers, the history, tests, and the exchange of their state between heads.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use control::Failure;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Api;
use crate::backend::Notifier;
use crate::call::{Call, Reply};
use crate::caller::Link;

/// The receivers to test.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AlertTest {
    /// The name of one; all by default.
    receiver: Option<String>,
}

fn notifier(api: &Api) -> Result<&dyn Notifier, Failure> {
    let known = api.backend.notifier();
    known.ok_or_else(|| Failure::not_found("this head sends no messages about alerts"))
}

pub(crate) fn receivers(api: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(notifier(api)?.receivers())
}

pub(crate) fn history(api: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(notifier(api)?.history())
}

pub(crate) fn test(api: &Api, call: &Call) -> Result<Reply, Failure> {
    // All receivers without a body.
    let wanted = match call.body.is_null() {
        true => AlertTest::default(),
        false => call.input()?,
    };
    Reply::of(notifier(api)?.test(wanted.receiver.as_deref())?)
}

/// Sends the state to another head.
pub(crate) async fn report(
    State(api): State<Arc<Api>>,
    Extension(link): Extension<Arc<Link>>,
) -> Response {
    if !link.is_head.load(Ordering::Acquire) {
        return StatusCode::FORBIDDEN.into_response();
    }
    match api.backend.notifier() {
        Some(notifier) => axum::Json(notifier.report()).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
