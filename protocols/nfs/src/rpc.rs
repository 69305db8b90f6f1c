//! ONC RPC version 2 over a stream (RFC 5531): record marking, call headers and reply headers.

use std::sync::Arc;

use file_system::{Identity, is_owner};
use kerberos::Principal;

use crate::xdr::{Malformed, Reader, Writer};

/// Set in a fragment's header if it is the last one of its record (11).
const LAST_FRAGMENT: u32 = 1 << 31;
/// Bytes of credentials and verifiers (8.2).
const AUTHENTICATION_BYTES_MAX: usize = 400;
/// Groups of an `AUTH_SYS` credential (appendix A).
const GROUPS_MAX: usize = 16;
/// Bytes of a machine name (appendix A).
const MACHINE_NAME_BYTES_MAX: usize = 255;
/// Fragments of one record. A client has no reason to send more than a few.
const FRAGMENTS_MAX: usize = 1024;
/// The version of RPC itself.
const RPC_VERSION: u32 = 2;
/// The null procedure of each RPC program (12.1).
pub const NULL: u32 = 0;
const CALL: u32 = 0;
const REPLY: u32 = 1;
const ACCEPTED: u32 = 0;
const DENIED: u32 = 1;
const RPC_MISMATCH: u32 = 0;
const AUTH_ERROR: u32 = 1;

/// Flavors of authentication.
pub const AUTH_NONE: u32 = 0;
/// User and groups as stated by the client.
pub const AUTH_SYS: u32 = 1;
/// `RPCSEC_GSS` (RFC 2203).
pub const AUTH_GSS: u32 = 6;
/// The client probes whether the connection supports TLS (RFC 9289, section 4.1).
const AUTH_TLS: u32 = 7;
/// The verifier that confirms it.
const STARTTLS: &[u8] = b"STARTTLS";
/// Why a call is rejected (`auth_stat`, 9; RFC 2203, 5.3.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BadAuthentication {
    /// The credential is not understood.
    Credential = 1,
    /// A stronger flavor is required.
    TooWeak = 5,
    /// The context is unknown or expired, or belongs to another caller. The client creates a new
    /// one.
    NoContext = 13,
    /// The context is used up. The client creates a new one.
    ContextExhausted = 14,
}

/// Why a connection must be closed: the start of the next record is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// The record exceeds the server's limit.
    #[error("a record of more than {0} bytes")]
    TooLong(usize),
    /// Empty fragments are useless, and many small ones would keep the server busy.
    #[error("a record of empty or too many fragments")]
    Fragments,
}

/// Location of the next record in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// This many bytes must be present before the record can be found.
    Needs(usize),
    /// The record is complete.
    Whole {
        /// Bytes of input that it occupies.
        input_bytes: usize,
        /// Whether it is one fragment, so that it is `input[4..input_bytes]`.
        is_one_fragment: bool,
    },
}

/// Finds the first record of `input`. A record may have `record_bytes_max` bytes, without the
/// headers of its fragments.
pub fn find_record(input: &[u8], record_bytes_max: usize) -> Result<Found, BadRecord> {
    let mut position = 0;
    let mut record_bytes = 0;
    for fragment in 0..FRAGMENTS_MAX {
        let Some(header) = input.get(position..).and_then(<[u8]>::first_chunk::<4>) else {
            return Ok(Found::Needs(position + 4));
        };
        let header = u32::from_be_bytes(*header);
        let length = (header & !LAST_FRAGMENT) as usize;
        let is_last = header & LAST_FRAGMENT != 0;
        if length == 0 && !is_last {
            return Err(BadRecord::Fragments);
        }
        record_bytes += length;
        if record_bytes > record_bytes_max {
            return Err(BadRecord::TooLong(record_bytes_max));
        }
        position += 4 + length;
        if input.len() < position {
            return Ok(Found::Needs(position));
        }
        if is_last {
            return Ok(Found::Whole {
                input_bytes: position,
                is_one_fragment: fragment == 0,
            });
        }
    }
    Err(BadRecord::Fragments)
}

/// Returns the record that occupies all of `input`, without the headers of its fragments.
pub fn join_fragments(mut input: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(input.len());
    while let Some((header, rest)) = input.split_first_chunk::<4>() {
        let length = (u32::from_be_bytes(*header) & !LAST_FRAGMENT) as usize;
        let length = length.min(rest.len());
        record.extend_from_slice(&rest[..length]);
        input = &rest[length..];
    }
    record
}

/// The credential of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Credential {
    /// `AUTH_NONE`.
    Nobody,
    /// `AUTH_SYS`.
    System {
        /// User ID.
        uid: u32,
        /// Group ID.
        gid: u32,
        /// Supplementary groups, at most 16.
        groups: Vec<u32>,
    },
    /// A Kerberos principal.
    Kerberos(Arc<Principal>),
}

impl Credential {
    /// The user identity, if the credential has one.
    pub fn user(&self) -> Option<Identity> {
        match self {
            Self::Nobody => None,
            // A caller with an invalid ID is mapped to `nobody`.
            Self::System { uid, gid, .. } if !is_owner(*uid) || !is_owner(*gid) => None,
            Self::System { uid, gid, groups } => Some(Identity {
                uid: *uid,
                gid: *gid,
                groups: groups
                    .iter()
                    .copied()
                    .filter(|one| is_owner(*one))
                    .collect(),
            }),
            Self::Kerberos(principal) => principal.user.as_ref().map(|user| Identity {
                uid: user.uid,
                gid: user.gid,
                groups: user.groups.clone(),
            }),
        }
    }

    /// The name of the Kerberos principal, if the flavor is `RPCSEC_GSS`.
    pub fn kerberos(&self) -> Option<&str> {
        match self {
            Self::Kerberos(principal) => Some(&principal.name),
            Self::Nobody | Self::System { .. } => None,
        }
    }
}

/// The header of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The transaction ID, repeated in the reply.
    pub transaction: u32,
    /// The RPC program.
    pub program: u32,
    /// The program version.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
    /// The caller's credential.
    pub credential: Credential,
}

/// A call with `RPCSEC_GSS` (RFC 2203, 5.2.1 and 5.3.1). The caller is not authenticated yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secured<'a> {
    /// The call, with an empty credential.
    pub call: Call,
    /// `gss_proc`: the operation on the context.
    pub control: u32,
    /// Sequence number of the call in its context.
    pub sequence: u32,
    /// Protection of the arguments.
    pub service: u32,
    /// The context handle.
    pub handle: &'a [u8],
    /// The bytes that the verifier is a checksum of: the record up to the verifier.
    pub header: &'a [u8],
    /// The verifier.
    pub verifier: &'a [u8],
}

/// Why there is no call to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotExecutable<'a> {
    /// The reply is these bytes, a record without its mark.
    Reply(Vec<u8>),
    /// The probe for TLS, in the form defined for it: a null procedure.
    StartTls {
        /// The transaction ID, repeated in the reply.
        transaction: u32,
    },
    /// A call with `RPCSEC_GSS`. Its arguments may need unwrapping.
    Secured(Box<Secured<'a>>),
    /// Not a call; there is no reply.
    Malformed,
}

/// Reads the header of a call. The arguments remain in `reader`.
pub fn read_call<'a>(reader: &mut Reader<'a>) -> Result<Call, NotExecutable<'a>> {
    let record = reader.rest();
    let malformed = |_: Malformed| NotExecutable::Malformed;
    let transaction = reader.u32().map_err(malformed)?;
    if reader.u32().map_err(malformed)? != CALL {
        return Err(NotExecutable::Malformed);
    }
    if reader.u32().map_err(malformed)? != RPC_VERSION {
        let mut answer = denied(transaction, RPC_MISMATCH);
        answer.u32(RPC_VERSION);
        answer.u32(RPC_VERSION);
        return Err(NotExecutable::Reply(answer.into_bytes()));
    }
    let program = reader.u32().map_err(malformed)?;
    let version = reader.u32().map_err(malformed)?;
    let procedure = reader.u32().map_err(malformed)?;
    let flavor = reader.u32().map_err(malformed)?;
    let body = reader.opaque(AUTHENTICATION_BYTES_MAX).map_err(malformed)?;
    let header = &record[..record.len() - reader.rest().len()];
    let _verifier_flavor = reader.u32().map_err(malformed)?;
    let verifier = reader.opaque(AUTHENTICATION_BYTES_MAX).map_err(malformed)?;
    if flavor == AUTH_TLS && body.is_empty() && procedure == NULL {
        return Err(NotExecutable::StartTls { transaction });
    }
    let by = |credential| Call {
        transaction,
        program,
        version,
        procedure,
        credential,
    };
    let mut body = Reader::new(body);
    let refused = NotExecutable::Reply(bad_credential(transaction));
    match flavor {
        AUTH_NONE => Ok(by(Credential::Nobody)),
        AUTH_SYS => read_system_credential(&mut body)
            .map(by)
            .map_err(|_| refused),
        AUTH_GSS => match read_gss_credential(&mut body) {
            Ok((control, sequence, service, handle)) => {
                Err(NotExecutable::Secured(Box::new(Secured {
                    call: by(Credential::Nobody),
                    control,
                    sequence,
                    service,
                    handle,
                    header,
                    verifier,
                })))
            }
            Err(Malformed) => Err(refused),
        },
        _ => Err(refused),
    }
}

/// Reads version 1 of an `RPCSEC_GSS` credential: procedure, sequence number, service and context
/// handle.
fn read_gss_credential<'a>(
    reader: &mut Reader<'a>,
) -> Result<(u32, u32, u32, &'a [u8]), Malformed> {
    const VERSION: u32 = 1;
    if reader.u32()? != VERSION {
        return Err(Malformed);
    }
    let words = (reader.u32()?, reader.u32()?, reader.u32()?);
    let handle = reader.opaque(AUTHENTICATION_BYTES_MAX)?;
    Ok((words.0, words.1, words.2, handle))
}

/// Reads the `AUTH_SYS` parameters of a credential or of the arguments of `CREATE_SESSION`.
pub fn read_system_credential(reader: &mut Reader<'_>) -> Result<Credential, Malformed> {
    let _stamp = reader.u32()?;
    reader.opaque(MACHINE_NAME_BYTES_MAX)?;
    let (uid, gid) = (reader.u32()?, reader.u32()?);
    let count = reader.count(GROUPS_MAX)?;
    let groups = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
    Ok(Credential::System { uid, gid, groups })
}

fn denied(transaction: u32, why: u32) -> Writer {
    let mut writer = Writer::new();
    for word in [transaction, REPLY, DENIED, why] {
        writer.u32(word);
    }
    writer
}

/// Returns the reply to a call with a rejected credential.
pub fn bad_authentication(transaction: u32, why: BadAuthentication) -> Vec<u8> {
    let mut answer = denied(transaction, AUTH_ERROR);
    answer.u32(why as u32);
    answer.into_bytes()
}

/// Returns the reply to a call with an unknown credential.
pub fn bad_credential(transaction: u32) -> Vec<u8> {
    bad_authentication(transaction, BadAuthentication::Credential)
}

/// Returns the reply to a probe for TLS. TLS starts after it.
pub fn begin_tls(transaction: u32) -> Vec<u8> {
    let mut answer = Writer::new();
    for word in [transaction, REPLY, ACCEPTED, AUTH_NONE] {
        answer.u32(word);
    }
    answer.opaque(STARTTLS);
    answer.u32(0);
    answer.into_bytes()
}

/// Status of an accepted call (9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The results follow.
    Success,
    /// The RPC program is unavailable.
    ProgramUnavailable,
    /// The RPC program is available in other versions.
    ProgramMismatch {
        /// The lowest version.
        lowest: u32,
        /// The highest version.
        highest: u32,
    },
    /// The RPC program has no such procedure.
    ProcedureUnavailable,
    /// The arguments cannot be decoded.
    GarbageArguments,
}

/// Writes the header of a reply to an accepted call, with the verifier that authenticates the
/// server to an `RPCSEC_GSS` client.
pub fn write_accepted(
    writer: &mut Writer,
    transaction: u32,
    checksum: Option<&[u8]>,
    how: Accepted,
) {
    for word in [transaction, REPLY, ACCEPTED] {
        writer.u32(word);
    }
    writer.u32(checksum.map_or(AUTH_NONE, |_| AUTH_GSS));
    writer.opaque(checksum.unwrap_or_default());
    match how {
        Accepted::Success => writer.u32(0),
        Accepted::ProgramUnavailable => writer.u32(1),
        Accepted::ProgramMismatch { lowest, highest } => {
            writer.u32(2);
            writer.u32(lowest);
            writer.u32(highest);
        }
        Accepted::ProcedureUnavailable => writer.u32(3),
        Accepted::GarbageArguments => writer.u32(4),
    }
}

/// Writes the header of a call without a credential: program number, version and procedure.
pub fn write_call(
    writer: &mut Writer,
    transaction: u32,
    (program, version, procedure): (u32, u32, u32),
) {
    for word in [transaction, CALL, RPC_VERSION, program, version, procedure] {
        writer.u32(word);
    }
    // Credential and verifier.
    for word in [AUTH_NONE, 0, AUTH_NONE, 0] {
        writer.u32(word);
    }
}

/// Returns the results in a reply after its transaction ID; `None` if the call was not executed.
pub fn read_results<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let is_accepted = reader.u32().ok()? == REPLY && reader.u32().ok()? == ACCEPTED;
    let _flavor = reader.u32().ok()?;
    reader.opaque(AUTHENTICATION_BYTES_MAX).ok()?;
    let is_success = reader.u32().ok()? == 0;
    (is_accepted && is_success).then(|| reader.rest())
}

/// The mark of a record of `length` bytes in one fragment.
///
/// # Panics
/// If it is 2 GiB long or longer.
pub fn record_mark(length: usize) -> [u8; 4] {
    let length = u32::try_from(length)
        .ok()
        .filter(|length| length & LAST_FRAGMENT == 0);
    (length.expect("no reply is so long") | LAST_FRAGMENT).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A NULL call of NFS version 4 with `AUTH_SYS` of root on a host named `a`.
    const CALL_BYTES: &[u8] = b"\x12\x34\x56\x78\0\0\0\0\0\0\0\x02\0\x01\x86\xa3\0\0\0\x04\0\0\0\0\
        \0\0\0\x01\0\0\0\x1c\0\0\0\x07\0\0\0\x01a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\x05\
        \0\0\0\0\0\0\0\0";

    #[test]
    fn a_call_is_read() {
        let mut reader = Reader::new(CALL_BYTES);
        let call = read_call(&mut reader).expect("a call");
        let credential = Credential::System {
            uid: 0,
            gid: 0,
            groups: vec![5],
        };
        let expected = Call {
            transaction: 0x1234_5678,
            program: 100_003,
            version: 4,
            procedure: 0,
            credential,
        };
        assert_eq!(call, expected);
        assert!(reader.rest().is_empty());
    }

    #[test]
    fn truncated_calls_are_malformed() {
        for length in 0..CALL_BYTES.len() {
            let read = read_call(&mut Reader::new(&CALL_BYTES[..length]));
            assert_eq!(read, Err(NotExecutable::Malformed), "{length} bytes");
        }
    }

    #[test]
    fn rpc_version_mismatch_returns_the_supported_version() {
        let mut call = CALL_BYTES.to_vec();
        call[11] = 3;
        let expected = b"\x12\x34\x56\x78\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x02";
        let read = read_call(&mut Reader::new(&call));
        assert_eq!(read, Err(NotExecutable::Reply(expected.to_vec())));
    }

    #[test]
    fn an_unknown_flavor_is_a_bad_credential() {
        let mut call = CALL_BYTES.to_vec();
        call[27] = 5;
        let expected = b"\x12\x34\x56\x78\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01";
        let read = read_call(&mut Reader::new(&call));
        assert_eq!(read, Err(NotExecutable::Reply(expected.to_vec())));
    }

    #[test]
    fn starttls_is_recognized_in_a_null_call() {
        let mut call = CALL_BYTES[..24].to_vec();
        call.extend_from_slice(b"\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0");
        let transaction = 0x1234_5678;
        let read = read_call(&mut Reader::new(&call));
        assert_eq!(read, Err(NotExecutable::StartTls { transaction }));
        let expected = b"\x12\x34\x56\x78\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x08STARTTLS\0\0\0\0";
        assert_eq!(begin_tls(transaction), expected);
        call[23] = 1;
        let read = read_call(&mut Reader::new(&call));
        assert_eq!(read, Err(NotExecutable::Reply(bad_credential(transaction))));
    }

    /// RFC 2203, 5.3.1: the checksum covers the header up to the end of the credential.
    #[test]
    fn gss_call_carries_its_context_handle() {
        let mut bytes = CALL_BYTES[..24].to_vec();
        bytes.extend_from_slice(
            b"\0\0\0\x06\0\0\0\x18\0\0\0\x01\0\0\0\0\0\0\0\x07\0\0\0\x02\0\0\0\x03abc\0",
        );
        let header = bytes.clone();
        bytes.extend_from_slice(b"\0\0\0\x06\0\0\0\x02mi\0\0args");
        let mut reader = Reader::new(&bytes);
        let read = read_call(&mut reader);
        let Err(NotExecutable::Secured(secured)) = read else {
            panic!("{read:?}");
        };
        assert_eq!(
            (secured.control, secured.sequence, secured.service),
            (0, 7, 2)
        );
        assert_eq!(
            (secured.handle, secured.verifier),
            (&b"abc"[..], &b"mi"[..])
        );
        assert_eq!((secured.header, reader.rest()), (&header[..], &b"args"[..]));
        bytes[35] = 2;
        let read = read_call(&mut Reader::new(&bytes));
        assert_eq!(read, Err(NotExecutable::Reply(bad_credential(0x1234_5678))));
    }

    #[test]
    fn records_are_found_in_one_fragment_and_in_many() {
        assert_eq!(find_record(b"\x80\0", 8), Ok(Found::Needs(4)));
        assert_eq!(find_record(b"\x80\0\0\x04ab", 8), Ok(Found::Needs(8)));
        let one = Found::Whole {
            input_bytes: 6,
            is_one_fragment: true,
        };
        assert_eq!(find_record(b"\x80\0\0\x02abXX", 8), Ok(one));
        let input = b"\0\0\0\x02ab\x80\0\0\x01cXX";
        let two = Found::Whole {
            input_bytes: 11,
            is_one_fragment: false,
        };
        assert_eq!(find_record(input, 8), Ok(two));
        assert_eq!(join_fragments(&input[..11]), b"abc");
    }

    #[test]
    fn endless_records_are_refused() {
        assert_eq!(find_record(b"\x80\0\0\x09", 8), Err(BadRecord::TooLong(8)));
        assert_eq!(find_record(b"\0\0\0\0", 8), Err(BadRecord::Fragments));
        let crumbs = b"\0\0\0\x01a".repeat(FRAGMENTS_MAX);
        assert_eq!(find_record(&crumbs, 1 << 20), Err(BadRecord::Fragments));
    }
}
