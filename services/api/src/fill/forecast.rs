//! The day on which a pool will be full, by a line through the samples of the last 30 days.
//!
//! The slope is the median of the slopes between all pairs of days (Theil and Sen). A single step, such as a large import
//! or a destroyed snapshot, moves it little, other than the slope of least squares.

use control::calendar::SECONDS_PER_DAY;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::History;

/// A pool that will be full within this time is an alert.
pub const ALERT_DAYS: u64 = 14;
/// Samples of this time are used.
const WINDOW_DAYS: u64 = 30;
/// Fewer days with a sample give no forecast.
const DAYS_MIN: usize = 5;
/// A forecast for later days is meaningless.
const HORIZON_DAYS: u64 = 3650;
/// Without a sample for this time there is no forecast.
const NEWEST_AGE_MAX_S: u64 = 2 * SECONDS_PER_DAY;

/// When a pool will be full, at the rate of the last 30 days.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastView {
    /// `growing`, `steady` (it does not grow, or is not full within ten years), or `unknown`: fewer than five days with a
    /// sample, or none in the last two days.
    pub state: String,
    /// Days with a sample that were used.
    pub days_used: u64,
    /// Growth of the used space a day, in bytes; negative if it shrinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_day: Option<i64>,
    /// Whole days from the newest sample until it is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_in_days: Option<u64>,
    /// When it is full, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_at: Option<u64>,
}

impl ForecastView {
    /// Whether the pool will be full soon.
    pub fn is_alert(&self) -> bool {
        self.full_in_days.is_some_and(|days| days < ALERT_DAYS)
    }
}

pub(super) fn of(history: &History, now_s: u64) -> ForecastView {
    let since_s = now_s.saturating_sub(WINDOW_DAYS * SECONDS_PER_DAY);
    let samples = history.days.values();
    let points: Vec<(u64, u64)> = samples
        .filter(|sample| (since_s..=now_s).contains(&sample.at))
        .map(|sample| (sample.at, sample.used))
        .collect();
    let unknown = ForecastView {
        state: "unknown".to_owned(),
        days_used: points.len() as u64,
        ..ForecastView::default()
    };
    let newest = history.newest(now_s);
    let newest = newest.filter(|newest| now_s - newest.at <= NEWEST_AGE_MAX_S);
    let (Some(newest), Some(bytes_per_s)) = (newest, slope(&points)) else {
        return unknown;
    };
    let bytes_per_day = (bytes_per_s * SECONDS_PER_DAY as f64).round();
    let left = newest.usable.saturating_sub(newest.used) as f64;
    let steady = ForecastView {
        state: "steady".to_owned(),
        bytes_per_day: Some(bytes_per_day as i64),
        ..unknown
    };
    let days = left / bytes_per_day;
    if bytes_per_day <= 0.0 || days > HORIZON_DAYS as f64 {
        return steady;
    }
    ForecastView {
        state: "growing".to_owned(),
        full_in_days: Some(days as u64),
        full_at: Some(newest.at + (days * SECONDS_PER_DAY as f64) as u64),
        ..steady
    }
}

/// The median of the slopes between all pairs, in bytes a second; none for too few points. At most
/// [`WINDOW_DAYS`] + 1 points, which are 465 pairs.
fn slope(points: &[(u64, u64)]) -> Option<f64> {
    if points.len() < DAYS_MIN {
        return None;
    }
    let pairs = points.iter().enumerate().flat_map(|(index, one)| {
        let later = points[index + 1..].iter();
        later.filter_map(move |other| {
            let apart_s = other.0.checked_sub(one.0).filter(|apart_s| *apart_s > 0)?;
            Some((other.1 as f64 - one.1 as f64) / apart_s as f64)
        })
    });
    let mut slopes: Vec<f64> = pairs.collect();
    slopes.sort_by(f64::total_cmp);
    let middle = slopes.len() / 2;
    match slopes.len() % 2 {
        _ if slopes.is_empty() => None,
        0 => Some(f64::midpoint(slopes[middle - 1], slopes[middle])),
        _ => Some(slopes[middle]),
    }
}
