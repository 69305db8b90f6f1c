//! The verdict on drills: the catalogue of drills with the expectation of each, the observations of a round, and the
//! judgement against the promised bounds. Nothing here runs a drill or needs a lab.

#![forbid(unsafe_code)]

mod catalogue;
mod clients;
mod expectation;
mod other_pool;
mod promise;
mod report;
mod round;
mod timeline;
mod timestamp;

pub use catalogue::{Drill, SLOW_BMC_MS, UnknownDrill};
pub use clients::Clients;
pub use expectation::{Expectation, Fencing, Kind, Notice, Place};
pub use other_pool::OtherPoolRound;
pub use promise::{Bounds, Broken, Promise};
pub use report::{DrillReport, JudgedRound, Report};
pub use round::{Act, Round};
pub use timeline::{Mark, Resources, Step, fenced, marks, merge};
pub use timestamp::{LogClock, Timestamp};
