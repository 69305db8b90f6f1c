//! Replaces the contents of a volume under its clients: commands are paused, the contents are exchanged, every client
//! is notified by its protocol, and commands resume.

use std::time::{Duration, Instant};

use control::{Failure, FailureKind};
use engine::Paused;
use engine::dataset::DatasetErrorKind;
use operations::{ContentsSwapped, dataset_failure};
use units::VolumeName;

use super::serving::Serving;

/// Time limit for active commands to complete before the exchange. They complete when the pool's devices respond, and
/// clients that are delayed longer begin to give up.
const PAUSE_WAIT: Duration = Duration::from_secs(10);

impl Serving {
    /// Pauses the clients of `name`, has `swap` replace its contents, and notifies them. `None` if it is not served.
    pub fn swap_contents(
        &self,
        name: &VolumeName,
        swap: &mut dyn FnMut(&dyn Paused) -> Result<(), Failure>,
    ) -> Result<Option<ContentsSwapped>, Failure> {
        if !self.volumes.open(name)? {
            return Ok(None);
        }
        let Some(volume) = self.volumes.open_volume(name) else {
            return Ok(None);
        };
        let begun = Instant::now();
        let paused = volume.pause(PAUSE_WAIT).map_err(|error| match error.kind {
            DatasetErrorKind::Busy => in_use(name),
            _ => dataset_failure(error),
        })?;
        let size_before = paused.size();
        swap(&*paused)?;
        self.volumes.resized(name);
        // Clients are notified before any can read the new contents.
        let told = self.notify_contents_changed(name, paused.size() != size_before);
        drop(paused);
        Ok(Some(ContentsSwapped {
            pause: begun.elapsed(),
            sessions_told: told.sessions,
            connections_closed: told.closed,
        }))
    }
}

fn in_use(name: &VolumeName) -> Failure {
    let message = format!(
        "commands on {name} did not complete within {} seconds, and nothing was changed",
        PAUSE_WAIT.as_secs()
    );
    Failure::new(FailureKind::Busy, message)
        .advise("`bulkhead status` shows whether a device is slow; then try again")
}
