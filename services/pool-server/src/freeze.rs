//! Freezes of volumes: changes by clients are held for a bounded time, so that a copy elsewhere is consistent. Reads
//! continue. A freeze is stored in memory only: a restart of the server removes it.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use block_device::WaitMode;
use control::answer::FrozenView;
use engine::gate::{Gate, NoPause};

use super::journal::now_ms;

/// Admits changes of a volume, and holds them while it is frozen. The blocked calls themselves end an expired freeze,
/// so that no client depends on another thread for that.
#[derive(Default)]
pub struct FreezeGate {
    gate: Gate,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// The freeze that begins or is active.
    current: Option<Freeze>,
    /// The newest expired freeze, until the next one begins.
    expired: Option<Expired>,
}

/// A freeze that begins or is active.
#[derive(Clone, Copy)]
struct Freeze {
    begun: Instant,
    until: Instant,
    view: FrozenView,
}

/// A freeze that ended by its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expired {
    view: FrozenView,
    is_reported: bool,
}

/// The result of a thaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thawed {
    /// It was frozen until now.
    Frozen(FrozenView),
    /// Its freeze had expired.
    Expired(FrozenView),
    /// This server has no record of a freeze.
    Never,
}

/// An active change.
pub struct Change<'a>(&'a Gate);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl FreezeGate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Begins a change. `None`: it would block and must not.
    pub fn enter(&self, wait_mode: WaitMode<'_>) -> Option<Change<'_>> {
        loop {
            if self.gate.enter().is_ok() {
                return Some(Change(&self.gate));
            }
            if !self.await_end(wait_mode.may_block()) {
                return None;
            }
        }
    }

    /// Blocks until the freeze is over. `false`: it continues, and the caller must not block.
    fn await_end(&self, may_block: bool) -> bool {
        let mut state = self.lock();
        loop {
            self.expire(&mut state);
            let Some(freeze) = &state.current else {
                return true;
            };
            if !may_block {
                return false;
            }
            let left = freeze.until.saturating_duration_since(Instant::now());
            let waited = self.ended.wait_timeout(state, left);
            state = waited.expect("no holder panics").0;
        }
    }

    /// Removes an expired freeze.
    fn expire(&self, state: &mut State) {
        let is_over = |freeze: &Freeze| freeze.until <= Instant::now();
        if state.current.as_ref().is_some_and(is_over) {
            state.expired = self.end(state).map(|view| Expired {
                view,
                is_reported: false,
            });
        }
    }

    /// Releases the held changes.
    fn end(&self, state: &mut State) -> Option<FrozenView> {
        let freeze = state.current.take()?;
        self.gate.resume();
        self.ended.notify_all();
        Some(freeze.view)
    }

    /// Holds new changes for at most `lasting`, after at most `wait` for active ones.
    ///
    /// # Errors
    ///
    /// A change takes longer, the volume is frozen already, or a thaw arrived concurrently; no change is held for this
    /// call then.
    pub fn freeze(&self, wait: Duration, lasting: Duration) -> Result<(), NoPause> {
        self.begin(lasting)?;
        self.complete(wait)
    }

    /// Registers a freeze that holds no change yet.
    fn begin(&self, lasting: Duration) -> Result<(), NoPause> {
        let mut state = self.lock();
        self.expire(&mut state);
        if state.current.is_some() {
            return Err(NoPause::InUse);
        }
        *state = State {
            current: Some(Freeze::of(now_ms(), Instant::now(), lasting)),
            expired: None,
        };
        Ok(())
    }

    /// Holds changes for the registered freeze.
    fn complete(&self, wait: Duration) -> Result<(), NoPause> {
        let mut paused = self.gate.pause(wait);
        let mut state = self.lock();
        if paused.is_ok() && state.current.is_none() {
            // A thaw arrived before the pause, which it could not release.
            self.gate.resume();
            paused = Err(NoPause::InUse);
        }
        if paused.is_err() {
            state.current = None;
            self.ended.notify_all();
        }
        paused
    }

    /// Extends the freeze by `lasting` from now. `None`: it has ended.
    pub fn extend(&self, lasting: Duration) -> Option<FrozenView> {
        let mut state = self.lock();
        self.expire(&mut state);
        let freeze = state.current.as_mut()?;
        *freeze = Freeze::of(
            freeze.view.since_ms,
            freeze.begun,
            freeze.begun.elapsed() + lasting,
        );
        // Blocked changes must read the new deadline.
        self.ended.notify_all();
        Some(freeze.view)
    }

    /// Removes the freeze, if there is one.
    pub fn thaw(&self) -> Thawed {
        let mut state = self.lock();
        self.expire(&mut state);
        match (self.end(&mut state), state.expired) {
            (Some(view), _) => Thawed::Frozen(view),
            (None, Some(expired)) => Thawed::Expired(expired.view),
            (None, None) => Thawed::Never,
        }
    }

    /// The active freeze, and its age.
    pub fn frozen(&self) -> Option<(FrozenView, Duration)> {
        let mut state = self.lock();
        self.expire(&mut state);
        state
            .current
            .map(|freeze| (freeze.view, freeze.begun.elapsed()))
    }

    /// A freeze that expired since the last call.
    pub fn newly_expired(&self) -> Option<FrozenView> {
        let mut state = self.lock();
        self.expire(&mut state);
        let expired = state.expired.as_mut().filter(|one| !one.is_reported)?;
        expired.is_reported = true;
        Some(expired.view)
    }
}

impl Freeze {
    fn of(since_ms: u64, begun: Instant, lasting: Duration) -> Self {
        let until_ms = since_ms + lasting.as_millis() as u64;
        Self {
            begun,
            until: begun + lasting,
            view: FrozenView { since_ms, until_ms },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn change_blocks_until_thaw_and_nonblocking_one_is_refused() {
        let gate = FreezeGate::default();
        gate.freeze(LONG, LONG).expect("no change is active");
        assert!(gate.enter(WaitMode::NoWait).is_none());
        assert!(gate.freeze(LONG, LONG).is_err(), "it is frozen already");
        std::thread::scope(|scope| {
            let (sender, entered) = mpsc::channel();
            let gate = &gate;
            scope.spawn(move || {
                let change = gate.enter(WaitMode::MayBlock);
                sender.send(change.is_some()).expect("received");
            });
            assert!(entered.recv_timeout(SHORT).is_err(), "it is frozen");
            assert!(matches!(gate.thaw(), Thawed::Frozen(_)));
            assert_eq!(entered.recv_timeout(LONG), Ok(true));
        });
        assert_eq!(gate.thaw(), Thawed::Never);
    }

    #[test]
    fn expired_freeze_resumes_changes_and_is_reported_once() {
        let gate = FreezeGate::default();
        gate.freeze(LONG, SHORT).expect("no change is under way");
        let begun = Instant::now();
        assert!(gate.enter(WaitMode::MayBlock).is_some());
        assert!(begun.elapsed() < LONG);
        assert!(gate.frozen().is_none());
        assert!(gate.newly_expired().is_some() && gate.newly_expired().is_none());
        assert!(matches!(gate.thaw(), Thawed::Expired(_)));
        gate.freeze(LONG, LONG).expect("no change is under way");
        assert!(matches!(gate.thaw(), Thawed::Frozen(_)));
        assert_eq!(
            gate.thaw(),
            Thawed::Never,
            "the newest freeze did not expire"
        );
    }

    #[test]
    fn slow_change_prevents_the_freeze() {
        let gate = FreezeGate::default();
        let change = gate.enter(WaitMode::NoWait).expect("not frozen");
        assert_eq!(gate.freeze(Duration::ZERO, LONG), Err(NoPause::InUse));
        assert!(gate.frozen().is_none() && gate.enter(WaitMode::NoWait).is_some());
        drop(change);
        gate.freeze(LONG, LONG).expect("no change is under way");
    }

    /// A server shutdown or the removal of an export thaws the volume while a freeze begins.
    #[test]
    fn thaw_during_a_starting_freeze_releases_all_changes() {
        let gate = FreezeGate::default();
        gate.begin(LONG).expect("not frozen");
        gate.thaw();
        assert_eq!(gate.complete(LONG), Err(NoPause::InUse));
        assert!(gate.enter(WaitMode::NoWait).is_some());
        gate.freeze(LONG, LONG).expect("no change is under way");
    }

    #[test]
    fn freeze_extension_moves_the_end_only() {
        let gate = FreezeGate::default();
        assert!(gate.extend(LONG).is_none());
        gate.freeze(LONG, SHORT).expect("no change is under way");
        let (first, _) = gate.frozen().expect("frozen");
        let extended = gate.extend(LONG).expect("frozen");
        assert_eq!(extended.since_ms, first.since_ms);
        assert!(extended.until_ms >= first.since_ms + LONG.as_millis() as u64);
        std::thread::sleep(2 * SHORT);
        assert!(gate.enter(WaitMode::NoWait).is_none(), "it lasts on");
    }
}
