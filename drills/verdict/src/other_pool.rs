//! The effect of a round on a pool that the drill is not about.

use serde::Serialize;
use units::HeadName;

/// The effect of a round on another pool of the appliance.
#[derive(Clone, Debug, Serialize)]
pub struct OtherPoolRound {
    /// The head that served it before.
    pub served_before: Option<HeadName>,
    /// The head that served it afterwards.
    pub served_after: Option<HeadName>,
    /// Whether the fault struck its head.
    pub was_struck: bool,
    /// The longest pause of its clients, in seconds; `None` if I/O did not resume.
    pub pause_s: Option<f64>,
    /// Errors that an application saw.
    pub errors: Vec<String>,
    /// Acknowledged writes that are lost, or contents that no client wrote.
    pub violations: Vec<String>,
    /// Whether all data could be read back.
    pub is_verified: bool,
    /// Moments at which it was open in two processes.
    pub double_imports: Vec<String>,
}
