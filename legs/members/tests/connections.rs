//! Members over real sockets: authentication, responses, and the limits on unauthenticated peers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

use certificates::{Identity, Purpose};
use leg_record::{
    Ballot, Denial, DiskId, LenderRequest, LenderResponse, MemberId, MemberState, Record, Request,
    Response, Session, Tag,
};
use members::limits::{
    CLAIMS_MAX, CLAIMS_OF_ALL_MAX, HANDSHAKE_WAIT, HANDSHAKES_MAX, MESSAGE_BYTES_MAX, SILENCE_MAX,
};
use members::{
    AllowedMember, Envelope, Lent, LinkState, Links, Member, Message, Peer, Received, Server,
    Silence, wire,
};
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use tempfile::TempDir;

const POOL: u64 = 77;
const WITNESS: MemberId = MemberId(3);
const HEADS: [MemberId; 2] = [MemberId(1), MemberId(2)];
/// Threads that may block on a disk: more than one for each claim in progress.
const BLOCKING_THREADS: usize = 2 * CLAIMS_OF_ALL_MAX;
/// Time-out for expected messages.
const WAIT: Duration = Duration::from_secs(20);

fn identity() -> Identity {
    let made = certificates::make(&["member.bulkhead".into()], Purpose::Any).expect("made");
    Identity::new(made.certificate, made.key)
}

/// A witness with two heads as friends.
struct World {
    identity: Identity,
    heads: [Identity; 2],
    address: SocketAddr,
    server: Arc<Server>,
    _folder: TempDir,
    runtime: tokio::runtime::Runtime,
}

impl World {
    fn new() -> Self {
        Self::lending(|_, _| None)
    }

    fn lending(
        lend: impl Fn(MemberId, &Envelope) -> Option<Message> + Send + Sync + 'static,
    ) -> Self {
        Self::with_writers(BLOCKING_THREADS, lend)
    }

    /// With that many threads that may block on a disk.
    fn with_writers(
        writers: usize,
        lend: impl Fn(MemberId, &Envelope) -> Option<Message> + Send + Sync + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let (identity, heads) = (identity(), [identity(), identity()]);
        let member = Member::open(folder.path(), WITNESS, 9, Box::new(|_| false));
        let member = Arc::new(member.expect("opened"));
        let friends = HEADS
            .iter()
            .zip(&heads)
            .map(|(member, head)| AllowedMember {
                member: *member,
                fingerprint: head.fingerprint(),
            });
        let server = Server::with_lender(member, &identity, friends.collect(), |_, _| {}, lend);
        let server = server.expect("a server");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(writers)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a port");
        let address = listener.local_addr().expect("its address");
        runtime.spawn(Arc::clone(&server).serve(listener));
        Self {
            identity,
            heads,
            address,
            server,
            _folder: folder,
            runtime,
        }
    }

    fn peer(&self) -> Peer {
        Peer {
            member: WITNESS,
            fingerprint: self.identity.fingerprint(),
            addresses: vec![self.address],
        }
    }

    fn head(&self, index: usize) -> Head {
        let (send, received) = channel();
        let send = Mutex::new(send);
        let receive = move |received| {
            let _ = send.lock().expect("no holder panics").send(received);
        };
        let peers = vec![self.peer()];
        let links = Links::start(HEADS[index], 4, &self.heads[index], peers, receive);
        let head = Head {
            links: links.expect("links"),
            received,
        };
        head.wait_until_connected();
        head
    }

    /// A connection as this identity, after the handshake of TLS and the greeting as `said`.
    fn raw(
        &self,
        identity: &Identity,
        said: MemberId,
    ) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
        self.greeting(identity, &wire::hello(said))
    }

    fn greeting(
        &self,
        identity: &Identity,
        hello: &[u8],
    ) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let socket = TcpStream::connect(self.address)?;
        socket.set_read_timeout(Some(WAIT))?;
        let config = identity.client(self.identity.fingerprint()).expect("TLS");
        let name = "witness".try_into().expect("a name");
        let session = ClientConnection::new(config, name).expect("a session");
        let mut stream = StreamOwned::new(session, socket);
        stream.write_all(hello)?;
        let mut greeting = [0; wire::HELLO_BYTES];
        stream.read_exact(&mut greeting)?;
        assert_eq!(wire::greeted(&greeting), Ok(WITNESS));
        Ok(stream)
    }
}

struct Head {
    links: Links,
    received: Receiver<Received>,
}

impl Head {
    fn wait_until_connected(&self) {
        let begun = Instant::now();
        while !matches!(
            self.links.states().get(&WITNESS),
            Some(LinkState::Connected(_))
        ) {
            assert!(begun.elapsed() < WAIT, "{:?}", self.links.states());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn send_request(&self, message: Message) -> Message {
        assert!(self.links.send(WITNESS, POOL, message), "not connected");
        let received = self.received.recv_timeout(WAIT).expect("a response");
        assert_eq!((received.from, received.envelope.boot), (WITNESS, 9));
        received.envelope.message
    }
}

fn memory() -> MemberState {
    let ballot = Ballot { epoch: 1, nonce: 5 };
    MemberState::new(Record::new(POOL, ballot, [DiskId(1), DiskId(2)]))
}

fn claim(epoch: u64, by: MemberId) -> Message {
    let ballot = Ballot { epoch, nonce: by.0 };
    Message::Request(Request::Claim { ballot, by })
}

fn read() -> Message {
    Message::Request(Request::Read(Tag { boot: 4, number: 1 }))
}

#[test]
fn concurrent_requests_promise_epoch_to_one_head() {
    let world = World::new();
    let heads = [world.head(0), world.head(1)];
    let unknown = heads[0].send_request(read());
    assert_eq!(unknown, Message::Silent(Silence::Unknown));
    assert!(matches!(
        heads[0].send_request(Message::Found(memory())),
        Message::Created(_)
    ));
    for epoch in 2..30 {
        let promised = std::thread::scope(|scope| {
            let asks = |index: usize| {
                let links = &heads[index].links;
                scope.spawn(move || links.send(WITNESS, POOL, claim(epoch, HEADS[index])))
            };
            let requested = [asks(0), asks(1)].map(|requested| requested.join().expect("no panic"));
            assert_eq!(requested, [true, true]);
            heads
                .iter()
                .map(|head| head.received.recv_timeout(WAIT))
                .filter(|received| {
                    let message = &received.as_ref().expect("a response").envelope.message;
                    matches!(message, Message::Response(Response::Promised { .. }))
                })
                .count()
        });
        assert_eq!(promised, 1, "epoch {epoch}");
    }
}

#[test]
fn message_sent_before_close_is_received() {
    let world = World::new();
    let stays = world.head(1);
    stays.send_request(Message::Found(memory()));
    for epoch in 2..20 {
        let goes = world.head(0);
        let promised = goes.send_request(claim(epoch, HEADS[0]));
        assert!(
            matches!(promised, Message::Response(Response::Promised { .. })),
            "{promised:?}"
        );
        let nonce = HEADS[0].0;
        let withdrawn = Message::Request(Request::Withdraw(Ballot { epoch, nonce }));
        assert!(goes.links.send(WITNESS, POOL, withdrawn));
        drop(goes);
        let begun = Instant::now();
        while !matches!(
            stays.send_request(claim(epoch, HEADS[1])),
            Message::Response(Response::Promised { .. })
        ) {
            assert!(begun.elapsed() < WAIT, "epoch {epoch} is still promised");
        }
    }
}

#[test]
fn unknown_peer_is_refused() {
    let world = World::new();
    world.raw(&identity(), HEADS[0]).expect_err("a stranger");
    // The certificate identifies a member, not its greeting.
    let mut other = world.raw(&world.heads[0], HEADS[1]).expect("greeted");
    let end = other.read(&mut [0; 1]).unwrap_or(0);
    assert_eq!(end, 0, "closed");
    assert!(world.server.connected().is_empty());
}

/// The greeting of a member of the previous version.
fn old_hello(member: MemberId) -> [u8; wire::HELLO_BYTES] {
    let mut bytes = wire::hello(member);
    bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
    bytes
}

#[test]
fn member_of_older_version_gets_no_response() {
    let world = World::new();
    let mut old = world
        .greeting(&world.heads[0], &old_hello(HEADS[0]))
        .expect("TLS");
    let end = old.read(&mut [0; 1]).unwrap_or(0);
    assert_eq!(end, 0, "closed");
    assert!(world.server.connected().is_empty());
    let head = world.head(1);
    assert_eq!(head.send_request(read()), Message::Silent(Silence::Unknown));
}

#[test]
fn older_member_is_sent_upgrade_advice() {
    let (old, head) = (identity(), identity());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let config = old.server(vec![head.fingerprint()]).expect("TLS");
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let session = ServerConnection::new(Arc::clone(&config)).expect("a session");
            let mut stream = StreamOwned::new(session, socket);
            let _ = stream.write_all(&old_hello(WITNESS));
            let _ = stream.read(&mut [0; 1]);
        }
    });
    let peer = Peer {
        member: WITNESS,
        fingerprint: old.fingerprint(),
        addresses: vec![address],
    };
    let links = Links::start(HEADS[0], 4, &head, vec![peer], |_| {}).expect("links");
    let said = "speaks version 1, this one 2: install the same version of bulkhead on all members";
    assert!(!await_lost(&links, said));
}

/// Blocks until the witness is reported as unreachable for that reason; returns whether the reason is a certificate.
fn await_lost(links: &Links, said: &str) -> bool {
    let begun = Instant::now();
    loop {
        match links.states().get(&WITNESS) {
            Some(LinkState::Lost(why)) if why.contains(said) => return false,
            Some(LinkState::Stranger(why)) if why.contains(said) => return true,
            state => assert!(begun.elapsed() < WAIT, "{state:?}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// For example a cut cable: no message that is sent there gets a response.
#[test]
fn unreachable_path_does_not_delay_next_path() {
    let world = World::new();
    let nowhere = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut peer = world.peer();
    let address = nowhere.local_addr().expect("its address");
    peer.addresses.insert(0, address);
    let begun = Instant::now();
    let links = Links::start(HEADS[0], 4, &world.heads[0], vec![peer], |_| {});
    let links = links.expect("links");
    let connected = Some(LinkState::Connected(world.address));
    while links.states().get(&WITNESS) != connected.as_ref() {
        assert!(begun.elapsed() < HANDSHAKE_WAIT, "{:?}", links.states());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Another host has the number of a former member.
#[test]
fn member_moved_to_another_host_is_connected_there() {
    let (world, other) = (World::new(), World::new());
    let mut gone = other.peer();
    gone.addresses.clear();
    let links = Links::start(HEADS[0], 4, &world.heads[0], vec![other.peer()], |_| {});
    let mut links = links.expect("links");
    for (peer, is_new) in [(other.peer(), false), (gone, true), (world.peer(), true)] {
        let added = links.add(&world.heads[0], peer).expect("it fits");
        assert_eq!(added, is_new);
    }
    let begun = Instant::now();
    let connected = Some(LinkState::Connected(world.address));
    while links.states().get(&WITNESS) != connected.as_ref() {
        assert!(begun.elapsed() < WAIT, "{:?}", links.states());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(links.send(WITNESS, POOL, read()));
}

#[test]
fn unexpected_member_is_rejected() {
    let world = World::new();
    let mut peer = world.peer();
    peer.fingerprint = identity().fingerprint();
    let links = Links::start(HEADS[0], 4, &world.heads[0], vec![peer], |_| {});
    let links = links.expect("links");
    let said = format!(
        "has the fingerprint {}, which is not the one",
        world.identity.fingerprint()
    );
    assert!(await_lost(&links, &said));
    assert!(!links.send(WITNESS, POOL, read()));
}

#[test]
fn head_with_unknown_certificate_is_notified() {
    let world = World::new();
    let links = Links::start(HEADS[0], 4, &identity(), vec![world.peer()], |_| {});
    let said = "the other side does not know the certificate of this host";
    assert!(await_lost(&links.expect("links"), said));
}

#[test]
fn malicious_messages_close_only_their_connection() {
    let world = World::new();
    let head = world.head(1);
    head.send_request(Message::Found(memory()));
    let other_pool = Envelope {
        pool: POOL + 1,
        boot: 4,
        message: Message::Found(memory()),
    }
    .encode();
    let too_long = (MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes().to_vec();
    let unknown_kind = [&17_u32.to_le_bytes()[..], &[200; 17]].concat();
    let empty = vec![0; 4];
    let longest_garbage = [
        &(MESSAGE_BYTES_MAX as u32).to_le_bytes()[..],
        &vec![65; MESSAGE_BYTES_MAX],
    ]
    .concat();
    for bytes in [other_pool, too_long, unknown_kind, empty, longest_garbage] {
        let mut stream = world.raw(&world.heads[0], HEADS[0]).expect("greeted");
        let _ = stream.write_all(&bytes);
        let end = stream.read(&mut [0; 1]).unwrap_or(0);
        assert_eq!(end, 0, "closed after {:?}", &bytes[..bytes.len().min(40)]);
    }
    assert!(matches!(
        head.send_request(read()),
        Message::Response(Response::Known(..))
    ));
}

#[test]
fn partial_message_times_out_like_silence() {
    let world = World::new();
    let mut stream = world.raw(&world.heads[0], HEADS[0]).expect("greeted");
    let begun = Instant::now();
    stream.write_all(&[41, 0, 0]).expect("sent");
    let end = stream.read(&mut [0; 1]).unwrap_or(0);
    assert_eq!(end, 0, "closed");
    assert!(begun.elapsed() < SILENCE_MAX * 2, "{:?}", begun.elapsed());
}

#[test]
fn silent_connections_do_not_block_members() {
    let world = World::new();
    let silent: Vec<_> = (0..HANDSHAKES_MAX * 3)
        .map(|number| {
            // Addresses of one host, so that the limit per address is not reached.
            let socket = socket_from([127, 0, 1, (number % 250) as u8]);
            socket.connect(&world.address.into()).expect("connected");
            socket
        })
        .collect();
    let head = world.head(0);
    assert_eq!(head.send_request(read()), Message::Silent(Silence::Unknown));
    drop(silent);
}

fn socket_from(address: [u8; 4]) -> socket2::Socket {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    let own: SocketAddr = (address, 0).into();
    socket.bind(&own.into()).expect("bound");
    socket
}

#[test]
fn excess_requests_are_throttled_and_get_responses() {
    let world = World::new();
    let mut stream = world.raw(&world.heads[0], HEADS[0]).expect("greeted");
    let envelope = Envelope {
        pool: POOL,
        boot: 4,
        message: read(),
    };
    let requested = 500;
    let begun = Instant::now();
    stream
        .write_all(&envelope.encode().repeat(requested))
        .expect("sent");
    let one = Envelope {
        pool: POOL,
        boot: 9,
        message: Message::Silent(Silence::Unknown),
    };
    let mut responses = vec![0; one.encode().len() * requested];
    stream
        .read_exact(&mut responses)
        .expect("all are responded");
    assert_eq!(responses, one.encode().repeat(requested));
    assert!(
        begun.elapsed() >= Duration::from_millis(1900),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn lost_connection_is_reestablished() {
    let world = World::new();
    let head = world.head(0);
    // Four more connections of the same member close the first one.
    let others: Vec<_> = (0..4)
        .map(|_| world.raw(&world.heads[0], HEADS[0]).expect("greeted"))
        .collect();
    drop(others);
    let begun = Instant::now();
    loop {
        let is_said = head.links.send(WITNESS, POOL, read());
        if is_said
            && head
                .received
                .recv_timeout(Duration::from_millis(200))
                .is_ok()
        {
            break;
        }
        assert!(begun.elapsed() < WAIT);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The disk does not complete earlier I/O: the claim blocks, and no other message does.
#[test]
fn claim_blocked_on_disk_delays_no_other_message() {
    const DISK: DiskId = DiskId(5);
    let (free, is_free) = channel::<()>();
    let is_free = Mutex::new(is_free);
    let world = World::lending(move |from, question| {
        assert_eq!(from, HEADS[0]);
        let _ = is_free.lock().expect("no holder panics").recv_timeout(WAIT);
        let Message::LenderRequest(DISK, LenderRequest::Claim(session)) = question.message else {
            return None;
        };
        Some(Message::Lent(Lent {
            disk: DISK,
            response: LenderResponse::Refused(session),
            export: String::new(),
            denial: Some(Denial::InUse),
        }))
    });
    let head = world.head(0);
    let session = Session {
        ballot: Ballot { epoch: 2, nonce: 1 },
        number: 1,
    };
    let claim = Message::LenderRequest(DISK, LenderRequest::Claim(session));
    assert!(head.links.send(WITNESS, 0, claim));
    assert_eq!(head.send_request(read()), Message::Silent(Silence::Unknown));
    free.send(()).expect("the disk is free");
    let received = head.received.recv_timeout(WAIT).expect("a response");
    let lent = Lent {
        disk: DISK,
        response: LenderResponse::Refused(session),
        export: String::new(),
        denial: Some(Denial::InUse),
    };
    assert_eq!(received.envelope.message, Message::Lent(lent));
}

fn refused(disk: DiskId, session: Session) -> Message {
    Message::Lent(Lent {
        disk,
        response: LenderResponse::Refused(session),
        export: String::new(),
        denial: Some(Denial::InUse),
    })
}

fn claim_of(disk: u64) -> Message {
    let session = Session {
        ballot: Ballot { epoch: 2, nonce: 1 },
        number: 1,
    };
    Message::LenderRequest(DiskId(disk), LenderRequest::Claim(session))
}

/// A head that opens a pool claims all disks of this host at once, and retries much later than a takeover may take.
#[test]
fn all_disks_of_a_large_pool_are_claimed_at_once() {
    const DISKS: u64 = 3 * CLAIMS_MAX as u64;
    let world = World::lending(|_, question| {
        let Message::LenderRequest(disk, LenderRequest::Claim(session)) = question.message else {
            return None;
        };
        // Simulates a disk that must make the claim durable.
        std::thread::sleep(Duration::from_millis(20));
        Some(refused(disk, session))
    });
    let head = world.head(0);
    for disk in 1..=DISKS {
        assert!(head.links.send(WITNESS, POOL, claim_of(disk)));
    }
    for number in 1..=DISKS {
        let received = head.received.recv_timeout(WAIT);
        assert!(received.is_ok(), "{number} of {DISKS} are responded");
    }
}

/// Disks of many pools that do not respond occupy no thread needed for storing records.
#[test]
fn claims_blocked_on_disks_leave_threads_for_messages() {
    // More than a runtime has threads that may block.
    const CONNECTIONS: usize = 520 / CLAIMS_MAX + 1;
    let are_free = Arc::new((Mutex::new(false), Condvar::new()));
    let waits = Arc::clone(&are_free);
    let world = World::lending(move |_, _| {
        let (is_free, changed) = &*waits;
        let is_free = is_free.lock().expect("no holder panics");
        let waited = changed.wait_timeout_while(is_free, 2 * WAIT, |is_free| !*is_free);
        drop(waited.expect("no holder panics"));
        None
    });
    let heads: Vec<Head> = (0..CONNECTIONS).map(|_| world.head(0)).collect();
    for head in &heads {
        for disk in 1..=CLAIMS_MAX as u64 {
            assert!(head.links.send(WITNESS, POOL, claim_of(disk)));
        }
    }
    // Its own messages come after its claims.
    let responses: Vec<Message> = heads.iter().map(|head| head.send_request(read())).collect();
    let (is_free, changed) = &*are_free;
    *is_free.lock().expect("no holder panics") = true;
    changed.notify_all();
    let is_right = |response: &Message| *response == Message::Silent(Silence::Unknown);
    assert!(responses.iter().all(is_right), "{responses:?}");
}

/// A witness with a stolen key sends more messages than requested.
#[test]
fn member_that_floods_a_head_is_throttled() {
    const SAID: usize = 20_000;
    let (witness, own) = (identity(), identity());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let config = witness.server(vec![own.fingerprint()]).expect("TLS");
    std::thread::spawn(move || {
        let (socket, _) = listener.accept().expect("a connection");
        let session = ServerConnection::new(config).expect("a session");
        let mut stream = StreamOwned::new(session, socket);
        stream.write_all(&wire::hello(WITNESS)).expect("greeted");
        stream
            .read_exact(&mut [0; wire::HELLO_BYTES])
            .expect("greeted");
        let envelope = Envelope {
            pool: POOL,
            boot: 9,
            message: Message::Silent(Silence::Unknown),
        };
        // Fails when the receiver closes the connection.
        let _ = stream.write_all(&envelope.encode().repeat(SAID));
    });
    let (send, received) = channel();
    let send = Mutex::new(send);
    let receive = move |received| {
        let _ = send.lock().expect("no holder panics").send(received);
    };
    let peer = Peer {
        member: WITNESS,
        fingerprint: witness.fingerprint(),
        addresses: vec![address],
    };
    let links = Links::start(HEADS[0], 4, &own, vec![peer], receive).expect("links");
    received.recv_timeout(WAIT).expect("the first message");
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        count += usize::from(received.recv_timeout(Duration::from_millis(50)).is_ok());
    }
    assert!((1024..4096).contains(&count), "{count} in two seconds");
    drop(links);
}

/// A head that boots alone requests it; a heartbeat is enough to be heard.
#[test]
fn witness_reports_last_contact_of_each_head() {
    let world = World::new();
    let (one, other) = (world.head(0), world.head(1));
    let liveness = |head: &Head| {
        let begun = Instant::now();
        loop {
            head.links.send(WITNESS, 0, Message::RequestLiveness);
            match head.received.recv_timeout(Duration::from_millis(100)) {
                Ok(received) => match received.envelope.message {
                    Message::Liveness(liveness) => return liveness,
                    other => panic!("{other:?}"),
                },
                Err(_) => assert!(begun.elapsed() < WAIT, "no response"),
            }
        }
    };
    let begun = Instant::now();
    while !liveness(&one).silent_ms.contains_key(&HEADS[1]) {
        assert!(begun.elapsed() < WAIT, "its heartbeats are not received");
    }
    drop(other);
    let silence = Duration::from_millis(1500);
    while !liveness(&one).is_silent(HEADS[1], silence) {
        assert!(
            begun.elapsed() < WAIT,
            "it is received from after it exited"
        );
    }
    assert!(!liveness(&one).is_silent(HEADS[0], silence));
}

/// As many records are written as the witness has threads for, and its disk hangs.
#[test]
fn heartbeats_are_noted_while_the_store_is_blocked() {
    const WRITERS: usize = 8;
    let world = World::with_writers(WRITERS, |_, _| None);
    let blocked = Arc::new(Barrier::new(WRITERS + 1));
    for _ in 0..WRITERS {
        let blocked = Arc::clone(&blocked);
        world.runtime.spawn_blocking(move || blocked.wait());
    }
    let (one, other) = (world.head(0), world.head(1));
    let writes = one.links.send(
        WITNESS,
        POOL,
        Message::Request(Request::Read(Tag { boot: 4, number: 1 })),
    );
    assert!(writes, "queued behind the writes");
    let begun = Instant::now();
    let steady = Duration::from_millis(1_000);
    loop {
        assert!(begun.elapsed() < WAIT, "heartbeats are not noted");
        other.links.send(WITNESS, 0, Message::Alive);
        other.links.send(WITNESS, 0, Message::RequestLiveness);
        let received = other.received.recv_timeout(Duration::from_millis(50));
        if let Ok(Message::Liveness(liveness)) = received.map(|one| one.envelope.message) {
            let silent_ms = liveness.silent_ms.get(&HEADS[1]);
            assert!(silent_ms.is_some_and(|ms| *ms < 1_000), "{liveness:?}");
            if begun.elapsed() >= steady {
                break;
            }
        }
    }
    assert!(one.received.try_recv().is_err(), "the read is not blocked");
    blocked.wait();
    one.received.recv_timeout(WAIT).expect("the response");
}
