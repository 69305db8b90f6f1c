//! The beginning of a connection: it is agreed on which export is used.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use nbd::protocol::wire::{
    INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, handshake_flag, info, option, option_reply,
    transmission_flag,
};
use rustls::{ClientConfig, ClientConnection};
use socket2::{SockRef, TcpKeepalive};

use crate::wire::{HELD_BYTES_MAX, Wire};
use crate::{LegError, Settings};

/// Longest reply to an option that is looked at, in bytes.
const REPLY_BYTES_MAX: usize = 4096;
/// Most replies to one option.
const REPLIES_MAX: usize = 64;
/// A connection on which nothing is under way is looked after at this interval.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Attempts without a response.
const KEEPALIVE_RETRIES: u32 = 3;

/// A connection that is ready for requests, and the size of the export.
pub(crate) fn connect(
    address: SocketAddr,
    export: &str,
    settings: &Settings,
) -> Result<(Wire, u64), LegError> {
    let unreachable = |error: io::Error| LegError::Unreachable(format!("{address}: {error}"));
    let wait = settings.connect_wait;
    let mut stream = TcpStream::connect_timeout(&address, wait).map_err(unreachable)?;
    prepare(&stream, wait).map_err(unreachable)?;
    let agreed = match &settings.tls {
        None => exchange_hello(&mut stream)
            .and_then(|()| go(&mut stream, export, settings.only_looks))
            .map(|bytes| (None, bytes)),
        Some(tls) => {
            let looks = settings.only_looks;
            let agreed = agree_encrypted(&mut stream, export, looks, Arc::clone(tls));
            agreed.map(|(tls, bytes)| (Some(tls), bytes))
        }
    };
    let (tls, bytes) = agreed.map_err(|error| match error {
        LegError::Unreachable(why) => LegError::Unreachable(format!("{address}: {why}")),
        other => other,
    })?;
    // The time-out of a reply is checked for each request.
    stream.set_read_timeout(None).map_err(unreachable)?;
    Ok((Wire::new(stream, tls), bytes))
}

/// The same as [`agree`], and all but the beginning of it is encrypted.
fn agree_encrypted(
    stream: &mut TcpStream,
    export: &str,
    only_looks: bool,
    tls: Arc<ClientConfig>,
) -> Result<(ClientConnection, u64), LegError> {
    let broken = |error: rustls::Error| LegError::Unreachable(error.to_string());
    exchange_hello(stream)?;
    send_option(stream, option::STARTTLS, &[])?;
    match option_response(stream, option::STARTTLS)? {
        (option_reply::ACK, _) => {}
        (_, why) => {
            let why = String::from_utf8_lossy(&why).into_owned();
            return Err(LegError::Refused(why));
        }
    }
    let name = "lender.bulkhead".try_into().expect("a name");
    let mut tls = ClientConnection::new(tls, name).map_err(broken)?;
    tls.set_buffer_limit(Some(HELD_BYTES_MAX));
    while tls.is_handshaking() {
        let shaken = tls.complete_io(stream);
        shaken.map_err(unreachable)?;
    }
    let mut encrypted = rustls::Stream::new(&mut tls, stream);
    let bytes = go(&mut encrypted, export, only_looks)?;
    Ok((tls, bytes))
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

/// Negotiates an export with the server on `stream`; returns its size in bytes.
///
/// # Errors
///
/// The peer refuses, or does not support durable writes. Its messages are bounded.
pub fn agree(stream: &mut (impl Read + Write), export: &str) -> Result<u64, LegError> {
    exchange_hello(stream)?;
    go(stream, export, false)
}

fn unreachable(error: io::Error) -> LegError {
    LegError::Unreachable(match error.kind() {
        // The message for the error of a socket whose time limit is over.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "it does not respond in time".to_owned()
        }
        _ => error.to_string(),
    })
}

fn exchange_hello(stream: &mut (impl Read + Write)) -> Result<(), LegError> {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).map_err(unreachable)?;
    let magics = [INIT_MAGIC.to_be_bytes(), OPTION_MAGIC.to_be_bytes()].concat();
    let flags = u16::from_be_bytes([greeting[16], greeting[17]]);
    let wanted = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    if greeting[..16] != magics || flags & wanted != wanted {
        return Err(LegError::Protocol("no NBD server of the newstyle"));
    }
    let flags = u32::from(wanted).to_be_bytes();
    stream.write_all(&flags).map_err(unreachable)
}

fn send_option(stream: &mut impl Write, option: u32, data: &[u8]) -> Result<(), LegError> {
    let mut said = OPTION_MAGIC.to_be_bytes().to_vec();
    said.extend(option.to_be_bytes());
    said.extend((data.len() as u32).to_be_bytes());
    said.extend(data);
    stream.write_all(&said).map_err(unreachable)?;
    stream.flush().map_err(unreachable)
}

fn go(stream: &mut (impl Read + Write), export: &str, only_looks: bool) -> Result<u64, LegError> {
    let mut data = (export.len() as u32).to_be_bytes().to_vec();
    data.extend(export.as_bytes());
    data.extend([0, 0]);
    send_option(stream, option::GO, &data)?;
    let mut found = None;
    for _ in 0..REPLIES_MAX {
        let (kind, body) = option_response(stream, option::GO)?;
        match kind {
            option_reply::ACK => {
                return found.ok_or(LegError::Protocol("an export without a size"));
            }
            option_reply::INFO if body.starts_with(&info::EXPORT.to_be_bytes()) => {
                found = Some(size_of(&body, only_looks)?);
            }
            option_reply::INFO => {}
            _ if kind >> 31 == 1 => {
                let why = String::from_utf8_lossy(&body).into_owned();
                return Err(LegError::Refused(why));
            }
            _ => return Err(LegError::Protocol("a reply to another option")),
        }
    }
    Err(LegError::Protocol("too many replies to one option"))
}

fn option_response(stream: &mut impl Read, option: u32) -> Result<(u32, Vec<u8>), LegError> {
    let mut head = [0; 20];
    stream.read_exact(&mut head).map_err(unreachable)?;
    let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    if head[..8] != OPTION_REPLY_MAGIC.to_be_bytes() || number(8) != option {
        return Err(LegError::Protocol("a reply to another option"));
    }
    let length = number(16) as usize;
    if length > REPLY_BYTES_MAX {
        return Err(LegError::Protocol("a long reply to an option"));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).map_err(unreachable)?;
    Ok((number(12), body))
}

/// The size in the information about an export, which has to be one that is written durably if it is to be written.
fn size_of(body: &[u8], only_looks: bool) -> Result<u64, LegError> {
    use transmission_flag::{HAS_FLAGS, READ_ONLY, SEND_FLUSH, SEND_FUA};
    let Ok(body) = <[u8; 12]>::try_from(body) else {
        return Err(LegError::Protocol("malformed information about an export"));
    };
    let flags = u16::from_be_bytes([body[10], body[11]]);
    let needed = HAS_FLAGS | SEND_FLUSH | SEND_FUA;
    let is_durable = flags & needed == needed && flags & READ_ONLY == 0;
    if !is_durable && !only_looks {
        return Err(LegError::Protocol("an export that is not written durably"));
    }
    Ok(u64::from_be_bytes(
        body[2..10].try_into().expect("eight bytes"),
    ))
}
