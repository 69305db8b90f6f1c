//! Counts the uses of a volume, so that it can be closed and paused.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

#[derive(Default)]
struct State {
    is_closed: bool,
    is_paused: bool,
    /// Calls and read loans under way.
    uses: u32,
    /// Write loans that are not committed yet.
    lent: u32,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

/// Why one may not enter, or not pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shut {
    /// For good.
    Closed,
    /// For a moment.
    Busy,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn wait_until<'a>(
        &'a self,
        guard: MutexGuard<'a, State>,
        mut is_done: impl FnMut(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_while(guard, |state| !is_done(state));
        waited.expect("no holder panics")
    }

    /// Begins a use, after a pause if `waits`.
    pub(crate) fn enter(&self, waits: bool) -> Result<(), Shut> {
        self.enter_if(waits, |state| !state.is_closed)
    }

    /// Begins a use for something that is lent, for which closing waits.
    pub(crate) fn enter_with_loan(&self, waits: bool) -> Result<(), Shut> {
        self.enter_if(waits, |_| true)
    }

    fn enter_if(&self, waits: bool, may: impl Fn(&State) -> bool) -> Result<(), Shut> {
        let mut state = self.lock();
        if waits {
            state = self.wait_until(state, |state| !state.is_paused || !may(state));
        }
        match (may(&state), state.is_paused) {
            (false, _) => Err(Shut::Closed),
            (true, true) => Err(Shut::Busy),
            (true, false) => {
                state.uses += 1;
                Ok(())
            }
        }
    }

    /// Ends a use.
    pub(crate) fn leave(&self) {
        self.lock().uses -= 1;
        self.changed.notify_all();
    }

    /// Begins a loan. Nothing is lent during a pause.
    pub(crate) fn lend(&self) -> Result<(), Shut> {
        self.enter(false)?;
        self.lock().lent += 1;
        self.leave();
        Ok(())
    }

    /// Ends a loan.
    pub(crate) fn give_back(&self) {
        self.lock().lent -= 1;
        self.changed.notify_all();
    }

    /// Lets nobody in any more, and waits for uses, loans and pauses to end.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        self.changed.notify_all();
        let is_unused = |state: &State| state.uses == 0 && state.lent == 0 && !state.is_paused;
        drop(self.wait_until(state, is_unused));
    }

    /// Keeps newcomers out and waits for uses to end, no longer than `wait`.
    pub(crate) fn pause(&self, wait: Duration) -> Result<(), Shut> {
        let mut state = self.lock();
        match (state.is_closed, state.is_paused) {
            (true, _) => return Err(Shut::Closed),
            (false, true) => return Err(Shut::Busy),
            (false, false) => state.is_paused = true,
        }
        let is_used = |state: &mut State| state.uses > 0;
        let waited = self.changed.wait_timeout_while(state, wait, is_used);
        let (mut state, _) = waited.expect("no holder panics");
        if state.uses == 0 {
            return Ok(());
        }
        state.is_paused = false;
        self.changed.notify_all();
        Err(Shut::Busy)
    }

    /// Ends a pause.
    pub(crate) fn resume(&self) {
        self.lock().is_paused = false;
        self.changed.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }
}
