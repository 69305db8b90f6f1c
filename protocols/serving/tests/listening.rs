//! Listeners, connection limits, and the two ways to end connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serving::{
    Connection, ConnectionLimits, Connections, Directive, EarlySockets, Link, ListenAddress,
    ListenError, Listener, OpenSocket, OutboundLimits, Reply, Turn,
};

/// Lets in a client that sends data, and echoes it; sends a goodbye when drained.
fn echo(connection: Arc<Connection>) {
    let (stream, waker) = (
        Arc::clone(&connection.stream),
        Arc::clone(&connection.waker),
    );
    let mut link = Link::new(stream, waker, OutboundLimits::default(), 4096);
    loop {
        match link.turn(None).unwrap() {
            Turn::Input(_) => {
                if !connection.admit_peer() {
                    return;
                }
                link.outbound().push(Reply::with_payload(
                    b"",
                    serving::Payload::Bytes(link.bytes().to_vec()),
                ));
                link.consume(usize::MAX / 2);
            }
            Turn::Woken if connection.directive() == Directive::Drain => {
                link.outbound().push(Reply::head(b"bye"));
                link.settle(Instant::now() + Duration::from_secs(10));
                return;
            }
            Turn::Woken => {}
            Turn::Closed | Turn::Deadline | Turn::Stalled => return,
        }
    }
}

fn listen(
    address: &ListenAddress,
    early: &EarlySockets,
    connections: Arc<Connections>,
) -> Result<Listener, ListenError> {
    let socket = OpenSocket::open(address, early)?;
    Listener::start("echo", socket, connections, Arc::new(echo))
}

fn start(address: &str, limits: ConnectionLimits) -> (Listener, Arc<Connections>) {
    let connections = Connections::new(limits);
    let address: ListenAddress = address.parse().unwrap();
    let listener = listen(&address, &EarlySockets::default(), Arc::clone(&connections)).unwrap();
    (listener, connections)
}

fn connect(listener: &Listener) -> TcpStream {
    let ListenAddress::Tcp(address) = listener.address() else {
        panic!("not TCP")
    };
    let client = TcpStream::connect(address).unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    client
}

fn round_trip(client: &mut (impl Read + Write)) {
    client.write_all(b"ping").unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}

#[test]
fn tcp_of_both_families_and_unix_sockets_are_served() {
    let (v4, _keep) = start("127.0.0.1:0", ConnectionLimits::default());
    round_trip(&mut connect(&v4));
    let (v6, _keep) = start("[::1]:0", ConnectionLimits::default());
    round_trip(&mut connect(&v6));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let text = format!("unix:{}", path.display());
    let (unix, _keep) = start(&text, ConnectionLimits::default());
    round_trip(&mut UnixStream::connect(&path).unwrap());
    drop(unix);
    assert!(!path.exists(), "the socket is removed");
}

#[test]
fn listen_on_an_unassigned_address_succeeds() {
    // No host has an address of TEST-NET-1 or of the documentation prefix.
    let (_v4, _keep) = start("192.0.2.1:0", ConnectionLimits::default());
    let (_v6, _keep) = start("[2001:db8::1]:0", ConnectionLimits::default());
}

#[test]
fn busy_port_is_an_error_and_a_stale_unix_socket_is_replaced() {
    let (first, connections) = start("127.0.0.1:0", ConnectionLimits::default());
    let again = listen(first.address(), &EarlySockets::default(), connections);
    assert_eq!(
        again.err().unwrap().cause.kind(),
        std::io::ErrorKind::AddrInUse
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let text = format!("unix:{}", path.display());
    let (_unix, _keep) = start(&text, ConnectionLimits::default());
    round_trip(&mut UnixStream::connect(&path).unwrap());
}

/// More than a server has worker threads, and all before it has any.
const EARLY_CLIENTS: usize = 300;

#[test]
fn early_clients_are_served_once_the_server_starts() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        // A port that was free shortly before.
        let free = std::net::TcpListener::bind(address).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let early = EarlySockets::bind([address, address]).unwrap();
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        early.listen().unwrap();
        let mut clients: Vec<TcpStream> = (0..EARLY_CLIENTS)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        for client in &mut clients {
            client.write_all(b"ping").unwrap();
        }
        let limits = ConnectionLimits {
            strangers_max: EARLY_CLIENTS,
            strangers_per_network_max: EARLY_CLIENTS,
            ..ConnectionLimits::default()
        };
        let connections = Connections::new(limits);
        let _keep = listen(&ListenAddress::Tcp(address), &early, connections).unwrap();
        for client in &mut clients {
            client
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            let mut answer = [0; 4];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"ping");
        }
    }
}

#[test]
fn unused_early_sockets_close_clients_and_report_busy_ports() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    let busy = EarlySockets::bind([address]).unwrap_err();
    assert_eq!(busy.cause.kind(), std::io::ErrorKind::AddrInUse);
    drop(free);
    let early = EarlySockets::bind([address]).unwrap();
    early.listen().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    drop(early);
    let mut byte = [0];
    let gone = client.read(&mut byte).unwrap_err();
    assert_eq!(gone.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn connection_over_the_limit_is_closed_and_others_continue() {
    let limits = ConnectionLimits {
        total_max: 10,
        per_network_max: 2,
        ..ConnectionLimits::default()
    };
    let (listener, connections) = start("127.0.0.1:0", limits);
    let (mut one, mut two) = (connect(&listener), connect(&listener));
    round_trip(&mut one);
    round_trip(&mut two);
    let mut three = connect(&listener);
    three.write_all(b"ping").unwrap();
    assert_eq!(three.read(&mut [0; 1]).unwrap_or(0), 0);
    assert_eq!(connections.refused(), 1);
    round_trip(&mut one);
}

/// Idle unauthenticated clients do not block served clients, and are evicted by later clients.
#[test]
fn unauthenticated_connections_do_not_block_new_ones() {
    const STRANGERS: usize = 8;
    let limits = ConnectionLimits {
        total_max: 3,
        strangers_max: STRANGERS,
        ..ConnectionLimits::default()
    };
    let (listener, connections) = start("127.0.0.1:0", limits);
    let mut served = connect(&listener);
    round_trip(&mut served);
    let mut strangers: Vec<_> = (0..STRANGERS).map(|_| connect(&listener)).collect();
    wait_until("all strangers are there", || {
        connections.count() == STRANGERS + 1
    });
    for _ in 0..2 {
        let mut newcomer = connect(&listener);
        round_trip(&mut newcomer);
        round_trip(&mut served);
        strangers.push(connect(&listener));
        wait_until("all places are taken again", || {
            connections.refused() as usize + 8 == strangers.len()
        });
        std::mem::forget(newcomer);
    }
    let mut dropped = 0;
    for stranger in &mut strangers {
        stranger.set_nonblocking(true).unwrap();
        dropped += usize::from(!matches!(
            stranger.read(&mut [0; 1]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock
        ));
    }
    assert_eq!(dropped, 2, "the oldest two are evicted");
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "did not happen: {what}");
        std::thread::yield_now();
    }
}

#[test]
fn drain_sends_a_farewell_and_drop_does_not() {
    let (listener, connections) = start("127.0.0.1:0", ConnectionLimits::default());
    let mut client = connect(&listener);
    round_trip(&mut client);
    connections.direct_all(Directive::Drain);
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"bye");
    assert!(connections.wait_until_empty(Instant::now() + Duration::from_secs(30)));

    let (listener, connections) = start("127.0.0.1:0", ConnectionLimits::default());
    let mut client = connect(&listener);
    round_trip(&mut client);
    connections.direct_all(Directive::Drop);
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    assert!(rest.is_empty());
    assert!(connections.wait_until_empty(Instant::now() + Duration::from_secs(30)));
}
