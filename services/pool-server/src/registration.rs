//! The file in which an agent registers the server that it started. An agent that is killed before it has registered
//! the server leaves one that no agent would stop. Therefore the server opens nothing, not even its socket, before it
//! is registered.

use std::path::Path;
use std::time::{Duration, Instant};

use cluster::agent::ServerProcess;
use control::{Failure, FailureKind};

/// Longest time from the start of a server to its registration: the agent does nothing else in between.
const WAIT: Duration = Duration::from_secs(5);
/// Polling interval. The first check nearly always succeeds.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Blocks until this process is registered in the file `note`.
pub fn wait(note: &Path) -> Result<(), Failure> {
    let deadline = Instant::now() + WAIT;
    let agent = std::os::unix::process::parent_id();
    while !ServerProcess::is_noted(note, std::process::id()) {
        let is_abandoned = std::os::unix::process::parent_id() != agent;
        if is_abandoned || Instant::now() >= deadline {
            let message = format!(
                "the agent that started this server has not noted it in {}",
                note.display()
            );
            return Err(Failure::new(FailureKind::Failed, message));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}
