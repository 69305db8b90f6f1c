//! The mode parameters of a unit: current, saved, and those at power on.

use std::sync::MutexGuard;

use super::{UnitConfig, UnitState};

/// The mode parameters that an initiator can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// WCE of the caching page.
    pub(crate) write_cache: bool,
    /// SWP of the control page.
    pub(crate) write_protect: bool,
    /// D_SENSE of the control page.
    pub(crate) descriptor_sense: bool,
}

impl Parameters {
    /// Returns the parameters at power on of a unit without saved parameters.
    pub(crate) fn initial(write_cache: bool) -> Self {
        Self {
            write_cache,
            write_protect: false,
            descriptor_sense: false,
        }
    }
}

impl UnitState {
    /// The current parameters, locked.
    pub(crate) fn parameters(&self) -> MutexGuard<'_, Parameters> {
        self.parameters.lock().expect("no holder panics")
    }

    /// Returns the parameters at power on: the saved ones, otherwise the unit's configured ones.
    pub(crate) fn restored(&self, config: &UnitConfig) -> Parameters {
        let saved = *self.saved_write_cache.lock().expect("no holder panics");
        Parameters::initial(saved.unwrap_or(config.write_cache))
    }

    /// Drops saved parameters after a change of the unit's configured WCE, which becomes effective
    /// immediately.
    pub(crate) fn forget_saved(&self, config: &UnitConfig) {
        let mut saved = self.saved_write_cache.lock().expect("no holder panics");
        *saved = None;
        self.parameters().write_cache = config.write_cache;
        drop(saved);
        self.publish_parameters();
    }

    /// Resets to the parameters at power on.
    pub(crate) fn reset_parameters(&self, config: &UnitConfig) {
        *self.parameters() = self.restored(config);
        self.publish_parameters();
    }
}
