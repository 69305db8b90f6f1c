//! Task management (SAM-5, section 7). The transport owns the tasks; the target determines the
//! tasks to abort and the nexuses to notify.

use crate::command::{Lun, NexusId};
use crate::sense::Asc;

use super::{Nexus, Target, Unit};

/// Task management functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskManagement {
    /// ABORT TASK: handled by the transport.
    AbortTask,
    /// ABORT TASK SET.
    AbortTaskSet,
    /// CLEAR ACA: not supported.
    ClearAca,
    /// CLEAR TASK SET.
    ClearTaskSet,
    /// LOGICAL UNIT RESET.
    LogicalUnitReset,
    /// TARGET WARM RESET.
    TargetWarmReset,
    /// TARGET COLD RESET.
    TargetColdReset,
}

/// The response to a task management function (RFC 7143, section 11.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TmfResponse {
    /// Completed, after the aborts.
    Complete,
    /// No such logical unit.
    UnitNotFound,
    /// This function is not supported.
    NotSupported,
}

/// Tasks to abort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskScope {
    /// The nexus; `None` for all.
    pub nexus: Option<NexusId>,
    /// The unit; `None` for all.
    pub unit: Option<u16>,
}

/// The required actions of a transport for a task management function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmfOutcome {
    /// The response, to be sent after the other actions.
    pub response: TmfResponse,
    /// Tasks to abort.
    pub abort: Vec<TaskScope>,
    /// Whether all sessions of the target must be dropped afterwards (cold reset).
    pub drop_sessions: bool,
}

impl TmfOutcome {
    fn only(response: TmfResponse) -> Self {
        Self {
            response,
            abort: Vec::new(),
            drop_sessions: false,
        }
    }

    fn complete(nexus: Option<NexusId>, unit: Option<u16>) -> Self {
        Self {
            abort: vec![TaskScope { nexus, unit }],
            ..Self::only(TmfResponse::Complete)
        }
    }
}

impl Target {
    /// Executes a task management function of `nexus`.
    pub fn task_management(&self, nexus: &Nexus, function: TaskManagement, lun: Lun) -> TmfOutcome {
        use TaskManagement as F;
        match function {
            F::TargetWarmReset | F::TargetColdReset => {
                for unit in self.units().iter() {
                    self.reset(unit);
                }
                let mut outcome = TmfOutcome::complete(None, None);
                outcome.drop_sessions = function == F::TargetColdReset;
                return outcome;
            }
            F::ClearAca => return TmfOutcome::only(TmfResponse::NotSupported),
            _ => {}
        }
        let visible = lun
            .unit()
            .and_then(|number| self.visible_unit(&nexus.state, number));
        let Some(unit) = visible else {
            return TmfOutcome::only(TmfResponse::UnitNotFound);
        };
        let number = unit.config.lun;
        match function {
            F::AbortTask => TmfOutcome::only(TmfResponse::Complete),
            F::AbortTaskSet => TmfOutcome::complete(Some(nexus.state.id.clone()), Some(number)),
            F::ClearTaskSet => {
                for other in self.all_nexuses() {
                    if other.login != nexus.state.login {
                        other.queue_attention(number, Asc::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR);
                    }
                }
                TmfOutcome::complete(None, Some(number))
            }
            _ => {
                self.reset(&unit);
                TmfOutcome::complete(None, Some(number))
            }
        }
    }

    /// Resets one unit: clears SPC-2 reservations and changed mode parameters, and retains
    /// persistent reservations (SAM-5, section 6.3.3). The attention has the general code, which
    /// initiators already handle for the first command after a login.
    fn reset(&self, unit: &Unit) {
        unit.state.legacy_release(None);
        unit.state.reset_parameters(&unit.config);
        for nexus in self.all_nexuses() {
            if unit.config.visibility.includes(&nexus.id.initiator) {
                nexus.queue_attention(unit.config.lun, Asc::POWER_ON_OR_RESET_OCCURRED);
            }
        }
    }
}
