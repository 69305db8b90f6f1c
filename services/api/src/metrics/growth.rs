//! Metrics of the growth of pools: fill of groups, long work on devices, and the forecast.

use control::answer::{Status, WorkView};

use super::Family;
use crate::view::Overview;

pub(super) fn of_pools(statuses: &[(&str, &Status)]) -> Vec<Family> {
    let gauge = |name, help| Family::new(name, "gauge", help);
    let mut allocated = gauge(
        "bulkhead_group_allocated_bytes",
        "Space of a group of devices that is allocated, with parity.",
    );
    let mut size = gauge(
        "bulkhead_group_size_bytes",
        "Capacity of a group of devices, with parity.",
    );
    let mut total = gauge(
        "bulkhead_work_total_bytes",
        "Bytes of a scrub, resilver, removal or expansion that is not complete.",
    );
    let mut done = gauge("bulkhead_work_done_bytes", "Bytes of it that are done.");
    let mut rate = gauge(
        "bulkhead_work_rate_bytes_per_second",
        "Its mean rate; absent while it is unknown.",
    );
    let mut remaining = gauge(
        "bulkhead_work_remaining_seconds",
        "Its estimated remaining time; absent while it is unknown.",
    );
    for (pool, status) in statuses {
        let groups = status.pool.devices.iter();
        for group in groups.filter(|group| group.size > 0) {
            let labels = [
                ("pool", *pool),
                ("group", &group.name),
                ("role", &group.role),
            ];
            allocated.add(&labels, group.allocated as f64);
            size.add(&labels, group.size as f64);
        }
        for WorkView {
            kind,
            group,
            done: bytes_done,
            total: bytes_total,
            bytes_per_s,
            remaining_s,
            ..
        } in &status.pool.work
        {
            let group = group.as_deref().unwrap_or_default();
            let labels = [("pool", *pool), ("kind", kind), ("group", group)];
            total.add(&labels, *bytes_total as f64);
            done.add(&labels, *bytes_done as f64);
            for (family, value) in [(&mut rate, bytes_per_s), (&mut remaining, remaining_s)] {
                if let Some(value) = value {
                    family.add(&labels, *value as f64);
                }
            }
        }
    }
    vec![allocated, size, total, done, rate, remaining]
}

pub(super) fn of_forecasts(overview: &Overview) -> Vec<Family> {
    let gauge = |name, help| Family::new(name, "gauge", help);
    let mut full = gauge(
        "bulkhead_pool_full_timestamp_seconds",
        "When the pool will be full at the rate of the last 30 days, in seconds since 1970; absent if it does not grow.",
    );
    let mut growth = gauge(
        "bulkhead_pool_growth_bytes_per_day",
        "Growth of the used space, by the samples of the last 30 days; absent for fewer than five days.",
    );
    for pool in &overview.pools {
        let Some(forecast) = &pool.forecast else {
            continue;
        };
        let labels = [("pool", pool.name.as_str())];
        if let Some(full_at) = forecast.full_at {
            full.add(&labels, full_at as f64);
        }
        if let Some(bytes_per_day) = forecast.bytes_per_day {
            growth.add(&labels, bytes_per_day as f64);
        }
    }
    vec![full, growth]
}

#[cfg(test)]
mod tests {
    use control::answer::{DeviceView, PoolStatus};

    use super::*;
    use crate::fill::ForecastView;
    use crate::view::PoolOverview;

    fn text(families: Vec<Family>) -> String {
        let mut text = String::new();
        families.iter().for_each(|family| family.text(&mut text));
        text
    }

    #[test]
    fn groups_and_work_are_labelled_and_unknown_rates_are_absent() {
        let status = Status {
            pool: PoolStatus {
                devices: vec![DeviceView {
                    name: "mirror-0".to_owned(),
                    role: "data".to_owned(),
                    size: 100,
                    allocated: 40,
                    ..DeviceView::default()
                }],
                work: vec![WorkView {
                    kind: "removal".to_owned(),
                    group: Some("mirror-1".to_owned()),
                    done: 5,
                    total: 50,
                    remaining_s: Some(9),
                    ..WorkView::default()
                }],
                ..PoolStatus::default()
            },
            ..Status::default()
        };
        let text = text(of_pools(&[("tank", &status)]));
        let work = r#"{pool="tank",kind="removal",group="mirror-1"}"#;
        for line in [
            r#"bulkhead_group_allocated_bytes{pool="tank",group="mirror-0",role="data"} 40"#
                .to_owned(),
            r#"bulkhead_group_size_bytes{pool="tank",group="mirror-0",role="data"} 100"#.to_owned(),
            format!("bulkhead_work_done_bytes{work} 5"),
            format!("bulkhead_work_total_bytes{work} 50"),
            format!("bulkhead_work_remaining_seconds{work} 9"),
        ] {
            assert!(text.contains(&line), "{line}\n{text}");
        }
        assert!(!text.contains("rate_bytes"), "{text}");
    }

    #[test]
    fn pool_that_does_not_grow_has_a_rate_and_no_date() {
        let with = |full_at| Overview {
            pools: vec![PoolOverview {
                name: "tank".to_owned(),
                forecast: Some(ForecastView {
                    bytes_per_day: Some(-7),
                    full_at,
                    ..ForecastView::default()
                }),
                ..PoolOverview::default()
            }],
            ..Overview::default()
        };
        let steady = text(of_forecasts(&with(None)));
        assert!(
            steady.contains(r#"bulkhead_pool_growth_bytes_per_day{pool="tank"} -7"#),
            "{steady}"
        );
        assert!(!steady.contains("full_timestamp"), "{steady}");
        let growing = text(of_forecasts(&with(Some(1000))));
        assert!(
            growing.contains(r#"bulkhead_pool_full_timestamp_seconds{pool="tank"} 1000"#),
            "{growing}"
        );
    }
}
