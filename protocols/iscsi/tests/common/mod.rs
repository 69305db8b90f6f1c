//! A raw initiator that can send arbitrary errors, and a server on a memory device.

#![allow(dead_code)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use block_device::{MemoryDevice, SharedDevice};
use iscsi::protocol::digest::digest;
use iscsi::protocol::header::{HEADER_BYTES, Header, TAG_NONE, padding};
use iscsi::{Access, DesiredPortal, DesiredState, DesiredTarget, IscsiServer, Limits};
use serving::{Budget, Workers};

/// Time-out of an event that must happen.
pub const EVENT_TIMEOUT: Duration = Duration::from_secs(90);
pub const TARGET: &str = "iqn.2026-01.org.example:one";
pub const BLOCK: usize = 512;

/// A server with one target and one unit.
pub struct Fixture {
    pub server: IscsiServer,
    pub budget: Arc<Budget>,
    pub address: SocketAddr,
    pub target: Arc<scsi::Target>,
}

pub fn target(name: &str, device: SharedDevice) -> Arc<scsi::Target> {
    let target = scsi::Target::new(scsi::TargetConfig {
        name: name.parse().unwrap(),
        vendor: "BULKHEAD".to_owned(),
        product: "TEST".to_owned(),
        revision: "0".to_owned(),
        portal_groups: vec![1],
    });
    target.apply(vec![scsi::UnitConfig {
        lun: 0,
        device,
        identity: scsi::Identity {
            naa: vec![0x60; 16],
            serial: "TEST".to_owned(),
            eui: None,
        },
        write_cache: true,
        ready: true,
        read_only: false,
        thin: true,
        show_physical_block: false,
        visibility: scsi::Visibility::All,
        reservations: Arc::new(scsi::NoReservationStore),
        modes: Arc::new(scsi::NoReservationStore),
    }]);
    target
}

pub fn target_desired(target: &Arc<scsi::Target>) -> DesiredTarget {
    DesiredTarget {
        name: target.name().clone(),
        portal_groups: Vec::new(),
        access: Access::default(),
        target: Arc::clone(target),
    }
}

pub const PORTAL: &str = "127.0.0.1:0";

pub fn portal_desired() -> DesiredPortal {
    DesiredPortal {
        address: PORTAL.parse().unwrap(),
        group: 1,
    }
}

pub fn serve(limits: Limits) -> Fixture {
    serve_device(limits, 64 << 20, Arc::new(MemoryDevice::new(64 << 20, 512)))
}

pub fn serve_device(limits: Limits, budget_bytes: u64, device: SharedDevice) -> Fixture {
    let workers = Arc::new(Workers::new("worker", 4));
    serve_on(limits, workers, Budget::new(budget_bytes), device)
}

pub fn serve_on(
    limits: Limits,
    workers: Arc<Workers>,
    budget: Arc<Budget>,
    device: SharedDevice,
) -> Fixture {
    let server = IscsiServer::new(limits, workers, Arc::clone(&budget));
    let target = target(TARGET, device);
    let applied = server.apply(DesiredState {
        targets: vec![target_desired(&target)],
        portals: vec![portal_desired()],
        discovery: None,
    });
    assert!(applied.failed.is_empty());
    let address = server.portals()[0].0;
    Fixture {
        server,
        budget,
        address,
        target,
    }
}

/// Starts a server on a memory device with a logged-in initiator.
pub fn served_client() -> (Fixture, Client) {
    served_client_of(Arc::new(MemoryDevice::new(64 << 20, 512)))
}

/// Starts a server on `device` with a logged-in initiator.
pub fn served_client_of(device: SharedDevice) -> (Fixture, Client) {
    let fixture = serve_device(Limits::default(), 64 << 20, device);
    let mut client = Client::log_in(fixture.address);
    assert!(client.is_served());
    (fixture, client)
}

/// A received PDU.
#[derive(Debug)]
pub struct Pdu {
    pub header: Header,
    pub data: Vec<u8>,
}

impl Pdu {
    pub fn opcode(&self) -> u8 {
        self.header.opcode()
    }

    /// Status of a SCSI Response, or of a Data-In that carries one.
    pub fn status(&self) -> u8 {
        self.header.0[3]
    }

    /// Sense key and additional sense code of a SCSI Response.
    pub fn sense(&self) -> (u8, u8, u8) {
        let sense = &self.data[2..];
        (sense[2] & 0xf, sense[12], sense[13])
    }
}

/// The parameters of a login.
#[derive(Clone)]
pub struct LoginParameters {
    pub initiator: String,
    pub target: String,
    pub isid: u8,
    pub tsih: u16,
    pub cid: u16,
    pub cmd_sn: u32,
    pub keys: String,
    pub discovery: bool,
}

impl Default for LoginParameters {
    fn default() -> Self {
        Self {
            initiator: "iqn.2026-01.org.example:tester".to_owned(),
            target: TARGET.to_owned(),
            isid: 1,
            tsih: 0,
            cid: 0,
            cmd_sn: 1,
            keys: "InitialR2T=Yes;ImmediateData=Yes;MaxRecvDataSegmentLength=262144".to_owned(),
            discovery: false,
        }
    }
}

impl LoginParameters {
    /// With these keys, otherwise the default.
    pub fn with_keys(keys: &str) -> Self {
        Self {
            keys: keys.to_owned(),
            ..Self::default()
        }
    }
}

pub struct Client {
    pub stream: TcpStream,
    pub cmd_sn: u32,
    pub tsih: u16,
    pub text: String,
    pub header_digest: bool,
    pub data_digest: bool,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            cmd_sn: 1,
            tsih: 0,
            text: String::new(),
            header_digest: false,
            data_digest: false,
        }
    }

    pub fn log_in(address: SocketAddr) -> Self {
        Self::log_in_as(address, &LoginParameters::default())
    }

    /// Logs in, directly in the operational stage.
    pub fn log_in_as(address: SocketAddr, who: &LoginParameters) -> Self {
        let mut client = Self::connect(address);
        let status = client.try_log_in(who);
        assert_eq!(status, 0, "login status {status:#06x}");
        client
    }

    /// Sends the first request of a login.
    pub fn begin_log_in(&mut self, who: &LoginParameters) {
        let (header, text) = Self::login(who, 0x04);
        self.send(header, text.as_bytes());
        let answer = self.receive().expect("a response to the login");
        assert_eq!((answer.opcode(), answer.header.half(36)), (0x23, 0));
    }

    fn login(who: &LoginParameters, stages: u8) -> (Header, String) {
        let kind = if who.discovery {
            "SessionType=Discovery".to_owned()
        } else {
            format!("TargetName={}", who.target)
        };
        let text = format!("InitiatorName={};{kind};{};", who.initiator, who.keys);
        let mut header = Header::new(0x43);
        header.0[1] = stages;
        header.0[8] = 0x80;
        header.0[13] = who.isid;
        header.set_half(14, who.tsih);
        header.set_half(20, who.cid);
        header.set_word(16, 0x1000);
        header.set_word(24, who.cmd_sn);
        (header, text.replace(';', "\0"))
    }

    /// Logs in. Returns status class and detail.
    pub fn try_log_in(&mut self, who: &LoginParameters) -> u16 {
        let (header, text) = Self::login(who, 0x87);
        self.end_log_in(who, header, &text)
    }

    /// Completes a login after [`Self::begin_log_in`]. Returns status class and detail.
    pub fn continue_log_in(&mut self, who: &LoginParameters) -> u16 {
        let (header, _) = Self::login(who, 0x87);
        self.end_log_in(who, header, "")
    }

    fn end_log_in(&mut self, who: &LoginParameters, header: Header, text: &str) -> u16 {
        self.send(header, text.as_bytes());
        let answer = self.receive().expect("a response to the login");
        assert_eq!(answer.opcode(), 0x23);
        let status = answer.header.half(36);
        if status == 0 {
            assert_eq!(answer.header.0[1], 0x87);
            self.tsih = answer.header.half(14);
            self.cmd_sn = who.cmd_sn;
            self.text = String::from_utf8(answer.data).unwrap().replace('\0', ";");
            self.header_digest = self.text.contains("HeaderDigest=CRC32C;");
            self.data_digest = self.text.contains("DataDigest=CRC32C;");
        }
        status
    }

    /// Sends a PDU with correct length and digests.
    pub fn send(&mut self, mut header: Header, data: &[u8]) {
        header.set_data_bytes(data.len());
        let mut bytes = header.0.to_vec();
        if self.header_digest {
            bytes.extend(digest(&header.0));
        }
        let mut segment = data.to_vec();
        segment.resize(data.len() + padding(data.len()), 0);
        bytes.extend(&segment);
        if self.data_digest && !data.is_empty() {
            bytes.extend(digest(&segment));
        }
        self.stream.write_all(&bytes).unwrap();
    }

    /// Receives the next PDU; `None` if the connection is closed.
    pub fn receive(&mut self) -> Option<Pdu> {
        let mut bytes = [0; HEADER_BYTES];
        if !self.fill(&mut bytes) {
            return None;
        }
        let header = Header(bytes);
        if self.header_digest {
            let mut received = [0; 4];
            assert!(self.fill(&mut received));
            assert_eq!(received, digest(&header.0), "header digest");
        }
        let count = header.data_bytes();
        let mut data = vec![0; count + padding(count)];
        assert!(self.fill(&mut data));
        if self.data_digest && count > 0 {
            let mut received = [0; 4];
            assert!(self.fill(&mut received));
            assert_eq!(received, digest(&data), "data digest");
        }
        data.truncate(count);
        Some(Pdu { header, data })
    }

    fn fill(&mut self, bytes: &mut [u8]) -> bool {
        match self.stream.read_exact(bytes) {
            Ok(()) => true,
            Err(error) if is_closed(error.kind()) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether the server closes the connection within [`EVENT_TIMEOUT`].
    pub fn is_dropped(&mut self) -> bool {
        let mut rest = [0; 65536];
        loop {
            match self.stream.read(&mut rest) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return is_closed(error.kind()),
            }
        }
    }

    pub fn command(&self, tag: u32, cdb: &[u8], flags: u8, expected: u32) -> Header {
        let mut header = Header::new(0x01);
        header.0[1] = flags | 0x01;
        header.set_word(16, tag);
        header.set_word(20, expected);
        header.set_word(24, self.cmd_sn);
        header.0[32..32 + cdb.len()].copy_from_slice(cdb);
        header
    }

    /// Sends a command with the next number.
    pub fn send_command(&mut self, tag: u32, cdb: &[u8], flags: u8, expected: u32, data: &[u8]) {
        let header = self.command(tag, cdb, flags, expected);
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        self.send(header, data);
    }

    pub fn read_10(&mut self, tag: u32, lba: u32, blocks: u16) {
        let cdb = cdb_10(0x28, lba, blocks);
        self.send_command(tag, &cdb, 0xc0, u32::from(blocks) * BLOCK as u32, &[]);
    }

    /// A write without immediate data.
    pub fn write_10(&mut self, tag: u32, lba: u32, blocks: u16) {
        let cdb = cdb_10(0x2a, lba, blocks);
        self.send_command(tag, &cdb, 0xa0, u32::from(blocks) * BLOCK as u32, &[]);
    }

    /// Sends Data-Out for `r2t`.
    pub fn data_out(&mut self, r2t: &Pdu, data_sn: u32, offset: u32, data: &[u8], last: bool) {
        self.send(data_out_header(r2t, data_sn, offset, last), data);
    }

    /// Sends TEST UNIT READY until the unit attention of the login is cleared, then once more.
    pub fn is_served(&mut self) -> bool {
        for tag in 0..8 {
            self.send_command(0x7000 + tag, &[0; 6], 0x80, 0, &[]);
            let Some(answer) = self.receive() else {
                return false;
            };
            assert_eq!(answer.opcode(), 0x21);
            if answer.status() == 0 {
                return true;
            }
        }
        false
    }

    pub fn write_blocks(&mut self, lba: u32, data: &[u8]) -> u8 {
        self.write_10(0x5000, lba, (data.len() / BLOCK) as u16);
        loop {
            let pdu = self.receive().unwrap();
            if pdu.opcode() != 0x31 {
                assert_eq!(pdu.opcode(), 0x21);
                return pdu.status();
            }
            let (offset, length) = (pdu.header.word(40), pdu.header.word(44));
            let part = &data[offset as usize..(offset + length) as usize];
            self.data_out(&pdu, 0, offset, part, true);
        }
    }

    pub fn read_blocks(&mut self, lba: u32, count: usize) -> Vec<u8> {
        self.read_10(0x6000, lba, (count / BLOCK) as u16);
        let mut data = Vec::new();
        loop {
            let pdu = self.receive().unwrap();
            assert_eq!(pdu.opcode(), 0x25, "{pdu:?}");
            assert_eq!(pdu.header.word(40) as usize, data.len());
            data.extend(&pdu.data);
            if pdu.header.flags() & 1 != 0 {
                assert_eq!(pdu.status(), 0);
                return data;
            }
        }
    }
}

pub fn data_out_header(r2t: &Pdu, data_sn: u32, offset: u32, last: bool) -> Header {
    let mut header = Header::new(0x05);
    header.0[1] = if last { 0x80 } else { 0 };
    header.set_word(16, r2t.header.task_tag());
    header.set_word(20, r2t.header.word(20));
    header.set_word(36, data_sn);
    header.set_word(40, offset);
    header
}

pub fn is_closed(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
    )
}

pub fn cdb_10(opcode: u8, lba: u32, blocks: u16) -> [u8; 10] {
    let mut cdb = [0; 10];
    cdb[0] = opcode;
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// A ping that requests a reply.
pub fn ping(tag: u32, cmd_sn: u32) -> Header {
    let mut header = Header::new(0x40);
    header.0[1] = 0x80;
    header.set_word(16, tag);
    header.set_word(20, TAG_NONE);
    header.set_word(24, cmd_sn);
    header
}

/// Polls until `done`, which must happen.
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + EVENT_TIMEOUT;
    while !done() {
        assert!(Instant::now() < deadline, "did not happen: {what}");
        std::thread::yield_now();
    }
}

/// A Task Management Function Request.
pub fn task_management(function: u8, tag: u32, cmd_sn: u32, referenced: u32) -> Header {
    let mut header = Header::new(0x42);
    header.0[1] = 0x80 | function;
    header.set_word(16, tag);
    header.set_word(20, referenced);
    header.set_word(24, cmd_sn);
    header.set_word(32, cmd_sn.wrapping_sub(1));
    header
}
