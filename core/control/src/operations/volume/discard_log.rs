//! `volume discard-log`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::operations::preview::previewed;
use crate::operations::{
    Confirmable, Confirmed, Example, Examples, Operation, PoolSelector, Preview, Scheduling, Verb,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[Example::of(
    "bulkhead volume discard-log tank/vm0 --yes-lose-acknowledged-writes",
)]);

/// Discard the acknowledged writes of a log that cannot be replayed
///
/// A volume with an intent log that cannot be replayed completely is not served, and its log is retained: repair the
/// devices first. This is for devices that are permanently lost. The writes in the log were acknowledged as durable,
/// and are lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumeDiscardLog")]
#[command(after_help = EXAMPLES)]
pub struct DiscardLog {
    /// The volume
    #[arg(id = "volume", value_name = "VOLUME")]
    pub name: VolumeName,
    /// Preview options.
    #[serde(flatten)]
    #[command(flatten)]
    pub preview: Preview,
}

impl Operation for DiscardLog {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { name, preview } = self;
        match preview.is_wanted() {
            true => Effect::Look,
            false => Effect::Destroy(vec![name.to_string()]),
        }
    }

    fn scheduling(&self) -> Scheduling {
        self.preview.scheduling()
    }

    fn is_preview(&self) -> bool {
        self.preview.is_wanted()
    }
}

previewed!(DiscardLog);

impl Confirmable for DiscardLog {
    const OPTION: &'static str = "yes-lose-acknowledged-writes";
    const HELP: &'static str = "Yes, acknowledged writes shall be lost";

    fn loss(&self) -> String {
        format!(
            "the last acknowledged writes to {} would be lost",
            self.name
        )
    }
}

impl Verb for DiscardLog {
    type Arguments = Confirmed<Self>;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Confirmed<Self>) -> Result<(PoolSelector, Self), Failure> {
        let discard = arguments.or_refuse();
        Ok((PoolSelector::Pool(discard.name.pool()), discard))
    }
}
