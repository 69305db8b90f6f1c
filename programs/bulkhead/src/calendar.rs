//! Moments as people write them.

const SECONDS_PER_DAY: u64 = 86_400;
/// Days of 400 years, after which the calendar repeats.
const DAYS_PER_CYCLE: u64 = 146_097;
/// Days from the first of March of the year 0 to the first of January 1970.
const DAYS_BEFORE_1970: u64 = 719_468;

/// Seconds since 1970 as `2026-11-21T05:36:09Z`.
pub fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    // Years that begin in March have their leap day at the end.
    let days = days + DAYS_BEFORE_1970;
    let (cycle, day) = (days / DAYS_PER_CYCLE, days % DAYS_PER_CYCLE);
    let leap_days = day / 1460 - day / 36_524 + day / (DAYS_PER_CYCLE - 1);
    let year_of_cycle = (day - leap_days) / 365;
    let day = day - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // Months from March on: 31, 30, 31, 30, 31 days, and again.
    let from_march = (5 * day + 2) / 153;
    let day_of_month = day - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    let year = 400 * cycle + year_of_cycle + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day_of_month:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn moments_are_what_date_says() {
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
        }
    }
}
