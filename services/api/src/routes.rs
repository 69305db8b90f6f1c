//! The table of routes: every resource with its method, role, input and output. Common requests to a pool have readable
//! paths, which become control requests; every control request is available through `/pools/{pool}/requests`.

use std::sync::LazyLock;

use appliance::CheckReport;
use control::answer::Done;
use control::operations::target::Who;
use control::operations::{Least, Method, schema_of as of};
use control::{Answer, Failure};
use schemars::Schema;
use schemars::generate::SchemaGenerator;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use control::operations::{SchemaOf, Source};

use crate::Api;
use crate::accounts::{TokenView, UserView};
use crate::audit::Entry;
use crate::backend::{ApplianceInput, DrillInput};
use crate::dispatch::Call;
use crate::handlers as h;
use crate::role::Role;
use crate::view::{
    ApplianceFile, DiskView, DrillView, Operation, Overview, Planned, PoolFound, Said,
};

/// One resource with one method.
pub struct Route {
    /// `GET`, `POST`, `PATCH` or `DELETE`.
    pub method: &'static str,
    /// Below `/api/v1`.
    pub path: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// The type of the body.
    pub input: Input,
    /// The type of the response.
    pub output: SchemaOf,
    /// The status of a success.
    pub status: u16,
    /// The implementation.
    pub work: Work,
    /// Only for users in sessions: with a leaked token, no attacker may create credentials that outlive or exceed it.
    pub wants_person: bool,
    /// Longest body, in bytes.
    pub body_bytes_max: usize,
    /// An example of the body, as JSON.
    pub example: Option<&'static str>,
}

/// The type of a request's body.
pub enum Input {
    /// No body.
    Nothing,
    /// The members of the control request that are not in the path.
    Members,
    /// This type.
    Type(SchemaOf),
    /// This type, deserialized directly from the bytes, because the sender is not identified yet.
    Strictly(SchemaOf, Reader),
}

/// Reads a body.
pub type Reader = fn(&[u8]) -> serde_json::Result<Value>;

/// Deserializes a body strictly of this type.
pub fn strictly<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_slice::<T>(bytes)?)
}

/// Longest body from an unidentified client, in bytes.
pub const STRANGERS_BYTES_MAX: usize = 4 << 10;
/// Longest body of most requests, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Longest body with a list of snapshots or devices, in bytes.
const LISTS_BYTES_MAX: usize = 256 << 10;
/// Longest appliance file as JSON, in bytes.
const APPLIANCE_BYTES_MAX: usize = 2 << 20;

/// The implementation of a route.
pub enum Work {
    /// A control request to the pool, such as `volume.create`, with members from the path, the query and the body.
    /// Callers with the role may send it; some arguments need a higher role.
    Ask(Role, &'static str, &'static [(&'static str, Source)]),
    /// A handler on this head, for callers with the role; `None` for public routes.
    Do(Option<Role>, Handler),
    /// The stream of changes.
    Stream,
}

/// A handler, on a thread that may block.
pub type Handler = fn(&Api, &Call) -> Result<Reply, Failure>;

/// A success.
#[derive(Debug, Default)]
pub struct Reply {
    /// The document; none for `Null`.
    pub body: Value,
    /// A cookie to set.
    pub cookie: Option<String>,
}

impl Reply {
    /// A response with `value` as its document.
    pub fn of(value: impl serde::Serialize) -> Result<Self, Failure> {
        Ok(Self {
            body: serde_json::to_value(value).expect("answers are JSON"),
            cookie: None,
        })
    }
}

const fn ask(
    method: &'static str,
    path: &'static str,
    about: &'static str,
    output: SchemaOf,
    role: Role,
    verb: &'static str,
    members: &'static [(&'static str, Source)],
) -> Route {
    // A body on GET and DELETE has no meaning.
    let input = match method.as_bytes()[0] {
        b'P' => Input::Members,
        _ => Input::Nothing,
    };
    Route {
        method,
        path,
        about,
        input,
        output,
        status: 200,
        work: Work::Ask(role, verb, members),
        wants_person: false,
        body_bytes_max: BODY_BYTES_MAX,
        example: None,
    }
}

const fn head(
    method: &'static str,
    path: &'static str,
    about: &'static str,
    input: Input,
    output: SchemaOf,
    role: Option<Role>,
    handler: Handler,
) -> Route {
    Route {
        method,
        path,
        about,
        input,
        output,
        status: 200,
        work: Work::Do(role, handler),
        wants_person: false,
        body_bytes_max: BODY_BYTES_MAX,
        example: None,
    }
}

impl Route {
    /// The resource of an operation on a pool.
    fn of_operation(verb: &'static str, route: &control::operations::Route) -> Self {
        let role = match route.least {
            Least::Look => READ,
            Least::Change => DAILY,
            Least::Govern => ADMIN,
        };
        let method = match route.method {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        };
        let mut own = ask(
            method,
            route.path,
            route.about,
            route.answer,
            role,
            verb,
            route.members,
        );
        own.example = route.body;
        match route.has_lists {
            true => own.taking(LISTS_BYTES_MAX),
            false => own,
        }
    }

    /// Whether it is a login or logout.
    pub fn is_access(&self) -> bool {
        matches!(self.path, "/login" | "/logout")
    }

    /// Whether the body contains the control request.
    pub fn asks_anything(&self) -> bool {
        self.path.ends_with("/requests")
    }

    const fn answering(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    const fn taking(mut self, bytes_max: usize) -> Self {
        self.body_bytes_max = bytes_max;
        self
    }

    const fn by_a_person(mut self) -> Self {
        self.wants_person = true;
        self
    }
}

/// A response: the result, or the operation that performs the request.
fn answer_or_operation(generator: &mut SchemaGenerator) -> Schema {
    let answer = generator.subschema_for::<Answer>();
    let operation = generator.subschema_for::<Operation>();
    schemars::json_schema!({"anyOf": [answer, operation]})
}

/// An empty response.
pub fn nothing(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "null"})
}

const DONE: SchemaOf = of::<Done>;
const READ: Role = Role::ReadOnly;
const DAILY: Role = Role::Operator;
const ADMIN: Role = Role::Admin;
const LOOK: Option<Role> = Some(READ);
const WORK: Option<Role> = Some(DAILY);
const ALL: Option<Role> = Some(ADMIN);

use Input::{Nothing, Strictly, Type};

/// All routes.
pub static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let mut routes = others();
    let of_operations = control::Request::routes().into_iter();
    routes.extend(of_operations.map(|(verb, route)| Route::of_operation(verb, route)));
    routes
});

/// The routes that are not the definition of an operation.
#[rustfmt::skip]
fn others() -> Vec<Route> {
    vec![
    // Callers.
    head("POST", "/login", "Begin a session", Strictly(of::<h::Login>, strictly::<h::Login>), of::<h::SessionView>, None, h::log_in).taking(STRANGERS_BYTES_MAX),
    head("GET", "/session", "The session of the cookie", Nothing, of::<h::SessionView>, None, h::session),
    head("POST", "/logout", "End the session", Nothing, nothing, LOOK, h::log_out).answering(204),
    head("GET", "/openapi.json", "This document", Nothing, of::<Value>, None, h::openapi),
    head("GET", "/users", "All users", Nothing, of::<Vec<UserView>>, ALL, h::users),
    head("POST", "/users", "Add a user", Type(of::<h::NewUser>), of::<UserView>, ALL, h::add_user).answering(201).by_a_person(),
    head("PATCH", "/users/{user}", "Change a user's role or password", Type(of::<h::UserChange>), of::<UserView>, LOOK, h::change_user).by_a_person(),
    head("DELETE", "/users/{user}", "Remove a user", Nothing, nothing, ALL, h::remove_user).answering(204).by_a_person(),
    head("GET", "/tokens", "Your tokens; an admin sees all", Nothing, of::<Vec<TokenView>>, LOOK, h::tokens),
    head("POST", "/tokens", "Make a token; it is shown once", Type(of::<h::NewToken>), of::<TokenView>, LOOK, h::add_token).answering(201).by_a_person(),
    head("DELETE", "/tokens/{token}", "Revoke a token", Nothing, nothing, LOOK, h::revoke_token).answering(204).by_a_person(),
    head("GET", "/audit", "The audit log, the newest entry first", Nothing, of::<Vec<Entry>>, ALL, h::audit),
    // The overview.
    head("GET", "/overview", "The overview", Nothing, of::<Overview>, LOOK, h::overview),
    Route { method: "GET", path: "/stream", about: "Changes as they happen (server-sent events)", input: Nothing, output: nothing, status: 200, work: Work::Stream, wants_person: false, body_bytes_max: 0, example: None },
    head("GET", "/disks", "Whole disks of this head", Nothing, of::<Vec<DiskView>>, LOOK, h::disks),
    head("GET", "/operations", "Background operations, the newest first", Nothing, of::<Vec<Operation>>, LOOK, h::operations),
    head("GET", "/operations/{operation}", "One operation", Nothing, of::<Operation>, LOOK, h::operation),
    head("DELETE", "/operations/{operation}", "Cancel a drill", Nothing, nothing, WORK, h::cancel).answering(204),
    // The appliance.
    head("GET", "/appliance", "The appliance file", Nothing, of::<ApplianceFile>, LOOK, h::appliance),
    head("GET", "/appliance/schema", "The JSON schema of the appliance file", Nothing, of::<Value>, LOOK, h::appliance_schema),
    head("POST", "/appliance/check", "Find mistakes in an appliance file", Type(of::<ApplianceInput>), of::<Said<CheckReport>>, ALL, h::appliance_check).taking(APPLIANCE_BYTES_MAX),
    head("POST", "/appliance/plan", "The difference between an appliance file and the heads", Type(of::<ApplianceInput>), of::<Planned>, ALL, h::appliance_plan).taking(APPLIANCE_BYTES_MAX),
    head("POST", "/appliance/apply", "Make the heads match an appliance file", Type(of::<ApplianceInput>), of::<Operation>, ALL, h::appliance_apply).answering(202).taking(APPLIANCE_BYTES_MAX),
    head("GET", "/drills", "The available drills", Nothing, of::<Vec<DrillView>>, LOOK, h::drills),
    head("POST", "/drills", "Run drills in a lab on this head", Type(of::<DrillInput>), of::<Operation>, WORK, h::drill).answering(202),
    // Pools.
    head("GET", "/pools", "Pools that are served or can be found", Nothing, of::<Vec<PoolFound>>, LOOK, h::pools),
    head("POST", "/pools", "Make a pool; with `overwrite` the paths of its devices confirm", Type(of::<h::NewPool>), DONE, ALL, h::create_pool).taking(LISTS_BYTES_MAX),
    head("POST", "/pools/{pool}/serve", "Start the pool's server here", Nothing, DONE, ALL, h::serve_pool),
    head("POST", "/pools/{pool}/move", "Hand the pool over to another head", Type(of::<h::Move>), of::<Operation>, WORK, h::move_pool).answering(202),
    head("POST", "/pools/{pool}/requests", "Send any control request to the pool; the role depends on the request", Type(of::<h::Question>), answer_or_operation, LOOK, h::request).taking(LISTS_BYTES_MAX),
    head("PATCH", "/pools/{pool}/volumes/{volume}", "Resize, rename or set properties; with `allow_shrink` the name confirms", Type(of::<h::VolumeChange>), DONE, WORK, h::change_volume),
    head("PATCH", "/pools/{pool}/filesystems/{filesystem}", "Rename, or set properties; `sharenfs` needs an administrator", Type(of::<h::FilesystemChange>), DONE, WORK, h::change_filesystem),
    // To another appliance.
    // iSCSI.
    head("POST", "/pools/{pool}/targets/{target}/allow", "Allow initiators", Type(of::<Who>), DONE, WORK, h::allow),
    head("POST", "/pools/{pool}/targets/{target}/deny", "Deny initiators", Type(of::<Who>), DONE, WORK, h::deny),
    ]
}
