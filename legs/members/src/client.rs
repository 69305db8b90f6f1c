//! Connections to the other members, kept up for as long as this lives.

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
    ALIVE_INTERVAL, ANSWERS_AT_ONCE_MAX, CONNECT_WAIT, HANDSHAKE_WAIT, LAST_WORDS_WAIT,
    MESSAGES_PER_SECOND_MAX, NEXT_ADDRESS_AFTER, QUEUE_MAX, RECONNECT_PAUSE,
};
use crate::stream::{End, Pace, greet, hear, prepare, say};
use crate::wire::{Envelope, Message};

/// Another member, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number.
    pub member: MemberId,
    /// Its certificate.
    pub fingerprint: Fingerprint,
    /// Where it listens, the best way first.
    pub addresses: Vec<SocketAddr>,
}

/// What came from another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// From whom.
    pub from: MemberId,
    /// What it said.
    pub envelope: Envelope,
}

/// How the connection to a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It answers.
    Connected(SocketAddr),
    /// It does not, and why.
    Lost(String),
    /// Somebody answers there, and one side does not know the other's certificate: which one.
    Stranger(String),
}

/// A connection on which both sides have said who they are.
type Stream = TlsStream<TcpStream>;

/// Told of what came. Called on a thread of the connections, and must not wait.
type Hear = dyn Fn(Heard) + Send + Sync;

/// How each connection is, and how many there were to that member.
type States = BTreeMap<MemberId, (LinkState, u64)>;

/// What the task of a connection knows.
struct Link {
    me: MemberId,
    boot: u64,
    peer: Peer,
    connector: TlsConnector,
    states: Arc<Mutex<States>>,
    hear: Arc<Hear>,
}

/// Connections to other members. Dropping it ends them.
pub struct Links {
    me: MemberId,
    boot: u64,
    queues: BTreeMap<MemberId, (Peer, mpsc::Sender<Envelope>)>,
    states: Arc<Mutex<States>>,
    hear: Arc<Hear>,
    runtime: Handle,
    /// Each connection has one, so that the end of all of them is noticed.
    running: Option<mpsc::Sender<()>>,
    /// Dropped to end the thread.
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Links {
    /// Begins to connect to all `peers`, as member `me`, whose process has the random number `boot`. `heard` is told of everything
    /// but signs of life.
    ///
    /// # Errors
    ///
    /// The system refuses a thread, or the certificate and its key do not fit together.
    pub fn start(
        me: MemberId,
        boot: u64,
        identity: &Identity,
        peers: Vec<Peer>,
        heard: impl Fn(Heard) + Send + Sync + 'static,
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
            hear: Arc::new(heard),
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
                // Only ever dropped.
                let _ = ended.await;
                // A claim may have been withdrawn just now. Nothing is ever sent.
                let _ = timeout(LAST_WORDS_WAIT, all.recv()).await;
            });
        })?);
        Ok(links)
    }

    /// Begins to connect to another member, unless that is done already; whether it was not. The connection to a machine that had its
    /// number before ends.
    ///
    /// # Errors
    ///
    /// The certificate and its key do not fit together.
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
        // Their number goes on.
        if let Some((state, _)) = states(&self.states).get_mut(&peer.member) {
            *state = LinkState::Lost("it is another machine now".to_owned());
        }
        let link = Link {
            me: self.me,
            boot: self.boot,
            peer,
            connector: config.into(),
            states: Arc::clone(&self.states),
            hear: Arc::clone(&self.hear),
        };
        let running = self.running.clone();
        self.runtime.spawn(async move {
            Arc::new(link).keep_up(waiting).await;
            drop(running);
        });
        Ok(true)
    }

    /// Whether connections to that member are tried.
    pub fn has(&self, member: MemberId) -> bool {
        self.queues.contains_key(&member)
    }

    /// Says `message` about `pool` to a member; whether it is on its way. It may be lost all the same. Never waits.
    pub fn say(&self, to: MemberId, pool: u64, message: Message) -> bool {
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
        let queue = self.queues.get(&to).filter(|_| is_connected);
        queue.is_some_and(|(_, queue)| queue.try_send(envelope).is_ok())
    }

    /// How each connection is.
    pub fn states(&self) -> BTreeMap<MemberId, LinkState> {
        let states = states(&self.states);
        let each = states
            .iter()
            .map(|(member, (state, _))| (*member, state.clone()));
        each.collect()
    }

    /// How many connections to a member there were so far. One is counted before anything is said on it.
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
    async fn keep_up(self: Arc<Self>, mut waiting: mpsc::Receiver<Envelope>) {
        while !self.peer.addresses.is_empty() && !waiting.is_closed() {
            let why = match self.connect_somewhere().await {
                Ok((address, stream)) if !waiting.is_closed() => {
                    // Whoever asked the connection before asks again.
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

    /// The first way that leads to the member. The later ones begin a little later each.
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
        greet(&mut stream, self.me, self.peer.member).await?;
        Ok(stream)
    }

    async fn converse(&self, stream: Stream, waiting: &mut mpsc::Receiver<Envelope>) -> End {
        let (mut from, mut to) = tokio::io::split(stream);
        let hears = async {
            let mut pace = Pace::new(MESSAGES_PER_SECOND_MAX, ANSWERS_AT_ONCE_MAX);
            loop {
                let heard = hear(&mut from).await;
                pace.wait().await;
                match heard {
                    Ok(envelope) if envelope.message == Message::Alive => {}
                    Ok(envelope) => (self.hear)(Heard {
                        from: self.peer.member,
                        envelope,
                    }),
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
                if let Err(end) = say(&mut to, &envelope).await {
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
