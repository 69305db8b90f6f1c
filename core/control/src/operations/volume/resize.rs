//! `volume resize`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::operations::{
    Example, Examples, Operation, PoolSelector, Preview, Scheduling, Verb, bytes,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples =
    Examples::of(&[Example::of("bulkhead volume resize tank/vm0 --size 20G")]);

/// Change a volume's size; connected clients are notified
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumeResize")]
#[command(after_help = EXAMPLES)]
pub struct Resize {
    /// The volume
    #[arg(id = "volume", value_name = "VOLUME")]
    pub name: VolumeName,
    /// The new size, such as 20G
    #[arg(long, value_parser = bytes)]
    pub size: u64,
    /// Data beyond the new size may be lost
    #[arg(long)]
    pub allow_shrink: bool,
    /// Preview options.
    #[serde(flatten)]
    #[command(flatten)]
    pub preview: Preview,
}

impl Operation for Resize {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name,
            size: _,
            allow_shrink,
            preview,
        } = self;
        match (preview.is_wanted(), allow_shrink) {
            (true, _) => Effect::Look,
            (false, true) => Effect::Destroy(vec![name.to_string()]),
            (false, false) => Effect::Change,
        }
    }

    fn scheduling(&self) -> Scheduling {
        self.preview.scheduling()
    }

    fn is_preview(&self) -> bool {
        self.preview.is_wanted()
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

impl Verb for Resize {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        Ok((PoolSelector::Pool(arguments.name.pool()), arguments))
    }
}
