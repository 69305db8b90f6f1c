//! Runs the snapshot and scrub schedules of the pool in a thread of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use control::replication::ReplicationGlance;
use control::schedule::{SCHEDULE_PROPERTY, SCRUB_PROPERTY};
use control::{Failure, FailureKind};
use operations::documents::All;
use operations::events::NewEvent;
use operations::schedule::{self, Memory, now_s};
use operations::{Context, replicate, scrub};

use super::core::Core;

/// Reconnecting clients are served before deferrable work.
const FIRST_CHECK_AFTER: Duration = Duration::from_secs(3);
/// Polling interval of the clock.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Polling interval of the copies that other pools send.
const COPIES_CHECK_S: u64 = 60;
/// Delay before a failure is retried.
const AGAIN_AFTER_S: u64 = 60;

/// Starts the thread.
pub fn start(core: &Arc<Core>) -> std::io::Result<()> {
    let core = Arc::clone(core);
    let thread = std::thread::Builder::new().name("pool-schedules".into());
    thread.spawn(move || run(&core)).map(drop)
}

fn run(core: &Core) {
    std::thread::sleep(FIRST_CHECK_AFTER);
    let mut plan = Plan::default();
    while !core.is_shutting_down() {
        if !core.watch.is_suspended() {
            let looked = plan.look(core, now_s());
            if looked.is_err() {
                plan.next_s = now_s() + AGAIN_AFTER_S;
            }
            if let Some(news) = plan.failed(looked.err()) {
                core.watch.journal().add(news);
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The schedules at the last check, and the next due times.
#[derive(Default)]
struct Plan {
    /// The documents at the last check: while they are unchanged, they are not parsed again. Weak, so that a change of
    /// one does not copy the rest.
    seen: Weak<All>,
    texts: BTreeMap<String, String>,
    looked_s: u64,
    next_s: u64,
    memory: Memory,
    scrub: scrub::Memory,
    /// The failure of the last check.
    failure: Option<String>,
    replication: replicate::health::Memory,
    /// Overdue copies at the last check, and its time.
    copies: (u64, Vec<ReplicationGlance>),
    copies_told: replicate::health::Memory,
}

impl Plan {
    /// The event for a failed check: each failure once, and the recovery.
    fn failed(&mut self, failure: Option<Failure>) -> Option<NewEvent> {
        // Concurrent changes and a shutdown are no failures.
        let failure = failure.filter(|failure| failure.kind != FailureKind::Busy);
        let message = failure.map(|failure| match failure.advice {
            Some(advice) => format!("{}; {advice}", failure.message),
            None => failure.message,
        });
        let before = std::mem::replace(&mut self.failure, message.clone());
        if before == message {
            return None;
        }
        let message = message?;
        let message = format!("schedules do not run: {message}; this is retried each minute");
        Some(NewEvent::of_pool("schedule", message, true))
    }

    /// Acts if a schedule is due, a schedule was changed, or the clock went back.
    fn look(&mut self, core: &Core, now_s: u64) -> Result<(), Failure> {
        let Some(pool) = core.pool.get() else {
            return Ok(());
        };
        let all = core.serving.documents.all(&*pool)?;
        let mut glances = replicate::health::glances(&all, now_s);
        let (looked_s, _) = self.copies;
        if now_s < looked_s || now_s - looked_s >= COPIES_CHECK_S {
            let context = Context {
                pool: &*pool,
                hooks: core,
                documents: &core.serving.documents,
            };
            self.copies = (now_s, replicate::late_copies(&context, now_s)?);
        }
        drop(pool);
        let (_, copies) = &self.copies;
        let news = self.replication.look(&glances).into_iter();
        for news in news.chain(self.copies_told.look(copies)) {
            core.watch.journal().add(news);
        }
        glances.extend(copies.iter().cloned());
        *core.replication.lock().expect("no holder panics") = glances;
        let seen = Arc::downgrade(&all);
        let mut is_same = now_s >= self.looked_s;
        self.looked_s = now_s;
        if !Weak::ptr_eq(&seen, &self.seen) {
            self.seen = seen;
            let texts = texts(&all);
            is_same &= texts == self.texts;
            self.texts = texts;
        }
        if is_same && (now_s < self.next_s || self.texts.is_empty()) {
            return Ok(());
        }
        self.next_s = now_s + AGAIN_AFTER_S;
        let has_failed = self.act(core, now_s)?;
        let moments = schedule::next_due_time(self.texts.values().map(String::as_str), now_s);
        let again = has_failed.then_some(now_s + AGAIN_AFTER_S);
        let scrub = scrub::next_due_time(&all, core.name.as_str(), now_s);
        let next = moments.into_iter().chain(again).chain(scrub).min();
        self.next_s = next.unwrap_or(u64::MAX);
        Ok(())
    }

    fn act(&mut self, core: &Core, now_s: u64) -> Result<bool, Failure> {
        let _changing = core.changing()?;
        let pool = core.pool.require()?;
        let context = Context {
            pool: &*pool,
            hooks: core,
            documents: &core.serving.documents,
        };
        let outcome = schedule::run(&context, &mut self.memory, now_s)?;
        if outcome.taken + outcome.removed > 0 {
            tracing::info!(
                taken = outcome.taken,
                removed = outcome.removed,
                "scheduled snapshots"
            );
        }
        let (begun, is_later) = scrub::obey(&context, &mut self.scrub, now_s)?;
        let news: Vec<NewEvent> = outcome.news.into_iter().chain(begun).collect();
        drop(pool);
        news.into_iter()
            .for_each(|one| core.watch.journal().add(one));
        Ok(outcome.has_failed || is_later)
    }
}

/// The schedules in the pool, by property and dataset.
fn texts(all: &All) -> BTreeMap<String, String> {
    let properties = [SCHEDULE_PROPERTY, SCRUB_PROPERTY].into_iter();
    let found = properties.flat_map(|property| {
        let pairs = all.having(property);
        pairs.map(move |(of, text)| (format!("{property} {of}"), text.to_owned()))
    });
    found.collect()
}
