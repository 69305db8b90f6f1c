//! The bytes of a connection, in the clear or encrypted. One thread at a time receives and blocks; other threads send
//! without blocking.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use rustls::ClientConnection;

/// Encrypted bytes received by one system call.
const RECEIVE_BYTES: usize = 64 << 10;
/// Bytes that TLS buffers when the socket accepts none.
pub(crate) const HELD_BYTES_MAX: usize = 256 << 10;

/// A connection.
pub(crate) struct Wire {
    socket: TcpStream,
    /// Never locked while a thread is blocked on the socket.
    tls: Option<Mutex<ClientConnection>>,
}

impl Wire {
    pub(crate) fn new(socket: TcpStream, tls: Option<ClientConnection>) -> Self {
        Self {
            socket,
            tls: tls.map(Mutex::new),
        }
    }

    /// Shuts it down, for senders and receivers.
    pub(crate) fn shut(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Returns how many bytes of `parts` it accepts now.
    pub(crate) fn send(&self, parts: [&[u8]; 2]) -> Result<usize, Errno> {
        let Some(tls) = &self.tls else {
            let parts = parts.map(IoSlice::new);
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            return sendmsg(
                &self.socket,
                &parts,
                &mut SendAncillaryBuffer::default(),
                flags,
            );
        };
        let mut tls = lock(tls);
        self.drain(&mut tls)?;
        let mut taken = 0;
        for part in parts {
            let count = tls.writer().write(part).map_err(|_| Errno::PIPE)?;
            taken += count;
            if count < part.len() {
                break;
            }
        }
        Ok(taken)
    }

    /// Writes encrypted bytes to the socket; an error while it does not accept all of them.
    pub(crate) fn flush(&self) -> Result<(), Errno> {
        match &self.tls {
            Some(tls) => self.drain(&mut lock(tls)),
            None => Ok(()),
        }
    }

    fn drain(&self, tls: &mut ClientConnection) -> Result<(), Errno> {
        while tls.wants_write() {
            let written = tls.write_tls(&mut NoWait(&self.socket));
            written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PIPE))?;
        }
        Ok(())
    }

    /// Blocks until the socket accepts more, or is shut down.
    pub(crate) fn wait(&self) {
        const LOOK: Timespec = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        let mut both = [PollFd::new(&self.socket, PollFlags::OUT)];
        let _ = poll(&mut both, Some(&LOOK));
    }

    /// Blocks for input until then; returns whether there is any, or an end.
    fn has_input(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let wait = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut input = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut input, Some(&wait)) {
            Ok(0) => false,
            // An error shows itself when it is read.
            Ok(_) => true,
            Err(_) => !left.is_zero() && self.has_input(until),
        }
    }

    /// The input, for one thread at a time.
    pub(crate) fn receiver(self: &Arc<Self>) -> Receiver {
        Receiver {
            wire: Arc::clone(self),
            plain: Vec::new(),
            used: 0,
            encrypted: Vec::new(),
        }
    }
}

fn lock(tls: &Mutex<ClientConnection>) -> MutexGuard<'_, ClientConnection> {
    tls.lock().expect("no holder panics")
}

/// Writes as much as the socket accepts without blocking.
struct NoWait<'a>(&'a TcpStream);

impl Write for NoWait<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(send(self.0, bytes, flags)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Receives, and blocks for input.
pub(crate) struct Receiver {
    wire: Arc<Wire>,
    /// Decrypted, of which the first `used` bytes were given away.
    plain: Vec<u8>,
    used: usize,
    encrypted: Vec<u8>,
}

impl Receiver {
    /// Blocks for input until then, or without a limit. Returns the number of bytes received, 0 at the end of the
    /// connection; `None` when that time has passed.
    pub(crate) fn receive(
        &mut self,
        bytes: &mut [u8],
        until: Option<Instant>,
    ) -> io::Result<Option<usize>> {
        while self.used == self.plain.len() {
            if until.is_some_and(|until| !self.wire.has_input(until)) {
                return Ok(None);
            }
            let received = match self.wire.tls {
                None => (&self.wire.socket).read(bytes).map(Some),
                Some(_) => self.fill().map(|goes_on| (!goes_on).then_some(0)),
            };
            match received {
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                end => return end,
            }
        }
        let count = (&self.plain[self.used..]).read(bytes)?;
        self.used += count;
        Ok(Some(count))
    }

    /// Receives encrypted bytes and decrypts them; `false` at the end of the connection.
    fn fill(&mut self) -> io::Result<bool> {
        let wire = Arc::clone(&self.wire);
        let Some(tls) = &wire.tls else {
            return Ok(false);
        };
        self.plain.clear();
        self.used = 0;
        self.encrypted.resize(RECEIVE_BYTES, 0);
        let count = (&wire.socket).read(&mut self.encrypted)?;
        let mut rest = &self.encrypted[..count];
        let mut tls = lock(tls);
        while !rest.is_empty() {
            if tls.read_tls(&mut rest)? == 0 {
                return Ok(false);
            }
            let decrypted = tls.process_new_packets();
            decrypted.map_err(io::Error::other)?;
            // Immediately: it accepts no more while it buffers much.
            match tls.reader().read_to_end(&mut self.plain) {
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
        // Replies of TLS itself. The rest is sent with the next request.
        let _ = wire.drain(&mut tls);
        Ok(count > 0)
    }
}
