//! A file descriptor that is passed with a request over the control socket.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Writes to a socket; the first bytes carry a descriptor.
pub struct Sending<'a> {
    stream: &'a UnixStream,
    descriptor: Option<BorrowedFd<'a>>,
}

impl<'a> Sending<'a> {
    /// Sends `descriptor` with the first bytes that are written.
    pub fn new(stream: &'a UnixStream, descriptor: Option<BorrowedFd<'a>>) -> Self {
        Self { stream, descriptor }
    }
}

impl Write for Sending<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(descriptor) = self.descriptor else {
            return self.stream.write(bytes);
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        let fits = ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        debug_assert!(fits, "room was made for one");
        let parts = [IoSlice::new(bytes)];
        let sent = sendmsg(self.stream, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
        self.descriptor = None;
        Ok(sent)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads from a socket until a deadline, and holds the received descriptor, if there was one. Further descriptors are
/// closed at once.
pub struct Receiving<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
    /// The received descriptor.
    pub descriptor: Option<OwnedFd>,
}

impl<'a> Receiving<'a> {
    /// Starts without a descriptor. Reads fail with [`io::ErrorKind::TimedOut`] from `deadline` on.
    pub fn until(stream: &'a UnixStream, deadline: Instant) -> Self {
        Self {
            stream,
            deadline,
            descriptor: None,
        }
    }
}

impl Read for Receiving<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(bytes)];
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = match recvmsg(self.stream, &mut parts, &mut ancillary, flags) {
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            other => other?,
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                for descriptor in descriptors {
                    self.descriptor.get_or_insert(descriptor);
                }
            }
        }
        Ok(received.bytes)
    }
}

/// Returns whether the peer of `stream` has hung up.
pub fn is_hung_up(stream: &UnixStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut watched = [PollFd::new(stream, PollFlags::RDHUP)];
    let at_once = Timespec::default();
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut watched, Some(&at_once)).is_ok() && watched[0].revents().intersects(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn descriptor_is_received_with_its_bytes() {
        let (near, far) = UnixStream::pair().expect("a pair");
        let (mut answers, question) = UnixStream::pair().expect("a pair");
        Sending::new(&near, Some(question.as_fd()))
            .write_all(b"take this")
            .expect("sent");
        let mut receiving = Receiving::until(&far, Instant::now() + Duration::from_secs(60));
        let mut bytes = [0; 9];
        receiving.read_exact(&mut bytes).expect("received");
        assert_eq!(&bytes, b"take this");
        let descriptor = receiving.descriptor.expect("it came along");
        drop(question);
        UnixStream::from(descriptor)
            .write_all(b"thanks")
            .expect("sent");
        let mut text = String::new();
        answers.read_to_string(&mut text).expect("received");
        assert_eq!(text, "thanks");
    }

    #[test]
    fn hang_up_is_detected() {
        let (near, far) = UnixStream::pair().expect("a pair");
        assert!(!is_hung_up(&near));
        drop(far);
        assert!(is_hung_up(&near));
    }
}
