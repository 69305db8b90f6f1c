//! The replication protocol, inside TLS: frames of JSON, as on the control socket, and ZFS send
//! streams between them (`docs/formats/replication.md`).

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use certificates::is_rejected_by_peer;
use control::exports::Identity;
use control::frame::{self, FrameError};
use control::{Failure, FailureKind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use units::VolumeName;

/// Version of the protocol.
pub const VERSION: u32 = 1;
/// Longest silence of the other side.
pub const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Time-out for the TCP connection, and the same for its TLS handshake.
pub const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The message of a failure where the receiver has no rule for the sender.
pub const NOT_ACCEPTED: &str = "it does not accept the certificate of this pool";

/// The sender's part.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromSender {
    /// Queries the state of this volume at the receiver.
    About {
        /// [`VERSION`].
        version: u32,
        /// The volume at the receiver.
        volume: VolumeName,
    },
    /// A stream follows this frame at once. It contains its own end mark.
    Stream(Offer),
    /// The volumes of this run. Only for a receiver with [`Present::takes_lists`].
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
    /// The volume's identity, if an initiator has seen one.
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
    /// The volume's properties at the sender: stored here, without effect.
    pub properties: Vec<(String, String)>,
    /// Number of replicated snapshots to retain.
    pub keep: u32,
    /// The stream resumes an interrupted one.
    pub resumes: bool,
    /// The dataset of the sender that has the rule; not sent by older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<VolumeName>,
    /// Seconds between two runs; none: only on request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_s: Option<u64>,
}

/// The receiver's part.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromReceiver {
    /// The state of the copy.
    Present(Present),
    /// The stream has arrived, and is on the disks.
    Done {
        /// Its bytes.
        bytes: u64,
    },
    /// The request failed. The connection is closed.
    Failed(Failure),
}

/// The state of a copy.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Present {
    /// GUIDs of its snapshots.
    pub guids: Vec<u64>,
    /// Numbers in the names of replicated snapshots, which a new snapshot must not reuse.
    #[serde(default)]
    pub tags: Vec<u64>,
    /// Resume token of an interrupted stream.
    pub token: Option<String>,
    /// The receiver accepts a [`List`].
    #[serde(default)]
    pub takes_lists: bool,
    /// The formats of streams that the receiver's engine receives; empty in the response of an older receiver.
    #[serde(default)]
    pub formats: Vec<String>,
}

/// A connection with TLS on it, of either side.
pub trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

/// A connection with one deadline for all its reads and writes, regardless of the number of pieces.
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
            true => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the deadline has passed",
            )),
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

/// Sends a message.
pub fn send_message(to: &mut dyn Connection, what: &impl Serialize) -> Result<(), Failure> {
    let mut to = to;
    frame::send(&mut to, what).map_err(|error| broken(&error))
}

/// Receives a message, or none if the peer has closed the connection.
pub fn receive_message<T: DeserializeOwned>(
    from: &mut dyn Connection,
) -> Result<Option<T>, Failure> {
    let mut from = from;
    match frame::receive(&mut from) {
        Ok(what) => Ok(Some(what)),
        Err(FrameError::Closed) => Ok(None),
        Err(error) => Err(broken(&error)),
    }
}

fn broken(error: &FrameError) -> Failure {
    match error {
        // A receiver verifies the certificate after the sender has completed its part of the handshake.
        FrameError::Io(error) if is_rejected_by_peer(error) => {
            Failure::new(FailureKind::Unreachable, NOT_ACCEPTED)
        }
        _ => Failure::from_chain(FailureKind::Unreachable, error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A peer that sends single bytes slowly is timed out like one that sends none.
    #[test]
    fn slow_single_bytes_do_not_extend_the_deadline() {
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
