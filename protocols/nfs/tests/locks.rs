//! A server on sockets and an NFS 3 host with locks: it uses the port mapper, blocks on a lock,
//! receives a callback, and reclaims its locks after a restart.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use file_system::memory::MemoryFileSystem;
use file_system::{FileSystem, Handle, Identity, Make, SetAttributes};
use nfs::exports::Shared;
use nfs::handles::HandleKey;
use nfs::server::{DesiredState, LockPorts, NfsServer, ServerLimits};
use nfs::sharenfs::Share;
use nfs::v4::{ClientRecord, PersistentState, Presentation};
use nfs::xdr::{Reader, Writer};
use serving::{ConnectionLimits, ListenAddress};

const EVENT_TIMEOUT: Duration = Duration::from_secs(20);
const NLM: (u32, u32) = (100_021, 4);
const NSM: (u32, u32) = (100_024, 1);
const PORTS: (u32, u32) = (100_000, 2);
const GET_PORT: u32 = 3;
const LOCK: u32 = 2;
const UNLOCK: u32 = 4;
const GRANTED: u32 = 5;
const NOTIFY: u32 = 6;
const IS_GRANTED: u32 = 0;
const IS_BLOCKED: u32 = 3;

#[derive(Default)]
struct Record(Mutex<PersistentState>);

impl ClientRecord for Record {
    fn keep(&self, persistent_state: &PersistentState) -> bool {
        *self.0.lock().expect("no panic") = persistent_state.clone();
        true
    }
}

/// The header of a call: transaction ID, program, version and procedure.
fn header(number: u32, (program, version): (u32, u32), procedure: u32) -> Writer {
    let mut call = Writer::new();
    for word in [number, 0, 2, program, version, procedure] {
        call.u32(word);
    }
    // AUTH_SYS of root, and no verifier.
    for word in [1, 20, 0, 0, 0, 0, 0, 0, 0] {
        call.u32(word);
    }
    call
}

/// Returns the results of a reply.
fn results(answer: &[u8]) -> Vec<u8> {
    let accepted: Vec<u8> = [1_u32, 0, 0, 0, 0]
        .iter()
        .flat_map(|word| word.to_be_bytes())
        .collect();
    assert_eq!(answer[4..24], accepted);
    answer[24..].to_vec()
}

fn key() -> HandleKey {
    HandleKey::new(&[7; HandleKey::BYTES])
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("connected");
    stream.set_read_timeout(Some(EVENT_TIMEOUT)).expect("set");
    stream
}

/// Sends a call over a new connection.
fn call(to: SocketAddr, program: (u32, u32), procedure: u32, arguments: &Writer) -> Vec<u8> {
    call_by(&mut connect(to), program, procedure, arguments)
}

fn call_by(
    stream: &mut TcpStream,
    program: (u32, u32),
    procedure: u32,
    arguments: &Writer,
) -> Vec<u8> {
    let mut call = header(7, program, procedure);
    call.append(arguments.bytes());
    let mark = 0x8000_0000 | call.len() as u32;
    stream
        .write_all(&[&mark.to_be_bytes(), call.bytes()].concat())
        .expect("sent");
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).expect("a mark");
    let mut answer = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut answer).expect("an answer");
    results(&answer)
}

/// Sends a call in a datagram.
fn send_datagram(
    to: SocketAddr,
    program: (u32, u32),
    procedure: u32,
    arguments: &Writer,
) -> Vec<u8> {
    let mut call = header(8, program, procedure);
    call.append(arguments.bytes());
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    socket.set_read_timeout(Some(EVENT_TIMEOUT)).expect("set");
    socket.send_to(call.bytes(), to).expect("sent");
    let mut answer = [0; 2048];
    let (length, _) = socket.recv_from(&mut answer).expect("an answer");
    results(&answer[..length])
}

/// The RPC programs of a host: rpcbind, which returns the port of this socket for every one.
struct Host(UdpSocket);

impl Host {
    fn new() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        socket.set_read_timeout(Some(EVENT_TIMEOUT)).expect("set");
        Self(socket)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().expect("an address").port()
    }

    /// Replies until the server calls this procedure. Returns its arguments.
    fn is_called(&self, program: (u32, u32), procedure: u32) -> Vec<u8> {
        loop {
            let mut bytes = [0; 2048];
            let (length, from) = self.0.recv_from(&mut bytes).expect("a call");
            let mut reader = Reader::new(&bytes[..length]);
            let number = reader.u32().expect("a number");
            let _call_and_version = reader.u64().expect("a call");
            let asked = (
                reader.u32().expect("a program"),
                reader.u32().expect("a version"),
            );
            let of = reader.u32().expect("a procedure");
            reader.fixed(16).expect("nobody");
            let mut answer = Writer::new();
            for word in [number, 1, 0, 0, 0, 0] {
                answer.u32(word);
            }
            match asked {
                PORTS => answer.u32(self.port().into()),
                NLM => {
                    answer.opaque(b"cookie");
                    answer.u32(IS_GRANTED);
                }
                _ => {}
            }
            self.0.send_to(answer.bytes(), from).expect("sent");
            if (asked, of) == (program, procedure) {
                return reader.rest().to_vec();
            }
        }
    }
}

struct World {
    files: Arc<MemoryFileSystem>,
    file: Handle,
    record: Arc<Record>,
    host: Host,
}

impl World {
    fn new() -> Self {
        let files = Arc::new(MemoryFileSystem::with_guid(5, 1 << 20));
        let root = Identity {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        };
        let nothing = SetAttributes::default();
        let made = files.make(&root, files.root(), b"file", Make::File, &nothing, None);
        let file = Handle {
            file_system: files.id(),
            node: made.expect("made").object.node,
        };
        Self {
            files,
            file,
            record: Arc::default(),
            host: Host::new(),
        }
    }

    /// Starts a server. Returns it with its NFS address and its port mapper address.
    fn serve(&self) -> (NfsServer, SocketAddr, SocketAddr) {
        self.serve_by("rw=127.0.0.0/8,no_root_squash,insecure", <_>::default())
    }

    fn serve_by(
        &self,
        rule: &str,
        connections: ConnectionLimits,
    ) -> (NfsServer, SocketAddr, SocketAddr) {
        let presentation = Presentation {
            owner: b"tank".to_vec(),
            start: 7,
            handle_key: key(),
            lease_seconds: 20,
            grace_seconds: 20,
        };
        let limits = ServerLimits {
            connections,
            ports: LockPorts {
                nfs: Some(0),
                own: 0,
                theirs: self.host.port(),
            },
            ..ServerLimits::default()
        };
        let earlier = self.record.0.lock().expect("no panic").clone();
        let record = Arc::<Record>::clone(&self.record);
        let server = NfsServer::after(presentation, limits, earlier, record);
        let share = Share::parse(rule);
        let shared = Shared {
            name: String::new(),
            share: share.expect("a share").expect("not off"),
            files: Arc::<MemoryFileSystem>::clone(&self.files),
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let desired = DesiredState {
            listeners: vec![ListenAddress::Tcp(address)],
            shared: vec![shared],
            ..DesiredState::default()
        };
        server.apply(desired).expect("it serves");
        let files = server.listeners()[0].tcp().expect("an address");
        let ports = server.port_listeners()[0];
        (server, files, ports)
    }

    /// Appends a lock of the whole file for a process of a host.
    fn write_lock(&self, host: &str, call: &mut Writer) {
        call.opaque(host.as_bytes());
        call.opaque(&key().sign(self.file));
        call.opaque(b"owner");
        call.u32(9);
        call.u64(0);
        call.u64(0);
    }

    fn lock(&self, to: SocketAddr, host: &str, waits: bool, is_reclaim: bool) -> u32 {
        let mut arguments = Writer::new();
        arguments.opaque(b"cookie");
        arguments.boolean(waits);
        arguments.boolean(true);
        self.write_lock(host, &mut arguments);
        arguments.boolean(is_reclaim);
        arguments.u32(3);
        status(&call(to, NLM, LOCK, &arguments))
    }

    fn unlock(&self, to: SocketAddr, host: &str) -> u32 {
        let mut arguments = Writer::new();
        arguments.opaque(b"cookie");
        self.write_lock(host, &mut arguments);
        status(&call(to, NLM, UNLOCK, &arguments))
    }
}

fn status(results: &[u8]) -> u32 {
    let mut reader = Reader::new(results);
    assert_eq!(reader.opaque(64), Ok(&b"cookie"[..]));
    reader.u32().expect("a status")
}

#[test]
fn blocked_lock_is_granted_and_reclaimed_after_restart() {
    let world = World::new();
    let (server, files, ports) = world.serve();
    let mut where_is_nlm = Writer::new();
    for word in [NLM.0, NLM.1, 6, 0] {
        where_is_nlm.u32(word);
    }
    let port = u32::from(files.port()).to_be_bytes();
    assert_eq!(call(ports, PORTS, GET_PORT, &where_is_nlm), port);
    assert_eq!(send_datagram(ports, PORTS, GET_PORT, &where_is_nlm), port);
    assert_eq!(world.lock(files, "a", false, false), IS_GRANTED);
    assert_eq!(world.lock(files, "b", true, false), IS_BLOCKED);
    assert_eq!(world.unlock(files, "a"), IS_GRANTED);
    let mut granted = Writer::new();
    granted.opaque(b"cookie");
    granted.boolean(true);
    world.write_lock("b", &mut granted);
    assert_eq!(world.host.is_called(NLM, GRANTED), granted.into_bytes());
    // As if the server was killed: it sends nothing, and its record remains.
    drop(server);
    let (_server, files, ports) = world.serve();
    let told = world.host.is_called(NSM, NOTIFY);
    let mut reader = Reader::new(&told);
    assert_eq!(
        (reader.opaque(64), reader.u32()),
        (Ok(&b"127.0.0.1"[..]), Ok(3))
    );
    assert_eq!(world.lock(files, "b", false, true), IS_GRANTED);
    assert_ne!(world.lock(files, "a", false, false), IS_GRANTED);
    // The host restarts: its state is removed.
    let mut starts = Writer::new();
    starts.opaque(b"b");
    starts.u32(5);
    assert!(send_datagram(ports, NSM, NOTIFY, &starts).is_empty());
    let until = Instant::now() + EVENT_TIMEOUT;
    while world.lock(files, "a", false, false) != IS_GRANTED {
        assert!(Instant::now() < until, "nobody has it");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nfs_and_portmapper_ports_serve_only_their_programs() {
    let world = World::new();
    let (_server, files, ports) = world.serve();
    let unavailable = |to: SocketAddr, program: (u32, u32)| {
        let call = header(7, program, 0);
        let mut stream = TcpStream::connect(to).expect("connected");
        stream.set_read_timeout(Some(EVENT_TIMEOUT)).expect("set");
        let mark = 0x8000_0000 | call.len() as u32;
        stream
            .write_all(&[&mark.to_be_bytes(), call.bytes()].concat())
            .expect("sent");
        let mut answer = [0; 28];
        stream.read_exact(&mut answer).expect("an answer");
        answer[24..] == 1_u32.to_be_bytes()
    };
    for program in [(100_003, 3), (100_003, 4), (100_005, 3), NLM] {
        assert!(unavailable(ports, program) && !unavailable(files, program));
    }
    for program in [PORTS, NSM] {
        assert!(unavailable(files, program) && !unavailable(ports, program));
    }
}

/// `mount` probes the server from an unprivileged port.
#[test]
fn unprivileged_port_gets_only_null_replies() {
    let world = World::new();
    let (_server, files, ports) = world.serve_by("rw=127.0.0.0/8", <_>::default());
    for program in [(100_003, 3), (100_005, 3), NLM] {
        assert!(call(files, program, 0, &Writer::new()).is_empty());
    }
    assert!(call(ports, PORTS, 0, &Writer::new()).is_empty());
    let mut stream = TcpStream::connect(files).expect("connected");
    stream.set_read_timeout(Some(EVENT_TIMEOUT)).expect("set");
    let call = header(7, NLM, 23);
    let mark = 0x8000_0000 | call.len() as u32;
    stream
        .write_all(&[&mark.to_be_bytes(), call.bytes()].concat())
        .expect("sent");
    assert!(
        !matches!(stream.read(&mut [0; 64]), Ok(1..)),
        "it is answered"
    );
}

#[test]
fn portmapper_clients_use_no_nfs_connection_slots() {
    let world = World::new();
    let connections = ConnectionLimits {
        per_network_max: 1,
        ..ConnectionLimits::default()
    };
    let rule = "rw=127.0.0.0/8,no_root_squash,insecure";
    let (_server, files, ports) = world.serve_by(rule, connections);
    let mut asking = connect(ports);
    for _ in 0..2 {
        assert!(call_by(&mut asking, PORTS, 0, &Writer::new()).is_empty());
    }
    assert_eq!(world.lock(files, "a", false, false), IS_GRANTED);
}
