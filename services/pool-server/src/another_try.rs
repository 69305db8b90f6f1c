//! Serves again what could not be served for a reason that goes away by itself, such as a port that another program has.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;

/// Pause between two tries.
const PAUSE: Duration = Duration::from_secs(3);
/// Looks meanwhile whether the server goes.
const LOOKS: u32 = 15;

/// Starts to, in a thread of its own, which ends with the server.
pub fn start(core: &Arc<Core>) -> std::io::Result<()> {
    let core = Arc::clone(core);
    let thread = std::thread::Builder::new().name("another-try".into());
    thread.spawn(move || run(&core)).map(drop)
}

fn run(core: &Core) {
    loop {
        for _ in 0..LOOKS {
            std::thread::sleep(PAUSE / LOOKS);
            if core.is_going() {
                return;
            }
        }
        core.serving.try_again();
        if core.serving.wants_another_try() && !core.watch.is_suspended() {
            try_again(core);
        }
    }
}

fn try_again(core: &Core) {
    // Refused when the server ends.
    let Ok(_changing) = core.changing() else {
        return;
    };
    if let Err(failure) = core.serving.reconcile() {
        tracing::error!(%failure, "serve again what could not be served");
    }
}
