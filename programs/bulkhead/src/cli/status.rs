//! `bulkhead status`

use std::time::Duration;

use control::operations::status::Arguments;
use control::request::Request;

use super::Plan;

/// What to do.
pub fn plan(arguments: Arguments) -> Plan {
    let pool = arguments.pool.into();
    match arguments.watch {
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
