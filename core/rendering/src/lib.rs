//! What came of a command, as people read it or as one JSON document: answers of pools, failures, tables, progress.
//! Nothing is asked and nothing decided here.

#![forbid(unsafe_code)]

mod answers;
mod daily;
mod keys;
mod legs;
mod load;
mod open_files;
mod printer;
mod progress;
mod properties;
mod table;
mod transfer;
mod wrap;

pub use answers::{answers_after, document, event_line, failure};
pub use printer::Printer;
pub use progress::ProgressBar;
pub use table::Table;
