//! Promotions of replicated copies on a host that serves their originals, too.

use control::answer::{NbdView, Status};
use control::operations::replicate::ReplicateRequest;
use control::replication::{CopyView, ReplicatedView, ReplicationView};
use control::{Answer, Failure, FailureKind, Request};
use units::{PoolName, VolumeName};

use crate::common::Common;
use crate::sockets;

/// Returns the dataset with the copies to be promoted.
pub fn promotion(request: &Request) -> Option<&VolumeName> {
    match request {
        Request::Replicate(ReplicateRequest::Promote(promote)) => Some(&promote.dataset),
        _ => None,
    }
}

/// Refuses to promote copies of originals that another pool of this host serves. `list`: the copies.
pub fn refuse_served_originals(
    common: &Common,
    pool: &PoolName,
    dataset: &VolumeName,
    list: &Answer,
) -> Result<(), Failure> {
    let Answer::Replication(view) = list else {
        return Ok(());
    };
    let mut others = sockets::served(common)
        .into_iter()
        .filter(|other| other != pool);
    let found = others.find_map(|other| {
        let status = status_of(common, &other)?;
        let (copy, original) = served_original(&view.copies, dataset, &status)?;
        Some((other, copy, original))
    });
    match found {
        None => Ok(()),
        Some((other, copy, original)) => {
            let message = format!(
                "{original} of pool {other}, which this host serves, has the identity that {copy} would get"
            );
            Err(Failure::new(FailureKind::Exists, message).advise(format!(
                "initiators take both for one disk: first unmap it with `bulkhead target unmap`, or export the pool with \
                 `bulkhead pool export {other}`"
            )))
        }
    }
}

fn status_of(common: &Common, pool: &PoolName) -> Option<Status> {
    match sockets::brief_answer(common, pool, Request::Status) {
        Some(Answer::Status(status)) => Some(*status),
        _ => None,
    }
}

/// A copy at or below `dataset`, and the volume that is shown as the same disk.
fn served_original(
    copies: &[CopyView],
    dataset: &VolumeName,
    status: &Status,
) -> Option<(VolumeName, VolumeName)> {
    let meant = copies
        .iter()
        .filter(|copy| copy.promoted_unix_s.is_none() && copy.volume.is_at_or_below(dataset));
    let mut identified =
        meant.filter_map(|copy| Some((&copy.volume, &copy.identity.as_ref()?.naa)));
    let units = || status.targets.iter().flat_map(|target| &target.units);
    identified.find_map(|(copy, naa)| {
        let unit = units().find(|unit| unit.naa == *naa)?;
        Some((copy.clone(), unit.volume.clone()))
    })
}

/// Sentences about the originals of copies at or below `dataset` that other pools of this host export over NBD. An NBD
/// export has no identity that the copy would share, so such a promotion is not refused. `list`: the copies.
pub fn exported_originals(
    common: &Common,
    pool: &PoolName,
    dataset: &VolumeName,
    list: &Answer,
) -> Vec<String> {
    let Answer::Replication(view) = list else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    let others = sockets::served(common).into_iter();
    for other in others.filter(|other| other != pool) {
        let status = status_of(common, &other);
        let Some(status) = status.filter(|status| !status.nbd.is_empty()) else {
            continue;
        };
        let rules = Request::Replicate(ReplicateRequest::List);
        if let Some(Answer::Replication(rules)) = sockets::brief_answer(common, &other, rules) {
            notes.extend(nbd_originals(view, dataset, &rules.replicated, &status.nbd));
        }
    }
    notes
}

/// The same for one pool with these rules and exports.
fn nbd_originals(
    copies: &ReplicationView,
    dataset: &VolumeName,
    rules: &[ReplicatedView],
    exports: &[NbdView],
) -> Vec<String> {
    let own = copies.fingerprint.as_ref();
    let rules = rules.iter().filter(|rule| own == Some(&rule.document.peer));
    let promoted = copies
        .copies
        .iter()
        .filter(|copy| copy.promoted_unix_s.is_none() && copy.volume.is_at_or_below(dataset));
    let pairs = rules.flat_map(|rule| {
        let copies = promoted.clone();
        copies.filter_map(move |copy| {
            let original = copy.volume.moved(&rule.document.into, &rule.dataset)?;
            Some((&copy.volume, original))
        })
    });
    let exported = pairs.filter(|(_, original)| exports.iter().any(|one| one.volume == *original));
    let note = |(copy, original): (&VolumeName, VolumeName)| {
        format!(
            "{original}, the original of {copy}, is still exported over NBD on this host: its clients continue to write to it, and \
             none of that reaches {copy}; `bulkhead nbd unexport {original}` ends the export"
        )
    };
    exported.map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both pools are served on one host: the copy in `attic`, its original in `tank`.
    #[test]
    fn promotion_names_originals_that_are_still_exported_over_nbd() {
        let own = "a".repeat(64);
        let copies = serde_json::json!({
            "pool": "attic", "fingerprint": own, "peers": [], "replicated": [],
            "copies": [{"volume": "attic/from/v"}, {"volume": "attic/from/w"},
                {"volume": "attic/from/old", "promoted_unix_s": 5}],
        });
        let copies: ReplicationView = serde_json::from_value(copies).expect("a view");
        let rule = |peer: &str| {
            let rule = serde_json::json!({
                "dataset": "tank/vms",
                "document": {"version": 1, "to": "localhost:1", "peer": peer, "into": "attic/from", "keep": 1},
                "state": {"version": 1},
            });
            serde_json::from_value::<ReplicatedView>(rule).expect("a rule")
        };
        let export = |volume: &str| NbdView {
            volume: volume.parse().expect("a name"),
            export: control::exports::NbdExport {
                name: "x".to_owned(),
                read_only: false,
                access: control::exports::AccessRule::default(),
            },
            sessions: Vec::new(),
        };
        let notes = |rule: ReplicatedView, exports: &[NbdView], dataset: &str| {
            let dataset = dataset.parse().expect("a name");
            nbd_originals(&copies, &dataset, &[rule], exports)
        };
        let exports = [
            export("tank/vms/v"),
            export("tank/other"),
            export("tank/vms/old"),
        ];
        let found = notes(rule(&own), &exports, "attic/from");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("tank/vms/v, the original of attic/from/v, is still"));
        assert!(found[0].contains("`bulkhead nbd unexport tank/vms/v`"));
        assert!(notes(rule(&own), &exports, "attic/from/w").is_empty());
        assert!(notes(rule(&own), &[], "attic/from").is_empty());
        assert!(notes(rule(&"b".repeat(64)), &exports, "attic/from").is_empty());
    }
}
