//! A protocol that exists only in this test: it registers, gets its addresses by its own options and requests, and is
//! exported, listed, counted, drained and notified like the real ones.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use ::protocol_list::TlsOptions;
use ::serving::ListenAddress;
use block_device::{Extent, WaitMode};
use control::answer::ServerStatus;
use engine::Pool;
use engine::capabilities::Datasets as _;
use engine::dataset::{Value, VolumeSpec};
use memory_engine::MemoryPool;
use operations::in_use::Used;
use units::ByteCount;

use super::*;
use crate::listen::Listen;
use crate::rescue::Rescues;
use crate::serving::Serving;

const ECHO: Description = Description {
    name: "echo",
    title: "Echo",
    place: "echo socket",
    nowhere: "no-echo",
    port: 7,
    has_groups: false,
    has_unix: true,
    binds_late: false,
    places: &["127.0.0.1:7"],
    note: "it may be any;",
    tls: Some(TlsOptions {
        certificate: "echo-tls-cert",
        key: "echo-tls-key",
        authority: "echo-tls-ca",
        is_required: true,
    }),
    keytab: Some("echo-keytab"),
};
/// The property of a volume that sets its name in the protocol.
const PROPERTY: &str = "bulkhead:echo";
const BLOCK: usize = 4096;

/// A client sends the name of an export and then blocks. Each block is written to the start of the volume, read, and
/// sent back.
struct Echo {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    exports: BTreeMap<String, (VolumeName, SharedDevice)>,
    clients: Vec<Connected>,
    sockets: Vec<PathBuf>,
    closed_by_resize: u64,
}

struct Connected {
    export: String,
    by: PathBuf,
    stream: UnixStream,
}

impl Echo {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn listen(&self, socket: PathBuf) {
        let listener = UnixListener::bind(&socket).expect("a socket");
        let state = Arc::clone(&self.state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.expect("a client"), Arc::clone(&state));
                let by = socket.clone();
                std::thread::spawn(move || serve(stream, by, &state));
            }
        });
    }

    fn client(one: &Connected) -> Client {
        Client {
            export: one.export.clone(),
            name: "somebody".to_owned(),
            title: "echo client".to_owned(),
            peers: vec![Peer::Unix { uid: 0, pid: 1 }],
        }
    }
}

fn sockets(addresses: &Addresses) -> Vec<PathBuf> {
    let listeners = addresses.listeners(ECHO.name).into_iter();
    let sockets = listeners.map(|listener| match listener {
        ListenAddress::Unix(path) => path,
        ListenAddress::Tcp(address) => panic!("{address}"),
    });
    sockets.collect()
}

fn serve(stream: UnixStream, by: PathBuf, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
    let mut name = String::new();
    reader.read_line(&mut name).expect("a name");
    let name = name.trim_end();
    let device = {
        let mut state = state.lock().expect("no holder panics");
        let Some((_, device)) = state.exports.get(name) else {
            return;
        };
        let device = Arc::clone(device);
        state.clients.push(Connected {
            export: name.to_owned(),
            by,
            stream: stream.try_clone().expect("a descriptor"),
        });
        device
    };
    let mut block = [0; BLOCK];
    while reader.read_exact(&mut block).is_ok() {
        device
            .write(0, &block, WaitMode::MayBlock)
            .expect("written");
        let extent = Extent::new(0, BLOCK as u64);
        let read = device.read(extent, WaitMode::MayBlock).expect("read");
        let mut parts = Vec::new();
        read.append_parts(&mut parts);
        for part in parts {
            (&stream).write_all(part).expect("sent");
        }
    }
    let mut state = state.lock().expect("no holder panics");
    state.clients.retain(|one| one.export != name);
}

impl Protocol for Echo {
    fn new(_: &Start<'_>) -> Self {
        let state = Arc::default();
        Self { state }
    }

    fn description(&self) -> &'static Description {
        &ECHO
    }

    fn exports(&self, wanted: &Wanted<'_>) -> Vec<Export> {
        let exports = wanted.documents.having(PROPERTY);
        let exports = exports.map(|(volume, name)| Export {
            name: name.to_owned(),
            volumes: [volume.parse().expect("a volume")].into(),
            file_system: None,
        });
        exports.collect()
    }

    fn apply(&self, wanted: &Wanted<'_>) -> Result<(), Failure> {
        let mut state = self.state();
        let exports = self.exports(wanted).into_iter();
        state.exports = exports
            .flat_map(|export| {
                let device = |volume: VolumeName| {
                    let device = wanted.volumes.device(&volume) as SharedDevice;
                    (export.name.clone(), (volume, device))
                };
                export
                    .volumes
                    .iter()
                    .cloned()
                    .map(device)
                    .collect::<Vec<_>>()
            })
            .collect();
        let wanted = sockets(wanted.addresses);
        for new in wanted.iter().filter(|one| !state.sockets.contains(one)) {
            self.listen(new.clone());
        }
        state.sockets = wanted;
        Ok(())
    }

    fn contents_changed(
        &self,
        volume: &VolumeName,
        _device: &SharedDevice,
        was_resized: bool,
    ) -> ContentsNotified {
        let mut state = self.state();
        let shown = state.exports.values().filter(|(shown, _)| shown == volume);
        let sessions = shown.count() as u64;
        let closed = u64::from(was_resized);
        state.closed_by_resize += closed;
        ContentsNotified { sessions, closed }
    }

    fn clients(&self) -> Vec<Client> {
        let state = self.state();
        state.clients.iter().map(Self::client).collect()
    }

    fn clients_beyond(&self, addresses: &Addresses) -> Vec<Client> {
        let (state, left) = (self.state(), sockets(addresses));
        let lost = state.clients.iter().filter(|one| !left.contains(&one.by));
        lost.map(Self::client).collect()
    }

    fn portals(&self, pool: &PoolName, addresses: &Addresses) -> Vec<PortalView> {
        let state = self.state();
        let came_by = |socket: &PathBuf| {
            let came = state.clients.iter().filter(|one| one.by == *socket);
            came.count() as u64
        };
        let views = sockets(addresses).into_iter().map(|socket| PortalView {
            pool: pool.clone(),
            protocol: ECHO.name.to_owned(),
            address: format!("unix:{}", socket.display()),
            group: None,
            is_here: true,
            clients: came_by(&socket),
        });
        views.collect()
    }

    fn listeners(&self) -> Vec<String> {
        let state = self.state();
        let sockets = state.sockets.iter();
        sockets
            .map(|socket| format!("unix:{}", socket.display()))
            .collect()
    }

    fn tcp_listeners(&self) -> Vec<SocketAddr> {
        Vec::new()
    }

    fn peers(&self) -> Vec<Peer> {
        self.clients()
            .into_iter()
            .flat_map(|one| one.peers)
            .collect()
    }

    fn silence_removed_addresses(&self) -> usize {
        0
    }

    fn drop_all(&self) {
        for one in &self.state().clients {
            let _ = one.stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn drain(&self, deadline: Instant) {
        while !self.state().clients.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.drop_all();
    }
}

/// A pool with the volume `tank/v`, shown as `e`.
fn pool() -> Box<dyn Pool> {
    let pool = Box::new(MemoryPool::new("tank"));
    let mut volume = VolumeSpec::sparse("tank/v".parse().expect("a name"), ByteCount::mib(16));
    let shown = (PROPERTY.to_owned(), Value::Text("e".to_owned()));
    volume.properties.push(shown);
    pool.create_volume(&volume).expect("a volume");
    pool
}

/// Parses `words` as the options of a command that has only the echo protocol.
fn told(words: &[&str]) -> Result<Listen, clap::Error> {
    let command = Listen::options(clap::Command::new("serve"), &[&ECHO]);
    let words = ["serve"].iter().chain(words);
    let mut matches = command.try_get_matches_from(words)?;
    Ok(Listen::read(&mut matches, &[&ECHO]))
}

#[test]
fn options_of_a_protocol_follow_from_its_description() {
    let command = Listen::options(clap::Command::new("serve"), &[&ECHO]);
    let help = command.clone().render_long_help().to_string();
    for said in [
        "--echo <ADDRESS:PORT|unix:PATH>",
        "echo socket as ADDRESS:PORT or unix:PATH; port 0 selects a free one; it may be any; may be repeated \
         [default: 127.0.0.1:7]",
        "Do not serve Echo",
        "Certificate (chain) of the Echo server, PEM; Echo clients then must use TLS",
    ] {
        assert!(
            help.replace("\n          ", " ").contains(said),
            "{said}: {help}"
        );
    }
    let default = told(&[]).expect("options");
    assert_eq!(default.tcp(), ["127.0.0.1:7".parse().expect("an address")]);
    assert!(told(&["--no-echo"]).expect("options").tcp().is_empty());
    let files = told(&["--echo-tls-cert", "/c", "--echo-tls-key", "/k"]).expect("options");
    assert_eq!(files.tls[ECHO.name].certificate, PathBuf::from("/c"));
    let keys = told(&["--echo-keytab", "/k"]).expect("options");
    assert_eq!(keys.keytabs[ECHO.name], PathBuf::from("/k"));
    for bad in [
        &["--echo-tls-cert", "/c"][..],
        &["--echo", "host:1"],
        &["--echo", "10.0.0.1:1,2"],
        &["--echo", "10.0.0.1:1", "--no-echo"],
    ] {
        assert!(told(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn new_protocol_needs_only_its_registration() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = Arc::new(SharedPool::new(pool()));
    let (name, volume) = ("tank".parse().expect("a name"), "tank/v".parse());
    let volume: VolumeName = volume.expect("a name");
    let socket = folder.path().join("echo.sock");
    let option = format!("unix:{}", socket.display());
    let listen = told(&["--echo", &option]).expect("options");
    let setup = Setup {
        addresses: Addresses::read(&listen.places, &[&ECHO]).expect("addresses"),
        ..Setup::default()
    };
    let echo = Echo::new(&Start {
        setup: &setup,
        pool: &pool,
        documents: &Arc::default(),
    });
    let serving = Serving::new(
        setup,
        vec![Box::new(echo)],
        Arc::clone(&pool),
        Arc::default(),
        Rescues::new(folder.path(), &name),
        Instant::now(),
    );
    serving.reconcile().expect("served");

    let mut client = UnixStream::connect(&socket).expect("connected");
    client.write_all(b"e\n").expect("said");
    let block: Vec<u8> = (0..BLOCK).map(|at| at as u8).collect();
    client.write_all(&block).expect("written");
    let mut back = vec![0; BLOCK];
    client.read_exact(&mut back).expect("an echo");
    assert!(back == block);

    let status = serving.glance(&name);
    let [view] = &status.other_protocols[..] else {
        panic!("{status:?}");
    };
    assert_eq!((&view.name[..], view.exports.len()), (ECHO.name, 1));
    assert_eq!(view.exports[0].volumes, std::slice::from_ref(&volume));
    assert_eq!(view.exports[0].sessions[0].name, "somebody");
    assert_eq!(view.listeners, [format!("unix:{}", socket.display())]);
    assert_eq!(serving.session_count(), 1);
    let server = ServerStatus::default().listening(serving.listeners());
    assert_eq!(server.all_listeners(), [(ECHO.name, &[option.clone()][..])]);
    let [portal] = &serving.portals(&name)[..] else {
        panic!("one address");
    };
    assert_eq!((&portal.address, portal.clients), (&option, 1));

    // `portal add`, and `portal set` without the first one.
    let asked = format!("{}.2", option);
    let asked = serde_json::from_value(serde_json::json!({"echo": [asked]})).expect("a request");
    let second = Addresses::read(&asked, &serving.descriptions()).expect("addresses");
    assert_eq!(serving.users_beyond(&second).len(), 1);
    serving.listen_at(second).expect("it listens");
    UnixStream::connect(folder.path().join("echo.sock.2")).expect("connected");

    for used in [Used::Volume(&volume), Used::Export(ECHO.name, "e")] {
        let users = serving.users_of(&used);
        assert!(users[0].starts_with("echo client unix"), "{users:?}");
    }
    let told = serving.notify_contents_changed(&volume, true);
    assert_eq!((told.sessions, told.closed), (1, 1));
    assert_eq!(serving.volumes.open_count(), 1);

    let patient = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(client);
    });
    let begun = Instant::now();
    serving.drain(Duration::from_secs(30));
    patient.join().expect("it ended");
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "its end was noticed"
    );
    assert_eq!(serving.session_count(), 0);

    // A volume that no protocol exports any more is closed.
    let open = pool.require().expect("open");
    let edits = vec![(PROPERTY.to_owned(), None)];
    open.edit_user_properties(vec![((&volume).into(), edits)])
        .expect("changed");
    drop(open);
    serving.read_again().expect("read");
    assert_eq!(serving.volumes.open_count(), 0);
    serving.close_volumes();
    drop(serving);
    let pool = pool.take();
    pool.expect("it is open")
        .export()
        .map_err(|(_, error)| error)
        .expect("exported");
}
