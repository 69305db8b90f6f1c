//! `snapshot schedule set`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use crate::operations::{Example, Examples, Operation, PoolSelector, Verb, dataset, pool_named};
use crate::schedule::{Rule, ScheduleError};
use crate::{Effect, Failure};

/// Take snapshots of a volume, of all volumes below a dataset, or of a whole pool
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ScheduleSet")]
pub struct Set {
    /// Of which volumes.
    pub of: String,
    /// When, and how many are retained; none excludes these volumes.
    pub rules: Vec<Rule>,
    /// Skip the snapshot of a dataset without changes.
    #[serde(default)]
    pub skip_unchanged: bool,
}

impl Operation for Set {
    /// It decides how many snapshots are retained: a smaller number destroys older ones.
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            of: _,
            rules: _,
            skip_unchanged: _,
        } = self;
        Effect::Govern
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead snapshot schedule set tank --hourly 24 --daily 7 --weekly 4 --at 03:00"),
    Example::of(
        "bulkhead snapshot schedule set tank/vm0 --hourly 48 --monthly 12 --skip-unchanged",
    ),
    Example::of("bulkhead snapshot schedule set tank/vm0 --none"),
])
.with_note(
    "Rules in words, each in quotes: \"every 15m keep 8\" \"weekly on friday at 22:00 keep 4\".
A schedule that keeps fewer than before destroys the oldest at once; the answer names them.
All times are UTC. The volumes of one schedule are snapshot at one moment. Only snapshots that the
schedule made are ever removed. The nearest schedule above a volume counts.",
);

/// Take snapshots of a volume, of all volumes below a dataset, or of a whole pool
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The volume, the dataset above volumes, or the pool
    #[arg(value_parser = dataset)]
    of: String,
    /// Rules in words: `every 15m keep 8`, `daily at 03:00 keep 7`, `weekly on sunday keep 4`
    #[arg(value_name = "RULE")]
    rules: Vec<Rule>,
    /// Number of hourly snapshots to keep
    #[arg(long, value_name = "KEEP")]
    hourly: Option<u32>,
    /// Number of daily snapshots to keep
    #[arg(long, value_name = "KEEP")]
    daily: Option<u32>,
    /// Number of weekly snapshots to keep, each from a sunday
    #[arg(long, value_name = "KEEP")]
    weekly: Option<u32>,
    /// Number of monthly snapshots to keep, each from the first
    #[arg(long, value_name = "KEEP")]
    monthly: Option<u32>,
    /// Time of the day of --daily, --weekly and --monthly, in UTC [default: 00:00]
    #[arg(long, value_name = "HH:MM", conflicts_with = "none")]
    at: Option<String>,
    /// No snapshots here, whatever the schedule of a parent is
    #[arg(long, conflicts_with_all = ["rules", "hourly", "daily", "weekly", "monthly"])]
    none: bool,
    /// Skip the snapshot of a volume without changes since its last one
    #[arg(long)]
    skip_unchanged: bool,
}

impl Arguments {
    fn rules(&self) -> Result<Vec<Rule>, Failure> {
        let mut rules = self.rules.clone();
        let timed = [self.daily, self.weekly, self.monthly];
        if self.at.is_some() && timed.iter().all(Option::is_none) {
            return Err(
                Failure::usage("--at is the time of --daily, --weekly or --monthly").advise(
                    "add one of them; a rule in words has its own: \"daily at 03:00 keep 7\"",
                ),
            );
        }
        let at = self.at.as_deref().unwrap_or("00:00");
        let flags = [
            ("hourly".to_owned(), self.hourly),
            (format!("daily at {at}"), self.daily),
            (format!("weekly on sunday at {at}"), self.weekly),
            (format!("monthly on 1 at {at}"), self.monthly),
        ];
        for (when, keep) in flags {
            let Some(keep) = keep else { continue };
            let rule = format!("{when} keep {keep}").parse();
            let wrong = |error: ScheduleError| Failure::usage(error.to_string());
            rules.push(rule.map_err(wrong)?);
        }
        if rules.is_empty() && !self.none {
            return Err(Failure::usage("a schedule needs a rule")
                .advise("such as --hourly 24, or \"daily at 03:00 keep 7\"; --none leaves out"));
        }
        Ok(rules)
    }
}

impl Verb for Set {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;

    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        let set = Self {
            rules: arguments.rules()?,
            skip_unchanged: arguments.skip_unchanged,
            of: arguments.of,
        };
        Ok((PoolSelector::Pool(pool_named(&set.of)), set))
    }
}
