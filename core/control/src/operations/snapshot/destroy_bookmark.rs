//! `snapshot destroy-bookmark`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::operations::{Example, Examples, Operation, PoolSelector, Verb};
use crate::{Effect, Failure};

const EXAMPLES: Examples =
    Examples::of(&[
        Example::of("bulkhead snapshot destroy-bookmark tank/vm0#sent")
            .prepared_by(&["bulkhead snapshot bookmark tank/vm0@monday sent"])
            .undone_by(&["bulkhead snapshot destroy-bookmark tank/vm0#sent"]),
    ]);

/// Destroy a bookmark
///
/// No data is lost. A later send cannot start from the bookmark any more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SnapshotDestroyBookmark")]
pub struct DestroyBookmark {
    /// The volume or file system.
    pub volume: VolumeName,
    /// The bookmark's name, without the volume's.
    pub mark: String,
}

impl Operation for DestroyBookmark {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { volume: _, mark: _ } = self;
        Effect::Govern
    }

    fn details(&self) -> Option<String> {
        Some(format!("{}#{}", self.volume, self.mark))
    }
}

/// Destroy a bookmark
///
/// No data is lost. A later send cannot start from the bookmark any more.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The bookmark, as POOL/NAME#MARK
    bookmark: String,
}

impl Verb for DestroyBookmark {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let Arguments { bookmark } = arguments;
        let Some((volume, mark)) = bookmark
            .split_once('#')
            .filter(|(_, mark)| !mark.is_empty())
        else {
            let message = format!("`{bookmark}` is no bookmark: write POOL/NAME#MARK");
            return Err(Failure::usage(message));
        };
        let volume = volume.parse::<VolumeName>();
        let volume = volume.map_err(|error| Failure::usage(error.to_string()))?;
        let mark = mark.to_owned();
        Ok((PoolSelector::Pool(volume.pool()), Self { volume, mark }))
    }
}
