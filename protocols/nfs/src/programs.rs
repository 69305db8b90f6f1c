//! The RPC programs of the server, by number and version, and the doors (listeners) that each one
//! is available at.

use crate::locks::{self, portmap};
use crate::rpc::{Accepted, Call};
use crate::{v3, v4};

/// The program number of NFS.
pub(crate) const PROGRAM: u32 = 100_003;
/// The version with compounds.
pub(crate) const VERSION: u32 = 4;
const COMPOUND: u32 = 1;

/// The listener of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallListener {
    /// The NFS port, for clients that may use files.
    Files,
    /// The NFS port, for an unprivileged port of a client host: `mount` probes the server from
    /// there.
    Unprivileged,
    /// The port mapper port, open to every user of a client host; hosts report restarts here.
    Ports(portmap::Ports, portmap::Transport),
}

/// Checks that the procedure exists behind a door.
pub(crate) const fn accepts(call: &Call, door: CallListener) -> Accepted {
    let versions = match (call.program, door) {
        (PROGRAM, CallListener::Files | CallListener::Unprivileged) => (v3::VERSION, VERSION),
        (v3::MOUNT_PROGRAM, CallListener::Files | CallListener::Unprivileged) => {
            (v3::VERSION, v3::VERSION)
        }
        (locks::PROGRAM, CallListener::Files | CallListener::Unprivileged) => {
            (locks::VERSION, locks::VERSION)
        }
        (locks::STATUS_PROGRAM, CallListener::Ports(..)) => {
            (locks::STATUS_VERSION, locks::STATUS_VERSION)
        }
        (portmap::PROGRAM, CallListener::Ports(..)) => portmap::VERSIONS,
        _ => return Accepted::ProgramUnavailable,
    };
    let (lowest, highest) = versions;
    if call.version < lowest || call.version > highest {
        return Accepted::ProgramMismatch { lowest, highest };
    }
    let is_known = match (call.program, call.version, door) {
        (PROGRAM, VERSION, _) => call.procedure <= COMPOUND,
        (PROGRAM, ..) => v3::is_procedure(call.procedure),
        (locks::PROGRAM, ..) => locks::is_procedure(call.procedure),
        (locks::STATUS_PROGRAM, ..) => locks::is_status_procedure(call.procedure),
        (_, version, CallListener::Ports(_, transport)) => {
            portmap::is_procedure(version, call.procedure, transport)
        }
        _ => v3::is_mount_procedure(call.procedure),
    };
    match is_known {
        true => Accepted::Success,
        false => Accepted::ProcedureUnavailable,
    }
}

/// Returns why the call is slow, according to its first operations; `None` if it is fast.
pub(crate) fn slow_payload(call: &Call, arguments: &[u8]) -> Option<v4::Long> {
    match (call.program, call.version) {
        (PROGRAM, VERSION) if call.procedure == COMPOUND => v4::slow_payload(arguments),
        (PROGRAM, v3::VERSION) => match v3::slow_payload(call.procedure, arguments)? {
            0 => Some(v4::Long::Contents),
            payload => Some(v4::Long::Payload(payload)),
        },
        _ => None,
    }
}
