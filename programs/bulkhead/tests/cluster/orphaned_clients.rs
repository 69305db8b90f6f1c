//! Clients that are blocked on a response while their server exits with its addresses: a stop sends nothing that would
//! disconnect them too early, and the next owner resets their connections at once.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::common::nbd::Nbd;
use crate::common::{SERVER_WAIT, ServerProcess, TestHost, eventually};
use control::Request;
use control::request::ServerRequest;
use nix::sched::{CloneFlags, setns, unshare};

const ADDRESSES: [(&str, &str); 2] = [
    ("10.77.1.100/24", "10.77.1.100"),
    ("fd77::100/64", "fd77::100"),
];
/// How long the test checks that no packet arrives. A longer stall of the host hides a fault and
/// causes none.
const SILENCE: Duration = Duration::from_millis(700);

/// A network namespace; it exists as long as this value, or a process in it.
struct Network(File);

impl Network {
    /// `None` where this host permits none.
    fn new() -> Option<Self> {
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).ok()?;
            File::open("/proc/thread-self/ns/net").ok()
        });
        made.join().expect("no panic").map(Self)
    }

    /// Runs `work` in it; child processes are in it, too.
    fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            setns(&self.0, CloneFlags::CLONE_NEWNET).expect("it is ours");
            work()
        };
        std::thread::scope(|scope| scope.spawn(inside).join().expect("no panic"))
    }

    fn ip(&self, words: &str) {
        let output = self.enter(|| Command::new("ip").args(words.split(' ')).output());
        let output = output.expect("ip runs");
        assert!(output.status.success(), "ip {words}: {output:?}");
    }

    /// The name of it for `ip`.
    fn path(&self) -> String {
        use std::os::fd::AsRawFd;
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// Two heads and a client at one switch, and a pool that either head can serve.
struct Scene {
    machine: TestHost,
    heads: [Network; 2],
    client: Network,
}

impl Scene {
    #[expect(clippy::print_stderr, reason = "a skipped test prints the reason")]
    fn new() -> Option<Self> {
        let (Some(left), Some(right), Some(client)) =
            (Network::new(), Network::new(), Network::new())
        else {
            eprintln!("skipped: no network namespaces here");
            return None;
        };
        client.ip("link add switch type bridge forward_delay 0");
        client.ip("addr add 10.77.1.200/24 dev switch");
        client.ip("addr add fd77::200/64 dev switch nodad");
        for (port, head) in [("left", &left), ("right", &right)] {
            let end = head.path();
            client.ip(&format!(
                "link add {port} type veth peer name client netns {end}"
            ));
            client.ip(&format!("link set {port} master switch up"));
            head.ip("link set client up");
        }
        client.ip("link set switch up");
        let machine = TestHost::with_disks(&["a", "b"]);
        machine.ok("pool create tank mirror a b");
        machine.ok("volume create tank/v --size 32M --sparse");
        machine.ok(
            "nbd export tank/v --name v --allow-network 10.77.1.0/24 --allow-network fd77::/64",
        );
        let heads = [left, right];
        Some(Self {
            machine,
            heads,
            client,
        })
    }

    /// Serves on a head, and then sets the addresses there.
    fn serve(&self, head: usize) -> ServerProcess {
        let options = "--nbd 10.77.1.100:10809 --nbd [fd77::100]:10809 --drain-timeout 0";
        let head = &self.heads[head];
        let server = head.enter(|| self.machine.serve(options));
        for (address, _) in ADDRESSES {
            head.ip(&format!("addr add {address} dev client nodad"));
        }
        server
    }

    fn withdraw_addresses(&self, head: usize) {
        for (address, _) in ADDRESSES {
            self.heads[head].ip(&format!("addr del {address} dev client"));
        }
    }

    /// Opens connections over both families that have received a response, and are idle.
    fn connect(&self) -> Vec<TcpStream> {
        let connect = |address: &str| {
            let mut stream = None;
            // The address may not be in the routing table yet.
            eventually("connected", || {
                stream = TcpStream::connect((address, 10_809)).ok();
                stream.is_some()
            });
            let stream = stream.expect("connected");
            stream.set_read_timeout(Some(SERVER_WAIT)).expect("set");
            let mut client = Nbd::over(stream, "v").expect("served");
            client.read(0, 512).expect("an answer");
            client.stream
        };
        self.client
            .enter(|| ADDRESSES.map(|(_, address)| connect(address)).into())
    }

    /// The agent's request before it removes the addresses.
    fn settle(&self) {
        let socket = self.machine.path("run").join("tank.sock");
        let mut server = control::Client::connect(&socket).expect("a server");
        let settled = server.call(Request::Server(ServerRequest::Settle), &mut |_| ());
        settled.expect("settled");
    }
}

fn assert_silent(clients: &mut [TcpStream]) {
    for client in clients {
        client.set_read_timeout(Some(SILENCE)).expect("set");
        let heard = client.read(&mut [0; 64]);
        let nothing = heard
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        assert!(nothing, "{heard:?} from {:?}", client.peer_addr());
        client.set_read_timeout(Some(SERVER_WAIT)).expect("set");
    }
}

fn assert_reset(clients: Vec<TcpStream>) {
    for mut client in clients {
        let heard = client.read(&mut [0; 64]);
        let reset = heard
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionReset);
        assert!(reset, "{heard:?} from {:?}", client.peer_addr());
    }
}

#[test]
fn clients_of_moved_pool_are_reset_only_by_next_owner() {
    let Some(scene) = Scene::new() else { return };
    let server = scene.serve(0);
    let mut clients = scene.connect();
    scene.settle();
    scene.withdraw_addresses(0);
    assert_eq!(server.stop(), 0, "{}", scene.machine.log());
    assert_silent(&mut clients);
    let _server = scene.serve(1);
    assert_reset(clients);
    scene.connect();
}

#[test]
fn clients_of_head_without_power_are_reset_by_next_owner() {
    let Some(scene) = Scene::new() else { return };
    let server = scene.serve(0);
    let mut clients = scene.connect();
    scene.settle();
    // No packet leaves the head any more; then its server is gone.
    scene.heads[0].ip("link set client down");
    server.kill();
    assert_silent(&mut clients);
    let _server = scene.serve(1);
    assert_reset(clients);
    scene.connect();
}

/// Where the addresses stay, the exit of the server closes the connections of its clients.
#[test]
fn final_stop_closes_client_connections() {
    let Some(scene) = Scene::new() else { return };
    let server = scene.serve(0);
    let clients = scene.connect();
    assert_eq!(server.stop(), 0, "{}", scene.machine.log());
    for mut client in clients {
        assert_eq!(client.read(&mut [0; 64]).expect("the end"), 0);
    }
}
