//! Stores the events of the pool in memory and in the pool. A thread of its own writes them, because a suspended pool
//! blocks the writer.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use control::Answer;
use control::answer::Event;
use control::legs::LegsView;
use operations::events::{self, EVENTS_MAX, NewEvent};

use super::pending_events::PendingEvents;
use super::shared_pool::SharedPool;

/// Most events that are queued for the pool; further ones are only shown.
const UNWRITTEN_MAX: usize = 256;
/// Longest time that the shutdown is delayed until the last event is written.
const END_WAIT: Duration = Duration::from_secs(2);

/// A member of the record of legs does not respond any more. The message begins with its name.
pub const MEMBER_LOST: &str = "member_lost";
/// It responds again.
pub const MEMBER_BACK: &str = "member_back";

/// The event journal.
pub struct Journal {
    state: Mutex<State>,
    /// The names of the pool's legs, if it has any.
    legs: Mutex<LegsView>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Newest last. Includes earlier servers' events after the history is read.
    events: VecDeque<Event>,
    unwritten: VecDeque<Event>,
    /// The file for events that the pool cannot accept now.
    pending: Option<PendingEvents>,
    /// Whether the history was read or is unreadable.
    is_history_loaded: bool,
    /// Whether writes to the pool are blocked.
    is_stuck: bool,
    ended: bool,
}

/// The time of this host, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    UNIX_EPOCH.elapsed().unwrap_or_default().as_millis() as u64
}

impl Journal {
    /// An empty journal. Events that a suspended pool cannot accept are stored in the file `pending`.
    pub fn new(pending: PathBuf) -> Arc<Self> {
        let state = State {
            pending: Some(PendingEvents::new(pending)),
            ..State::default()
        };
        Arc::new(Self {
            state: Mutex::new(state),
            legs: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// Starts the thread that reads and writes the history in `pool`.
    pub fn start(self: &Arc<Self>, pool: &Arc<SharedPool>) -> std::io::Result<()> {
        let (own, pool) = (Arc::clone(self), Arc::clone(pool));
        std::thread::Builder::new()
            .name("pool-journal".into())
            .spawn(move || own.run(&pool))
            .map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Sets the names of legs for later events.
    pub fn set_legs(&self, legs: &LegsView) {
        self.legs.lock().expect("no holder panics").clone_from(legs);
    }

    /// Stores and logs an event.
    pub fn add(&self, news: NewEvent) {
        self.add_at(news, now_ms());
    }

    /// Like [`Self::add`], with a time in milliseconds since 1970.
    pub fn add_at(&self, news: NewEvent, at_ms: u64) {
        let legs = self.legs.lock().expect("no holder panics");
        let news = NewEvent {
            device: news.device.map(|device| legs.with_names(&device)),
            message: legs.with_names(&news.message),
            ..news
        };
        drop(legs);
        let device = news.device.as_deref().unwrap_or_default();
        match news.is_bad {
            true if device.is_empty() => tracing::error!(kind = news.kind, "{}", news.message),
            true => tracing::warn!(kind = news.kind, device, "{}", news.message),
            false => tracing::info!(kind = news.kind, device, "{}", news.message),
        }
        let mut state = self.lock();
        let number = state.events.back().map_or(1, |last| last.number + 1);
        let event = Event {
            number,
            at_ms,
            kind: news.kind.to_owned(),
            device: news.device,
            message: news.message,
        };
        if state.unwritten.len() < UNWRITTEN_MAX {
            state.unwritten.push_back(event.clone());
        }
        match event.kind.as_str() {
            "suspended" => state.is_stuck = true,
            "resumed" => state.is_stuck = false,
            _ => {}
        }
        state.keep(event);
        state.keep_unwritten();
        self.changed.notify_all();
    }

    /// Events with a number above `after`, oldest first. Never blocks.
    pub fn list(&self, after: Option<u64>) -> Answer {
        let state = self.lock();
        let events = state.events.iter();
        let newer = events.filter(|event| after.is_none_or(|after| event.number > after));
        Answer::Events(newer.cloned().collect())
    }

    /// The kind and time, in milliseconds, of the device's newest event that `is_wanted` accepts.
    pub fn newest(&self, device: &str, is_wanted: fn(&str) -> bool) -> Option<(String, u64)> {
        let state = self.lock();
        let is_of =
            |event: &&Event| event.device.as_deref() == Some(device) && is_wanted(&event.kind);
        let newest = state.events.iter().rev().find(is_of);
        newest.map(|event| (event.kind.clone(), event.at_ms))
    }

    /// Since when a member of the record does not respond, in milliseconds, by the events of this server and of earlier
    /// ones. Each server stores an event of its own when it starts.
    pub fn lost_since(&self, member: &str) -> Option<u64> {
        let state = self.lock();
        lost_since(state.events.iter().rev(), member)
    }

    /// Whether earlier servers' events are loaded, or never will be.
    pub fn is_history_loaded(&self) -> bool {
        self.lock().is_history_loaded
    }

    /// Blocks until all events are written, up to `END_WAIT`.
    pub fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        self.changed.notify_all();
        let left = |state: &mut State| !state.unwritten.is_empty();
        let _ = self.changed.wait_timeout_while(state, END_WAIT, left);
    }

    fn run(&self, pool: &SharedPool) {
        let Some(open) = pool.get() else { return };
        let earlier = match open.history() {
            Ok(_) => events::read(&*open),
            Err(_) => Ok(Vec::new()),
        };
        drop(open);
        match earlier {
            Ok(earlier) => {
                let mut state = self.lock();
                let left = state
                    .pending
                    .as_ref()
                    .map(PendingEvents::left)
                    .unwrap_or_default();
                state.prepend_earlier(earlier, left);
            }
            Err(failure) => tracing::warn!(%failure, "cannot read the pool's history"),
        }
        self.lock().is_history_loaded = true;
        while let Some(event) = self.next() {
            let Some(open) = pool.get() else { return };
            // Without a history only this server has its events.
            if let Ok(history) = open.history() {
                if let Err(error) = history.add_to_history(&events::record(&event)) {
                    tracing::warn!(%error, "cannot store an event in the pool");
                }
            }
            drop(open);
            let mut state = self.lock();
            state.unwritten.pop_front();
            state.keep_unwritten();
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The event to write next; `None` at shutdown.
    fn next(&self) -> Option<Event> {
        let nothing = |state: &mut State| state.unwritten.is_empty() && !state.ended;
        let state = self.changed.wait_while(self.lock(), nothing);
        state.expect("no holder panics").unwritten.front().cloned()
    }
}

/// The first loss of a member after its last return, in events of which the newest is the first.
fn lost_since<'a>(events: impl Iterator<Item = &'a Event>, member: &str) -> Option<u64> {
    let of_member = events.filter(|event| {
        let rest = event.message.strip_prefix(member);
        let is_of_member = rest.is_some_and(|rest| rest.starts_with(' '));
        is_of_member && matches!(event.kind.as_str(), MEMBER_LOST | MEMBER_BACK)
    });
    let losses = of_member.take_while(|event| event.kind == MEMBER_LOST);
    losses.last().map(|event| event.at_ms)
}

impl State {
    fn keep(&mut self, event: Event) {
        self.events.push_back(event);
        if self.events.len() > EVENTS_MAX {
            self.events.pop_front();
        }
    }

    /// Stores pending events in the file while the pool is blocked. Empties the file when none are left.
    fn keep_unwritten(&mut self) {
        let Some(pending) = &mut self.pending else {
            return;
        };
        match self.is_stuck {
            true => pending.keep(self.unwritten.iter()),
            false if self.unwritten.is_empty() => pending.keep(std::iter::empty()),
            false => {}
        }
    }

    /// Inserts `earlier`, and the events of `left` that are not in it, before the events of this server, which are
    /// renumbered.
    fn prepend_earlier(&mut self, mut earlier: Vec<Event>, left: Vec<Event>) {
        let is_same = |a: &Event, b: &Event| a.at_ms == b.at_ms && a.message == b.message;
        let written = earlier.len();
        for mut event in left.into_iter().take(UNWRITTEN_MAX) {
            if !earlier.iter().any(|known| is_same(known, &event)) {
                event.number = earlier.last().map_or(1, |last| last.number + 1);
                earlier.push(event);
            }
        }
        let last = earlier.last().map_or(0, |event| event.number);
        for event in self.events.iter_mut().chain(&mut self.unwritten) {
            event.number += last;
        }
        for event in earlier[written..].iter().rev() {
            self.unwritten.push_front(event.clone());
        }
        for event in earlier.into_iter().rev() {
            if self.events.len() < EVENTS_MAX {
                self.events.push_front(event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u64) -> Event {
        Event {
            number,
            ..Event::default()
        }
    }

    #[test]
    fn events_before_the_history_is_read_are_renumbered() {
        let mut state = State::default();
        state.keep(event(1));
        state.unwritten.push_back(event(1));
        state.prepend_earlier(vec![event(7), event(8)], Vec::new());
        let numbers: Vec<u64> = state.events.iter().map(|event| event.number).collect();
        assert_eq!(numbers, [7, 8, 9]);
        assert_eq!(state.unwritten[0].number, 9);
    }

    #[test]
    fn unwritten_events_of_a_previous_server_are_written_once() {
        let told = |number, at_ms| Event {
            at_ms,
            ..event(number)
        };
        let mut state = State::default();
        state.keep(told(1, 9));
        state.unwritten.push_back(told(1, 9));
        state.prepend_earlier(vec![told(7, 5)], vec![told(7, 5), told(8, 6)]);
        let numbers = |events: &VecDeque<Event>| -> Vec<(u64, u64)> {
            events
                .iter()
                .map(|event| (event.number, event.at_ms))
                .collect()
        };
        assert_eq!(numbers(&state.events), [(7, 5), (8, 6), (9, 9)]);
        assert_eq!(numbers(&state.unwritten), [(8, 6), (9, 9)]);
    }

    #[test]
    fn oldest_events_are_evicted() {
        let mut state = State::default();
        (1..=EVENTS_MAX as u64 + 5).for_each(|number| state.keep(event(number)));
        assert_eq!(state.events.len(), EVENTS_MAX);
        assert_eq!(state.events[0].number, 6);
    }

    /// The pool was moved: the server on the other head has stored an event when it started.
    #[test]
    fn loss_of_a_member_dates_from_its_first_event_after_its_return() {
        let told = |at_ms, kind: &str, message: &str| Event {
            at_ms,
            kind: kind.to_owned(),
            message: message.to_owned(),
            ..Event::default()
        };
        let events = [
            told(1, MEMBER_LOST, "witness does not respond (refused)"),
            told(2, MEMBER_BACK, "witness answers again"),
            told(3, MEMBER_LOST, "witness does not respond (refused)"),
            told(4, MEMBER_LOST, "witness-b does not respond (refused)"),
            told(5, "imported", "imported by bulkhead on right"),
            told(6, MEMBER_LOST, "witness does not respond (timed out)"),
        ];
        let since = |count: usize| lost_since(events[..count].iter().rev(), "witness");
        assert_eq!(since(6), Some(3));
        assert_eq!(since(2), None);
        assert_eq!(since(1), Some(1));
    }
}
