//! Replaces a failed device by a hot spare. ZFS has spares but leaves their activation to a daemon. It returns a spare
//! to the list by itself when the device was replaced or returned.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use control::answer::{DeviceView, PoolStatus};
use engine::Pool;
use engine::pool::PoolError;
use operations::events::NewEvent;

use super::journal::Journal;

/// Time that a device may be absent before a spare replaces it: one that returns at once needs only the writes it
/// missed.
const ABSENCE_MAX: Duration = Duration::from_secs(5);
/// Delay before a spare that could not be used is retried.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The devices that failed.
#[derive(Default)]
pub struct Spares {
    /// When to act, by the device's name.
    due: HashMap<String, Instant>,
}

impl Spares {
    /// Activates spares for devices that have been failed long enough.
    pub fn look(&mut self, pool: &dyn Pool, status: &PoolStatus, journal: &Journal, now: Instant) {
        let failed = failed(status);
        self.due.retain(|name, _| failed.contains(&name.as_str()));
        let mut spares = available(status);
        for device in failed {
            let due = *self
                .due
                .entry(device.to_owned())
                .or_insert(now + ABSENCE_MAX);
            if now < due {
                continue;
            }
            // With any result: not again at once.
            self.due.insert(device.to_owned(), now + AGAIN_AFTER);
            // A spare can be too small for this device, and fit another one.
            let used = spares
                .iter()
                .position(|spare| is_replaced(pool, device, spare, journal));
            if let Some(used) = used {
                spares.remove(used);
            }
        }
    }
}

/// Replaces `device` by `spare`. Returns whether it succeeded.
fn is_replaced(pool: &dyn Pool, device: &str, spare: &str, journal: &Journal) -> bool {
    let devices = pool.devices().map_err(PoolError::from);
    let replaced = devices.and_then(|devices| devices.replace(device, Path::new(spare), false));
    let is_bad = replaced.is_err();
    let message = match replaced {
        Ok(()) => format!(
            "spare {spare} stands in for {device}, and is filled now; `bulkhead pool replace` {device} releases it"
        ),
        Err(error) => format!("spare {spare} cannot stand in for {device}: {error}"),
    };
    journal.add(NewEvent {
        kind: "spare",
        device: Some(device.to_owned()),
        message,
        is_bad,
    });
    !is_bad
}

/// Failed data devices that are not being replaced.
fn failed(status: &PoolStatus) -> Vec<&str> {
    fn collect<'a>(device: &'a DeviceView, found: &mut Vec<&'a str>) {
        let is_replaced = ["spare-", "replacing-"].iter();
        if is_replaced
            .clone()
            .any(|kind| device.name.starts_with(kind))
        {
            return;
        }
        if device.members.is_empty() {
            let is_gone = matches!(device.state.as_str(), "FAULTED" | "REMOVED" | "UNAVAIL");
            found.extend(is_gone.then_some(device.name.as_str()));
        }
        device.members.iter().for_each(|one| collect(one, found));
    }
    // ZFS allows no spare for log and metadata devices.
    let with_data = status.devices.iter().filter(|device| device.role == "data");
    let mut found = Vec::new();
    with_data.for_each(|device| collect(device, &mut found));
    found
}

/// Spares that are available.
fn available(status: &PoolStatus) -> Vec<&str> {
    let spares = status.devices.iter();
    let spares = spares.filter(|device| device.role == "spare" && device.state == "AVAIL");
    spares.map(|device| device.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, role: &str, state: &str, members: Vec<DeviceView>) -> DeviceView {
        DeviceView {
            name: name.to_owned(),
            role: role.to_owned(),
            state: state.to_owned(),
            members,
            ..DeviceView::default()
        }
    }

    #[test]
    fn spare_is_used_only_for_lost_data_devices() {
        let data = |name, state| device(name, "data", state, Vec::new());
        let stood_in = vec![data("/c", "FAULTED"), data("/s", "ONLINE")];
        let mirror = vec![
            data("/a", "ONLINE"),
            data("/b", "REMOVED"),
            data("/off", "OFFLINE"),
            device("spare-3", "data", "DEGRADED", stood_in),
        ];
        let status = PoolStatus {
            devices: vec![
                device("mirror-0", "data", "DEGRADED", mirror),
                device("/log", "log", "FAULTED", Vec::new()),
                device("/s", "spare", "ONLINE", Vec::new()),
                device("/t", "spare", "AVAIL", Vec::new()),
                device("/u", "spare", "UNAVAIL", Vec::new()),
            ],
            ..PoolStatus::default()
        };
        assert_eq!(failed(&status), ["/b"]);
        assert_eq!(available(&status), ["/t"]);
    }
}
