//! The active replication run. There is one at a time, because two would share the same link. A
//! second request is refused with the name and progress of the active run.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use control::{Failure, FailureKind};
use units::VolumeName;

static UNDER_WAY: Mutex<Option<UnderWay>> = Mutex::new(None);

/// The state of a run.
#[derive(Clone, Debug)]
pub struct UnderWay {
    /// The dataset of the request.
    pub dataset: VolumeName,
    began: Instant,
    /// The volume on its way, its number from 1, and how many there are.
    volume: Option<(VolumeName, usize, usize)>,
    /// The text of the meter; empty at the beginning of a volume.
    progress: String,
}

impl fmt::Display for UnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "for {} s", self.began.elapsed().as_secs())?;
        let Some((volume, number, count)) = &self.volume else {
            return Ok(());
        };
        if *count > 1 {
            write!(f, ", {volume} ({number} of {count})")?;
        }
        match self.progress.as_str() {
            "" => Ok(()),
            progress => write!(f, ", {progress}"),
        }
    }
}

fn lock() -> MutexGuard<'static, Option<UnderWay>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The active run, if there is one.
pub fn now() -> Option<UnderWay> {
    lock().clone()
}

/// The right to run, until this is dropped.
pub struct Turn(());

impl Turn {
    /// Refused while another run is active.
    pub fn take(dataset: &VolumeName) -> Result<Self, Failure> {
        let mut under_way = lock();
        if let Some(other) = &*under_way {
            let message = format!("a replication of {} is under way, {other}", other.dataset);
            return Err(Failure::new(FailureKind::Busy, message).advise(
                "ask again when it is over; `bulkhead replicate list` shows how far it is",
            ));
        }
        *under_way = Some(UnderWay {
            dataset: dataset.clone(),
            began: Instant::now(),
            volume: None,
            progress: String::new(),
        });
        Ok(Self(()))
    }

    /// Volume `number`, from 1, of `count` is next.
    pub fn begin(&self, volume: &VolumeName, number: usize, count: usize) {
        if let Some(own) = &mut *lock() {
            own.volume = Some((volume.clone(), number, count));
            own.progress.clear();
        }
    }

    /// How far the volume is.
    pub fn set_progress(&self, progress: &str) {
        if let Some(own) = &mut *lock() {
            progress.clone_into(&mut own.progress);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_run_is_refused_until_the_first_ends() {
        let volume = |name: &str| name.parse::<VolumeName>().expect("a name");
        let turn = Turn::take(&volume("tank/vms")).expect("free");
        turn.begin(&volume("tank/vms/b"), 2, 5);
        turn.set_progress("1.2G of 4.0G, 30%");
        let refused = Turn::take(&volume("tank/v")).err().expect("refused");
        assert_eq!(refused.kind, FailureKind::Busy);
        for part in [
            "a replication of tank/vms is under way, for ",
            " s, tank/vms/b (2 of 5), 1.2G of 4.0G, 30%",
        ] {
            assert!(refused.message.contains(part), "{}", refused.message);
        }
        drop(turn);
        drop(Turn::take(&volume("tank/v")).expect("free again"));
        assert!(now().is_none());
    }
}
