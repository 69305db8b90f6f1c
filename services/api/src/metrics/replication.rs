//! Metrics of replication to other appliances.

use control::answer::Status;

use super::{Family, truth};

pub(super) fn families(statuses: &[(&str, &Status)]) -> Vec<Family> {
    let gauge = |name, help| Family::new(name, "gauge", help);
    let mut lag = gauge(
        "bulkhead_replication_lag_seconds",
        "How old the contents are that have arrived; absent if none have, or if that is not known.",
    );
    let mut every = gauge(
        "bulkhead_replication_interval_seconds",
        "Pause between two runs of a replicated dataset.",
    );
    let mut trouble = gauge(
        "bulkhead_replication_trouble",
        "1 if the dataset is not replicated as it should be: its last run failed, its copy is late or from the future.",
    );
    for (pool, status) in statuses {
        for one in &status.pool.replication {
            let labels = [
                ("pool", *pool),
                ("dataset", one.dataset.as_str()),
                ("to", one.to.as_str()),
            ];
            if let Some(lag_s) = one.lag_s {
                lag.add(&labels, lag_s as f64);
            }
            if let Some(every_s) = one.every_s {
                every.add(&labels, every_s as f64);
            }
            trouble.add(&labels, truth(one.trouble.is_some()));
        }
    }
    vec![lag, every, trouble]
}
