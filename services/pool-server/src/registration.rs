//! The note by which an agent finds the server that it started. An agent that is killed before it has written
//! it leaves a server that nobody would stop; so the server opens nothing, and is found by nobody, before it is noted.

use std::path::Path;
use std::time::{Duration, Instant};

use cluster::agent::ServerProcess;
use control::{Failure, FailureKind};

/// How long an agent may take from the start of a server to the note of it: it does nothing between.
const WAIT: Duration = Duration::from_secs(5);
/// Pause between two looks. The first finds it nearly always.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Waits until this process is noted in the file `note`.
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
        std::thread::sleep(LOOK_INTERVAL);
    }
    Ok(())
}
