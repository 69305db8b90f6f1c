//! The table of routes: every resource with its method, role, input and output. Common requests to a pool have readable
//! paths, which become control requests; every control request is available through `/pools/{pool}/requests`.

use std::sync::LazyLock;

use appliance::CheckReport;
use control::answer::Done;
use control::operations::target::Who;
use control::operations::{SchemaOf, schema_of as of};
use control::{Answer, Failure};
use schemars::Schema;
use schemars::generate::SchemaGenerator;
use serde_json::Value;

use crate::Api;
use crate::accounts::{TokenView, UserView};
use crate::audit::Entry;
use crate::backend::{ApplianceInput, DrillInput};
use crate::call::{Call, Reply};
use crate::fill::GrowthView;
use crate::handlers as h;
use crate::notifications as n;
use crate::openapi;
use crate::role::Role;
use crate::route::Input::{Nothing, Strictly, Type};
use crate::route::{
    APPLIANCE_BYTES_MAX, LISTS_BYTES_MAX, Route, UNAUTHENTICATED_BYTES_MAX, Work, head, strictly,
};
use crate::view::{
    ApplianceFile, DiskView, DrillView, DropsView, Operation, Overview, Planned, PoolFound,
    PowerView, ReceiverTest, ReceiverView, Said, SentMessage,
};

/// A response: the result, or the operation that performs the request.
fn response_or_operation(generator: &mut SchemaGenerator) -> Schema {
    let answer = generator.subschema_for::<Answer>();
    let operation = generator.subschema_for::<Operation>();
    schemars::json_schema!({"anyOf": [answer, operation]})
}

/// An empty response.
pub fn nothing(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({"type": "null"})
}

const DONE: SchemaOf = of::<Done>;
const LOOK: Option<Role> = Some(Role::ReadOnly);
const WORK: Option<Role> = Some(Role::Operator);
const ALL: Option<Role> = Some(Role::Admin);

/// All routes.
pub static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let mut routes = others();
    let of_operations = control::Request::routes().into_iter();
    routes.extend(of_operations.map(|(verb, route)| Route::of_operation(verb, route)));
    routes
});

/// The OpenAPI document of all routes.
pub fn openapi_document() -> Value {
    openapi::document(&ROUTES)
}

fn document(_: &Api, _: &Call) -> Result<Reply, Failure> {
    Reply::of(openapi_document())
}

/// The routes that are not the definition of an operation.
#[rustfmt::skip]
fn others() -> Vec<Route> {
    vec![
    // Callers.
    head("POST", "/login", "Begin a session", Strictly(of::<h::Login>, strictly::<h::Login>), of::<h::SessionView>, None, h::log_in).taking(UNAUTHENTICATED_BYTES_MAX),
    head("GET", "/session", "The session of the cookie", Nothing, of::<h::SessionView>, None, h::session),
    head("POST", "/logout", "End the session", Nothing, nothing, LOOK, h::log_out).answering(204),
    head("GET", "/openapi.json", "This document", Nothing, of::<Value>, None, document),
    head("GET", "/users", "All users", Nothing, of::<Vec<UserView>>, ALL, h::users),
    head("POST", "/users", "Add a user", Type(of::<h::NewUser>), of::<UserView>, ALL, h::add_user).answering(201).users_only(),
    head("PATCH", "/users/{user}", "Change a user's role or password", Type(of::<h::UserChange>), of::<UserView>, LOOK, h::change_user).users_only(),
    head("DELETE", "/users/{user}", "Remove a user", Nothing, nothing, ALL, h::remove_user).answering(204).users_only(),
    head("GET", "/tokens", "Your tokens; an admin sees all", Nothing, of::<Vec<TokenView>>, LOOK, h::tokens),
    head("POST", "/tokens", "Make a token; it is shown once", Type(of::<h::NewToken>), of::<TokenView>, LOOK, h::add_token).answering(201).users_only(),
    head("DELETE", "/tokens/{token}", "Revoke a token", Nothing, nothing, LOOK, h::revoke_token).answering(204).users_only(),
    head("GET", "/audit", "The audit log, the newest entry first", Nothing, of::<Vec<Entry>>, ALL, h::audit),
    // The overview.
    head("GET", "/overview", "The overview", Nothing, of::<Overview>, LOOK, h::overview),
    Route { method: "GET", path: "/stream", about: "Changes as they happen (server-sent events)", input: Nothing, output: nothing, status: 200, work: Work::Stream, wants_person: false, body_bytes_max: 0, example: None },
    head("GET", "/alerts/receivers", "The receivers of messages about alerts, with the last results", Nothing, of::<Vec<ReceiverView>>, LOOK, n::receivers),
    head("GET", "/alerts/history", "The last messages about alerts that this head has sent, the newest first", Nothing, of::<Vec<SentMessage>>, LOOK, n::history),
    head("POST", "/alerts/test", "Send a test message to one receiver of alerts, or to all", Type(of::<n::AlertTest>), of::<Vec<ReceiverTest>>, WORK, n::test),
    head("GET", "/disks", "Whole disks of this head", Nothing, of::<Vec<DiskView>>, LOOK, h::disks),
    head("POST", "/disks/locate", "Switch the locate light of a disk's slot on this head", Type(of::<h::Locate>), DONE, WORK, h::locate),
    head("GET", "/drops", "The packets that this head lost in the last interval, by interface, queue, reason and peer; a request starts the next measurement", Nothing, of::<DropsView>, LOOK, h::drops),
    head("GET", "/power", "The power supplies of the appliance file, as this head reads them; an empty list of `feeds` if it lists none", Nothing, of::<PowerView>, LOOK, h::power),
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
    head("POST", "/pools/{pool}/requests", "Send any control request to the pool; the role depends on the request", Type(of::<h::Question>), response_or_operation, LOOK, h::request).taking(LISTS_BYTES_MAX),
    head("GET", "/pools/{pool}/growth", "The fill of the pool by day, and when it will be full; the query `days` is the number of days, 90 by default", Nothing, of::<GrowthView>, LOOK, h::pool_growth),
    head("PATCH", "/pools/{pool}/volumes/{volume}", "Resize, rename or set properties; with `allow_shrink` the name confirms", Type(of::<h::VolumeChange>), DONE, WORK, h::change_volume),
    head("PATCH", "/pools/{pool}/filesystems/{filesystem}", "Rename, or set properties; `sharenfs` needs an administrator", Type(of::<h::FilesystemChange>), DONE, WORK, h::change_filesystem),
    // iSCSI.
    head("POST", "/pools/{pool}/targets/{target}/allow", "Allow initiators", Type(of::<Who>), DONE, WORK, h::allow),
    head("POST", "/pools/{pool}/targets/{target}/deny", "Deny initiators", Type(of::<Who>), DONE, WORK, h::deny),
    ]
}
