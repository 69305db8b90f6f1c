//! Output to readers that may stall: the log, progress, a supervisor, and clients that wait for a line. Also the
//! signals of a process. Nothing here blocks on a reader. Output that is not read is buffered within bounds, then
//! dropped, and counted.

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
