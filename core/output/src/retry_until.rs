//! Retries a notification until it is delivered or a deadline has passed. A thread of its own does that, so that the
//! caller is not blocked.

use std::time::{Duration, Instant};

/// Interval of attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Attempts to deliver `what` at once, and retries for up to `limit` otherwise. An attempt returns whether it was
/// delivered, and must not block.
pub fn retry_until(
    what: &str,
    limit: Duration,
    mut attempt: impl FnMut() -> bool + Send + 'static,
) {
    if attempt() {
        return;
    }
    let deadline = Instant::now() + limit;
    let what = what.to_owned();
    let again = move || {
        while Instant::now() < deadline {
            std::thread::sleep(RETRY_INTERVAL);
            if attempt() {
                return;
            }
        }
        tracing::warn!(what, "no reader received it in time");
    };
    let thread = std::thread::Builder::new().name("retry_until".into());
    if let Err(error) = thread.spawn(again) {
        tracing::warn!(%error, "a notification that was not delivered at once is not retried");
    }
}
