//! Output to readers that may stall: the log, progress, a supervisor, and clients that wait for a line. Also the
//! signals of a process. Nothing here blocks on a reader. Output that is not read is buffered within bounds, then
//! dropped, and counted.

#![forbid(unsafe_code)]

mod filter;
mod line;
mod log;
mod panics;
mod retry_until;
pub mod signals;
mod supervisor;

pub use filter::{Filter, InvalidFilter, Style, log_filter, set_log_filter, start_log};
pub use line::{Line, write_line, write_until};
pub use log::{Log, log, set_log_nonblocking};
pub use panics::{abort_on_panic, report_panics_to};
pub use retry_until::retry_until;
pub use supervisor::Supervisor;
