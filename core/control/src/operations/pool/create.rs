//! The layout that `pool create` creates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

use super::{DeviceGroup, grows};
use crate::Effect;
use crate::request::Properties;

/// A pool to be created; performed by the command line itself, since no server has it yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolCreate {
    /// Its name.
    pub name: PoolName,
    /// Its devices.
    pub groups: Vec<DeviceGroup>,
    /// Its properties.
    pub properties: Properties,
    /// Devices with another pool's old label may be overwritten.
    pub overwrite: bool,
}

impl PoolCreate {
    /// Returns its effect.
    pub fn effect(&self) -> Effect {
        let Self {
            name: _,
            groups,
            properties: _,
            overwrite,
        } = self;
        grows(groups, *overwrite)
    }
}
