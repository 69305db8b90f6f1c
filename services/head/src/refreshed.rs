//! A value that a thread updates in the background when it is old: its source is slow, and must never block a request.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The value.
#[derive(Default)]
pub struct Refreshed<T> {
    last: Mutex<Last<T>>,
}

#[derive(Default)]
struct Last<T> {
    value: Arc<T>,
    started: Option<Instant>,
    /// Whether a thread updates it: its source may hang.
    is_updating: bool,
}

impl<T: Send + Sync + 'static> Refreshed<T> {
    /// Begins with this value, which is old.
    pub fn new(value: T) -> Self {
        let last = Last {
            value: Arc::new(value),
            started: None,
            is_updating: false,
        };
        Self {
            last: Mutex::new(last),
        }
    }

    /// The last value. Starts a thread of this name that calls `update` with it, if the last update began longer than
    /// `age_max` ago and none is under way.
    pub fn get(
        self: &Arc<Self>,
        name: &str,
        age_max: Duration,
        update: impl FnOnce(&T) -> T + Send + 'static,
    ) -> Arc<T> {
        let mut last = self.last.lock().expect("no holder panics");
        let is_old = last.started.is_none_or(|at| at.elapsed() > age_max);
        if is_old && !last.is_updating {
            last.started = Some(Instant::now());
            let (own, old) = (Arc::clone(self), Arc::clone(&last.value));
            let run = move || {
                let value = Arc::new(update(&old));
                let mut last = own.last.lock().expect("no holder panics");
                last.value = value;
                last.is_updating = false;
            };
            let started = std::thread::Builder::new().name(name.into()).spawn(run);
            // Without a thread, the old value stays.
            last.is_updating = started.is_ok();
        }
        Arc::clone(&last.value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn one_thread_updates_an_old_value_without_a_delay() {
        let value = Arc::new(Refreshed::new(1));
        let (release, held) = channel::<()>();
        let update = move |old: &i32| {
            held.recv().expect("released");
            old + 1
        };
        assert_eq!(*value.get("update", Duration::ZERO, update), 1);
        // It is old, and the thread still runs.
        let second = |_: &i32| panic!("there is a thread");
        assert_eq!(*value.get("second", Duration::ZERO, second), 1);
        release.send(()).expect("it receives");
        let deadline = Instant::now() + Duration::from_secs(30);
        let is_updated = || *value.get("none", Duration::MAX, |_| 0) == 2;
        while !is_updated() {
            assert!(Instant::now() < deadline, "the value is updated");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
