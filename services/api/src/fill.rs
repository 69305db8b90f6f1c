//! The fill of pools over time: a bounded history of each pool and its groups, a forecast of the day on which a pool is
//! full, and the files that store the history.
//!
//! Each head samples every pool that it sees, on any head. So the history survives a restart and a takeover, without an
//! exchange between the heads.

mod forecast;
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use control::Failure;
use control::answer::PoolStatus;
use control::calendar::SECONDS_PER_DAY;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use forecast::{ALERT_DAYS, ForecastView};
pub use store::FillStore;

const SECONDS_PER_HOUR: u64 = 3600;
/// Hours with a sample: 30 days.
const HOURS_MAX: usize = 720;
/// Days with a sample: two years.
pub const DAYS_MAX: usize = 731;
/// Most groups of a pool in a sample; further ones are left out.
const GROUPS_MAX: usize = 64;
/// Samples by hour in a view.
const HOURS_SHOWN: usize = 48;

/// The fill of a pool at one time. In bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since 1970.
    at: u64,
    /// Used space of the datasets, with reservations.
    used: u64,
    /// Capacity for datasets.
    usable: u64,
    /// Allocated bytes and capacity of each group, with parity.
    #[serde(default)]
    groups: BTreeMap<String, (u64, u64)>,
}

impl Sample {
    /// The fill of a pool; none while its usable space is unknown.
    fn of(pool: &PoolStatus, at: u64) -> Option<Self> {
        let space = pool.space.as_ref().filter(|_| !pool.suspended)?;
        let groups = pool.devices.iter().filter(|group| group.size > 0);
        let groups = groups.take(GROUPS_MAX);
        Some(Self {
            at,
            used: space.usable.saturating_sub(space.available),
            usable: space.usable,
            groups: groups
                .map(|group| (group.name.clone(), (group.allocated, group.size)))
                .collect(),
        })
    }
}

/// The samples of one pool: one for each hour and one for each day, the newest ones up to a bound.
///
/// A clock that is wrong for some time adds samples at wrong times. They neither remove nor replace other samples,
/// except the oldest ones beyond the bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct History {
    /// The name of the pool.
    pool: String,
    /// By hours since 1970.
    hours: BTreeMap<u64, Sample>,
    /// By days since 1970.
    days: BTreeMap<u64, Sample>,
}

impl History {
    /// Adds the first sample of an hour. Returns whether the history has changed.
    fn note(&mut self, pool: &str, sample: &Sample) -> bool {
        let is_renamed = self.pool != pool;
        if is_renamed {
            pool.clone_into(&mut self.pool);
        }
        let hour = sample.at / SECONDS_PER_HOUR;
        let day = sample.at / SECONDS_PER_DAY;
        let is_hour_new = insert(&mut self.hours, hour, sample, HOURS_MAX);
        let is_day_new = insert(&mut self.days, day, sample, DAYS_MAX);
        is_renamed || is_hour_new || is_day_new
    }

    /// Removes the samples beyond the bounds, which only a foreign file can contain.
    fn bound(&mut self) {
        shorten(&mut self.hours, HOURS_MAX);
        shorten(&mut self.days, DAYS_MAX);
        for sample in self.hours.values_mut().chain(self.days.values_mut()) {
            while sample.groups.len() > GROUPS_MAX {
                sample.groups.pop_last();
            }
        }
    }

    /// The newest sample that is not after `now_s`.
    fn newest(&self, now_s: u64) -> Option<&Sample> {
        let all = self.hours.values().chain(self.days.values());
        all.filter(|sample| sample.at <= now_s)
            .max_by_key(|sample| sample.at)
    }

    /// The history of the last `days` days, with the forecast.
    fn view(&self, now_s: u64, days: usize) -> GrowthView {
        let not_after = |sample: &&Sample| sample.at <= now_s;
        let since_s = now_s.saturating_sub(days as u64 * SECONDS_PER_DAY);
        let shown = self.days.values().filter(not_after);
        let shown = shown.filter(|sample| sample.at >= since_s);
        let recent = self.hours.values().filter(not_after);
        let skipped = recent.clone().count().saturating_sub(HOURS_SHOWN);
        GrowthView {
            pool: self.pool.clone(),
            forecast: forecast::of(self, now_s),
            days: shown.map(FillView::of).collect(),
            hours: recent.skip(skipped).map(FillView::of).collect(),
        }
    }
}

/// The failure of a request for a pool without a history.
pub fn no_history(pool: &str) -> Failure {
    let message = format!("this head has no history of the fill of pool {pool}");
    Failure::not_found(message)
        .advise("`bulkhead head` records each pool that is served, once an hour: start it, and serve the pool")
}

/// Adds a sample to a slot that has none.
fn insert(samples: &mut BTreeMap<u64, Sample>, slot: u64, sample: &Sample, most: usize) -> bool {
    if samples.contains_key(&slot) {
        return false;
    }
    samples.insert(slot, sample.clone());
    shorten(samples, most);
    samples.contains_key(&slot)
}

fn shorten(samples: &mut BTreeMap<u64, Sample>, most: usize) {
    while samples.len() > most {
        samples.pop_first();
    }
}

/// The fill of a pool over time, and when it will be full.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrowthView {
    /// The pool.
    pub pool: String,
    /// When it will be full.
    pub forecast: ForecastView,
    /// The first sample of each day, the oldest first.
    pub days: Vec<FillView>,
    /// The first sample of each of the last 48 hours with a sample, the oldest first.
    pub hours: Vec<FillView>,
}

impl GrowthView {
    /// The view of a pool without a sample.
    pub fn empty(pool: &str) -> Self {
        History {
            pool: pool.to_owned(),
            ..History::default()
        }
        .view(0, 0)
    }
}

/// The fill of a pool at one time. In bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FillView {
    /// Seconds since 1970.
    pub at: u64,
    /// Used space of the datasets, with reservations.
    pub used: u64,
    /// Capacity for datasets.
    pub usable: u64,
    /// Its groups.
    pub groups: Vec<GroupFill>,
}

/// The fill of a group of devices. In bytes, with parity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupFill {
    /// Its name.
    pub group: String,
    /// Allocated bytes.
    pub allocated: u64,
    /// Capacity.
    pub size: u64,
}

impl FillView {
    fn of(sample: &Sample) -> Self {
        let groups = sample.groups.iter();
        Self {
            at: sample.at,
            used: sample.used,
            usable: sample.usable,
            groups: groups
                .map(|(group, (allocated, size))| GroupFill {
                    group: group.clone(),
                    allocated: *allocated,
                    size: *size,
                })
                .collect(),
        }
    }
}
