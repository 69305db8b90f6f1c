//! A server on a socket of its own, and a client that sends raw bytes.

#![allow(dead_code)] // Each test file uses a part of it.

pub mod tools;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use block_device::SharedDevice;
use nbd::{Access, DesiredExport, DesiredState, NbdServer, ServerLimits};
use serving::ListenAddress;

/// Time-out of a single reply.
pub const EVENT_TIMEOUT: Duration = Duration::from_secs(90);

pub fn export(name: &str, device: SharedDevice) -> DesiredExport {
    DesiredExport {
        name: name.to_owned(),
        description: format!("the disk {name}"),
        device,
        read_only: false,
        access: Access::Local,
        hidden: false,
    }
}

pub fn desired_state(exports: Vec<DesiredExport>) -> DesiredState {
    DesiredState {
        listeners: vec!["127.0.0.1:0".parse().unwrap()],
        tls: None,
        exports,
    }
}

/// Starts a server with one export named `disk`.
pub fn serve(device: SharedDevice) -> (NbdServer, SocketAddr) {
    serve_within(device, ServerLimits::default())
}

pub fn serve_within(device: SharedDevice, limits: ServerLimits) -> (NbdServer, SocketAddr) {
    let server = NbdServer::new(limits);
    server
        .apply(desired_state(vec![export("disk", device)]))
        .unwrap();
    let address = tcp_address(&server);
    (server, address)
}

pub fn tcp_address(server: &NbdServer) -> SocketAddr {
    let listeners = server.status().listeners;
    listeners
        .into_iter()
        .find_map(|address| match address {
            ListenAddress::Tcp(address) => Some(address),
            ListenAddress::Unix(_) => None,
        })
        .expect("a TCP listener")
}

/// A client that sends raw bytes.
pub struct Client {
    pub socket: TcpStream,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
        socket.set_write_timeout(Some(EVENT_TIMEOUT)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket }
    }

    /// Connects and reads the greeting.
    pub fn greeted(address: SocketAddr) -> Self {
        let mut client = Self::connect(address);
        assert_eq!(client.take(18), b"NBDMAGICIHAVEOPT\0\x03");
        client.send(&[0, 0, 0, 3]);
        client
    }

    /// Enters the transmission phase on `disk`: 0 simple, 1 structured, 2 extended, with
    /// `base:allocation` where possible.
    pub fn ready(address: SocketAddr, style: u8) -> Self {
        let mut client = Self::greeted(address);
        match style {
            0 => {}
            1 => assert_eq!(client.option(8, &[]), 1),
            _ => assert_eq!(client.option(11, &[]), 1),
        }
        if style > 0 {
            let query = b"\0\0\0\x04disk\0\0\0\x01\0\0\0\x0fbase:allocation";
            assert_eq!(client.option(10, query), 1);
        }
        assert_eq!(client.option(7, b"\0\0\0\x04disk\0\0"), 1);
        client
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.socket.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads until the server closes the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.socket.read_to_end(&mut bytes) {
            Ok(_) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => bytes,
            Err(error) => panic!("the server does not close: {error}"),
        }
    }

    /// Sends an option. Returns the type of the final reply.
    pub fn option(&mut self, code: u32, data: &[u8]) -> u32 {
        self.send_option(code, data);
        self.option_reply(code)
    }

    pub fn send_option(&mut self, code: u32, data: &[u8]) {
        let length = data.len() as u32;
        self.send(
            &[
                b"IHAVEOPT",
                &code.to_be_bytes()[..],
                &length.to_be_bytes(),
                data,
            ]
            .concat(),
        );
    }

    /// Returns the type of the final reply to an option.
    pub fn option_reply(&mut self, code: u32) -> u32 {
        loop {
            let head = self.take(20);
            assert_eq!(head[8..12], code.to_be_bytes());
            let kind = u32::from_be_bytes(head[12..16].try_into().unwrap());
            self.take(u32::from_be_bytes(head[16..].try_into().unwrap()) as usize);
            if kind == 1 || kind >> 31 == 1 {
                return kind;
            }
        }
    }

    pub fn request(&mut self, flags: u16, command: u16, cookie: u64, offset: u64, length: u32) {
        self.send(&compact(flags, command, cookie, offset, length));
    }

    pub fn extended(&mut self, flags: u16, command: u16, cookie: u64, offset: u64, length: u64) {
        let mut bytes = 0x21e4_1c71_u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend([cookie, offset, length].map(u64::to_be_bytes).concat());
        self.send(&bytes);
    }

    /// Returns error and cookie of a simple reply.
    pub fn simple(&mut self) -> (u32, u64) {
        let head = self.take(16);
        assert_eq!(head[..4], [0x67, 0x44, 0x66, 0x98]);
        let errno = u32::from_be_bytes(head[4..8].try_into().unwrap());
        (errno, u64::from_be_bytes(head[8..].try_into().unwrap()))
    }

    /// Returns type, cookie and payload of a final chunk, structured or extended.
    pub fn chunk(&mut self, extended: bool) -> (u16, u64, Vec<u8>) {
        let head = self.take(if extended { 32 } else { 20 });
        let magic: u32 = if extended { 0x6e8a_278c } else { 0x668e_33ef };
        assert_eq!(head[..4], magic.to_be_bytes());
        assert_eq!(head[4..6], [0, 1], "the final chunk");
        let kind = u16::from_be_bytes([head[6], head[7]]);
        let cookie = u64::from_be_bytes(head[8..16].try_into().unwrap());
        let length = if extended {
            u64::from_be_bytes(head[24..].try_into().unwrap()) as usize
        } else {
            u32::from_be_bytes(head[16..].try_into().unwrap()) as usize
        };
        (kind, cookie, self.take(length))
    }
}

pub fn compact(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend([cookie, offset].map(u64::to_be_bytes).concat());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// Polls until `done`, which must happen.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + EVENT_TIMEOUT;
    while !done() {
        assert!(Instant::now() < deadline, "did not happen: {what}");
        std::thread::yield_now();
    }
}
