//! Replies as they arrive on a connection, in parts if necessary: a thread may stop receiving in the middle of a
//! reply, and another thread continues.

use std::time::Instant;

use crate::LegError;
use crate::request::{REPLY_BYTES, Reply, decode};
use crate::wire::Receiver;

/// Received by one system call.
const RECEIVE_BYTES: usize = 256 << 10;

/// How receiving ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// The connection ended, or a newer one is in use.
    Ended,
    /// The leg fails with this error.
    Broken(LegError),
}

/// The input of a connection.
pub(super) struct Input {
    source: Source,
    head: Part,
    /// The data of the reply whose head is complete.
    data: Option<Part>,
}

/// Received bytes that belong to no part of a reply yet.
struct Source {
    receiver: Receiver,
    buffer: Vec<u8>,
    used: usize,
    held: usize,
}

/// A part of a reply, of which `done` bytes were received.
struct Part {
    bytes: Vec<u8>,
    done: usize,
}

impl Part {
    fn new(length: usize) -> Self {
        Self {
            bytes: vec![0; length],
            done: 0,
        }
    }
}

impl Input {
    pub(super) fn new(receiver: Receiver) -> Self {
        Self {
            source: Source {
                receiver,
                buffer: vec![0; RECEIVE_BYTES],
                used: 0,
                held: 0,
            },
            head: Part::new(REPLY_BYTES),
            data: None,
        }
    }

    /// Blocks for a reply until then, or without a limit. `None` when that time has passed: the next call continues.
    /// `data_bytes` returns the length of the data that follows the head of a reply without an error.
    pub(super) fn reply(
        &mut self,
        until: Option<Instant>,
        data_bytes: impl FnOnce(Reply) -> Result<usize, Received>,
    ) -> Result<Option<(Reply, Vec<u8>)>, Received> {
        if !self.source.fill(&mut self.head, until)? {
            return Ok(None);
        }
        let head = self.head.bytes.as_slice().try_into();
        let reply = decode(head.expect("its length")).map_err(Received::Broken)?;
        if self.data.is_none() {
            let length = data_bytes(reply)?;
            self.data = Some(Part::new(if reply.errno == 0 { length } else { 0 }));
        }
        if let Some(data) = &mut self.data {
            if !self.source.fill(data, until)? {
                return Ok(None);
            }
        }
        self.head.done = 0;
        Ok(self.data.take().map(|data| (reply, data.bytes)))
    }
}

impl Source {
    /// Returns whether the part is complete.
    fn fill(&mut self, part: &mut Part, until: Option<Instant>) -> Result<bool, Received> {
        while part.done < part.bytes.len() {
            let rest = &mut part.bytes[part.done..];
            match self.read(rest, until).map_err(|_| Received::Ended)? {
                Some(0) => return Err(Received::Ended),
                Some(count) => part.done += count,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn read(&mut self, bytes: &mut [u8], until: Option<Instant>) -> std::io::Result<Option<usize>> {
        if self.used == self.held {
            // Much data is not copied.
            if bytes.len() >= self.buffer.len() {
                return self.receiver.receive(bytes, until);
            }
            let Some(count) = self.receiver.receive(&mut self.buffer, until)? else {
                return Ok(None);
            };
            (self.used, self.held) = (0, count);
        }
        let count = bytes.len().min(self.held - self.used);
        bytes[..count].copy_from_slice(&self.buffer[self.used..][..count]);
        self.used += count;
        Ok(Some(count))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::time::Duration;

    use nbd::protocol::wire::SIMPLE_REPLY_MAGIC;

    use super::*;
    use crate::wire::Wire;

    /// A thread that stops receiving at its deadline leaves nothing lost or doubled to the next one.
    #[test]
    fn a_reply_that_arrives_in_parts_is_received_across_deadlines() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
        let (mut far, _) = listener.accept().expect("accept");
        let mut input = Input::new(Arc::new(Wire::new(near, None)).receiver());
        let mut bytes = SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec();
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(9_u64.to_be_bytes());
        let data: Vec<u8> = (0..=255).collect();
        bytes.extend(&data);
        let last = bytes.pop().expect("data");
        let soon = || Some(Instant::now() + Duration::from_millis(1));
        let mut lengths = 0;
        for byte in bytes {
            let received = input.reply(soon(), |_| {
                lengths += 1;
                Ok(data.len())
            });
            assert_eq!(received, Ok(None));
            far.write_all(&[byte]).expect("send");
        }
        far.write_all(&[last]).expect("send");
        let reply = Reply {
            errno: 0,
            cookie: 9,
        };
        let received = input.reply(None, |_| Ok(data.len()));
        assert_eq!(received, Ok(Some((reply, data.clone()))));
        assert!(lengths <= 1, "asked once");
        drop(far);
        assert_eq!(input.reply(None, |_| Ok(0)), Err(Received::Ended));
    }
}
