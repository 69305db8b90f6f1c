//! Schedules: when snapshots are taken and how many are retained, and when a pool is scrubbed. The
//! pool stores them in the words of the user. Pure: the time is an argument, in seconds since 1970;
//! all of it is UTC.
//!
//! The format is specified in `docs/formats/schedules.md`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calendar::{Date, SECONDS_PER_DAY};
use crate::exports::{DocumentError, decode, encode};

/// Property of a volume, of a dataset above volumes, or of the pool: its snapshots.
pub const SCHEDULE_PROPERTY: &str = "bulkhead:schedule";
/// Property of the pool's root dataset: its scrubs.
pub const SCRUB_PROPERTY: &str = "bulkhead:scrub";

/// Shortest period.
const PERIOD_S_MIN: u64 = 5;
/// The last day of the shortest month.
const DAY_OF_MONTH_MAX: u64 = 28;
/// Largest number of snapshots that one rule may retain.
const KEEP_MAX: u32 = 10_000;
/// Largest number of rules of one schedule.
const RULES_MAX: usize = 16;
/// Days of the week; the first of January 1970 was a Thursday.
const WEEKDAYS: [&str; 7] = [
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
];
const SUNDAY: u64 = 3;

/// The error in the words of a schedule, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {why}")]
pub struct ScheduleError {
    /// The invalid text.
    pub text: String,
    /// In a sentence.
    pub why: &'static str,
}

/// Recurring points in time.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum When {
    /// Interval in seconds, which divides a day.
    Every {
        /// The period.
        period_s: u64,
    },
    /// At the full hour.
    Hourly,
    /// Once a day.
    Daily {
        /// Minute of the day.
        minute: u64,
    },
    /// Once a week.
    Weekly {
        /// Day of the week, which begins on Thursday as the epoch does.
        day: u64,
        /// Minute of the day.
        minute: u64,
    },
    /// Once a month.
    Monthly {
        /// Day of the month, from 1 to 28.
        day: u64,
        /// Minute of the day.
        minute: u64,
    },
}

impl When {
    /// Returns the latest timestamp that is not after `now_s`.
    pub fn latest(self, now_s: u64) -> u64 {
        let back = |period: u64, offset: u64| {
            // Before the first timestamp of all, that one.
            let since = now_s.saturating_sub(offset);
            offset + since / period * period
        };
        match self {
            Self::Every { period_s } => back(period_s, 0),
            Self::Hourly => back(3600, 0),
            Self::Daily { minute } => back(SECONDS_PER_DAY, minute * 60),
            Self::Weekly { day, minute } => {
                back(7 * SECONDS_PER_DAY, day * SECONDS_PER_DAY + minute * 60)
            }
            Self::Monthly { day, minute } => {
                let today = Date::of_days(now_s / SECONDS_PER_DAY);
                let this_month = month_timestamp(today.year, today.month, day, minute);
                if this_month <= now_s || (today.year, today.month) == (1970, 1) {
                    return this_month;
                }
                match today.month {
                    1 => month_timestamp(today.year - 1, 12, day, minute),
                    month => month_timestamp(today.year, month - 1, day, minute),
                }
            }
        }
    }

    /// Returns the first timestamp after `now_s`.
    pub fn next(self, now_s: u64) -> u64 {
        let latest = self.latest(now_s);
        if latest > now_s {
            return latest;
        }
        match self {
            Self::Every { period_s } => latest + period_s,
            Self::Hourly => latest + 3600,
            Self::Daily { .. } => latest + SECONDS_PER_DAY,
            Self::Weekly { .. } => latest + 7 * SECONDS_PER_DAY,
            Self::Monthly { day, minute } => {
                let date = Date::of_days(latest / SECONDS_PER_DAY);
                match date.month {
                    12 => month_timestamp(date.year + 1, 1, day, minute),
                    month => month_timestamp(date.year, month + 1, day, minute),
                }
            }
        }
    }

    /// Returns a label for names of snapshots: `15m`, `hourly`, `daily`, ...
    pub fn label(self) -> String {
        match self {
            Self::Every { period_s } => period_text(period_s),
            Self::Hourly => "hourly".to_owned(),
            Self::Daily { .. } => "daily".to_owned(),
            Self::Weekly { .. } => "weekly".to_owned(),
            Self::Monthly { .. } => "monthly".to_owned(),
        }
    }
}

fn month_timestamp(year: u64, month: u64, day: u64, minute: u64) -> u64 {
    Date { year, month, day }.days() * SECONDS_PER_DAY + minute * 60
}

fn period_text(period_s: u64) -> String {
    match period_s {
        s if s % 3600 == 0 => format!("{}h", s / 3600),
        s if s % 60 == 0 => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |minute: u64| format!("at {:02}:{:02}", minute / 60, minute % 60);
        match *self {
            Self::Every { period_s } => write!(f, "every {}", period_text(period_s)),
            Self::Hourly => f.write_str("hourly"),
            Self::Daily { minute } => write!(f, "daily {}", at(minute)),
            Self::Weekly { day, minute } => {
                write!(f, "weekly on {} {}", WEEKDAYS[day as usize % 7], at(minute))
            }
            Self::Monthly { day, minute } => write!(f, "monthly on {day} {}", at(minute)),
        }
    }
}

impl FromStr for When {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        when(&words).map_err(|why| ScheduleError {
            text: text.to_owned(),
            why,
        })
    }
}

const WHEN_GRAMMAR: &str = "write `every 15m`, `hourly`, `daily at 03:00`, `weekly on sunday at \
                            03:00` or `monthly on 1 at 03:00` (UTC)";

fn when(words: &[&str]) -> Result<When, &'static str> {
    match words {
        ["every", period] => Ok(When::Every {
            period_s: period_of(period)?,
        }),
        ["hourly"] => Ok(When::Hourly),
        ["daily", rest @ ..] => Ok(When::Daily { minute: at(rest)? }),
        ["weekly", "on", day, rest @ ..] => Ok(When::Weekly {
            day: weekday(day)?,
            minute: at(rest)?,
        }),
        ["weekly", rest @ ..] => Ok(When::Weekly {
            day: SUNDAY,
            minute: at(rest)?,
        }),
        ["monthly", "on", day, rest @ ..] => Ok(When::Monthly {
            day: day_of_month(day)?,
            minute: at(rest)?,
        }),
        ["monthly", rest @ ..] => Ok(When::Monthly {
            day: 1,
            minute: at(rest)?,
        }),
        _ => Err(WHEN_GRAMMAR),
    }
}

fn period_of(text: &str) -> Result<u64, &'static str> {
    const WHY: &str = "a period divides a day and is at least 5s: such as 5m, 15m, 30m, 2h, 12h";
    let (digits, unit_s) = match text.split_at_checked(text.len().saturating_sub(1)) {
        Some((digits, "s")) => (digits, 1),
        Some((digits, "m")) => (digits, 60),
        Some((digits, "h")) => (digits, 3600),
        _ => return Err(WHY),
    };
    let count: u64 = digits.parse().map_err(|_| WHY)?;
    let period = count.checked_mul(unit_s).ok_or(WHY)?;
    let divides =
        (PERIOD_S_MIN..=SECONDS_PER_DAY).contains(&period) && SECONDS_PER_DAY % period == 0;
    divides.then_some(period).ok_or(WHY)
}

/// Minute of the day; midnight by default.
fn at(words: &[&str]) -> Result<u64, &'static str> {
    const WHY: &str = "a time of the day is written as `at 03:00`, in UTC";
    let [word, time] = words else {
        return words.is_empty().then_some(0).ok_or(WHEN_GRAMMAR);
    };
    let (hour, minute) = time.split_once(':').filter(|_| *word == "at").ok_or(WHY)?;
    let number = |text: &str, below: u64| {
        let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        let number = is_number.then(|| text.parse::<u64>().ok()).flatten();
        number.filter(|number| *number < below).ok_or(WHY)
    };
    Ok(number(hour, 24)? * 60 + number(minute, 60)?)
}

fn weekday(text: &str) -> Result<u64, &'static str> {
    let text = text.to_ascii_lowercase();
    let is_it = |day: &&str| text.len() >= 3 && day.starts_with(text.as_str());
    let place = WEEKDAYS.iter().position(is_it);
    place
        .map(|place| place as u64)
        .ok_or("a day of the week is a name such as monday or mon")
}

fn day_of_month(text: &str) -> Result<u64, &'static str> {
    let day = text.parse().ok();
    day.filter(|day| (1..=DAY_OF_MONTH_MAX).contains(day))
        .ok_or("a day of the month is from 1 to 28, which every month has")
}

impl TryFrom<String> for When {
    type Error = ScheduleError;
    fn try_from(text: String) -> Result<Self, ScheduleError> {
        text.parse()
    }
}

impl From<When> for String {
    fn from(when: When) -> Self {
        when.to_string()
    }
}

/// When snapshots are taken, and how many of them are retained: `daily at 03:00 keep 7`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Rule {
    /// When.
    pub when: When,
    /// How many.
    pub keep: u32,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keep {}", self.when, self.keep)
    }
}

impl FromStr for Rule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let failed = |why| ScheduleError {
            text: text.to_owned(),
            why,
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let [moments @ .., "keep", keep] = words.as_slice() else {
            return Err(failed(
                "a rule must include the number of snapshots to keep: `hourly keep 24`",
            ));
        };
        let keep = keep.parse().ok();
        let keep = keep.filter(|keep| (1..=KEEP_MAX).contains(keep));
        Ok(Self {
            when: when(moments).map_err(failed)?,
            keep: keep.ok_or_else(|| failed("from 1 to 10000 snapshots can be kept"))?,
        })
    }
}

impl TryFrom<String> for Rule {
    type Error = ScheduleError;
    fn try_from(text: String) -> Result<Self, ScheduleError> {
        text.parse()
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.to_string()
    }
}

/// Refuses rules that cannot be distinguished by their snapshots' names.
pub fn check_rules(rules: &[Rule]) -> Result<(), ScheduleError> {
    let refused = |text: String, why| Err(ScheduleError { text, why });
    if rules.len() > RULES_MAX {
        return refused(format!("{} rules", rules.len()), "at most 16 are possible");
    }
    for (at, rule) in rules.iter().enumerate() {
        let label = rule.when.label();
        if rules[..at].iter().any(|other| other.when.label() == label) {
            return refused(
                label,
                "a schedule has one rule of a kind: write the other as `every 12h`",
            );
        }
    }
    Ok(())
}

/// Value of `bulkhead:schedule`. Without rules it disables snapshots here, whatever the schedule of
/// a parent dataset is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleDocument {
    /// The rules.
    pub rules: Vec<Rule>,
    /// Its creation, in seconds since 1970: earlier due times were not missed.
    pub since: u64,
    /// A volume without changes is skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_unchanged: bool,
}

impl ScheduleDocument {
    /// Reads the property's value.
    pub fn decode(value: &str) -> Result<Self, DocumentError> {
        decode(SCHEDULE_PROPERTY, value)
    }

    /// The property's value.
    pub fn encode(&self) -> Result<String, DocumentError> {
        encode(SCHEDULE_PROPERTY, self)
    }
}

/// Value of `bulkhead:scrub`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubDocument {
    /// The schedule of scrubs.
    pub when: When,
    /// Its creation, in seconds since 1970.
    pub since: u64,
}

impl ScrubDocument {
    /// Reads the property's value.
    pub fn decode(value: &str) -> Result<Self, DocumentError> {
        decode(SCRUB_PROPERTY, value)
    }

    /// The property's value.
    pub fn encode(&self) -> Result<String, DocumentError> {
        encode(SCRUB_PROPERTY, self)
    }
}

/// Returns the latest due time of `when` that was not handled yet. `since_s` is the start of the
/// schedule, `done_s` are the times at which it ran. Several missed times count as one. Times in
/// the future come from a clock that was wrong, and do not count.
pub fn due(
    when: When,
    now_s: u64,
    since_s: u64,
    done_s: impl IntoIterator<Item = u64>,
) -> Option<u64> {
    let moment = when.latest(now_s);
    let is_before_begin = moment < since_s && since_s <= now_s;
    let is_done = |at: u64| (moment..=now_s).contains(&at);
    let is_due = moment <= now_s && !is_before_begin && !done_s.into_iter().any(is_done);
    is_due.then_some(moment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::from_compact_utc;

    fn moment(text: &str) -> u64 {
        from_compact_utc(&format!("{text}00Z")).expect("a moment")
    }

    #[test]
    fn schedule_grammar_round_trips() {
        for (text, canonical) in [
            ("every 15m keep 8", "every 15m keep 8"),
            ("every 60m keep 8", "every 1h keep 8"),
            ("  hourly   keep 24 ", "hourly keep 24"),
            ("daily keep 7", "daily at 00:00 keep 7"),
            ("daily at 3:05 keep 7", "daily at 03:05 keep 7"),
            ("weekly keep 4", "weekly on sunday at 00:00 keep 4"),
            (
                "weekly on MON at 23:59 keep 4",
                "weekly on monday at 23:59 keep 4",
            ),
            ("monthly keep 12", "monthly on 1 at 00:00 keep 12"),
            (
                "monthly on 28 at 01:00 keep 1",
                "monthly on 28 at 01:00 keep 1",
            ),
        ] {
            let rule: Rule = text.parse().expect(text);
            assert_eq!(rule.to_string(), canonical);
            assert_eq!(canonical.parse(), Ok(rule));
        }
    }

    #[test]
    fn invalid_schedule_is_refused_with_the_grammar() {
        for (text, part) in [
            ("hourly", "hourly keep 24"),
            ("hourly keep 0", "from 1 to 10000"),
            ("yearly keep 1", "monthly on 1"),
            ("every 7m keep 1", "divides a day"),
            ("every 1s keep 1", "at least 5s"),
            ("every 99999999999999999999h keep 1", "divides a day"),
            ("every é keep 1", "divides a day"),
            ("daily at 24:00 keep 1", "at 03:00"),
            ("daily at 3 keep 1", "at 03:00"),
            ("daily on 3 keep 1", "at 03:00"),
            ("daily at keep 1", "write `every"),
            ("weekly on su keep 1", "such as monday"),
            ("monthly on 31 keep 1", "from 1 to 28"),
        ] {
            let error = text.parse::<Rule>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let twice = ["daily at 03:00 keep 1", "daily at 15:00 keep 1"];
        let twice = twice.map(|text| text.parse().expect("a rule"));
        assert!(check_rules(&twice).is_err());
    }

    #[test]
    fn due_times_follow_the_calendar() {
        for (when, now, latest, next) in [
            (
                "every 15m",
                "20261121T1014",
                "20261121T1000",
                "20261121T1015",
            ),
            ("hourly", "20261121T1000", "20261121T1000", "20261121T1100"),
            (
                "daily at 03:00",
                "20261121T0259",
                "20261120T0300",
                "20261121T0300",
            ),
            (
                "weekly on sun at 01:00",
                "20261122T0059",
                "20261115T0100",
                "20261122T0100",
            ),
            (
                "weekly on thu",
                "20261119T0000",
                "20261119T0000",
                "20261126T0000",
            ),
            (
                "monthly on 1 at 02:00",
                "20270101T0159",
                "20261201T0200",
                "20270101T0200",
            ),
            (
                "monthly on 28",
                "20280229T1200",
                "20280228T0000",
                "20280328T0000",
            ),
            (
                "monthly on 5 at 00:30",
                "20261205T0030",
                "20261205T0030",
                "20270105T0030",
            ),
        ] {
            let when: When = when.parse().expect(when);
            assert_eq!(when.latest(moment(now)), moment(latest), "{when} {now}");
            assert_eq!(when.next(moment(now)), moment(next), "{when} {now}");
        }
    }

    #[test]
    fn due_times_are_strictly_increasing() {
        let words = [
            "every 5s",
            "hourly",
            "daily at 23:59",
            "weekly",
            "monthly on 28",
        ];
        for when in words.map(|text| text.parse::<When>().expect(text)) {
            let mut at = moment("20231230T1234");
            for _ in 0..40 {
                let next = when.next(at);
                assert!(next > at);
                assert_eq!(when.latest(next), next, "{when}");
                assert!(when.latest(next - 1) < next, "{when}");
                at = next;
            }
        }
    }

    #[test]
    fn unset_clock_is_tolerated() {
        for when in [
            "every 5s",
            "hourly",
            "daily at 03:00",
            "weekly",
            "monthly on 9",
        ] {
            let when: When = when.parse().expect(when);
            assert!(when.next(0) > 0);
            assert!(when.next(u64::from(u32::MAX)) > u64::from(u32::MAX));
            let _ = due(when, 0, 0, []);
        }
    }

    #[test]
    fn missed_run_is_caught_up_once_and_clock_jumps_skip_none() {
        let daily: When = "daily at 03:00".parse().expect("words");
        let [mon, tue, now] = ["20261116T0300", "20261117T0300", "20261119T1000"].map(moment);
        let missed = moment("20261119T0300");
        let future = moment("20400101T0300");
        for (what, since, done, expected) in [
            ("never done", 0, vec![], Some(missed)),
            ("server was down", mon, vec![mon, tue], Some(missed)),
            ("made up already", mon, vec![mon, tue, now], None),
            ("done in time", mon, vec![missed], None),
            ("created after it was due", now, vec![], None),
            (
                "done by a clock that was ahead",
                mon,
                vec![future],
                Some(missed),
            ),
            (
                "made by a clock that was ahead",
                future,
                vec![],
                Some(missed),
            ),
        ] {
            assert_eq!(due(daily, now, since, done), expected, "{what}");
        }
        // The clock is set back across a time that was handled: it is due again, once.
        let [ten, eleven] = ["20261119T1000", "20261119T1100"].map(moment);
        let hourly = When::Hourly;
        assert_eq!(due(hourly, ten + 1800, 0, [ten, eleven]), None);
        assert_eq!(due(hourly, eleven, 0, [ten, eleven]), None);
        assert_eq!(due(hourly, eleven - 1, 0, [eleven]), Some(ten));
    }

    #[test]
    fn schedule_document_matches_the_format() {
        let document = ScheduleDocument {
            rules: ["hourly keep 24", "daily at 03:00 keep 7"]
                .map(|text| text.parse().expect("a rule"))
                .to_vec(),
            since: 1_795_239_369,
            skip_unchanged: true,
        };
        let text = document.encode().expect("fits");
        assert_eq!(
            text,
            r#"{"version":1,"rules":["hourly keep 24","daily at 03:00 keep 7"],"since":1795239369,"skip_unchanged":true}"#
        );
        assert_eq!(ScheduleDocument::decode(&text).expect("read"), document);
        let scrub = r#"{"version":1,"when":"monthly on 1 at 02:00","since":5}"#;
        let read = ScrubDocument::decode(scrub).expect("read");
        assert_eq!(read.encode().expect("fits"), scrub);
        for bad in ["{}", r#"{"version":1,"rules":["never"],"since":0}"#] {
            assert!(ScheduleDocument::decode(bad).is_err(), "{bad}");
        }
    }
}
