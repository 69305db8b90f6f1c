//! Accepts connections from the other members.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use certificates::{Fingerprint, Identity};
use leg_record::MemberId;
use tokio::io::AsyncRead;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::limits::{
    CLAIMS_MAX, CLAIMS_OF_ALL_MAX, CLAIMS_WAITING_MAX, CONNECTIONS_OF_ONE_MEMBER_MAX,
    HANDSHAKE_WAIT, HANDSHAKES_MAX, HANDSHAKES_OF_ONE_ADDRESS_MAX, MESSAGES_BURST_MAX,
    MESSAGES_PER_SECOND_MAX, RESPONSES_MAX,
};
use crate::liveness::{Sender, Watch};
use crate::member::Member;
use crate::stream::{End, Pace, exchange_hello, prepare, receive, send};
use crate::wire::{Envelope, Message};

/// Pause after the system has refused to accept: it may be out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The same end of connections from one address is logged at most this often.
const REPEATED_END_INTERVAL: Duration = Duration::from_secs(60);

/// A member that may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllowedMember {
    /// Member number.
    pub member: MemberId,
    /// Fingerprint of its certificate.
    pub fingerprint: Fingerprint,
}

/// The task of a connection, and its source address.
struct OpenConnection {
    from: IpAddr,
    task: AbortHandle,
}

#[derive(Default)]
struct OpenConnections {
    /// Connections that are not authenticated yet, the oldest first.
    strangers: VecDeque<OpenConnection>,
    members: BTreeMap<MemberId, VecDeque<OpenConnection>>,
    reported: LoggedEnds,
}

/// Closed connections that were logged recently, by source address and reason.
#[derive(Default)]
struct LoggedEnds(BTreeMap<(IpAddr, String), Instant>);

impl LoggedEnds {
    /// Whether the line is new, or was logged long enough ago.
    fn insert(&mut self, from: IpAddr, why: String, now: Instant) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < REPEATED_END_INTERVAL;
        self.0.retain(|_, at| is_recent(*at));
        let is_known = self.0.contains_key(&(from, why.clone()));
        if !is_known && self.0.len() < HANDSHAKES_MAX {
            self.0.insert((from, why), now);
        }
        !is_known
    }
}

impl OpenConnections {
    fn remove_ended(&mut self) {
        self.strangers.retain(|guest| !guest.task.is_finished());
        for open_connections in self.members.values_mut() {
            open_connections.retain(|guest| !guest.task.is_finished());
        }
    }

    /// Whether a connection from there may start a handshake. The oldest unauthenticated one is closed to make room.
    fn has_room(&mut self, from: IpAddr) -> bool {
        self.remove_ended();
        let of_one = self.strangers.iter().filter(|guest| guest.from == from);
        if of_one.count() >= HANDSHAKES_OF_ONE_ADDRESS_MAX {
            return false;
        }
        if self.strangers.len() >= HANDSHAKES_MAX {
            if let Some(oldest) = self.strangers.pop_front() {
                oldest.task.abort();
            }
        }
        true
    }

    /// `task` is authenticated as `member`.
    fn admit(&mut self, member: MemberId, task: &tokio::task::Id) {
        self.remove_ended();
        let place = self
            .strangers
            .iter()
            .position(|guest| guest.task.id() == *task);
        let Some(guest) = place.and_then(|place| self.strangers.remove(place)) else {
            return;
        };
        let open_connections = self.members.entry(member).or_default();
        if open_connections.len() >= CONNECTIONS_OF_ONE_MEMBER_MAX {
            if let Some(oldest) = open_connections.pop_front() {
                oldest.task.abort();
            }
        }
        open_connections.push_back(guest);
    }
}

/// Callback for a message and its sender.
type Received = dyn Fn(MemberId, &Envelope) + Send + Sync;

/// Handles a request to the lender of this host's disks for a member: [`Message::LenderRequest`], [`Message::Inspect`] or
/// [`Message::RequestConfiguration`]. It may block on a disk. `None` means no response.
pub type Lend = dyn Fn(MemberId, &Envelope) -> Option<Message> + Send + Sync;

/// Serves one [`Member`] to the other members.
pub struct Server {
    member: Arc<Member>,
    friends: Vec<AllowedMember>,
    acceptor: TlsAcceptor,
    open_connections: Mutex<OpenConnections>,
    /// Called for each message, before it is handled.
    received: Box<Received>,
    lend: Arc<Lend>,
    watch: Mutex<Watch>,
    /// Claims in progress on all connections.
    claims: Arc<Semaphore>,
}

/// The claims of one connection.
struct Claims {
    waiting: Arc<Semaphore>,
    under_way: Arc<Semaphore>,
}

impl Server {
    /// Accepts only `friends`. `received` is called for each message before it is handled; it must not block.
    ///
    /// # Errors
    ///
    /// The certificate does not match its key.
    pub fn new(
        member: Arc<Member>,
        identity: &Identity,
        friends: Vec<AllowedMember>,
        received: impl Fn(MemberId, &Envelope) + Send + Sync + 'static,
    ) -> Result<Arc<Self>, rustls::Error> {
        Self::with_lender(member, identity, friends, received, |_, _| None)
    }

    /// The same on a host that lends disks. Its runtime needs [`CLAIMS_OF_ALL_MAX`] blocking threads in addition to
    /// those that write records.
    ///
    /// # Errors
    ///
    /// As [`Server::new`].
    pub fn with_lender(
        member: Arc<Member>,
        identity: &Identity,
        friends: Vec<AllowedMember>,
        received: impl Fn(MemberId, &Envelope) + Send + Sync + 'static,
        lend: impl Fn(MemberId, &Envelope) -> Option<Message> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, rustls::Error> {
        let known = friends.iter().map(|friend| friend.fingerprint).collect();
        Ok(Arc::new(Self {
            member,
            friends,
            acceptor: identity.server(known)?.into(),
            open_connections: Mutex::default(),
            received: Box::new(received),
            lend: Arc::new(lend),
            watch: Mutex::new(Watch::new()),
            claims: Arc::new(Semaphore::new(CLAIMS_OF_ALL_MAX)),
        }))
    }

    /// Number of open connections per member.
    pub fn connected(&self) -> BTreeMap<MemberId, usize> {
        let mut open_connections = self.open_connections();
        open_connections.remove_ended();
        let counted = open_connections.members.iter();
        let counted = counted.map(|(member, open_connections)| (*member, open_connections.len()));
        counted.filter(|(_, count)| *count > 0).collect()
    }

    fn open_connections(&self) -> MutexGuard<'_, OpenConnections> {
        self.open_connections.lock().expect("no holder panics")
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().expect("no holder panics")
    }

    /// Accepts connections forever.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.take(stream, peer),
                Err(error) => {
                    tracing::warn!(%error, "accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn take(self: &Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let mut open_connections = self.open_connections();
        if !open_connections.has_room(peer.ip()) {
            tracing::debug!(%peer, "too many unauthenticated connections from this address");
            return;
        }
        let server = Arc::clone(self);
        // Under the lock, so that the task is registered before it is admitted.
        let task = tokio::spawn(async move {
            if let Err(end) = server.converse(stream, peer).await {
                server.note_end(peer, &end);
            }
        });
        open_connections.strangers.push_back(OpenConnection {
            from: peer.ip(),
            task: task.abort_handle(),
        });
    }

    /// Logs the end of a connection. A rejected peer reconnects several times per second, so repeats are logged at
    /// debug level.
    fn note_end(&self, peer: SocketAddr, end: &End) {
        let why = end.to_string();
        // For an authenticated member each end is logged.
        let is_of_member = matches!(end, End::Closed | End::Silence | End::Stalled);
        let reported = || {
            let reported = &mut self.open_connections().reported;
            reported.insert(peer.ip(), why.clone(), Instant::now())
        };
        match is_of_member || reported() {
            true => tracing::info!(%peer, why, "a connection of a member ended"),
            false => tracing::debug!(%peer, why, "a connection of a member ended, as before"),
        }
    }

    async fn converse(&self, stream: TcpStream, peer: SocketAddr) -> Result<(), End> {
        prepare(&stream)?;
        let shaken = timeout(HANDSHAKE_WAIT, self.acceptor.accept(stream)).await;
        let mut stream = shaken.map_err(|_| End::Handshake)??;
        let shown = stream.get_ref().1.peer_certificates();
        let shown = shown.and_then(|shown| shown.first()).map(Fingerprint::of);
        let friend = self
            .friends
            .iter()
            .find(|friend| Some(friend.fingerprint) == shown);
        let from = friend.ok_or(End::Stranger)?.member;
        exchange_hello(&mut stream, self.member.me(), from).await?;
        self.open_connections().admit(from, &tokio::task::id());
        tracing::info!(%peer, member = from.0, "a member is connected");
        let (mut hears, mut says) = tokio::io::split(stream);
        let (responses, mut waiting) = mpsc::channel(RESPONSES_MAX);
        let responded = async {
            while let Some(response) = waiting.recv().await {
                send(&mut says, &response).await?;
            }
            Ok(())
        };
        tokio::select! {
            end = self.receive(&mut hears, from, responses) => end,
            end = responded => end,
        }
    }

    async fn receive(
        &self,
        stream: &mut (impl AsyncRead + Unpin),
        from: MemberId,
        responses: mpsc::Sender<Envelope>,
    ) -> Result<(), End> {
        let mut pace = Pace::new(MESSAGES_PER_SECOND_MAX, MESSAGES_BURST_MAX);
        let claims = Claims {
            waiting: Arc::new(Semaphore::new(CLAIMS_WAITING_MAX)),
            under_way: Arc::new(Semaphore::new(CLAIMS_MAX)),
        };
        let mut sender = Sender::Process;
        loop {
            let envelope = receive(stream).await?;
            pace.wait().await;
            tracing::trace!(member = from.0, ?envelope, "a message");
            let requests_liveness = matches!(
                envelope.message,
                Message::RequestLiveness | Message::RequestSteadiness
            );
            if requests_liveness {
                sender = Sender::Command;
            }
            self.watch().note(from, sender);
            (self.received)(from, &envelope);
            match envelope.message {
                Message::LenderRequest(..) | Message::Inspect(_) => {
                    self.request_lender(from, envelope, &claims, responses.clone());
                    continue;
                }
                // In order: the caller detects a difference of configurations before it receives the record.
                Message::RequestConfiguration => {
                    if let Some(message) = (self.lend)(from, &envelope) {
                        let response = self.response_to(&envelope, message);
                        responses.send(response).await.map_err(|_| End::Closed)?;
                    }
                    continue;
                }
                // Not behind writes of records: a heartbeat that is received late counts as a gap.
                Message::Alive => {
                    let response = self.response_to(&envelope, Message::Alive);
                    responses.send(response).await.map_err(|_| End::Closed)?;
                    continue;
                }
                Message::RequestLiveness | Message::RequestSteadiness => {
                    let requester =
                        (envelope.message == Message::RequestSteadiness).then_some(from);
                    let message = Message::Liveness(self.watch().liveness(requester));
                    let response = self.response_to(&envelope, message);
                    responses.send(response).await.map_err(|_| End::Closed)?;
                    continue;
                }
                _ => {}
            }
            let member = Arc::clone(&self.member);
            // The handler may block on a disk. A connection that is closed in the meantime undoes no durable change.
            let responded = tokio::task::spawn_blocking(move || member.receive(from, envelope));
            let response = responded.await.map_err(|_| End::Closed)?;
            if let Some(response) = response {
                responses.send(response).await.map_err(|_| End::Closed)?;
            }
        }
    }

    fn response_to(&self, question: &Envelope, message: Message) -> Envelope {
        Envelope {
            pool: question.pool,
            boot: self.member.boot(),
            message,
        }
    }

    /// Forwards a request to the lender without blocking the connection: a claim may block until earlier I/O of the
    /// disk has completed.
    fn request_lender(
        &self,
        from: MemberId,
        question: Envelope,
        claims: &Claims,
        responses: mpsc::Sender<Envelope>,
    ) {
        let Ok(waiting) = Arc::clone(&claims.waiting).try_acquire_owned() else {
            tracing::warn!(member = from.0, "too many claims wait for disks");
            return;
        };
        let (own, all) = (Arc::clone(&claims.under_way), Arc::clone(&self.claims));
        let (lend, boot) = (Arc::clone(&self.lend), self.member.boot());
        tokio::spawn(async move {
            let pool = question.pool;
            let own = own.acquire_owned().await;
            let all = all.acquire_owned().await;
            // The member may have disconnected while the claim was queued. It will claim again.
            if responses.is_closed() {
                tracing::debug!(
                    pool,
                    member = from.0,
                    "a claim is dropped: its connection is closed"
                );
                return;
            }
            let requested = tokio::task::spawn_blocking(move || lend(from, &question)).await;
            drop((own, all, waiting));
            if let Ok(Some(message)) = requested {
                tracing::trace!(pool, member = from.0, content = ?message, "a response of the lender");
                let response = Envelope {
                    pool,
                    boot,
                    message,
                };
                // The connection may be closed already.
                let _ = responses.send(response).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_disconnect_is_logged_once_per_minute() {
        let mut reported = LoggedEnds::default();
        let begun = Instant::now();
        let from = IpAddr::from([10, 0, 0, 7]);
        let mut notify = |why: &str, second| {
            reported.insert(from, why.to_owned(), begun + Duration::from_secs(second))
        };
        assert!(notify("unknown", 0));
        assert!(!notify("unknown", 1));
        assert!(notify("closed", 2), "another one");
        assert!(!notify("unknown", 3));
        assert!(!notify("closed", 61));
        assert!(notify("unknown", 61));
        assert!(notify("closed", 62));
    }
}
