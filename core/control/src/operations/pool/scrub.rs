//! `pool scrub`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::PoolRequest;
use super::scrub_schedule::ScrubSchedule;
use crate::answer::Done;
use crate::operations::{
    Example, Examples, Least, Operation, PoolSelector, Route, Scheduling, Source, WireOnly,
    schema_of,
};
use crate::schedule::ScheduleError;
use crate::{Effect, Failure};

/// An action on a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScrubAction {
    /// Start, or resume after a pause.
    Start,
    /// Resume after a pause, if there is one.
    Resume,
    /// Pause and retain the position.
    Pause,
    /// Stop permanently.
    Stop,
}

/// Check (and repair) every block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PoolScrub")]
pub struct Scrub {
    /// The action.
    pub action: ScrubAction,
    /// Respond when the scrub is complete.
    pub wait: bool,
}

impl Operation for Scrub {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self { action: _, wait: _ } = self;
        Effect::Change
    }

    /// It blocks until the scrub is complete, if requested.
    fn scheduling(&self) -> Scheduling {
        Scheduling::Concurrent
    }
}

impl WireOnly for Scrub {
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/scrub",
        "Start, pause or stop a scrub",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"action": "start"}"#)
    .with(&[("wait", Source::Default("false"))])];
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead pool scrub tank --wait"),
    Example::of("bulkhead pool scrub tank --pause"),
    Example::of("bulkhead pool scrub tank --schedule monthly"),
])
.with_note(
    "The schedule is kept in the pool. `bulkhead pool status` shows when the next scrub is due.",
);

/// Read every block, verify it, repair damage
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The pool
    pool: PoolName,
    /// Pause, and retain the position
    #[arg(long, conflicts_with_all = ["stop", "wait", "resume"])]
    pause: bool,
    /// Resume after a pause
    #[arg(long, conflicts_with = "stop")]
    resume: bool,
    /// Stop permanently
    #[arg(long, conflicts_with = "wait")]
    stop: bool,
    /// Return when it is complete, and show the progress
    #[arg(long)]
    wait: bool,
    /// Scrub automatically from now on: `monthly`, `weekly on sunday at 02:00` (UTC); `none`
    /// removes the schedule
    #[arg(long, value_name = "WHEN", conflicts_with_all = ["pause", "resume", "stop", "wait"])]
    schedule: Option<String>,
}

impl Arguments {
    /// Returns the pool, and the request for a scrub or for a schedule of scrubs.
    ///
    /// # Errors
    ///
    /// The schedule cannot be read.
    pub fn request(self) -> Result<(PoolSelector, PoolRequest), Failure> {
        let request = match &self.schedule {
            Some(when) => schedule(when)?.into(),
            None => self.scrub().into(),
        };
        Ok((PoolSelector::Pool(self.pool), request))
    }

    fn scrub(&self) -> Scrub {
        let action = match (self.pause, self.resume, self.stop) {
            (true, _, _) => ScrubAction::Pause,
            (_, true, _) => ScrubAction::Resume,
            (_, _, true) => ScrubAction::Stop,
            _ => ScrubAction::Start,
        };
        Scrub {
            action,
            wait: self.wait,
        }
    }
}

fn schedule(when: &str) -> Result<ScrubSchedule, Failure> {
    let when = match when {
        "none" => None,
        when => Some(when.parse()),
    };
    let wrong = |error: ScheduleError| Failure::usage(error.to_string());
    let when = when.transpose().map_err(wrong)?;
    Ok(ScrubSchedule { when })
}
