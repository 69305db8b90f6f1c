//! `portal add`

use clap::Args;
use protocol_list::Places;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::Listed;
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolArgument, PoolSelector, Route, Source, Verb, schema_of,
};
use crate::{Effect, Failure};

/// Listen at these further addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PortalAdd")]
pub struct Add {
    /// The addresses, by protocol; port 0 selects a free one.
    #[serde(flatten)]
    pub places: Places,
    /// Also at addresses that this host does not have yet.
    #[serde(default)]
    pub may_come: bool,
}

impl Operation for Add {
    /// It decides from which networks the server can be reached.
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            places: _,
            may_come: _,
        } = self;
        Effect::Govern
    }

    fn writes_to_the_pool(&self) -> bool {
        false
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead portal add tank --iscsi 10.1.0.1:3260,2")
        .elsewhere("needs a server: tests/cluster/portals.rs"),
    Example::of("bulkhead portal add tank --nbd 10.1.0.1:10809 --nbd unix:/run/tank.nbd")
        .elsewhere("needs a server: tests/cluster/portals.rs"),
])
.with_note(
    "The next start of the server goes by its own options: add the address there, too. On a
pair the addresses stand in the appliance file, and `bulkhead appliance apply` tells the running servers.",
);

/// Serve a pool at a further address, as long as its server runs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    pool: PoolArgument,
    #[command(flatten)]
    places: Listed,
    /// Also at an address that this host does not have yet
    #[arg(long)]
    may_come: bool,
}

impl Verb for Add {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/portals/add",
        "Serve the pool at further addresses, until its server exits",
        schema_of::<Done>,
        Least::Govern,
    )
    .with(&[("may_come", Source::Default("false"))])];

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let places = arguments.places.listen_addresses();
        let may_come = arguments.may_come;
        Ok((arguments.pool.into(), Self { places, may_come }))
    }
}
