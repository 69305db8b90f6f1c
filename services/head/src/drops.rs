//! The packets that this head lost in the last interval, as `bulkhead watch drops` measures them. Measured in the
//! background, and only while they are requested.

use std::sync::Arc;
use std::time::Duration;

use api::view::{DropView, DropsView};
use drop_watch::interval::{self, Interval};
use network_drops::Loss;
use network_drops::meaning::meaning;

use super::refreshed::Refreshed;

/// Length of an interval, in seconds.
const INTERVAL_S: u64 = 5;
/// Most losses of a response. A host has some hundred counters, and one for each connection.
const LOSSES_MAX: usize = 200;

/// The last interval.
#[derive(Default)]
pub struct Drops(Arc<Refreshed<DropsView>>);

impl Drops {
    /// The last interval. Starts to measure the next one, unless one is being measured.
    pub fn get(&self) -> DropsView {
        let age_max = Duration::from_secs(INTERVAL_S);
        let measured = |_: &DropsView| view(interval::once(INTERVAL_S));
        let last = self.0.get("lost-packets", age_max, measured);
        DropsView::clone(&last)
    }
}

fn view(interval: Interval) -> DropsView {
    let described = |loss: Loss| {
        let meaning = meaning(&loss.source);
        DropView {
            loss,
            cause: meaning.map(|meaning| meaning.cause),
            remedy: meaning.map(|meaning| meaning.remedy),
        }
    };
    DropsView {
        seconds: interval.seconds,
        more: interval.losses.len().saturating_sub(LOSSES_MAX),
        losses: interval
            .losses
            .into_iter()
            .take(LOSSES_MAX)
            .map(described)
            .collect(),
        notes: interval.notes.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use network_drops::{Layer, Source};

    use super::*;

    #[test]
    fn losses_have_their_meaning_and_are_bounded() {
        let loss = |at: usize| Loss {
            source: Source::new(Layer::Qdisc, &format!("ens{at}"), "fq"),
            count: 1,
            total: Some(2),
        };
        let shown = view(Interval {
            seconds: Some(5),
            losses: (0..LOSSES_MAX + 3).map(loss).collect(),
            notes: BTreeSet::from(["a note".to_owned()]),
        });
        assert_eq!((shown.losses.len(), shown.more), (LOSSES_MAX, 3));
        let first = &shown.losses[0];
        assert!(
            first
                .cause
                .is_some_and(|cause| cause.contains("queue of the interface"))
        );
        let json = serde_json::to_value(first).expect("JSON");
        assert_eq!(
            (
                &json["layer"],
                &json["at"],
                &json["count"],
                json.get("peer")
            ),
            (&"qdisc".into(), &"ens0".into(), &1.into(), None)
        );
    }
}
