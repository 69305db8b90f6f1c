//! A request as its handler receives it, with the rights of its caller, and the reply of a handler.

use std::collections::BTreeMap;
use std::net::IpAddr;

use control::operations::Source;
use control::{Effect, Failure, FailureKind, Request as PoolRequest};
use serde_json::{Map, Value, json};
use units::PoolName;

use crate::caller::{By, Caller};
use crate::role::{Role, confirmation, role_of};

/// A request as passed to handlers.
pub(crate) struct Call {
    /// The caller; `None` is possible on public routes.
    pub(crate) caller: Option<Caller>,
    /// The client's address.
    pub(crate) from: IpAddr,
    /// The parameters in the path.
    pub(crate) path: BTreeMap<String, String>,
    /// The parameters after the `?`.
    pub(crate) query: BTreeMap<String, String>,
    /// The body.
    pub(crate) body: Value,
    /// Whether cookies are marked for encrypted connections only.
    pub(crate) is_encrypted: bool,
    /// The cookie, valid or not.
    pub(crate) cookie: Option<String>,
}

impl Call {
    /// Returns the pool in the path.
    pub(crate) fn pool(&self) -> Result<PoolName, Failure> {
        self.named("pool")?
            .parse()
            .map_err(|error: units::NameError| Failure::usage(error.to_string()))
    }

    /// Returns a parameter in the path.
    pub(crate) fn named(&self, name: &str) -> Result<&str, Failure> {
        let found = self.path.get(name).map(String::as_str);
        found.ok_or_else(|| Failure::usage(format!("the path names no {name}")))
    }

    /// Deserializes the body.
    pub(crate) fn input<T: serde::de::DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_value(self.body.clone())
            .map_err(|error| Failure::usage(format!("the body cannot be parsed: {error}")))
    }

    /// Returns the caller, on routes that require one.
    pub(crate) fn caller(&self) -> Result<&Caller, Failure> {
        self.caller
            .as_ref()
            .ok_or_else(|| Failure::new(FailureKind::Denied, "log in first"))
    }

    /// Restricts the request to the caller's rights: settings reserved for an admin stay unchanged.
    pub(crate) fn within_rights(&self, request: PoolRequest) -> PoolRequest {
        match &self.caller {
            Some(caller) if caller.role >= Role::Admin => request,
            _ => request.without_rights_change(),
        }
    }

    /// Builds the control request of a route's `verb` and `members` from this call.
    pub(crate) fn request(
        &self,
        verb: &str,
        members: &[(&'static str, Source)],
    ) -> Result<Value, Failure> {
        let mut arguments = match &self.body {
            Value::Object(body) => body.clone(),
            Value::Null => Map::new(),
            _ => return Err(Failure::usage("the body must be a JSON object")),
        };
        for (member, source) in members {
            let value = match source {
                Source::Volume => json!(self.dataset("volume")?),
                Source::Filesystem => json!(self.dataset("filesystem")?),
                Source::Snapshot => json!(self.dataset("snapshot")?),
                Source::Snapshots => json!([self.dataset("snapshot")?]),
                Source::Target => json!(self.named("target")?),
                Source::Query(missing) => match self.query.get(*member) {
                    Some(text) => plain(text),
                    None => literal(missing),
                },
                Source::Always(value) => literal(value),
                Source::Default(missing) => match arguments.get(*member) {
                    Some(_) => continue,
                    None => literal(missing),
                },
            };
            arguments.insert((*member).to_owned(), value);
        }
        let mut words = verb.rsplit('.');
        let last = words.next().unwrap_or(verb);
        let innermost = match arguments.is_empty() {
            true => json!(last),
            false => json!({last: arguments}),
        };
        Ok(words.fold(innermost, |inner, noun| json!({noun: inner})))
    }

    fn dataset(&self, name: &str) -> Result<String, Failure> {
        Ok(format!("{}/{}", self.named("pool")?, self.named(name)?))
    }
}

/// A JSON literal in the table of routes.
pub(crate) fn literal(json: &str) -> Value {
    serde_json::from_str(json).expect("the table has JSON")
}

/// Parses a query value: numbers and booleans as such, anything else as text.
fn plain(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Bool(_) | Value::Number(_))) => value,
        _ => json!(text),
    }
}

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

/// Fails unless the caller has the role.
pub(crate) fn allow(caller: Option<&Caller>, role: Role) -> Result<(), Failure> {
    match caller {
        Some(caller) if caller.role >= role => Ok(()),
        Some(caller) => Err(Failure::new(
            FailureKind::Denied,
            format!("{} is {}, and this needs {role}", caller.user, caller.role),
        )
        .advise(format!("it needs a user with the role {role}"))),
        None => Err(Failure::new(FailureKind::Denied, "log in first")),
    }
}

/// Fails unless the caller is a user in a session.
pub(crate) fn person(caller: Option<&Caller>) -> Result<(), Failure> {
    match caller.map(|caller| &caller.by) {
        Some(By::Session(_)) => Ok(()),
        _ => Err(Failure::new(
            FailureKind::Denied,
            "users and tokens are not managed with a token",
        )
        .advise(
            "log in with the password, or run `bulkhead user` or `bulkhead token` on the head",
        )),
    }
}

/// Fails unless the caller may cause this effect, or if data would be destroyed without its name as confirmation.
pub(crate) fn may(call: &Call, effect: &Effect, given: Option<&String>) -> Result<(), Failure> {
    allow(call.caller.as_ref(), role_of(effect))?;
    match confirmation(effect) {
        Some(wanted) if given != Some(&wanted) => Err(Failure::new(
            FailureKind::NeedsConfirmation,
            format!("this destroys the data in {wanted}"),
        )
        .advise(format!("to confirm, set `confirm` to \"{wanted}\""))),
        _ => Ok(()),
    }
}
