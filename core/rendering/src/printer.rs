//! The output of a command: its result and its progress.

use std::io::{ErrorKind, Write};

use control::operations::TableOptions;
use control::{Answer, Failure, FailureKind};
use serde::Serialize;

use crate::answers::{self, Pools};
use crate::program;

/// Prints the result of a command on the standard output.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    json: bool,
}

impl Printer {
    /// For people, or with `json` for scripts, which read one document.
    pub const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether the output is for a script.
    pub const fn is_json(self) -> bool {
        self.json
    }

    /// Prints `text` unchanged. A reader that has exited (`| head`) is no failure.
    pub fn text(self, text: &str) -> Result<(), Failure> {
        self.is_read(text).map(drop)
    }

    /// The same; returns whether the output still has a reader.
    pub fn is_read(self, text: &str) -> Result<bool, Failure> {
        let text = program::with_own_commands(text);
        let mut out = std::io::stdout();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(error) => {
                let message = format!("print the response: {error}");
                Err(Failure::new(FailureKind::Failed, message))
            }
        }
    }

    /// Prints `document` for scripts, and `text` for people.
    pub fn either(
        self,
        document: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        self.text(&match self.json {
            true => answers::document(document),
            false => text(),
        })
    }

    /// Renders a pool's response as text.
    pub fn rendered(self, answer: &Answer) -> String {
        answers::answer(answer, self.json)
    }

    /// Prints a pool's response.
    pub fn answer(self, answer: &Answer) -> Result<(), Failure> {
        self.text(&self.rendered(answer))
    }

    /// Prints the responses of several pools to one request, with the columns and in the order of `table`; then
    /// `failure`, of the first that failed.
    pub fn answers(
        self,
        answers: &[Answer],
        pools: Pools,
        failure: Option<&Failure>,
        table: &TableOptions,
    ) -> Result<(), Failure> {
        match failure {
            // One document: a script must not take a part for the whole.
            Some(_) if self.json => {}
            _ => self.text(&answers::answers(answers, pools, self.json, table))?,
        }
        failure.cloned().map_or(Ok(()), Err)
    }

    /// Prints progress on the standard error, except for scripts. A reader that stalls does not stop the work, for
    /// which this process may have a pool open.
    pub fn progress(self, text: &str) {
        if !self.json {
            output::log().write_line(&format!("{text}\n"));
        }
    }
}
