//! `bulkhead pool growth`: the fill of a pool by day, and when it will be full.

use api::fill::{self, FillStore, FillView, ForecastView, GrowthView};
use clap::Args;
use control::words::bytes;
use control::{Failure, calendar};
use pool_access::common::Common;
use rendering::{Printer, Table, harmless};
use units::PoolName;

const EXAMPLES: &str = "Examples:
  bulkhead pool growth tank
  bulkhead pool growth tank --days 365 --json

`bulkhead head` of each head records the pools of all heads once an hour. The forecast is a line through the last 30 days: its slope
is the median of the slopes between all pairs of days. Fewer than five days give no forecast.";

/// `pool growth`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GrowthArgs {
    /// The pool
    pub pool: PoolName,
    /// Show at most so many days, up to 731
    #[arg(long, value_name = "COUNT", default_value_t = 30)]
    pub days: usize,
}

/// Performs `bulkhead pool growth`.
pub fn run(args: &GrowthArgs, common: &Common, out: Printer) -> Result<(), Failure> {
    let store = FillStore::open(&common.settings.state_dir, false);
    let (pool, days) = (args.pool.as_str(), args.days.min(fill::DAYS_MAX));
    let view = store.view(pool, api::now_ms() / 1000, days);
    let view = view.ok_or_else(|| fill::no_history(pool))?;
    out.either(&view, || text(&view))
}

fn day(at_s: u64) -> String {
    let mut text = calendar::utc(at_s);
    text.truncate("2026-12-01".len());
    text
}

fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        whole => format!("{} %", u128::from(part) * 100 / u128::from(whole)),
    }
}

fn text(view: &GrowthView) -> String {
    let mut table = Table::new(&["DAY (UTC)", ">USED", ">USABLE", ">FULL", "GROUPS"]);
    for one in &view.days {
        table.row([
            day(one.at),
            bytes(one.used),
            bytes(one.usable),
            percent(one.used, one.usable),
            groups(one),
        ]);
    }
    format!(
        "{}\n{}: {}\n",
        table.render(),
        view.pool,
        forecast(&view.forecast)
    )
}

fn groups(view: &FillView) -> String {
    let groups = view.groups.iter().map(|group| {
        let full = percent(group.allocated, group.size);
        format!("{} {full}", harmless(&group.group))
    });
    groups.collect::<Vec<_>>().join(", ")
}

fn forecast(view: &ForecastView) -> String {
    let rate = view.bytes_per_day.map(|rate| match rate < 0 {
        true => format!("shrinks by {} a day", bytes(rate.unsigned_abs())),
        false => format!("grows by {} a day", bytes(rate.unsigned_abs())),
    });
    match (view.full_in_days, view.full_at, rate) {
        (Some(days), Some(at), Some(rate)) => format!(
            "full in {days} days (on {}) at the rate of the last 30 days: it {rate}",
            day(at)
        ),
        (_, _, Some(rate)) => format!("no date of a full pool: it {rate}"),
        _ => format!(
            "no forecast: {} of the last 30 days have a sample, and at least 5 are needed, the last one at most two days old",
            view.days_used
        ),
    }
}

#[cfg(test)]
mod tests {
    use api::fill::GroupFill;

    use super::*;

    #[test]
    fn table_has_a_line_for_each_day_and_the_forecast() {
        let mut view = GrowthView {
            pool: "tank".to_owned(),
            forecast: ForecastView {
                state: "growing".to_owned(),
                days_used: 30,
                bytes_per_day: Some(1 << 30),
                full_in_days: Some(12),
                full_at: Some(12 * 86_400),
            },
            days: vec![FillView {
                at: 86_400,
                used: 1 << 30,
                usable: 4 << 30,
                groups: vec![GroupFill {
                    group: "mirror-0".to_owned(),
                    allocated: 1,
                    size: 2,
                }],
            }],
            ..GrowthView::default()
        };
        let shown = text(&view);
        assert!(shown.contains("1970-01-02"), "{shown}");
        assert!(
            shown.contains("25 %") && shown.contains("mirror-0 50 %"),
            "{shown}"
        );
        let line = "tank: full in 12 days (on 1970-01-13) at the rate of the last 30 days: it grows by 1G a day\n";
        assert!(shown.ends_with(line), "{shown}");
        view.forecast = ForecastView {
            bytes_per_day: Some(-(1 << 30)),
            ..ForecastView::default()
        };
        assert!(text(&view).contains("no date of a full pool: it shrinks by 1G a day"));
        view.forecast = ForecastView::default();
        assert!(text(&view).contains("no forecast: 0 of the last 30 days"));
    }
}
