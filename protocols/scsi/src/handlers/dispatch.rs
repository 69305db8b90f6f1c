//! Dispatches a command: addressing, unit attentions, reservations, and its handler.

use std::sync::Arc;

use block_device::WaitMode;

use crate::command::{Command, DataOut, Lun, LunAddress, Outcome, Plan, Status, Stop};
use crate::opcodes::{self, Op, Row};
use crate::sense::{Asc, Sense, SenseFormat, SenseKey};
use crate::state::{Nexus, NexusState, Target, Unit};

use super::{Context, Executed, Pending};
use super::{block, copy, inquiry, mode, primary, reservations};

/// Adds the device to the outcome.
fn performed_on(unit: &Unit, mut executed: Executed) -> Executed {
    let outcome = match &mut executed {
        Executed::Done(outcome) | Executed::Durable { then: outcome, .. } => outcome,
        Executed::Reading(reading) => &mut reading.then,
        Executed::WouldBlock(_) | Executed::DropSession => return executed,
    };
    outcome.device = Some(Arc::clone(&unit.config.device));
    executed
}

/// Converts a [`Stop`] to the result of the command.
fn stopped(stop: Stop, format: SenseFormat) -> Executed {
    match stop {
        Stop::Sense(sense) => Executed::Done(Outcome::check_condition(&sense, format)),
        Stop::Conflict => Executed::Done(Outcome::status(Status::ReservationConflict)),
        Stop::Gone => Executed::DropSession,
        Stop::WouldBlock => unreachable!("a waiting command becomes Pending before this"),
    }
}

impl Target {
    /// Returns the required action before [`execute`](Self::execute): the amount of data to collect
    /// and its destination, or an immediate outcome.
    pub fn plan(self: &Arc<Self>, nexus: &Nexus, command: &Command) -> Plan {
        let state = &*nexus.state;
        let Some(unit) = self.addressed(state, command.lun) else {
            return self.plan_without_unit(command);
        };
        let bytes = match self.admit(state, &unit, command) {
            Ok(row) => block::data_out_bytes(row, command, &unit),
            Err(stop) => return refuse(stop, unit.state.sense_format()),
        };
        match bytes {
            Err(sense) => refuse(sense.into(), unit.state.sense_format()),
            Ok(0) => Plan::NoData,
            Ok(bytes) => Plan::DataOut {
                bytes,
                landing: block::landing(command, &unit),
            },
        }
    }

    fn plan_without_unit(self: &Arc<Self>, command: &Command) -> Plan {
        match opcodes::recognise(&command.cdb, false) {
            Ok(row) if matches!(row.op, Op::Inquiry | Op::ReportLuns | Op::RequestSense) => {
                Plan::NoData
            }
            Ok(_) => refuse(
                Sense::illegal(Asc::LOGICAL_UNIT_NOT_SUPPORTED).into(),
                SenseFormat::Fixed,
            ),
            Err(sense) => refuse(sense.into(), SenseFormat::Fixed),
        }
    }

    /// Returns the bytes of a volume that a READ holds in memory until they are sent; 0 for other
    /// commands and for a refused one.
    pub fn read_bytes(&self, nexus: &Nexus, command: &Command) -> u64 {
        match opcodes::recognise(&command.cdb, false) {
            Ok(row) if row.op == Op::Read => {}
            _ => return 0,
        }
        self.addressed(&nexus.state, command.lun)
            .and_then(|unit| block::read_extent(command, &unit).ok())
            .map_or(0, |extent| extent.length)
    }

    /// Executes a command. `data` is the data that [`plan`](Self::plan) requested.
    pub fn execute(
        self: &Arc<Self>,
        nexus: &Nexus,
        command: &Command,
        data: DataOut<'_>,
        wait_mode: WaitMode<'_>,
    ) -> Executed {
        self.execute_on(&nexus.state, command, data, wait_mode)
    }

    pub(crate) fn execute_on(
        self: &Arc<Self>,
        nexus: &Arc<NexusState>,
        command: &Command,
        mut data: DataOut<'_>,
        wait_mode: WaitMode<'_>,
    ) -> Executed {
        if nexus.is_lost() {
            return Executed::DropSession;
        }
        let Some(unit) = self.addressed(nexus, command.lun) else {
            return match self.execute_without_unit(nexus, command) {
                Ok(outcome) => Executed::Done(outcome),
                Err(stop) => stopped(stop, SenseFormat::Fixed),
            };
        };
        let result = self.admit(nexus, &unit, command).and_then(|row| {
            let context = Context {
                target: self,
                nexus,
                unit: &unit,
                command,
                row,
                wait_mode,
            };
            perform(&context, &mut data)
        });
        match result {
            Ok(executed) => performed_on(&unit, executed),
            Err(Stop::WouldBlock) => {
                let pending = Pending::new(self, nexus, command, data);
                Executed::WouldBlock(pending.on(&unit.config.device))
            }
            Err(stop) => stopped(stop, unit.state.sense_format()),
        }
    }

    fn addressed(&self, nexus: &NexusState, lun: Lun) -> Option<Arc<Unit>> {
        self.visible_unit(nexus, lun.unit()?)
    }

    /// Recognises a command and checks that this nexus may execute it now. A conflict has
    /// precedence over a unit attention (SAM-5, section 5.3.3).
    fn admit(
        &self,
        nexus: &NexusState,
        unit: &Unit,
        command: &Command,
    ) -> Result<&'static Row, Stop> {
        let recognised = opcodes::recognise(&command.cdb, unit.config.thin);
        if let Ok(row) = recognised {
            unit.state.check_access(nexus, row.access)?;
            if matches!(row.op, Op::Inquiry | Op::ReportLuns | Op::RequestSense) {
                return Ok(row);
            }
        }
        if let Some(asc) = nexus.take_attention(unit.config.lun) {
            return Err(Sense::attention(asc).into());
        }
        if !unit.config.ready {
            let asc = Asc::LOGICAL_UNIT_NOT_READY_MANUAL_INTERVENTION_REQUIRED;
            return Err(Sense::new(SenseKey::NotReady, asc).into());
        }
        let row = recognised?;
        if row.op.needs_contents() && !unit.config.device.is_ready() {
            return Err(Sense::becoming_ready().into());
        }
        Ok(row)
    }

    /// Executes commands that do not require a logical unit (for example SPC-4, section 6.6.1).
    fn execute_without_unit(&self, nexus: &NexusState, command: &Command) -> Result<Outcome, Stop> {
        let row = opcodes::recognise(&command.cdb, false)?;
        match row.op {
            Op::ReportLuns if self.answers_report_luns(command.lun) => {
                primary::report_luns(self, nexus, &command.cdb)
            }
            Op::Inquiry => inquiry::without_unit(self, command),
            Op::RequestSense => Ok(primary::sense_data(
                &command.cdb,
                &Sense::illegal(Asc::LOGICAL_UNIT_NOT_SUPPORTED),
            )),
            _ => Err(Sense::illegal(Asc::LOGICAL_UNIT_NOT_SUPPORTED).into()),
        }
    }

    fn answers_report_luns(&self, lun: Lun) -> bool {
        matches!(
            lun.address(),
            LunAddress::Unit(0) | LunAddress::WellKnownReportLuns
        )
    }
}

fn refuse(stop: Stop, format: SenseFormat) -> Plan {
    match stopped(stop, format) {
        Executed::Done(outcome) => Plan::Refuse(outcome),
        // An absent device is handled by `execute`.
        _ => Plan::NoData,
    }
}

/// Calls the handler of a command.
fn perform(context: &Context<'_>, data: &mut DataOut<'_>) -> Result<Executed, Stop> {
    let done = |outcome: Result<Outcome, Stop>| outcome.map(Executed::Done);
    match context.row.op {
        Op::Read => block::read(context),
        Op::Write => block::write(context, data),
        Op::WriteAndVerify => block::write_and_verify(context, data),
        Op::Verify => done(block::verify(context, data)),
        Op::Prefetch => done(block::prefetch(context)),
        Op::SynchronizeCache => block::synchronize_cache(context),
        Op::WriteSame => block::write_same(context, data),
        Op::Unmap => block::unmap(context, data),
        Op::CompareAndWrite => block::compare_and_write(context, data),
        Op::OrWrite => block::or_write(context, data),
        Op::GetLbaStatus => done(block::lba_status(context)),
        Op::ReadCapacity10 => done(block::read_capacity_10(context)),
        Op::ReadCapacity16 => done(block::read_capacity_16(context)),
        Op::ReadDefectData10 | Op::ReadDefectData12 => done(block::read_defect_data(context)),
        Op::TestUnitReady | Op::SendDiagnostic => Ok(Executed::Done(Outcome::good())),
        Op::RequestSense => done(primary::request_sense(context)),
        Op::Inquiry => done(inquiry::inquiry(context)),
        Op::ReportLuns => done(primary::report_luns(
            context.target,
            context.nexus,
            &context.command.cdb,
        )),
        Op::StartStopUnit => primary::start_stop_unit(context),
        Op::PreventAllow => done(primary::prevent_allow(context)),
        Op::Reserve => done(primary::reserve(context)),
        Op::Release => done(primary::release(context)),
        Op::ModeSense => done(mode::sense(context)),
        Op::ModeSelect => mode::select(context, data),
        Op::PersistentReserveIn => done(reservations::reserve_in(context)),
        Op::PersistentReserveOut => done(reservations::reserve_out(context, data)),
        Op::ExtendedCopy => copy::extended_copy(context, data),
        Op::ReceiveCopyStatus => done(copy::status(context)),
        Op::ReceiveCopyParameters => done(copy::parameters(context)),
        Op::ReportTargetPortGroups => done(primary::report_target_port_groups(context)),
        Op::ReportSupportedOpcodes => done(primary::report_supported_opcodes(context)),
        Op::ReportSupportedTaskManagement => {
            done(primary::report_supported_task_management(context))
        }
    }
}
