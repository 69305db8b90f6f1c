//! `volume rescue --list`

use units::PoolName;

use crate::Effect;
use crate::operations::{Operation, Route, WireOnly, schema_of};
use crate::rescue::RescueView;

/// All rescues of the pool. Only its server has them, so this request cannot be handled by a pool that is opened for
/// reading.
#[derive(Clone, Copy, Debug)]
pub struct List;

impl Operation for List {
    fn effect(&self, _: &PoolName) -> Effect {
        Effect::Look
    }

    fn covers_all_pools(&self) -> bool {
        true
    }
}

impl WireOnly for List {
    const ROUTES: &'static [Route] = &[Route::get(
        "/pools/{pool}/rescues",
        "Active rescues of volumes",
        schema_of::<Vec<RescueView>>,
    )];
}
