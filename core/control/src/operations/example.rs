//! Examples of a verb. They are stored in its definition only: its help prints them, a test runs each of them, and
//! `bulkhead definitions` exports them to the proofs.
//!
//! Examples share one environment: the pool `tank` with the volumes `vm0`, `iso`, `db/data`, `db/log` and `web`, which
//! is an NBD export, the file system `home`, the snapshots `vm0@monday` and `home@monday`, and the iSCSI target
//! `iqn.2026-01.org.example:tank`.

use clap::builder::StyledStr;
use serde::Serialize;

/// A command line.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Example {
    /// As printed in the help; a long one continues after a backslash.
    pub line: &'static str,
    /// Commands that set up its environment.
    pub prepared_by: &'static [&'static str],
    /// Commands that revert it; may be empty. With this the proofs also test it with kills.
    pub undone_by: Option<&'static [&'static str]>,
    /// Whether the server must be running: its effect is lost with the server, or the server has the counters.
    pub ends_with_the_server: bool,
    /// The reason why no test runs this line, and the test that covers it instead.
    pub elsewhere: Option<&'static str>,
}

impl Example {
    /// Creates one that runs in the common environment as it is.
    pub const fn of(line: &'static str) -> Self {
        Self {
            line,
            prepared_by: &[],
            undone_by: None,
            ends_with_the_server: false,
            elsewhere: None,
        }
    }

    /// Adds commands that set up its environment.
    #[must_use]
    pub const fn prepared_by(mut self, commands: &'static [&'static str]) -> Self {
        self.prepared_by = commands;
        self
    }

    /// Commands that revert it.
    #[must_use]
    pub const fn undone_by(mut self, commands: &'static [&'static str]) -> Self {
        self.undone_by = Some(commands);
        self
    }

    /// Marks an example that needs a running server: its effect is lost with it, or the server has the counters.
    #[must_use]
    pub const fn ends_with_the_server(mut self) -> Self {
        self.ends_with_the_server = true;
        self
    }

    /// Marks an example that no test runs, with the reason.
    #[must_use]
    pub const fn elsewhere(mut self, reason: &'static str) -> Self {
        self.elsewhere = Some(reason);
        self
    }
}

/// The examples of a verb, and the notes that follow them in its help.
#[derive(Clone, Copy, Debug)]
pub struct Examples {
    /// The examples, in the order of the help.
    pub all: &'static [Example],
    note: &'static str,
}

impl Examples {
    /// No example: a request without a command of its own.
    pub const NONE: Self = Self::of(&[]);

    /// These.
    pub const fn of(all: &'static [Example]) -> Self {
        Self { all, note: "" }
    }

    /// With a paragraph after them.
    #[must_use]
    pub const fn with_note(mut self, note: &'static str) -> Self {
        self.note = note;
        self
    }
}

/// Formats them as the last part of a command's help.
impl From<Examples> for StyledStr {
    fn from(examples: Examples) -> Self {
        let mut text = match examples.all.len() {
            1 => "Example:".to_owned(),
            _ => "Examples:".to_owned(),
        };
        for example in examples.all {
            text.push_str("\n  ");
            text.push_str(example.line);
        }
        if !examples.note.is_empty() {
            text.push_str("\n\n");
            text.push_str(examples.note);
        }
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_the_lines_and_ends_with_the_note() {
        const TWO: Examples = Examples::of(&[
            Example::of("bulkhead a \\\n      b"),
            Example::of("bulkhead c").elsewhere("a reason"),
        ])
        .with_note("A note.");
        let text = StyledStr::from(TWO).to_string();
        let expected = "Examples:\n  bulkhead a \\\n      b\n  bulkhead c\n\nA note.";
        assert_eq!(text, expected);
        const ONE: Examples = Examples::of(&[Example::of("bulkhead a")]);
        assert_eq!(StyledStr::from(ONE).to_string(), "Example:\n  bulkhead a");
    }
}
