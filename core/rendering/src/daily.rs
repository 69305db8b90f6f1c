//! Renders responses about the maintenance of a pool: schedules, scrubs, damage.

use std::fmt::Write as _;

use control::answer::{
    CheckView, DamageView, DeviceView, HistoryEntry, PoolStatus, ReplacementView, ScheduleView,
    ShareView, SpaceView,
};
use control::calendar::utc;
use control::portal::PortalView;
use control::words::bytes;

use crate::table::{Table, dash, harmless};
use crate::wrap;

/// Number of damaged ranges that are shown; more of them would hide the advice.
const DAMAGED_SHOWN_MAX: usize = 10;

/// Renders the changes that a pool has stored, the oldest first.
pub fn history(entries: &[HistoryEntry]) -> String {
    if entries.is_empty() {
        return "no change is stored in the pool\n".to_owned();
    }
    let mut table = Table::new(&["TIME (UTC)", "CHANGE", "OF", "DETAILS"]);
    for entry in entries {
        let shown = |text: &Option<String>| text.as_deref().map_or_else(dash, harmless);
        table.row([
            utc(entry.at_unix_s),
            harmless(&entry.what),
            shown(&entry.of),
            shown(&entry.details),
        ]);
    }
    table.render()
}

/// Renders schedules, a line per rule.
pub fn schedule_list(schedules: &[ScheduleView]) -> String {
    if schedules.is_empty() {
        return "no schedules: create one by `bulkhead snapshot schedule set POOL --daily 7`\n"
            .into();
    }
    let headings = ["OF", "RULE", ">VOLS", ">SNAPS", "LATEST", "NEXT"];
    let mut table = Table::new(&headings);
    for schedule in schedules {
        let volumes = schedule.volumes.len().to_string();
        if schedule.rules.is_empty() {
            let none = "none: left out of schedules above".to_owned();
            table.row([schedule.of.clone(), none, volumes.clone()]);
        }
        for rule in &schedule.rules {
            table.row([
                schedule.of.clone(),
                rule.rule.to_string(),
                volumes.clone(),
                rule.snapshots.to_string(),
                rule.latest.map_or_else(dash, minute),
                minute(rule.next),
            ]);
        }
    }
    table.render()
}

/// A time without its seconds, so that the table fits a terminal: `2026-11-21T05:36Z`.
fn minute(seconds: u64) -> String {
    const MINUTE_CHARS: usize = 16;
    let time = utc(seconds);
    format!("{}Z", time.get(..MINUTE_CHARS).unwrap_or(&time))
}

/// Renders the findings of a file system check.
pub fn checked(view: &CheckView) -> String {
    let mut text = String::new();
    for fault in &view.faults {
        let object = fault.object;
        let subject = match &fault.path {
            Some(path) => format!("{} (object {object})", harmless(path)),
            None => format!("object {object}"),
        };
        let _ = writeln!(text, "{subject} {}", fault.what);
    }
    let more = view.fault_count.saturating_sub(view.faults.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
    let (name, objects, names) = (&view.name, view.objects, view.names);
    let _ = match view.fault_count {
        0 => writeln!(
            text,
            "{name}: {objects} objects with {names} names fit together"
        ),
        count => writeln!(
            text,
            "{name}: {count} fault(s) in {objects} objects with {names} names\n\
             Copy what can be read to another file system, or take the file system back to a snapshot from before."
        ),
    };
    text
}

/// Returns how a file system is shared, and where that is set.
pub fn share(share: &ShareView) -> String {
    match &share.from {
        Some(from) => format!("{} (as {from})", share.value),
        None => share.value.clone(),
    }
}

/// Renders the usable space of a pool; the space of the devices where that is unknown.
pub fn pool_space(pool: &PoolStatus, text: &mut String) {
    let Some(space) = &pool.space else {
        let (allocated, size) = (bytes(pool.allocated), bytes(pool.size));
        let _ = writeln!(
            text,
            "space:    {allocated} of {size} of the devices, with parity, are in use"
        );
        return;
    };
    let (usable, percent) = (bytes(space.usable), space.full_percent);
    let (written, reserved) = (bytes(space.written), bytes(space.reserved));
    let _ = writeln!(
        text,
        "space:    {percent} % full: of {usable} for data {written} are written, {reserved} more \
         reserved, {} left",
        bytes(space.available)
    );
    let over = match space.overcommitted {
        0 => String::new(),
        bytes_over => format!(
            "; clients may write {} more than there is room for",
            bytes(bytes_over)
        ),
    };
    let _ = writeln!(
        text,
        "          {} are the sizes of all volumes{over}",
        bytes(space.promised)
    );
    if space.refused_writes > 0 {
        let _ = writeln!(
            text,
            "          {} writes of clients were refused for lack of space",
            space.refused_writes
        );
    }
}

/// The same for one volume, a line per value.
pub fn space_lines(space: &SpaceView, line: &mut dyn FnMut(&str, String)) {
    line("data:", bytes(space.by_data));
    line("snapshots:", bytes(space.by_snapshots));
    line("reserved:", bytes(space.by_reservation));
    line(
        "written:",
        format!("{} since the newest snapshot", bytes(space.written)),
    );
    line("logical:", bytes(space.logical_used));
    line("ratio:", times(space.compress_percent));
    for (name, limit) in [
        ("quota:", space.quota),
        ("refquota:", space.refquota),
        ("reservation:", space.reservation),
        ("refreserv.:", space.refreservation),
    ] {
        if let Some(limit) = limit {
            line(name, bytes(limit));
        }
    }
}

/// Renders the plan for the replacement of a disk.
pub fn replacement(view: &ReplacementView) -> String {
    let mut text = String::new();
    if let Some(new) = &view.under_way {
        let pool = &view.pool;
        let _ = writeln!(
            text,
            "{new} is being filled already: `bulkhead pool replace-disk {pool} --yes` waits for it"
        );
        return text;
    }
    if view.failing.is_empty() && view.old.is_none() {
        let _ = writeln!(text, "no device of pool {} needs to be replaced", view.pool);
        return text;
    }
    let mut table = Table::new(&["BAD DEVICE", "STATE", ">READ", ">WRITE", ">CKSUM", "NOTE"]);
    for device in &view.failing {
        table.row([
            device.device.clone(),
            device.state.clone(),
            device.read_errors.to_string(),
            device.write_errors.to_string(),
            device.checksum_errors.to_string(),
            device.note.clone().unwrap_or_default(),
        ]);
    }
    if !view.failing.is_empty() {
        let _ = writeln!(text, "{}", table.render());
    }
    let mut table = Table::new(&["UNUSED DISK", ">SIZE", "MODEL", "SERIAL", "NOTE"]);
    for disk in &view.candidates {
        table.row([
            disk.path.clone(),
            bytes(disk.size),
            disk.model.clone().unwrap_or_else(dash),
            disk.serial.clone().unwrap_or_else(dash),
            disk.refused.clone().unwrap_or_default(),
        ]);
    }
    if !view.candidates.is_empty() {
        let _ = writeln!(text, "{}", table.render());
    }
    if view.needed_bytes > 0 {
        let needed = bytes(view.needed_bytes);
        let _ = writeln!(
            text,
            "a new disk needs {needed} ({} bytes)",
            view.needed_bytes
        );
    }
    for (number, step) in view.steps.iter().enumerate() {
        let _ = writeln!(text, "{}. {step}", number + 1);
    }
    let _ = match (&view.hindrance, &view.old, &view.new) {
        (Some(hindrance), ..) => writeln!(text, "not yet: {hindrance}"),
        (None, Some(old), Some(new)) => writeln!(
            text,
            "\nto do it: bulkhead pool replace-disk {} {old} --with {new} --yes",
            view.pool
        ),
        _ => Ok(()),
    };
    text
}

/// Formats percent as a ratio: `1.50x`.
pub fn times(percent: u64) -> String {
    format!("{}.{:02}x", percent / 100, percent % 100)
}

/// Renders the repairs of the last scrub, the schedule of scrubs, damage, and the advice.
pub fn maintenance_lines(pool: &PoolStatus, text: &mut String) {
    if pool
        .scan
        .as_ref()
        .is_some_and(|scan| scan.function == "scrub")
    {
        let mut repaired = Vec::new();
        pool.devices
            .iter()
            .for_each(|device| collect(device, &mut repaired));
        for device in repaired {
            let (name, count) = (&device.name, bytes(device.repaired));
            let _ = writeln!(text, "          {count} repaired on {name}");
        }
    }
    if let Some(schedule) = &pool.scrub_schedule {
        let next = utc(schedule.next);
        let _ = writeln!(text, "scrubs:   {}, next {next}", schedule.when);
    }
    if let Some(max) = pool.copy_rate_max {
        let _ = writeln!(text, "copies:   at most {max} a second");
    }
    if let Some(mode) = pool.read_balancing {
        let _ = writeln!(text, "reads:    {mode}, from the legs of all heads");
    }
    for copy in &pool.left_out {
        text.push_str(&wrap::line("left out:", &copy.to_string()));
    }
    for damage in pool.damaged.iter().take(DAMAGED_SHOWN_MAX) {
        let _ = writeln!(text, "damaged:  {}", damage_text(damage));
    }
    let more = pool.damaged.len().saturating_sub(DAMAGED_SHOWN_MAX);
    if more > 0 {
        let all = format!(
            "{more} more places: `bulkhead pool status {} --json` lists them",
            pool.name
        );
        text.push_str(&wrap::line("", &all));
    }
    for (place, advice) in pool.advice.iter().enumerate() {
        let name = if place == 0 { "next:" } else { "then:" };
        text.push_str(&wrap::line(name, &advice.to_string()));
        for detail in &advice.details {
            text.push_str(&wrap::line("", detail));
        }
    }
}

fn collect<'a>(device: &'a DeviceView, found: &mut Vec<&'a DeviceView>) {
    if device.members.is_empty() && device.repaired > 0 {
        found.push(device);
    }
    device.members.iter().for_each(|one| collect(one, found));
}

fn damage_text(damage: &DamageView) -> String {
    match damage.offset {
        Some(offset) => format!(
            "{}, {} bytes from byte {offset} on",
            damage.dataset, damage.length
        ),
        None => damage.dataset.clone(),
    }
}

/// Where pools are served.
pub fn portal_list(portals: &[PortalView]) -> String {
    let mut table = Table::new(&["POOL", "PROTOCOL", "ADDRESS", ">GROUP", ">CLIENTS", "NOTE"]);
    for view in portals {
        let note = match view.is_here {
            true => "",
            false => "this host does not have it",
        };
        table.row([
            view.pool.to_string(),
            protocol_list::title(&view.protocol).to_owned(),
            view.address.clone(),
            view.group
                .map_or_else(String::new, |group| group.to_string()),
            view.clients.to_string(),
            note.to_owned(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_fit_a_terminal() {
        let rule = control::answer::RuleView {
            rule: "daily at 03:00 keep 7".parse().expect("a rule"),
            next: 1_795_254_429,
            latest: Some(1_795_254_429),
            snapshots: 7,
        };
        let schedule = ScheduleView {
            of: "tank".to_owned(),
            rules: vec![rule],
            skip_unchanged: false,
            volumes: Vec::new(),
        };
        let text = schedule_list(&[schedule]);
        let widths = text.lines().map(|line| line.chars().count());
        assert!(widths.max() <= Some(80), "{text}");
        assert!(text.ends_with("2026-11-21T09:47Z\n"), "{text}");
    }

    #[test]
    fn ten_damaged_ranges_are_listed_and_the_rest_counted() {
        let damaged = |count: u64| {
            let places = (0..count).map(|place| DamageView {
                dataset: "tank/v".to_owned(),
                offset: Some(place * 4096),
                length: 4096,
                snapshot: None,
            });
            let pool = PoolStatus {
                name: "tank".to_owned(),
                damaged: places.collect(),
                ..PoolStatus::default()
            };
            let mut text = String::new();
            maintenance_lines(&pool, &mut text);
            text
        };
        let few = damaged(10);
        assert_eq!(
            (few.matches("damaged:").count(), few.lines().count()),
            (10, 10)
        );
        let many = damaged(100);
        assert_eq!(many.matches("damaged:").count(), 10);
        assert!(
            many.ends_with("90 more places: `bulkhead pool status tank --json` lists them\n"),
            "{many}"
        );
    }
}
