//! What the two sides of replication say to each other, inside TLS: frames of JSON, as on the
//! control socket, and ZFS's own streams between them (`docs/formats/replication.md`).

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use control::exports::Identity;
use control::frame::{self, FrameError};
use control::{Failure, FailureKind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use units::VolumeName;

/// Version of what is said.
pub const VERSION: u32 = 1;
/// Longest silence of the other side.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Longest time until a connection stands, and as much for its TLS.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The sender's part.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromSender {
    /// What has arrived of this volume?
    About {
        /// [`VERSION`].
        version: u32,
        /// The volume at the receiver.
        volume: VolumeName,
    },
    /// A stream follows this frame at once, and ends by itself.
    Stream(Offer),
    /// What the sender replicates in this run. Only for a receiver whose [`Present::takes_lists`] is true.
    List(List),
}

/// All volumes and file systems that a rule replicates.
#[derive(Debug, Serialize, Deserialize)]
pub struct List {
    /// The dataset of the sender that has the rule.
    pub from: VolumeName,
    /// Their names at the receiver.
    pub volumes: Vec<Listed>,
}

/// One of them.
#[derive(Debug, Serialize, Deserialize)]
pub struct Listed {
    /// The name at the receiver.
    pub volume: VolumeName,
    /// Who it is to its initiators, if it has been shown to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// A stream that follows.
#[derive(Debug, Serialize, Deserialize)]
pub struct Offer {
    /// The volume at the receiver.
    pub volume: VolumeName,
    /// The snapshot, without the volume.
    pub tag: String,
    /// What the volume says of itself at the sender: kept there, without effect.
    pub properties: Vec<(String, String)>,
    /// Snapshots of replication to keep.
    pub keep: u32,
    /// The stream goes on where one was interrupted.
    pub resumes: bool,
    /// The dataset of the sender that has the rule; absent in what an older sender sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<VolumeName>,
    /// Seconds between two runs; none: only when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_s: Option<u64>,
}

/// The receiver's part.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromReceiver {
    /// What has arrived.
    Present(Present),
    /// The stream has arrived, and is on the disks.
    Done {
        /// Its bytes.
        bytes: u64,
    },
    /// It did not work. The connection ends.
    Failed(Failure),
}

/// What has arrived of a volume.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Present {
    /// GUIDs of its snapshots.
    pub guids: Vec<u64>,
    /// Numbers of the names of those that are called as replication calls them: another one may not have the same name.
    #[serde(default)]
    pub tags: Vec<u64>,
    /// Where an interrupted stream goes on.
    pub token: Option<String>,
    /// The receiver takes a [`List`].
    #[serde(default)]
    pub takes_lists: bool,
    /// The formats of streams that the receiver's engine receives; empty in the response of an older receiver.
    #[serde(default)]
    pub formats: Vec<String>,
}

/// A connection with TLS on it, of either side.
pub trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

/// A connection of which everything has to have come and gone until a moment, however many pieces it
/// comes in.
pub struct Until<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl<'a> Until<'a> {
    /// `stream`, for `wait` from now on. Its own time-outs change.
    pub fn new(stream: &'a TcpStream, wait: Duration) -> Self {
        let deadline = Instant::now() + wait;
        Self { stream, deadline }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::Error::new(io::ErrorKind::TimedOut, "it takes too long")),
            false => Ok(Some(left)),
        }
    }
}

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Bounds every wait of a connection.
pub fn bound(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))
}

/// Says something.
pub fn say(to: &mut dyn Connection, what: &impl Serialize) -> Result<(), Failure> {
    let mut to = to;
    frame::send(&mut to, what).map_err(|error| broken(&error))
}

/// Hears something; nothing if the other side has ended the connection.
pub fn hear<T: DeserializeOwned>(from: &mut dyn Connection) -> Result<Option<T>, Failure> {
    let mut from = from;
    match frame::receive(&mut from) {
        Ok(what) => Ok(Some(what)),
        Err(FrameError::Closed) => Ok(None),
        Err(error) => Err(broken(&error)),
    }
}

fn broken(error: &FrameError) -> Failure {
    Failure::from_chain(FailureKind::Unreachable, error)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A peer that sends a byte now and then is as late as one that sends none.
    #[test]
    fn dripping_bytes_do_not_move_the_deadline() {
        const WAIT: Duration = Duration::from_millis(200);
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        let mut peer = TcpStream::connect(address).expect("connected");
        let (stream, _) = listener.accept().expect("accepted");
        let mut until = Until::new(&stream, WAIT);
        let began = Instant::now();
        let error = loop {
            peer.write_all(b"x").expect("sent");
            if let Err(error) = until.read(&mut [0]) {
                break error;
            }
            assert!(began.elapsed() < 100 * WAIT, "it is read for ever");
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= WAIT);
        assert!(until.write(b"x").is_err());
    }
}
