//! Uninterruptible power supplies: `nut` reads their state from `upsd`, `judge` decides, `act` performs the decision in
//! the cluster. The head runs them in a loop.

pub mod act;
pub mod judge;
pub mod nut;

pub use act::Actor;
pub use judge::{Action, ClusterView, HeadPower, Judge, Limits, Silence, Supply};
pub use nut::{Reading, Session};
