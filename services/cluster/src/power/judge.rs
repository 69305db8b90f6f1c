//! Decides what a head does about the state of its power supplies. Pure: the caller passes replies, the state of the
//! cluster and the time, and performs the returned action.
//!
//! A head is low when all of its supplies are. Then a member of the cluster marks it, which also sets it to standby: its
//! pools move to heads that are not low, or stop. A marked head without pools stops its cluster in order, so that
//! no head fences it, and switches itself off. Each step is reverted if the mains return before the last one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use appliance::{Appliance, Ups, UpsAddress};
use units::HeadName;

use super::nut::Reading;

/// A battery counts as low after this time. A test of the UPS is shorter, and `upsd` may reply with the same measurement
/// for some seconds.
const LOW_WAIT: Duration = Duration::from_secs(30);
/// A supply that does not reply for this time is no longer low: its battery would be empty.
const SILENCE_MAX: Duration = Duration::from_secs(900);
/// The mains must be back for this time before pools return.
const RETURN_WAIT: Duration = Duration::from_secs(15);
/// A head that is not first marks a low head after this time, if no other head did: its own supply may be all that is
/// left of the network to `upsd`.
const SUBSTITUTE_WAIT: Duration = Duration::from_secs(10);
/// A head that has left joins the cluster again if its power is not known for this time, because it still runs.
const BLIND_RETURN_WAIT: Duration = Duration::from_secs(900);
/// A head with mains removes its own standby after this time, if the head that decided it does not.
const OWN_RELEASE_WAIT: Duration = Duration::from_secs(60);
/// A low head switches itself off if its cluster does not respond for this time.
const ALONE_WAIT: Duration = Duration::from_secs(30);

/// When a battery counts as low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// At this charge.
    pub charge_percent: u8,
    /// At this running time.
    pub runtime_s: u32,
}

impl Limits {
    /// Those of the file.
    pub const fn of(ups: &Ups) -> Self {
        Self {
            charge_percent: ups.shutdown_below,
            runtime_s: ups.shutdown_runtime_s,
        }
    }

    fn is_low(self, reading: &Reading) -> bool {
        let charge = reading
            .charge_percent
            .is_some_and(|charge| charge <= self.charge_percent);
        let runtime = reading
            .runtime_s
            .is_some_and(|runtime| runtime <= self.runtime_s);
        // A calibration discharges the battery on purpose, while there are mains.
        let is_empty = reading.is_on_battery
            && !reading.is_calibrating
            && (reading.is_low || charge || runtime);
        is_empty || reading.is_forced
    }
}

/// The state of one supply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// The mains supply its load.
    Mains,
    /// Its battery does.
    Battery,
    /// Its battery does, and is low. Also if it has not replied since.
    Low,
    /// Its state is not known.
    Unknown,
}

/// The power of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadPower {
    /// At least one supply has mains.
    Good,
    /// No supply is known to have mains, and at least one has a battery that is not low.
    Battery,
    /// All supplies are low.
    Low,
    /// No supply is listed; or some are low, and the rest is not known.
    Unknown,
}

/// The state of the cluster, as a member sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterView {
    /// Heads that are members now. A head that is lost, or about to be fenced, is none.
    pub members: BTreeSet<HeadName>,
    /// Members with pools that run, or may still run.
    pub busy: BTreeSet<HeadName>,
    /// Heads that are marked, with the head that did it.
    pub marks: BTreeMap<HeadName, HeadName>,
}

/// An action of this head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// None.
    None,
    /// Move the pools of these heads to other heads, or stop them.
    Mark(Vec<HeadName>),
    /// Let these heads serve pools again.
    Release(Vec<HeadName>),
    /// Stop Pacemaker and Corosync of this head.
    Leave,
    /// Start them again.
    Return,
    /// Switch this head off.
    PowerOff,
}

/// Why a supply has not replied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The reason, in words.
    pub why: String,
    /// Whether `upsd` has responded: its host has power, and does not know the state of the UPS.
    pub is_refused: bool,
}

#[derive(Debug, Default)]
struct FeedState {
    address: Option<UpsAddress>,
    last: Option<Reading>,
    /// The time of the last reply.
    last_at: Duration,
    /// Why the last request had no reply.
    silence: Option<Silence>,
    /// Since when each reply was low.
    low_since: Option<Duration>,
}

impl FeedState {
    fn is_forced(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.is_forced)
    }

    /// Whether it was on battery when its host lost the connection.
    fn is_lost_on_battery(&self) -> bool {
        let last = self.last.as_ref();
        let was_on_battery = last.is_some_and(|last| last.is_on_battery && !last.is_calibrating);
        let is_lost = self.silence.as_ref().is_some_and(|one| !one.is_refused);
        was_on_battery && is_lost
    }
}

/// The state of all supplies, over time.
#[derive(Debug, Default)]
pub struct Judge {
    feeds: BTreeMap<String, FeedState>,
    /// How long each head has had its power, since when by the clock of the caller.
    powers: BTreeMap<HeadName, (HeadPower, Duration)>,
    /// The last known power of each head.
    known: BTreeMap<HeadName, HeadPower>,
    alone_since: Option<Duration>,
    /// The time of the last replies.
    now: Duration,
    /// The process reads the state only once: a low battery counts at once.
    is_single: bool,
}

impl Judge {
    /// For a process that reads the state only once.
    pub fn once() -> Self {
        Self {
            is_single: true,
            ..Self::default()
        }
    }

    /// Stores the reply of a supply at `now`, by any clock that does not run backwards.
    pub fn note(
        &mut self,
        feed: &str,
        reply: Result<Reading, Silence>,
        limits: Limits,
        now: Duration,
    ) {
        self.now = now;
        let state = self.feeds.entry(feed.to_owned()).or_default();
        match reply {
            Ok(reading) => {
                state.low_since = limits
                    .is_low(&reading)
                    .then(|| state.low_since.unwrap_or(now));
                state.silence = None;
                state.last_at = now;
                state.last = Some(reading);
            }
            Err(silence) => {
                // The host of upsd may have lost its power: the last reply decides, until the next reply.
                if silence.is_refused || now.saturating_sub(state.last_at) >= SILENCE_MAX {
                    state.low_since = None;
                }
                state.silence = Some(silence);
            }
        }
    }

    /// Forgets supplies that are not in the file any more, or that are other ones now.
    pub fn retain(&mut self, ups: &Ups) {
        self.feeds.retain(|name, state| {
            let feed = ups.feeds.get(name);
            feed.is_some_and(|feed| {
                state
                    .address
                    .as_ref()
                    .is_none_or(|known| *known == feed.ups)
            })
        });
        for (name, feed) in &ups.feeds {
            let state = self.feeds.entry(name.clone()).or_default();
            state.address = Some(feed.ups.clone());
        }
    }

    fn is_low(&self, state: &FeedState) -> bool {
        let lasts = |since: Duration| self.now.saturating_sub(since) >= LOW_WAIT;
        let is_sure = |since| self.is_single || state.is_forced() || lasts(since);
        state.low_since.is_some_and(is_sure)
    }

    /// The state of a supply.
    pub fn supply(&self, feed: &str) -> Supply {
        let Some(state) = self.feeds.get(feed) else {
            return Supply::Unknown;
        };
        match &state.last {
            _ if self.is_low(state) => Supply::Low,
            Some(_) if state.silence.is_some() => Supply::Unknown,
            Some(reading) if reading.is_on_battery => Supply::Battery,
            Some(reading) if reading.is_online => Supply::Mains,
            _ => Supply::Unknown,
        }
    }

    /// The last reply of a supply, and why there was none since.
    pub fn last(&self, feed: &str) -> (Option<&Reading>, Option<&str>) {
        let state = self.feeds.get(feed);
        let silence = state.and_then(|state| state.silence.as_ref());
        let silence = silence.map(|silence| silence.why.as_str());
        (state.and_then(|state| state.last.as_ref()), silence)
    }

    /// The power of a head.
    pub fn power(&self, ups: &Ups, head: &HeadName) -> HeadPower {
        let supplies: BTreeSet<u8> = ups
            .feeds_of(head)
            .map(|(name, _)| self.supply(name) as u8)
            .collect();
        let has = |supply: Supply| supplies.contains(&(supply as u8));
        // Beside a low supply the other one counts as low, too, if it was lost on battery a short time ago.
        let is_empty = |name: &str| {
            let state = self.feeds.get(name);
            state.is_some_and(|state| {
                let is_recent = self.now.saturating_sub(state.last_at) < SILENCE_MAX;
                state.is_lost_on_battery() && is_recent
            })
        };
        let is_unsure = ups
            .feeds_of(head)
            .any(|(name, _)| self.supply(name) == Supply::Unknown && !is_empty(name));
        match () {
            () if has(Supply::Mains) => HeadPower::Good,
            () if has(Supply::Battery) => HeadPower::Battery,
            () if has(Supply::Low) && !is_unsure => HeadPower::Low,
            () => HeadPower::Unknown,
        }
    }

    /// Decides after each round of replies. `has_left`: this head has stopped its cluster by an earlier action. `now`:
    /// any clock that does not run backwards.
    pub fn decide(
        &mut self,
        appliance: &Appliance,
        own: &HeadName,
        cluster: Option<&ClusterView>,
        has_left: bool,
        now: Duration,
    ) -> Action {
        let Some(ups) = &appliance.ups else {
            return Action::None;
        };
        let powers = appliance
            .heads
            .keys()
            .map(|head| (head, self.power(ups, head)));
        for (head, power) in powers.collect::<Vec<_>>() {
            let since = self.powers.entry(head.clone()).or_insert((power, now));
            if since.0 != power {
                *since = (power, now);
            }
            if power != HeadPower::Unknown {
                self.known.insert(head.clone(), power);
            }
        }
        // A head that lost its supplies in the file is treated as before there were any.
        let has_feeds = |head: &HeadName| ups.feeds_of(head).next().is_some();
        let lasts = |head: &HeadName, power: HeadPower, time: Duration| {
            let found = self.powers.get(head);
            found
                .is_some_and(|(found, since)| *found == power && now.saturating_sub(*since) >= time)
        };
        let is_low = |head: &HeadName| lasts(head, HeadPower::Low, Duration::ZERO);
        let Some(cluster) = cluster else {
            let alone_since = *self.alone_since.get_or_insert(now);
            let is_alone = now.saturating_sub(alone_since) >= ALONE_WAIT
                && lasts(own, HeadPower::Low, ALONE_WAIT);
            let may_return = !has_feeds(own)
                || lasts(own, HeadPower::Good, RETURN_WAIT)
                || lasts(own, HeadPower::Unknown, BLIND_RETURN_WAIT);
            return match () {
                () if is_low(own) && (has_left || is_alone) => Action::PowerOff,
                () if has_left && may_return => Action::Return,
                () => Action::None,
            };
        };
        let unmarked = cluster.members.iter();
        let unmarked = unmarked.filter(|head| is_low(head) && !cluster.marks.contains_key(*head));
        let unmarked: Vec<HeadName> = unmarked.cloned().collect();
        let is_first = cluster.members.first() == Some(own);
        let is_overdue = |head: &HeadName| lasts(head, HeadPower::Low, SUBSTITUTE_WAIT);
        let released = cluster.marks.iter().filter(|(head, by)| {
            let is_ours = *by == own
                || !cluster.members.contains(*by)
                || (*head == own && lasts(own, HeadPower::Good, OWN_RELEASE_WAIT));
            is_ours && (lasts(head, HeadPower::Good, RETURN_WAIT) || !has_feeds(head))
        });
        let released: Vec<HeadName> = released.map(|(head, _)| head.clone()).collect();
        let all_are_marked = cluster
            .members
            .iter()
            .all(|head| cluster.marks.contains_key(head));
        let is_busy = match all_are_marked {
            // The last pools stop before any head leaves, so that none is moved to a head that stops.
            true => !cluster.busy.is_empty(),
            false => cluster.busy.contains(own),
        };
        let own_power = self.powers.get(own).map(|(power, _)| *power);
        // Another head may see supplies that this one does not. Mains that were seen last count while nothing is known.
        let saw_mains = self.known.get(own) == Some(&HeadPower::Good);
        let may_leave = match own_power {
            Some(HeadPower::Low) => true,
            Some(HeadPower::Unknown) => has_feeds(own) && !saw_mains,
            _ => false,
        };
        let action = match () {
            () if !unmarked.is_empty() && (is_first || unmarked.iter().any(is_overdue)) => {
                Action::Mark(unmarked)
            }
            () if !released.is_empty() => Action::Release(released),
            () if cluster.marks.contains_key(own) && may_leave && !is_busy => Action::Leave,
            () => Action::None,
        };
        self.alone_since = None;
        action
    }

    /// Sentences about all that is not as usual, the worst first.
    pub fn problems(&self, appliance: &Appliance) -> Vec<String> {
        let Some(ups) = &appliance.ups else {
            return Vec::new();
        };
        let heads = appliance.heads.keys();
        let low = heads.filter(|head| self.power(ups, head) == HeadPower::Low);
        let low: Vec<&str> = low.map(|head| head.as_str()).collect();
        let mut sentences = Vec::new();
        if !low.is_empty() {
            sentences.push(format!(
                "all power supplies of {} are low: the pools move away or stop, then the heads are switched off",
                low.join(", ")
            ));
        }
        for name in ups.feeds.keys() {
            let (last, silence) = self.last(name);
            let charge = last.map_or_else(String::new, shown_charge);
            let sentence = match (self.supply(name), silence) {
                (Supply::Low, None) => {
                    format!("the battery of the power supply {name} is low{charge}")
                }
                (Supply::Low, Some(why)) => {
                    format!("the battery of the power supply {name} was low, and since then {why}")
                }
                (Supply::Battery, _) => {
                    format!("the power supply {name} runs on its battery{charge}")
                }
                (Supply::Unknown, Some(why)) => {
                    format!("the state of the power supply {name} is not known: {why}")
                }
                (Supply::Unknown, None) => match last {
                    Some(last) => format!(
                        "the power supply {name} reports {:?}: neither mains nor battery",
                        last.status
                    ),
                    None => continue,
                },
                (Supply::Mains, _) => String::new(),
            };
            sentences.extend((!sentence.is_empty()).then_some(sentence));
            let ignored = last.into_iter().flat_map(|last| &last.problems);
            sentences.extend(ignored.map(|problem| format!("the power supply {name}: {problem}")));
        }
        sentences
    }

    /// The next step of the appliance, in a sentence.
    pub fn prospect(&self, appliance: &Appliance) -> String {
        let Some(ups) = &appliance.ups else {
            return "no power supply is listed in the appliance file".to_owned();
        };
        let with = |power| -> Vec<&str> {
            let heads = appliance.heads.keys();
            let heads = heads.filter(|head| self.power(ups, head) == power);
            heads.map(|head| head.as_str()).collect()
        };
        let (low, battery) = (with(HeadPower::Low), with(HeadPower::Battery));
        let limits = Limits::of(ups);
        match (low.len(), battery.is_empty()) {
            (0, true) => "nothing changes".to_owned(),
            (0, false) => format!(
                "on battery: {}; a supply is low at {} percent or {} s, and a head shuts down when all its supplies are low",
                battery.join(", "),
                limits.charge_percent,
                limits.runtime_s
            ),
            (count, _) if count == appliance.heads.len() => {
                "all pools stop, then all heads leave the cluster and are switched off".to_owned()
            }
            _ => format!(
                "the pools of {} move to the other heads, then {} leaves the cluster and is switched off",
                low.join(", "),
                low.join(", ")
            ),
        }
    }
}

fn shown_charge(reading: &Reading) -> String {
    let charge = reading
        .charge_percent
        .map(|charge| format!(", {charge} percent left"));
    let runtime = reading
        .runtime_s
        .map(|time| format!(", for {} min {} s", time / 60, time % 60));
    charge.into_iter().chain(runtime).collect()
}

impl fmt::Display for Supply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mains => "mains",
            Self::Battery => "battery",
            Self::Low => "low",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for HeadPower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Good => "good",
            Self::Battery => "battery",
            Self::Low => "low",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |heads: &[HeadName]| {
            let heads: Vec<&str> = heads.iter().map(|head| head.as_str()).collect();
            heads.join(", ")
        };
        match self {
            Self::None => write!(f, "nothing"),
            Self::Mark(heads) => write!(f, "standby of {}, for lack of power", names(heads)),
            Self::Release(heads) => write!(
                f,
                "end of the standby of {}: the power is back",
                names(heads)
            ),
            Self::Leave => write!(f, "stop Pacemaker and Corosync, for lack of power"),
            Self::Return => write!(f, "start Corosync and Pacemaker: the power is back"),
            Self::PowerOff => write!(f, "power off"),
        }
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
