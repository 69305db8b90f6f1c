//! What somebody should do about a state. The same value is shown by the command line, the API and the
//! console, so that no two of them say different things. The pool's server makes it (`operations/next_step.rs` of the program),
//! where the state is known. None of those that show it makes sentences of its own about a pool's state; the command is a field of
//! its own, so that it can become a button.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much it matters.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Clients suffer, or data is lost.
    Error,
    /// Something is wrong, and clients do not notice.
    #[default]
    Warning,
    /// Good to know.
    Info,
}

/// What the console offers to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Button {
    /// Replace a disk, guided.
    ReplaceDisk,
    /// Clear errors, which lets a suspended pool go on.
    Clear,
    /// Use the device again.
    Online,
    /// Begin a scrub.
    Scrub,
    /// Go on with a paused scrub.
    ResumeScrub,
    /// Show what takes the space.
    Space,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// How much it matters.
    pub severity: Severity,
    /// What to do, in words.
    pub what: String,
    /// Why: what is the matter.
    pub why: String,
    /// The command that does it, or says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What the console offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub button: Option<Button>,
    /// The device it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

impl Advice {
    /// Do `what`, because of `why`.
    pub fn new(severity: Severity, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            severity,
            what: what.into(),
            why: why.into(),
            ..Self::default()
        }
    }

    /// This command does it, or says more.
    #[must_use]
    pub fn by(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// The console offers this.
    #[must_use]
    pub fn offering(mut self, button: Button) -> Self {
        self.button = Some(button);
        self
    }

    /// It is about this device.
    #[must_use]
    pub fn about(mut self, device: impl Into<String>) -> Self {
        self.device = Some(device.into());
        self
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(command) = &self.command {
            write!(f, ": `{command}`")?;
        }
        match self.why.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", self.why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_read_as_a_sentence_and_known_to_programs_by_its_parts() {
        let advice = Advice::new(Severity::Warning, "replace /b", "/b is FAULTED")
            .by("bulkhead pool replace-disk tank /b")
            .offering(Button::ReplaceDisk)
            .about("/b");
        assert_eq!(
            advice.to_string(),
            "replace /b: `bulkhead pool replace-disk tank /b` (/b is FAULTED)"
        );
        let json = serde_json::to_value(&advice).expect("JSON");
        assert_eq!(json["button"], "replace_disk");
        assert_eq!(json["severity"], "warning");
        assert_eq!(
            serde_json::from_value::<Advice>(json).expect("read"),
            advice
        );
    }
}
