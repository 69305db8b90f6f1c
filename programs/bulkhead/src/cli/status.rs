//! `bulkhead status`

use std::time::Duration;

use clap::Args;
use control::request::Request;

use super::Plan;
use control::operations::WhichPool;

/// `status`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  bulkhead status
  bulkhead status tank --json
  bulkhead status tank --watch 2")]
pub struct StatusArgs {
    /// The pool
    #[command(flatten)]
    pool: WhichPool,
    /// Show it again every so many seconds, until interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    watch: Option<u64>,
}

impl StatusArgs {
    /// What to do.
    pub fn plan(self) -> Plan {
        let pool = self.pool.into();
        match self.watch {
            Some(seconds) => Plan::Watch {
                pool,
                interval: Duration::from_secs(seconds),
            },
            None => Plan::Ask {
                pool,
                request: Request::Status,
            },
        }
    }
}
