//! A minimal NBD client: one export, simple replies, one request at a time. Written from the
//! protocol's specification, not from our own server.

use std::io::{Error, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;

/// A connection in its transmission phase.
pub struct Nbd<S = UnixStream> {
    pub stream: S,
    pub size: u64,
    cookie: u64,
}

impl Nbd {
    /// Connects to `export` on the Unix socket `path`.
    pub fn connect(path: &Path, export: &str) -> Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(Duration::from_secs(180)))?;
        Self::over(stream, export)
    }
}

impl<S: Read + Write> Nbd<S> {
    /// Selects `export` over `stream`, which is connected.
    pub fn over(mut stream: S, export: &str) -> Result<Self> {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        // Fixed newstyle, no zeroes; then NBD_OPT_EXPORT_NAME.
        let mut hello = 3_u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT");
        hello.extend(1_u32.to_be_bytes());
        hello.extend((export.len() as u32).to_be_bytes());
        hello.extend(export.bytes());
        stream.write_all(&hello)?;
        let mut answer = [0; 10];
        stream.read_exact(&mut answer)?;
        let size = u64::from_be_bytes(answer[..8].try_into().expect("8 bytes"));
        Ok(Self {
            stream,
            size,
            cookie: 0,
        })
    }

    fn call(&mut self, kind: u16, offset: u64, length: u32, data: &[u8]) -> Result<()> {
        self.send(kind, offset, length, data)?;
        self.reply()
    }

    fn send(&mut self, kind: u16, offset: u64, length: u32, data: &[u8]) -> Result<()> {
        self.cookie += 1;
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend(0_u16.to_be_bytes());
        request.extend(kind.to_be_bytes());
        request.extend(self.cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request)
    }

    fn reply(&mut self) -> Result<()> {
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply)?;
        assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes());
        assert_eq!(reply[8..], self.cookie.to_be_bytes());
        match u32::from_be_bytes(reply[4..8].try_into().expect("4 bytes")) {
            0 => Ok(()),
            error => Err(Error::from_raw_os_error(error as i32)),
        }
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.call(WRITE, offset, data.len() as u32, data)
    }

    pub fn flush(&mut self) -> Result<()> {
        self.call(FLUSH, 0, 0, &[])
    }

    pub fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>> {
        self.send_read(offset, length)?;
        self.data(length)
    }

    /// Requests data, which [`Nbd::data`] receives.
    pub fn send_read(&mut self, offset: u64, length: usize) -> Result<()> {
        self.send(READ, offset, length as u32, &[])
    }

    /// Requests the data at all of these offsets before the first reply, and returns it in their order.
    pub fn read_at_once(&mut self, offsets: &[u64], length: usize) -> Result<Vec<Vec<u8>>> {
        let first = self.cookie + 1;
        for offset in offsets {
            self.send_read(*offset, length)?;
        }
        let mut found = vec![Vec::new(); offsets.len()];
        for _ in offsets {
            let mut reply = [0; 16];
            self.stream.read_exact(&mut reply)?;
            assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "success");
            let cookie = u64::from_be_bytes(reply[8..].try_into().expect("8 bytes"));
            let place = &mut found[(cookie - first) as usize];
            assert!(place.is_empty(), "one reply to each request");
            place.resize(length, 0);
            self.stream.read_exact(place)?;
        }
        Ok(found)
    }

    pub fn data(&mut self, length: usize) -> Result<Vec<u8>> {
        self.reply()?;
        let mut data = vec![0; length];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }
}
