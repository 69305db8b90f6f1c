//! The duration of each step of an operation, in one line of the log.

use std::fmt;
use std::time::{Duration, Instant};

/// The steps so far.
#[derive(Debug)]
pub(super) struct Steps {
    begun: Instant,
    ended: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// No steps yet; the first one begins `now`.
    pub(super) const fn begin(now: Instant) -> Self {
        Self {
            begun: now,
            ended: Vec::new(),
        }
    }

    /// Completes a step, and begins the next one.
    pub(super) fn ended(&mut self, name: &'static str, now: Instant) {
        let took = now.saturating_duration_since(self.begun);
        self.begun = now;
        self.ended.push((name, took));
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, took)) in self.ended.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {} ms", took.as_millis())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_duration_is_time_since_previous_step() {
        let begun = Instant::now();
        let mut steps = Steps::begin(begun);
        steps.ended("ask", begun + Duration::from_millis(2));
        steps.ended("export", begun + Duration::from_millis(42));
        assert_eq!(steps.to_string(), "ask 2 ms, export 40 ms");
    }
}
