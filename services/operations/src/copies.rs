//! Advice for pools with more than one copy of a device attached.

use control::answer::LeftOutView;
use control::{Advice, Failure, FailureKind, Severity, calendar};
use engine::pool::{Conflict, FoundDevice, LeftOut};

/// Copies that are not used. Another name of a device is none.
pub fn left_out(found: &[LeftOut]) -> Vec<LeftOutView> {
    let found = found.iter().filter_map(|one| {
        let used = match one {
            LeftOut::SameDevice { .. } => return None,
            LeftOut::Copy { used, .. } => Some(used.display().to_string()),
            LeftOut::Older { .. } | LeftOut::Removed { .. } | LeftOut::Abandoned { .. } => None,
        };
        Some(LeftOutView {
            device: one.path().display().to_string(),
            used,
            is_abandoned: matches!(one, LeftOut::Abandoned { .. }),
        })
    });
    found.collect()
}

/// The devices of which it is unclear whether they are those of the pool.
pub fn unclear(conflicts: &[Conflict]) -> Vec<String> {
    let devices = conflicts.iter().flat_map(|conflict| match conflict {
        Conflict::Same(devices) | Conflict::Apart(devices) => devices.as_slice(),
        Conflict::Older { device, .. } => std::slice::from_ref(device),
    });
    devices.map(|one| one.path.display().to_string()).collect()
}

/// Returns the advice about copies that are not in use.
pub fn step(pool: &str, left_out: &[LeftOutView]) -> Option<Advice> {
    let first = left_out.first()?;
    let more = match left_out.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let why = format!("{first}, and was left out when the pool was opened{more}");
    if first.is_abandoned {
        let what = "copy the device first if its data may be needed, then overwrite it with the data of the pool";
        let command = format!("bulkhead pool online {pool} {}", first.device);
        return Some(
            Advice::new(Severity::Warning, what, why)
                .by(command)
                .about(first.device.clone()),
        );
    }
    let what =
        "disconnect the copy from this host, or make copies of all disks a pool of their own";
    // A raidz pool needs the copies of all its devices, and of a mirror one is enough.
    let copies = left_out.iter().filter(|one| !one.is_abandoned);
    let devices = copies.map(|one| format!(" --device {}", one.device));
    let command = format!(
        "bulkhead pool reidentify {pool} NAME{}",
        devices.collect::<String>()
    );
    Some(
        Advice::new(Severity::Warning, what, why)
            .by(command)
            .about(first.device.clone()),
    )
}

/// Returns the refusal, with advice.
pub fn refusal(pool: &str, conflicts: &[Conflict]) -> Failure {
    let sentences: Vec<String> = conflicts.iter().map(sentence).collect();
    let message = format!(
        "it is unclear which devices are those of pool {pool}: {}",
        sentences.join("; ")
    );
    let choices: Vec<String> = conflicts.iter().map(choice).collect();
    let devices = choices.join(" ");
    let is_older = conflicts
        .iter()
        .any(|one| matches!(one, Conflict::Older { .. }));
    let first = match is_older {
        true => "reconnect the newer devices, or disconnect the older ones from this host",
        false => "disconnect the devices that do not belong to the pool from this host",
    };
    Failure::new(FailureKind::NeedsConfirmation, message).advise(format!(
        "{first}. To open it with the devices that you name, without the data that is on other devices only: `bulkhead pool import {pool} {devices}`. To make \
         copies a pool of their own, which has another name: `bulkhead pool reidentify {pool} NAME {devices}`"
    ))
}

fn choice(conflict: &Conflict) -> String {
    let device = match conflict {
        Conflict::Same(devices) | Conflict::Apart(devices) => devices.first(),
        Conflict::Older { device, .. } => Some(device),
    };
    let path = device.map(|device| device.path.display().to_string());
    format!("--device {}", path.unwrap_or_default())
}

fn sentence(conflict: &Conflict) -> String {
    match conflict {
        Conflict::Same(devices) => {
            let newest = devices.first().map_or(0, |device| device.newest_txg);
            let told: Vec<String> = devices.iter().map(|one| told(one, newest)).collect();
            format!(
                "{} identify themselves as the same device, and each might be the only one with acknowledged writes: {}",
                names(devices),
                told.join(", ")
            )
        }
        Conflict::Apart(devices) => {
            let newest = devices.first().map_or(0, |device| device.newest_txg);
            let told: Vec<String> = devices.iter().map(|one| told(one, newest)).collect();
            format!(
                "{} were in use one without the other, each after `pool confirm`, and each has acknowledged writes: {}",
                names(devices),
                told.join(", ")
            )
        }
        Conflict::Older {
            device,
            newest_txg,
            newest_time_s,
        } => format!(
            "{} is an older copy, of transaction group {} of {}: it has no writes up to transaction group {newest_txg} of {}, \
             and the pool cannot do without",
            device.path.display(),
            device.newest_txg,
            calendar::utc(device.newest_time_s),
            calendar::utc(*newest_time_s),
        ),
    }
}

fn names(devices: &[FoundDevice]) -> String {
    let names: Vec<String> = devices
        .iter()
        .map(|one| one.path.display().to_string())
        .collect();
    names.join(" and ")
}

fn told(device: &FoundDevice, newest_txg: u64) -> String {
    let (txg, time) = (device.newest_txg, calendar::utc(device.newest_time_s));
    let lacks = match newest_txg > txg {
        true => ", so that it has no later writes",
        false => "",
    };
    let place = match device.is_home {
        true => ", where the pool was opened last",
        false => "",
    };
    let state = match device.is_exported {
        true => "exported",
        false => "not exported",
    };
    format!(
        "{} was last written in transaction group {txg} of {time}{lacks}{place} ({state})",
        device.path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies of some devices of a raidz are no pool.
    #[test]
    fn command_of_the_advice_names_every_copy() {
        let copy = |number: u32| LeftOutView {
            device: format!("/copy{number}"),
            used: Some(format!("/disk{number}")),
            is_abandoned: false,
        };
        let abandoned = LeftOutView {
            is_abandoned: true,
            ..copy(9)
        };
        let step = step("tank", &[copy(1), copy(2), copy(3), abandoned]).expect("advice");
        let command = step.command.expect("a command");
        let expected =
            "bulkhead pool reidentify tank NAME --device /copy1 --device /copy2 --device /copy3";
        assert_eq!(command, expected);
    }

    #[test]
    fn refusal_lists_all_copies_with_missing_data_and_command() {
        let device = |path: &str, newest_txg, is_home| FoundDevice {
            path: path.into(),
            newest_txg,
            newest_time_s: 1_800_000_000 + newest_txg,
            is_home,
            is_exported: false,
        };
        let older = Conflict::Older {
            device: device("/c", 30, false),
            newest_txg: 90,
            newest_time_s: 1_800_000_090,
        };
        let same = Conflict::Same(vec![device("/a", 33, false), device("/b", 32, true)]);
        let failure = refusal("tank", &[same, older]);
        let text = format!("{} {}", failure.message, failure.advice.unwrap_or_default());
        for part in [
            "/a and /b identify themselves as the same device",
            "/b was last written in transaction group 32",
            "has no later writes, where the pool was opened last",
            "/c is an older copy, of transaction group 30",
            "`bulkhead pool import tank --device /a --device /c`",
            "`bulkhead pool reidentify tank NAME --device /a --device /c`",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
