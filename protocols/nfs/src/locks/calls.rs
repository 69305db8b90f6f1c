//! RPC calls to hosts over UDP. The port is obtained from the host's rpcbind and then the procedure
//! is called. Both are retried until a reply or a time-out. No sockets, no clock.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

use super::portmap;
use crate::hosts::{Message, Outcome, Purpose, Readiness};
use crate::rpc;
use crate::xdr::{Reader, Writer};

/// Calls in progress.
const CALLS_MAX: usize = 4096;
/// Bytes of a reply of rpcbind.
const ADDRESS_BYTES_MAX: usize = 128;
/// The first pause before a retry, and the longest one.
const PAUSE_MS: u64 = 500;
const PAUSE_MS_MAX: u64 = 8000;
/// After this many calls without a reply a new GETADDR, because the host may have
/// restarted.
const CALLS_PER_PORT: u32 = 4;
/// Time-out of a granted-lock callback. A blocked host retries by itself.
const GRANT_MS: u64 = 20_000;
/// Time-out of a start notification.
const START_MS: u64 = 900_000;
/// Time-out of an asynchronous result. It is retried only while the port is unknown, because hosts
/// do not acknowledge it.
const ANSWER_MS: u64 = 3000;

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The local address.
    pub here: IpAddr,
    /// The destination.
    pub there: SocketAddr,
    /// The payload.
    pub bytes: Vec<u8>,
}

struct Call {
    message: Message,
    transaction: u32,
    /// The port of the RPC program, if known.
    port: Option<u16>,
    /// Calls sent to this port.
    sent: u32,
    was_sent: bool,
    was_repeated: bool,
    pause_ms: u64,
    due_ms: u64,
    ends_ms: u64,
}

/// Calls in progress.
pub struct Calls {
    /// The port of rpcbind on hosts.
    rpcbind: u16,
    /// Scatters transaction IDs, so that they cannot be predicted.
    scatter: RandomState,
    count: u64,
    calls: BTreeMap<u32, Call>,
}

impl Calls {
    /// Creates an empty set.
    pub fn new(rpcbind: u16) -> Self {
        Self {
            rpcbind,
            scatter: RandomState::new(),
            count: 0,
            calls: BTreeMap::new(),
        }
    }

    fn number(&mut self) -> u32 {
        loop {
            self.count += 1;
            let number = self.scatter.hash_one(self.count) as u32;
            if !self.calls.contains_key(&number) {
                return number;
            }
        }
    }

    /// Starts a call. Returns it if there are too many.
    pub fn begin(&mut self, message: Message, now_ms: u64) -> Option<Message> {
        if self.calls.len() >= CALLS_MAX {
            return Some(message);
        }
        let patience_ms = match message.purpose {
            Purpose::Started => START_MS,
            Purpose::Granted(_) => GRANT_MS,
            Purpose::Reply => ANSWER_MS,
        };
        let transaction = self.number();
        let call = Call {
            message,
            transaction,
            port: None,
            sent: 0,
            was_sent: false,
            was_repeated: false,
            pause_ms: PAUSE_MS,
            due_ms: now_ms,
            ends_ms: now_ms + patience_ms,
        };
        self.calls.insert(transaction, call);
        None
    }

    /// Returns the time of the next retry or time-out.
    pub fn next_due_ms(&self) -> Option<u64> {
        self.calls
            .values()
            .map(|call| call.due_ms.min(call.ends_ms))
            .min()
    }

    /// Sends calls that are due and ready; `send` returns whether it succeeded. Returns the calls
    /// that timed out.
    pub fn send_due(
        &mut self,
        now_ms: u64,
        mut readiness: impl FnMut(Purpose) -> Readiness,
        mut send: impl FnMut(&Datagram) -> bool,
    ) -> Vec<(Message, Outcome)> {
        let over = |call: &Call| call.ends_ms <= now_ms;
        let ended: Vec<u32> = self
            .calls
            .values()
            .filter(|call| over(call))
            .map(|call| call.transaction)
            .collect();
        let ended = ended
            .iter()
            .filter_map(|transaction| self.calls.remove(transaction));
        let given_up = ended.map(|call| {
            let was_sent = call.was_sent;
            (call.message, Outcome::NoReply { was_sent })
        });
        let given_up = given_up.collect();
        let rpcbind = self.rpcbind;
        self.calls.retain(|_, call| {
            if call.due_ms > now_ms {
                return true;
            }
            let readiness = readiness(call.message.purpose);
            let was_sent = readiness == Readiness::Now && call.send(rpcbind, &mut send);
            call.due_ms = now_ms + call.pause_ms;
            if was_sent {
                call.pause_ms = (call.pause_ms * 2).min(PAUSE_MS_MAX);
            }
            let is_said = call.message.purpose == Purpose::Reply && call.was_sent;
            readiness != Readiness::Never && !is_said
        });
        given_up
    }

    /// Handles a received datagram. Returns a completed call with its outcome.
    pub fn received(
        &mut self,
        from: SocketAddr,
        bytes: &[u8],
        now_ms: u64,
    ) -> Option<(Message, Outcome)> {
        let mut reader = Reader::new(bytes);
        let transaction = reader.u32().ok()?;
        let call = self.calls.get_mut(&transaction)?;
        let port = call.port.unwrap_or(self.rpcbind);
        if (from.ip().to_canonical(), from.port()) != (call.message.way.there, port) {
            return None;
        }
        let results = rpc::read_results(&mut reader);
        if call.port.is_none() {
            let port = results.and_then(|results| call.read_port(results));
            // The RPC program is not registered yet, so the request is retried.
            let port = port?;
            // The reply to the next call must not be mistaken for a reply of rpcbind.
            let mut call = self.calls.remove(&transaction)?;
            call.transaction = self.number();
            (call.port, call.sent, call.due_ms, call.pause_ms) = (Some(port), 0, now_ms, PAUSE_MS);
            self.calls.insert(call.transaction, call);
            return None;
        }
        let call = self.calls.remove(&transaction)?;
        let outcome = match results {
            Some(results) => Outcome::Replied {
                results: results.to_vec(),
                was_repeated: call.was_repeated,
            },
            None => Outcome::NoReply {
                was_sent: call.was_repeated,
            },
        };
        Some((call.message, outcome))
    }
}

impl Call {
    /// Sends the next datagram, if possible: the local address may not be configured yet.
    fn send(&mut self, rpcbind: u16, send: &mut impl FnMut(&Datagram) -> bool) -> bool {
        if self.sent >= CALLS_PER_PORT {
            (self.port, self.sent) = (None, 0);
        }
        let is_sent = send(&self.datagram(rpcbind));
        if is_sent && self.port.is_some() {
            self.was_repeated |= self.was_sent;
            self.was_sent = true;
            self.sent += 1;
        }
        is_sent
    }

    fn datagram(&self, rpcbind: u16) -> Datagram {
        const GET: u32 = 3;
        let Message {
            way,
            program,
            version,
            procedure,
            arguments,
            ..
        } = &self.message;
        let mut out = Writer::new();
        let port = match self.port {
            Some(port) => {
                rpc::write_call(&mut out, self.transaction, (*program, *version, *procedure));
                out.append(arguments);
                port
            }
            None => {
                let own = match way.there {
                    IpAddr::V4(_) => portmap::VERSIONS.0,
                    IpAddr::V6(_) => portmap::VERSIONS.1,
                };
                rpc::write_call(&mut out, self.transaction, (portmap::PROGRAM, own, GET));
                out.u32(*program);
                out.u32(*version);
                match way.there {
                    IpAddr::V4(_) => {
                        const UDP: u32 = 17;
                        out.u32(UDP);
                        out.u32(0);
                    }
                    IpAddr::V6(_) => {
                        out.opaque(b"udp6");
                        out.opaque(portmap::universal(way.there, rpcbind).as_bytes());
                        out.opaque(b"");
                    }
                }
                rpcbind
            }
        };
        Datagram {
            here: way.here,
            there: SocketAddr::new(way.there, port),
            bytes: out.into_bytes(),
        }
    }

    /// Reads the port in a reply of rpcbind.
    fn read_port(&self, results: &[u8]) -> Option<u16> {
        let mut reader = Reader::new(results);
        match self.message.way.there {
            IpAddr::V4(_) => {
                let port = reader.u32().ok()?;
                u16::try_from(port).ok().filter(|port| *port != 0)
            }
            IpAddr::V6(_) => portmap::port_of(reader.opaque(ADDRESS_BYTES_MAX).ok()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::AddressPair;

    const HOST: [u8; 4] = [10, 0, 0, 7];

    fn message(purpose: Purpose) -> Message {
        Message {
            way: AddressPair {
                here: [10, 0, 0, 1].into(),
                there: HOST.into(),
            },
            program: 100_024,
            version: 1,
            procedure: 6,
            arguments: vec![0, 0, 0, 9],
            purpose,
        }
    }

    fn reply(datagram: &Datagram, results: &[u32]) -> Vec<u8> {
        let accepted = [1, 0, 0, 0, 0];
        let words = accepted
            .iter()
            .chain(results)
            .flat_map(|word| word.to_be_bytes());
        datagram.bytes[..4].iter().copied().chain(words).collect()
    }

    fn from(port: u16) -> SocketAddr {
        (IpAddr::from(HOST), port).into()
    }

    /// Returns the sent and the timed-out calls, given one `readiness` for all.
    fn due(
        calls: &mut Calls,
        now_ms: u64,
        readiness: Readiness,
    ) -> (Vec<Datagram>, Vec<(Message, Outcome)>) {
        let mut sent = Vec::new();
        let send = |datagram: &Datagram| {
            sent.push(datagram.clone());
            true
        };
        let given_up = calls.send_due(now_ms, |_| readiness, send);
        (sent, given_up)
    }

    fn one(calls: &mut Calls, now_ms: u64) -> Datagram {
        let (mut sent, given_up) = due(calls, now_ms, Readiness::Now);
        assert_eq!((sent.len(), given_up.len()), (1, 0));
        sent.remove(0)
    }

    #[test]
    fn portmapper_is_queried_before_the_call() {
        let mut calls = Calls::new(111);
        assert!(calls.begin(message(Purpose::Started), 0).is_none());
        let asked = one(&mut calls, 0);
        assert_eq!(asked.there, from(111));
        let words = [0, 2, 100_000, 2, 3, 0, 0, 0, 0, 100_024, 1, 17, 0];
        let words: Vec<u8> = words
            .iter()
            .flat_map(|word: &u32| word.to_be_bytes())
            .collect();
        assert_eq!(asked.bytes[4..], words);
        assert!(due(&mut calls, PAUSE_MS - 1, Readiness::Now).0.is_empty());
        assert_eq!(one(&mut calls, PAUSE_MS), asked, "a new GETADDR");
        let answer = reply(&asked, &[700]);
        assert_eq!(
            calls.received(from(112), &answer, 600),
            None,
            "somebody else"
        );
        assert_eq!(calls.received(from(111), &answer, 600), None);
        let called = one(&mut calls, 600);
        assert_eq!(called.there, from(700));
        assert_ne!(called.bytes[..4], asked.bytes[..4]);
        assert_eq!(called.bytes[called.bytes.len() - 4..], [0, 0, 0, 9]);
        let (_, outcome) = calls
            .received(from(700), &reply(&called, &[]), 700)
            .expect("it ends");
        let answered = Outcome::Replied {
            results: Vec::new(),
            was_repeated: false,
        };
        assert_eq!((outcome, calls.next_due_ms()), (answered, None));
    }

    #[test]
    fn unresponsive_host_is_abandoned() {
        let mut calls = Calls::new(111);
        calls.begin(message(Purpose::Granted(5)), 0);
        let mut datagrams = 0;
        while let Some(now_ms) = calls.next_due_ms() {
            let (sent, given_up) = due(&mut calls, now_ms, Readiness::Now);
            datagrams += sent.len();
            if let [(given_up, outcome)] = &given_up[..] {
                assert_eq!((given_up.purpose, now_ms), (Purpose::Granted(5), GRANT_MS));
                assert_eq!(*outcome, Outcome::NoReply { was_sent: false });
            }
        }
        assert_eq!(datagrams, 6);
    }

    #[test]
    fn unresponsive_program_port_is_queried_again() {
        let mut calls = Calls::new(111);
        calls.begin(message(Purpose::Started), 0);
        let asked = one(&mut calls, 0);
        calls.received(from(111), &reply(&asked, &[700]), 0);
        let mut there = Vec::new();
        for _ in 0..=CALLS_PER_PORT {
            let now_ms = calls.next_due_ms().expect("due");
            there.push(one(&mut calls, now_ms).there.port());
        }
        assert_eq!(there, [700, 700, 700, 700, 111]);
    }

    #[test]
    fn notification_is_sent_only_once_durable() {
        let mut calls = Calls::new(111);
        calls.begin(message(Purpose::Started), 0);
        assert!(due(&mut calls, 0, Readiness::Later).0.is_empty());
        one(&mut calls, PAUSE_MS);
    }

    #[test]
    fn obsolete_notification_is_dropped() {
        let mut calls = Calls::new(111);
        calls.begin(message(Purpose::Granted(5)), 0);
        one(&mut calls, 0);
        let ended = due(&mut calls, PAUSE_MS, Readiness::Never);
        assert_eq!((ended, calls.next_due_ms()), ((vec![], vec![]), None));
    }

    #[test]
    fn failed_send_is_retried_and_not_counted_as_sent() {
        let mut calls = Calls::new(111);
        calls.begin(message(Purpose::Granted(5)), 0);
        let asked = one(&mut calls, 0);
        calls.received(from(111), &reply(&asked, &[700]), 0);
        for now_ms in (0..GRANT_MS).step_by(PAUSE_MS as usize) {
            assert_eq!(calls.next_due_ms(), Some(now_ms));
            calls.send_due(now_ms, |_| Readiness::Now, |_| false);
        }
        let (_, given_up) = due(&mut calls, GRANT_MS, Readiness::Now);
        assert_eq!(given_up[0].1, Outcome::NoReply { was_sent: false });
        calls.begin(message(Purpose::Granted(6)), 0);
        let asked = one(&mut calls, 0);
        calls.received(from(111), &reply(&asked, &[700]), 0);
        one(&mut calls, 0);
        let (_, given_up) = due(&mut calls, GRANT_MS, Readiness::Now);
        assert_eq!(given_up[0].1, Outcome::NoReply { was_sent: true });
    }

    #[test]
    fn lock_result_is_sent_once() {
        let mut calls = Calls::new(111);
        calls.begin(message(Purpose::Reply), 0);
        let asked = one(&mut calls, 0);
        calls.received(from(111), &reply(&asked, &[700]), 0);
        assert_eq!(one(&mut calls, 0).there, from(700));
        assert_eq!(calls.next_due_ms(), None);
    }
}
