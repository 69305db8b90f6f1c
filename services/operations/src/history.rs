//! The changes that a pool has stored in itself.

use control::answer::HistoryEntry;
use control::exports::PROPERTY_PREFIX;
use control::{Answer, Failure};
use engine::{HistoryRecord, Pool};

use super::failures;
use crate::{events, needs};

/// How much of the end of the history is read, in bytes.
const TAIL_BYTES_MAX: usize = 1 << 20;
/// Entries that are shown by default.
const SHOWN_DEFAULT: u32 = 200;
/// Most entries of one reply.
const SHOWN_MAX: u32 = 5000;

/// The newest `limit` entries, the oldest first.
pub fn list(pool: &dyn Pool, limit: Option<u32>) -> Result<Answer, Failure> {
    let records = needs(pool.history())?
        .history_records(TAIL_BYTES_MAX)
        .map_err(failures::pool)?;
    let limit = limit.unwrap_or(SHOWN_DEFAULT).min(SHOWN_MAX) as usize;
    let first = records.len().saturating_sub(limit);
    let shown = records.into_iter().skip(first).map(entry);
    Ok(Answer::History(shown.collect()))
}

/// Our own records are events.
fn entry(record: HistoryRecord) -> HistoryEntry {
    let HistoryRecord {
        at_unix_s,
        txg,
        what,
        of,
        details,
    } = record;
    let event = details.as_deref().and_then(events::in_record);
    let (what, details) = match event {
        Some(event) => (format!("event {}", event.kind), Some(event.message)),
        None => (what, details.map(without_documents)),
    };
    HistoryEntry {
        at_unix_s,
        txg,
        what,
        of,
        details,
    }
}

/// Removes the values of our own properties: documents of an older version contain secrets in the clear.
fn without_documents(details: String) -> String {
    match details.find(PROPERTY_PREFIX) {
        None => details,
        Some(at) => {
            let name: String = details[at..]
                .chars()
                .take_while(|c| !c.is_whitespace() && *c != '=')
                .collect();
            format!("{}{name} (its value is not shown)", &details[..at])
        }
    }
}

#[cfg(test)]
mod tests {
    use control::answer::Event;

    use super::*;

    #[test]
    fn own_events_are_shown_as_sentences() {
        let event = Event {
            number: 1,
            at_ms: 5,
            kind: "state".to_owned(),
            device: None,
            message: "/dev/a was ONLINE, is OFFLINE".to_owned(),
        };
        let record = |details: String| HistoryRecord {
            at_unix_s: 7,
            txg: None,
            what: "command".to_owned(),
            of: None,
            details: Some(details),
        };
        let shown = entry(record(events::record(&event)));
        assert_eq!((shown.at_unix_s, shown.what.as_str()), (7, "event state"));
        assert_eq!(
            shown.details.as_deref(),
            Some("/dev/a was ONLINE, is OFFLINE")
        );
        let other = entry(record("zpool create tank /dev/a".to_owned()));
        assert_eq!(other.what, "command");
    }

    #[test]
    fn values_of_documents_are_not_shown() {
        for (details, shown) in [
            (
                "bulkhead:target-1={\"chap\":\"secret\"}",
                "bulkhead:target-1 (its value is not shown)",
            ),
            (
                "zfs set bulkhead:target-1=secret tank/v",
                "zfs set bulkhead:target-1 (its value is not shown)",
            ),
            ("compression=lz4", "compression=lz4"),
        ] {
            assert_eq!(without_documents(details.to_owned()), shown);
        }
    }
}
