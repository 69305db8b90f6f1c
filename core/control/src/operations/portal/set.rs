//! `portal set`

use clap::Args;
use protocol_list::Places;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::Change;
use crate::operations::{Example, Examples, Operation, PoolSelector, Verb};
use crate::{Effect, Failure};

/// Listen at exactly these addresses. Some may become available later, with a takeover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PortalSet")]
pub struct Set {
    /// The addresses, by protocol.
    #[serde(flatten)]
    pub places: Places,
    /// Even though clients are connected through a removed portal: their sessions are closed.
    #[serde(default)]
    pub in_use: bool,
}

impl Operation for Set {
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

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead portal set tank --iscsi 10.0.0.1:3260,1 --iscsi 10.1.0.1:3260,2 --nbd 10.0.0.1:10809",
)
.elsewhere("needs a server: tests/cluster/portals.rs")])
.with_note("`bulkhead appliance apply` does this where a pool is served.");

/// Replace the portals of a pool's running server by these, even at addresses that this host does
/// not have yet
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    change: Change,
}

impl Verb for Set {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Change {
            pool,
            places,
            in_use,
        } = arguments.change;
        let places = places.listen_addresses();
        Ok((pool.into(), Self { places, in_use }))
    }
}
