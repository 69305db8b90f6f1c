//! `portal remove`

use clap::Args;
use protocol_list::{Place, Places, PlacesOfNames};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::Change;
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

/// Stop listening at these addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PortalRemove")]
pub struct Remove {
    /// The addresses, by protocol. Groups are omitted.
    #[serde(flatten)]
    #[schemars(with = "PlacesOfNames")]
    pub places: Places,
    /// Even though clients are connected through them: their sessions are closed.
    #[serde(default)]
    pub in_use: bool,
}

impl Operation for Remove {
    /// It decides from which networks the server can be reached.
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            places: _,
            in_use: _,
        } = self;
        Effect::Govern
    }

    fn writes_to_the_pool(&self) -> bool {
        false
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead portal remove tank --iscsi 10.1.0.1:3260")
        .elsewhere("needs a server: tests/cluster/portals.rs"),
    Example::of("bulkhead portal remove tank --nbd 10.1.0.1:10809 --in-use")
        .elsewhere("needs a server: tests/cluster/portals.rs"),
])
.with_note(
    "The next start of the server goes by its own options: take the address out there, too.",
);

/// Remove a portal of a pool's running server; the remaining ones are not interrupted
#[derive(Debug, Args)]
#[command(visible_alias = "rm", after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    change: Change,
}

impl Verb for Remove {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/portals/remove",
        "Serve the pool at these addresses no more",
        schema_of::<Done>,
        Least::Govern,
    )
    .with(&[("in_use", Source::Default("false"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Change {
            pool,
            places,
            in_use,
        } = arguments.change;
        let mut places = places.listen_addresses();
        for listed in places.0.values_mut() {
            let names = std::mem::take(listed).into_iter();
            *listed = names.map(Place::without_group).collect();
        }
        Ok((pool.into(), Self { places, in_use }))
    }
}
