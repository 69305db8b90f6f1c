//! Forecasts of synthetic series, the bounds of a history, and writes that are stopped at each step.

use std::io;
use std::sync::Arc;

use control::answer::{DeviceView, PoolSpace, PoolStatus, Status};

use super::store::{load, write_history};
use super::*;
use crate::accounts::WriteStep;

const GIB: u64 = 1 << 30;
/// 2026-12-01.
const NOW_S: u64 = 20_788 * SECONDS_PER_DAY;

fn sample(at: u64, used: u64, usable: u64) -> Sample {
    Sample {
        at,
        used,
        usable,
        groups: BTreeMap::from([("mirror-0".to_owned(), (used, usable))]),
    }
}

/// A history with one sample a day up to now: `used(n)` for the n-th of `days` days.
fn daily(days: u64, usable: u64, used: impl Fn(u64) -> u64) -> History {
    let mut history = History::default();
    for day in 0..days {
        let at = NOW_S - (days - 1 - day) * SECONDS_PER_DAY;
        history.note("tank", &sample(at, used(day), usable));
    }
    history
}

fn forecast_of(history: &History) -> ForecastView {
    forecast::of(history, NOW_S)
}

#[test]
fn steady_growth_is_full_on_the_day_that_the_line_reaches_the_capacity() {
    let forecast = forecast_of(&daily(30, 100 * GIB, |day| (41 + day) * GIB));
    assert_eq!(forecast.state, "growing");
    assert_eq!(forecast.bytes_per_day, Some(GIB as i64));
    assert_eq!(forecast.full_in_days, Some(30));
    assert_eq!(forecast.full_at, Some(NOW_S + 30 * SECONDS_PER_DAY));
    assert!(!forecast.is_alert());
    let soon = forecast_of(&daily(30, 100 * GIB, |day| (60 + day) * GIB));
    assert_eq!(soon.full_in_days, Some(11));
    assert!(soon.is_alert());
}

#[test]
fn noise_and_weekly_cycles_change_the_slope_by_a_tenth_at_most() {
    // A linear congruential generator: each run has the same noise, of up to 5 GiB.
    let noise = |day: u64| {
        let mut state = day.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        for _ in 0..8 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
        }
        (state >> 33) % (5 * GIB)
    };
    let weekly = |day: u64| (day % 7) * GIB;
    for (name, extra) in [
        ("noise", &noise as &dyn Fn(u64) -> u64),
        ("weekly", &weekly),
    ] {
        let history = daily(30, 1000 * GIB, |day| (100 + 2 * day) * GIB + extra(day));
        let found = forecast_of(&history).bytes_per_day.expect("a slope");
        let expected = 2 * GIB as i64;
        assert!((found - expected).abs() <= expected / 10, "{name}: {found}");
    }
}

#[test]
fn single_step_is_no_growth() {
    for step_day in [3, 10, 20, 27] {
        let history = daily(30, 100 * GIB, |day| {
            if day < step_day { 20 * GIB } else { 60 * GIB }
        });
        let forecast = forecast_of(&history);
        assert_eq!(forecast.full_in_days, None, "day {step_day}: {forecast:?}");
        assert_eq!(forecast.state, "steady");
    }
    // A step does not hide the growth around it.
    let history = daily(30, 200 * GIB, |day| {
        (20 + day + if day < 10 { 0 } else { 30 }) * GIB
    });
    let forecast = forecast_of(&history);
    let slope = forecast.bytes_per_day.expect("a slope");
    assert!(
        (GIB as i64..3 * GIB as i64).contains(&slope),
        "{forecast:?}"
    );
}

#[test]
fn shrinking_or_almost_constant_pool_has_no_date() {
    let shrinking = forecast_of(&daily(30, 100 * GIB, |day| (90 - day) * GIB));
    assert_eq!(
        (shrinking.state.as_str(), shrinking.full_at),
        ("steady", None)
    );
    assert_eq!(shrinking.bytes_per_day, Some(-(GIB as i64)));
    let constant = forecast_of(&daily(30, 100 * GIB, |_| 50 * GIB));
    assert_eq!(
        (constant.state.as_str(), constant.bytes_per_day),
        ("steady", Some(0))
    );
    // In more than ten years.
    let slow = forecast_of(&daily(30, 1 << 60, |day| day));
    assert_eq!((slow.state.as_str(), slow.full_at), ("steady", None));
}

#[test]
fn few_days_or_an_old_history_give_no_forecast() {
    let four = forecast_of(&daily(4, 100 * GIB, |day| day * GIB));
    assert_eq!(
        (four.state.as_str(), four.days_used, four.bytes_per_day),
        ("unknown", 4, None)
    );
    assert_eq!(
        forecast_of(&daily(5, 100 * GIB, |day| day * GIB)).state,
        "growing"
    );
    let history = daily(30, 100 * GIB, |day| day * GIB);
    let later = forecast::of(&history, NOW_S + 3 * SECONDS_PER_DAY);
    assert_eq!((later.state.as_str(), later.full_at), ("unknown", None));
    assert_eq!(forecast_of(&History::default()).state, "unknown");
}

#[test]
fn pool_that_was_enlarged_is_forecast_by_its_present_capacity() {
    let mut history = daily(30, 100 * GIB, |day| (60 + day) * GIB);
    history.note(
        "tank",
        &sample(NOW_S + SECONDS_PER_HOUR, 89 * GIB, 200 * GIB),
    );
    let forecast = forecast::of(&history, NOW_S + SECONDS_PER_HOUR);
    assert_eq!(forecast.full_in_days, Some(111));
}

#[test]
fn clock_that_jumps_back_or_ahead_removes_no_sample_and_no_forecast() {
    let mut history = daily(30, 100 * GIB, |day| (41 + day) * GIB);
    let before = history.clone();
    // The clock of a head that has booted without its time, and one that is a hundred years ahead.
    for at in [0, 5000, NOW_S - 10 * SECONDS_PER_DAY, 4 * NOW_S] {
        history.note("tank", &sample(at, 70 * GIB, 100 * GIB));
    }
    for (slot, sample) in &before.days {
        assert_eq!(history.days.get(slot), Some(sample));
    }
    assert_eq!(forecast_of(&history), forecast_of(&before));
    let shown = history.view(NOW_S, 30).days;
    assert!(
        shown
            .iter()
            .all(|one| one.at <= NOW_S && one.at + 30 * SECONDS_PER_DAY >= NOW_S)
    );
    assert_eq!(forecast::of(&history, 6000).state, "unknown");
}

#[test]
fn history_keeps_the_newest_samples_up_to_its_bound() {
    let mut history = History::default();
    let hours = DAYS_MAX as u64 * 24 + 100;
    let begin = NOW_S / SECONDS_PER_HOUR - hours;
    for hour in 0..hours {
        let at = (begin + hour) * SECONDS_PER_HOUR;
        assert!(history.note("tank", &sample(at, hour, GIB)));
        // The second sample of an hour is not stored.
        assert!(!history.note("tank", &sample(at + 1, hour, GIB)));
    }
    assert_eq!(
        (history.hours.len(), history.days.len()),
        (HOURS_MAX, DAYS_MAX)
    );
    let newest = begin + hours - 1;
    assert_eq!(history.hours.keys().next_back(), Some(&newest));
    assert_eq!(
        history.hours.keys().next(),
        Some(&(newest + 1 - HOURS_MAX as u64))
    );
    assert_eq!(
        history.newest(NOW_S).map(|sample| sample.used),
        Some(hours - 1)
    );
    // Older than all samples of a full history.
    assert!(!history.note("tank", &sample(0, 1, GIB)));
    let view = history.view(NOW_S, 10);
    assert_eq!((view.days.len(), view.hours.len()), (10, HOURS_SHOWN));
}

fn status(name: &str, guid: u64, available: u64) -> (String, Arc<Status>) {
    let pool = PoolStatus {
        name: name.to_owned(),
        guid: guid.to_string(),
        space: Some(PoolSpace {
            usable: 100,
            available,
            ..PoolSpace::default()
        }),
        devices: vec![DeviceView {
            name: "mirror-0".to_owned(),
            size: 120,
            allocated: 30,
            ..DeviceView::default()
        }],
        ..PoolStatus::default()
    };
    let status = Status {
        pool,
        ..Status::default()
    };
    (name.to_owned(), Arc::new(status))
}

#[test]
fn samples_are_restored_after_a_restart_and_follow_the_pool_to_another_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = FillStore::open(directory.path(), true);
    assert_eq!(store.view("tank", NOW_S, 30), None);
    store.note(
        &BTreeMap::from([status("tank", 7, 60)]),
        NOW_S - SECONDS_PER_DAY,
    );
    store.note(
        &BTreeMap::from([status("tank", 7, 55)]),
        NOW_S - SECONDS_PER_DAY + 1,
    );
    drop(store);
    let store = FillStore::open(directory.path(), true);
    store.note(&BTreeMap::from([status("vault", 7, 50)]), NOW_S);
    let reader = FillStore::open(directory.path(), false);
    reader.note(
        &BTreeMap::from([status("vault", 7, 1)]),
        NOW_S + SECONDS_PER_DAY,
    );
    let view = reader
        .view("vault", NOW_S + SECONDS_PER_DAY, 30)
        .expect("a history");
    let used: Vec<u64> = view.days.iter().map(|one| one.used).collect();
    assert_eq!(used, [40, 50]);
    let group = &view.days[0].groups[0];
    assert_eq!(
        (group.group.as_str(), group.allocated, group.size),
        ("mirror-0", 30, 120)
    );
    assert_eq!(reader.view("tank", NOW_S, 30), None);
    let forecast = reader.forecast("7", NOW_S).expect("a history");
    assert_eq!(forecast.state, "unknown");
    assert_eq!(reader.forecast("8", NOW_S), None);
    assert_eq!(reader.forecast("../7", NOW_S), None);
}

/// The process is killed before each step of a write. The file has the old history or the new one.
#[test]
fn killed_write_leaves_the_old_history_or_the_new_one() {
    use WriteStep::{Create, FirstHalf, Rename, SecondHalf, Sync, SyncDirectory};
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("fill/7.json");
    let old = daily(10, 100 * GIB, |day| day * GIB);
    let new = daily(30, 100 * GIB, |day| day * GIB);
    write_history(&path, &old, &mut |_| Ok(())).expect("written");
    for step in [Create, FirstHalf, SecondHalf, Sync, Rename, SyncDirectory] {
        let mut reached = false;
        let killed = write_history(&path, &new, &mut |at| {
            reached |= at == step;
            match at == step {
                true => Err(io::Error::other("killed")),
                false => Ok(()),
            }
        });
        assert!(reached && killed.is_err(), "{step:?}");
        let expected = match step {
            SyncDirectory => &new,
            _ => &old,
        };
        assert_eq!(&load(&path).expect("readable"), expected, "{step:?}");
        write_history(&path, &old, &mut |_| Ok(())).expect("the next write succeeds");
        assert_eq!(load(&path).expect("readable"), old, "{step:?}");
    }
}

#[test]
fn damaged_or_oversized_files_begin_an_empty_history() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = directory.path().join("fill");
    std::fs::create_dir(&files).expect("a directory");
    let many: BTreeMap<u64, Sample> = (0..5000).map(|slot| (slot, sample(slot, 1, 2))).collect();
    let long =
        serde_json::json!({"version": 1, "history": {"pool": "many", "hours": many, "days": many}});
    for (name, text) in [
        ("1.json", "{".to_owned()),
        (
            "2.json",
            r#"{"version": 2, "history": {"pool": "later", "hours": {}, "days": {}}}"#.to_owned(),
        ),
        (
            "3.json",
            r#"{"version": 1, "history": {"pool": "tank", "hours": {"x": {}}, "days": {}}}"#
                .to_owned(),
        ),
        (
            "x.json",
            r#"{"version": 1, "history": {"pool": "x", "hours": {}, "days": {}}}"#.to_owned(),
        ),
        ("5.json", long.to_string()),
    ] {
        std::fs::write(files.join(name), text).expect("written");
    }
    let store = FillStore::open(directory.path(), true);
    for pool in ["later", "tank", "x"] {
        assert_eq!(store.view(pool, NOW_S, 30), None, "{pool}");
    }
    assert_eq!(
        load(&files.join("5.json")).expect("readable").hours.len(),
        HOURS_MAX
    );
    store.note(&BTreeMap::from([status("tank", 1, 60)]), NOW_S);
    assert_eq!(load(&files.join("1.json")).expect("readable").pool, "tank");
}
