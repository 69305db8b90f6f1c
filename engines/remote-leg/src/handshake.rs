//! The beginning of a connection: it is agreed on which export is used.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nbd::protocol::wire::{
    INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, handshake_flag, info, option, option_reply,
    transmission_flag,
};
use socket2::{SockRef, TcpKeepalive};

use crate::LegError;

/// Longest reply to an option that is looked at, in bytes.
const REPLY_BYTES_MAX: usize = 4096;
/// Most replies to one option.
const REPLIES_MAX: usize = 64;
/// A connection on which nothing is under way is looked after at this interval.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// How often that may have no answer.
const KEEPALIVE_RETRIES: u32 = 3;

/// A connection that is ready for requests, and the size of the export.
pub(crate) fn connect(
    address: SocketAddr,
    export: &str,
    wait: Duration,
) -> Result<(TcpStream, u64), LegError> {
    let unreachable = |error: io::Error| LegError::Unreachable(format!("{address}: {error}"));
    let mut stream = TcpStream::connect_timeout(&address, wait).map_err(unreachable)?;
    prepare(&stream, wait).map_err(unreachable)?;
    let bytes = agree(&mut stream, export).map_err(|error| match error {
        LegError::Unreachable(why) => LegError::Unreachable(format!("{address}: {why}")),
        other => other,
    })?;
    // Whether an answer comes in time is looked at for each request.
    stream.set_read_timeout(None).map_err(unreachable)?;
    Ok((stream, bytes))
}

fn prepare(stream: &TcpStream, wait: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(wait))?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_INTERVAL)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_RETRIES);
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(wait))
}

/// Agrees on an export with what answers on `stream`; its size in bytes.
///
/// # Errors
///
/// The other side refuses, or is no server that writes durably. What it says is bounded.
pub fn agree(stream: &mut (impl Read + Write), export: &str) -> Result<u64, LegError> {
    let unreachable = |error: io::Error| LegError::Unreachable(error.to_string());
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).map_err(unreachable)?;
    let magics = [INIT_MAGIC.to_be_bytes(), OPTION_MAGIC.to_be_bytes()].concat();
    let flags = u16::from_be_bytes([greeting[16], greeting[17]]);
    let wanted = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    if greeting[..16] != magics || flags & wanted != wanted {
        return Err(LegError::Protocol("no NBD server of the newstyle"));
    }
    let name = export.as_bytes();
    let mut said = u32::from(wanted).to_be_bytes().to_vec();
    said.extend(OPTION_MAGIC.to_be_bytes());
    said.extend(option::GO.to_be_bytes());
    said.extend((name.len() as u32 + 6).to_be_bytes());
    said.extend((name.len() as u32).to_be_bytes());
    said.extend(name);
    said.extend([0, 0]);
    stream.write_all(&said).map_err(unreachable)?;
    let mut found = None;
    for _ in 0..REPLIES_MAX {
        let (kind, body) = option_answer(stream)?;
        match kind {
            option_reply::ACK => {
                return found.ok_or(LegError::Protocol("an export without a size"));
            }
            option_reply::INFO if body.starts_with(&info::EXPORT.to_be_bytes()) => {
                found = Some(size_of(&body)?);
            }
            option_reply::INFO => {}
            _ if kind >> 31 == 1 => {
                let why = String::from_utf8_lossy(&body).into_owned();
                return Err(LegError::Refused(why));
            }
            _ => return Err(LegError::Protocol("an answer to another option")),
        }
    }
    Err(LegError::Protocol("too many answers to one option"))
}

fn option_answer(stream: &mut impl Read) -> Result<(u32, Vec<u8>), LegError> {
    let unreachable = |error: io::Error| LegError::Unreachable(error.to_string());
    let mut head = [0; 20];
    stream.read_exact(&mut head).map_err(unreachable)?;
    let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    if head[..8] != OPTION_REPLY_MAGIC.to_be_bytes() || number(8) != option::GO {
        return Err(LegError::Protocol("an answer to another option"));
    }
    let length = number(16) as usize;
    if length > REPLY_BYTES_MAX {
        return Err(LegError::Protocol("a long answer to an option"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).map_err(unreachable)?;
    Ok((number(12), body))
}

/// The size in the information about an export, which has to be one that is written durably.
fn size_of(body: &[u8]) -> Result<u64, LegError> {
    use transmission_flag::{HAS_FLAGS, READ_ONLY, SEND_FLUSH, SEND_FUA};
    let Ok(body) = <[u8; 12]>::try_from(body) else {
        return Err(LegError::Protocol("malformed information about an export"));
    };
    let flags = u16::from_be_bytes([body[10], body[11]]);
    let needed = HAS_FLAGS | SEND_FLUSH | SEND_FUA;
    if flags & needed != needed || flags & READ_ONLY != 0 {
        return Err(LegError::Protocol("an export that is not written durably"));
    }
    Ok(u64::from_be_bytes(
        body[2..10].try_into().expect("eight bytes"),
    ))
}
