//! Requests of an initiator, decoded from header and additional header segments (RFC 7143 section
//! 11). Decoding is total: any bytes produce a request or a reject reason.

use super::header::{Header, TAG_NONE, initiator_opcode as op};
use super::response::RejectReason;
use super::serial::Serial;

/// Maximum bytes of a command descriptor block: SPC-4's variable-length format.
pub const CDB_BYTES_MAX: usize = 260;
/// Bytes of the CDB in the header itself.
const CDB_BYTES_INLINE: usize = 16;
/// Additional header segment types (section 11.2.2.1).
const AHS_EXTENDED_CDB: u8 = 1;
const AHS_BIDIRECTIONAL: u8 = 2;

/// A decoded request.
#[derive(Debug)]
pub enum Request {
    /// A ping, or the reply to a ping of the target.
    NopOut(NopOut),
    /// A SCSI command.
    Scsi(ScsiCommand),
    /// A task management function.
    TaskManagement(TaskManagement),
    /// A login step.
    Login(LoginRequest),
    /// Text negotiation.
    Text(TextRequest),
    /// Data for a write.
    DataOut(DataOut),
    /// A logout.
    Logout(Logout),
    /// A request for retransmission, which ErrorRecoveryLevel 0 does not support.
    Snack,
}

/// NOP-Out (section 11.18).
#[derive(Clone, Copy, Debug)]
pub struct NopOut {
    /// [`TAG_NONE`] if no reply is requested.
    pub task_tag: u32,
    /// The tag of the NOP-In that this replies to, or [`TAG_NONE`].
    pub transfer_tag: u32,
    /// Returned unchanged.
    pub lun: [u8; 8],
    /// Command number.
    pub cmd_sn: Serial,
}

/// SCSI Command (section 11.3).
#[derive(Clone, Debug)]
pub struct ScsiCommand {
    /// Logical unit.
    pub lun: [u8; 8],
    /// Tag of the task.
    pub task_tag: u32,
    /// No unsolicited Data-Out follows.
    pub is_final: bool,
    /// Data to the initiator is expected.
    pub read: bool,
    /// Data from the initiator is expected.
    pub write: bool,
    /// Task attribute as on the wire: 0 untagged, 1 simple, 2 ordered, 3 head of queue, 4 ACA.
    pub attribute: u8,
    /// ExpectedDataTransferLength: of the write for a command with write data, otherwise of the
    /// read.
    pub expected_bytes: u32,
    /// Expected read length of a bidirectional command.
    pub expected_read_bytes: u32,
    /// Command number.
    pub cmd_sn: Serial,
    cdb_inline: [u8; CDB_BYTES_INLINE],
    cdb_extended: Option<Box<[u8]>>,
}

impl ScsiCommand {
    /// The command descriptor block, at least 16 bytes (short ones are padded).
    pub fn cdb(&self) -> &[u8] {
        self.cdb_extended.as_deref().unwrap_or(&self.cdb_inline)
    }
}

/// Task management functions (section 11.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// ABORT TASK.
    AbortTask,
    /// ABORT TASK SET.
    AbortTaskSet,
    /// CLEAR ACA.
    ClearAca,
    /// CLEAR TASK SET.
    ClearTaskSet,
    /// LOGICAL UNIT RESET.
    LogicalUnitReset,
    /// TARGET WARM RESET.
    TargetWarmReset,
    /// TARGET COLD RESET.
    TargetColdReset,
    /// TASK REASSIGN.
    TaskReassign,
    /// An unknown function.
    Unknown(u8),
}

/// Task Management Function Request.
#[derive(Clone, Copy, Debug)]
pub struct TaskManagement {
    /// The function.
    pub function: Function,
    /// Logical unit.
    pub lun: [u8; 8],
    /// Tag of this request.
    pub task_tag: u32,
    /// Task to abort.
    pub referenced_tag: u32,
    /// Command number of the task to abort.
    pub referenced_cmd_sn: Serial,
    /// Command number.
    pub cmd_sn: Serial,
}

/// Login stages (section 11.12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// SecurityNegotiation.
    Security,
    /// LoginOperationalNegotiation.
    Operational,
    /// FullFeaturePhase.
    FullFeature,
}

impl Stage {
    /// The two bits of CSG or NSG.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Security => 0,
            Self::Operational => 1,
            Self::FullFeature => 3,
        }
    }

    const fn from_bits(bits: u8) -> Option<Self> {
        match bits & 3 {
            0 => Some(Self::Security),
            1 => Some(Self::Operational),
            3 => Some(Self::FullFeature),
            _ => None,
        }
    }
}

/// Login Request (section 11.12).
#[derive(Clone, Copy, Debug)]
pub struct LoginRequest {
    /// T: ready for the next stage.
    pub transit: bool,
    /// C: the text continues in the next request.
    pub more: bool,
    /// CSG; `None` if the reserved value.
    pub current: Option<Stage>,
    /// NSG; meaningful with `transit`; `None` if the reserved value.
    pub next: Option<Stage>,
    /// Lowest version that the initiator supports.
    pub version_min: u8,
    /// Initiator session id.
    pub isid: [u8; 6],
    /// Target session id: zero for a new session.
    pub tsih: u16,
    /// Connection id.
    pub cid: u16,
    /// Tag, the same in all requests of one login.
    pub task_tag: u32,
    /// First command number of the session.
    pub cmd_sn: Serial,
}

/// Text Request (section 11.10).
#[derive(Clone, Copy, Debug)]
pub struct TextRequest {
    /// F: the initiator has sent all of its text.
    pub is_final: bool,
    /// C: the text continues in the next request.
    pub more: bool,
    /// Returned unchanged.
    pub lun: [u8; 8],
    /// Tag of the exchange.
    pub task_tag: u32,
    /// [`TAG_NONE`] at the start, otherwise the tag of the last response.
    pub transfer_tag: u32,
    /// Command number.
    pub cmd_sn: Serial,
}

/// SCSI Data-Out (section 11.7).
#[derive(Clone, Copy, Debug)]
pub struct DataOut {
    /// The last PDU of its sequence.
    pub is_final: bool,
    /// The task that the data belongs to.
    pub task_tag: u32,
    /// [`TAG_NONE`] if unsolicited, otherwise the tag of the R2T.
    pub transfer_tag: u32,
    /// Number in the sequence.
    pub data_sn: u32,
    /// Offset of the data in the task's buffer.
    pub offset: u32,
}

/// The reason of a logout (section 11.14.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogoutReason {
    /// Close the session.
    Session,
    /// Close a connection.
    Connection,
    /// Remove a connection for recovery, which ErrorRecoveryLevel 0 does not support.
    Recovery,
    /// Reserved.
    Unknown(u8),
}

/// Logout Request (section 11.14).
#[derive(Clone, Copy, Debug)]
pub struct Logout {
    /// The reason.
    pub reason: LogoutReason,
    /// The connection, for [`LogoutReason::Connection`].
    pub cid: u16,
    /// Tag.
    pub task_tag: u32,
    /// Command number.
    pub cmd_sn: Serial,
}

impl Request {
    /// Decodes `header` with its additional segments `ahs`.
    pub fn decode(header: &Header, ahs: &[u8]) -> Result<Self, RejectReason> {
        let request = match header.opcode() {
            op::NOP_OUT => Self::NopOut(NopOut::decode(header)),
            op::SCSI_COMMAND => Self::Scsi(ScsiCommand::decode(header, ahs)?),
            op::TASK_MANAGEMENT => Self::TaskManagement(TaskManagement::decode(header)),
            op::LOGIN => Self::Login(LoginRequest::decode(header)),
            op::TEXT => Self::Text(TextRequest::decode(header)),
            op::DATA_OUT => Self::DataOut(DataOut::decode(header)),
            op::LOGOUT => Self::Logout(Logout::decode(header)),
            op::SNACK => Self::Snack,
            _ => return Err(RejectReason::CommandNotSupported),
        };
        match &request {
            Self::NopOut(nop) if nop.task_tag == TAG_NONE && !header.is_immediate() => {
                Err(RejectReason::ProtocolError)
            }
            _ => Ok(request),
        }
    }
}

impl NopOut {
    fn decode(header: &Header) -> Self {
        Self {
            task_tag: header.task_tag(),
            transfer_tag: header.word(20),
            lun: header.lun(),
            cmd_sn: Serial(header.word(24)),
        }
    }
}

impl ScsiCommand {
    fn decode(header: &Header, ahs: &[u8]) -> Result<Self, RejectReason> {
        let flags = header.flags();
        let mut cdb_inline = [0; CDB_BYTES_INLINE];
        cdb_inline.copy_from_slice(&header.0[32..48]);
        let mut command = Self {
            lun: header.lun(),
            task_tag: header.task_tag(),
            is_final: header.is_final(),
            read: flags & 0x40 != 0,
            write: flags & 0x20 != 0,
            attribute: flags & 7,
            expected_bytes: header.word(20),
            expected_read_bytes: 0,
            cmd_sn: Serial(header.word(24)),
            cdb_inline,
            cdb_extended: None,
        };
        command.take_segments(ahs)?;
        if command.read && !command.write {
            command.expected_read_bytes = command.expected_bytes;
            command.expected_bytes = 0;
        } else if !command.read && !command.write {
            command.expected_bytes = 0;
        }
        let unsolicited_without_write = !command.is_final && !command.write;
        if command.task_tag == TAG_NONE || unsolicited_without_write {
            return Err(RejectReason::ProtocolError);
        }
        Ok(command)
    }

    /// Each segment: length (2 bytes, without the 3 of its own header), type, then the rest, padded
    /// to 32-bit units.
    fn take_segments(&mut self, mut ahs: &[u8]) -> Result<(), RejectReason> {
        while let [high, low, kind, rest @ ..] = ahs {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let Some(body) = rest.get(..length) else {
                return Err(RejectReason::InvalidField);
            };
            match *kind & 0x3f {
                // The first byte of the body is reserved.
                AHS_EXTENDED_CDB if self.cdb_extended.is_none() && length > 1 => {
                    let cdb = [&self.cdb_inline[..], &body[1..]].concat();
                    if cdb.len() > CDB_BYTES_MAX {
                        return Err(RejectReason::InvalidField);
                    }
                    self.cdb_extended = Some(cdb.into());
                }
                AHS_BIDIRECTIONAL if length == 5 && self.read && self.write => {
                    self.expected_read_bytes =
                        u32::from_be_bytes([body[1], body[2], body[3], body[4]]);
                }
                _ => return Err(RejectReason::InvalidField),
            }
            let used = (3 + length).next_multiple_of(4);
            ahs = ahs.get(used..).unwrap_or_default();
        }
        Ok(())
    }
}

impl TaskManagement {
    fn decode(header: &Header) -> Self {
        let function = match header.flags() & 0x7f {
            1 => Function::AbortTask,
            2 => Function::AbortTaskSet,
            3 => Function::ClearAca,
            4 => Function::ClearTaskSet,
            5 => Function::LogicalUnitReset,
            6 => Function::TargetWarmReset,
            7 => Function::TargetColdReset,
            8 => Function::TaskReassign,
            other => Function::Unknown(other),
        };
        Self {
            function,
            lun: header.lun(),
            task_tag: header.task_tag(),
            referenced_tag: header.word(20),
            referenced_cmd_sn: Serial(header.word(32)),
            cmd_sn: Serial(header.word(24)),
        }
    }
}

impl LoginRequest {
    fn decode(header: &Header) -> Self {
        let flags = header.flags();
        let mut isid = [0; 6];
        isid.copy_from_slice(&header.0[8..14]);
        Self {
            transit: flags & 0x80 != 0,
            more: flags & 0x40 != 0,
            current: Stage::from_bits(flags >> 2),
            next: Stage::from_bits(flags),
            version_min: header.0[3],
            isid,
            tsih: header.half(14),
            cid: header.half(20),
            task_tag: header.task_tag(),
            cmd_sn: Serial(header.word(24)),
        }
    }
}

impl TextRequest {
    fn decode(header: &Header) -> Self {
        Self {
            is_final: header.is_final(),
            more: header.flags() & 0x40 != 0,
            lun: header.lun(),
            task_tag: header.task_tag(),
            transfer_tag: header.word(20),
            cmd_sn: Serial(header.word(24)),
        }
    }
}

impl DataOut {
    fn decode(header: &Header) -> Self {
        Self {
            is_final: header.is_final(),
            task_tag: header.task_tag(),
            transfer_tag: header.word(20),
            data_sn: header.word(36),
            offset: header.word(40),
        }
    }
}

impl Logout {
    fn decode(header: &Header) -> Self {
        let reason = match header.flags() & 0x7f {
            0 => LogoutReason::Session,
            1 => LogoutReason::Connection,
            2 => LogoutReason::Recovery,
            other => LogoutReason::Unknown(other),
        };
        Self {
            reason,
            cid: header.half(20),
            task_tag: header.task_tag(),
            cmd_sn: Serial(header.word(24)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_10() -> Header {
        let mut bytes = [0; 48];
        bytes[0] = 0x01;
        bytes[1] = 0xc1;
        bytes[9] = 3;
        bytes[16..20].copy_from_slice(&7_u32.to_be_bytes());
        bytes[20..24].copy_from_slice(&4096_u32.to_be_bytes());
        bytes[24..28].copy_from_slice(&9_u32.to_be_bytes());
        bytes[32] = 0x28;
        Header(bytes)
    }

    #[test]
    fn a_read_command_is_decoded() {
        let Ok(Request::Scsi(command)) = Request::decode(&read_10(), &[]) else {
            panic!("a SCSI command");
        };
        assert!(command.read && !command.write && command.is_final);
        assert_eq!(command.expected_read_bytes, 4096);
        assert_eq!(command.expected_bytes, 0);
        assert_eq!(command.lun[1], 3);
        assert_eq!(command.attribute, 1);
        assert_eq!(command.cmd_sn, Serial(9));
        assert_eq!(command.cdb()[0], 0x28);
        assert_eq!(command.cdb().len(), 16);
    }

    #[test]
    fn an_extended_cdb_follows_the_inline_one() {
        let ahs = [0, 5, AHS_EXTENDED_CDB, 0, 0xa, 0xb, 0xc, 0xd];
        let Ok(Request::Scsi(command)) = Request::decode(&read_10(), &ahs) else {
            panic!("a SCSI command");
        };
        assert_eq!(&command.cdb()[16..], &[0xa, 0xb, 0xc, 0xd]);
    }

    #[test]
    fn segment_longer_than_its_header_field_is_rejected() {
        let ahs = [0xff, 0xff, AHS_EXTENDED_CDB, 0];
        assert_eq!(
            Request::decode(&read_10(), &ahs).unwrap_err(),
            RejectReason::InvalidField
        );
    }

    #[test]
    fn any_header_decodes_or_is_rejected() {
        let mut seed = 0x9e37_79b9_u32;
        for _ in 0..100_000 {
            let mut bytes = [0; 48];
            for byte in &mut bytes {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (seed >> 24) as u8;
            }
            let ahs = bytes;
            let _ = Request::decode(&Header(bytes), &ahs[..usize::from(bytes[4] % 48)]);
        }
    }
}
