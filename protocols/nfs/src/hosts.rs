//! Hosts that lock ranges over NFS 3: by which addresses they are reached, which of them the next server has to tell that it has started,
//! and what is to be said to them. No sockets.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use serving::Waker;

/// Calls to hosts that wait, in all and for one host. A host asks again for what it was not told.
const MESSAGES_MAX: usize = 4096;
const MESSAGES_PER_HOST_MAX: usize = 256;

/// A host, and the address of ours that it uses: what comes from another one is not from its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Way {
    /// Our address.
    pub here: IpAddr,
    /// The host's.
    pub there: IpAddr,
}

/// Hosts that may have locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// The number of the server's start (`state` of NSM): odd, and another one after each start.
    pub start: u32,
    /// How they are reached.
    pub ways: BTreeSet<Way>,
}

/// A text that is no list of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no list of hosts")]
pub struct NoHosts;

impl Hosts {
    /// Bytes of the text of a list: as much as a property of ZFS holds.
    pub const BYTES_MAX: usize = 8191;

    /// The number of the next start.
    pub(crate) const fn next_start(&self) -> u32 {
        (self.start.wrapping_add(1) & 0x7fff_ffff) | 1
    }
}

/// The number, and for each address of ours, behind a blank, the address, `=`, and the hosts with commas between them.
impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.start)?;
        let mut last = None;
        for Way { here, there } in &self.ways {
            match last.replace(here) == Some(here) {
                true => write!(f, ",{there}")?,
                false => write!(f, " {here}={there}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Hosts {
    type Err = NoHosts;

    fn from_str(text: &str) -> Result<Self, NoHosts> {
        let mut parts = text.split(' ');
        let start = parts.next().and_then(|start| start.parse().ok());
        let mut ways = BTreeSet::new();
        for part in parts {
            let (here, hosts) = part.split_once('=').ok_or(NoHosts)?;
            let here = here.parse().map_err(|_| NoHosts)?;
            for there in hosts.split(',') {
                let there = there.parse().map_err(|_| NoHosts)?;
                ways.insert(Way { here, there });
            }
        }
        let start = start.ok_or(NoHosts)?;
        Ok(Self { start, ways })
    }
}

/// Why something is said to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The server has started: what the host had locked it may take back.
    Started,
    /// A lock that it waited for, by its number.
    Granted(u64),
    /// What it asked for without waiting for the answer.
    Answer,
}

/// A call to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whom.
    pub way: Way,
    /// The number of the program there.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
    /// Its arguments.
    pub arguments: Vec<u8>,
    /// Why.
    pub purpose: Purpose,
}

/// Whether a call may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It may.
    Now,
    /// Not yet.
    Later,
    /// What it says is not true any more.
    Never,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered with this; `was_repeated` if an earlier one may have been executed, too.
    Answered {
        /// The results.
        results: Vec<u8>,
        /// It was sent more than once.
        was_repeated: bool,
    },
    /// Nobody answered in time, or there is no such program.
    Unanswered {
        /// Whether it may have been executed.
        was_sent: bool,
    },
}

/// Calls that nobody has taken yet.
#[derive(Default)]
pub struct Outbox {
    messages: Mutex<VecDeque<Message>>,
    waker: OnceLock<Arc<Waker>>,
}

impl Outbox {
    fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.messages.lock().expect("no holder panics")
    }

    /// Wakes whoever takes the calls, from now on.
    pub(crate) fn wakes(&self, waker: Arc<Waker>) {
        let _ = self.waker.set(waker);
    }

    /// Puts a call in; false if there are too many.
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

    /// Takes all.
    pub(crate) fn take(&self) -> VecDeque<Message> {
        std::mem::take(&mut self.messages())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_hosts_is_read_as_it_was_written() {
        let way = |here: &str, there: &str| Way {
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
            assert_eq!(text.parse::<Hosts>(), Err(NoHosts), "{text:?}");
        }
    }

    #[test]
    fn starts_have_odd_numbers_that_differ() {
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
    fn a_host_that_takes_nothing_leaves_room_for_others() {
        let outbox = Outbox::default();
        let message = |there: [u8; 4]| Message {
            way: Way {
                here: [10, 0, 0, 1].into(),
                there: there.into(),
            },
            program: 1,
            version: 1,
            procedure: 1,
            arguments: Vec::new(),
            purpose: Purpose::Answer,
        };
        for _ in 0..MESSAGES_PER_HOST_MAX {
            assert!(outbox.put(message([10, 0, 0, 7])));
        }
        assert!(!outbox.put(message([10, 0, 0, 7])) && outbox.put(message([10, 0, 0, 8])));
        assert_eq!(outbox.take().len(), MESSAGES_PER_HOST_MAX + 1);
    }
}
