//! `RPCSEC_GSS` version 1 (RFC 2203): contexts of clients, and the calls in them.
//!
//! A context is created on the thread of its connection, so that only this client is blocked. No
//! context survives a restart of the server: clients then get an error and create a new context.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use kerberos::{Acceptor, Context, Refused, TOKEN_BYTES_MAX};

use crate::rpc::{self, Accepted, BadAuthentication, Call, Credential, NULL, Secured};
use crate::sharenfs::Security;
use crate::xdr::{Malformed, Reader, Writer};

/// Contexts of all clients, and of one IPv4 address or IPv6 network.
const CONTEXTS_MAX: usize = 8192;
const CONTEXTS_PER_NETWORK_MAX: usize = 1024;
/// Maximum age of a context, so that changes of users and groups become effective.
const CONTEXT_LIFETIME: Duration = Duration::from_secs(3600);
/// Window for calls of a context that arrive out of order.
const WINDOW: u32 = 1024;
/// Interval between log lines about refused clients of one IPv4 address or IPv6 network, and number
/// of networks.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
const LOGGED_MAX: usize = 1024;
/// Maximum sequence number of a context (5.3.3.3).
const SEQUENCE_MAX: u32 = 0x8000_0000;
/// Bytes of a checksum.
const CHECKSUM_BYTES_MAX: usize = 400;
/// `GSS_S_COMPLETE`.
const COMPLETE: u32 = 0;

/// `gss_proc` (5.2.1).
const DATA: u32 = 0;
const INIT: u32 = 1;
const DESTROY: u32 = 3;

/// The calls of a context that were received.
#[derive(Debug, Default)]
struct Window {
    highest: u32,
    /// A bit for each of the last [`WINDOW`] sequence numbers.
    seen: [u64; WINDOW as usize / 64],
}

/// The result for a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    New,
    /// It was received before.
    Repeated,
    /// It is older than the window. Whether it was received is unknown.
    TooLate,
}

impl Window {
    fn arrives(&mut self, sequence: u32) -> Arrival {
        let place = |sequence: u32| {
            let remainder = sequence % WINDOW;
            (remainder as usize / 64, 1 << (remainder % 64))
        };
        if sequence > self.highest {
            let first = (self.highest + 1).max(sequence.saturating_sub(WINDOW - 1));
            for (word, bit) in (first..=sequence).map(place) {
                self.seen[word] &= !bit;
            }
            self.highest = sequence;
        } else if self.highest - sequence >= WINDOW {
            return Arrival::TooLate;
        }
        let (word, bit) = place(sequence);
        let is_seen = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        match is_seen {
            true => Arrival::Repeated,
            false => Arrival::New,
        }
    }
}

/// An established context.
#[derive(Debug)]
struct Agreed {
    context: Context,
    credential: Credential,
    window: Mutex<Window>,
    ends: Instant,
}

type Handle = [u8; 16];

struct Entry {
    agreed: Arc<Agreed>,
    network: IpAddr,
    used: Instant,
    has_called: bool,
}

/// The contexts of all clients.
#[derive(Default)]
pub struct Contexts {
    /// The time of the last log line about a refused client, by network.
    told: Mutex<HashMap<IpAddr, Instant>>,
    acceptor: Mutex<Option<Arc<Acceptor>>>,
    all: Mutex<HashMap<Handle, Entry>>,
}

/// The protection of a reply.
#[derive(Clone, Debug)]
pub struct Seal {
    agreed: Arc<Agreed>,
    sequence: u32,
    /// The security flavor of the call.
    pub security: Security,
}

/// The outcome of an `RPCSEC_GSS` call.
#[derive(Debug)]
pub enum Opened<'a> {
    /// It must be executed.
    Call {
        /// The call with its credential.
        call: Call,
        /// Its arguments.
        arguments: Cow<'a, [u8]>,
        /// The protection of the reply.
        seal: Seal,
    },
    /// The reply is these bytes, a record without its mark.
    Reply(Vec<u8>),
    /// There is no reply, because the call was received before.
    Nothing,
    /// There is no reply. The connection must be closed, so that the client retries.
    TooLate,
}

impl Opened<'_> {
    fn refused(call: &Call, why: BadAuthentication) -> Self {
        Self::Reply(rpc::bad_authentication(call.transaction, why))
    }

    /// The outcome for a sequence number that is not new.
    const fn not_new(arrival: Arrival) -> Self {
        match arrival {
            Arrival::TooLate => Self::TooLate,
            Arrival::New | Arrival::Repeated => Self::Nothing,
        }
    }
}

impl Contexts {
    fn all(&self) -> MutexGuard<'_, HashMap<Handle, Entry>> {
        self.all.lock().expect("no holder panics")
    }

    /// Whether contexts can be created.
    pub fn has_acceptor(&self) -> bool {
        self.acceptor.lock().expect("no holder panics").is_some()
    }

    /// Sets the keytab for new contexts. Existing contexts remain.
    pub fn accept_by(&self, acceptor: Option<Acceptor>) {
        *self.acceptor.lock().expect("no holder panics") = acceptor.map(Arc::new);
    }

    /// Unwraps a call, or executes its context operation.
    pub fn open<'a>(
        &self,
        secured: &Secured<'_>,
        arguments: &'a [u8],
        network: IpAddr,
    ) -> Opened<'a> {
        let now = Instant::now();
        let call = &secured.call;
        match secured.control {
            DATA => self.open_call(secured, arguments, now),
            INIT if call.procedure == NULL => self.begin(call, arguments, network, now),
            DESTROY if call.procedure == NULL => self.end(secured, now),
            // Kerberos has no second round, so that no context is left incomplete.
            _ => Opened::refused(call, BadAuthentication::Credential),
        }
    }

    /// Creates a context (5.2.2).
    fn begin<'a>(
        &self,
        call: &Call,
        arguments: &[u8],
        network: IpAddr,
        now: Instant,
    ) -> Opened<'a> {
        let acceptor = self.acceptor.lock().expect("no holder panics").clone();
        let Some(acceptor) = acceptor else {
            return Opened::refused(call, BadAuthentication::Credential);
        };
        let Ok(token) = Reader::new(arguments).opaque(TOKEN_BYTES_MAX) else {
            return Opened::Reply(garbage(call, None));
        };
        let agreed = acceptor.accept(token).and_then(|(context, token)| {
            let window = context.sign(&WINDOW.to_be_bytes())?;
            Ok((context, token, window))
        });
        let mut out = Writer::new();
        match agreed {
            Ok((context, token, window)) => {
                tracing::debug!(%network, client = context.principal.name, "Kerberos");
                let handle = self.keep(context, network, now);
                rpc::write_accepted(&mut out, call.transaction, Some(&window), Accepted::Success);
                out.opaque(&handle);
                for word in [COMPLETE, 0, WINDOW] {
                    out.u32(word);
                }
                out.opaque(&token);
            }
            Err(refused) => {
                self.log_refusal(network, &refused, now);
                rpc::write_accepted(&mut out, call.transaction, None, Accepted::Success);
                out.opaque(&[]);
                let (major, minor) = refused.status;
                for word in [major, minor, 0] {
                    out.u32(word);
                }
                out.opaque(&[]);
            }
        }
        Opened::Reply(out.into_bytes())
    }

    /// Logs a refused client at most once per interval.
    fn log_refusal(&self, network: IpAddr, refused: &Refused, now: Instant) {
        let mut told = self.told.lock().expect("no holder panics");
        told.retain(|_, at| now.saturating_duration_since(*at) < LOG_INTERVAL);
        let is_told = told.contains_key(&network) || told.len() >= LOGGED_MAX;
        if is_told {
            tracing::debug!(%network, %refused, "Kerberos refused an NFS client");
        } else {
            told.insert(network, now);
            tracing::info!(%network, %refused, "Kerberos refused an NFS client");
        }
    }

    fn keep(&self, context: Context, network: IpAddr, now: Instant) -> Handle {
        let mut handle = Handle::default();
        getrandom::fill(&mut handle).expect("the kernel has random numbers");
        let agreed = Agreed {
            credential: Credential::Kerberos(Arc::new(context.principal.clone())),
            ends: now + context.lifetime.min(CONTEXT_LIFETIME),
            context,
            window: Mutex::default(),
        };
        let mut all = self.all();
        make_room(&mut all, network, now);
        let entry = Entry {
            agreed: Arc::new(agreed),
            network,
            used: now,
            has_called: false,
        };
        all.insert(handle, entry);
        handle
    }

    /// Returns the context of a call, if it belongs to the client and the call is new.
    fn find(&self, secured: &Secured<'_>, now: Instant) -> Result<Arc<Agreed>, BadAuthentication> {
        let handle = secured.handle.try_into();
        let handle: Handle = handle.map_err(|_| BadAuthentication::NoContext)?;
        let agreed = match self.all().get_mut(&handle) {
            Some(entry) if entry.agreed.ends > now => {
                (entry.used, entry.has_called) = (now, true);
                Arc::clone(&entry.agreed)
            }
            _ => return Err(BadAuthentication::NoContext),
        };
        if secured.sequence >= SEQUENCE_MAX {
            return Err(BadAuthentication::ContextExhausted);
        }
        match agreed.context.is_signed(secured.header, secured.verifier) {
            true => Ok(agreed),
            false => Err(BadAuthentication::NoContext),
        }
    }

    fn open_call<'a>(
        &self,
        secured: &Secured<'_>,
        arguments: &'a [u8],
        now: Instant,
    ) -> Opened<'a> {
        let call = &secured.call;
        let mut securities = Security::SECURED.into_iter();
        let security = securities.find(|one| one.service() == Some(secured.service));
        let Some(security) = security else {
            return Opened::refused(call, BadAuthentication::Credential);
        };
        let agreed = match self.find(secured, now) {
            Ok(agreed) => agreed,
            Err(why) => return Opened::refused(call, why),
        };
        match agreed.arrives(secured.sequence) {
            Arrival::New => {}
            other => return Opened::not_new(other),
        }
        let seal = Seal {
            agreed,
            sequence: secured.sequence,
            security,
        };
        match seal.open(arguments) {
            Ok(arguments) => Opened::Call {
                call: Call {
                    credential: seal.agreed.credential.clone(),
                    ..call.clone()
                },
                arguments,
                seal,
            },
            Err(Malformed) => match seal.checksum() {
                Some(checksum) => Opened::Reply(garbage(call, Some(&checksum))),
                None => Opened::Nothing,
            },
        }
    }

    /// Destroys a context (5.4).
    fn end<'a>(&self, secured: &Secured<'_>, now: Instant) -> Opened<'a> {
        let call = &secured.call;
        let agreed = match self.find(secured, now) {
            Ok(agreed) => agreed,
            Err(why) => return Opened::refused(call, why),
        };
        let checksum = agreed.context.sign(&secured.sequence.to_be_bytes());
        let arrival = agreed.arrives(secured.sequence);
        let (Arrival::New, Ok(checksum)) = (arrival, checksum) else {
            return Opened::not_new(arrival);
        };
        self.all()
            .retain(|_, entry| !Arc::ptr_eq(&entry.agreed, &agreed));
        let mut out = Writer::new();
        rpc::write_accepted(
            &mut out,
            call.transaction,
            Some(&checksum),
            Accepted::Success,
        );
        Opened::Reply(out.into_bytes())
    }
}

fn garbage(call: &Call, checksum: Option<&[u8]>) -> Vec<u8> {
    let mut out = Writer::new();
    rpc::write_accepted(
        &mut out,
        call.transaction,
        checksum,
        Accepted::GarbageArguments,
    );
    out.into_bytes()
}

/// Evicts a context to create one for a network: one without a call, otherwise one of the principal
/// with the most contexts.
fn make_room(all: &mut HashMap<Handle, Entry>, network: IpAddr, now: Instant) {
    let of_network = all.values().filter(|entry| entry.network == network);
    let is_crowded = of_network.count() >= CONTEXTS_PER_NETWORK_MAX;
    if !is_crowded && all.len() < CONTEXTS_MAX {
        return;
    }
    all.retain(|_, entry| entry.agreed.ends > now);
    let of_whom = |entry: &&Entry| !is_crowded || entry.network == network;
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for entry in all.values().filter(of_whom) {
        *counts.entry(entry.agreed.name()).or_default() += 1;
    }
    let may_go = all.iter().filter(|(_, entry)| of_whom(entry));
    let first = may_go.min_by_key(|(_, entry)| {
        let count = entry.has_called.then(|| counts[entry.agreed.name()]);
        (count.map(Reverse), entry.used)
    });
    if let Some(handle) = first.map(|(handle, _)| *handle) {
        all.remove(&handle);
    }
}

impl Agreed {
    fn arrives(&self, sequence: u32) -> Arrival {
        let mut window = self.window.lock().expect("no holder panics");
        window.arrives(sequence)
    }

    fn name(&self) -> &str {
        &self.context.principal.name
    }
}

impl Seal {
    /// Unwraps the arguments of a call (5.3.2).
    fn open<'a>(&self, arguments: &'a [u8]) -> Result<Cow<'a, [u8]>, Malformed> {
        let context = &self.agreed.context;
        let mut reader = Reader::new(arguments);
        match self.security {
            Security::System | Security::Kerberos => Ok(arguments.into()),
            Security::Integrity => {
                let body = reader.opaque(arguments.len())?;
                let checksum = reader.opaque(CHECKSUM_BYTES_MAX)?;
                if !context.is_signed(body, checksum) {
                    return Err(Malformed);
                }
                Ok(self.check_number(body)?.into())
            }
            Security::Privacy => {
                let sealed = reader.opaque(arguments.len())?;
                let mut body = context.unseal(sealed).ok_or(Malformed)?;
                let number_bytes = body.len() - self.check_number(&body)?.len();
                body.drain(..number_bytes);
                Ok(body.into())
            }
        }
    }

    /// Returns the body after the sequence number, which must equal that of the header.
    fn check_number<'b>(&self, body: &'b [u8]) -> Result<&'b [u8], Malformed> {
        let mut reader = Reader::new(body);
        match reader.u32()? == self.sequence {
            true => Ok(reader.rest()),
            false => Err(Malformed),
        }
    }

    /// Returns the verifier that authenticates the server to the client (5.3.3.2); `None` if the
    /// library can no longer compute one.
    pub fn checksum(&self) -> Option<Vec<u8>> {
        let number = self.sequence.to_be_bytes();
        self.agreed.context.sign(&number).ok()
    }

    /// Protects the results, which start at byte `start` of `out`. Returns whether the library
    /// succeeded.
    #[must_use]
    pub fn close(&self, out: &mut Writer, start: usize) -> bool {
        let context = &self.agreed.context;
        if self.security.service() <= Security::Kerberos.service() {
            return true;
        }
        let results = &out.bytes()[start..];
        let mut body = Writer::with_capacity(4 + results.len());
        body.u32(self.sequence);
        body.append(results);
        out.truncate(start);
        let secured = match self.security {
            Security::Privacy => context.seal(body.bytes()),
            _ => {
                out.opaque(body.bytes());
                context.sign(body.bytes())
            }
        };
        let Ok(secured) = secured else {
            return false;
        };
        out.opaque(&secured);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gss_sequence_is_accepted_once_in_any_order_in_the_window() {
        use Arrival::{New, Repeated, TooLate};
        let mut window = Window::default();
        for (sequence, arrival) in [
            (0, New),
            (0, Repeated),
            (3, New),
            (1, New),
            (1, Repeated),
            (WINDOW + 2, New),
            (2, TooLate),
            (3, Repeated),
            (4, New),
            (WINDOW + 3, New),
            (5, New),
            (SEQUENCE_MAX, New),
            (SEQUENCE_MAX, Repeated),
            (WINDOW + 3, TooLate),
            (SEQUENCE_MAX - WINDOW + 1, New),
            (SEQUENCE_MAX - WINDOW + 1, Repeated),
            (SEQUENCE_MAX - WINDOW, TooLate),
        ] {
            assert_eq!(window.arrives(sequence), arrival, "{sequence}");
        }
    }
}
