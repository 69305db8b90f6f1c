//! Dispatches a request: checks the host, identifies the caller, checks the role, parses the body, performs the
//! request, and writes the audit log and the response.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, on, post};
use axum::{Extension, Router};
use control::{Effect, Failure, FailureKind, Request as PoolRequest};
use serde_json::Value;

use crate::Api;
use crate::audit::{self, Entry};
use crate::call::{Call, Reply, allow, may, person};
use crate::caller::{self, By, Caller, Link};
use crate::peer;
use crate::peer_keys;
use crate::responses::{admit, failure_response, log_in_first, secure, success};
use crate::role::verb;
use crate::route::{Input, Route, Work};
use crate::routes::ROUTES;

/// Characters of a failed login's name that are logged.
const LOGIN_CHARS_MAX: usize = 64;
/// Longest time for a body to arrive.
const BODY_WAIT: Duration = Duration::from_secs(30);

/// All resources, and the console for the remaining paths.
pub(crate) fn router(api: &Arc<Api>) -> Router {
    let mut router = Router::new()
        .route("/metrics", get(crate::metrics::serve))
        .route(peer::HELLO, get(peer::hello))
        .merge(between_heads())
        .route("/api/{*rest}", axum::routing::any(no_resource));
    for route in ROUTES.iter() {
        let handler = move |state, link, request| answer(state, link, route, request);
        let filter = match route.method {
            "POST" => MethodFilter::POST,
            "PATCH" => MethodFilter::PATCH,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        };
        router = router.route(&format!("/api/v1{}", route.path), on(filter, handler));
    }
    router
        .method_not_allowed_fallback(no_method)
        .fallback(console)
        .with_state(Arc::clone(api))
}

/// The resources for other heads. All other clients are refused before their bodies are read.
fn between_heads() -> Router<Arc<Api>> {
    Router::new()
        .route(peer::ACCOUNTS, get(peer::accounts))
        .route(peer::TAKEOVER_STEPS, get(crate::takeovers::steps))
        .route(peer::HARDWARE, get(crate::hardware_faults::own))
        .route(peer::REPORT, get(crate::head_reports::own))
        .route(peer::NOTIFICATIONS, get(crate::notifications::report))
        .route(peer_keys::MISSING_KEYS, post(peer_keys::missing))
        .route(peer_keys::LIST, post(peer_keys::list))
        .route_layer(middleware::from_fn(only_heads))
}

async fn only_heads(
    Extension(link): Extension<Arc<Link>>,
    request: Request,
    next: Next,
) -> Response {
    match link.is_head.load(Ordering::Acquire) {
        true => next.run(request).await,
        false => StatusCode::FORBIDDEN.into_response(),
    }
}

async fn no_resource() -> Response {
    let failure = Failure::not_found("there is no such resource")
        .advise("GET /api/v1/openapi.json lists all resources");
    failure_response(&failure, None)
}

async fn no_method() -> Response {
    let failure = Failure::usage("this resource has no such method")
        .advise("GET /api/v1/openapi.json lists all resources");
    failure_response(&failure, Some(StatusCode::METHOD_NOT_ALLOWED))
}

/// Serves files of the console; other paths are routes within the console.
async fn console(
    State(api): State<Arc<Api>>,
    Extension(link): Extension<Arc<Link>>,
    request: Request,
) -> Response {
    if let Err(response) = admit(&api, &link, request.headers()) {
        return *response;
    }
    let path = request.uri().path().trim_start_matches('/');
    let found = match path.is_empty() {
        true => None,
        false => api.backend.console(path),
    };
    let is_page = found.is_none() && !path.rsplit('/').next().is_some_and(|end| end.contains('.'));
    let found = found.or_else(|| api.backend.console("index.html").filter(|_| is_page));
    let Some((bytes, kind)) = found else {
        return no_resource().await;
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return no_method().await;
    }
    let mut response = Bytes::from_static(bytes).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    secure(headers, link.is_encrypted);
    response
}

/// Handles a request to `route`.
async fn answer(
    State(api): State<Arc<Api>>,
    Extension(link): Extension<Arc<Link>>,
    route: &'static Route,
    request: Request,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let mut response = match admit(&api, &link, &parts.headers) {
        Err(response) => *response,
        Ok(()) => match identify(&api, &link, route, &parts) {
            Err(response) => *response,
            Ok(caller) => {
                let what = format!("{} {}", parts.method, parts.uri.path());
                let who = caller.clone();
                let started = perform(&api, &link, route, &mut parts, body, caller).await;
                finish(&api, &link, route, &parts, who, what, started)
            }
        },
    };
    secure(response.headers_mut(), link.is_encrypted);
    response
}

/// Identifies the caller; `None` only on public routes.
fn identify(
    api: &Api,
    link: &Link,
    route: &Route,
    parts: &Parts,
) -> Result<Option<Caller>, Box<Response>> {
    let caller = caller::of(api, &parts.headers, link);
    if caller.is_some() {
        link.is_known();
    }
    let is_open = matches!(route.work, Work::Do(None, _));
    if caller.is_none() && !is_open {
        return Err(Box::new(log_in_first(api)));
    }
    caller::check_origin(
        api,
        &parts.method,
        &parts.headers,
        caller.as_ref().filter(|_| !is_open),
    )
    .map_err(|failure| Box::new(failure_response(&failure, None)))?;
    Ok(caller)
}

/// Details for the audit log that only the body contains.
#[derive(Default)]
struct AuditDetails {
    /// The verb of the pool request, if it is one.
    verb: Option<String>,
    /// The operation's own details.
    details: Option<String>,
    /// The operation's effect.
    effect: Option<Effect>,
    /// The name in a login attempt.
    login: Option<String>,
    /// The status of a refusal, if its kind does not determine it.
    status: Option<StatusCode>,
}

impl AuditDetails {
    fn note(&mut self, call: &Call, request: &PoolRequest) -> Result<&Effect, Failure> {
        let effect = request.effect(&call.pool()?);
        self.verb = Some(verb(request));
        self.details = audit::details(request);
        Ok(self.effect.insert(effect))
    }
}

/// The result of a request.
struct Performed {
    audit_details: AuditDetails,
    outcome: Result<Outcome, Failure>,
}

enum Outcome {
    Reply(Reply),
    Ready(Box<Response>),
}

async fn perform(
    api: &Arc<Api>,
    link: &Arc<Link>,
    route: &'static Route,
    parts: &mut Parts,
    body: Body,
    caller: Option<Caller>,
) -> Performed {
    let mut audit_details = AuditDetails::default();
    let outcome = steps(api, link, route, parts, body, caller, &mut audit_details).await;
    Performed {
        audit_details,
        outcome,
    }
}

async fn steps(
    api: &Arc<Api>,
    link: &Arc<Link>,
    route: &'static Route,
    parts: &mut Parts,
    body: Body,
    caller: Option<Caller>,
    audit_details: &mut AuditDetails,
) -> Result<Outcome, Failure> {
    if let Work::Ask(_, verb, _) = &route.work {
        audit_details.verb = Some((*verb).to_owned());
    }
    if let Work::Do(Some(role), _) | Work::Ask(role, ..) = &route.work {
        allow(caller.as_ref(), *role)?;
    }
    if route.wants_person {
        person(caller.as_ref())?;
    }
    if let (Work::Stream, Some(caller)) = (&route.work, &caller) {
        let response = crate::stream::serve(Arc::clone(api), Arc::clone(link), caller.clone())?;
        return Ok(Outcome::Ready(Box::new(response)));
    }
    let bytes = match route.input {
        Input::Nothing => Bytes::new(),
        _ => receive(body, route.body_bytes_max, audit_details).await?,
    };
    let mut call = Call {
        from: link.peer.ip().to_canonical(),
        path: path_of(parts).await?,
        query: query_of(parts)?,
        body: parse(&route.input, &parts.headers, &bytes)?,
        is_encrypted: link.is_encrypted,
        cookie: caller::cookie(&parts.headers).map(str::to_owned),
        caller,
    };
    if let Work::Ask(_, name, members) = &route.work {
        call.body = call.request(name, members)?;
        let request = call.within_rights(call.input()?);
        call.body = serde_json::to_value(&request).expect("requests are JSON");
        may(
            &call,
            audit_details.note(&call, &request)?,
            call.query.get("confirm"),
        )?;
    } else if let Some(request) = call
        .body
        .get("request")
        .filter(|_| route.is_control_request())
    {
        // The head that performs the request checks the role.
        if let Ok(request) = serde_json::from_value::<PoolRequest>(request.clone()) {
            audit_details.note(&call, &call.within_rights(request))?;
        }
    } else if let ("/login", Some(Value::String(user))) = (route.path, call.body.get("user")) {
        audit_details.login = Some(user.chars().take(LOGIN_CHARS_MAX).collect());
    } else {
        audit_details.details = audit::details_of_body(&call.body);
    }
    if let Some(response) = elsewhere(api, parts, &bytes, &call).await? {
        return Ok(Outcome::Ready(Box::new(response)));
    }
    let (pool, verb) = (call.path.get("pool"), audit_details.verb.as_deref());
    let place = api
        .pool_permits
        .take(pool.map(String::as_str), verb)
        .await?;
    let api = Arc::clone(api);
    let performed = tokio::task::spawn_blocking(move || {
        let _place = place;
        match &route.work {
            Work::Do(_, handler) => handler(&api, &call),
            _ => crate::handlers::request_unchecked(&api, &call),
        }
    });
    let failed = |_| {
        Failure::new(
            FailureKind::Failed,
            "the request was not performed to its end",
        )
    };
    performed.await.map_err(failed)?.map(Outcome::Reply)
}

/// Forwards a request to the other head that serves the pool in the path, if one does.
async fn elsewhere(
    api: &Arc<Api>,
    parts: &Parts,
    bytes: &Bytes,
    call: &Call,
) -> Result<Option<Response>, Failure> {
    let (Some(pool), Some(caller)) = (call.path.get("pool"), &call.caller) else {
        return Ok(None);
    };
    // A forwarded request is performed here or fails, which prevents loops.
    if caller.by == By::Head {
        return Ok(None);
    }
    let Some(head) = api.sampler.served_elsewhere(pool) else {
        return Ok(None);
    };
    let target = parts
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str());
    let asked = api
        .peers
        .send_request(&head, &parts.method, target, bytes.clone(), caller);
    asked.await.map(Some)
}

async fn receive(
    body: Body,
    bytes_max: usize,
    audit_details: &mut AuditDetails,
) -> Result<Bytes, Failure> {
    let collected = axum::body::to_bytes(body, bytes_max);
    match tokio::time::timeout(BODY_WAIT, collected).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => {
            audit_details.status = Some(StatusCode::PAYLOAD_TOO_LARGE);
            let message = format!("the body did not arrive, or is longer than {bytes_max} bytes");
            Err(Failure::usage(message).advise("split it into smaller requests"))
        }
        Err(_) => Err(Failure::usage("the body took too long to arrive")),
    }
}

async fn path_of(parts: &mut Parts) -> Result<BTreeMap<String, String>, Failure> {
    use axum::extract::FromRequestParts;
    let path = Path::<BTreeMap<String, String>>::from_request_parts(parts, &()).await;
    path.map(|Path(path)| path)
        .map_err(|error| Failure::usage(format!("the path: {error}")))
}

fn query_of(parts: &Parts) -> Result<BTreeMap<String, String>, Failure> {
    let query = Query::<BTreeMap<String, String>>::try_from_uri(&parts.uri);
    query
        .map(|Query(query)| query)
        .map_err(|error| Failure::usage(format!("the query: {error}")))
}

fn parse(input: &Input, headers: &HeaderMap, bytes: &Bytes) -> Result<Value, Failure> {
    if matches!(input, Input::Nothing) || bytes.is_empty() {
        return Ok(Value::Null);
    }
    // A page of another site can send plain text without a preflight request, but no JSON.
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let media = kind.split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return Err(Failure::usage("the body must be JSON")
            .advise("set the header Content-Type: application/json"));
    }
    let parsed = match input {
        Input::Strictly(_, read) => read(bytes),
        _ => serde_json::from_slice(bytes),
    };
    parsed.map_err(|error| Failure::usage(format!("the body cannot be parsed: {error}")))
}

/// Writes changes to the audit log, and builds the response.
fn finish(
    api: &Api,
    link: &Link,
    route: &Route,
    parts: &Parts,
    caller: Option<Caller>,
    what: String,
    performed: Performed,
) -> Response {
    let (response, outcome) = match performed.outcome {
        Ok(Outcome::Ready(response)) => (*response, audit::outcome(None)),
        Ok(Outcome::Reply(reply)) => (success(route.status, reply), audit::outcome(None)),
        Err(failure) => {
            let response = match (route.path, failure.kind) {
                ("/session", FailureKind::Denied) => log_in_first(api),
                _ => {
                    let status = performed.audit_details.status;
                    failure_response(
                        &failure,
                        status.or_else(|| status_of_refusal(route, &failure)),
                    )
                }
            };
            (response, audit::outcome(Some(&failure)))
        }
    };
    let AuditDetails {
        verb,
        details,
        effect,
        login,
        status: _,
    } = performed.audit_details;
    let looks = effect.map_or(parts.method.is_safe(), |effect| effect == Effect::Look);
    if !looks {
        api.sampler.changed();
        let entry = Entry {
            at_ms: crate::now_ms(),
            who: login
                .or_else(|| caller.as_ref().map(|caller| caller.user.clone()))
                .unwrap_or_else(|| "nobody".into()),
            role: caller.as_ref().map(|caller| caller.role.to_string()),
            from: link.peer.ip().to_canonical().to_string(),
            what: verb.unwrap_or(what),
            target: parts.uri.path().to_owned(),
            details,
            outcome,
            code: response.status().as_u16(),
            count: None,
        };
        // Entries that any client can cause must not rotate out the log of changes.
        match route.is_access() || response.status().is_client_error() {
            true => api.audit.accessed(entry),
            false => api.audit.changed(&entry),
        }
    }
    response
}

/// The status of a refusal, if its kind alone does not determine it.
fn status_of_refusal(route: &Route, failure: &Failure) -> Option<StatusCode> {
    match (route.path, failure.kind) {
        ("/login" | "/users/{user}", FailureKind::Busy) => Some(StatusCode::TOO_MANY_REQUESTS),
        ("/login", FailureKind::Denied) => Some(StatusCode::UNAUTHORIZED),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use control::operations::Source;
    use serde_json::json;

    use super::*;
    use crate::call::literal;
    use crate::role::role_of;

    fn call(path: &[(&str, &str)], query: &[(&str, &str)], body: Value) -> Call {
        let owned = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            pairs
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        Call {
            caller: None,
            from: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
            path: owned(path),
            query: owned(query),
            body,
            is_encrypted: false,
            cookie: None,
        }
    }

    fn members(method: &str, path: &str) -> (&'static str, &'static [(&'static str, Source)]) {
        let route = ROUTES.iter().find(|r| (r.method, r.path) == (method, path));
        match route.expect("a route").work {
            Work::Ask(_, verb, members) => (verb, members),
            _ => panic!("{path} is no request"),
        }
    }

    /// Every route about a pool builds a valid control request.
    #[test]
    fn every_pool_route_builds_a_control_request() {
        let path = [
            ("pool", "tank"),
            ("volume", "vms/a"),
            ("filesystem", "home/ann"),
            ("snapshot", "vms/a@b"),
            ("target", "iqn.2026-01.org.example:a"),
        ];
        for route in ROUTES.iter() {
            let Work::Ask(role, verb, members) = route.work else {
                continue;
            };
            let body = route.example.map_or(Value::Null, literal);
            let request = call(&path, &[], body).request(verb, members).expect(verb);
            assert_eq!(crate::role::verb_of(&request), verb);
            let understood = serde_json::from_value::<PoolRequest>(request.clone());
            let understood = understood.unwrap_or_else(|error| {
                let file = verb.replace('.', "/");
                panic!(
                    "{request}: {error}: add an example of its body to the route, with `.body(…)` in \
                     core/control/src/operations/{file}.rs"
                )
            });
            // With the fewest rights that the route admits.
            let understood = understood.without_rights_change();
            let pool = "tank".parse().expect("a name");
            assert_eq!(role_of(&understood.effect(&pool)), role, "{request}");
        }
    }

    #[test]
    fn fields_are_read_from_path_query_and_body() {
        let (verb, members_of) = members("DELETE", "/pools/{pool}/volumes/{volume}");
        let call_of = call(
            &[("pool", "tank"), ("volume", "a")],
            &[("recursive", "true")],
            Value::Null,
        );
        let wanted = json!({"volume": {"destroy": {"name": "tank/a", "recursive": true, "exported": false, "dry_run": false}}});
        assert_eq!(call_of.request(verb, members_of).expect("made"), wanted);
        let (verb, members_of) = members("GET", "/pools/{pool}/events");
        let call_of = call(&[("pool", "tank")], &[("after", "7")], Value::Null);
        let wanted = json!({"pool": {"events": {"after": 7}}});
        assert_eq!(call_of.request(verb, members_of).expect("made"), wanted);
    }
}
