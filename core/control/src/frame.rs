//! Frames of the control socket: a length of four bytes, big-endian, then that many bytes of
//! JSON. The length is checked before anything is allocated.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Version of the control protocol. Both sides send it in every frame and refuse any other.
pub const PROTOCOL_VERSION: u32 = 1;
/// Version of a request that only reports the objects that it would destroy: an older server, which would destroy them,
/// refuses this version.
pub const PREVIEW_VERSION: u32 = 2;

/// Largest frame, in bytes of JSON. A status of 10,000 volumes fits.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// Why a frame could not be sent or parsed.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The peer closed the connection between frames.
    #[error("the connection was closed")]
    Closed,
    /// The socket failed, or the frame was truncated.
    #[error("transfer a frame")]
    Io(#[from] io::Error),
    /// The received or built frame is larger than [`FRAME_BYTES_MAX`].
    #[error("a frame of {bytes} bytes is over the limit of {FRAME_BYTES_MAX}")]
    TooLarge {
        /// Announced length.
        bytes: usize,
    },
    /// Not the JSON that was expected.
    #[error("understand a frame")]
    Malformed(#[from] serde_json::Error),
}

impl FrameError {
    /// Returns whether the peer timed out.
    pub fn is_late(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::TimedOut)
    }

    /// Returns whether the peer sent nothing within the time-out of the socket.
    pub fn is_silent(&self) -> bool {
        use io::ErrorKind::{TimedOut, WouldBlock};
        matches!(self, Self::Io(error) if matches!(error.kind(), TimedOut | WouldBlock))
    }

    /// Returns whether the peer has closed its receiving side; messages that it sent before can
    /// still be read.
    pub fn is_write_closed(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset};
        matches!(self, Self::Io(error) if matches!(error.kind(), BrokenPipe | ConnectionReset))
    }
}

/// Sends one value as a frame.
pub fn send<T: Serialize>(to: &mut impl Write, value: &T) -> Result<(), FrameError> {
    to.write_all(&framed(value)?)?;
    to.flush()?;
    Ok(())
}

/// One value as a frame.
pub fn framed<T: Serialize>(value: &T) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, value)?;
    let length = bytes.len() - 4;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLarge { bytes: length });
    }
    bytes[..4].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(bytes)
}

/// Receives one frame.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read) -> Result<T, FrameError> {
    let mut prefix = [0; 4];
    let mut got = 0;
    while got < prefix.len() {
        match from.read(&mut prefix[got..]) {
            Ok(0) if got == 0 => return Err(FrameError::Closed),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let length = u32::from_be_bytes(prefix) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLarge { bytes: length });
    }
    // Grows with the received bytes, so that a false length costs no memory.
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_a_big_endian_length_and_json() {
        let mut bytes = Vec::new();
        send(&mut bytes, &serde_json::json!({"a": 1})).expect("sent");
        assert_eq!(bytes, b"\x00\x00\x00\x07{\"a\":1}");
        let back: serde_json::Value = receive(&mut bytes.as_slice()).expect("received");
        assert_eq!(back, serde_json::json!({"a": 1}));
    }

    #[test]
    fn a_huge_length_is_refused_before_it_is_read() {
        let result: Result<serde_json::Value, _> = receive(&mut b"\xff\xff\xff\xff".as_slice());
        assert!(matches!(result, Err(FrameError::TooLarge { .. })));
    }

    #[test]
    fn truncated_frame_is_an_error_and_eof_is_not() {
        let cut: Result<serde_json::Value, _> = receive(&mut b"\x00\x00\x00\x07{\"a".as_slice());
        assert!(matches!(cut, Err(FrameError::Io(_))));
        let end: Result<serde_json::Value, _> = receive(&mut b"".as_slice());
        assert!(matches!(end, Err(FrameError::Closed)));
    }
}
