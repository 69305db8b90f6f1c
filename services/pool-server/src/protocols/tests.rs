//! A protocol that only this test knows: it registers, and is exported, listed, counted, drained and told like the others.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use block_device::{Extent, WaitMode};
use engine::Pool;
use engine::capabilities::Datasets as _;
use engine::dataset::{Value, VolumeSpec};
use memory_engine::MemoryPool;
use operations::in_use::Used;
use units::ByteCount;

use super::*;
use crate::rescue::Rescues;
use crate::serving::Serving;

const ECHO: &str = "echo";
/// The property of a volume that says by which name it is shown.
const PROPERTY: &str = "bulkhead:echo";
const BLOCK: usize = 4096;

/// A client says the name of an export and then blocks. Each is written to the start of the volume, read, and sent back.
struct Echo {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    exports: BTreeMap<String, (VolumeName, SharedDevice)>,
    clients: Vec<(String, UnixStream)>,
    is_listening: bool,
    closed_by_resize: u64,
}

impl Echo {
    fn new(socket: PathBuf) -> Self {
        let state = Arc::default();
        Self { socket, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn listen(&self) {
        let listener = UnixListener::bind(&self.socket).expect("a socket");
        let state = Arc::clone(&self.state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.expect("a client"), Arc::clone(&state));
                std::thread::spawn(move || serve(stream, &state));
            }
        });
    }
}

fn serve(stream: UnixStream, state: &Mutex<State>) {
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
        let of_it = stream.try_clone().expect("a descriptor");
        state.clients.push((name.to_owned(), of_it));
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
    state.clients.retain(|(of, _)| of != name);
}

impl Protocol for Echo {
    fn name(&self) -> &'static str {
        ECHO
    }

    fn exports(&self, wanted: &Wanted<'_>) -> Vec<Export> {
        let exports = wanted.documents.having(PROPERTY);
        let exports = exports.map(|(volume, name)| Export {
            name: name.to_owned(),
            volumes: [volume.parse().expect("a volume")].into(),
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
        if !std::mem::replace(&mut state.is_listening, true) {
            self.listen();
        }
        Ok(())
    }

    fn contents_changed(
        &self,
        volume: &VolumeName,
        _device: &SharedDevice,
        was_resized: bool,
    ) -> ContentsTold {
        let mut state = self.state();
        let shown = state.exports.values().filter(|(shown, _)| shown == volume);
        let sessions = shown.count() as u64;
        let closed = u64::from(was_resized);
        state.closed_by_resize += closed;
        ContentsTold { sessions, closed }
    }

    fn clients(&self) -> Vec<Client> {
        let state = self.state();
        let clients = state.clients.iter().map(|(export, _)| Client {
            export: export.clone(),
            name: "somebody".to_owned(),
            title: "echo client".to_owned(),
            peers: vec![Peer::Unix { uid: 0, pid: 1 }],
        });
        clients.collect()
    }

    fn clients_beyond(&self, _addresses: &Addresses) -> Vec<Client> {
        Vec::new()
    }

    fn portals(&self, _pool: &PoolName, _addresses: &Addresses) -> Vec<PortalView> {
        Vec::new()
    }

    fn listeners(&self) -> Vec<String> {
        vec![format!("unix:{}", self.socket.display())]
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

    fn silence_withdrawn(&self) -> usize {
        0
    }

    fn drop_all(&self) {
        for (_, stream) in &self.state().clients {
            let _ = stream.shutdown(std::net::Shutdown::Both);
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

#[test]
fn another_protocol_needs_nothing_but_its_registration() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = Arc::new(SharedPool::new(pool()));
    let (name, volume) = ("tank".parse().expect("a name"), "tank/v".parse());
    let volume: VolumeName = volume.expect("a name");
    let socket = folder.path().join("echo.sock");
    let serving = Serving::new(
        Setup::default(),
        vec![Box::new(Echo::new(socket.clone()))],
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
    assert_eq!((&view.name[..], view.exports.len()), (ECHO, 1));
    assert_eq!(view.exports[0].volumes, std::slice::from_ref(&volume));
    assert_eq!(view.exports[0].sessions[0].name, "somebody");
    assert_eq!(view.listeners, [format!("unix:{}", socket.display())]);
    assert_eq!(serving.session_count(), 1);
    assert_eq!(serving.listeners()[ECHO].len(), 1);
    for used in [Used::Volume(&volume), Used::Export(ECHO, "e")] {
        let users = serving.users_of(&used);
        assert!(users[0].starts_with("echo client unix"), "{users:?}");
    }
    let told = serving.tell_contents_changed(&volume, true);
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

    // A volume that no protocol shows any more is closed.
    let open = pool.require().expect("open");
    let edits = vec![(PROPERTY.to_owned(), None)];
    open.edit_user_properties(vec![((&volume).into(), edits)])
        .expect("changed");
    drop(open);
    serving.read_again().expect("read");
    assert_eq!(serving.volumes.open_count(), 0);
    serving.close_volumes();
    drop(serving);
    let pool = Arc::into_inner(pool).and_then(|pool| pool.take());
    pool.expect("nobody uses it")
        .export()
        .map_err(|(_, error)| error)
        .expect("exported");
}
