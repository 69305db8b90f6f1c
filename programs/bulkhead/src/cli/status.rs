//! `bulkhead status`

use std::time::Duration;

use control::operations::status::Arguments;
use control::operations::{Polling, TableOptions};
use control::request::Request;

use super::Plan;

/// Returns the plan.
pub fn plan(arguments: Arguments) -> Plan {
    let pool = arguments.pool.into();
    match arguments.watch {
        Some(seconds) => Plan::Watch {
            pool,
            request: Request::Status,
            again: Polling {
                interval: Duration::from_secs(seconds),
                count: None,
            },
        },
        None => Plan::Ask {
            pool,
            request: Request::Status,
            table: TableOptions::default(),
        },
    }
}
