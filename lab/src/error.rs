//! What can go wrong with a lab.

use std::io;
use std::path::PathBuf;

use cluster::process::RunError;

/// Why something with a lab did not work.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This machine cannot run a lab.
    #[error("this machine cannot run a lab: {}", .0.join("; "))]
    Missing(Vec<String>),
    /// The appliance file is not one that can be tried.
    #[error("{0}")]
    File(String),
    /// The file names a place that a lab cannot make.
    #[error("the lab cannot put a file at {}: it can under /dev, /etc, /var, /run and folders such as /srv", .0.display())]
    Place(PathBuf),
    /// There is one of that name.
    #[error("the lab {0} exists")]
    Exists(String),
    /// There is none of that name.
    #[error("there is no lab {0}")]
    NotFound(String),
    /// Its processes are gone; its folder is left.
    #[error("the lab {0} is not running any more")]
    Dead(String),
    /// A name that no machine of the lab has.
    #[error("{0} is no machine of this lab")]
    NoMachine(String),
    /// The head has no power.
    #[error("{0} is switched off")]
    Off(String),
    /// The lab did not come up.
    #[error("the lab did not come up: {0}")]
    Supervisor(String),
    /// The supervisor refused.
    #[error("{0}")]
    Refused(String),
    /// A step on files or sockets failed.
    #[error("{what}")]
    Io {
        /// The step.
        what: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A program could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A program failed.
    #[error("{program} ended with {code}: {complaint}")]
    Program {
        /// Which.
        program: String,
        /// Its exit code.
        code: i32,
        /// What it said.
        complaint: String,
    },
    /// The heads could not be looked at.
    #[error("look at the heads")]
    Observe(#[from] cluster::observe::ObserveError),
    /// The heads could not be set up.
    #[error("set up the heads")]
    Apply(#[from] cluster::ApplyError),
    /// Something did not happen in time.
    #[error("{what} did not happen within {limit_s} s: {seen}")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// How long, in seconds.
        limit_s: u64,
        /// What was seen last.
        seen: String,
    },
}

impl LabError {
    /// An error of a step, for `map_err`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
