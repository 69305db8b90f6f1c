//! Tracks the free space for clients and decides which events to report. The decisions are pure: the caller passes the
//! observation and the time.
//!
//! The space is that of the root dataset (after parity and ZFS's reserve), not the devices' size, allocated and free.
//! On a small pool ZFS reserves half, and on raidz a third is parity: 51 % allocated would look healthy while clients
//! get ENOSPC. If a volume has less than its size reserved, written and reserved space counts as full. Otherwise only
//! written space counts: no client can be refused, and a pool of reserved volumes would be full from its first day.
//!
//! A pool is reported full at 80, 90 and 95 %, each once, and as having room again 2 points below. The first refused
//! write is an event, an error in the log, an advice and an alert.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use control::answer::PoolSpace;
use control::space::{FullChange, FullLevel};
use control::words::bytes;
use engine::Pool;
use operations::events::NewEvent;
use operations::space::{self, Promises};
use units::VolumeName;

/// Datasets are read again after this time if no change of them is known.
const PROMISES_AGE_MAX: Duration = Duration::from_secs(10);
/// The minimum pause as a multiple of the time of the read.
const PROMISES_REST: u32 = 50;
/// How long after a refused write the pool is reported to refuse writes.
const REFUSES_FOR: Duration = Duration::from_secs(300);
/// Refused writes are reported again after this time.
const REFUSED_AGAIN: Duration = Duration::from_secs(600);
/// With this much room a volume with refused writes accepts writes again.
const ROOM_BYTES: u64 = 4 << 20;
/// Most volumes with refused writes that are tracked.
const FULL_VOLUMES_MAX: usize = 64;
/// Volumes that are named in one event.
const NAMES_MAX: usize = 3;
/// With this share free, a refused write hit a quota, not the end of the pool.
const FREE_FOR_QUOTA_PERCENT: u64 = 10;

/// The requirements of all datasets, cached because each must be read.
#[derive(Default)]
pub struct Room {
    promises: Option<Known>,
    level: FullLevel,
    last: Option<PoolSpace>,
}

struct Known {
    promises: Promises,
    at: Instant,
    took: Duration,
}

impl Room {
    /// Returns the space of `pool`. `is_stale` means that a dataset changed.
    pub fn look(&mut self, pool: &dyn Pool, is_stale: bool) -> Option<PoolSpace> {
        let begun = Instant::now();
        if is_stale || self.is_old(begun) {
            match Promises::of(pool) {
                Ok(promises) => {
                    self.promises = Some(Known {
                        promises,
                        at: Instant::now(),
                        took: begun.elapsed(),
                    });
                }
                Err(failure) => tracing::debug!(%failure, "datasets cannot be read"),
            }
        }
        if let Some(known) = &self.promises {
            match space::look(pool, &known.promises) {
                Ok(space) => self.last = Some(space),
                Err(failure) => tracing::debug!(%failure, "the pool's space cannot be read"),
            }
        }
        self.last.clone()
    }

    /// The last known space.
    pub fn last(&self) -> Option<PoolSpace> {
        self.last.clone()
    }

    fn is_old(&self, now: Instant) -> bool {
        self.promises.as_ref().is_none_or(|known| {
            let rest = PROMISES_AGE_MAX.max(known.took * PROMISES_REST);
            now.duration_since(known.at) >= rest
        })
    }

    /// The event to report for this space.
    pub fn news(&mut self, pool: &str, space: &PoolSpace) -> Option<NewEvent> {
        let percent = space.full_percent;
        let (usable, available) = (bytes(space.usable), bytes(space.available));
        let change = self.level.update(percent)?;
        let (message, is_bad) = match change {
            FullChange::Reached(_) => (
                format!(
                    "the pool is {percent} % full, {available} of {usable} are left: \
                     `bulkhead volume space {pool}` lists the usage"
                ),
                true,
            ),
            FullChange::Eased => (
                format!("the pool is {percent} % full, {available} of {usable} are left"),
                false,
            ),
        };
        Some(NewEvent::of_pool("space", message, is_bad))
    }
}

/// Writes of clients that were refused for lack of space.
#[derive(Default)]
pub struct Refusals {
    seen: BTreeMap<VolumeName, u64>,
    total: u64,
    last: Option<Instant>,
    told: Option<Instant>,
    /// Volumes that have no room yet.
    full: BTreeSet<VolumeName>,
}

impl Refusals {
    /// Returns the event to report for these counts of refused writes to volumes and file systems.
    pub fn look(
        &mut self,
        refused: BTreeMap<VolumeName, u64>,
        space: Option<&PoolSpace>,
        now: Instant,
    ) -> Option<NewEvent> {
        let more = |(name, count): (&VolumeName, &u64)| {
            let before = self.seen.get(name).copied().unwrap_or(0);
            (*count > before).then(|| (name.clone(), count - before))
        };
        let new: Vec<(VolumeName, u64)> = refused.iter().filter_map(more).collect();
        self.seen = refused;
        if new.is_empty() {
            return None;
        }
        self.total += new.iter().map(|(_, count)| count).sum::<u64>();
        self.last = Some(now);
        let names = new.iter().map(|(name, _)| name.clone());
        self.full.extend(names.take(FULL_VOLUMES_MAX));
        let is_told = |told: Instant| now.duration_since(told) < REFUSED_AGAIN;
        if self.told.is_some_and(is_told) {
            return None;
        }
        self.told = Some(now);
        Some(NewEvent::of_pool(
            "no_space",
            refused_message(&new, space),
            true,
        ))
    }

    /// Volumes with refused writes that had no room at the last check.
    pub fn full_volumes(&self) -> Vec<VolumeName> {
        self.full.iter().take(FULL_VOLUMES_MAX).cloned().collect()
    }

    /// Records a volume's room, `None` if it was destroyed. When all have room, writes are no longer refused.
    pub fn has_room(&mut self, volume: &VolumeName, available: Option<u64>) {
        if available.is_some_and(|available| available < ROOM_BYTES) {
            return;
        }
        self.full.remove(volume);
        if self.full.is_empty() {
            self.last = None;
        }
    }

    /// Adds the refusals to `space`.
    pub fn add_to(&self, space: &mut PoolSpace, now: Instant) {
        space.refused_writes = self.total;
        let is_recent = |last: Instant| now.duration_since(last) < REFUSES_FOR;
        space.refuses = self.last.is_some_and(is_recent);
    }
}

fn refused_message(new: &[(VolumeName, u64)], space: Option<&PoolSpace>) -> String {
    let names = new.iter().take(NAMES_MAX).map(|(name, _)| name.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    let others = match new.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let pool = new[0].0.pool();
    let is_quota = space.is_some_and(|space| {
        space.has_quota
            && space.available > space.usable.saturating_mul(FREE_FOR_QUOTA_PERCENT) / 100
    });
    let why = match is_quota {
        true => "a quota is reached",
        false => "the pool has no space left",
    };
    format!(
        "writes of clients to {names}{others} are refused, because {why}: `bulkhead volume space \
         {pool}` lists the usage"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(counts: &[(&str, u64)]) -> BTreeMap<VolumeName, u64> {
        let name = |text: &str| -> VolumeName { text.parse().expect("a name") };
        counts
            .iter()
            .map(|(text, count)| (name(text), *count))
            .collect()
    }

    #[test]
    fn refused_write_storm_yields_one_event() {
        let mut refusals = Refusals::default();
        let begun = Instant::now();
        assert_eq!(refusals.look(refused(&[]), None, begun), None);
        let first = refusals.look(refused(&[("tank/v", 1)]), None, begun);
        let first = first.expect("told");
        assert!(first.is_bad && first.kind == "no_space");
        assert!(first.message.contains("tank/v"), "{}", first.message);
        for second in 1..100 {
            let counts = refused(&[("tank/v", 1 + second), ("tank/w", second)]);
            let now = begun + Duration::from_secs(second);
            assert_eq!(refusals.look(counts, None, now), None);
        }
        let later = begun + REFUSED_AGAIN;
        let again = refusals.look(refused(&[("tank/v", 1000), ("tank/w", 99)]), None, later);
        assert!(again.is_some_and(|news| !news.message.contains("tank/w")));
        let mut space = PoolSpace::default();
        refusals.add_to(&mut space, later);
        assert_eq!((space.refused_writes, space.refuses), (1099, true));
        refusals.add_to(&mut space, later + REFUSES_FOR);
        assert_eq!((space.refused_writes, space.refuses), (1099, false));
    }

    #[test]
    fn quota_and_full_pool_are_distinguished() {
        let space = |available, has_quota| PoolSpace {
            usable: 1000,
            available,
            has_quota,
            ..PoolSpace::default()
        };
        let told = |available, has_quota| {
            let space = space(available, has_quota);
            refused_message(&[("tank/v".parse().expect("a name"), 1)], Some(&space))
        };
        assert!(told(0, true).contains("no space left"));
        assert!(told(900, true).contains("quota"));
        assert!(told(900, false).contains("no space left"));
    }

    #[test]
    fn refusal_state_ends_once_every_volume_has_space() {
        let mut refusals = Refusals::default();
        let now = Instant::now();
        refusals.look(refused(&[("tank/v", 1), ("tank/w", 2)]), None, now);
        let refuses = |refusals: &Refusals| {
            let mut space = PoolSpace::default();
            refusals.add_to(&mut space, now);
            space.refuses
        };
        let [v, w] = ["tank/v", "tank/w"].map(|name| name.parse().expect("a name"));
        refusals.has_room(&v, Some(ROOM_BYTES));
        refusals.has_room(&w, Some(ROOM_BYTES - 1));
        assert!(refuses(&refusals));
        assert_eq!(refusals.full_volumes(), std::slice::from_ref(&w));
        refusals.has_room(&w, None);
        assert!(!refuses(&refusals), "it was destroyed");
        refusals.look(refused(&[("tank/v", 2)]), None, now);
        assert!(refuses(&refusals));
    }

    #[test]
    fn refusal_count_restarts_for_a_readded_volume() {
        let mut refusals = Refusals::default();
        let now = Instant::now();
        for counts in [&[("tank/v", 5)][..], &[], &[("tank/v", 2)]] {
            refusals.look(refused(counts), None, now);
        }
        assert_eq!(refusals.total, 7);
    }
}
