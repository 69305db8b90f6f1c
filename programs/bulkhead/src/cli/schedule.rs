//! `bulkhead snapshot schedule …`

use clap::{Args, Subcommand};
use control::Failure;
use control::request::{Request, ScheduleRequest, SnapshotRequest};
use control::schedule::Rule;

use super::volume::{dataset, pool_of};
use super::which::WhichPool;
use super::{Plan, Whose};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Take snapshots of a volume, of all volumes below a dataset, or of a whole pool
    #[command(after_help = SET_EXAMPLES)]
    Set(SetArgs),
    /// List the schedules of a pool and when each rule is due next
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead snapshot schedule list tank --json"
    )]
    List(WhichPool),
    /// Forget a schedule; the snapshots stay
    #[command(
        visible_alias = "rm",
        after_help = "Example:\n  bulkhead snapshot schedule remove tank/vm0"
    )]
    Remove {
        /// Where the schedule is set
        #[arg(value_parser = dataset)]
        of: String,
    },
}

const SET_EXAMPLES: &str = "Examples:
  bulkhead snapshot schedule set tank --hourly 24 --daily 7 --weekly 4 --at 03:00
  bulkhead snapshot schedule set tank/vm0 --hourly 48 --monthly 12 --skip-unchanged
  bulkhead snapshot schedule set tank/vm0 --none

Rules in words, each in quotes: \"every 15m keep 8\" \"weekly on friday at 22:00 keep 4\".
All times are UTC. The volumes of one schedule are snapshot at one moment. Only snapshots that the
schedule made are ever removed. The nearest schedule above a volume counts.";

/// `snapshot schedule set`
#[derive(Debug, Args)]
pub struct SetArgs {
    /// The volume, the dataset above volumes, or the pool
    #[arg(value_parser = dataset)]
    of: String,
    /// Rules in words: `every 15m keep 8`, `daily at 03:00 keep 7`, `weekly on sunday keep 4`
    #[arg(value_name = "RULE")]
    rules: Vec<Rule>,
    /// One each hour, so many are kept
    #[arg(long, value_name = "KEEP")]
    hourly: Option<u32>,
    /// One each day, so many are kept
    #[arg(long, value_name = "KEEP")]
    daily: Option<u32>,
    /// One each sunday, so many are kept
    #[arg(long, value_name = "KEEP")]
    weekly: Option<u32>,
    /// One on the first of each month, so many are kept
    #[arg(long, value_name = "KEEP")]
    monthly: Option<u32>,
    /// Time of the day of --daily, --weekly and --monthly, in UTC [default: 00:00]
    #[arg(long, value_name = "HH:MM", conflicts_with = "none")]
    at: Option<String>,
    /// No snapshots here, whatever a schedule above says
    #[arg(long, conflicts_with_all = ["rules", "hourly", "daily", "weekly", "monthly"])]
    none: bool,
    /// No snapshot of a volume that was not written to since its last one
    #[arg(long)]
    skip_unchanged: bool,
}

impl SetArgs {
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
            let wrong = |error: control::schedule::ScheduleError| Failure::usage(error.to_string());
            rules.push(rule.map_err(wrong)?);
        }
        if rules.is_empty() && !self.none {
            return Err(Failure::usage("a schedule needs a rule")
                .advise("such as --hourly 24, or \"daily at 03:00 keep 7\"; --none leaves out"));
        }
        Ok(rules)
    }
}

impl ScheduleCommand {
    /// What to do.
    pub fn plan(self) -> Result<Plan, Failure> {
        let (pool, request) = match self {
            Self::Set(args) => {
                let request = ScheduleRequest::Set {
                    rules: args.rules()?,
                    skip_unchanged: args.skip_unchanged,
                    of: args.of.clone(),
                };
                (Whose::Pool(pool_of(&args.of)), request)
            }
            Self::List(pool) => (pool.into(), ScheduleRequest::List),
            Self::Remove { of } => (Whose::Pool(pool_of(&of)), ScheduleRequest::Remove { of }),
        };
        Ok(Plan::Ask {
            pool,
            request: Request::Snapshot(SnapshotRequest::Schedule(request)),
        })
    }
}
