//! Listening, limits on connections, and the two ways they are ended.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serving::{
    Answer, Connection, ConnectionLimits, Connections, Directive, Link, ListenAddress, Listener,
    OutboundLimits, Turn,
};

/// Sends back what it gets; says goodbye when drained.
fn echo(connection: Arc<Connection>) {
    let (stream, waker) = (
        Arc::clone(&connection.stream),
        Arc::clone(&connection.waker),
    );
    let mut link = Link::new(stream, waker, OutboundLimits::default(), 4096);
    loop {
        match link.turn(None).unwrap() {
            Turn::Input(_) => {
                link.outbound().push(Answer::with_payload(
                    b"",
                    serving::Payload::Bytes(link.bytes().to_vec()),
                ));
                link.consume(usize::MAX / 2);
            }
            Turn::Woken if connection.directive() == Directive::Drain => {
                link.outbound().push(Answer::head(b"bye"));
                link.settle(Instant::now() + Duration::from_secs(10));
                return;
            }
            Turn::Woken => {}
            Turn::Closed | Turn::Deadline | Turn::Stalled => return,
        }
    }
}

fn start(address: &str, limits: ConnectionLimits) -> (Listener, Arc<Connections>) {
    let connections = Connections::new(limits);
    let address: ListenAddress = address.parse().unwrap();
    let listener =
        Listener::start("echo", &address, Arc::clone(&connections), Arc::new(echo)).unwrap();
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
fn an_address_of_nobody_yet_can_be_listened_on() {
    // TEST-NET-1 and the documentation prefix belong to no machine.
    let (_v4, _keep) = start("192.0.2.1:0", ConnectionLimits::default());
    let (_v6, _keep) = start("[2001:db8::1]:0", ConnectionLimits::default());
}

#[test]
fn a_busy_port_is_an_error_and_a_stale_unix_socket_is_not() {
    let (first, connections) = start("127.0.0.1:0", ConnectionLimits::default());
    let again = Listener::start("echo", first.address(), connections, Arc::new(echo));
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

#[test]
fn a_connection_over_the_limit_is_closed_and_the_others_go_on() {
    let limits = ConnectionLimits {
        total_max: 10,
        per_address_max: 2,
    };
    let (listener, connections) = start("127.0.0.1:0", limits);
    let (mut one, mut two) = (connect(&listener), connect(&listener));
    round_trip(&mut one);
    round_trip(&mut two);
    let mut three = connect(&listener);
    assert_eq!(three.read(&mut [0; 1]).unwrap_or(0), 0);
    assert_eq!(connections.refused(), 1);
    round_trip(&mut one);
}

#[test]
fn draining_says_goodbye_and_dropping_does_not() {
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
