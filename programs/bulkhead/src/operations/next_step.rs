//! What an administrator should do next about a pool: one sentence, with the command. A pure
//! function of the pool's state.

use std::collections::BTreeSet;

use control::answer::{DamageView, DeviceView, PoolStatus};

/// A device with more errors than this is not to be trusted again.
const ERRORS_MAX: u64 = 50;

/// What to do, in this order: no step contradicts another. Nothing when all is well.
pub fn steps(pool: &PoolStatus) -> Vec<String> {
    let name = &pool.name;
    if pool.suspended {
        return vec![format!(
            "bring the failed devices back, then run `bulkhead pool clear {name}`: all I/O waits"
        )];
    }
    let mut leaves = Vec::new();
    pool.devices
        .iter()
        .for_each(|one| collect(one, false, &mut leaves));
    // Everything else waits for a scan.
    if let Some(step) = scan_step(pool, &leaves) {
        return vec![step];
    }
    let lost = lost_step(name, &leaves);
    let damage = damage_step(pool);
    // What a repair finds out comes after it.
    let errors = match (&lost, &damage) {
        (None, None) => error_step(pool, &leaves),
        _ => None,
    };
    let all = [lost, damage, offline_step(name, &leaves), errors];
    all.into_iter().flatten().collect()
}

/// A device that is no group, and whether another one takes its place already.
struct Leaf<'a> {
    device: &'a DeviceView,
    is_replaced: bool,
}

fn collect<'a>(device: &'a DeviceView, is_replaced: bool, found: &mut Vec<Leaf<'a>>) {
    if device.members.is_empty() {
        found.push(Leaf {
            device,
            is_replaced,
        });
    }
    let is_replaced = is_replaced || device.name.starts_with("replacing-");
    let members = device.members.iter();
    members.for_each(|one| collect(one, is_replaced, found));
}

fn is_lost(device: &DeviceView) -> bool {
    matches!(device.state.as_str(), "FAULTED" | "UNAVAIL" | "REMOVED")
}

/// A scan that is under way comes first: most advice is better after it.
fn scan_step(pool: &PoolStatus, leaves: &[Leaf<'_>]) -> Option<String> {
    let (name, scan) = (&pool.name, pool.scan.as_ref()?);
    let is_lost = leaves
        .iter()
        .any(|leaf| is_lost(leaf.device) && !leaf.is_replaced);
    match (scan.function.as_str(), scan.state.as_str()) {
        ("resilver", "running") => Some(format!(
            "wait for the resilver, and leave the devices as they are: `bulkhead pool status \
             {name}` shows its progress"
        )),
        (_, "running") if !is_lost => Some(format!(
            "wait for the {}: `bulkhead pool scrub {name} --wait` shows its progress",
            scan.function
        )),
        (_, "paused") if !is_lost => Some(format!(
            "go on with the paused scrub: `bulkhead pool scrub {name} --resume`"
        )),
        _ => None,
    }
}

fn lost_step(pool: &str, leaves: &[Leaf<'_>]) -> Option<String> {
    let lost = leaves
        .iter()
        .find(|leaf| is_lost(leaf.device) && !leaf.is_replaced)?;
    let device = &lost.device.name;
    Some(match lost.device.role.as_str() {
        "cache" | "spare" => format!(
            "take the failed {} out: `bulkhead pool remove {pool} {device}`",
            lost.device.role
        ),
        _ if lost.device.state == "REMOVED" || lost.device.state == "UNAVAIL" => format!(
            "put {device} back in if it was only pulled out, else replace it: `bulkhead pool \
             replace-disk {pool}`"
        ),
        _ => format!("replace {device}: `bulkhead pool replace-disk {pool}` shows how"),
    })
}

fn damage_step(pool: &PoolStatus) -> Option<String> {
    let (name, first) = (&pool.name, pool.damaged.first()?);
    let (volume, damages) = (&first.dataset, &pool.damaged);
    let of_it: Vec<&DamageView> = damages
        .iter()
        .filter(|one| one.dataset == *volume)
        .collect();
    let others: BTreeSet<&str> = damages.iter().map(|one| one.dataset.as_str()).collect();
    let more = match others.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    if first.length == 0 {
        return Some(format!(
            "restore what is damaged in {volume}{more} from a backup, then run `bulkhead pool \
             scrub {name}`"
        ));
    }
    let lost: u64 = of_it.iter().map(|one| one.length).sum();
    Some(match of_it.iter().find_map(|one| one.snapshot.as_ref()) {
        Some(snapshot) => format!(
            "restore {volume}{more}, which lost {lost} bytes, from {snapshot}, which is whole: \
             `bulkhead snapshot clone {snapshot} {volume}-whole` gives what it held; then run \
             `bulkhead pool scrub {name}`"
        ),
        None => format!(
            "restore {volume}{more}, which lost {lost} bytes and has no whole snapshot, from a \
             backup; then run `bulkhead pool scrub {name}`"
        ),
    })
}

fn offline_step(pool: &str, leaves: &[Leaf<'_>]) -> Option<String> {
    let off = leaves
        .iter()
        .find(|leaf| leaf.device.state == "OFFLINE" && !leaf.is_replaced)?;
    let device = &off.device.name;
    Some(format!(
        "use {device} again: `bulkhead pool online {pool} {device}`"
    ))
}

fn error_step(pool: &PoolStatus, leaves: &[Leaf<'_>]) -> Option<String> {
    let name = &pool.name;
    let errors =
        |device: &DeviceView| device.read_errors + device.write_errors + device.checksum_errors;
    let worst = leaves.iter().max_by_key(|leaf| errors(leaf.device))?;
    let (device, count) = (&worst.device.name, errors(worst.device));
    let is_scrubbed = pool
        .scan
        .as_ref()
        .is_some_and(|scan| scan.state == "finished");
    match count {
        0 => None,
        count if count > ERRORS_MAX => Some(format!(
            "replace {device}, which had {count} errors: `bulkhead pool replace-disk {name} \
             {device}`"
        )),
        count if is_scrubbed => Some(format!(
            "note that {device} had {count} errors, which were repaired, and clear them: \
             `bulkhead pool clear {name}`; replace it if more come"
        )),
        count => Some(format!(
            "find out whether the {count} errors of {device} were all: `bulkhead pool scrub \
             {name} --wait`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::answer::ScanView;

    fn device(name: &str, state: &str) -> DeviceView {
        DeviceView {
            name: name.to_owned(),
            role: "data".to_owned(),
            state: state.to_owned(),
            ..DeviceView::default()
        }
    }

    fn group(name: &str, members: Vec<DeviceView>) -> DeviceView {
        DeviceView {
            members,
            ..device(name, "ONLINE")
        }
    }

    fn pool(members: Vec<DeviceView>) -> PoolStatus {
        PoolStatus {
            name: "tank".to_owned(),
            devices: vec![group("mirror-0", members)],
            ..PoolStatus::default()
        }
    }

    fn scanned(pool: PoolStatus, function: &str, state: &str) -> PoolStatus {
        PoolStatus {
            scan: Some(ScanView {
                function: function.to_owned(),
                state: state.to_owned(),
                ..ScanView::default()
            }),
            ..pool
        }
    }

    fn with_errors(errors: u64) -> PoolStatus {
        let hurt = DeviceView {
            checksum_errors: errors,
            ..device("/b", "ONLINE")
        };
        pool(vec![device("/a", "ONLINE"), hurt])
    }

    fn damaged(length: u64, snapshot: Option<&str>) -> PoolStatus {
        PoolStatus {
            damaged: vec![DamageView {
                dataset: "tank/v".to_owned(),
                offset: (length > 0).then_some(0),
                length,
                snapshot: snapshot.map(|name| name.parse().expect("a name")),
            }],
            ..pool(vec![device("/a", "ONLINE")])
        }
    }

    #[test]
    fn no_step_contradicts_another() {
        let hurt = || {
            let lost = DeviceView {
                write_errors: 90,
                ..device("/b", "FAULTED")
            };
            pool(vec![device("/a", "OFFLINE"), lost])
        };
        let found = steps(&hurt());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("replace /b") && found[1].starts_with("use /a again"));
        let scanned = steps(&scanned(hurt(), "resilver", "running"));
        assert_eq!(scanned.len(), 1, "{scanned:?}");
    }

    #[test]
    fn every_state_has_its_sentence() {
        let whole = || pool(vec![device("/a", "ONLINE"), device("/b", "ONLINE")]);
        let hurt = |state: &str| pool(vec![device("/a", "ONLINE"), device("/b", state)]);
        let replaced = pool(vec![
            device("/a", "ONLINE"),
            group(
                "replacing-1",
                vec![device("/b", "FAULTED"), device("/c", "ONLINE")],
            ),
        ]);
        let suspended = PoolStatus {
            suspended: true,
            ..hurt("UNAVAIL")
        };
        let spare = DeviceView {
            role: "spare".to_owned(),
            ..device("/s", "UNAVAIL")
        };
        for (what, pool, part) in [
            ("whole", whole(), ""),
            (
                "whole after a scrub",
                scanned(whole(), "scrub", "finished"),
                "",
            ),
            ("suspended", suspended, "`bulkhead pool clear tank`"),
            (
                "faulted",
                hurt("FAULTED"),
                "replace /b: `bulkhead pool replace-disk tank`",
            ),
            ("pulled", hurt("REMOVED"), "put /b back in"),
            (
                "faulted, scrubbing",
                scanned(hurt("FAULTED"), "scrub", "running"),
                "replace /b",
            ),
            (
                "resilvering",
                scanned(replaced.clone(), "resilver", "running"),
                "wait for the resilver",
            ),
            ("replaced", replaced, ""),
            ("spare gone", pool(vec![spare]), "take the failed spare out"),
            ("offline", hurt("OFFLINE"), "`bulkhead pool online tank /b`"),
            (
                "scrubbing",
                scanned(with_errors(3), "scrub", "running"),
                "wait for the scrub",
            ),
            ("paused", scanned(whole(), "scrub", "paused"), "--resume"),
            (
                "errors",
                with_errors(3),
                "`bulkhead pool scrub tank --wait`",
            ),
            (
                "errors repaired",
                scanned(with_errors(3), "scrub", "finished"),
                "`bulkhead pool clear tank`",
            ),
            (
                "many errors",
                scanned(with_errors(51), "scrub", "finished"),
                "replace-disk tank /b",
            ),
            (
                "damaged",
                damaged(16_384, None),
                "has no whole snapshot, from a backup",
            ),
            (
                "damaged, snapshot",
                damaged(16_384, Some("tank/v@x")),
                "snapshot clone tank/v@x tank/v-whole",
            ),
            (
                "metadata damaged",
                damaged(0, None),
                "restore what is damaged in tank/v from a backup",
            ),
        ] {
            match (steps(&pool).into_iter().next(), part) {
                (None, "") => {}
                (Some(step), part) if !part.is_empty() => {
                    assert!(step.contains(part), "{what}: {step}");
                }
                (step, _) => panic!("{what}: {step:?}"),
            }
        }
    }
}
