//! Responses that several resources share: refusals, limits of rates, and the headers of all.

use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::{Failure, FailureKind};
use serde_json::Value;

use crate::Api;
use crate::call::Reply;
use crate::caller::{self, Link};
use crate::view::Refusal;

/// The console loads resources from its own origin only.
const CONTENT_SECURITY: &str = "default-src 'self'; img-src 'self' data:; style-src 'self'; \
     object-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Sets the headers of every response.
pub(crate) fn secure(headers: &mut HeaderMap, is_encrypted: bool) {
    let all = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in all {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if is_encrypted {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, year);
    }
}

/// Checks the request's host and the rate limit of its peer.
pub(crate) fn admit(api: &Api, link: &Link, headers: &HeaderMap) -> Result<(), Box<Response>> {
    let certificate = api.certificate.read().expect("no holder panics").clone();
    caller::check_host(headers, link, certificate.as_ref())
        .map_err(|failure| Box::new(failure_response(&failure, None)))?;
    if link.is_head.load(std::sync::atomic::Ordering::Acquire) {
        return Ok(());
    }
    let taken = api.requests.take(link.peer.ip(), Instant::now());
    taken.map_err(|wait| {
        api.limits
            .limited
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Box::new(too_many(wait))
    })
}

/// Checks the rate limit of a peer that may be a head. Heads connect by address.
pub(crate) fn admit_peer(api: &Api, link: &Link) -> Result<(), Box<Response>> {
    let taken = api.requests.take(link.peer.ip(), Instant::now());
    taken.map_err(|wait| Box::new(too_many(wait)))
}

/// A response with status 429.
pub(crate) fn too_many(wait: Duration) -> Response {
    let seconds = wait.as_secs().max(1);
    let failure =
        Failure::new(FailureKind::Busy, "too many requests").advise(format!("wait {seconds} s"));
    let mut response = failure_response(&failure, Some(StatusCode::TOO_MANY_REQUESTS));
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// A response with status 401.
pub(crate) fn log_in_first(api: &Api) -> Response {
    let no_users = !api.accounts.has_users();
    let advice = match no_users {
        true => "there is no user yet: run `bulkhead user add NAME --role admin` on this head",
        false => "POST /api/v1/login begins a session; a token goes into `Authorization: Bearer`",
    };
    let failure = Failure::new(FailureKind::Denied, "log in first").advise(advice);
    let document = Refusal { failure, no_users };
    let mut response = (StatusCode::UNAUTHORIZED, axum::Json(document)).into_response();
    let scheme = HeaderValue::from_static("Bearer");
    response
        .headers_mut()
        .insert(header::WWW_AUTHENTICATE, scheme);
    response
}

/// Builds the response of a success.
pub(crate) fn success(status: u16, reply: Reply) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let mut response = match reply.body {
        Value::Null => StatusCode::NO_CONTENT.into_response(),
        body => (status, axum::Json(body)).into_response(),
    };
    if let Some(Ok(cookie)) = reply.cookie.map(|cookie| HeaderValue::from_str(&cookie)) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// The HTTP status of a kind of failure.
pub(crate) const fn status_of(kind: FailureKind) -> StatusCode {
    match kind {
        FailureKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        FailureKind::Usage => StatusCode::BAD_REQUEST,
        FailureKind::NotFound => StatusCode::NOT_FOUND,
        FailureKind::Exists | FailureKind::Busy => StatusCode::CONFLICT,
        FailureKind::NeedsConfirmation => StatusCode::PRECONDITION_REQUIRED,
        FailureKind::Unreachable => StatusCode::BAD_GATEWAY,
        FailureKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        FailureKind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        FailureKind::Denied => StatusCode::FORBIDDEN,
        FailureKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
    }
}

/// Builds the response of a failure.
pub(crate) fn failure_response(failure: &Failure, status: Option<StatusCode>) -> Response {
    let status = status.unwrap_or_else(|| status_of(failure.kind));
    let failure = failure.clone();
    let document = Refusal {
        failure,
        no_users: false,
    };
    (status, axum::Json(document)).into_response()
}
