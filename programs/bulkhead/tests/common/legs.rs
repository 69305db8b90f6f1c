//! Two heads with a disk each, and a witness or none, as local processes: no disk is shared.

mod shapes;

use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use super::nbd::Nbd;
use super::{ServerProcess, TestHost, eventually, freeze, signal};
use leg_record::{MemberState, decode_state};

/// Bytes of one write.
pub const BLOCK: usize = 16 << 10;

/// Both sides of a connection, and whether it is closed.
type Passed = ([TcpStream; 2], Arc<AtomicBool>);

/// Forwards connections, until they are cut.
pub struct Link {
    address: String,
    connections: Arc<Mutex<Vec<Passed>>>,
    is_cut: Arc<AtomicBool>,
}

impl Link {
    fn to(address: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let way = Self {
            address: listener.local_addr().expect("bound").to_string(),
            connections: Arc::default(),
            is_cut: Arc::default(),
        };
        let connections = Arc::clone(&way.connections);
        let is_cut = Arc::clone(&way.is_cut);
        std::thread::spawn(move || {
            for from in listener.incoming() {
                let (Ok(from), Ok(to)) = (from, TcpStream::connect(&address)) else {
                    continue;
                };
                let both = [&from, &to].map(|one| one.try_clone().expect("a descriptor"));
                let mut connections = connections.lock().expect("no panic");
                if is_cut.load(Ordering::Relaxed) {
                    continue;
                }
                let has_ended = Arc::new(AtomicBool::new(false));
                connections.push((both, Arc::clone(&has_ended)));
                drop(connections);
                for (mut from, mut to) in [
                    (
                        from.try_clone().expect("a descriptor"),
                        to.try_clone().expect("a descriptor"),
                    ),
                    (to, from),
                ] {
                    let has_ended = Arc::clone(&has_ended);
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                        has_ended.store(true, Ordering::Relaxed);
                    });
                }
            }
        });
        way
    }

    /// Closes all connections, and returns their number.
    pub fn cut(&self) -> usize {
        let connections = std::mem::take(&mut *self.connections.lock().expect("no panic"));
        let is_open = |(_, has_ended): &&Passed| !has_ended.load(Ordering::Relaxed);
        let count = connections.iter().filter(is_open).count();
        for connection in connections.iter().flat_map(|(both, _)| both) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        count
    }

    /// Closes all connections and blocks new ones; or forwards them again.
    fn set_cut(&self, is_cut: bool) {
        let connections = self.connections.lock().expect("no panic");
        self.is_cut.store(is_cut, Ordering::Relaxed);
        drop(connections);
        if is_cut {
            self.cut();
        }
    }
}

/// A process that is killed when it is dropped.
pub struct Process(Option<Child>);

impl Process {
    pub fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().expect("alive until now");
            child.wait().expect("a child of ours");
        }
    }

    pub fn signal(&self, name: &str) {
        signal(self.0.as_ref().expect("it runs").id(), name);
    }

    pub fn freeze(&self) {
        freeze(self.0.as_ref().expect("it runs").id());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// One head.
pub struct Head {
    pub name: &'static str,
    pub machine: TestHost,
    address: String,
    pub leg_server: Process,
}

impl Head {
    fn new(name: &'static str, address: String, disks: usize) -> Self {
        let machine = TestHost::with_disks(&[name]);
        for number in 1..disks {
            machine.add_disk(&disk_name(name, number), 128 << 20);
        }
        Self {
            name,
            machine,
            address,
            leg_server: Process(None),
        }
    }

    pub fn config(&self) -> String {
        self.machine.path("legs.toml").display().to_string()
    }

    /// Returns its entry in configurations.
    fn entry(&self, number: u32) -> String {
        let (name, address) = (self.name, &self.address);
        let folder = self.machine.path("keys");
        let words = format!("leg-server fingerprint --folder {}", folder.display());
        let fingerprint = self.machine.ok(&words).out;
        format!(
            "[members.{name}]\nnumber = {number}\nkind = \"head\"\nmembers = [\"{address}:7071\"]\n\
             lends = [\"{address}:7072\"]\nfingerprint = \"{}\"\n",
            fingerprint.trim()
        )
    }

    /// Returns the record of its member on stable storage.
    pub fn memory(&self) -> MemberState {
        let bytes = std::fs::read(self.machine.path("state/legs/77.legs")).expect("a file");
        decode_state(&bytes).expect("a memory")
    }

    /// Begins a command.
    pub fn begin(&self, words: &str) -> Child {
        let said = std::fs::File::create(self.machine.path("said")).expect("a file");
        let mut command = self.machine.command(words);
        let child = command.stdout(Stdio::null()).stderr(said).spawn();
        child.expect("it starts")
    }

    pub fn start_leg_server(&mut self) {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.machine.path("log"))
            .expect("a log");
        let mut command = self
            .machine
            .command(&format!("leg-server --config {}", self.config()));
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        self.leg_server = Process(Some(child.expect("it starts")));
    }

    /// Serves the pool on this head.
    pub fn serve(&self, options: &str) -> ServerProcess {
        self.machine
            .serve(&format!("--legs {} {options}", self.config()))
    }

    /// Sends a request that is refused, and returns the message.
    pub fn refused(&self, options: &str) -> String {
        let words = format!(
            "pool-server tank --no-iscsi --no-nbd --legs {} {options}",
            self.config()
        );
        let said = self.machine.path("refusal");
        let file = std::fs::File::create(&said).expect("a file");
        let mut command = self.machine.command(&words);
        let child = command.stdout(Stdio::null()).stderr(file).spawn();
        let mut server = ServerProcess {
            child: child.expect("it starts"),
        };
        // A server that does serve is killed by the test.
        let code = server.wait();
        assert_ne!(code, 0, "it was served");
        std::fs::read_to_string(said).expect("readable")
    }

    /// Returns the name in `pool status` of the leg on that disk of this head.
    pub fn leg(&self, disk: &str) -> String {
        format!("{}:{}", self.name, self.machine.path(disk).display())
    }

    /// Changes this head's configuration, and restarts its leg-server.
    pub fn reconfigure(&mut self, change: impl FnOnce(&str) -> String) {
        let path = self.machine.path("legs.toml");
        let text = std::fs::read_to_string(&path).expect("written");
        std::fs::write(&path, change(&text)).expect("written");
        self.leg_server.kill();
        self.start_leg_server();
    }

    /// Creates a pool by this head's configuration; returns the message of a refusal.
    pub fn founds(&self, words: &str) -> Result<(), String> {
        let words = format!("pool create {words} --legs {}", self.config());
        let said = self.machine.run(&words);
        match said.code {
            0 => Ok(()),
            _ => Err(said.out + &said.err),
        }
    }

    /// Runs a command on this head, which succeeds, and returns its output.
    pub fn does(&self, words: &str) -> String {
        let said = self.machine.ok(&format!("{words} --search ."));
        said.out + &said.err
    }

    /// Runs a command on this head, which fails, and returns its output.
    pub fn fails(&self, words: &str) -> String {
        let said = self.machine.run(&format!("{words} --search ."));
        assert_ne!(said.code, 0, "{words}: {} {}", said.out, said.err);
        said.out + &said.err
    }

    pub fn client(&self) -> Nbd {
        Nbd::connect(&self.machine.nbd_socket(), "v").expect("connected")
    }

    /// Opens the legs of head `other` for inspection, and passes volume `v` to `look`.
    pub fn sees_of(&self, other: &str, look: impl FnOnce(&mut Nbd)) {
        let words = format!("pool inspect-legs tank {other} --legs {}", self.config());
        let mut command = self.machine.command(&words);
        let child = command.stdout(Stdio::null()).spawn().expect("it starts");
        let process = Process(Some(child));
        let socket = self.machine.path(&format!("run/tank-{other}.inspect.sock"));
        let name = format!("tank-{other}/v");
        let mut seen = None;
        eventually("it can be looked at", || {
            seen = Nbd::connect(&socket, &name).ok();
            seen.is_some()
        });
        look(&mut seen.expect("connected"));
        process.signal("-TERM");
        eventually("it has ended", || !socket.exists());
    }

    /// The last record of the server's log.
    fn record(&self) -> String {
        let log = self.machine.log();
        let mut lines = log.lines().rev();
        let found = lines.find(|line| line.contains("the record of the pool's legs"));
        found.unwrap_or_default().to_owned()
    }

    /// Returns how many records the servers of this head committed.
    pub fn records(&self) -> usize {
        self.machine
            .log()
            .matches("the record of the pool's legs")
            .count()
    }

    /// Returns whether the leg of head `name` is current, by the last record that the server here committed.
    pub fn is_current(&self, name: &str) -> bool {
        let record = self.record();
        let current = record.split("current=").nth(1).unwrap_or_default();
        let current = current.split("stale=").next().unwrap_or_default();
        current.contains(&format!("\"{name}:"))
    }

    /// Blocks until all legs are current.
    pub fn await_all_current(&self) {
        eventually("the record is updated", || {
            self.record().contains("stale=[]")
        });
    }

    pub fn await_current(&self, name: &str, is_current: bool) {
        eventually("the record is updated", || {
            self.is_current(name) == is_current
        });
    }
}

/// Returns the disk of a head in the group of that number.
fn disk_name(head: &str, group: usize) -> String {
    match group {
        0 => head.to_owned(),
        _ => format!("{head}{group}"),
    }
}

/// Two heads and the connections between them.
pub struct Pair {
    pub a: Head,
    pub b: Head,
    witness_folder: Option<tempfile::TempDir>,
    witness_address: String,
    third_address: String,
    pub witness: Process,
    /// The proxies between the heads, in both directions; none where they connect directly.
    network: Vec<Link>,
    acknowledged: u64,
}

/// Addresses of one test, which no other process uses.
fn addresses() -> [String; 4] {
    static PAIRS: AtomicU8 = AtomicU8::new(0);
    let pair = PAIRS.fetch_add(1, Ordering::Relaxed);
    let pid = std::process::id();
    let (high, low) = (64 + pid / 250 % 64, pid % 250);
    [1, 2, 3, 4].map(|number| format!("127.{high}.{low}.{}", pair * 4 + number))
}

fn program(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_BIN_EXE_bulkhead")).with_file_name(name);
    if !path.exists() {
        let mut cargo = Command::new(env!("CARGO"));
        let built = cargo
            .args(["build", "-q", "--offline", "-p", name])
            .status();
        assert!(built.expect("cargo runs").success(), "build {name}");
    }
    path
}

impl Pair {
    /// With pool `tank` on a leg of each head, and an exported volume in it; `a` serves it.
    pub fn new(has_witness: bool) -> (Self, ServerProcess) {
        Self::created(1, has_witness, false, true)
    }

    /// The same with a witness, and `b` has no leg yet.
    pub fn narrow() -> (Self, ServerProcess) {
        Self::created(1, true, false, false)
    }

    /// Two heads and a witness, without a record: `a` serves the pool on its own disk alone, as a pool without legs.
    pub fn plain() -> (Self, ServerProcess) {
        let mut pair = Self::configured(1, true, false, true);
        pair.a.machine.ok("pool create tank a");
        let server = pair.a.machine.serve("");
        pair.start();
        pair.exports();
        (pair, server)
    }

    /// The configurations of both heads name a witness, and the pool by another number. All processes are restarted.
    pub fn add_witness(&mut self, number: &str) {
        self.witness_folder = Some(tempfile::tempdir().expect("a folder"));
        let entry = self.witness_entry();
        for head in [&self.a, &self.b] {
            let path = head.config();
            let text = std::fs::read_to_string(&path).expect("written");
            let text = text.replace("[pools.tank]", &format!("{entry}[pools.tank]"));
            let text = text.replace("guid = 77", &format!("guid = {number}"));
            std::fs::write(&path, text).expect("written");
        }
        self.restart();
    }

    /// Starts a witness, and adds it to the configurations of both heads. Their leg-servers have read that.
    pub fn name_witness(&mut self) {
        self.witness_folder = Some(tempfile::tempdir().expect("a folder"));
        let entry = self.witness_entry();
        self.start_witness();
        self.reconfigure("[pools.tank]", &format!("{entry}[pools.tank]"));
    }

    /// Adds a third head and its leg to the configurations of all heads, and no witness. All leg-servers have read
    /// that.
    pub fn name_third(&mut self) -> Head {
        let mut third = Head::new("c", self.third_address.clone(), 1);
        let entry = third.entry(4);
        let witness = self.witness_folder.as_ref().map(|_| self.witness_entry());
        let beside = format!("head = \"b\", path = {:?} }}", self.b.machine.path("b"));
        let leg = format!(
            "{beside}, {{ disk = 33, head = \"c\", path = {:?} }}",
            third.machine.path("c")
        );
        let change = |text: &str| {
            let text = match &witness {
                Some(witness) => text.replace(witness, ""),
                None => text.to_owned(),
            };
            text.replace("[pools.tank]", &format!("{entry}[pools.tank]"))
                .replace(&beside, &leg)
        };
        let text = std::fs::read_to_string(self.a.machine.path("legs.toml")).expect("written");
        let keys = |head: &Head| head.machine.path("keys").display().to_string();
        let text = text.replace(&keys(&self.a), &keys(&third));
        let text = change(&text).replace("me = \"a\"", "me = \"c\"");
        std::fs::write(third.machine.path("legs.toml"), text).expect("written");
        third.start_leg_server();
        self.a.reconfigure(change);
        self.b.reconfigure(change);
        third
    }

    /// Writes while a command on `a` runs, which succeeds.
    pub fn write_during(&mut self, words: &str) {
        let mut client = self.a.client();
        let mut command = self.a.begin(words);
        let code = loop {
            self.write(&mut client, 1);
            if let Some(status) = command.try_wait().expect("a child of ours") {
                break status.code();
            }
        };
        let said = std::fs::read_to_string(self.a.machine.path("said")).expect("readable");
        assert_eq!(code, Some(0), "{words}: {said}");
        self.check(&mut client);
    }

    /// Removes the witness from the configurations of both heads. Their leg-servers have read that.
    pub fn unname_witness(&mut self) {
        let entry = self.witness_entry();
        self.reconfigure(&entry, "");
    }

    /// Both heads' configurations have `to` instead of `from`, and their leg-servers have read
    /// that.
    pub fn reconfigure(&mut self, from: &str, to: &str) {
        for head in [&mut self.a, &mut self.b] {
            head.reconfigure(|text| text.replace(from, to));
        }
    }

    /// Deletes the records of the pool on all members, or on those named.
    pub fn forget(&mut self, names: &[&str]) {
        for name in names {
            let folder = match *name {
                "a" => self.a.machine.path("state/legs"),
                "b" => self.b.machine.path("state/legs"),
                _ => self.witness_file().with_file_name(""),
            };
            for file in ["77.legs", "77.known"] {
                std::fs::remove_file(folder.join(file)).expect("it was told");
            }
        }
        self.restart();
    }

    fn restart(&mut self) {
        for process in [
            &mut self.witness,
            &mut self.a.leg_server,
            &mut self.b.leg_server,
        ] {
            process.kill();
        }
        self.start();
    }

    fn start(&mut self) {
        self.start_witness();
        self.a.start_leg_server();
        self.b.start_leg_server();
    }

    /// Adds the leg of `b` to the configurations of both heads. The leg-servers have read that.
    pub fn widen(&mut self) {
        let leg = |head: &Head, disk: usize| {
            let path = head.machine.path(head.name);
            format!(
                "{{ disk = {disk}, head = \"{}\", path = {path:?} }}",
                head.name
            )
        };
        let (a, b) = (leg(&self.a, 11), leg(&self.b, 22));
        let both = format!("{a}, {b}");
        self.a.reconfigure(|text| text.replace(&a, &both));
        self.b.reconfigure(|text| text.replace(&a, &both));
    }

    /// The same with this number of groups, with a leg of each head.
    pub fn with_groups(groups: usize, has_witness: bool) -> (Self, ServerProcess) {
        Self::created(groups, has_witness, false, true)
    }

    /// The same without a witness, and with a network between the heads that can be cut.
    pub fn with_network() -> (Self, ServerProcess) {
        Self::created(1, false, true, true)
    }

    fn created(
        groups: usize,
        has_witness: bool,
        has_network: bool,
        has_b: bool,
    ) -> (Self, ServerProcess) {
        let mut pair = Self::configured(groups, has_witness, has_network, has_b);
        pair.start();
        let config = pair.a.config();
        pair.a
            .machine
            .ok(&format!("pool create tank --legs {config}"));
        let server = pair.a.serve("");
        pair.exports();
        // Two heads without a witness only continue after they have been in contact.
        for head in [&pair.a, &pair.b] {
            let heard = head.machine.path("state/legs/77.heard");
            let must = pair.witness_folder.is_none();
            super::eventually("the heads have been in contact", || !must || heard.exists());
        }
        (pair, server)
    }

    fn exports(&self) {
        self.a
            .machine
            .ok("volume create tank/v --size 32M --sparse");
        self.a.machine.ok("nbd export tank/v --name v");
    }

    fn configured(groups: usize, has_witness: bool, has_network: bool, has_b: bool) -> Self {
        let [a, b, witness, third] = addresses();
        let mut pair = Self {
            network: Vec::new(),
            a: Head::new("a", a, groups),
            b: Head::new("b", b, groups),
            witness_folder: has_witness.then(|| tempfile::tempdir().expect("a folder")),
            witness_address: format!("{witness}:7071"),
            third_address: third,
            witness: Process(None),
            acknowledged: 0,
        };
        pair.configure(groups, has_network, has_b);
        pair
    }

    fn configure(&mut self, groups: usize, has_network: bool, has_b: bool) {
        let mut members = self.a.entry(1) + &self.b.entry(2);
        if self.witness_folder.is_some() {
            members += &self.witness_entry();
        }
        let leg = |head: &Head, number: usize, disk: usize| {
            let path = head.machine.path(&disk_name(head.name, number));
            format!(
                "{{ disk = {disk}, head = \"{}\", path = {path:?} }}",
                head.name
            )
        };
        let group = |number: usize| {
            let (a, b) = (
                leg(&self.a, number, 11 + 100 * number),
                leg(&self.b, number, 22 + 100 * number),
            );
            let legs = if has_b { format!("{a}, {b}") } else { a };
            format!("[[pools.tank.groups]]\nneeded = 1\nlegs = [{legs}]\n")
        };
        let groups: String = (0..groups).map(group).collect();
        let mut network = Vec::new();
        for (head, other) in [(&self.a, &self.b), (&self.b, &self.a)] {
            let keys = head.machine.path("keys");
            let mut text = format!(
                "me = \"{}\"\ncertificate = {:?}\nkey = {:?}\n{members}\
                 [pools.tank]\nguid = 77\n{groups}",
                head.name,
                keys.join("cert.pem"),
                keys.join("key.pem")
            );
            for port in [7071, 7072].into_iter().filter(|_| has_network) {
                let direct = format!("{}:{port}", other.address);
                let way = Link::to(direct.clone());
                text = text.replace(&direct, &way.address);
                network.push(way);
            }
            std::fs::write(head.machine.path("legs.toml"), text).expect("written");
        }
        self.network = network;
    }

    /// The fingerprint by which the heads identify the witness.
    pub fn witness_fingerprint(&self) -> String {
        let said = self
            .witness_command(&["identity"])
            .output()
            .expect("it runs");
        let identity = String::from_utf8(said.stdout).expect("text");
        identity.trim().to_owned()
    }

    fn witness_entry(&self) -> String {
        format!(
            "[members.w]\nnumber = 3\nkind = \"witness\"\nmembers = [\"{}\"]\nfingerprint = \"{}\"\n",
            self.witness_address,
            self.witness_fingerprint()
        )
    }

    /// Cuts the network between the heads, or heals it.
    pub fn cut_network(&self, is_cut: bool) {
        assert!(!self.network.is_empty(), "there is one");
        for way in &self.network {
            way.set_cut(is_cut);
        }
    }

    fn witness_command(&self, words: &[&str]) -> Command {
        let folder = self.witness_folder.as_ref().expect("there is one").path();
        let mut command = Command::new(program("bulkhead-witness"));
        command.args(words).stdin(Stdio::null());
        command.arg("--folder").arg(folder.join("state"));
        command.arg("--desk").arg(folder.join("desk"));
        command
    }

    /// Runs a command of the witness; returns whether it succeeded, and its output.
    pub fn witness_does(&self, words: &[&str]) -> (bool, String) {
        let done = self.witness_command(words).output().expect("it runs");
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (done.status.success(), said)
    }

    /// Returns the witness's file for the pool.
    pub fn witness_file(&self) -> PathBuf {
        let folder = self.witness_folder.as_ref().expect("there is one").path();
        folder.join("state/77.legs")
    }

    /// Blocks until the witness has a record.
    pub fn await_witness_updated(&self) {
        super::eventually("the witness has a record", || {
            let (_, said) = self.witness_does(&["status"]);
            said.contains("pool 77: record")
        });
    }

    /// Replaces the witness by another host: another key, and no records. Heads read this when they start.
    pub fn replace_witness(&mut self) {
        self.witness.kill();
        self.witness_folder = Some(tempfile::tempdir().expect("a folder"));
        let (_, identity) = self.witness_does(&["identity"]);
        for head in [&self.a, &self.b] {
            let path = head.config();
            let text = std::fs::read_to_string(&path).expect("written");
            let (before, rest) = text.split_once("[members.w]").expect("a witness");
            let (own, after) = rest.split_once("fingerprint = \"").expect("its key");
            let after = after.split_once('"').expect("its end").1;
            let identity = identity.trim();
            let text = format!("{before}[members.w]{own}fingerprint = \"{identity}\"{after}");
            std::fs::write(&path, text).expect("written");
        }
        self.start_witness();
    }

    pub fn start_witness(&mut self) {
        if self.witness_folder.is_none() {
            return;
        }
        let listed = std::fs::read_to_string(self.a.machine.path("legs.toml")).expect("written");
        let mut fingerprints = listed
            .lines()
            .filter_map(|line| line.strip_prefix("fingerprint = "))
            .map(|text| text.trim_matches('"').to_owned());
        let heads = [1, 2].map(|number| format!("{number}={}", fingerprints.next().expect("two")));
        let words = ["serve", "--number", "3", "--listen", &self.witness_address];
        let mut command = self.witness_command(&words);
        command.args(["--head", &heads[0], "--head", &heads[1]]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.witness = Process(Some(child.expect("it starts")));
    }

    /// Replaces disk `old` of a head by `new` in the configurations of both heads. The leg-servers have read that.
    pub fn exchange(&mut self, head: &str, old: &str, new: &str) {
        let machine = match head {
            "a" => &self.a.machine,
            _ => &self.b.machine,
        };
        let quoted = |disk: &str| format!("{:?}", machine.path(disk));
        let (old, new) = (quoted(old), quoted(new));
        self.a.reconfigure(|text| text.replace(&old, &new));
        self.b.reconfigure(|text| text.replace(&old, &new));
    }

    /// Swaps the numbers of the first two disks of `b` in the configurations of both heads. The leg-servers have read
    /// that.
    pub fn cross_disks_of_b(&mut self) {
        let [one, other] = [0, 1].map(|group| {
            let path = self.b.machine.path(&disk_name("b", group));
            format!("path = {path:?}")
        });
        let cross = |text: &str| {
            let text = text.replace(&one, "path = \u{0}").replace(&other, &one);
            text.replace("path = \u{0}", &other)
        };
        self.a.reconfigure(cross);
        self.b.reconfigure(cross);
    }

    /// From the next start of a server on, `a` reaches the disk of `b` through this proxy.
    pub fn link_to_b(&self) -> Link {
        let direct = format!("{}:7072", self.b.address);
        let way = Link::to(direct.clone());
        let path = self.a.machine.path("legs.toml");
        let text = std::fs::read_to_string(&path).expect("written");
        std::fs::write(&path, text.replace(&direct, &way.address)).expect("written");
        way
    }

    /// Writes blocks durably, one after the other; each is acknowledged.
    pub fn write(&mut self, client: &mut Nbd, count: u64) {
        for block in self.acknowledged..self.acknowledged + count {
            client
                .write(block * BLOCK as u64, &contents(block))
                .expect("written");
            client.flush().expect("durable");
        }
        self.acknowledged += count;
    }

    /// Forces the server of `head` to write a transaction group.
    pub fn write_group(&self, head: &Head) {
        let name = format!("tank/group{}", self.acknowledged);
        head.machine
            .ok(&format!("volume create {name} --size 1M --sparse"));
    }

    /// Head `a`, which serves, is lost. `b` takes over, and has all acknowledged writes.
    pub fn take_over_on_b(&mut self, server: ServerProcess) -> ServerProcess {
        server.kill();
        self.a.leg_server.kill();
        let server = self.b.serve("--previous-owner-is-stopped");
        self.check(&mut self.b.client());
        server
    }

    /// All acknowledged writes are there.
    pub fn check(&self, client: &mut Nbd) {
        for block in 0..self.acknowledged {
            let found = client.read(block * BLOCK as u64, BLOCK).expect("read");
            assert!(
                found == contents(block),
                "block {block} was acknowledged, and is lost"
            );
        }
    }
}

/// Returns the contents of a written block: no zeros.
pub fn contents(block: u64) -> Vec<u8> {
    vec![(block % 255) as u8 + 1; BLOCK]
}
