//! Requests that a head performs in a separate process, because they need an open pool or read disks. The request
//! arrives on the standard input as JSON. The response or the failure is written to the standard output.

use std::io::Read;

use crate::common::Common;
use control::operations::PoolSelector;
use control::operations::pool::create::PoolCreate;
use control::{Answer, Failure, Request};
use rendering::Printer;
use serde::{Deserialize, Serialize};
use units::PoolName;

/// Longest question, in bytes.
const REQUEST_BYTES_MAX: u64 = 16 << 20;

/// The request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Send a request to a pool's server, or open the pool.
    Ask {
        /// Which.
        pool: PoolName,
        /// The operation.
        request: Request,
    },
    /// Create a pool.
    Create(PoolCreate),
    /// Discover pools.
    Discover,
}

/// Does it.
pub fn perform(common: &Common, out: Printer) -> Result<(), Failure> {
    let mut text = String::new();
    std::io::stdin()
        .take(REQUEST_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("read the question: {error}")))?;
    let question: Question = serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("the question is not understood: {error}")))?;
    crate::audit::suppress_audit_log();
    let mut progress = |line: &str| {
        output::log().write_line(&format!("{line}\n"));
    };
    let answer: Answer = match question {
        Question::Ask { pool, request } => {
            crate::ask(common, &PoolSelector::Pool(pool), request, &mut progress)?
        }
        Question::Create(create) => crate::create(common, create, None)?,
        Question::Discover => crate::discover(common)?,
    };
    out.text(&serde_json::to_string(&answer).expect("answers are JSON"))
}
