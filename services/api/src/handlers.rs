//! Handlers of the head itself: sessions, users, tokens, the overview, background operations.

use std::time::Instant;

use control::answer::Done;
use control::operations::Preview;
use control::operations::filesystem;
use control::operations::pool::create::PoolCreate;
use control::operations::target::allow::Allow;
use control::operations::target::deny::Deny;
use control::operations::target::{TargetRequest, Who};
use control::operations::volume::rename::Rename;
use control::operations::volume::resize::Resize;
use control::operations::volume::set::Set;
use control::request::{FilesystemRequest, Properties, VolumeRequest};
use control::{Answer, Failure, FailureKind, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use units::{HeadName, IscsiName, VolumeName};

use crate::Api;
use crate::accounts::Identity;
use crate::audit::ENTRIES_MAX;
use crate::audit_search::{self, Wanted};
use crate::backend::{ApplianceInput, ApplianceVerb, DrillInput};
use crate::call::{Call, Reply, allow as allow_role, may};
use crate::caller::{By, COOKIE};
use crate::fill;
use crate::operations::RequestedOperation;
use crate::role::{Role, verb};
use crate::sessions::{AGE_MAX, RequestOrigin, Session};
use crate::view::PoolFound;

/// A name and a password.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The user.
    pub user: String,
    /// Their password.
    pub password: String,
}

/// A session as returned to a page.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Session")]
pub struct SessionView {
    /// The user.
    pub user: String,
    /// Their role.
    pub role: Role,
    /// The value of the header `X-Bulkhead-CSRF`, required with changes.
    pub csrf: String,
    /// Its latest end, in milliseconds since 1970.
    pub expires_at_ms: u64,
}

/// A user to be added.
#[derive(Deserialize, JsonSchema)]
pub struct NewUser {
    /// The name.
    pub name: String,
    /// Their role.
    pub role: Role,
    /// Their password.
    pub password: String,
}

/// A change of a user.
#[derive(Deserialize, JsonSchema)]
pub struct UserChange {
    /// Another role.
    #[serde(default)]
    pub role: Option<Role>,
    /// Another password.
    #[serde(default)]
    pub password: Option<String>,
    /// The current password, required for a change of one's own.
    #[serde(default)]
    pub current_password: Option<String>,
}

/// A token to be made.
#[derive(Deserialize, JsonSchema)]
pub struct NewToken {
    /// Its purpose.
    pub name: String,
    /// Its role; by default that of its user.
    #[serde(default)]
    pub role: Option<Role>,
    /// Its lifetime in seconds; unlimited by default.
    #[serde(default)]
    pub expires_in_s: Option<u64>,
    /// The current password of its user.
    #[serde(default)]
    pub current_password: Option<String>,
}

/// A pool to be made.
#[derive(Deserialize, JsonSchema)]
pub struct NewPool {
    /// Its description.
    #[serde(flatten)]
    pub create: PoolCreateInput,
    /// Also start its server.
    #[serde(default)]
    pub serve: bool,
}

/// The description of a new pool.
#[derive(Deserialize, JsonSchema)]
pub struct PoolCreateInput {
    /// Its name.
    pub name: units::PoolName,
    /// Its devices.
    pub groups: Vec<control::operations::pool::DeviceGroup>,
    /// Its properties.
    #[serde(default)]
    pub properties: Properties,
    /// Devices that carry another pool's old label may be overwritten.
    #[serde(default)]
    pub overwrite: bool,
}

/// The destination of a move.
#[derive(Deserialize, JsonSchema)]
pub struct Move {
    /// The head.
    pub to: HeadName,
    /// Also if keys of currently served volumes are missing on that head.
    #[serde(default)]
    pub without_keys: bool,
}

/// The locate light of a disk's slot.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Locate {
    /// The path of the disk.
    pub disk: String,
    /// Whether the light is on.
    pub on: bool,
}

/// Any control request to a pool.
#[derive(Deserialize, JsonSchema)]
pub struct Question {
    /// The control request.
    pub request: Request,
    /// The name of the destroyed object, if one is.
    #[serde(default)]
    pub confirm: Option<String>,
    /// Return at once with an operation.
    #[serde(default)]
    pub background: bool,
}

/// A change of a volume.
#[derive(Deserialize, JsonSchema)]
pub struct VolumeChange {
    /// Another size in bytes.
    #[serde(default)]
    pub size: Option<u64>,
    /// Data beyond a smaller size may be lost.
    #[serde(default)]
    pub allow_shrink: bool,
    /// Other values of properties.
    #[serde(default)]
    pub properties: Properties,
    /// Another name, `POOL/NAME`.
    #[serde(default)]
    pub name: Option<VolumeName>,
}

/// A change of a file system.
#[derive(Deserialize, JsonSchema)]
pub struct FilesystemChange {
    /// Other values of properties.
    #[serde(default)]
    pub properties: Properties,
    /// Properties to reset to the parent's value.
    #[serde(default)]
    pub inherit: Vec<String>,
    /// Another name, `POOL/NAME`.
    #[serde(default)]
    pub name: Option<VolumeName>,
}

fn session_view(identity: Identity, session: Session) -> SessionView {
    SessionView {
        user: identity.user,
        role: identity.role,
        csrf: session.csrf,
        expires_at_ms: session.expires_at_ms,
    }
}

fn set_cookie(call: &Call, value: &str, seconds: u64) -> String {
    let secure = if call.is_encrypted { "; Secure" } else { "" };
    format!("{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// Identifies a user by name and password. Wrong passwords increase the delay of further attempts.
fn verified(
    api: &Api,
    call: &Call,
    user: &str,
    password: &str,
) -> Result<Option<Identity>, Failure> {
    let (from, now) = (call.from, Instant::now());
    api.logins.check_delay(from, user, now).map_err(|wait| {
        let seconds = wait.as_secs() + 1;
        Failure::new(FailureKind::Busy, "too many wrong passwords")
            .advise(format!("wait {seconds} s"))
    })?;
    let identity = {
        // Hashing is expensive by design: more than a few at a time are refused, not queued.
        let _place = api.hashed.try_acquire().map_err(|_| {
            Failure::new(FailureKind::Busy, "too many concurrent logins").advise("try again")
        })?;
        api.accounts.log_in(user, password)?
    };
    match identity {
        Some(_) => api.logins.succeeded(from, user),
        None => api.logins.failed(from, user, now),
    }
    Ok(identity)
}

pub(crate) fn log_in(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let login: Login = call.input()?;
    let Some(identity) = verified(api, call, &login.user, &login.password)? else {
        let advice = match api.accounts.has_users() {
            true => "an admin, or `bulkhead user passwd` on the head, sets another password",
            false => "there is no user yet: run `bulkhead user add NAME --role admin` on this head",
        };
        let failure = Failure::new(FailureKind::Denied, "the name or the password is wrong");
        return Err(failure.advise(advice));
    };
    let (secret, session) = api.sessions.begin(&identity)?;
    let mut reply = Reply::of(session_view(identity, session))?;
    reply.cookie = Some(set_cookie(call, &secret, AGE_MAX.as_secs()));
    Ok(reply)
}

pub(crate) fn session(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let known = call
        .cookie
        .as_deref()
        .and_then(|cookie| api.session_of(cookie, RequestOrigin::Page));
    match known {
        Some((identity, session)) => Reply::of(session_view(identity, session)),
        None => Err(Failure::new(FailureKind::Denied, "log in first")
            .advise("POST /api/v1/login begins a session")),
    }
}

pub(crate) fn log_out(api: &Api, call: &Call) -> Result<Reply, Failure> {
    if let By::Session(cookie) = &call.caller()?.by {
        api.sessions.end(cookie);
    }
    Ok(Reply {
        body: Value::Null,
        cookie: Some(set_cookie(call, "", 0)),
    })
}

pub(crate) fn users(api: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(api.accounts.users()?)
}

pub(crate) fn add_user(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let new: NewUser = call.input()?;
    Reply::of(api.accounts.add_user(&new.name, new.role, &new.password)?)
}

/// Fails unless the caller's password is given.
fn confirm_password(api: &Api, call: &Call, given: Option<&str>) -> Result<(), Failure> {
    let Some(current) = given else {
        let failure = Failure::usage("the current password is missing");
        return Err(failure.advise("send it as `current_password`"));
    };
    match verified(api, call, &call.caller()?.user, current)? {
        Some(_) => Ok(()),
        None => Err(
            Failure::new(FailureKind::Denied, "the current password is wrong").advise(
                "an admin, or `bulkhead user passwd` on the head, sets a new one without it",
            ),
        ),
    }
}

pub(crate) fn change_user(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let (change, caller): (UserChange, _) = (call.input()?, call.caller()?);
    let name = call.named("user")?;
    // Each user may change their own password.
    if name != caller.user || change.role.is_some() {
        allow_role(Some(caller), Role::Admin)?;
    }
    // A page that was left open must not suffice to lock its user out.
    if name == caller.user && change.password.is_some() {
        confirm_password(api, call, change.current_password.as_deref())?;
    }
    let view = api
        .accounts
        .change_user(name, change.role, change.password.as_deref())?;
    if change.password.is_some() {
        api.sessions.end_sessions_of(name);
    }
    Reply::of(view)
}

pub(crate) fn remove_user(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let name = call.named("user")?;
    api.accounts.remove_user(name)?;
    api.sessions.end_sessions_of(name);
    Ok(Reply::default())
}

/// The user that owns the tokens a caller may see and revoke; `None` means all users.
fn reach(call: &Call) -> Result<Option<&str>, Failure> {
    let caller = call.caller()?;
    Ok((caller.role < Role::Admin).then_some(caller.user.as_str()))
}

pub(crate) fn tokens(api: &Api, call: &Call) -> Result<Reply, Failure> {
    Reply::of(api.accounts.tokens(reach(call)?)?)
}

pub(crate) fn add_token(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let (new, caller): (NewToken, _) = (call.input()?, call.caller()?);
    // A token may outlive the session of a page that was left open.
    confirm_password(api, call, new.current_password.as_deref())?;
    let (user, role) = (&caller.user, new.role);
    Reply::of(
        api.accounts
            .add_token(user, &new.name, role, new.expires_in_s)?,
    )
}

pub(crate) fn revoke_token(api: &Api, call: &Call) -> Result<Reply, Failure> {
    api.accounts.revoke(call.named("token")?, reach(call)?)?;
    Ok(Reply::default())
}

pub(crate) fn audit(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let limit = call.query.get("limit").map(|text| text.parse::<usize>());
    let limit = limit
        .transpose()
        .map_err(|_| Failure::usage("limit must be a number"))?;
    let since_ms = call.query.get("since_ms").map(|text| text.parse::<u64>());
    let given = |name| {
        let text = call.query.get(name).filter(|text| !text.is_empty());
        text.cloned()
    };
    let wanted = Wanted {
        since_ms: since_ms
            .transpose()
            .map_err(|_| Failure::usage("since_ms must be a number"))?,
        user: given("user"),
        object: given("object"),
    };
    let count = limit.unwrap_or(200).min(ENTRIES_MAX);
    let failed = Failure::of("read the audit log");
    if wanted.is_limited() {
        let found = audit_search::find(&api.audit.files(), &wanted, count);
        return Reply::of(found.map_err(|error| failed(error.cause))?);
    }
    Reply::of(api.audit.newest(count).map_err(failed)?)
}

pub(crate) fn overview(api: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(api.sampler.overview())
}

pub(crate) fn disks(api: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(api.backend.disks()?)
}

/// The fill of a pool by day, for the last days: 90 unless the query `days` has another number.
pub(crate) fn pool_growth(api: &Api, call: &Call) -> Result<Reply, Failure> {
    const DAYS_DEFAULT: usize = 90;
    let days = match call.query.get("days") {
        None => DAYS_DEFAULT,
        Some(text) => text
            .parse::<usize>()
            .map_err(|_| Failure::usage(format!("{text:?} is not a number of days, such as 30")))?,
    };
    let pool = call.pool()?;
    let fills = api.backend.fills();
    let view = fills.and_then(|fills| {
        fills.view(
            pool.as_str(),
            crate::now_ms() / 1000,
            days.min(fill::DAYS_MAX),
        )
    });
    Reply::of(view.unwrap_or_else(|| fill::GrowthView::empty(pool.as_str())))
}

pub(crate) fn drops(api: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(api.backend.drops())
}

pub(crate) fn power(api: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(api.backend.power())
}

pub(crate) fn locate(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let Locate { disk, on } = call.input()?;
    Reply::of(bare(api.backend.locate(&disk, on)?))
}

pub(crate) fn operations(api: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(api.operations.list())
}

pub(crate) fn operation(api: &Api, call: &Call) -> Result<Reply, Failure> {
    Reply::of(api.operations.find(call.named("operation")?)?)
}

pub(crate) fn cancel(api: &Api, call: &Call) -> Result<Reply, Failure> {
    api.operations.cancel(call.named("operation")?)?;
    Ok(Reply::default())
}

pub(crate) fn appliance(api: &Api, call: &Call) -> Result<Reply, Failure> {
    // An admin may write the file, and may therefore read its secrets.
    let may_write = call.caller()?.role == Role::Admin;
    Reply::of(api.backend.appliance(may_write)?)
}

pub(crate) fn appliance_schema(api: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(api.backend.appliance_schema())
}

pub(crate) fn appliance_check(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let input: ApplianceInput = call.input()?;
    let checked = api
        .backend
        .appliance_do(ApplianceVerb::Check, &input, &mut |_| ());
    Reply::of(checked?)
}

pub(crate) fn appliance_plan(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let input: ApplianceInput = call.input()?;
    let planned = api
        .backend
        .appliance_do(ApplianceVerb::Plan, &input, &mut |_| ());
    Reply::of(planned?)
}

pub(crate) fn appliance_apply(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let input: ApplianceInput = call.input()?;
    let backend = api.backend.clone();
    let wanted = RequestedOperation {
        kind: "apply",
        title: "apply the appliance file".to_owned(),
        who: call.caller()?.user.clone(),
    };
    let work = move |progress: &mut dyn FnMut(&str), _: &_| {
        let applied = backend.appliance_do(ApplianceVerb::Apply, &input, progress)?;
        Ok(json!(applied))
    };
    Reply::of(api.operations.start(wanted, Box::new(work))?)
}

pub(crate) fn drills(api: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(api.backend.drills())
}

pub(crate) fn drill(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let input: DrillInput = match call.body {
        Value::Null => DrillInput::default(),
        _ => call.input()?,
    };
    let backend = api.backend.clone();
    let names = match input.names.is_empty() {
        true => "all".to_owned(),
        false => input.names.join(", "),
    };
    let wanted = RequestedOperation {
        kind: "drill",
        title: format!("drill {names}"),
        who: call.caller()?.user.clone(),
    };
    let work =
        move |progress: &mut dyn FnMut(&str), cancel: &_| backend.drill(&input, cancel, progress);
    Reply::of(api.operations.start(wanted, Box::new(work))?)
}

pub(crate) fn pools(api: &Api, _: &Call) -> Result<Reply, Failure> {
    let found = api.backend.discover()?;
    let overview = api.sampler.overview();
    let served_by = |name: &str| {
        let pool = overview.pools.iter().find(|pool| pool.name == name)?;
        pool.served_by.clone()
    };
    let pools = found.into_iter().map(|found| PoolFound {
        served_by: match found.state == "served" {
            true => Some(overview.this_head.clone()),
            false => served_by(found.name.as_str()),
        },
        found,
    });
    Reply::of(pools.collect::<Vec<_>>())
}

pub(crate) fn create_pool(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let NewPool { create, serve } = call.input()?;
    let name = create.name.clone();
    let create = PoolCreate {
        name: create.name,
        groups: create.groups,
        properties: create.properties,
        overwrite: create.overwrite,
    };
    may(call, &create.effect(), call.query.get("confirm"))?;
    let created = api.backend.create(create)?;
    if serve {
        api.backend.serve(&name)?;
    }
    Reply::of(bare(created))
}

pub(crate) fn serve_pool(api: &Api, call: &Call) -> Result<Reply, Failure> {
    Reply::of(bare(api.backend.serve(&call.pool()?)?))
}

pub(crate) fn move_pool(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let (Move { to, without_keys }, pool) = (call.input()?, call.pool()?);
    let backend = api.backend.clone();
    let wanted = RequestedOperation {
        kind: "move",
        title: format!("move {pool} to {to}"),
        who: call.caller()?.user.clone(),
    };
    let work = move |_: &mut dyn FnMut(&str), _: &_| {
        let moved = backend.hand_over(&pool, &to, without_keys);
        moved.map(bare)
    };
    Reply::of(api.operations.start(wanted, Box::new(work))?)
}

pub(crate) fn request(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let Question {
        request,
        confirm: given,
        background,
    } = call.input()?;
    let request = call.within_rights(request.from_user());
    let (pool, verb) = (call.pool()?, verb(&request));
    may(call, &request.effect(&pool), given.as_ref())?;
    let backend = api.backend.clone();
    if !background {
        return Reply::of(backend.send_request(&pool, request, &mut |_| ())?);
    }
    let wanted = RequestedOperation {
        kind: "request",
        title: format!("{verb} in {pool}"),
        who: call.caller()?.user.clone(),
    };
    let work = move |progress: &mut dyn FnMut(&str), _: &_| {
        let answer = backend.send_request(&pool, request, progress)?;
        Ok(serde_json::to_value(answer).expect("answers are JSON"))
    };
    Reply::of(api.operations.start(wanted, Box::new(work))?)
}

/// The dataset in the path, in its pool.
fn dataset(call: &Call, what: &str) -> Result<VolumeName, Failure> {
    let path = format!("{}/{}", call.pool()?, call.named(what)?);
    let name = path.parse();
    name.map_err(|error: units::NameError| Failure::usage(error.to_string()))
}

pub(crate) fn change_filesystem(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let (change, name): (FilesystemChange, _) = (call.input()?, dataset(call, "filesystem")?);
    let mut requests = Vec::new();
    if !change.properties.is_empty() {
        requests.push(FilesystemRequest::Set(filesystem::set::Set {
            name: name.to_string(),
            properties: change.properties,
        }));
    }
    if !change.inherit.is_empty() {
        requests.push(FilesystemRequest::Inherit(filesystem::inherit::Inherit {
            name: name.to_string(),
            names: change.inherit,
        }));
    }
    // Last, because the other requests use the old name.
    if let Some(to) = change.name {
        requests.push(FilesystemRequest::Rename(filesystem::rename::Rename {
            from: name,
            to,
            keep_rights: false,
        }));
    }
    ask_all(api, call, requests.into_iter().map(Request::Filesystem))
}

pub(crate) fn change_volume(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let (change, name): (VolumeChange, _) = (call.input()?, dataset(call, "volume")?);
    let mut requests = Vec::new();
    if let Some(size) = change.size {
        let resize = Resize {
            name: name.clone(),
            size,
            allow_shrink: change.allow_shrink,
            preview: Preview::default(),
        };
        requests.push(VolumeRequest::Resize(resize));
    }
    if !change.properties.is_empty() {
        requests.push(VolumeRequest::Set(Set {
            name: name.to_string(),
            properties: change.properties,
        }));
    }
    // Last, because the other requests use the old name.
    if let Some(to) = change.name {
        requests.push(VolumeRequest::Rename(Rename {
            from: name,
            to,
            keep_rights: false,
        }));
    }
    ask_all(api, call, requests.into_iter().map(Request::Volume))
}

fn ask_all(
    api: &Api,
    call: &Call,
    requests: impl IntoIterator<Item = Request>,
) -> Result<Reply, Failure> {
    let requests = requests
        .into_iter()
        .map(|request| call.within_rights(request));
    let (pool, requests) = (call.pool()?, Vec::from_iter(requests));
    for request in &requests {
        may(call, &request.effect(&pool), call.query.get("confirm"))?;
    }
    let mut all = Vec::new();
    for request in requests {
        if let Answer::Done(done) = api.backend.send_request(&pool, request, &mut |_| ())? {
            all.push(done);
        }
    }
    let done = Done::joined(all);
    Reply::of(done.ok_or_else(|| Failure::usage("the body contains no change"))?)
}

fn target(call: &Call) -> Result<IscsiName, Failure> {
    let name = call.named("target")?.parse();
    name.map_err(|error: units::NameError| Failure::usage(error.to_string()))
}

pub(crate) fn allow(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let (who, name): (Who, _) = (call.input()?, target(call)?);
    ask_all(
        api,
        call,
        [Request::Target(TargetRequest::Allow(Allow { name, who }))],
    )
}

pub(crate) fn deny(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let (who, name): (Who, _) = (call.input()?, target(call)?);
    ask_all(
        api,
        call,
        [Request::Target(TargetRequest::Deny(Deny { name, who }))],
    )
}

/// Sends the dispatcher's request to the pool, and returns the content of the reply.
pub(crate) fn request_unchecked(api: &Api, call: &Call) -> Result<Reply, Failure> {
    let request: Request = call.input()?;
    let mut answer = api
        .backend
        .send_request(&call.pool()?, request, &mut |_| ())?;
    api.sampler.exclude_unable_heads(&mut answer);
    Reply::of(bare(answer))
}

/// The content of a reply.
fn bare(answer: Answer) -> Value {
    match serde_json::to_value(answer) {
        Ok(Value::Object(object)) => object.into_iter().next().map_or(json!(null), |(_, v)| v),
        other => other.unwrap_or_default(),
    }
}

#[cfg(test)]
#[path = "handlers_tests.rs"]
mod tests;
