//! The state of the legs of an open pool.

use control::answer::PoolStatus;
use control::legs::LegsView;
use control::{Advice, Button};

/// The state of a pool's legs.
#[derive(Clone, Debug, Default)]
pub struct LegStatus {
    /// What to do about them.
    pub advice: Vec<Advice>,
    /// A leg failed, and that is not on record yet.
    pub do_writes_wait: bool,
    /// By the record a leg does not hold everything. While it is copied to, the engine calls it whole.
    pub is_one_out: bool,
    /// Each of them.
    pub view: LegsView,
}

impl LegStatus {
    /// Adds it to the state of the pool, as its engine told it. What the engine says to do about single devices is not for legs:
    /// they come back by their record.
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
        status.legs = Some(self.view);
        if self.is_one_out && status.health == HEALTH_WHOLE {
            status.health = HEALTH_DEGRADED.to_owned();
        }
        if self.do_writes_wait && !status.suspended {
            status.health = HEALTH_WRITES_WAIT.to_owned();
        }
    }
}

/// Health of a pool of which the engine knows nothing bad.
const HEALTH_WHOLE: &str = "ONLINE";
/// Health of a pool that has a leg which does not hold everything.
const HEALTH_DEGRADED: &str = "DEGRADED";
/// Health of a pool whose writes wait for the record of its legs.
const HEALTH_WRITES_WAIT: &str = "WAITING";

#[cfg(test)]
mod tests {
    use super::*;
    use control::Severity;

    #[test]
    fn legs_are_not_replaced_or_cleared_and_waiting_is_told() {
        let device = Advice::new(Severity::Error, "replace /x", "it failed");
        let space = Advice::new(Severity::Warning, "make room", "it is full");
        let status_of = |do_writes_wait| LegStatus {
            advice: vec![Advice::new(Severity::Error, "see to the leg", "it failed")],
            do_writes_wait,
            is_one_out: false,
            view: LegsView::default(),
        };
        let mut status = PoolStatus {
            health: "ONLINE".to_owned(),
            advice: vec![device.offering(Button::ReplaceDisk), space],
            ..PoolStatus::default()
        };
        let mut waits = status.clone();
        status_of(false).add_to(&mut status);
        let what: Vec<&str> = status.advice.iter().map(|one| &*one.what).collect();
        assert_eq!(what, ["see to the leg", "make room"]);
        assert_eq!(status.health, "ONLINE");
        let copied = LegStatus {
            is_one_out: true,
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
