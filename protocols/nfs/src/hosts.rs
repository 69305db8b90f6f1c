//! NFS 3 hosts that lock ranges: their addresses, the hosts that the next server must notify of its
//! start, and the queue of calls to them. No sockets.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use serving::Waker;

/// Queued calls to hosts, in all and per host. A host retries if a call to it is dropped.
const MESSAGES_MAX: usize = 4096;
const MESSAGES_PER_HOST_MAX: usize = 256;

/// A host and the local address that it uses. A host ignores calls from another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressPair {
    /// The local address.
    pub here: IpAddr,
    /// The host's address.
    pub there: IpAddr,
}

/// Hosts that may have locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// The NSM `state` of the server: odd, and different after each start.
    pub start: u32,
    /// Routes to the hosts.
    pub ways: BTreeSet<AddressPair>,
}

/// The text is not a list of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no list of hosts")]
pub struct InvalidHosts;

impl Hosts {
    /// Bytes of the text of a list: the maximum of a ZFS property.
    pub const BYTES_MAX: usize = 8191;

    /// The NSM state of the next start.
    pub(crate) const fn next_start(&self) -> u32 {
        (self.start.wrapping_add(1) & 0x7fff_ffff) | 1
    }
}

/// The NSM state, then for each local address a blank, the address, `=`, and the hosts separated by
/// commas.
impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.start)?;
        let mut last = None;
        for AddressPair { here, there } in &self.ways {
            match last.replace(here) == Some(here) {
                true => write!(f, ",{there}")?,
                false => write!(f, " {here}={there}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Hosts {
    type Err = InvalidHosts;

    fn from_str(text: &str) -> Result<Self, InvalidHosts> {
        let mut parts = text.split(' ');
        let start = parts.next().and_then(|start| start.parse().ok());
        let mut ways = BTreeSet::new();
        for part in parts {
            let (here, hosts) = part.split_once('=').ok_or(InvalidHosts)?;
            let here = here.parse().map_err(|_| InvalidHosts)?;
            for there in hosts.split(',') {
                let there = there.parse().map_err(|_| InvalidHosts)?;
                ways.insert(AddressPair { here, there });
            }
        }
        let start = start.ok_or(InvalidHosts)?;
        Ok(Self { start, ways })
    }
}

/// The purpose of a call to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Notifies the host of the server's start, so that it reclaims its locks.
    Started,
    /// Grants a blocked lock, by its number.
    Granted(u64),
    /// The result of an asynchronous request.
    Reply,
}

/// A call to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The route to the host.
    pub way: AddressPair,
    /// The RPC program on the host.
    pub program: u32,
    /// The program version.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
    /// Its arguments.
    pub arguments: Vec<u8>,
    /// The purpose.
    pub purpose: Purpose,
}

/// Whether a call may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The call may be sent.
    Now,
    /// The call may be sent later.
    Later,
    /// The content is no longer true.
    Never,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The host replied; `was_repeated` if an earlier copy may have been executed, too.
    Replied {
        /// The results.
        results: Vec<u8>,
        /// The call was sent more than once.
        was_repeated: bool,
    },
    /// No reply within the time-out, or the host has no such RPC program.
    NoReply {
        /// Whether it may have been executed.
        was_sent: bool,
    },
}

/// Calls that are not sent yet.
#[derive(Default)]
pub struct Outbox {
    messages: Mutex<VecDeque<Message>>,
    waker: OnceLock<Arc<Waker>>,
}

impl Outbox {
    fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.messages.lock().expect("no holder panics")
    }

    /// Sets the waker of the sender.
    pub(crate) fn wakes(&self, waker: Arc<Waker>) {
        let _ = self.waker.set(waker);
    }

    /// Queues a call. Returns false if the queue is full.
    pub(crate) fn put(&self, message: Message) -> bool {
        let mut messages = self.messages();
        let to_host = messages
            .iter()
            .filter(|one| one.way.there == message.way.there);
        if messages.len() >= MESSAGES_MAX || to_host.count() >= MESSAGES_PER_HOST_MAX {
            return false;
        }
        messages.push_back(message);
        drop(messages);
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
        true
    }

    /// Removes and returns all queued calls.
    pub(crate) fn take(&self) -> VecDeque<Message> {
        std::mem::take(&mut self.messages())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_list_round_trips() {
        let way = |here: &str, there: &str| AddressPair {
            here: here.parse().expect("an address"),
            there: there.parse().expect("an address"),
        };
        let ways = [
            way("10.0.0.1", "10.0.0.7"),
            way("10.0.0.1", "10.0.0.8"),
            way("fd00::1", "fd00::7"),
        ];
        let hosts = Hosts {
            start: 5,
            ways: ways.into(),
        };
        assert_eq!(
            hosts.to_string(),
            "5 10.0.0.1=10.0.0.7,10.0.0.8 fd00::1=fd00::7"
        );
        assert_eq!(hosts.to_string().parse(), Ok(hosts));
        assert_eq!("7".parse::<Hosts>().map(|hosts| hosts.next_start()), Ok(9));
        for text in [
            "",
            "x",
            "5 10.0.0.1",
            "5 10.0.0.1=",
            "5 10.0.0.1=10.0.0.7,",
            "5  ",
        ] {
            assert_eq!(text.parse::<Hosts>(), Err(InvalidHosts), "{text:?}");
        }
    }

    #[test]
    fn nsm_states_are_odd_and_distinct() {
        let after = |start| {
            Hosts {
                start,
                ways: BTreeSet::new(),
            }
            .next_start()
        };
        assert_eq!(
            [after(0), after(1), after(2), after(0x7fff_ffff)],
            [1, 3, 3, 1]
        );
    }

    #[test]
    fn unreachable_host_does_not_fill_the_outbox() {
        let outbox = Outbox::default();
        let message = |there: [u8; 4]| Message {
            way: AddressPair {
                here: [10, 0, 0, 1].into(),
                there: there.into(),
            },
            program: 1,
            version: 1,
            procedure: 1,
            arguments: Vec::new(),
            purpose: Purpose::Reply,
        };
        for _ in 0..MESSAGES_PER_HOST_MAX {
            assert!(outbox.put(message([10, 0, 0, 7])));
        }
        assert!(!outbox.put(message([10, 0, 0, 7])) && outbox.put(message([10, 0, 0, 8])));
        assert_eq!(outbox.take().len(), MESSAGES_PER_HOST_MAX + 1);
    }
}
