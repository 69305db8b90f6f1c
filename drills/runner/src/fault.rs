//! A fault that was made, and what a round records of it.

use drill_verdict::{Act, Moment};
use units::HeadName;

/// A fault that was made.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What was done, in words.
    pub words: String,
    /// When it began.
    pub at: Moment,
    /// When the last thing was done that the appliance waits for: a confirmation, power.
    pub acted_at: Moment,
    /// The head that it struck as a whole.
    pub victim: Option<HeadName>,
    /// The head whose legs it struck.
    pub lender: Option<HeadName>,
    /// What was not as it should be meanwhile.
    pub complaints: Vec<String>,
    /// What was done before.
    pub acts: Vec<Act>,
}

impl Fault {
    pub fn begin(words: impl Into<String>) -> Self {
        let at = Moment::now();
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
