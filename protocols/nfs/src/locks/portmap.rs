//! The port mapper of this server (RFC 1833): portmap version 2 and rpcbind versions 3 and 4, as
//! far as NFS clients use them. A reply is not longer than its request, except a list over TCP.

use std::net::IpAddr;

use super::{PROGRAM as NLM, STATUS_PROGRAM as NSM, STATUS_VERSION, VERSION as NLM_VERSION};
use crate::rpc::NULL;
use crate::v3::{MOUNT_PROGRAM, VERSION as NFS_3};
use crate::xdr::{Malformed, Reader, Writer};

/// The program's number.
pub const PROGRAM: u32 = 100_000;
/// Its port.
pub const PORT: u16 = 111;
/// Its lowest and highest version.
pub const VERSIONS: (u32, u32) = (2, 4);

const NFS: u32 = 100_003;
const NFS_4: u32 = 4;
/// The version with numeric protocols and ports; the later ones use text.
const NUMBERS: u32 = 2;
/// `PMAPPROC_GETPORT`, `RPCBPROC_GETADDR`.
const GET: u32 = 3;
/// `PMAPPROC_DUMP`.
const LIST: u32 = 4;
/// Bytes of an rpcbind text.
const TEXT_BYTES_MAX: usize = 128;

/// The transport of an RPC program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Over TCP.
    Tcp,
    /// Over UDP.
    Udp,
}

impl Transport {
    const fn of_number(number: u32) -> Option<Self> {
        match number {
            6 => Some(Self::Tcp),
            17 => Some(Self::Udp),
            _ => None,
        }
    }

    const fn number(self) -> u32 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }

    fn of_name(name: &[u8]) -> Option<Self> {
        match name {
            b"tcp" | b"tcp6" => Some(Self::Tcp),
            b"udp" | b"udp6" => Some(Self::Udp),
            _ => None,
        }
    }
}

/// The ports of the RPC programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The local address of the request.
    pub here: IpAddr,
    /// The port of NFS, MOUNT and NLM, over TCP.
    pub nfs: u16,
    /// The port of the port mapper and of NSM, over TCP and UDP.
    pub own: u16,
}

impl Ports {
    fn all(&self) -> impl Iterator<Item = (u32, u32, Transport, u16)> {
        let Self { nfs, own, .. } = *self;
        let files = [
            (NFS, NFS_3),
            (NFS, NFS_4),
            (MOUNT_PROGRAM, NFS_3),
            (NLM, NLM_VERSION),
        ];
        let files = files.map(|(program, version)| (program, version, Transport::Tcp, nfs));
        let both = [
            (PROGRAM, 2),
            (PROGRAM, 3),
            (PROGRAM, 4),
            (NSM, STATUS_VERSION),
        ];
        let both = both.into_iter().flat_map(move |(program, version)| {
            [Transport::Tcp, Transport::Udp].map(|transport| (program, version, transport, own))
        });
        files.into_iter().chain(both)
    }

    /// Returns the port of an RPC program in any version; a call with a wrong version returns the
    /// available ones.
    fn of(&self, program: u32, transport: Transport) -> Option<u16> {
        let mut all = self.all();
        let found = all.find(|one| (one.0, one.2) == (program, transport));
        found.map(|(.., port)| port)
    }
}

/// Whether a version has this procedure over `transport`.
pub const fn is_procedure(version: u32, number: u32, transport: Transport) -> bool {
    matches!(
        (number, version, transport),
        (NULL | GET, ..) | (LIST, NUMBERS, Transport::Tcp)
    )
}

/// Appends the result of a procedure to `out`.
///
/// # Errors
///
/// The arguments cannot be decoded.
pub fn execute(
    ports: &Ports,
    version: u32,
    number: u32,
    arguments: &[u8],
    out: &mut Writer,
) -> Result<(), Malformed> {
    let mut reader = Reader::new(arguments);
    match number {
        GET if version == NUMBERS => {
            let (program, _version) = (reader.u32()?, reader.u32()?);
            let transport = Transport::of_number(reader.u32()?);
            let port = transport.and_then(|transport| ports.of(program, transport));
            out.u32(port.unwrap_or(0).into());
        }
        GET => {
            let (program, _version) = (reader.u32()?, reader.u32()?);
            let transport = Transport::of_name(reader.opaque(TEXT_BYTES_MAX)?);
            let port = transport.and_then(|transport| ports.of(program, transport));
            let address = port.map(|port| universal(ports.here, port));
            out.opaque(address.unwrap_or_default().as_bytes());
        }
        LIST => {
            for (program, version, transport, port) in ports.all() {
                out.boolean(true);
                for word in [program, version, transport.number(), port.into()] {
                    out.u32(word);
                }
            }
            out.boolean(false);
        }
        _ => {}
    }
    Ok(())
}

/// Formats an address with a port as a universal address (RFC 5665, 5.2.3.3 and 5.2.3.4).
pub(super) fn universal(address: IpAddr, port: u16) -> String {
    format!("{address}.{}.{}", port >> 8, port & 0xff)
}

/// Returns the port of a universal address.
pub(super) fn port_of(universal: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(universal).ok()?;
    let mut parts = text.rsplitn(3, '.');
    let mut byte = || parts.next()?.parse::<u8>().ok();
    let (low, high) = (byte()?, byte()?);
    Some(u16::from_be_bytes([high, low])).filter(|port| *port != 0)
}
