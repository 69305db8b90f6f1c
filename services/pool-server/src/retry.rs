//! Retries to serve exports that failed for a transient reason, such as a port in use by another process.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;

/// Delay between two attempts.
const PAUSE: Duration = Duration::from_secs(3);
/// Checks for shutdown during the delay.
const POLLS: u32 = 15;

/// Starts the retries in a thread of its own, which exits with the server.
pub fn start(core: &Arc<Core>) -> std::io::Result<()> {
    let core = Arc::clone(core);
    let thread = std::thread::Builder::new().name("another-try".into());
    thread.spawn(move || run(&core)).map(drop)
}

fn run(core: &Core) {
    loop {
        for _ in 0..POLLS {
            std::thread::sleep(PAUSE / POLLS);
            if core.is_shutting_down() {
                return;
            }
        }
        core.serving.try_again();
        if core.serving.wants_retry() && !core.watch.is_suspended() {
            try_again(core);
        }
    }
}

fn try_again(core: &Core) {
    // Refused when the server is shutting down.
    let Ok(_changing) = core.changing() else {
        return;
    };
    if let Err(failure) = core.serving.reconcile() {
        tracing::error!(%failure, "retry of failed exports");
    }
}
