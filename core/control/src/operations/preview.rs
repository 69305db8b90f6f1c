//! The options by which a request that destroys data lists the affected objects, and changes nothing.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Scheduling;

/// Whether a request only lists the objects that it would destroy.
///
/// An older server would ignore these members and destroy. So a request with one of them is sent with
/// [`PREVIEW_VERSION`](crate::frame::PREVIEW_VERSION), which such a server refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Args)]
pub struct Preview {
    /// Show the objects that would be destroyed, and change nothing
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[arg(long)]
    pub dry_run: bool,
    /// Refuse, with the list of objects that would be destroyed: nothing was confirmed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[arg(skip)]
    pub ask: bool,
}

impl Preview {
    /// Whether nothing is changed.
    pub fn is_wanted(self) -> bool {
        self.dry_run || self.ask
    }

    /// Returns the turn of a request with these options, which would change the pool without them.
    pub fn scheduling(self) -> Scheduling {
        match self.is_wanted() {
            true => Scheduling::ReadOnly,
            false => Scheduling::Serialized,
        }
    }
}

/// Arguments with these options.
pub trait Previewed {
    /// The options.
    fn preview(&mut self) -> &mut Preview;
}

/// Implements [`Previewed`] for arguments with a field `preview`.
macro_rules! previewed {
    ($arguments:ty) => {
        impl $crate::operations::Previewed for $arguments {
            fn preview(&mut self) -> &mut $crate::operations::Preview {
                &mut self.preview
            }
        }
    };
}
pub(crate) use previewed;
