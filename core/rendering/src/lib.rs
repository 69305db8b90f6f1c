//! Renders the results of commands as text for people or as one JSON document: responses of pools, failures, tables,
//! progress. This crate sends no requests and decides nothing.

#![forbid(unsafe_code)]

mod answers;
mod daily;
mod growth;
mod keys;
mod legs;
mod lists;
mod load;
mod open_files;
mod printer;
mod program;
mod progress;
mod properties;
mod table;
mod transfer;
mod wrap;

pub use answers::{Pools, document, event_line, failure, for_user, next_sample};
pub use printer::Printer;
pub use program::name_program;
pub use progress::ProgressBar;
pub use table::{Table, harmless};
