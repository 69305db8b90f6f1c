//! The state of the legs of an open pool.

use control::answer::{DeviceView, PoolStatus};
use control::legs::{LegState, LegsView};
use control::words::{OUTDATED, RESILVERING};
use control::{Advice, Button};

/// The state of a pool's legs.
#[derive(Clone, Debug, Default)]
pub struct LegStatus {
    /// Advice on the legs.
    pub advice: Vec<Advice>,
    /// A leg failed, and that is not on record yet.
    pub do_writes_wait: bool,
    /// A leg is not current on record. The engine reports it as healthy during its resilver.
    pub is_leg_excluded: bool,
    /// The view of each leg.
    pub view: LegsView,
}

impl LegStatus {
    /// Adds the state of the legs to the engine's state of the pool. The engine's advice on single devices does not
    /// apply to legs: they return by their record.
    pub fn add_to(self, status: &mut PoolStatus) {
        let is_of_a_device = |advice: &Advice| {
            let button = &advice.button;
            matches!(
                button,
                Some(Button::ReplaceDisk | Button::Clear | Button::Online)
            )
        };
        status.advice.retain(|advice| !is_of_a_device(advice));
        status.advice.splice(0..0, self.advice);
        for advice in &mut status.advice {
            advice.map_texts(|text| self.view.with_names(text));
        }
        note_missing_data(&self.view, &mut status.devices);
        status.legs = Some(self.view);
        if self.is_leg_excluded && status.health == HEALTH_OK {
            status.health = HEALTH_DEGRADED.to_owned();
        }
        if self.do_writes_wait && !status.suspended {
            status.health = HEALTH_WRITES_WAIT.to_owned();
        }
    }
}

/// Marks legs that do not have all data: the engine reports one that has returned as online.
fn note_missing_data(view: &LegsView, devices: &mut [DeviceView]) {
    for device in devices {
        let mut legs = view.legs.iter();
        let leg = legs.find(|leg| leg.device == device.name && !leg.device.is_empty());
        let note = leg.and_then(|leg| match leg.state {
            LegState::Current => None,
            LegState::Copying => Some(format!(
                "{RESILVERING}: the missing writes are copied to it"
            )),
            state => Some(format!("{OUTDATED}: the leg is {state}")),
        });
        if device.state == HEALTH_OK && note.is_some() {
            device.note = note;
        }
        note_missing_data(view, &mut device.members);
    }
}

/// Health of a pool without a fault in the engine's view.
const HEALTH_OK: &str = "ONLINE";
/// Health of a pool with a leg that is not current.
const HEALTH_DEGRADED: &str = "DEGRADED";
/// Health of a pool with writes blocked by the record of its legs.
const HEALTH_WRITES_WAIT: &str = "WAITING";

#[cfg(test)]
mod tests {
    use super::*;
    use control::Severity;
    use control::legs::LegView;

    /// The engine shows a returned leg as online before its data is complete.
    #[test]
    fn online_device_of_a_leg_without_all_data_is_noted_as_such() {
        let shown = |state| {
            let leg = LegView {
                device: "/run/22".to_owned(),
                state,
                ..LegView::default()
            };
            let device = DeviceView {
                name: "/run/22".to_owned(),
                state: "ONLINE".to_owned(),
                ..DeviceView::default()
            };
            let mut status = PoolStatus {
                devices: vec![DeviceView {
                    name: "mirror-0".to_owned(),
                    state: "ONLINE".to_owned(),
                    members: vec![device],
                    ..DeviceView::default()
                }],
                ..PoolStatus::default()
            };
            let legs = LegStatus {
                view: LegsView {
                    legs: vec![leg],
                    ..LegsView::default()
                },
                ..LegStatus::default()
            };
            legs.add_to(&mut status);
            control::words::device_state(&status.devices[0].members[0])
        };
        assert_eq!(shown(LegState::Current), "ONLINE");
        assert_eq!(shown(LegState::Copying), "ONLINE, resilvering");
        for state in [LegState::Stale, LegState::Faulted, LegState::Failing] {
            assert_eq!(shown(state), "ONLINE, outdated", "{state}");
        }
    }

    #[test]
    fn status_advises_no_replace_or_clear_and_reports_waiting() {
        let device = Advice::new(Severity::Error, "replace /x", "it failed");
        let space = Advice::new(Severity::Warning, "make room", "it is full");
        let leg = LegView {
            name: "b:/y".to_owned(),
            device: "/run/bulkhead/legs/tank/22".to_owned(),
            ..LegView::default()
        };
        let scrub = Advice::new(
            Severity::Warning,
            "find out whether these errors were all",
            "/run/bulkhead/legs/tank/22 had 4 errors",
        );
        let status_of = |do_writes_wait| LegStatus {
            advice: vec![Advice::new(Severity::Error, "see to the leg", "it failed")],
            do_writes_wait,
            is_leg_excluded: false,
            view: LegsView {
                legs: vec![leg.clone()],
                ..LegsView::default()
            },
        };
        let mut status = PoolStatus {
            health: "ONLINE".to_owned(),
            advice: vec![device.offering(Button::ReplaceDisk), space, scrub],
            ..PoolStatus::default()
        };
        let mut waits = status.clone();
        status_of(false).add_to(&mut status);
        let what: Vec<&str> = status.advice.iter().map(|one| &*one.what).collect();
        let scrub = "find out whether these errors were all";
        assert_eq!(what, ["see to the leg", "make room", scrub]);
        assert_eq!(status.advice[2].why, "b:/y had 4 errors");
        assert_eq!(status.health, "ONLINE");
        let copied = LegStatus {
            is_leg_excluded: true,
            ..LegStatus::default()
        };
        copied.add_to(&mut status);
        assert_eq!(status.health, "DEGRADED", "also while it is copied to");
        status_of(true).add_to(&mut waits);
        assert_eq!(waits.health, "WAITING");
        waits.suspended = true;
        waits.health = "SUSPENDED".to_owned();
        status_of(true).add_to(&mut waits);
        assert_eq!(waits.health, "SUSPENDED", "that is more");
    }
}
