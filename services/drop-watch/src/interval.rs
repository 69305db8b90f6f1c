//! The result of one interval.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use network_drops::{Loss, all, grown};
use serde::Serialize;

use crate::reports::{Reports, is_reported};
use crate::sources::{Reading, Selection, concerns, interfaces, read};

/// The losses of an interval.
#[derive(Debug, Serialize)]
pub struct Interval {
    /// Its length; none for all losses since the counters began.
    pub seconds: Option<u64>,
    /// The losses, the largest first.
    pub losses: Vec<Loss>,
    /// What could not be read, with the remedy.
    pub notes: BTreeSet<String>,
}

/// Measures one interval: all interfaces, and the sockets of the appliance. Blocks for its length.
pub fn once(seconds: u64) -> Interval {
    let root = Path::new("/");
    let selection = Selection {
        interfaces: interfaces(root),
        all_sockets: false,
    };
    let mut reports = Reports::start();
    let mut before = read(root, &selection);
    measure(root, &selection, seconds, &mut before, &mut reports)
}

/// Performs `action`, and returns the losses of this host concurrently: those of the processors and protocols, and of
/// one interface.
pub fn during<T>(interface: Option<&str>, action: impl FnOnce() -> T) -> (T, Vec<Loss>) {
    let root = Path::new("/");
    let selection = Selection {
        interfaces: interface.into_iter().map(str::to_owned).collect(),
        all_sockets: false,
    };
    let before = read(root, &selection);
    let result = action();
    let after = read(root, &selection);
    (result, grown(&before.counters, &after.counters))
}

/// Measures the interval since `before`, which becomes its end. Without `reports` it has no reasons of the kernel, and a
/// note why.
pub(crate) fn measure(
    root: &Path,
    selection: &Selection,
    seconds: u64,
    before: &mut Reading,
    reports: &mut Result<Reports, String>,
) -> Interval {
    let end = Instant::now() + Duration::from_secs(seconds);
    let (reported, missing) = match reports {
        Ok(reports) => reports.collect(end),
        Err(_) => {
            // The interval of a measurement: there is no event to poll for.
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            Default::default()
        }
    };
    let mut now = read(root, selection);
    let mut notes = std::mem::take(&mut now.notes);
    notes.extend(reports.as_ref().err().cloned());
    if missing > 0 {
        notes.insert(format!(
            "{missing} reports of the kernel are missing: there were too many"
        ));
    }
    let mut single = all(&reported);
    single.iter_mut().for_each(|loss| loss.total = None);
    single.retain(|loss| {
        selection.all_sockets
            || concerns(&loss.source, &now.own_ports)
            || concerns(&loss.source, &before.own_ports)
    });
    let mut losses = grown(&before.counters, &now.counters);
    losses.retain(|loss| !is_reported(&single, &loss.source));
    losses.extend(single);
    losses.sort_by_key(|loss| std::cmp::Reverse(loss.count));
    *before = now;
    Interval {
        seconds: Some(seconds),
        losses,
        notes,
    }
}
