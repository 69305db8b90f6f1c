//! Metrics of shared file systems.

use control::answer::{FileSystemActivity, RequestActivity, Status};

use super::{Direction, Family, class_end, histogram, written};

/// The sum of all file systems that are too many for counters of their own. No dataset has such a name.
const OTHERS: &str = "(others)";

pub(super) fn families(statuses: &[(&str, &Status)]) -> Vec<Family> {
    let counter = |name, help| Family::new(name, "counter", help);
    let mut operations = counter(
        "bulkhead_filesystem_operations_total",
        "Requests of clients: reads, writes, and the rest.",
    );
    let mut bytes = counter(
        "bulkhead_filesystem_bytes_total",
        "Bytes that clients read from files and wrote to them.",
    );
    let mut errors = counter(
        "bulkhead_filesystem_errors_total",
        "Requests that failed by an error of I/O.",
    );
    let mut times = Family::new(
        "bulkhead_filesystem_latency_seconds",
        "histogram",
        "Time from the arrival of a request to its response.",
    );
    let mut ends = Vec::new();
    for (pool, status) in statuses {
        for one in &status.file_system_activity {
            let name = match one.name.as_str() {
                "" => OTHERS,
                name => name,
            };
            let of = [("pool", *pool), ("filesystem", name)];
            errors.add(&of, one.errors as f64);
            for way in ways(one) {
                while ends.len() < way.times.len() {
                    ends.push(class_end(ends.len()));
                }
                let labels = [of[0], of[1], ("direction", way.direction)];
                let labels = written(&labels);
                operations.sample("", &labels, "", way.count as f64);
                if way.direction != "other" {
                    bytes.sample("", &labels, "", way.bytes as f64);
                }
                histogram(&mut times, &labels, &way, &ends);
            }
        }
    }
    vec![operations, bytes, errors, times]
}

fn ways(one: &FileSystemActivity) -> [Direction<'_>; 3] {
    fn way<'a>(direction: &'static str, requests: &'a RequestActivity) -> Direction<'a> {
        Direction {
            direction,
            count: requests.count,
            bytes: requests.bytes,
            us: requests.us,
            times: &requests.times,
        }
    }
    [
        way("read", &one.reads),
        way("write", &one.writes),
        way("other", &one.others),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_request_has_its_counters_and_its_histogram() {
        let requests = |count: u64, bytes| RequestActivity {
            count,
            bytes,
            us: 2_000_000,
            times: vec![1, count - 1],
        };
        let named = |name: &str| FileSystemActivity {
            name: name.to_owned(),
            reads: requests(4, 4096),
            writes: requests(2, 512),
            others: requests(7, 0),
            errors: 1,
        };
        let status = Status {
            file_system_activity: vec![named("tank/home"), named("")],
            ..Status::default()
        };
        let mut text = String::new();
        for family in families(&[("tank", &status)]) {
            family.text(&mut text);
        }
        let of = r#"pool="tank",filesystem="tank/home""#;
        for line in [
            format!("bulkhead_filesystem_operations_total{{{of},direction=\"other\"}} 7"),
            format!("bulkhead_filesystem_bytes_total{{{of},direction=\"write\"}} 512"),
            format!("bulkhead_filesystem_errors_total{{{of}}} 1"),
            format!("bulkhead_filesystem_latency_seconds_sum{{{of},direction=\"read\"}} 2"),
            format!(
                "bulkhead_filesystem_latency_seconds_bucket{{{of},direction=\"read\",le=\"0.000064\"}} 1"
            ),
            format!("bulkhead_filesystem_latency_seconds_count{{{of},direction=\"other\"}} 7"),
            r#"bulkhead_filesystem_errors_total{pool="tank",filesystem="(others)"} 1"#.to_owned(),
        ] {
            assert!(text.contains(&line), "{line}\n{text}");
        }
        assert!(
            !text.contains("bytes_total{pool=\"tank\",filesystem=\"tank/home\",direction=\"other")
        );
    }
}
