//! Packets that the network of a host loses: counters of interfaces, queues, processors, protocols and sockets, and the
//! kernel's reports of single packets, as one list with a reason for each. Parsers only: the caller reads the files and
//! runs the tools.

#![forbid(unsafe_code)]

pub mod counters;
pub mod meaning;
pub mod sockets;
pub mod trace;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// Most counters of a snapshot. A host has some hundred, and one for each connection.
const COUNTERS_MAX: usize = 65_536;
/// Longest name of a counter, an interface or an address, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The part of the network stack that lost packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// An interface: its card and driver.
    Interface,
    /// A queue of an interface, as its driver counts.
    Queue,
    /// The queueing discipline of an interface.
    Qdisc,
    /// The backlog of a processor.
    Processor,
    /// A protocol of this host, over all sockets.
    Protocol,
    /// A socket.
    Socket,
    /// The kernel, with its own reason.
    Kernel,
}

/// What a counter counts. Addresses are `ADDRESS:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Source {
    /// The layer.
    pub layer: Layer,
    /// The interface, queue, processor, protocol or function of the kernel.
    pub at: String,
    /// The kernel's name of the counter or of the reason.
    pub reason: String,
    /// The address of this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// The address of the peer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
}

impl Source {
    /// A source without addresses. Names are shortened, and contain no control characters.
    pub fn new(layer: Layer, at: &str, reason: &str) -> Self {
        let (local, peer) = (None, None);
        Self {
            layer,
            at: printable(at),
            reason: printable(reason),
            local,
            peer,
        }
    }

    /// The same between two addresses.
    pub fn between(mut self, local: &str, peer: &str) -> Self {
        self.local = Some(printable(local));
        self.peer = Some(printable(peer));
        self
    }
}

/// Counters at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot(BTreeMap<Source, u64>);

impl Snapshot {
    /// Adds to a counter. Further counters beyond the maximum are left out.
    pub fn add(&mut self, source: Source, count: u64) {
        if self.0.len() >= COUNTERS_MAX && !self.0.contains_key(&source) {
            return;
        }
        let counter = self.0.entry(source).or_default();
        *counter = counter.saturating_add(count);
    }

    /// Adds all of these counters.
    pub fn extend(&mut self, counters: impl IntoIterator<Item = (Source, u64)>) {
        for (source, count) in counters {
            self.add(source, count);
        }
    }
}

/// Packets that were lost in an interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Loss {
    /// Where and why.
    #[serde(flatten)]
    pub source: Source,
    /// How many in the interval.
    pub count: u64,
    /// How many since the counter began; none for reports of single packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// The counters that grew, the largest growth first. A counter that is new began at zero only if it is of a socket:
/// the counters of an interface that appears are older than the interval. A counter that shrank began again.
pub fn grown(before: &Snapshot, now: &Snapshot) -> Vec<Loss> {
    let losses = now.0.iter().filter_map(|(source, &total)| {
        let old = match before.0.get(source) {
            Some(&old) if old <= total => old,
            Some(_) => 0,
            None if source.layer == Layer::Socket => 0,
            None => return None,
        };
        let loss = Loss {
            source: source.clone(),
            count: total - old,
            total: Some(total),
        };
        (loss.count > 0).then_some(loss)
    });
    let mut losses: Vec<Loss> = losses.collect();
    losses.sort_by(|left, right| {
        let by_count = right.count.cmp(&left.count);
        by_count.then_with(|| left.source.cmp(&right.source))
    });
    losses
}

/// The counters above zero, for a list of all losses since they began.
pub fn all(now: &Snapshot) -> Vec<Loss> {
    let zero = now.0.keys().map(|source| (source.clone(), 0)).collect();
    grown(&Snapshot(zero), now)
}

fn printable(text: &str) -> String {
    units::printable(text, NAME_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(counters: &[(Layer, &str, u64)]) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let counters = counters.iter();
        snapshot.extend(counters.map(|&(layer, at, count)| (Source::new(layer, at, "r"), count)));
        snapshot
    }

    #[test]
    fn only_counters_that_grew_are_losses() {
        let before = snapshot(&[
            (Layer::Interface, "a", 5),
            (Layer::Interface, "b", 7),
            (Layer::Interface, "c", 9),
        ]);
        let now = snapshot(&[
            (Layer::Interface, "a", 5),
            (Layer::Interface, "b", 17),
            (Layer::Interface, "c", 2),
            (Layer::Interface, "new", 100),
            (Layer::Socket, "new", 3),
        ]);
        let found: Vec<(String, u64)> = grown(&before, &now)
            .into_iter()
            .map(|loss| (loss.source.at, loss.count))
            .collect();
        assert_eq!(
            found,
            [
                ("b".to_owned(), 10),
                ("new".to_owned(), 3),
                ("c".to_owned(), 2)
            ]
        );
    }

    #[test]
    fn hostile_names_are_short_and_printable() {
        let long = format!("\u{1b}[31m{}\n", "x".repeat(500));
        let source = Source::new(Layer::Queue, &long, "a\tb");
        assert_eq!(source.at.chars().count(), NAME_CHARS_MAX);
        assert!(!source.at.contains('\u{1b}'));
        assert_eq!(source.reason, "ab");
    }

    #[test]
    fn number_of_counters_is_bounded() {
        let mut snapshot = Snapshot::default();
        for number in 0..COUNTERS_MAX + 10 {
            snapshot.add(Source::new(Layer::Socket, &number.to_string(), "r"), 1);
        }
        snapshot.add(Source::new(Layer::Socket, "0", "r"), 1);
        assert_eq!(snapshot.0.len(), COUNTERS_MAX);
        assert_eq!(snapshot.0[&Source::new(Layer::Socket, "0", "r")], 2);
    }
}
