//! What is said to those who may not read: the log, progress, a supervisor, whoever waits for a line; and what a process is
//! told by signals.
//! Nothing here ever waits for a reader. What is not taken is kept within bounds, then dropped, and counted.

#![forbid(unsafe_code)]

mod filter;
mod insist;
mod line;
mod log;
mod panics;
pub mod signals;
mod supervisor;

pub use filter::{Filter, InvalidFilter, Style, log_filter, set_log_filter, start_log};
pub use insist::insist;
pub use line::{Line, say, say_until};
pub use log::{Log, log, never_wait_for_the_log};
pub use panics::abort_on_panic;
pub use supervisor::Supervisor;
