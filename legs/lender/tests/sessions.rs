//! A disk, lent over real sockets: when a session may write it, and the state of a leg after a failure on the path.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{ThreadId, current};
use std::time::{Duration, Instant};

use certificates::{Identity, Purpose};
use leg_record::{
    Ballot, DiskId, Holder, LenderRequest, LenderResponse, MemberId, Observed, Session,
};
use lender::{ClaimError, Disk, Grant, LendError, Lender, Settings};
use remote_leg::{Access, Event, LegError, NbdLeg, Operation, Transport};
use rustls::{ClientConfig, ServerConfig};
use serving::ListenAddress;
use tempfile::TempDir;
use units::Extent;

const DISK: DiskId = DiskId(5);
const BYTES: u64 = 64 << 20;
const BLOCK: usize = 4096;
/// Time limit for expected events.
const WAIT: Duration = Duration::from_secs(30);
/// Of a leg, in tests that wait for it.
const SHORT: Duration = Duration::from_millis(600);

type Response = Result<Vec<u8>, LegError>;

struct World {
    folder: TempDir,
    lender: Option<Lender>,
    /// Of the lender, and of a head that is registered there.
    tls: Option<(Arc<ServerConfig>, Arc<ClientConfig>)>,
}

fn identity() -> Identity {
    let made = certificates::make(&["head.bulkhead".into()], Purpose::Any).expect("made");
    Identity::new(made.certificate, made.key)
}

impl World {
    fn new() -> Self {
        Self::with(None)
    }

    fn encrypted() -> Self {
        let (own, head) = (identity(), identity());
        let server = own.server(vec![head.fingerprint()]).expect("TLS");
        let client = head.client(own.fingerprint()).expect("TLS");
        Self::with(Some((server, client)))
    }

    fn with(tls: Option<(Arc<ServerConfig>, Arc<ClientConfig>)>) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let file = std::fs::File::create(folder.path().join("disk")).expect("file");
        file.set_len(BYTES).expect("sized");
        let mut world = Self {
            folder,
            lender: None,
            tls,
        };
        world.start(1);
        world
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn settings(&self) -> Settings {
        Settings {
            listeners: vec!["127.0.0.1:0".parse().expect("an address")],
            tls: self.tls.as_ref().map(|(server, _)| Arc::clone(server)),
            access: nbd::Access::Local,
            folder: self.folder.path().to_owned(),
            drain_wait: WAIT,
        }
    }

    /// Restarts the lender.
    fn start(&mut self, incarnation: u64) {
        // Its disks are let go when the threads of its connections have ended.
        drop(self.lender.take());
        let lender = Lender::start(self.settings(), incarnation).expect("started");
        let begun = Instant::now();
        while let Err(error) = lender.lend(DISK, &self.path()) {
            let is_held = matches!(error, LendError::Open(..));
            assert!(is_held && begun.elapsed() < WAIT, "{error:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.lender = Some(lender);
    }

    fn lender(&self) -> &Lender {
        self.lender.as_ref().expect("it runs")
    }

    fn address(&self) -> SocketAddr {
        let listeners = self.lender().listeners();
        match listeners.first() {
            Some(ListenAddress::Tcp(address)) => *address,
            other => panic!("{other:?}"),
        }
    }

    fn claim(&self, session: Session) -> Grant {
        self.lender().claim(DISK, session).expect("a response")
    }

    /// The access of an admitted session, by `address`.
    fn access(&self, session: Session, address: SocketAddr) -> Access {
        let grant = self.claim(session);
        let LenderResponse::Admitted(_, Observed { incarnation, .. }) = grant.response else {
            panic!("{grant:?}");
        };
        Access {
            session,
            incarnation,
            export: grant.export.expect("admitted"),
            addresses: vec![address],
        }
    }

    fn leg(&self, session: Session) -> Leg {
        self.leg_by(session, self.address(), WAIT)
    }

    fn leg_by(&self, session: Session, address: SocketAddr, deadline: Duration) -> Leg {
        let access = self.access(session, address);
        Leg::connect(&access, deadline, self.client_tls()).expect("connected")
    }

    fn client_tls(&self) -> Option<Arc<ClientConfig>> {
        self.tls.as_ref().map(|(_, client)| Arc::clone(client))
    }
}

/// A leg with its events.
struct Leg {
    leg: NbdLeg,
    events: Receiver<Event>,
}

impl Leg {
    fn connect(
        access: &Access,
        deadline: Duration,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Self, LegError> {
        Self::connect_requesting(access, deadline, tls, (WAIT, WAIT))
    }

    /// The lender is probed after the first time, and has the second one to respond.
    fn connect_requesting(
        access: &Access,
        deadline: Duration,
        tls: Option<Arc<ClientConfig>>,
        (silence, life_wait): (Duration, Duration),
    ) -> Result<Self, LegError> {
        let (send, events) = channel();
        let send = Mutex::new(send);
        let settings = remote_leg::Settings {
            tls,
            only_looks: false,
            deadline,
            connect_wait: WAIT,
            silence,
            life_wait,
        };
        let leg = NbdLeg::connect(DISK, access, settings, move |event| {
            let _ = send.lock().expect("no holder panics").send(event);
        })?;
        Ok(Self { leg, events })
    }

    fn submit(&self, operation: Operation) -> Receiver<Response> {
        let (send, response) = channel();
        let done = Box::new(move |result| drop(send.send(result)));
        self.leg.submit(operation, done);
        response
    }

    /// The same, with the thread that completed it.
    fn submit_noting_thread(&self, operation: Operation) -> Receiver<(ThreadId, Response)> {
        let (send, response) = channel();
        let done = Box::new(move |result| drop(send.send((current().id(), result))));
        self.leg.submit(operation, done);
        response
    }

    fn run(&self, operation: Operation) -> Response {
        self.submit(operation).recv_timeout(WAIT).expect("an end")
    }

    fn write(&self, offset: u64, byte: u8) -> Response {
        self.run(write(offset, byte))
    }

    /// The byte that a block is full of.
    fn read(&self, offset: u64) -> u8 {
        let extent = Extent::new(offset, BLOCK as u64);
        let block = self.run(Operation::Read(extent)).expect("read");
        assert_eq!(block.len(), BLOCK);
        assert!(block.iter().all(|byte| *byte == block[0]), "a torn block");
        block[0]
    }

    fn event(&self) -> Event {
        self.events.recv_timeout(WAIT).expect("something happens")
    }
}

fn write(offset: u64, byte: u8) -> Operation {
    Operation::Write {
        offset,
        data: Arc::new(vec![byte; BLOCK]),
        durable: true,
    }
}

fn session(epoch: u64, number: u32) -> Session {
    let ballot = Ballot { epoch, nonce: 1 };
    Session { ballot, number }
}

/// A network between a leg and its lender.
struct Network {
    address: SocketAddr,
    is_silent: Arc<AtomicBool>,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Network {
    fn to(lender: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let network = Self {
            address: listener.local_addr().expect("its address"),
            is_silent: Arc::default(),
            connections: Arc::default(),
        };
        let (is_silent, connections) = (
            Arc::clone(&network.is_silent),
            Arc::clone(&network.connections),
        );
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(lender).expect("the lender");
                let both = [near, far];
                let copies = both.each_ref().map(|one| one.try_clone().expect("copy"));
                let mut all = connections.lock().expect("no holder panics");
                all.extend(both.iter().map(|one| one.try_clone().expect("copy")));
                let [near, far] = both;
                let [near_too, far_too] = copies;
                for (from, to) in [(near, far), (far_too, near_too)] {
                    let is_silent = Arc::clone(&is_silent);
                    std::thread::spawn(move || carry(from, to, &is_silent));
                }
            }
        });
        network
    }

    fn cut(&self) {
        for connection in self.connections.lock().expect("no holder panics").drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_silent: &AtomicBool) {
    let mut bytes = [0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        // Both peers are present and receive nothing.
        if !is_silent.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
}

#[test]
fn written_data_is_read_back_and_durable_writes_are_stored() {
    for world in [World::new(), World::encrypted()] {
        writes_and_reads(&world);
    }
}

fn writes_and_reads(world: &World) {
    let leg = world.leg(session(1, 1));
    assert_eq!(leg.leg.bytes(), BYTES);
    assert_eq!(leg.leg.identity().incarnation, 1);
    leg.write(8192, 7).expect("written");
    assert_eq!(leg.read(8192), 7);
    let file = std::fs::read(world.path()).expect("file");
    assert_eq!(file[8192..][..BLOCK], [7; BLOCK]);
    leg.run(Operation::Flush).expect("flushed");
    leg.run(Operation::Discard(Extent::new(8192, BLOCK as u64)))
        .expect("discarded");
    assert_eq!(leg.read(8192), 0);
    let beyond = leg.write(BYTES - 512, 7);
    assert_eq!(beyond, Err(LegError::Range));
    let many: Vec<_> = (0..500_u64)
        .map(|number| leg.submit(write(number * BLOCK as u64, number as u8)))
        .collect();
    for response in many {
        response
            .recv_timeout(WAIT)
            .expect("an end")
            .expect("written");
    }
    assert_eq!(leg.read(300 * BLOCK as u64), 44);
    let large = Arc::new(
        (0..16 << 20)
            .map(|at: u32| (at >> 9) as u8)
            .collect::<Vec<_>>(),
    );
    let written = Operation::Write {
        offset: 0,
        data: Arc::clone(&large),
        durable: false,
    };
    leg.run(written).expect("written");
    let all = Operation::Read(Extent::new(0, large.len() as u64));
    assert!(leg.run(all).expect("read") == *large, "other bytes");
}

#[test]
fn unknown_certificate_is_refused() {
    let (own, head, stranger) = (identity(), identity(), identity());
    let server = own.server(vec![head.fingerprint()]).expect("TLS");
    let client = head.client(own.fingerprint()).expect("TLS");
    let world = World::with(Some((server, client)));
    let access = world.access(session(1, 1), world.address());
    let unknown_head = stranger.client(own.fingerprint());
    let other_lender = head.client(stranger.fingerprint());
    for tls in [unknown_head, other_lender] {
        let refused = Leg::connect(&access, WAIT, Some(tls.expect("TLS"))).err();
        let is_refused = matches!(refused, Some(LegError::Unreachable(_)));
        assert!(is_refused, "{refused:?}");
    }
    let plain = Leg::connect(&access, WAIT, None).err();
    assert!(matches!(plain, Some(LegError::Refused(_))), "{plain:?}");
}

/// Writes of the old session are sent before, while and after the new one is admitted. Each that lands later is a
/// write over a newer one.
#[test]
fn late_write_of_old_session_is_discarded_after_claim() {
    let world = World::new();
    for epoch in 1..=20 {
        let old = world.leg(session(2 * epoch, 1));
        let sent = Arc::new(AtomicU32::new(0));
        std::thread::scope(|scope| {
            let (leg, sent) = (&old.leg, &sent);
            scope.spawn(move || {
                for _ in 0..400 {
                    leg.submit(write(0, 1), Box::new(drop));
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            });
            while sent.load(Ordering::SeqCst) < 20 {
                std::thread::yield_now();
            }
            let new = world.leg(session(2 * epoch + 1, 1));
            new.write(0, 2).expect("written");
            for _ in 0..20 {
                assert_eq!(new.read(0), 2, "epoch {epoch}");
            }
        });
        let new = world.leg(session(2 * epoch + 1, 2));
        assert_eq!(new.read(0), 2, "epoch {epoch}, at the end");
    }
}

/// A pool is about to be made of it.
#[test]
fn inspection_reports_active_session() {
    let world = World::new();
    assert_eq!(world.lender().inspect(DISK).holder, Holder::Unused);
    let leg = world.leg(session(1, 1));
    assert_eq!(world.lender().inspect(DISK).holder, Holder::Session(None));
    drop(leg);
    let begun = Instant::now();
    while world.lender().inspect(DISK).holder != Holder::Unused {
        assert!(begun.elapsed() < WAIT, "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn inspection_of_replaced_disk_keeps_active_session() {
    let world = World::new();
    let leg = world.leg(session(1, 1));
    leg.write(0, 7).expect("written");
    std::fs::rename(world.path(), world.folder.path().join("old")).expect("renamed");
    let file = std::fs::File::create(world.path()).expect("file");
    file.set_len(BYTES / 2).expect("sized");
    world.lender().inspect(DISK);
    leg.write(0, 8).expect("written");
    assert_eq!(leg.read(0), 8);
    drop(leg);
    let begun = Instant::now();
    while world.lender().inspect(DISK).holder != Holder::Unused {
        assert!(begun.elapsed() < WAIT, "the session does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    world.lender().inspect(DISK);
    let leg = world.leg(session(2, 1));
    assert_eq!(leg.leg.bytes(), BYTES / 2);
    assert_ne!(leg.leg.identity().incarnation, 1);
}

#[test]
fn older_terms_and_sessions_are_refused_after_restart() {
    let mut world = World::new();
    world.leg(session(5, 2));
    world.start(2);
    let refused = |session| {
        let grant = world.claim(session);
        assert_eq!(grant.response, LenderResponse::Refused(session));
        assert_eq!(grant.export, None);
    };
    refused(session(4, 9));
    refused(Session {
        ballot: Ballot { epoch: 5, nonce: 2 },
        number: 9,
    });
    world.leg(session(5, 3));
    let grant = world.claim(session(5, 2));
    assert_eq!(grant.response, LenderResponse::Refused(session(5, 2)));
}

#[test]
fn stamp_is_stored_before_reply() {
    let mut world = World::new();
    world.leg(session(5, 1));
    let begin = |world: &World, incarnation| {
        let begun = world.lender().begin(DISK, session(5, 1), incarnation);
        begun.expect("a response")
    };
    assert_eq!(begin(&world, 9), LenderResponse::Refused(session(5, 1)));
    assert_eq!(begin(&world, 1), LenderResponse::Begun(session(5, 1)));
    world.start(2);
    let LenderResponse::Admitted(_, observed) = world.claim(session(6, 1)).response else {
        panic!("refused");
    };
    assert_eq!(observed.mark, session(5, 1));
    assert_eq!(observed.incarnation, 2);
}

#[test]
fn next_session_resumes_after_cut_without_lost_replies() {
    for world in [World::new(), World::encrypted()] {
        cuts_and_resumes(&world);
    }
}

fn cuts_and_resumes(world: &World) {
    let network = Network::to(world.address());
    let leg = world.leg_by(session(1, 1), network.address, WAIT);
    for number in 2..=6 {
        let answers: Vec<_> = (0..200_u64)
            .map(|block| leg.submit(write(block * BLOCK as u64, number as u8)))
            .collect();
        network.cut();
        assert_eq!(leg.event(), Event::Lost);
        let access = world.access(session(1, number), network.address);
        leg.leg.resume(&access).expect("resumed");
        for response in answers {
            response
                .recv_timeout(WAIT)
                .expect("an end")
                .expect("written");
        }
        for block in 0..200 {
            assert_eq!(leg.read(block * BLOCK as u64), number as u8);
        }
    }
    assert_eq!(leg.leg.identity().session, session(1, 6));
}

/// Submits a durable write and receives its reply on this thread. Returns the threads that
/// completed it.
fn write_and_wait(leg: &NbdLeg, number: u64) -> Receiver<(ThreadId, Response)> {
    let (send, response) = channel();
    let done = Box::new(move |result| drop(send.send((current().id(), result))));
    let operation = write(number % 64 * BLOCK as u64, number as u8);
    if let Some(awaited) = leg.submit_awaited(operation, done) {
        while awaited.receive() {}
    }
    response
}

/// Only the first reply needs another thread: afterwards that leaves the socket to the blocked thread.
#[test]
fn a_thread_that_waits_for_its_reply_receives_it_and_leaves_the_replies_of_others_to_the_leg() {
    for world in [World::new(), World::encrypted()] {
        let leg = world.leg(session(1, 1));
        let begun = Instant::now();
        let is_own = (0..).map(|number| {
            let others = leg.submit_noting_thread(Operation::Read(Extent::new(0, BLOCK as u64)));
            let response = write_and_wait(&leg.leg, number).recv_timeout(WAIT);
            let (thread, written) = response.expect("an end");
            written.expect("written");
            let (other, read) = others.recv_timeout(WAIT).expect("an end");
            read.expect("read");
            assert_ne!(other, current().id(), "a read may wait for locks");
            // Without another operation under way the socket is this thread's.
            let (alone, _) = write_and_wait(&leg.leg, number)
                .recv_timeout(WAIT)
                .expect("an end");
            thread == current().id() || alone == current().id()
        });
        let found = is_own
            .take_while(|_| begun.elapsed() < WAIT)
            .find(|is_own| *is_own);
        assert_eq!(found, Some(true), "another thread received each reply");
    }
}

#[test]
fn a_reply_that_its_thread_gives_up_is_received_by_the_leg() {
    let world = World::new();
    let leg = world.leg(session(1, 1));
    for number in 0..50 {
        let (send, response) = channel();
        let done = Box::new(move |result| drop(send.send(result)));
        drop(leg.leg.submit_awaited(write(0, number), done));
        let written = response.recv_timeout(WAIT).expect("an end");
        written.expect("written");
    }
}

/// No reply arrives. The thread stops waiting by its own deadline, long before that of the leg.
#[test]
fn a_thread_gives_up_a_reply_that_does_not_arrive() {
    for world in [World::new(), World::encrypted()] {
        let network = Network::to(world.address());
        let leg = world.leg_by(session(1, 1), network.address, WAIT);
        for number in 0..3 {
            let written = write_and_wait(&leg.leg, number).recv_timeout(WAIT);
            written.expect("an end").1.expect("written");
        }
        network.is_silent.store(true, Ordering::SeqCst);
        let response = write_and_wait(&leg.leg, 4);
        assert!(response.try_recv().is_err(), "the operation is pending");
        leg.leg.close();
        let (_, end) = response.recv_timeout(WAIT).expect("an end");
        assert_eq!(end, Err(LegError::Closed));
    }
}

/// The threads are blocked when the connection is closed.
#[test]
fn replies_that_threads_wait_for_come_by_the_next_session_when_the_link_is_cut() {
    let world = World::encrypted();
    let network = Network::to(world.address());
    let leg = world.leg_by(session(1, 1), network.address, WAIT);
    let writing = &leg.leg;
    let (is_over, begun) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let writers = [(); 3].map(|()| {
            scope.spawn(|| {
                let mut written = 0;
                while !is_over.load(Ordering::SeqCst) && begun.elapsed() < WAIT {
                    let response = write_and_wait(writing, written).recv_timeout(WAIT);
                    response.expect("an end").1.expect("written");
                    written += 1;
                }
                written
            })
        });
        for number in 2..=6 {
            leg.write(0, number as u8).expect("written");
            network.cut();
            assert_eq!(leg.event(), Event::Lost);
            let access = world.access(session(1, number), network.address);
            leg.leg.resume(&access).expect("resumed");
        }
        is_over.store(true, Ordering::SeqCst);
        for writer in writers {
            assert!(writer.join().expect("it ends") > 0);
        }
    });
}

#[test]
fn restarted_lender_fails_the_leg() {
    let mut world = World::new();
    let leg = world.leg(session(1, 1));
    leg.write(0, 1).expect("written");
    world.start(2);
    assert_eq!(leg.event(), Event::Lost);
    let waits = leg.submit(write(0, 2));
    let access = world.access(session(1, 2), world.address());
    let resumed = leg.leg.resume(&access);
    assert_eq!(resumed, Err(LegError::OtherIncarnation));
    let failed = Event::Failed(LegError::OtherIncarnation);
    assert_eq!(leg.event(), failed);
    let response = waits.recv_timeout(WAIT).expect("an end");
    assert_eq!(response, Err(LegError::OtherIncarnation));
    assert_eq!(leg.write(0, 3), Err(LegError::OtherIncarnation));
}

#[test]
fn silent_connection_is_closed_at_deadline() {
    for world in [World::new(), World::encrypted()] {
        receives_nothing(&world);
    }
}

fn receives_nothing(world: &World) {
    let network = Network::to(world.address());
    let leg = world.leg_by(session(1, 1), network.address, SHORT);
    leg.write(0, 1).expect("written");
    network.is_silent.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    // More than the sockets take.
    let answers: Vec<_> = (0..2000_u64)
        .map(|block| leg.submit(write(block * BLOCK as u64, 2)))
        .collect();
    assert!(begun.elapsed() < SHORT, "submitting does not wait");
    for response in answers {
        let response = response.recv_timeout(WAIT).expect("an end");
        assert_eq!(response, Err(LegError::Deadline));
    }
    let took = begun.elapsed();
    assert!(took >= SHORT && took < 5 * SHORT, "{took:?}");
    assert_eq!(leg.event(), Event::Failed(LegError::Deadline));
}

/// As when a process is stopped, or a cable cut: connections are accepted, and no data is sent on them.
#[test]
fn dead_lender_fails_before_deadline() {
    for world in [World::new(), World::encrypted()] {
        let network = Network::to(world.address());
        let access = world.access(session(1, 1), network.address);
        let times = (SHORT / 4, SHORT);
        let leg =
            Leg::connect_requesting(&access, WAIT, world.client_tls(), times).expect("connected");
        leg.write(0, 1).expect("written");
        network.is_silent.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        assert_eq!(leg.write(0, 2), Err(LegError::Silent));
        assert!(begun.elapsed() < WAIT / 2, "{:?}", begun.elapsed());
        assert_eq!(leg.event(), Event::Failed(LegError::Silent));
    }
}

/// A disk delays a reply for longer than the silence after which its lender is probed: the lender is alive, so the leg
/// stays.
#[test]
fn slow_disk_of_live_lender_may_use_whole_deadline() {
    let address = false_lender(Vec::new());
    let access = Access {
        session: session(1, 1),
        incarnation: 1,
        export: "5/any".to_owned(),
        addresses: vec![address],
    };
    let times = (SHORT / 20, WAIT);
    let leg = Leg::connect_requesting(&access, SHORT, None, times).expect("connected");
    let begun = Instant::now();
    assert_eq!(leg.run(Operation::Flush), Err(LegError::Deadline));
    assert!(begun.elapsed() >= SHORT, "{:?}", begun.elapsed());
    assert_eq!(leg.event(), Event::Failed(LegError::Deadline));
}

/// Of two networks to a lender, one is silent: the other one is used, and the leg stays.
#[test]
fn silent_network_is_left_and_leg_stays_on_other_network() {
    let world = World::new();
    let (first, second) = (Network::to(world.address()), Network::to(world.address()));
    let mut access = world.access(session(1, 1), first.address);
    access.addresses.push(second.address);
    let times = (SHORT / 4, SHORT);
    let leg = Leg::connect_requesting(&access, WAIT, None, times).expect("connected");
    leg.write(0, 1).expect("written");
    first.is_silent.store(true, Ordering::SeqCst);
    let waits = leg.submit(write(0, 2));
    assert_eq!(leg.event(), Event::Lost);
    let access = world.access(session(1, 2), second.address);
    leg.leg.resume(&access).expect("resumed");
    let response = waits.recv_timeout(WAIT).expect("an end");
    assert_eq!(response, Ok(Vec::new()));
    assert_eq!(leg.read(0), 2);
}

#[test]
fn lost_connection_fails_at_deadline() {
    let world = World::new();
    let network = Network::to(world.address());
    let leg = world.leg_by(session(1, 1), network.address, SHORT);
    network.cut();
    assert_eq!(leg.event(), Event::Lost);
    let waits = leg.submit(write(0, 1));
    assert_eq!(leg.event(), Event::Failed(LegError::Deadline));
    let response = waits.recv_timeout(WAIT).expect("an end");
    assert_eq!(response, Err(LegError::Deadline));
}

/// Claims a listener that sends `replies` to any data after the handshake. Further connections are greeted.
fn false_lender(replies: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut said = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
        let reply = |kind: u32, body: &[u8]| {
            let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
            for number in [7, kind, body.len() as u32] {
                bytes.extend(number.to_be_bytes());
            }
            [&bytes[..], body].concat()
        };
        let mut about = vec![0, 0];
        about.extend(BYTES.to_be_bytes());
        about.extend(0b10_1101_u16.to_be_bytes());
        said.extend(reply(3, &about));
        said.extend(reply(1, &[]));
        client.write_all(&said).expect("said");
        let greets = move || {
            for mut client in listener.incoming().map_while(Result::ok) {
                let _ = client.write_all(b"NBDMAGICIHAVEOPT\0\x03");
            }
        };
        std::thread::spawn(greets);
        let mut asked = [0; 28];
        while client.read_exact(&mut asked).is_ok() {
            if client.write_all(&replies).is_err() {
                return;
            }
        }
    });
    address
}

#[test]
fn lender_protocol_violation_fails_the_leg() {
    let mut unasked = 0x6744_6698_u32.to_be_bytes().to_vec();
    unasked.extend([0; 4]);
    unasked.extend(999_u64.to_be_bytes());
    for replies in [b"no reply at all.".to_vec(), unasked] {
        let access = Access {
            session: session(1, 1),
            incarnation: 1,
            export: "5/any".to_owned(),
            addresses: vec![false_lender(replies)],
        };
        let leg = Leg::connect(&access, WAIT, None).expect("connected");
        let response = leg.run(Operation::Flush);
        assert!(
            matches!(response, Err(LegError::Protocol(_))),
            "{response:?}"
        );
        assert!(matches!(leg.event(), Event::Failed(LegError::Protocol(_))));
    }
}

#[test]
fn session_without_the_secret_is_refused() {
    let world = World::new();
    let _leg = world.leg(session(1, 1));
    for export in ["5/", "5/00000000000000000000000000000000", "6", "5"] {
        let access = Access {
            session: session(1, 1),
            incarnation: 1,
            export: export.to_owned(),
            addresses: vec![world.address()],
        };
        let refused = Leg::connect(&access, WAIT, None).err();
        // The name of the disk alone is to be looked at.
        let is_refused = matches!(refused, Some(LegError::Refused(_) | LegError::Protocol(_)));
        assert!(is_refused, "{export}: {refused:?}");
    }
}

#[test]
fn disk_is_lent_to_one_session_at_a_time() {
    let world = World::new();
    let again = world.lender().lend(DISK, &world.path());
    assert!(matches!(again, Err(LendError::Twice(5))));
    let other_name = world.lender().lend(DiskId(6), &world.path());
    assert!(matches!(other_name, Err(LendError::Open(6, _))));
    let unknown = world.lender().claim(DiskId(6), session(1, 1));
    assert!(matches!(unknown, Err(ClaimError::NotLent(6))));
}

#[test]
fn stock_clients_inspect_lent_disk_without_session() {
    let world = World::new();
    let leg = world.leg(session(1, 1));
    leg.write(8192, 7).expect("written");
    let uri = format!("nbd://{}", world.address());
    let run = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output().ok()?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program}: {errors}");
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(listed) = run("nbdinfo", &["--list", &uri]) else {
        let _ = writeln!(std::io::stderr(), "skipped: nbdinfo is not installed");
        return;
    };
    assert!(listed.contains("export=\"5\""), "{listed}");
    assert!(listed.contains("is_read_only: true"), "{listed}");
    assert_eq!(listed.matches("export=").count(), 1, "{listed}");
    let copy = world.folder.path().join("copy");
    let copy = copy.to_str().expect("text");
    let by_qemu = run(
        "qemu-img",
        &["convert", "-O", "raw", &format!("{uri}/5"), copy],
    );
    if by_qemu.is_none() {
        let _ = writeln!(std::io::stderr(), "skipped: qemu-img is not installed");
        return;
    }
    let copied = std::fs::read(copy).expect("copied");
    assert_eq!(copied.len() as u64, BYTES);
    assert_eq!(copied[8192..][..BLOCK], [7; BLOCK]);
    // With explicit access, its holder writes with a stock client, too.
    let access = world.access(session(1, 2), world.address());
    let uri = format!("{uri}/{}", access.export);
    run(
        "qemu-io",
        &["-f", "raw", "-c", "write -P 9 8192 4096", &uri],
    );
    let file = std::fs::read(world.path()).expect("file");
    assert_eq!(file[8192..][..BLOCK], [9; BLOCK]);
}

/// A process of this host opens the disk itself: the lender has closed it, and lends it again when it has its lock.
#[test]
fn released_disk_is_lent_again_after_local_user_exits() {
    let world = World::new();
    let lender = world.lender();
    let own = lender.give(DISK, session(3, 1)).expect("a response");
    assert!(matches!(own.response, LenderResponse::Admitted(..)));
    assert_eq!(own.export, None);
    let disk = Disk::open(&world.path()).expect("it was let go");
    let again = lender.give(DISK, session(3, 2)).expect("the same process");
    assert!(matches!(again.response, LenderResponse::Admitted(..)));
    std::thread::scope(|scope| {
        let claim = scope.spawn(|| world.claim(session(4, 1)));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!claim.is_finished(), "its owner may still write");
        drop(disk);
        let grant = claim.join().expect("no panic");
        assert!(matches!(grant.response, LenderResponse::Admitted(..)));
    });
    let refused = lender.give(DISK, session(3, 3)).expect("a response");
    assert!(
        matches!(refused.response, LenderResponse::Refused(_)),
        "older"
    );
}

#[test]
fn damaged_file_blocks_only_its_disk_until_removed() {
    let world = World::new();
    let lender = world.lender();
    let (damaged, other) = (DiskId(6), world.folder.path().join("other"));
    let file = std::fs::File::create(&other).expect("file");
    file.set_len(BYTES).expect("sized");
    let kept = world.folder.path().join("6.lent");
    std::fs::write(&kept, b"damaged").expect("written");
    let lent = lender.lend_when_free(damaged, &other);
    lent.expect("the lender continues");
    let asked = session(1, 1);
    let claim = |disk| {
        let grant = lender.response(disk, LenderRequest::Claim(asked), MemberId(2), false);
        grant.expect("a response").response
    };
    assert_eq!(claim(damaged), LenderResponse::Refused(asked));
    assert_eq!(claim(damaged), LenderResponse::Refused(asked));
    assert_eq!(std::fs::read(&kept).expect("kept"), b"damaged");
    assert!(matches!(claim(DISK), LenderResponse::Admitted(..)));
    let again = lender.lend_when_free(damaged, &other);
    assert!(matches!(again, Err(LendError::Twice(6))));
    std::fs::remove_file(&kept).expect("removed");
    assert!(matches!(claim(damaged), LenderResponse::Admitted(..)));
}
