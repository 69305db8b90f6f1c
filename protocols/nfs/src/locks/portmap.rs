//! Where the programs of this server are (RFC 1833): the port mapper, version 2, and rpcbind, versions 3 and 4, as far as clients of NFS ask.
//! An answer is not longer than the question, except that a list is given to whoever asks over TCP.

use std::net::IpAddr;

use super::{PROGRAM as NLM, STATUS_PROGRAM as NSM, STATUS_VERSION, VERSION as NLM_VERSION};
use crate::rpc::NULL;
use crate::v3::{MOUNT_PROGRAM, VERSION as NFS_3};
use crate::xdr::{Malformed, Reader, Writer};

/// The program's number.
pub const PROGRAM: u32 = 100_000;
/// The port where it is.
pub const PORT: u16 = 111;
/// Its lowest and its highest version.
pub const VERSIONS: (u32, u32) = (2, 4);

const NFS: u32 = 100_003;
const NFS_4: u32 = 4;
/// The version that has numbers for protocols and ports; the others have texts.
const NUMBERS: u32 = 2;
/// `PMAPPROC_GETPORT`, `RPCBPROC_GETADDR`.
const GET: u32 = 3;
/// `PMAPPROC_DUMP`.
const LIST: u32 = 4;
/// Bytes of a text of rpcbind.
const TEXT_BYTES_MAX: usize = 128;

/// How a program is reached.
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

/// Where the programs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The address of ours that was asked.
    pub here: IpAddr,
    /// The port of NFS, MOUNT and NLM, over TCP.
    pub nfs: u16,
    /// The port of this program and of NSM, over TCP and UDP.
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

    /// The port of a program, in whatever version: a call tells which there are.
    fn of(&self, program: u32, transport: Transport) -> Option<u16> {
        let mut all = self.all();
        let found = all.find(|one| (one.0, one.2) == (program, transport));
        found.map(|(.., port)| port)
    }
}

/// Whether a version has a procedure of that number that is answered over `transport`.
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
/// The arguments cannot be read.
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

/// An address with a port, as rpcbind writes it (RFC 5665, 5.2.3.3 and 5.2.3.4).
pub(super) fn universal(address: IpAddr, port: u16) -> String {
    format!("{address}.{}.{}", port >> 8, port & 0xff)
}

/// The port of such an address.
pub(super) fn port_of(universal: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(universal).ok()?;
    let mut parts = text.rsplitn(3, '.');
    let mut byte = || parts.next()?.parse::<u8>().ok();
    let (low, high) = (byte()?, byte()?);
    Some(u16::from_be_bytes([high, low])).filter(|port| *port != 0)
}
