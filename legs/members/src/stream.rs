//! Sends and receives messages on a connection.

use std::io;
use std::time::Duration;

use certificates::UnpinnedCertificate;
use leg_record::MemberId;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::limits::{ACKNOWLEDGE_WAIT, HANDSHAKE_WAIT, SEND_WAIT, SILENCE_MAX};
use crate::wire::{self, Envelope, WireError};

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error("the other side closed the connection")]
    Closed,
    #[error("nothing whole came for {} s", SILENCE_MAX.as_secs())]
    Silence,
    #[error("the other side does not read from the connection")]
    Stalled,
    #[error("the handshake timed out")]
    Handshake,
    #[error(
        "the other side has the certificate of member {certificate}, but identifies itself as member {said}"
    )]
    OtherMember { certificate: u64, said: u64 },
    #[error("the other side has no certificate that is known here")]
    Stranger,
    #[error(
        "{0}: write the fingerprint of that member into the configuration of each head, if it is the intended host"
    )]
    UnpinnedCertificate(UnpinnedCertificate),
    #[error(
        "the other side does not know the certificate of this host: write its fingerprint (`bulkhead leg-server fingerprint` on a head, \
         `bulkhead-witness identity` on a witness) into the configuration there, and restart it there"
    )]
    Unknown,
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("the connection broke: {0}")]
    Io(io::Error),
}

impl End {
    /// Whether one side rejects the other's identity.
    pub(crate) fn is_of_identity(&self) -> bool {
        matches!(
            self,
            Self::OtherMember { .. }
                | Self::Stranger
                | Self::UnpinnedCertificate(_)
                | Self::Unknown
        )
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match UnpinnedCertificate::of(&error) {
            Some(seen) => Self::UnpinnedCertificate(seen),
            None if certificates::is_rejected_by_peer(&error) => Self::Unknown,
            None => Self::Io(error),
        }
    }
}

/// Receives the next message, within the time-out.
pub(crate) async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> Result<Envelope, End> {
    let whole = async {
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix).await?;
        let mut body = vec![0; wire::body_bytes(prefix)?];
        stream.read_exact(&mut body).await?;
        Ok(Envelope::decode(&body)?)
    };
    match timeout(SILENCE_MAX, whole).await {
        Ok(Err(End::Io(error))) if error.kind() == io::ErrorKind::UnexpectedEof => Err(End::Closed),
        Ok(received) => received,
        Err(_) => Err(End::Silence),
    }
}

/// Sends `envelope`, within the time-out.
pub(crate) async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    envelope: &Envelope,
) -> Result<(), End> {
    let bytes = envelope.encode();
    let sent = async {
        stream.write_all(&bytes).await?;
        stream.flush().await
    };
    match timeout(SEND_WAIT, sent).await {
        Ok(sent) => Ok(sent?),
        Err(_) => Err(End::Stalled),
    }
}

/// Exchanges member numbers. `known`: the member that the other side's certificate belongs to.
pub(crate) async fn exchange_hello(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    me: MemberId,
    known: MemberId,
) -> Result<(), End> {
    let greeted = async {
        let said = async {
            stream.write_all(&wire::hello(me)).await?;
            stream.flush().await
        };
        let said = said.await;
        let mut bytes = [0; wire::HELLO_BYTES];
        // A server that rejects the certificate sends an alert and reads no more, so the read error is the better one.
        stream.read_exact(&mut bytes).await?;
        said?;
        Ok::<_, End>(wire::greeted(&bytes)?)
    };
    let said = timeout(HANDSHAKE_WAIT, greeted).await;
    let said = said.map_err(|_| End::Handshake)??;
    match said == known {
        true => Ok(()),
        false => Err(End::OtherMember {
            certificate: known.0,
            said: said.0,
        }),
    }
}

/// Messages are short and each delays a caller: disables Nagle's algorithm and bounds unacknowledged data.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let wait_ms = ACKNOWLEDGE_WAIT.as_millis() as u32;
    Ok(sockopt::set_tcp_user_timeout(stream, wait_ms)?)
}

/// Lets `messages` of each second pass, and `at_once` without a pause.
pub(crate) struct Pace {
    /// When the bucket is full again.
    full_at: tokio::time::Instant,
    each: Duration,
    capacity: Duration,
}

impl Pace {
    pub(crate) fn new(messages_per_second: u32, at_once: u32) -> Self {
        let each = Duration::from_secs(1) / messages_per_second;
        Self {
            full_at: tokio::time::Instant::now(),
            each,
            capacity: each * at_once,
        }
    }

    /// Delays the caller until one more message is allowed.
    pub(crate) async fn wait(&mut self) {
        let now = tokio::time::Instant::now();
        self.full_at = self.full_at.max(now) + self.each;
        let wait = (self.full_at - now).saturating_sub(self.capacity);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}
