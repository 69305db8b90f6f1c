//! A wall clock that jumps on one head, while the monotonic clocks are unaffected.

use std::time::{SystemTime, UNIX_EPOCH};

use lab::Node;
use units::HeadName;

use super::heads::server_pid;
use crate::environment::Environment;
use crate::error::DrillError;
use crate::fault::Fault;

/// How far a clock jumps, in seconds.
pub const JUMP_S: i32 = 3_600;
/// Tolerance for the time that reading a head's clock needs, in seconds.
const READ_TOLERANCE_S: i64 = 60;
/// The library by which programs learn the clock of their head, as it is called in the maps of a process.
const LIBRARY: &str = "/clock.so";

/// Sets the clock of `head`, and verifies that its processes see the change.
pub fn jump(environment: &Environment, head: &HeadName, ahead_s: i32) -> Result<Fault, DrillError> {
    let pid = server_pid(environment)?;
    let direction = if ahead_s < 0 { "back" } else { "ahead" };
    let words = format!("the clock of {head} jumps {} s {direction}", ahead_s.abs());
    let mut fault = Fault::of_head(words, head);
    environment.lab.set_clock(head, ahead_s)?;
    let shown = environment
        .lab
        .must(&Node::Head(head.clone()), "date", &["+%s"])?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs()) as i64;
    let seen = shown.trim().parse::<i64>().unwrap_or(now) - now;
    if (seen - i64::from(ahead_s)).abs() > READ_TOLERANCE_S {
        fault
            .complaints
            .push(format!("programs of {head} see a jump of {seen} s"));
    }
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
    if !maps.is_ok_and(|maps| maps.contains(LIBRARY)) {
        fault
            .complaints
            .push("the pool's server does not see the clock of its head".to_owned());
    }
    Ok(fault)
}
