//! Shows the progress of a long command on the standard error: one line that is updated, on a
//! terminal; a line from time to time, in a log.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Pause between two lines in a log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The line.
pub struct ProgressBar {
    is_silent: bool,
    is_terminal: bool,
    shown: Option<Instant>,
}

impl ProgressBar {
    /// Starts with no output; never prints if `is_silent`.
    pub fn new(is_silent: bool) -> Self {
        Self {
            is_silent,
            is_terminal: std::io::stderr().is_terminal(),
            shown: None,
        }
    }

    /// Replaces the shown text by `text`.
    pub fn show(&mut self, text: &str) {
        let is_due = self.shown.is_none_or(|at| at.elapsed() >= LOG_INTERVAL);
        if self.is_silent || !(self.is_terminal || is_due) {
            return;
        }
        self.shown = Some(Instant::now());
        output::log().write_line(&match self.is_terminal {
            true => format!("\r{text}\x1b[K"),
            false => format!("{text}\n"),
        });
    }

    /// Terminates the line, so that further output begins on a line of its own.
    pub fn end(&mut self) {
        if self.is_terminal && self.shown.take().is_some() {
            output::log().write_line("\r\x1b[K");
        }
    }
}
