//! `volume freeze`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{PoolName, VolumeName};

use crate::answer::{Done, FrozenView};
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Verb, duration_s, one_pool, schema_of,
};
use crate::{Effect, Failure};

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead volume freeze tank/web --for 60s")
        .undone_by(&["bulkhead volume thaw tank/web"])
        .ends_with_the_server(),
    Example::of("bulkhead volume freeze tank/db/data tank/db/log")
        .prepared_by(&[
            "bulkhead nbd export tank/db/data",
            "bulkhead nbd export tank/db/log",
        ])
        .ends_with_the_server(),
])
.with_note(
    "Clients are not notified: their commands are blocked, up to their own time-outs. The time-out of
an iSCSI command on Linux is 30 s. All volumes are frozen at one point in time, or none is. A
second freeze of the same volumes extends the first one, up to 60 s from its start. A frozen volume
cannot be destroyed, resized, rolled back or renamed; snapshots, clones and promotions are possible.
The removal of its last export ends a freeze, and so does the exit of the server, even by a
takeover: `volume thaw` then fails.",
);

/// Pause writes by clients for a consistent copy elsewhere; reads continue
///
/// Completes active commands, and flushes all written data to stable storage. From then on writes and discards of iSCSI
/// and NBD clients are paused, until `volume thaw` or until the time is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "VolumeFreeze")]
#[command(after_help = EXAMPLES)]
pub struct Freeze {
    /// The volumes, all of one pool; each is exported
    #[arg(id = "volumes", value_name = "VOLUMES", required = true)]
    pub names: Vec<VolumeName>,
    /// Time after which writes continue, at most 60s, such as 30s
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = duration_s)]
    #[serde(default = "seconds_default")]
    pub seconds: u64,
}

/// Shorter than the time-outs of all known initiators.
fn seconds_default() -> u64 {
    10
}

impl Freeze {
    /// Returns its duration.
    ///
    /// # Errors
    ///
    /// The time is not allowed.
    pub fn lasting(&self) -> Result<std::time::Duration, Failure> {
        match self.seconds {
            seconds @ 1..=FrozenView::SECONDS_MAX => Ok(std::time::Duration::from_secs(seconds)),
            other => Err(Failure::usage(format!("{other} s is no time for a freeze"))
                .advise(format!("use 1s to {}s", FrozenView::SECONDS_MAX))),
        }
    }
}

impl Operation for Freeze {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            names: _,
            seconds: _,
        } = self;
        Effect::Change
    }

    fn details(&self) -> Option<String> {
        Some(super::listed(&self.names))
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

impl Verb for Freeze {
    type Arguments = Self;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/freeze",
        "Hold writes of volumes at one point in time",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"names": ["tank/vm0"], "seconds": 10}"#)
    .with_lists()];

    fn from_arguments(arguments: Self) -> Result<(PoolSelector, Self), Failure> {
        arguments.lasting()?;
        let pool = one_pool(arguments.names.iter().map(VolumeName::pool))?;
        Ok((pool, arguments))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freeze_defaults_to_10_s_and_is_limited_to_60_s() {
        for (body, lasting) in [
            (r#"{"names": ["tank/v"]}"#, Some(10)),
            (r#"{"names": ["tank/v"], "seconds": 60}"#, Some(60)),
            (r#"{"names": ["tank/v"], "seconds": 61}"#, None),
            (r#"{"names": ["tank/v"], "seconds": 0}"#, None),
        ] {
            let freeze: Freeze = serde_json::from_str(body).expect(body);
            let seconds = freeze.lasting().ok().map(|time| time.as_secs());
            assert_eq!(seconds, lasting, "{body}");
        }
    }
}
