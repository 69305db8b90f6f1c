//! Renders the load of a pool's devices between two samples, or since the pool was opened.

use control::answer::{DeviceLoad, PoolLoad};
use control::words::{bytes, duration};

use crate::table::{Table, dash};
use crate::wrap;

const HEADINGS: [&str; 12] = [
    "DEVICE", ">ALLOC", ">FREE", ">OPS R", ">OPS W", ">BW R", ">BW W", ">QUEUE", ">WAIT R",
    ">WAIT W", ">P99 R", ">P99 W",
];
/// Number of columns that fit a narrow terminal.
const NARROW: usize = 8;

const SECOND_NS: f64 = 1e9;

/// Renders the table of `now`: since `before` if the counters were not reset in between, else since the pool was
/// opened.
pub fn table(before: Option<&PoolLoad>, now: &PoolLoad) -> String {
    let named = |load: &PoolLoad| {
        let mut load = load.clone();
        load.name_legs();
        load
    };
    let before = before.map(named);
    shown(before.as_ref(), &named(now), wrap::columns())
}

fn shown(before: Option<&PoolLoad>, now: &PoolLoad, columns: usize) -> String {
    let since = before.filter(|before| is_same_process(before, now));
    let pool = &now.whole.name;
    let counted_s = now.counted_ns / 1_000_000_000;
    let mut text = match (since, before) {
        (Some(before), _) => {
            let seconds = (now.counted_ns - before.counted_ns) as f64 / SECOND_NS;
            format!("{pool}: the last {seconds:.1} s")
        }
        (None, None) => format!("{pool}: since it was opened {} ago", duration(counted_s)),
        (None, Some(_)) => format!(
            "{pool}: the counters were reset, because the pool was opened again {} ago",
            duration(counted_s)
        ),
    };
    if now.suspended {
        text.push_str("; suspended, all I/O waits for devices");
    }
    text.push('\n');
    let elapsed_ns = now.counted_ns - since.map_or(0, |before| before.counted_ns);
    let mut rows = Vec::new();
    let look = Sample {
        elapsed_ns,
        names: Names::of(&now.whole),
    };
    look.rows(since.map(|before| &before.whole), &now.whole, 0, &mut rows);
    let wide = rendered(&HEADINGS, rows.iter().cloned());
    let widest = wide.lines().map(|line| line.chars().count()).max();
    text.push_str(&match widest.is_some_and(|widest| widest <= columns) {
        true => wide,
        false => rendered(
            &HEADINGS[..NARROW],
            rows.into_iter().map(|row| {
                let [
                    device,
                    allocated,
                    free,
                    reads,
                    writes,
                    read,
                    written,
                    queue,
                    ..,
                ] = row;
                [device, allocated, free, reads, writes, read, written, queue]
            }),
        ),
    });
    text
}

fn rendered<const N: usize>(headings: &[&str], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = Table::new(headings);
    rows.for_each(|row| table.row(row));
    table.render()
}

/// Returns whether both are from the same process, without a reset in between.
fn is_same_process(before: &PoolLoad, now: &PoolLoad) -> bool {
    let (old, new) = (&before.whole, &now.whole);
    before.pid == now.pid
        && before.counted_ns <= now.counted_ns
        && [
            (old.reads, new.reads),
            (old.writes, new.writes),
            (old.read_bytes, new.read_bytes),
            (old.written_bytes, new.written_bytes),
        ]
        .iter()
        .all(|(old, new)| old <= new)
}

/// How devices are named: by the tails of their paths, where those differ.
enum Names {
    Ends,
    Whole,
}

impl Names {
    fn of(whole: &DeviceLoad) -> Self {
        fn collect<'a>(device: &'a DeviceLoad, ends: &mut Vec<&'a str>) {
            ends.push(end_of(&device.name));
            device.members.iter().for_each(|one| collect(one, ends));
        }
        let mut ends = Vec::new();
        collect(whole, &mut ends);
        let count = ends.len();
        ends.sort_unstable();
        ends.dedup();
        match ends.len() == count {
            true => Self::Ends,
            false => Self::Whole,
        }
    }
}

fn end_of(name: &str) -> &str {
    // Its head is the main part of the name of a leg.
    if control::operations::pool::layout::is_leg(name) {
        return name;
    }
    name.rsplit('/').next().unwrap_or(name)
}

struct Sample {
    elapsed_ns: u64,
    names: Names,
}

impl Sample {
    fn rows(
        &self,
        before: Option<&DeviceLoad>,
        now: &DeviceLoad,
        depth: usize,
        rows: &mut Vec<[String; 12]>,
    ) {
        rows.push(self.row(before, now, depth));
        for member in &now.members {
            let old = before.and_then(|before| {
                let mut members = before.members.iter();
                members.find(|old| old.name == member.name)
            });
            self.rows(old, member, depth + 1, rows);
        }
    }

    fn row(&self, before: Option<&DeviceLoad>, now: &DeviceLoad, depth: usize) -> [String; 12] {
        // The counters of a device that returned start again.
        let since = |of: fn(&DeviceLoad) -> u64| {
            let old = before.map_or(0, of);
            of(now).checked_sub(old).unwrap_or_else(|| of(now))
        };
        let reads = waits(before.map(|old| &old.read_waits), &now.read_waits);
        let writes = waits(before.map(|old| &old.write_waits), &now.write_waits);
        let name = match self.names {
            Names::Ends => end_of(&now.name),
            Names::Whole => &now.name,
        };
        let (allocated, free) = match now.size {
            0 => (dash(), dash()),
            size => (
                bytes(now.allocated),
                bytes(size.saturating_sub(now.allocated)),
            ),
        };
        [
            format!("{}{name}", "  ".repeat(depth)),
            allocated,
            free,
            self.operations(since(|load| load.reads)),
            self.operations(since(|load| load.writes)),
            self.bytes(since(|load| load.read_bytes)),
            self.bytes(since(|load| load.written_bytes)),
            format!("{}+{}", now.pending, now.active),
            mean_ns(&reads).map_or_else(dash, time),
            mean_ns(&writes).map_or_else(dash, time),
            below_ns(&reads, 99).map_or_else(dash, time),
            below_ns(&writes, 99).map_or_else(dash, time),
        ]
    }

    fn per_second(&self, count: u64) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| count as f64 * SECOND_NS / self.elapsed_ns as f64)
    }

    fn operations(&self, count: u64) -> String {
        match self.per_second(count) {
            None => dash(),
            Some(rate) if rate > 0.0 && rate < 10.0 => format!("{rate:.1}"),
            Some(rate) => format!("{rate:.0}"),
        }
    }

    fn bytes(&self, count: u64) -> String {
        self.per_second(count)
            .map_or_else(dash, |rate| bytes(rate.round() as u64))
    }
}

/// Returns the increase of the counts of waiting times.
fn waits(before: Option<&Vec<u64>>, now: &[u64]) -> Vec<u64> {
    let old = |place| before.and_then(|before| before.get(place).copied());
    let places = now.iter().enumerate();
    places
        .map(|(place, count)| count.saturating_sub(old(place).unwrap_or(0)))
        .collect()
}

/// Returns the mean, with the middle of each class from 2^n to twice that as its value.
fn mean_ns(waits: &[u64]) -> Option<u64> {
    let count: u64 = waits.iter().sum();
    let places = waits.iter().enumerate();
    let all: f64 = places
        .map(|(place, count)| 1.5 * 2_f64.powi(place as i32) * *count as f64)
        .sum();
    (count > 0).then(|| (all / count as f64).round() as u64)
}

/// Returns the bound that this percentage stayed below.
fn below_ns(waits: &[u64], percent: u64) -> Option<u64> {
    let count: u64 = waits.iter().sum();
    let wanted = (count * percent).div_ceil(100);
    let mut seen = 0;
    let place = waits.iter().position(|count| {
        seen += count;
        seen > 0 && seen >= wanted
    })?;
    Some(2_u64.saturating_pow(place as u32 + 1))
}

fn time(ns: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    for (name, unit) in UNITS {
        if ns >= unit {
            let value = ns as f64 / unit as f64;
            return match value < 10.0 {
                true => format!("{value:.1}{name}"),
                false => format!("{value:.0}{name}"),
            };
        }
    }
    format!("{ns}ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, writes: u64, members: Vec<DeviceLoad>) -> DeviceLoad {
        DeviceLoad {
            name: name.to_owned(),
            writes,
            written_bytes: writes << 20,
            write_waits: vec![0, 0, writes],
            members,
            ..DeviceLoad::default()
        }
    }

    fn look(pid: u32, seconds: u64, writes: u64) -> PoolLoad {
        let legs = ["/dev/disk/by-id/scsi-a", "/dev/disk/by-id/scsi-b"];
        let legs = legs.map(|leg| device(leg, writes / 2, Vec::new()));
        let mut mirror = device("mirror-0", writes, legs.to_vec());
        (mirror.size, mirror.allocated) = (10 << 30, 1 << 30);
        PoolLoad {
            pid,
            counted_ns: seconds * 1_000_000_000,
            suspended: false,
            whole: device("tank", writes, vec![mirror]),
            ..PoolLoad::default()
        }
    }

    /// The cells of a device's row.
    fn row(text: &str, device: &str) -> String {
        let rows = text.lines().map(|line| line.split_whitespace());
        let mut rows = rows.map(|cells| cells.collect::<Vec<_>>().join(" "));
        let row = rows.find(|row| row.starts_with(&format!("{device} ")));
        row.unwrap_or_else(|| panic!("no {device}: {text}"))
    }

    #[test]
    fn legs_have_their_names() {
        let mut load = look(1, 10, 100);
        let device = "/dev/disk/by-id/scsi-a".to_owned();
        load.leg_names.insert(device, "right:/y".to_owned());
        let text = table(None, &load);
        assert!(row(&text, "right:/y").starts_with("right:/y"), "{text}");
        assert!(row(&text, "scsi-b").starts_with("scsi-b"), "{text}");
    }

    #[test]
    fn first_sample_is_since_start_and_later_ones_are_deltas() {
        let (first, second) = (look(1, 10, 100), look(1, 12, 140));
        let all = shown(None, &first, 80);
        assert!(
            all.starts_with("tank: since it was opened 10 s ago\n"),
            "{all}"
        );
        assert_eq!(row(&all, "tank"), "tank - - 0 10 0B 10M 0+0");
        assert_eq!(row(&all, "scsi-a"), "scsi-a - - 0 5.0 0B 5M 0+0");
        let since = shown(Some(&first), &second, 80);
        assert!(since.starts_with("tank: the last 2.0 s\n"), "{since}");
        assert_eq!(row(&since, "mirror-0"), "mirror-0 1G 9G 0 20 0B 20M 0+0");
        assert_eq!(row(&since, "scsi-b"), "scsi-b - - 0 10 0B 10M 0+0");
    }

    #[test]
    fn server_restart_is_noted_and_resets_the_counters() {
        let before = look(1, 10, 100);
        for again in [look(2, 20, 200), look(1, 1, 200), look(1, 20, 50)] {
            let text = shown(Some(&before), &again, 80);
            assert!(text.contains("were reset"), "{text}");
        }
    }

    #[test]
    fn narrow_terminal_omits_p99_and_suspended_pool_omits_rates() {
        let load = look(1, 10, 100);
        let narrow = shown(None, &load, 80);
        assert!(!narrow.contains("P99"), "{narrow}");
        let widest = narrow.lines().map(str::len).max();
        assert!(widest <= Some(80), "{narrow}");
        assert!(shown(None, &load, usize::MAX).contains("P99 W"));
        let mut suspended = load.clone();
        suspended.suspended = true;
        let text = shown(Some(&load), &suspended, 80);
        assert!(
            text.contains("suspended") && !text.contains("NaN"),
            "{text}"
        );
    }

    #[test]
    fn latencies_use_bucket_midpoint_and_upper_bound() {
        assert_eq!((mean_ns(&[]), below_ns(&[0, 0], 99)), (None, None));
        let mut waits = vec![0; 21];
        (waits[10], waits[20]) = (99, 1);
        assert_eq!(below_ns(&waits, 99), Some(2048));
        waits[20] = 2;
        assert_eq!(below_ns(&waits, 99), Some(1 << 21));
        assert_eq!(mean_ns(&[0, 0, 3]), Some(6));
        for (ns, text) in [
            (7, "7ns"),
            (1500, "1.5us"),
            (2_097_152, "2.1ms"),
            (30_000_000_000, "30s"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}
