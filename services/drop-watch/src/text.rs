//! The losses of an interval as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use network_drops::meaning::meaning;
use network_drops::{Layer, Loss};
use rendering::{Table, harmless};

use crate::interval::Interval;

/// Most rows of a block.
const ROWS_MAX: usize = 40;

const fn layer(layer: Layer) -> &'static str {
    match layer {
        Layer::Interface => "interface",
        Layer::Queue => "queue",
        Layer::Qdisc => "qdisc",
        Layer::Processor => "processor",
        Layer::Protocol => "protocol",
        Layer::Socket => "socket",
        Layer::Kernel => "kernel",
    }
}

/// Renders the losses, with the cause and the remedy of each kind.
pub fn interval(interval: &Interval) -> String {
    let over = match interval.seconds {
        Some(seconds) => format!("in {seconds} s"),
        None => "since the counters began".to_owned(),
    };
    let mut text = String::new();
    if interval.losses.is_empty() {
        let _ = writeln!(text, "no lost packets {over}");
    } else {
        let _ = writeln!(text, "lost packets {over}:\n");
        text.push_str(&table(&interval.losses));
        text.push_str(&meanings(&interval.losses));
    }
    for note in &interval.notes {
        let _ = writeln!(text, "note: {}", harmless(note));
    }
    text.push('\n');
    text
}

fn table(losses: &[Loss]) -> String {
    let mut table = Table::new(&[">COUNT", "LAYER", "AT", "REASON", "LOCAL", "PEER"]);
    let cell = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), harmless);
    for loss in losses.iter().take(ROWS_MAX) {
        let source = &loss.source;
        table.row([
            loss.count.to_string(),
            layer(source.layer).to_owned(),
            harmless(&source.at),
            harmless(&source.reason),
            cell(&source.local),
            cell(&source.peer),
        ]);
    }
    let mut text = table.render();
    if let Some(more) = losses.len().checked_sub(ROWS_MAX).filter(|&more| more > 0) {
        let _ = writeln!(text, "and {more} smaller ones: --json shows all");
    }
    text
}

fn meanings(losses: &[Loss]) -> String {
    let mut shown = BTreeSet::new();
    let mut text = String::new();
    for loss in losses {
        let Some(meaning) = meaning(&loss.source).filter(|found| shown.insert(found.cause)) else {
            continue;
        };
        let _ = write!(
            text,
            "\n{}: {}\n  {}\n",
            harmless(&loss.source.reason),
            meaning.cause,
            meaning.remedy
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use network_drops::Source;

    #[test]
    fn each_cause_is_explained_once() {
        let loss = |at: &str, count| Loss {
            source: Source::new(Layer::Interface, at, "rx_missed_errors"),
            count,
            total: None,
        };
        let shown = interval(&Interval {
            seconds: Some(5),
            losses: vec![loss("ens1f0", 7), loss("ens1f1", 3)],
            notes: BTreeSet::from(["a note".to_owned()]),
        });
        assert_eq!(
            shown
                .matches("the receive ring of the card was full")
                .count(),
            1
        );
        assert!(shown.contains("ens1f1"), "{shown}");
        assert!(shown.ends_with("note: a note\n\n"), "{shown}");
    }

    #[test]
    fn interval_without_losses_is_one_line() {
        let shown = interval(&Interval {
            seconds: Some(5),
            losses: Vec::new(),
            notes: BTreeSet::new(),
        });
        assert_eq!(shown, "no lost packets in 5 s\n\n");
    }
}
