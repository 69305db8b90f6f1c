//! A fault that was made, and its record in the round.

use drill_verdict::{Act, Timestamp};
use units::HeadName;

/// A fault that was made.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The fault, in words.
    pub words: String,
    /// When it began.
    pub at: Timestamp,
    /// The time of the last action that the appliance needs: a confirmation, power.
    pub acted_at: Timestamp,
    /// The head that it struck as a whole.
    pub victim: Option<HeadName>,
    /// The lender of the legs that it struck.
    pub lender: Option<HeadName>,
    /// Violations that were seen during the fault.
    pub complaints: Vec<String>,
    /// Earlier faults of the same round.
    pub acts: Vec<Act>,
}

impl Fault {
    pub fn begin(words: impl Into<String>) -> Self {
        let at = Timestamp::now();
        Self {
            words: words.into(),
            at,
            acted_at: at,
            victim: None,
            lender: None,
            complaints: Vec::new(),
            acts: Vec::new(),
        }
    }

    pub fn of_head(words: impl Into<String>, head: &HeadName) -> Self {
        Self {
            victim: Some(head.clone()),
            ..Self::begin(words)
        }
    }
}

/// Why a drill cannot be done in this lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible(pub String);
