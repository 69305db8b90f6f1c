//! Limits the log lines that a misbehaving client can cause. The crate `governor` is not used,
//! because it does not count suppressed lines.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Maximum lines per period.
const LINES_MAX: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);

/// Counts lines per period and suppresses those over the limit.
#[derive(Debug)]
pub(crate) struct LogLimit(Mutex<State>);

#[derive(Debug)]
struct State {
    since: Instant,
    lines: u32,
}

impl LogLimit {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            since: Instant::now(),
            lines: 0,
        }))
    }

    /// Whether one more line may be logged.
    pub(crate) fn allow(&self) -> bool {
        let mut state = self.0.lock().expect("no holder panics");
        if state.since.elapsed() > PERIOD {
            let swallowed = state.lines.saturating_sub(LINES_MAX);
            if swallowed > 0 {
                tracing::warn!(swallowed, "messages about clients were not logged");
            }
            *state = State {
                since: Instant::now(),
                lines: 0,
            };
        }
        state.lines = state.lines.saturating_add(1);
        state.lines <= LINES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_flood_is_limited() {
        let limit = LogLimit::new();
        let logged = (0..1000).filter(|_| limit.allow()).count();
        assert_eq!(logged, LINES_MAX as usize);
    }
}
