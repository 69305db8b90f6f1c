//! The HTTP resources of operations.

use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema};

/// Generates the schema of a type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The schema of `T`.
pub fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// An HTTP method on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Changes; has a body.
    Post,
    /// Removes.
    Delete,
}

/// The least effect of an operation, whatever its arguments are: roles below it are refused before the arguments are
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    /// Nothing changes.
    Look,
    /// Daily work.
    Change,
    /// Changes access rights, or how long data is retained; or destroys data.
    Govern,
}

/// The source of a member of a request, other than the body.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// `POOL/{volume}`.
    Volume,
    /// `POOL/{filesystem}`.
    Filesystem,
    /// `POOL/{snapshot}`.
    Snapshot,
    /// A list of one.
    Snapshots,
    /// `{target}`.
    Target,
    /// The query, or else this JSON.
    Query(&'static str),
    /// The body, or else this JSON.
    Default(&'static str),
    /// This JSON, whatever is sent.
    Always(&'static str),
}

/// One resource and one method on it.
#[derive(Clone, Copy)]
pub struct Route {
    /// How.
    pub method: Method,
    /// Below `/api/v1`.
    pub path: &'static str,
    /// A description of one line.
    pub about: &'static str,
    /// The response on success.
    pub answer: SchemaOf,
    /// The role that it needs at least.
    pub least: Least,
    /// Members from sources other than the body.
    pub members: &'static [(&'static str, Source)],
    /// Whether the body may be long: a list of snapshots or devices.
    pub has_lists: bool,
    /// An example of the body, as JSON; none where the body may be empty.
    pub body: Option<&'static str>,
}

impl Route {
    const fn new(
        method: Method,
        path: &'static str,
        about: &'static str,
        answer: SchemaOf,
        least: Least,
    ) -> Self {
        Self {
            method,
            path,
            about,
            answer,
            least,
            members: &[],
            has_lists: false,
            body: None,
        }
    }

    /// Returns a method that reads.
    pub const fn get(path: &'static str, about: &'static str, answer: SchemaOf) -> Self {
        Self::new(Method::Get, path, about, answer, Least::Look)
    }

    /// One that changes.
    pub const fn post(
        path: &'static str,
        about: &'static str,
        answer: SchemaOf,
        least: Least,
    ) -> Self {
        Self::new(Method::Post, path, about, answer, least)
    }

    /// One that removes.
    pub const fn delete(
        path: &'static str,
        about: &'static str,
        answer: SchemaOf,
        least: Least,
    ) -> Self {
        Self::new(Method::Delete, path, about, answer, least)
    }

    /// Returns it with members from sources other than the body.
    pub const fn with(mut self, members: &'static [(&'static str, Source)]) -> Self {
        self.members = members;
        self
    }

    /// Returns it with an example of the body, as JSON.
    pub const fn body(mut self, json: &'static str) -> Self {
        self.body = Some(json);
        self
    }

    /// With lists in the body.
    pub const fn with_lists(mut self) -> Self {
        self.has_lists = true;
        self
    }
}
