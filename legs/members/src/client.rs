//! Connections to the other members. They reconnect until [`Links`] is dropped.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use certificates::{Fingerprint, Identity};
use leg_record::MemberId;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::limits::{
    ALIVE_INTERVAL, CONNECT_WAIT, HANDSHAKE_WAIT, LAST_MESSAGE_WAIT, MESSAGES_PER_SECOND_MAX,
    NEXT_ADDRESS_AFTER, QUEUE_MAX, RECONNECT_PAUSE, RESPONSES_PENDING_MAX,
};
use crate::stream::{End, Pace, exchange_hello, prepare, receive, send};
use crate::wire::{Envelope, Message};

/// Another member and its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Member number.
    pub member: MemberId,
    /// Fingerprint of its certificate.
    pub fingerprint: Fingerprint,
    /// Addresses it listens on, in order of preference.
    pub addresses: Vec<SocketAddr>,
}

/// A message from another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The sender.
    pub from: MemberId,
    /// The message with its header.
    pub envelope: Envelope,
}

/// State of the connection to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// Connected at this address.
    Connected(SocketAddr),
    /// Not connected, with the reason.
    Lost(String),
    /// A TLS peer responds at the address, but one side rejects the other's certificate; with the reason.
    Stranger(String),
}

/// A connection after the TLS handshake and the exchange of member numbers.
type Stream = TlsStream<TcpStream>;

/// Callback for received messages. It runs on the thread of the connections and must not block.
type OnMessage = dyn Fn(Received) + Send + Sync;

/// State of each connection, and the number of connections to that member so far.
type States = BTreeMap<MemberId, (LinkState, u64)>;

/// State of a connection's task.
struct Link {
    me: MemberId,
    boot: u64,
    peer: Peer,
    connector: TlsConnector,
    states: Arc<Mutex<States>>,
    receive: Arc<OnMessage>,
}

/// Connections to other members. Dropping it closes them.
pub struct Links {
    me: MemberId,
    boot: u64,
    queues: BTreeMap<MemberId, (Peer, mpsc::Sender<Envelope>)>,
    states: Arc<Mutex<States>>,
    receive: Arc<OnMessage>,
    runtime: Handle,
    /// Each connection holds a clone; the channel closes when the last connection has ended.
    running: Option<mpsc::Sender<()>>,
    /// Dropped to stop the thread.
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Links {
    /// Starts to connect to all `peers`, as member `me`. `boot` is the random number of this process. Calls `received` for
    /// every message except keep-alives.
    ///
    /// # Errors
    ///
    /// The system cannot create a thread, or the certificate does not match its key.
    pub fn start(
        me: MemberId,
        boot: u64,
        identity: &Identity,
        peers: Vec<Peer>,
        received: impl Fn(Received) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let (end, ended) = oneshot::channel::<()>();
        let (running, mut all) = mpsc::channel::<()>(1);
        let mut links = Self {
            me,
            boot,
            queues: BTreeMap::new(),
            states: Arc::default(),
            receive: Arc::new(received),
            runtime: runtime.handle().clone(),
            running: Some(running),
            end: Some(end),
            thread: None,
        };
        for peer in peers {
            links.add(identity, peer)?;
        }
        let thread = std::thread::Builder::new().name("members".into());
        links.thread = Some(thread.spawn(move || {
            runtime.block_on(async {
                // Resolves when the sender is dropped.
                let _ = ended.await;
                // A claim may have been withdrawn just now: allow time to send it. `recv` yields no value.
                let _ = timeout(LAST_MESSAGE_WAIT, all.recv()).await;
            });
        })?);
        Ok(links)
    }

    /// Starts to connect to another member. Returns `false` if this peer is already configured. A connection to a
    /// previous host with the same member number is closed.
    ///
    /// # Errors
    ///
    /// The certificate does not match its key.
    pub fn add(&mut self, identity: &Identity, peer: Peer) -> io::Result<bool> {
        let known = self.queues.get(&peer.member);
        if known.is_some_and(|(known, _)| *known == peer) {
            return Ok(false);
        }
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let config = identity
            .client(peer.fingerprint)
            .map_err(io::Error::other)?;
        self.queues.insert(peer.member, (peer.clone(), queue));
        // The count of connections continues.
        if let Some((state, _)) = states(&self.states).get_mut(&peer.member) {
            *state = LinkState::Lost("another host has this member number now".to_owned());
        }
        let link = Link {
            me: self.me,
            boot: self.boot,
            peer,
            connector: config.into(),
            states: Arc::clone(&self.states),
            receive: Arc::clone(&self.receive),
        };
        let running = self.running.clone();
        self.runtime.spawn(async move {
            Arc::new(link).maintain(waiting).await;
            drop(running);
        });
        Ok(true)
    }

    /// Whether this member is among the peers to connect to.
    pub fn has(&self, member: MemberId) -> bool {
        self.queues.contains_key(&member)
    }

    /// Queues `message` about `pool` for a member. Returns whether it was queued; it can still be lost. Never blocks.
    pub fn send(&self, to: MemberId, pool: u64, message: Message) -> bool {
        let boot = self.boot;
        let envelope = Envelope {
            pool,
            boot,
            message,
        };
        let is_connected = matches!(
            states(&self.states).get(&to),
            Some((LinkState::Connected(_), _))
        );
        tracing::trace!(member = to.0, is_connected, ?envelope, "sends a message");
        let queue = self.queues.get(&to).filter(|_| is_connected);
        queue.is_some_and(|(_, queue)| queue.try_send(envelope).is_ok())
    }

    /// Returns the state of each connection.
    pub fn states(&self) -> BTreeMap<MemberId, LinkState> {
        let states = states(&self.states);
        let each = states
            .iter()
            .map(|(member, (state, _))| (*member, state.clone()));
        each.collect()
    }

    /// Number of connections to a member so far. A connection is counted before the first message on it is sent.
    pub fn connections(&self, member: MemberId) -> u64 {
        states(&self.states)
            .get(&member)
            .map_or(0, |(_, number)| *number)
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.queues.clear();
        drop(self.running.take());
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn states(states: &Mutex<States>) -> MutexGuard<'_, States> {
    states.lock().expect("no holder panics")
}

impl Link {
    async fn maintain(self: Arc<Self>, mut waiting: mpsc::Receiver<Envelope>) {
        while !self.peer.addresses.is_empty() && !waiting.is_closed() {
            let why = match self.connect_somewhere().await {
                Ok((address, stream)) if !waiting.is_closed() => {
                    // Requests queued for the previous connection are dropped: the caller repeats them.
                    while waiting.try_recv().is_ok() {}
                    self.note(LinkState::Connected(address));
                    let end = self.converse(stream, &mut waiting).await;
                    LinkState::Lost(format!("{address}: {end}"))
                }
                Ok(_) => return,
                Err(lost) => lost,
            };
            if waiting.is_closed() {
                return;
            }
            self.note(why);
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }

    /// Connects by the first address that responds. Each later address is tried [`NEXT_ADDRESS_AFTER`] after the one
    /// before.
    async fn connect_somewhere(self: &Arc<Self>) -> Result<(SocketAddr, Stream), LinkState> {
        let mut attempts = JoinSet::new();
        for (index, address) in self.peer.addresses.iter().copied().enumerate() {
            let (link, pause) = (Arc::clone(self), NEXT_ADDRESS_AFTER * index as u32);
            attempts.spawn(async move {
                tokio::time::sleep(pause).await;
                (address, link.connect(address).await)
            });
        }
        let mut failed = BTreeMap::new();
        let mut is_stranger = false;
        while let Some(attempt) = attempts.join_next().await {
            match attempt.expect("no attempt panics") {
                (address, Ok(stream)) => return Ok((address, stream)),
                (address, Err(end)) => {
                    is_stranger |= end.is_of_identity();
                    failed.insert(address, format!("{address}: {end}"));
                }
            }
        }
        let whys: Vec<String> = failed.into_values().collect();
        Err(match is_stranger {
            true => LinkState::Stranger(whys.join("; ")),
            false => LinkState::Lost(whys.join("; ")),
        })
    }

    fn note(&self, state: LinkState) {
        let member = self.peer.member;
        let mut states = states(&self.states);
        let (before, number) = states.remove(&member).unzip();
        let more = u64::from(matches!(state, LinkState::Connected(_)));
        states.insert(member, (state.clone(), number.unwrap_or(0) + more));
        drop(states);
        if before.as_ref() != Some(&state) {
            tracing::info!(member = member.0, ?state, "connection to a member");
        }
    }

    async fn connect(&self, address: SocketAddr) -> Result<Stream, End> {
        let connected = timeout(CONNECT_WAIT, TcpStream::connect(address)).await;
        let stream = connected.map_err(|_| End::Handshake)??;
        prepare(&stream)?;
        let name = ServerName::IpAddress(address.ip().into());
        let shaken = timeout(HANDSHAKE_WAIT, self.connector.connect(name, stream)).await;
        let mut stream = shaken.map_err(|_| End::Handshake)??;
        exchange_hello(&mut stream, self.me, self.peer.member).await?;
        Ok(stream)
    }

    async fn converse(&self, stream: Stream, waiting: &mut mpsc::Receiver<Envelope>) -> End {
        let (mut from, mut to) = tokio::io::split(stream);
        let hears = async {
            let mut pace = Pace::new(MESSAGES_PER_SECOND_MAX, RESPONSES_PENDING_MAX);
            loop {
                let received = receive(&mut from).await;
                pace.wait().await;
                match received {
                    Ok(envelope) if envelope.message == Message::Alive => {}
                    Ok(envelope) => {
                        let from = self.peer.member;
                        tracing::trace!(member = from.0, ?envelope, "a message");
                        (self.receive)(Received { from, envelope });
                    }
                    Err(end) => return end,
                }
            }
        };
        let says = async {
            loop {
                let next = timeout(ALIVE_INTERVAL, waiting.recv()).await;
                let envelope = match next {
                    Ok(Some(envelope)) => envelope,
                    Ok(None) => return End::Closed,
                    Err(_) => Envelope {
                        pool: 0,
                        boot: self.boot,
                        message: Message::Alive,
                    },
                };
                if let Err(end) = send(&mut to, &envelope).await {
                    return end;
                }
            }
        };
        tokio::select! {
            end = hears => end,
            end = says => end,
        }
    }
}
