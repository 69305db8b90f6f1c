//! Determines the timestamp of a line of a log. Corosync and Pacemaker write no year and no time zone; the modification
//! time of the file determines both.

/// Returns the seconds since the full hour of the first `HH:MM:SS[.fraction]` in a line.
pub fn minutes_and_seconds(line: &str) -> Option<f64> {
    let at = time_of_day(line)?;
    let minutes: f64 = line.get(at + 3..at + 5)?.parse().ok()?;
    let rest = line.get(at + 6..)?;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'));
    let seconds = rest.get(..end.unwrap_or(rest.len()))?;
    let seconds: f64 = seconds.trim_end_matches('.').parse().ok()?;
    Some(minutes * 60.0 + seconds)
}

/// Returns the position of the first `HH:MM:SS` in a line.
fn time_of_day(line: &str) -> Option<usize> {
    let bytes = line.as_bytes();
    let digits = |at: usize| bytes[at].is_ascii_digit() && bytes[at + 1].is_ascii_digit();
    let is_time =
        |at: usize| digits(at) && bytes[at + 2] == b':' && digits(at + 3) && bytes[at + 5] == b':';
    let last = bytes.len().checked_sub(8)?;
    (0..=last).find(|&at| is_time(at) && digits(at + 6))
}

const DAY_MS: i64 = 86_400_000;
/// Offsets of time zones are multiples of this.
const ZONE_STEP_MS: i64 = 900_000;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Milliseconds since 1970 in local time.
fn shown_ms(line: &str, year: i64) -> Option<i64> {
    let at = time_of_day(line)?;
    let hours: i64 = line.get(at..at + 2)?.parse().ok()?;
    let of_hour_ms = (minutes_and_seconds(line)? * 1000.0).round() as i64;
    let mut words = line.get(..at)?.split_whitespace();
    let (name, day) = (words.next()?, words.next()?.parse().ok()?);
    let month = MONTHS.iter().position(|month| *month == name)?;
    let days = days(year, month as i64 + 1, day);
    Some(days * DAY_MS + hours * 3_600_000 + of_hour_ms)
}

/// Returns the days from 1970 to a day of the Gregorian calendar. A year begins in March here, so that the leap day is
/// its last one.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let since_march = (month + 9) % 12;
    // Any five months from March on have 153 days.
    let in_year = (153 * since_march + 2) / 5 + day - 1;
    const BEFORE_1970: i64 = 719_468;
    year * 365 + leap_days + in_year - BEFORE_1970
}

/// The clock of one log file.
#[derive(Clone, Copy, Debug)]
pub struct FileClock {
    written_ms: i64,
    /// Its offset from UTC.
    ahead_ms: i64,
}

impl FileClock {
    /// Returns the clock of a log with `text` as its tail that was last written at `written_ms`, in milliseconds since
    /// 1970.
    pub fn of(text: &str, written_ms: u64) -> Option<Self> {
        let written_ms = i64::try_from(written_ms).ok()?;
        let clock = Self {
            written_ms,
            ahead_ms: 0,
        };
        let ahead = text.lines().rev().find_map(|line| clock.near(line))? - written_ms;
        let steps = (ahead + ZONE_STEP_MS / 2).div_euclid(ZONE_STEP_MS);
        Some(Self {
            ahead_ms: steps * ZONE_STEP_MS,
            ..clock
        })
    }

    /// Returns the timestamp of a line, in the year that brings it closest to the last write.
    fn near(&self, line: &str) -> Option<i64> {
        let year = 1970 + self.written_ms.div_euclid(DAY_MS) * 400 / 146_097;
        let candidates = (year - 1..=year + 1).filter_map(|year| shown_ms(line, year));
        candidates.min_by_key(|shown| (shown - self.written_ms).abs())
    }

    /// Returns the time of a line, in milliseconds since 1970.
    pub fn at_ms(&self, line: &str) -> Option<u64> {
        u64::try_from(self.near(line)? - self.ahead_ms).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_numbers_match_the_calendar() {
        for (date, number) in [
            ((1970, 1, 1), 0),
            ((1972, 2, 29), 789),
            ((2000, 3, 1), 11_017),
            ((2026, 11, 21), 20_778),
        ] {
            assert_eq!(days(date.0, date.1, date.2), number, "{date:?}");
        }
    }

    #[test]
    fn time_zone_and_year_are_derived_from_the_mtime() {
        // 2027-01-01 00:10:00 UTC; the log's clock is four and a half hours behind.
        let written = (20_819 * DAY_MS + 600_000) as u64;
        let text = "Dec 31 19:09:59.500 left x\nDec 31 19:40:00 left y\n";
        let clock = FileClock::of(text, written).expect("a clock");
        assert_eq!(
            clock.at_ms("Dec 31 19:39:00.250 left z"),
            Some(written - 59_750)
        );
        assert_eq!(clock.at_ms("no time"), None);
        assert!(FileClock::of("nothing\n", written).is_none());
    }
}
