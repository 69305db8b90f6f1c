//! A route: one resource with one method, its role, its input, its output and its implementation.

use control::Failure;
use control::operations::{Least, Method, SchemaOf, Source};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Api;
use crate::call::{Call, Reply};
use crate::role::Role;

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
pub const UNAUTHENTICATED_BYTES_MAX: usize = 4 << 10;
/// Longest body of most requests, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Longest body with a list of snapshots or devices, in bytes.
pub const LISTS_BYTES_MAX: usize = 256 << 10;
/// Longest appliance file as JSON, in bytes.
pub const APPLIANCE_BYTES_MAX: usize = 2 << 20;

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

/// A resource of a handler on this head.
pub const fn head(
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
    pub fn of_operation(verb: &'static str, route: &control::operations::Route) -> Self {
        let role = match route.least {
            Least::Look => Role::ReadOnly,
            Least::Change => Role::Operator,
            Least::Govern => Role::Admin,
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
    pub fn is_control_request(&self) -> bool {
        self.path.ends_with("/requests")
    }

    /// With this status of a success.
    pub const fn answering(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// With bodies of at most that many bytes.
    pub const fn taking(mut self, bytes_max: usize) -> Self {
        self.body_bytes_max = bytes_max;
        self
    }

    /// For users in sessions only.
    pub const fn users_only(mut self) -> Self {
        self.wants_person = true;
        self
    }
}
