//! Executes commands on the state of a target: [`dispatch`] checks a command and calls the handler of its kind.

mod block;
mod copy;
mod dispatch;
mod execution;
mod inquiry;
mod mode;
mod primary;
mod reservations;

pub(crate) use execution::Context;
pub use execution::{Executed, Pending, Reading};
