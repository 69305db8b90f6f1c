//! The programs of the server, by number and version, and through which door of it a client comes to which.

use crate::locks::{self, portmap};
use crate::rpc::{Accepted, Call};
use crate::{v3, v4};

/// The program number of NFS.
pub(crate) const PROGRAM: u32 = 100_003;
/// The version with compounds.
pub(crate) const VERSION: u32 = 4;
const COMPOUND: u32 = 1;

/// Where a call comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// At the port of NFS: only who may use the files.
    Files,
    /// At the port of NFS, from a port of a client machine that every user there may have: `mount` looks from there whether somebody answers.
    Guests,
    /// At that of the port mapper, which anybody of a client machine asks, and where hosts say that they have started again.
    Ports(portmap::Ports, portmap::Transport),
}

/// Whether there is such a procedure behind a door.
pub(crate) const fn accepts(call: &Call, door: Door) -> Accepted {
    let versions = match (call.program, door) {
        (PROGRAM, Door::Files | Door::Guests) => (v3::VERSION, VERSION),
        (v3::MOUNT_PROGRAM, Door::Files | Door::Guests) => (v3::VERSION, v3::VERSION),
        (locks::PROGRAM, Door::Files | Door::Guests) => (locks::VERSION, locks::VERSION),
        (locks::STATUS_PROGRAM, Door::Ports(..)) => (locks::STATUS_VERSION, locks::STATUS_VERSION),
        (portmap::PROGRAM, Door::Ports(..)) => portmap::VERSIONS,
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
        (_, version, Door::Ports(_, transport)) => {
            portmap::is_procedure(version, call.procedure, transport)
        }
        _ => v3::is_mount_procedure(call.procedure),
    };
    match is_known {
        true => Accepted::Success,
        false => Accepted::ProcedureUnavailable,
    }
}

/// The answer that a call takes long for, as far as its beginning tells.
pub(crate) fn takes_long(call: &Call, arguments: &[u8]) -> Option<u32> {
    match (call.program, call.version) {
        (PROGRAM, VERSION) if call.procedure == COMPOUND => v4::takes_long(arguments),
        (PROGRAM, v3::VERSION) => v3::takes_long(call.procedure, arguments),
        _ => None,
    }
}
