//! Tests the server on a pool in memory, with calls that need no session.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;

use ::nfs::xdr::{Reader, Writer};
use ::protocol_list::{Place, Places};
use engine::Pool;
use engine::capabilities::FileSystems as _;
use engine::dataset::Value;
use file_system::{FileError, FileSystem as _, FileSystemId, Measure, Owner, OwnerKind, Quota};
use memory_engine::MemoryPool;

use super::super::super::rescue::Rescues;
use super::super::super::serving::{Serving, Setup};
use super::super::*;
use super::PROTOCOL;
use super::lazy_files::LazyFiles;

const SHARED: &str = "rw=127.0.0.0/8,insecure";
/// The NULL call (RFC 5531, section 9), with its record mark.
const NULL_CALL: [u32; 11] = [0x8000_0028, 7, 0, 2, 100_003, 4, 0, 0, 0, 0, 0];

struct World {
    serving: Serving,
    pool: Arc<SharedPool>,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl World {
    /// A pool with the file system `tank/a`.
    fn new(address: SocketAddr) -> Self {
        Self::at(vec![Place::Tcp(address)])
    }

    fn at(places: Vec<Place>) -> Self {
        Self::with(places, Setup::default())
    }

    fn with(places: Vec<Place>, setup: Setup) -> Self {
        let pool = MemoryPool::new("tank");
        let volume = "tank/a/v".parse().expect("a name");
        pool.create_parents(&volume).expect("a file system");
        let pool = Arc::new(SharedPool::new(Box::new(pool) as Box<dyn Pool>));
        Self::of(pool, places, setup)
    }

    /// A server of a pool that may have had an earlier one.
    fn of(pool: Arc<SharedPool>, places: Vec<Place>, setup: Setup) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let places = Places([(PROTOCOL.name.to_owned(), places)].into());
        let addresses = Addresses::read(&places, &[&PROTOCOL]).expect("addresses");
        let addresses = addresses.with_real_ports(&setup.early).expect("a port");
        let address = addresses.tcp().next().unwrap_or_else(any_port);
        let setup = Setup { addresses, ..setup };
        let server = super::Server::new(&Start {
            setup: &setup,
            pool: &pool,
            documents: &Arc::default(),
        });
        let serving = Serving::new(
            setup,
            vec![Box::new(server)],
            Arc::clone(&pool),
            Arc::default(),
            Rescues::new(folder.path(), &"tank".parse().expect("a name")),
            Instant::now(),
        );
        Self {
            serving,
            pool,
            address,
            _folder: folder,
        }
    }

    fn share(&self, text: &str) {
        let name = "tank/a".parse().expect("a name");
        let properties = [("sharenfs".to_owned(), Value::Text(text.to_owned()))];
        let pool = self.pool.require().expect("open");
        let set = pool.set_dataset_properties((&name as &VolumeName).into(), &properties);
        set.expect("set");
        self.serving.reconcile().expect("served");
    }

    fn problems(&self) -> Vec<String> {
        self.serving.glance(&"tank".parse().expect("a name")).problems
    }

    fn answers(&self) -> bool {
        let Ok(mut client) = TcpStream::connect(self.address) else {
            return false;
        };
        let call: Vec<u8> = NULL_CALL.iter().flat_map(|word| word.to_be_bytes()).collect();
        client.write_all(&call).expect("sent");
        let mut answer = [0; 28];
        client.read_exact(&mut answer).expect("an answer");
        let accepted = [0x8000_0018_u32, 7, 1, 0, 0, 0, 0];
        answer.to_vec() == accepted.map(u32::to_be_bytes).concat()
    }

    /// The server is killed, and the next one serves the pool.
    fn next(self) -> Self {
        self.serving.close_volumes();
        drop(self.serving);
        let next = Self::of(self.pool, vec![Place::Tcp(any_port())], Setup::default());
        next.serving.reconcile().expect("served");
        next
    }

    /// The pool's `bulkhead:` properties.
    fn own(&self) -> std::collections::BTreeMap<String, String> {
        let pool = self.pool.require().expect("open");
        let own = pool.own_user_properties(pool.name().into(), "bulkhead:");
        own.expect("read")
    }

    fn set(&self, property: &str, text: &str) {
        let pool = self.pool.require().expect("open");
        let values = [(property.to_owned(), Value::Text(text.to_owned()))];
        pool.set_dataset_properties(pool.name().into(), &values).expect("set");
    }

    /// The pool can only be closed when none of its datasets is open. A connection may terminate later.
    fn end(self) {
        self.serving.drain(std::time::Duration::from_secs(10));
        self.serving.close_volumes();
        drop(self.serving);
        let pool = self.pool.take();
        let exported = pool.expect("it is open").export();
        exported.map_err(|(_, error)| error).expect("exported");
    }
}

/// An address of this process alone, at the port of NFS.
fn own_address() -> SocketAddr {
    let [.., high, middle, low] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, 64 + high % 64, middle, low], PROTOCOL.port))
}

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().expect("an address")
}

#[test]
fn nfs_listens_only_while_a_share_exists() {
    let world = World::new(any_port());
    world.serving.reconcile().expect("served");
    assert!(!world.answers(), "nothing is shared");
    world.share(SHARED);
    assert!(world.answers());
    let status = world.serving.glance(&"tank".parse().expect("a name"));
    let [view] = &status.other_protocols[..] else {
        panic!("{status:?}");
    };
    assert_eq!((&view.name[..], &view.exports[0].name[..]), ("nfs", "tank/a"));
    assert_eq!(view.listeners, [world.address.to_string()]);
    let shown = "tank/a".parse().expect("a name");
    assert!(world.serving.users_of(&operations::in_use::Used::Volume(&shown)).is_empty());
    world.share("off");
    assert!(!world.answers(), "nothing is shared any more");
    assert_eq!(world.problems(), [""; 0]);
    world.end();
}

/// The results of a version 3 call by root, after their status.
fn ask(client: &mut TcpStream, call: (u32, u32), arguments: &Writer) -> Vec<u8> {
    let answer = ask_for_status(client, call, arguments);
    assert_eq!(answer[..4], [0; 4], "it is done");
    answer[4..].to_vec()
}

/// The results of a version 3 call by root, with their status.
fn ask_for_status(client: &mut TcpStream, (program, procedure): (u32, u32), arguments: &Writer) -> Vec<u8> {
    let mut call = Writer::new();
    for word in [7, 0, 2, program, 3, procedure, 1, 20, 0, 0, 0, 0, 0, 0, 0] {
        call.u32(word);
    }
    call.append(arguments.bytes());
    let mark = 0x8000_0000 | call.len() as u32;
    client.write_all(&[&mark.to_be_bytes(), call.bytes()].concat()).expect("sent");
    let mut mark = [0; 4];
    client.read_exact(&mut mark).expect("a mark");
    let mut answer = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    client.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[4..24], [1_u32, 0, 0, 0, 0].map(u32::to_be_bytes).concat(), "it is accepted");
    answer[24..].to_vec()
}

#[test]
fn status_shows_client_activity_per_file_system() {
    const NFS: u32 = 100_003;
    let world = World::new(any_port());
    world.share("rw=127.0.0.0/8,insecure,no_root_squash");
    let activity = || world.serving.glance(&"tank".parse().expect("a name")).file_system_activity;
    let [unused] = &activity()[..] else { panic!("one file system") };
    assert_eq!((&unused.name[..], unused.others.count), ("tank/a", 0));
    let mut client = TcpStream::connect(world.address).expect("connected");
    let root = mounted_root(&mut client);
    let mut create = Writer::new();
    create.opaque(&root);
    create.opaque(b"file");
    // UNCHECKED, with a mode only.
    for word in [0, 1, 0o644, 0, 0, 0, 0, 0] {
        create.u32(word);
    }
    let made = ask(&mut client, (NFS, 8), &create);
    let file = Reader::new(&made[4..]).opaque(64).expect("a handle").to_vec();
    let mut write = Writer::new();
    write.opaque(&file);
    // From offset 0, 1,000 bytes, FILE_SYNC.
    for word in [0, 0, 1000, 2] {
        write.u32(word);
    }
    write.opaque(&[7; 1000]);
    ask(&mut client, (NFS, 7), &write);
    for _ in 0..2 {
        let mut read = Writer::new();
        read.opaque(&file);
        for word in [0, 500, 4096] {
            read.u32(word);
        }
        ask(&mut client, (NFS, 6), &read);
    }
    let [done] = &activity()[..] else { panic!("one file system") };
    let moved = |requests: &control::answer::RequestActivity| {
        assert_eq!(requests.times.iter().sum::<u64>(), requests.count);
        (requests.count, requests.bytes)
    };
    assert_eq!(moved(&done.reads), (2, 1000));
    assert_eq!(moved(&done.writes), (1, 1000));
    assert_eq!(moved(&done.others), (2, 0), "MNT and CREATE");
    world.share(SHARED);
    assert_eq!(activity()[0].reads, done.reads, "a change of the share resets no counter");
    drop(client);
    world.end();
}

/// The root of `tank/a`, as a client of version 3 mounts it.
fn mounted_root(client: &mut TcpStream) -> Vec<u8> {
    let mut arguments = Writer::new();
    arguments.opaque(b"/tank/a");
    let mounted = ask(client, (100_005, 1), &arguments);
    Reader::new(&mounted).opaque(64).expect("a handle").to_vec()
}

#[test]
fn quota_set_while_clients_are_connected_refuses_their_next_file() {
    const DQUOT: u32 = 69;
    let world = World::new(any_port());
    world.share("rw=127.0.0.0/8,insecure,no_root_squash");
    let mut client = TcpStream::connect(world.address).expect("connected");
    let root = mounted_root(&mut client);
    let mut create = |name: &[u8]| {
        let mut arguments = Writer::new();
        arguments.opaque(&root);
        arguments.opaque(name);
        // UNCHECKED, with a mode only.
        for word in [0, 1, 0o644, 0, 0, 0, 0, 0] {
            arguments.u32(word);
        }
        let made = ask_for_status(&mut client, (100_003, 8), &arguments);
        Reader::new(&made).u32().expect("a status")
    };
    assert_eq!(create(b"before"), 0);
    let name = "tank/a".parse().expect("a name");
    let files = world.serving.files(&name).expect("it is open");
    let owner = Owner { kind: OwnerKind::User, id: 0 };
    let limit = |limit| Quota { owner, measure: Measure::Objects, limit };
    // The root directory and the file.
    files.set_quotas(&[limit(Some(2))]).expect("set");
    assert_eq!(create(b"refused"), DQUOT);
    assert_eq!(files.owner_space(owner).expect("its space").objects, Some(2));
    files.set_quotas(&[limit(None)]).expect("removed");
    assert_eq!(create(b"after"), 0);
    drop((client, files));
    world.end();
}

#[test]
fn invalid_share_rule_is_reported_and_not_shared() {
    let world = World::new(any_port());
    world.share("on");
    assert!(!world.answers());
    let problems = world.problems();
    assert!(problems[0].starts_with("tank/a: ") && problems[0].contains("rw=192.0.2.0/24"), "{problems:?}");
    world.share(SHARED);
    assert!(world.answers());
    assert_eq!(world.problems(), [""; 0]);
    world.end();
}

#[test]
fn occupied_port_is_reported_and_retried() {
    let other = TcpListener::bind(any_port()).expect("a port");
    let taken = other.local_addr().expect("an address");
    let world = World::new(taken);
    world.share(SHARED);
    let problems = world.problems();
    let starts_well = problems[0].starts_with(&format!("{taken}: NFS is not served there"));
    assert!(starts_well && problems[0].contains("nfs-server"), "{problems:?}");
    assert!(world.serving.wants_retry());
    drop(other);
    world.serving.reconcile().expect("served");
    assert!(world.answers() && !world.serving.wants_retry());
    assert_eq!(world.problems(), [""; 0]);
    world.end();
}

#[test]
fn reopened_file_system_is_closed_once() {
    let world = World::new(any_port());
    world.share(SHARED);
    for dataset in ["tank/b", "tank/a", "tank"] {
        world.serving.close_for_reopen(dataset);
        assert_eq!(world.serving.wants_retry(), dataset != "tank/b");
        world.serving.reconcile().expect("served");
        assert!(world.answers() && !world.serving.wants_retry());
    }
    let pool = world.pool.require().expect("open");
    let name: VolumeName = "tank/a".parse().expect("a name");
    assert!(pool.files().expect("it has files").open_file_system((&name).into(), false).is_err(), "it is open again");
    drop(pool);
    world.end();
}

#[test]
fn closed_file_system_is_reopened_if_it_remains() {
    let world = World::new(any_port());
    world.share(SHARED);
    let name: VolumeName = "tank/a".parse().expect("a name");
    world.serving.close(&name);
    let pool = world.pool.require().expect("open");
    let opened = pool.files().expect("it has files").open_file_system((&name).into(), false);
    let opened = opened.expect("not open elsewhere");
    assert!(world.answers(), "clients are delayed until the result is known");
    // A second open of the same file system would be refused.
    world.serving.reconcile().expect("served");
    assert!(world.answers());
    assert_eq!(world.problems(), [""; 0], "no open was attempted");
    opened.close();
    drop(pool);
    world.serving.may_open(&name);
    world.serving.reconcile().expect("served");
    assert!(world.answers());
    let pool = world.pool.require().expect("open");
    assert!(pool.files().expect("it has files").open_file_system((&name).into(), false).is_err(), "it is open again");
    drop(pool);
    world.end();
}

/// Clients of version 4 need no port mapper. A missing one is reported only after a client of version 3 has connected.
#[test]
fn missing_port_mapper_is_reported_after_a_v3_client() {
    const MOUNT: u32 = 100_005;
    let address = own_address();
    let other = TcpListener::bind((address.ip(), 111));
    let world = World::new(address);
    world.share(SHARED);
    assert!(world.answers());
    assert_eq!(world.problems(), [""; 0]);
    let mut call = NULL_CALL;
    (call[4], call[5]) = (MOUNT, 3);
    let mut client = TcpStream::connect(address).expect("connected");
    client.write_all(&call.map(u32::to_be_bytes).concat()).expect("sent");
    client.read_exact(&mut [0; 28]).expect("an answer");
    assert!(world.serving.wants_retry(), "there is a problem to report");
    world.serving.reconcile().expect("served");
    let problems = world.problems();
    let starts_well = problems[0].starts_with(&format!("{}:111: clients of NFS 3 find no locks", address.ip()));
    assert!(starts_well, "{problems:?}");
    // Without the privilege for such a port, the test cannot occupy it.
    if let Ok(other) = other {
        assert!(problems[0].contains("rpcbind"), "{problems:?}");
        assert!(!world.serving.wants_retry(), "the port alone is tried again");
        drop(other);
        world.serving.try_again();
        assert!(world.serving.wants_retry(), "there is a problem to report");
        world.serving.reconcile().expect("served");
        assert_eq!(world.problems(), [""; 0]);
        assert!(TcpStream::connect((address.ip(), 111)).is_ok());
    }
    drop(client);
    world.end();
}

/// No client can reach the shares. Detecting that needs a read of every dataset, which must not delay a takeover.
#[test]
fn server_without_address_reads_shares_after_start() {
    let world = World::at(Vec::new());
    let name = "tank/a".parse().expect("a name");
    let properties = [("sharenfs".to_owned(), Value::Text(SHARED.to_owned()))];
    let pool = world.pool.require().expect("open");
    let set = pool.set_dataset_properties((&name as &VolumeName).into(), &properties);
    set.expect("set");
    drop(pool);
    world.serving.reconcile().expect("served");
    assert_eq!(world.problems(), [""; 0]);
    assert!(world.serving.wants_retry());
    world.serving.reconcile().expect("served");
    assert!(world.problems()[0].contains("no client can reach it"));
    assert!(!world.serving.wants_retry());
    world.end();
}

/// Clients of volumes and clients with AUTH_SYS must not be delayed until the keytab is repaired.
#[test]
fn missing_keytab_is_reported_and_blocks_no_other_client() {
    let keytab = PathBuf::from("/nonexistent/keytab");
    let setup = |is_of_a_cluster| Setup {
        is_of_a_cluster,
        keytabs: [(PROTOCOL.name, keytab.clone())].into(),
        ..Setup::default()
    };
    let refused = super::Server::check_settings(&setup(false)).expect_err("an administrator can repair it");
    assert!(refused.to_string().contains("/nonexistent/keytab"), "{refused}");
    super::Server::check_settings(&setup(true)).expect("it starts");
    let world = World::with(vec![Place::Tcp(any_port())], setup(true));
    world.share(SHARED);
    assert!(world.answers());
    let problems = world.problems();
    assert!(problems[0].starts_with("Kerberos of NFS: no further client"), "{problems:?}");
    assert!(!world.serving.wants_retry(), "the file alone is tried again");
    world.end();
}

#[test]
fn world_readable_keytab_is_reported() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let keytab = folder.path().join("keytab");
    std::fs::write(&keytab, "no keys").expect("written");
    let set = |mode| std::fs::set_permissions(&keytab, std::fs::Permissions::from_mode(mode)).expect("set");
    set(0o644);
    let setup = Setup {
        is_of_a_cluster: true,
        keytabs: [(PROTOCOL.name, keytab.clone())].into(),
        ..Setup::default()
    };
    let world = World::with(vec![Place::Tcp(any_port())], setup);
    world.share(SHARED);
    let told = || world.problems().into_iter().filter(|one| one.contains("chmod 0600")).count();
    assert_eq!(told(), 1, "{:?}", world.problems());
    set(0o600);
    assert!(world.serving.wants_retry());
    world.serving.reconcile().expect("served");
    assert_eq!(told(), 0);
    world.end();
}

/// A start does not block until all are open. A failure is reported after the attempt.
#[test]
fn file_systems_open_on_demand_or_in_the_background() {
    const COUNT: usize = 40;
    let world = World::new(any_port());
    let pool = world.pool.require().expect("open");
    for number in 0..COUNT {
        let volume = format!("tank/a/{number}/v").parse().expect("a name");
        pool.files().expect("it has files").create_parents(&volume).expect("a file system");
    }
    // It is open elsewhere.
    let busy: VolumeName = "tank/a/7".parse().expect("a name");
    let opened = pool.files().expect("it has files").open_file_system((&busy).into(), false).expect("open");
    drop(pool);
    world.share(SHARED);
    assert!(world.answers());
    let deadline = Instant::now() + std::time::Duration::from_secs(60);
    while !world.serving.wants_retry() {
        assert!(Instant::now() < deadline, "the failed open is not reported");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    world.serving.reconcile().expect("served");
    let [problem] = &world.problems()[..] else {
        panic!("{:?}", world.problems());
    };
    assert!(problem.starts_with("tank/a/7: clients of NFS are paused"), "{problem}");
    opened.close();
    drop(opened);
    world.serving.reconcile().expect("served");
    assert_eq!(world.problems(), [""; 0]);
    assert!(!world.serving.wants_retry());
    world.end();
}

fn lazy(world: &World, name: &str, guid: u64) -> LazyFiles {
    LazyFiles::new(Arc::clone(&world.pool), name.to_owned(), FileSystemId { guid, snapshot: 0 })
}

#[test]
fn unopenable_file_system_is_not_retried_by_each_call() {
    let world = World::new(any_port());
    let ids: BTreeMap<String, FileSystemId> = world.pool.require().expect("open").files().expect("it has files").file_systems().expect("listed").into_iter().collect();
    let id = ids["tank/a"];
    let one = lazy(&world, "tank/a", id.guid);
    assert!(!one.is_open());
    let root = one.root();
    assert!(one.is_open() && one.attributes(root).is_ok() && one.take_failure().is_none());
    let second = lazy(&world, "tank/a", id.guid);
    assert_eq!(second.attributes(root), Err(FileError::NotReady));
    assert!(second.has_failed());
    one.close();
    assert_eq!(second.attributes(root), Err(FileError::NotReady), "the sharing server retries");
    let kind = second.take_failure().map(|error| error.kind);
    assert!(matches!(kind, Some(engine::dataset::DatasetErrorKind::Busy)), "{kind:?}");
    assert_eq!(second.attributes(root), Err(FileError::NotReady), "it is replaced");
    drop((one, second));
    let other = lazy(&world, "tank/a", id.guid + 1);
    assert_eq!(other.attributes(root), Err(FileError::NotReady));
    assert!(other.take_failure().is_some(), "it was replaced");
    let closed = lazy(&world, "tank/a", id.guid);
    closed.close();
    closed.open_now();
    assert!(!closed.is_open());
    drop((other, closed));
    world.end();
}

const MOUNT: u32 = 100_005;
const NFS: u32 = 100_003;

/// The handles of the root of `tank/a` and of a new directory in it.
fn made_directory(world: &World) -> [Vec<u8>; 2] {
    let mut client = TcpStream::connect(world.address).expect("connected");
    let mut path = Writer::new();
    path.opaque(b"/tank/a");
    let mounted = ask(&mut client, (MOUNT, 1), &path);
    let root = Reader::new(&mounted).opaque(64).expect("a handle").to_vec();
    let mut make = Writer::new();
    make.opaque(&root);
    make.opaque(b"made");
    (0..6).for_each(|_| make.u32(0));
    let made = ask(&mut client, (NFS, 9), &make);
    let directory = Reader::new(&made[4..]).opaque(64).expect("a handle").to_vec();
    [root, directory]
}

/// The status of a `GETATTR`.
fn status_of(world: &World, handle: &[u8]) -> u32 {
    let mut client = TcpStream::connect(world.address).expect("connected");
    let mut call = Writer::new();
    for word in [7, 0, 2, NFS, 3, 1, 1, 20, 0, 0, 0, 0, 0, 0, 0] {
        call.u32(word);
    }
    call.opaque(handle);
    let mark = 0x8000_0000 | call.len() as u32;
    client.write_all(&[&mark.to_be_bytes(), call.bytes()].concat()).expect("sent");
    let mut answer = [0; 32];
    client.read_exact(&mut answer).expect("an answer");
    u32::from_be_bytes(answer[28..].try_into().expect("four bytes"))
}

/// A handle in the form of an earlier version.
fn as_before(handle: &[u8]) -> Vec<u8> {
    [&[1][..], &handle[1..36]].concat()
}

const STALE: u32 = 70;
const SHARED_TO_ROOT: &str = "rw=127.0.0.0/8,insecure,no_root_squash";

#[test]
fn handles_stay_valid_after_takeover_and_cannot_be_forged() {
    let world = World::new(any_port());
    assert!(!world.own().contains_key("bulkhead:file-handle-key"));
    world.share(SHARED_TO_ROOT);
    let kept = world.own()["bulkhead:file-handle-key"].clone();
    assert!(kept.starts_with("1 ") && kept.len() == 66, "it is durable before a handle is given out");
    let [root, directory] = made_directory(&world);
    let world = world.next();
    assert_eq!(world.own()["bulkhead:file-handle-key"], kept);
    assert_eq!(status_of(&world, &directory), 0);
    assert_eq!(status_of(&world, &as_before(&root)), 0, "every client can look it up");
    assert_eq!(status_of(&world, &as_before(&directory)), STALE, "no earlier version served this pool");
    let mut guessed = directory;
    guessed[47] ^= 1;
    assert_eq!(status_of(&world, &guessed), STALE);
    world.end();
}

#[test]
fn unsigned_handles_of_older_versions_expire() {
    for (property, text) in [
        ("bulkhead:nfs-clients", "none"),
        ("bulkhead:connections", "127.0.0.1:2049 127.0.0.1 700;"),
    ] {
        let world = World::new(any_port());
        world.set(property, text);
        world.share(SHARED_TO_ROOT);
        let [_, directory] = made_directory(&world);
        let world = world.next();
        assert_eq!(status_of(&world, &as_before(&directory)), 0, "{property}");
        let kept = world.own()["bulkhead:file-handle-key"].clone();
        let [form, key, until] = &kept.split(' ').collect::<Vec<_>>()[..] else { panic!("{kept}") };
        let until: u64 = until.parse().expect("seconds");
        let in_days = |days: u64| until - days * 24 * 60 * 60;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
        assert!(in_days(30) <= now && now < in_days(29), "{kept}");
        world.set("bulkhead:file-handle-key", &format!("{form} {key} {now}"));
        let world = world.next();
        assert_eq!(status_of(&world, &directory), 0);
        assert_eq!(status_of(&world, &as_before(&directory)), STALE, "the time is over");
        world.end();
    }
}

#[test]
fn handle_key_of_newer_version_is_kept_and_disables_shares() {
    let world = World::new(any_port());
    let newer = format!("2 {}", "0a".repeat(32));
    world.set("bulkhead:file-handle-key", &newer);
    world.share(SHARED);
    assert!(!world.answers());
    let problems = world.problems();
    assert!(problems[0].starts_with("tank: nothing is shared over NFS") && problems[0].contains("newer"), "{problems:?}");
    assert!(world.serving.wants_retry());
    assert_eq!(world.own()["bulkhead:file-handle-key"], newer);
    world.end();
}
