//! Timestamps in text form, in UTC.

/// Seconds of a day.
pub const SECONDS_PER_DAY: u64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const DAYS_PER_CYCLE: u64 = 146_097;
/// Days from the first of March of the year 0 to the first of January 1970.
const DAYS_BEFORE_1970: u64 = 719_468;

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// Such as 2026.
    pub year: u64,
    /// From 1 on.
    pub month: u64,
    /// Day of the month, from 1 on.
    pub day: u64,
}

impl Date {
    /// The day that is `days` after the first of January 1970.
    pub fn of_days(days: u64) -> Self {
        // Years that begin in March have their leap day at the end.
        let days = days + DAYS_BEFORE_1970;
        let (cycle, day) = (days / DAYS_PER_CYCLE, days % DAYS_PER_CYCLE);
        let leap_days = day / 1460 - day / 36_524 + day / (DAYS_PER_CYCLE - 1);
        let year_of_cycle = (day - leap_days) / 365;
        let day = day - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        // Months from March on: 31, 30, 31, 30, 31 days, and again.
        let from_march = (5 * day + 2) / 153;
        let month = (from_march + 2) % 12 + 1;
        Self {
            year: 400 * cycle + year_of_cycle + u64::from(month <= 2),
            month,
            day: day - (153 * from_march + 2) / 5 + 1,
        }
    }

    /// Days from the first of January 1970 to this one, which is not before it.
    pub fn days(self) -> u64 {
        let from_march = (self.month + 9) % 12;
        let year = self.year - u64::from(self.month <= 2);
        let (cycle, year_of_cycle) = (year / 400, year % 400);
        let day = (153 * from_march + 2) / 5 + self.day - 1;
        let day_of_cycle = 365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100 + day;
        cycle * DAYS_PER_CYCLE + day_of_cycle - DAYS_BEFORE_1970
    }
}

/// Seconds since 1970 as `2026-11-21T05:36:09Z`.
pub fn utc(seconds: u64) -> String {
    let Date { year, month, day } = Date::of_days(seconds / SECONDS_PER_DAY);
    let second = seconds % SECONDS_PER_DAY;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// As [`utc`], in the form of names of files and snapshots: `20261121T053609Z`.
pub fn compact_utc(seconds: u64) -> String {
    utc(seconds).replace(['-', ':'], "")
}

/// Parses a timestamp of [`compact_utc`]; all other forms are refused.
pub fn from_compact_utc(text: &str) -> Option<u64> {
    let digits = |range: std::ops::Range<usize>| {
        let text = text.get(range)?;
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok())?
    };
    let date = Date {
        year: digits(0..4)?,
        month: digits(4..6)?,
        day: digits(6..8)?,
    };
    if date.year < 1970 || !(1..=12).contains(&date.month) || date.day == 0 {
        return None;
    }
    let of_day = digits(9..11)? * 3600 + digits(11..13)? * 60 + digits(13..15)?;
    let seconds = date.days() * SECONDS_PER_DAY + of_day;
    (compact_utc(seconds) == text).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_match_date_1() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_795_239_369, "2026-11-21T05:36:09Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), text);
            assert_eq!(from_compact_utc(&compact_utc(seconds)), Some(seconds));
        }
    }

    #[test]
    fn day_numbers_round_trip() {
        for days in (0..60_000).step_by(13).chain([11_016, 11_017, 47_540]) {
            assert_eq!(Date::of_days(days).days(), days);
        }
    }

    #[test]
    fn invalid_timestamps_are_refused() {
        for text in [
            "",
            "2026",
            "20261321T053609Z",
            "20260231T053609Z",
            "20261121T253609Z",
            "20261121T053609",
            "20261121T053609Zx",
            "+0261121T053609Z",
            "19691231T235959Z",
            "2026112éT053609Z",
        ] {
            assert_eq!(from_compact_utc(text), None, "{text}");
        }
    }
}
