//! Reasons why drills cannot continue. A broken promise is a finding, not an error.

use cluster::{HandOverError, HostError};
use lab::LabError;
use units::HeadName;

/// Reasons why drills cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum DrillError {
    /// The appliance file is not one that can be drilled.
    #[error("{0}")]
    File(String),
    /// The lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A command in the lab failed.
    #[error("{step}")]
    Step {
        /// The step.
        step: String,
        /// Why it failed.
        #[source]
        source: HostError,
    },
    /// A step of the guide was refused.
    #[error("{step} on {head}: {words}")]
    Refused {
        /// The command.
        step: String,
        /// Where.
        head: HeadName,
        /// The output of the command.
        words: String,
    },
    /// A hand-over was refused.
    #[error("move the pool")]
    HandOver(#[from] HandOverError),
    /// The client does not work.
    #[error("the client of the drills: {0}")]
    Client(String),
    /// The lab does not come to rest, so that no fault can be judged.
    #[error("the lab is not well again after {waited_s} s: {why}")]
    Unsettled {
        /// How long was waited.
        waited_s: u64,
        /// The condition that is not met.
        why: String,
    },
    /// A step on files or processes failed.
    #[error("{what}")]
    Io {
        /// The step.
        what: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl DrillError {
    /// An error of a step, for `map_err`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// A command that failed, for `map_err`.
    pub(crate) fn step(step: impl Into<String>) -> impl FnOnce(HostError) -> Self {
        let step = step.into();
        move |source| Self::Step { step, source }
    }
}
