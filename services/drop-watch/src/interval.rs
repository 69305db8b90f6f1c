//! The result of one interval.

use std::collections::BTreeSet;

use network_drops::Loss;
use serde::Serialize;

/// The losses of an interval.
#[derive(Debug, Serialize)]
pub struct Interval {
    /// Its length; none for all losses since the counters began.
    pub seconds: Option<u64>,
    /// The losses, the largest first.
    pub losses: Vec<Loss>,
    /// What could not be read, with the remedy.
    pub notes: BTreeSet<String>,
}
