//! Responses of a target, encoded to headers (RFC 7143 section 11). [`Numbers`] are filled in when
//! a PDU is sent.

use super::header::{Header, TAG_NONE, target_opcode as op};
use super::request::{LoginRequest, Stage};
use super::serial::Serial;

/// The numbering fields of every response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// Status number of the connection.
    pub stat_sn: Serial,
    /// Next command number the session expects.
    pub exp_cmd_sn: Serial,
    /// Last command number that the session accepts.
    pub max_cmd_sn: Serial,
}

impl Numbers {
    /// Writes them to a header. All responses except a Data-In without status have the same layout.
    pub fn fill(self, header: &mut Header) {
        header.set_word(24, self.stat_sn.0);
        self.fill_window(header);
    }

    /// Writes all fields except StatSN.
    pub fn fill_window(self, header: &mut Header) {
        header.set_word(28, self.exp_cmd_sn.0);
        header.set_word(32, self.max_cmd_sn.0);
    }
}

/// Why a PDU is rejected (section 11.17.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// The data digest was wrong.
    DataDigestError,
    /// SNACK refused.
    SnackRejected,
    /// The peer violated the protocol.
    ProtocolError,
    /// The operation is unknown.
    CommandNotSupported,
    /// Too many immediate commands.
    ImmediateCommandRejected,
    /// The tag is in use.
    TaskInProgress,
    /// A field of the PDU is invalid.
    InvalidField,
    /// No resources are available now.
    LongOperation,
}

impl RejectReason {
    const fn code(self) -> u8 {
        match self {
            Self::DataDigestError => 0x02,
            Self::SnackRejected => 0x03,
            Self::ProtocolError => 0x04,
            Self::CommandNotSupported => 0x05,
            Self::ImmediateCommandRejected => 0x06,
            Self::TaskInProgress => 0x07,
            Self::InvalidField => 0x09,
            Self::LongOperation => 0x0a,
        }
    }
}

/// Builds a Reject; its data segment is the header of the rejected PDU.
pub fn reject(reason: RejectReason) -> Header {
    let mut header = Header::new(op::REJECT);
    header.0[1] = 0x80;
    header.0[2] = reason.code();
    header.set_word(16, TAG_NONE);
    header
}

/// The difference between transferred and expected data (section 11.4.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residual {
    /// As expected.
    #[default]
    None,
    /// This many expected bytes were not transferred.
    Underflow(u32),
    /// This many bytes more would have been transferred.
    Overflow(u32),
}

impl Residual {
    /// Returns the residual of a command that would transfer `actual` bytes of `expected` ones.
    pub fn of(expected: u32, actual: u64) -> Self {
        let expected = u64::from(expected);
        let clip = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        match actual.cmp(&expected) {
            std::cmp::Ordering::Equal => Self::None,
            std::cmp::Ordering::Less => Self::Underflow(clip(expected - actual)),
            std::cmp::Ordering::Greater => Self::Overflow(clip(actual - expected)),
        }
    }

    fn fill(self, header: &mut Header) {
        match self {
            Self::None => {}
            Self::Underflow(count) => {
                header.0[1] |= 0x02;
                header.set_word(44, count);
            }
            Self::Overflow(count) => {
                header.0[1] |= 0x04;
                header.set_word(44, count);
            }
        }
    }
}

/// Builds the SCSI Response of a command that the device server completed. `data_in_count` is the
/// number of Data-In PDUs that were sent for it.
pub fn scsi_response(task_tag: u32, status: u8, residual: Residual, data_in_count: u32) -> Header {
    let mut header = Header::new(op::SCSI_RESPONSE);
    header.0[1] = 0x80;
    header.0[3] = status;
    header.set_word(16, task_tag);
    header.set_word(36, data_in_count);
    residual.fill(&mut header);
    header
}

/// Builds a SCSI Data-In of `count` bytes at `offset`. `last` marks the end of the sequence.
pub fn data_in(task_tag: u32, data_sn: u32, offset: u32, count: usize, last: bool) -> Header {
    let mut header = Header::new(op::DATA_IN);
    header.0[1] = if last { 0x80 } else { 0 };
    header.set_data_bytes(count);
    header.set_word(16, task_tag);
    header.set_word(20, TAG_NONE);
    header.set_word(36, data_sn);
    header.set_word(40, offset);
    header
}

/// Adds the status GOOD to the last Data-In (section 11.7.3). The header then requires a StatSN.
pub fn add_good_status(header: &mut Header, residual: Residual) {
    header.0[1] |= 0x81;
    residual.fill(header);
}

/// Builds a Ready To Transfer (section 11.8).
pub fn r2t(lun: [u8; 8], task_tag: u32, grant: &super::transfer::Grant) -> Header {
    let mut header = Header::new(op::R2T);
    header.0[1] = 0x80;
    header.0[8..16].copy_from_slice(&lun);
    header.set_word(16, task_tag);
    header.set_word(20, grant.transfer_tag);
    header.set_word(36, grant.r2t_sn);
    header.set_word(40, grant.offset);
    header.set_word(44, grant.length);
    header
}

/// The result of a task management function (section 11.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionResponse {
    /// Done.
    Complete,
    /// The task does not exist.
    TaskDoesNotExist,
    /// The logical unit does not exist.
    LunDoesNotExist,
    /// TASK REASSIGN is not supported.
    ReassignNotSupported,
    /// The function is not supported.
    NotSupported,
    /// The initiator may not do this.
    AuthorizationFailed,
    /// Rejected.
    Rejected,
}

/// Builds a Task Management Function Response.
pub fn task_management(task_tag: u32, response: FunctionResponse) -> Header {
    let mut header = Header::new(op::TASK_MANAGEMENT);
    header.0[1] = 0x80;
    header.0[2] = match response {
        FunctionResponse::Complete => 0,
        FunctionResponse::TaskDoesNotExist => 1,
        FunctionResponse::LunDoesNotExist => 2,
        FunctionResponse::ReassignNotSupported => 4,
        FunctionResponse::NotSupported => 5,
        FunctionResponse::AuthorizationFailed => 6,
        FunctionResponse::Rejected => 255,
    };
    header.set_word(16, task_tag);
    header
}

/// Builds a NOP-In: the reply to a ping (`task_tag`), or a ping of the target (`transfer_tag`).
pub fn nop_in(lun: [u8; 8], task_tag: u32, transfer_tag: u32, count: usize) -> Header {
    let mut header = Header::new(op::NOP_IN);
    header.0[1] = 0x80;
    header.set_data_bytes(count);
    header.0[8..16].copy_from_slice(&lun);
    header.set_word(16, task_tag);
    header.set_word(20, transfer_tag);
    header
}

/// The result of a logout (section 11.15.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogoutResponse {
    /// Closed.
    Closed,
    /// No connection has that id.
    CidNotFound,
    /// Recovery is not supported.
    RecoveryNotSupported,
    /// Pending operations of the connection do not complete.
    CleanupFailed,
}

/// Builds a Logout Response.
pub fn logout(task_tag: u32, response: LogoutResponse) -> Header {
    let mut header = Header::new(op::LOGOUT);
    header.0[1] = 0x80;
    header.0[2] = match response {
        LogoutResponse::Closed => 0,
        LogoutResponse::CidNotFound => 1,
        LogoutResponse::RecoveryNotSupported => 2,
        LogoutResponse::CleanupFailed => 3,
    };
    header.set_word(16, task_tag);
    header
}

/// Builds a Text Response (section 11.11) with `count` bytes of text. `transfer_tag` is
/// [`TAG_NONE`] at the end of the exchange.
pub fn text(
    lun: [u8; 8],
    task_tag: u32,
    transfer_tag: u32,
    is_final: bool,
    more: bool,
    count: usize,
) -> Header {
    let mut header = Header::new(op::TEXT);
    header.0[1] = if is_final { 0x80 } else { 0 } | if more { 0x40 } else { 0 };
    header.set_data_bytes(count);
    header.0[8..16].copy_from_slice(&lun);
    header.set_word(16, task_tag);
    header.set_word(20, transfer_tag);
    header
}

/// Asynchronous events (section 11.9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// The initiator must log out within this time.
    RequestLogout {
        /// Parameter3.
        seconds: u16,
    },
    /// The target is dropping this connection.
    ConnectionDropped {
        /// The connection ID.
        cid: u16,
    },
    /// The target is dropping all connections of the session.
    SessionDropped,
}

/// Builds an Asynchronous Message.
pub fn asynchronous(event: AsyncEvent) -> Header {
    let mut header = Header::new(op::ASYNC);
    header.0[1] = 0x80;
    header.set_word(16, TAG_NONE);
    match event {
        AsyncEvent::RequestLogout { seconds } => {
            header.0[36] = 1;
            header.set_half(42, seconds);
        }
        AsyncEvent::ConnectionDropped { cid } => {
            header.0[36] = 2;
            header.set_half(38, cid);
        }
        AsyncEvent::SessionDropped => header.0[36] = 3,
    }
    header
}

/// The status of a login (section 11.13.5): status class and detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginStatus {
    /// The login continues or is complete.
    Success,
    /// The initiator violated the protocol.
    InitiatorError,
    /// The initiator could not be authenticated.
    AuthenticationFailure,
    /// The initiator may not use the target.
    AuthorizationFailure,
    /// There is no such target.
    NotFound,
    /// The target was removed.
    TargetRemoved,
    /// The version is not supported.
    UnsupportedVersion,
    /// The session has the maximum number of connections.
    TooManyConnections,
    /// A required key is missing.
    MissingParameter,
    /// The connection cannot join the session.
    CannotIncludeInSession,
    /// The session type is not supported.
    SessionTypeNotSupported,
    /// The session does not exist.
    SessionDoesNotExist,
    /// The request is not allowed in this stage.
    InvalidDuringLogin,
    /// The target failed.
    TargetError,
    /// The target does not accept logins now.
    ServiceUnavailable,
    /// The target has no resources.
    OutOfResources,
}

impl LoginStatus {
    /// Status-Class and Status-Detail.
    pub const fn code(self) -> u16 {
        match self {
            Self::Success => 0x0000,
            Self::InitiatorError => 0x0200,
            Self::AuthenticationFailure => 0x0201,
            Self::AuthorizationFailure => 0x0202,
            Self::NotFound => 0x0203,
            Self::TargetRemoved => 0x0204,
            Self::UnsupportedVersion => 0x0205,
            Self::TooManyConnections => 0x0206,
            Self::MissingParameter => 0x0207,
            Self::CannotIncludeInSession => 0x0208,
            Self::SessionTypeNotSupported => 0x0209,
            Self::SessionDoesNotExist => 0x020a,
            Self::InvalidDuringLogin => 0x020b,
            Self::TargetError => 0x0300,
            Self::ServiceUnavailable => 0x0301,
            Self::OutOfResources => 0x0302,
        }
    }
}

/// The state of a login after a response.
#[derive(Clone, Copy, Debug)]
pub struct LoginProgress {
    /// Stage of the response.
    pub current: Stage,
    /// The next stage, if both sides transit.
    pub next: Option<Stage>,
    /// The text continues in the next response.
    pub more: bool,
    /// The session's ID, if it has one.
    pub tsih: u16,
}

/// Builds a Login Response to `request` with `count` bytes of text.
pub fn login(
    request: &LoginRequest,
    progress: LoginProgress,
    status: LoginStatus,
    count: usize,
) -> Header {
    let mut header = Header::new(op::LOGIN);
    let transit = match progress.next {
        Some(next) => 0x80 | next.bits(),
        None => 0,
    };
    header.0[1] = transit | (progress.current.bits() << 2) | if progress.more { 0x40 } else { 0 };
    header.set_data_bytes(count);
    header.0[8..14].copy_from_slice(&request.isid);
    header.set_half(14, progress.tsih);
    header.set_word(16, request.task_tag);
    header.set_half(36, status.code());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residuals_report_underflow_and_overflow() {
        assert_eq!(Residual::of(512, 512), Residual::None);
        assert_eq!(Residual::of(512, 0), Residual::Underflow(512));
        assert_eq!(Residual::of(0, 512), Residual::Overflow(512));
        let header = scsi_response(7, 2, Residual::Underflow(3), 0);
        assert_eq!(header.0[1], 0x82);
        assert_eq!(header.0[3], 2);
        assert_eq!(header.word(44), 3);
    }

    #[test]
    fn a_collapsed_status_sets_final_and_status_bits() {
        let mut header = data_in(1, 4, 1024, 512, false);
        assert_eq!(header.0[1], 0);
        add_good_status(&mut header, Residual::Overflow(5));
        assert_eq!(header.0[1], 0x85);
        assert_eq!(header.word(36), 4);
        assert_eq!(header.word(40), 1024);
        assert_eq!(header.data_bytes(), 512);
    }

    #[test]
    fn a_logout_request_carries_its_time() {
        let header = asynchronous(AsyncEvent::RequestLogout { seconds: 10 });
        assert_eq!(header.0[0], 0x32);
        assert_eq!(header.0[36], 1);
        assert_eq!(header.half(42), 10);
    }
}
