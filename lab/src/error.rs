//! Errors of a lab.

use std::io;
use std::path::PathBuf;

use cluster::process::RunError;

/// Errors of a lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This host cannot run a lab.
    #[error("this host cannot run a lab: {}", .0.join("; "))]
    Missing(Vec<String>),
    /// The appliance file is not one that can be tried.
    #[error("{0}")]
    File(String),
    /// The file contains an address or path that a lab cannot provide.
    #[error("the lab cannot put a file at {}: it can under /dev, /etc, /var, /run and folders such as /srv", .0.display())]
    Place(PathBuf),
    /// There is one of that name.
    #[error("the lab {0} exists")]
    Exists(String),
    /// There is none of that name.
    #[error("there is no lab {0}")]
    NotFound(String),
    /// Its processes are gone; its directory is left.
    #[error("the lab {0} is not running any more")]
    Dead(String),
    /// The lab has no node of this name.
    #[error("{0} is no node of this lab")]
    NoNode(String),
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
    /// A command could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A command failed.
    #[error("{program} exited with {code}: {complaint}")]
    Program {
        /// Which.
        program: String,
        /// Its exit code.
        code: i32,
        /// Its output.
        complaint: String,
    },
    /// The heads could not be looked at.
    #[error("look at the heads")]
    Observe(#[from] cluster::observe::ObserveError),
    /// The heads could not be set up.
    #[error("set up the heads")]
    Apply(#[from] cluster::ApplyError),
    /// A condition was not met in time.
    #[error("{what} did not happen within {limit_s} s: {seen}")]
    TimedOut {
        /// The condition.
        what: String,
        /// How long, in seconds.
        limit_s: u64,
        /// The last observation.
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
