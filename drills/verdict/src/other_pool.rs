//! The effect of a round on a pool that the drill is not about.

use serde::Serialize;
use units::HeadName;

/// The effect of a round on another pool of the appliance.
#[derive(Clone, Debug, Serialize)]
pub struct BesideRound {
    /// Who served it before.
    pub served_before: Option<HeadName>,
    /// Who served it afterwards.
    pub served_after: Option<HeadName>,
    /// Whether the fault struck its head.
    pub was_struck: bool,
    /// The longest pause of its clients, in seconds; none when I/O did not come back.
    pub pause_s: Option<f64>,
    /// Errors that an application saw.
    pub errors: Vec<String>,
    /// Acknowledged writes that are not there, or contents that nobody wrote.
    pub violations: Vec<String>,
    /// Whether everything could be read back.
    pub is_verified: bool,
    /// Moments at which it was open in two processes.
    pub double_imports: Vec<String>,
}
