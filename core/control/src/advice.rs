//! The recommended action for a state. The command line, the API and the console show the same value, so that they
//! never contradict each other. The pool's server creates it (`operations/next_step.rs`), because it has the state. No
//! client composes sentences of its own about a pool's state; the command is a separate field, so that it can become a
//! button.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calendar::utc;

/// Its severity.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Clients are affected, or data is lost.
    Error,
    /// A fault that clients do not notice.
    #[default]
    Warning,
    /// For information.
    Info,
}

/// The button of the console for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Button {
    /// Replace a disk, guided.
    ReplaceDisk,
    /// Clear errors, which resumes a suspended pool.
    Clear,
    /// Use the device again.
    Online,
    /// Begin a scrub.
    Scrub,
    /// Resume a paused scrub.
    ResumeScrub,
    /// Show the space usage.
    Space,
}

/// A recommended action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// Its severity.
    pub severity: Severity,
    /// The action, in words.
    pub what: String,
    /// The reason: the fault or state.
    pub why: String,
    /// The command that performs it, or shows details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The button of the console.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub button: Option<Button>,
    /// The device concerned, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The head that is the cause, if one is: all consequences of its loss have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Start of the fault or state, in milliseconds since 1970, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<u64>,
    /// The consequence of a further failure, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<String>,
    /// The consequences of the same cause, each in a sentence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// The action after a refused power-off of a lost head, which a takeover requires. It is not offered as a command:
/// `stonith_admin --confirm` ends the fence, and the pools with legs still need two members of their record.
pub fn after_refused_power_off(head: &str, refusal: &str) -> String {
    format!(
        "it is refused, and tried again within a minute: {refusal}. If the witness is lost, start bulkhead-witness on its host, or power {head} on: \
         the pools are served within a minute. By hand: only if {head} is certainly off (cut all its power), `stonith_admin --confirm {head}` ends \
         the fence; a pool on shared disks is then taken over, and a pool with legs stays closed until the witness or {head} responds. If both \
         are lost for good, see \"Without the record\" in the guide to pools of legs"
    )
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

    /// Adds the command that performs it, or shows details.
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

    /// The cause is this head.
    #[must_use]
    pub fn caused_by(mut self, head: impl Into<String>) -> Self {
        self.head = Some(head.into());
        self
    }

    /// Adds the consequence of a further failure, if there is one.
    #[must_use]
    pub fn risking(mut self, risk: Option<String>) -> Self {
        self.risk = risk;
        self
    }

    /// Adds consequences of the same cause.
    #[must_use]
    pub fn with_details(mut self, details: Vec<String>) -> Self {
        self.details = details;
        self
    }

    /// Replaces all sentences, the command and the device by the result of `named`.
    pub fn map_texts(&mut self, named: impl Fn(&str) -> String) {
        let texts = [&mut self.what, &mut self.why].into_iter();
        let texts = texts.chain(&mut self.command).chain(&mut self.device);
        for text in texts.chain(&mut self.risk).chain(&mut self.details) {
            *text = named(text);
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(command) = &self.command {
            write!(f, ": `{command}`")?;
        }
        let since = self.since_ms.map(|ms| format!("since {}", utc(ms / 1000)));
        let risk = self.risk.as_ref().map(|risk| format!("at risk: {risk}"));
        let why = match (self.why.as_str(), since) {
            ("", since) => since,
            (why, None) => Some(why.to_owned()),
            (why, Some(since)) => Some(format!("{why}, {since}")),
        };
        let reasons: Vec<String> = [why, risk].into_iter().flatten().collect();
        match reasons.is_empty() {
            true => Ok(()),
            false => write!(f, " ({})", reasons.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_prints_a_sentence_and_serializes_its_fields() {
        let advice = Advice::new(Severity::Warning, "replace /b", "/b is FAULTED")
            .by("bulkhead pool replace-disk tank /b")
            .offering(Button::ReplaceDisk)
            .about("/b");
        assert_eq!(
            advice.to_string(),
            "replace /b: `bulkhead pool replace-disk tank /b` (/b is FAULTED)"
        );
        let dated = Advice {
            since_ms: Some(3_600_000),
            ..advice.clone().risking(Some("one copy only".to_owned()))
        };
        assert!(
            dated
                .to_string()
                .ends_with("(/b is FAULTED, since 1970-01-01T01:00:00Z; at risk: one copy only)"),
            "{dated}"
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
