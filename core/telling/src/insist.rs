//! Says again what matters, until it was heard or a deadline has passed. A thread of its own does that: whoever has
//! something to say has something to do.

use std::time::{Duration, Instant};

/// Pause between two attempts.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Attempts to say `what` at once, and if it is not heard, again and again for as long as `limit`. An attempt returns
/// whether it was heard, and must not wait.
pub fn insist(what: &str, limit: Duration, mut attempt: impl FnMut() -> bool + Send + 'static) {
    if attempt() {
        return;
    }
    let deadline = Instant::now() + limit;
    let what = what.to_owned();
    let again = move || {
        while Instant::now() < deadline {
            std::thread::sleep(AGAIN_AFTER);
            if attempt() {
                return;
            }
        }
        tracing::warn!(what, "nobody heard it in time");
    };
    let thread = std::thread::Builder::new().name("insist".into());
    if let Err(error) = thread.spawn(again) {
        tracing::warn!(%error, "what was not heard at once is not said again");
    }
}
