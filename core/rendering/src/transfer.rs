//! Renders transfers for people.

use std::fmt::Write as _;

use control::calendar::utc;
use control::replication::{ReplicatedView, ReplicationView};
use control::transfer::{InterruptedView, TransferView};

use crate::table::{Table, dash};
use control::words::bytes;

/// Renders the result of a send or receive.
pub fn done(view: &TransferView) -> String {
    let snapshots = view.snapshots.join(" ");
    let size = bytes(view.bytes);
    if view.is_estimate {
        return format!("{snapshots}: about {size}\n");
    }
    let seconds = view.elapsed_ms as f64 / 1000.0;
    let rate = bytes((view.bytes as f64 / seconds.max(0.001)) as u64);
    format!("{snapshots}: {size} in {seconds:.1} s ({rate}/s)\n")
}

/// Renders the state that an interrupted receive left: the token alone, for scripts.
pub fn interrupted(view: &InterruptedView) -> String {
    match &view.token {
        Some(token) => format!("{token}\n"),
        None => format!("no receive of {} was interrupted\n", view.volume),
    }
}

/// Renders the identity of the pool, the pools that may replicate into it, and the datasets that it
/// replicates.
pub fn replication(view: &ReplicationView) -> String {
    let mut text = match &view.fingerprint {
        Some(fingerprint) => format!("fingerprint of {}: {fingerprint}\n", view.pool),
        None => format!(
            "{} has no key: create it by `bulkhead replicate identity`\n",
            view.pool
        ),
    };
    for peer in &view.peers {
        let _ = writeln!(
            text,
            "accepts {} of {} below {}, retains {} snapshots and one of each of {} days",
            match peer.files {
                true => "volumes and file systems",
                false => "volumes",
            },
            peer.fingerprint,
            peer.below,
            peer.retention.newest,
            peer.retention.days
        );
    }
    if !view.replicated.is_empty() {
        let _ = write!(text, "\n{}", originals(view).render());
    }
    if !view.copies.is_empty() {
        let _ = write!(text, "\n{}", copies(view).render());
    }
    text
}

fn originals(view: &ReplicationView) -> Table {
    let mut table = Table::new(&[
        "REPLICATED",
        "TO",
        "INTO",
        ">EVERY",
        ">LAG",
        ">LAST",
        "STATE",
    ]);
    for one in &view.replicated {
        let document = &one.document;
        table.row([
            one.dataset.to_string(),
            document.to.clone(),
            document.into.to_string(),
            document.every_s.map_or_else(dash, duration),
            one.lag_s.map_or_else(dash, duration),
            bytes(one.state.bytes),
            state(one),
        ]);
    }
    table
}

fn copies(view: &ReplicationView) -> Table {
    let mut table = Table::new(&["COPY", "CONTENTS OF", ">AGE", "STATE", "ORIGINAL'S EXPORTS"]);
    for one in &view.copies {
        table.row([
            one.volume.to_string(),
            one.contents_unix_s.map_or_else(dash, utc),
            one.age_s.map_or_else(dash, duration),
            match (one.promoted_unix_s, one.orphaned_unix_s) {
                (Some(since), _) => format!("promoted {}", utc(since)),
                _ if one.is_arriving => "arriving".to_owned(),
                (None, Some(since)) => format!("original gone {}", utc(since)),
                (None, None) => "copy".to_owned(),
            },
            match one.exports.is_empty() {
                true => dash(),
                false => one.exports.join(" "),
            },
        ]);
    }
    table
}

fn state(one: &ReplicatedView) -> String {
    if let Some(text) = &one.under_way {
        return format!("under way {text}");
    }
    match &one.state.failure {
        Some(failure) => format!("failed: {failure}"),
        None if one.state.succeeded_unix_s == 0 => "not yet".to_owned(),
        None => "ok".to_owned(),
    }
}

/// Formats a duration in the largest unit without ambiguity.
fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
