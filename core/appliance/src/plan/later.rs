//! Settings that a running server adopts only at its next start.

use std::path::Path;

use units::HeadName;

use super::{APPLIANCE_PATH, Actual, DesiredState, HeadActual, known};
use crate::file::{Appliance, Pool};
use crate::parse::parse;

/// Lists, for each running server, the settings that are not active after all changes are applied.
pub(super) fn notes(desired: &DesiredState, actual: &Actual) -> Vec<String> {
    let path = Path::new(APPLIANCE_PATH);
    let Some(new) = desired.files.iter().find(|file| file.path == path) else {
        return Vec::new();
    };
    let Ok(new) = parse(&new.text) else {
        return Vec::new();
    };
    let of_head = |(head, known): (&HeadName, &HeadActual)| {
        let old = known.files.get(path).and_then(|(text, _)| parse(text).ok());
        let served = known.portals.keys();
        let notes = served.filter_map(|pool| {
            let (old, new) = (&old.as_ref()?.appliance, &new.appliance);
            let fields = fields(old, new, old.pools.get(pool)?, new.pools.get(pool)?);
            let fields = fields.join(", ");
            let word = format!(
                "{head}: the server of {pool} adopts {fields} at its next start, such as by `bulkhead pool move {pool} HEAD`"
            );
            (!fields.is_empty()).then_some(word)
        });
        notes.collect::<Vec<String>>()
    };
    known(desired, actual).flat_map(of_head).collect()
}

/// Returns the changed fields that are on the command line of a server. Portals are excluded,
/// because a running server accepts new ones.
fn fields(old: &Appliance, new: &Appliance, before: &Pool, after: &Pool) -> Vec<&'static str> {
    let (was, is) = (old.timeouts(), new.timeouts());
    let silence = |appliance: &Appliance| {
        appliance
            .timeouts()
            .multihost_silence_ms(appliance.heads.len())
    };
    let tls = |pool: &Pool| {
        let all = pool
            .all_tls()
            .map(|(_, protocol, tls)| (protocol.name, tls.clone()));
        all.collect::<Vec<_>>()
    };
    let of_server = [
        ("disks", before.disks != after.disks),
        ("arc", before.arc != after.arc),
        ("claims", before.claims != after.claims),
        ("tls", tls(before) != tls(after)),
        ("kerberos", before.kerberos != after.kerberos),
        ("replication", before.replication != after.replication),
        (
            "the time-out of disks",
            was.disk_answer_s != is.disk_answer_s,
        ),
        (
            "the time-out of missing devices",
            was.pool_start_s != is.pool_start_s,
        ),
        ("the silence of an owner", silence(old) != silence(new)),
    ];
    let changed = of_server.into_iter().filter(|(_, is_other)| *is_other);
    changed.map(|(field, _)| field).collect()
}
