//! Hours: the bytes of a movement at the rates of disks, networks and journals.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::OsdId;
use crate::movement::Movement;

/// Rates in bytes per second; `None` is unknown, and its bound is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// At which one disk reads and writes.
    pub disk: Option<u64>,
    /// Of the network of one host, in each direction.
    pub network: Option<u64>,
    /// At which one journal (or WAL) device writes.
    pub journal: Option<u64>,
    /// Journal devices of a host.
    pub journals_per_host: u32,
    /// Bytes written to the journal for each byte that arrives: 1 for FileStore.
    pub journal_factor: f64,
    /// At which one disk receives while the cluster serves clients, as it was measured.
    pub measured: Option<u64>,
}

/// The hours of one resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// The resource with the most work.
    pub slowest: String,
    /// Hours of that one.
    pub hours: f64,
    /// Hours if the work was spread evenly over all that receive.
    pub hours_evenly: f64,
    /// Hours, evenly spread, if all copies of each touched placement group were written: an upper estimate, which some
    /// reports print.
    pub hours_touched: f64,
}

/// The hours of a movement.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Hours {
    /// By disks.
    pub disk: Option<Bound>,
    /// By the networks of hosts.
    pub network: Option<Bound>,
    /// By journals.
    pub journal: Option<Bound>,
    /// At the measured rate; never less than the bounds.
    pub expected: Option<f64>,
}

impl Hours {
    /// The largest lower bound.
    pub fn bound(&self) -> Option<f64> {
        let bounds = [&self.disk, &self.network, &self.journal];
        let hours = bounds.into_iter().flatten().map(|bound| bound.hours);
        hours.reduce(f64::max)
    }
}

const SECONDS_PER_HOUR: f64 = 3600.0;

fn hours(bytes: f64, rate: f64) -> f64 {
    bytes / rate / SECONDS_PER_HOUR
}

/// Computes the hours. `receivers` are the disks that the growth adds, or all if it adds none.
pub fn hours_of(
    movement: &Movement,
    hosts: &BTreeMap<OsdId, String>,
    receivers: &BTreeSet<OsdId>,
    rates: &Rates,
) -> Hours {
    let work = Work {
        movement,
        hosts,
        receivers,
    };
    let mut found = Hours {
        disk: rates.disk.and_then(|rate| work.by_disk(rate as f64)),
        network: rates.network.and_then(|rate| work.by_network(rate as f64)),
        journal: rates.journal.and_then(|rate| {
            let devices = f64::from(rates.journals_per_host.max(1));
            work.by_journal(rate as f64 * devices / rates.journal_factor)
        }),
        expected: None,
    };
    if let Some(rate) = rates.measured {
        let most = movement.disks.values().map(|disk| disk.incoming).max();
        let at_rate = hours(most.unwrap_or(0) as f64, rate as f64);
        found.expected = Some(at_rate.max(found.bound().unwrap_or(0.0)));
    }
    found
}

struct Work<'a> {
    movement: &'a Movement,
    hosts: &'a BTreeMap<OsdId, String>,
    receivers: &'a BTreeSet<OsdId>,
}

impl Work<'_> {
    fn host(&self, osd: OsdId) -> &str {
        self.hosts.get(&osd).map_or("-", String::as_str)
    }

    /// Receiving disks, or hosts.
    fn bound(&self, work: BTreeMap<String, f64>, resources: usize, rate: f64) -> Option<Bound> {
        let (slowest, most) = work
            .into_iter()
            .max_by(|one, other| one.1.total_cmp(&other.1))?;
        let rate_of_all = rate * resources.max(1) as f64;
        Some(Bound {
            slowest,
            hours: hours(most, rate),
            hours_evenly: hours(self.movement.bytes_moved as f64, rate_of_all),
            hours_touched: hours(self.movement.bytes_touched as f64, rate_of_all),
        })
    }

    fn receiving_hosts(&self) -> usize {
        let hosts: BTreeSet<&str> = self.receivers.iter().map(|&osd| self.host(osd)).collect();
        hosts.len()
    }

    fn by_disk(&self, rate: f64) -> Option<Bound> {
        let disks = self.movement.disks.iter();
        let work = disks.map(|(osd, disk)| {
            let bytes = disk.incoming as f64 + disk.read as f64;
            (format!("osd.{osd}"), bytes)
        });
        self.bound(work.collect(), self.receivers.len(), rate)
    }

    /// Both directions at once; transfers inside of a host do not use its network.
    fn by_network(&self, rate: f64) -> Option<Bound> {
        let mut directions: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
        for (&(from, to), &bytes) in &self.movement.sent {
            let (from, to) = (self.host(from), self.host(to));
            if from != to {
                directions.entry(from).or_default()[0] += bytes as f64;
                directions.entry(to).or_default()[1] += bytes as f64;
            }
        }
        let work = directions
            .into_iter()
            .map(|(host, [sent, received])| (host.to_owned(), sent.max(received)));
        self.bound(work.collect(), self.receiving_hosts(), rate)
    }

    fn by_journal(&self, rate_of_host: f64) -> Option<Bound> {
        let mut work: BTreeMap<String, f64> = BTreeMap::new();
        for (&osd, disk) in &self.movement.disks {
            *work.entry(self.host(osd).to_owned()).or_default() += disk.incoming as f64;
        }
        self.bound(work, self.receiving_hosts(), rate_of_host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::movement::DiskMovement;

    /// The case of the field report: 106 TB to 30 disks of 170 MB/s, on three hosts with two journals of 520 MB/s each.
    #[test]
    fn bounds_of_the_report_are_reproduced() {
        let each = 106_000_000_000_000 / 30;
        let disk = DiskMovement {
            incoming: each,
            ..DiskMovement::default()
        };
        let movement = Movement {
            disks: (170..200).map(|osd| (osd, disk)).collect(),
            bytes_moved: each * 30,
            bytes_touched: each * 30,
            sent: (170..200).map(|osd| ((osd - 170, osd), each)).collect(),
            ..Movement::default()
        };
        let hosts = (0..200).map(|osd| (osd, format!("h{}", osd / 10)));
        let rates = Rates {
            disk: Some(170_000_000),
            network: Some(1_250_000_000),
            journal: Some(520_000_000),
            journals_per_host: 2,
            journal_factor: 1.0,
            measured: Some(32_700_000),
        };
        let hours = hours_of(&movement, &hosts.collect(), &(170..200).collect(), &rates);
        let near = |found: Option<f64>, wanted: f64| {
            let found = found.expect("computed");
            assert!((found - wanted).abs() < 0.1, "{found} instead of {wanted}");
        };
        near(hours.disk.as_ref().map(|bound| bound.hours), 5.8);
        near(hours.journal.as_ref().map(|bound| bound.hours), 9.44);
        near(hours.network.as_ref().map(|bound| bound.hours), 7.85);
        near(hours.bound(), 9.44);
        near(hours.expected, 30.0);
    }

    #[test]
    fn bounds_of_unknown_rates_are_left_out() {
        let hours = hours_of(
            &Movement::default(),
            &BTreeMap::new(),
            &BTreeSet::new(),
            &Rates::default(),
        );
        assert_eq!((hours.bound(), hours.expected), (None, None));
    }

    #[test]
    fn transfers_within_a_host_use_no_network() {
        let movement = Movement {
            sent: BTreeMap::from([((0, 1), 1000), ((0, 2), 10)]),
            ..Movement::default()
        };
        let hosts = [(0, "a"), (1, "a"), (2, "b")].map(|(osd, host)| (osd, host.to_owned()));
        let rates = Rates {
            network: Some(1),
            ..Rates::default()
        };
        let hours = hours_of(&movement, &hosts.into(), &BTreeSet::from([2]), &rates);
        let bound = hours.network.expect("computed");
        assert!((bound.hours - 10.0 / 3600.0).abs() < 1e-9);
    }
}
