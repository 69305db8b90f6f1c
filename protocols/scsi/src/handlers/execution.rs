//! The execution of one command: its context, its progress, and what continues it on a thread that may block.

use std::sync::Arc;

use block_device::{Geometry, PendingRead, Permit, SharedDevice, WaitMode};

use crate::command::{Command, DataIn, DataOut, Outcome, Stop};
use crate::opcodes::Row;
use crate::state::{NexusState, Target, Unit};

/// The context of a command on a unit.
pub(crate) struct Context<'a> {
    pub(crate) target: &'a Arc<Target>,
    pub(crate) nexus: &'a Arc<NexusState>,
    pub(crate) unit: &'a Arc<Unit>,
    pub(crate) command: &'a Command,
    pub(crate) row: &'static Row,
    pub(crate) wait_mode: WaitMode<'a>,
}

impl Context<'_> {
    /// Stops a blocking command on a thread that must not block. Must be called before any effect.
    pub(crate) fn may_block(&self) -> Result<(), Stop> {
        match self.wait_mode.may_block() {
            true => Ok(()),
            false => Err(Stop::WouldBlock),
        }
    }

    /// Stops a command without the transport's permit. Must be called immediately before an effect
    /// that is not made by a device, such as on reservations.
    pub(crate) fn may_take_effect(&self) -> Result<(), Stop> {
        match self.wait_mode.permits() {
            true => Ok(()),
            false => Err(Stop::Gone),
        }
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.unit.geometry()
    }

    /// Returns `outcome`, after a flush of all earlier writes if `wanted`.
    pub(crate) fn durable(&self, wanted: bool, mut outcome: Outcome) -> Executed {
        if !wanted {
            return Executed::Done(outcome);
        }
        outcome.format = self.unit.state.sense_format();
        Executed::Durable {
            device: Arc::clone(&self.unit.config.device),
            then: outcome,
        }
    }
}

/// The progress of a command.
pub enum Executed {
    /// Send this.
    Done(Outcome),
    /// Send `then` after a flush of `device` that starts now; see [`Outcome::after_flush`].
    Durable {
        /// The device to flush.
        device: SharedDevice,
        /// The outcome if the flush succeeds.
        then: Outcome,
    },
    /// A read from the disks is in progress.
    Reading(Box<Reading>),
    /// The command has had no effect yet: call [`Pending::execute`] on a thread that may block.
    WouldBlock(Box<Pending>),
    /// The device is gone or has another owner: drop the session without a response.
    DropSession,
}

/// A read in progress.
pub struct Reading {
    pub(crate) begun: Box<dyn PendingRead>,
    pub(crate) then: Outcome,
    pub(crate) again: Box<Pending>,
}

impl Reading {
    /// Calls `done` with the result, during this call or later, on a thread that must not block.
    pub fn finish(self, done: impl FnOnce(Executed) + Send + 'static) {
        let Self { begun, then, again } = self;
        begun.finish(Box::new(move |found| {
            done(match found {
                Ok(loan) => Executed::Done(Outcome {
                    data_in: DataIn::Loan(loan),
                    ..then
                }),
                Err(error) => match Stop::from_device(&error) {
                    Stop::WouldBlock => Executed::WouldBlock(again),
                    Stop::Sense(sense) => Executed::Done(Outcome {
                        device: then.device,
                        ..Outcome::check_condition(&sense, then.format)
                    }),
                    Stop::Conflict | Stop::Gone => Executed::DropSession,
                },
            });
        }));
    }
}

/// A blocking command with all of its context.
pub struct Pending {
    pub(crate) target: Arc<Target>,
    pub(crate) nexus: Arc<NexusState>,
    pub(crate) command: Command,
    pub(crate) data: DataOut<'static>,
    pub(crate) is_held: bool,
}

impl Pending {
    /// Adds the device of the command.
    pub(crate) fn on(mut self: Box<Self>, device: &SharedDevice) -> Box<Self> {
        self.is_held = !matches!(self.data, DataOut::None) && device.holds_changes();
        self
    }

    /// Whether it is a change that the device may delay for long.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Executes the command completely; may block. Without a permit nothing is changed.
    pub fn execute(self, permit: &dyn Permit) -> Executed {
        let Self {
            target,
            nexus,
            command,
            data,
            is_held: _,
        } = self;
        target.execute_on(&nexus, &command, data, WaitMode::Permitted(permit))
    }

    pub(crate) fn new(
        target: &Arc<Target>,
        nexus: &Arc<NexusState>,
        command: &Command,
        data: DataOut<'_>,
    ) -> Box<Self> {
        Box::new(Self {
            target: Arc::clone(target),
            nexus: Arc::clone(nexus),
            command: command.clone(),
            data: data.into_owned(),
            is_held: false,
        })
    }
}
