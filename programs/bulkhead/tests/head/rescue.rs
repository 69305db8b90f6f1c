//! Rescues: a volume, a snapshot, a clone on a local socket, with and without a server; the
//! refusals during a rescue; and that nothing is left behind afterwards.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::common::nbd::Nbd;
use crate::common::tools::{installed, run, try_run};
use crate::common::{TestHost, eventually};

const TARGET: &str = "iqn.2026-01.org.example:tank";

/// A host with volume `tank/v` as the NBD export `v` and unit 0 of [`TARGET`], with 1s in a
/// snapshot `old`, and 2s since.
fn machine() -> TestHost {
    let machine = TestHost::with_exported_volume();
    machine.ok(&format!("target create {TARGET}"));
    machine.ok(&format!("target map {TARGET} tank/v"));
    let server = machine.serve("");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    client.write(0, &[1; 65_536]).expect("written");
    machine.ok("snapshot create tank/v@old");
    client.write(0, &[2; 65_536]).expect("written");
    client.flush().expect("flushed");
    drop(client);
    assert_eq!(server.stop(), 0, "{}", machine.log());
    machine
}

/// Returns all values that must be the same before and after: the output of `volume show` and `pool
/// get` except space, and the properties of the root.
fn identities(machine: &TestHost) -> serde_json::Value {
    let mut volume = machine.ok("volume show tank/v --json").json();
    let list = machine.ok("volume list tank --json").json();
    let names: Vec<_> = list
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["name"].clone())
        .collect();
    let fields = volume.as_object_mut().expect("an object");
    fields.retain(|name, _| {
        [
            "name",
            "size",
            "block_size",
            "origin",
            "exports",
            "identity",
            "properties",
        ]
        .contains(&name.as_str())
    });
    let properties = fields["properties"].as_object_mut().expect("properties");
    // Values that depend on the number of bytes that are stored now.
    let changing = [
        "used",
        "available",
        "referenced",
        "compressratio",
        "refcompressratio",
        "written",
        "logical",
    ];
    properties.retain(|name, _| {
        !changing.iter().any(|one| name.starts_with(one)) && !name.contains("used")
    });
    let guid = machine.ok("pool get tank guid --json").json();
    serde_json::json!({"volume": volume, "volumes": names, "guid": guid, "labels": labels(machine)})
}

/// The labels of both disks, as zdb reads them, without the transaction group.
fn labels(machine: &TestHost) -> Vec<String> {
    if !installed("zdb") {
        return Vec::new();
    }
    let label = |disk: &str| {
        let path = machine.path(disk).display().to_string();
        let said = run("zdb", &["-l", &path]);
        let lines = said.lines().filter(|line| {
            // The import increments its number, which is expected.
            let of_each_import = ["txg:", "state:", "bulkhead:start:"];
            !of_each_import
                .iter()
                .any(|name| line.trim_start().starts_with(name))
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    ["a", "b"].map(label).into()
}

/// A running `volume rescue`.
struct Rescue {
    child: Child,
    socket: PathBuf,
    view: serde_json::Value,
}

impl Rescue {
    fn begin(machine: &TestHost, words: &str) -> Self {
        use std::io::BufRead;
        let mut child = machine
            .command(&format!("volume rescue {words} --json"))
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the program starts");
        let out = child.stdout.take().expect("piped");
        let mut text = String::new();
        for line in std::io::BufReader::new(out).lines() {
            let line = line.expect("readable");
            text.push_str(&line);
            if line == "}" {
                break;
            }
        }
        let view: serde_json::Value = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{error}: {text}\n{}", machine.log()));
        let socket = PathBuf::from(view["socket"].as_str().unwrap_or_else(|| panic!("{view}")));
        Self {
            child,
            socket,
            view,
        }
    }

    fn connect(&self) -> Nbd {
        Nbd::connect(&self.socket, "").expect("connected")
    }

    /// Ctrl-C, to its end.
    fn interrupt(mut self) {
        let pid = self.child.id().to_string();
        assert!(try_run("kill", &["-INT", &pid]).status.success());
        let status = self.child.wait().expect("a child of ours");
        assert!(status.success(), "{status}");
        assert!(!self.socket.exists());
    }

    /// The rescue was ended from outside.
    fn has_ended(mut self) {
        let status = self.child.wait().expect("a child of ours");
        assert!(status.success(), "{status}");
    }

    fn kill(mut self) {
        self.child.kill().expect("alive until now");
        self.child.wait().expect("a child of ours");
    }
}

#[test]
fn rescued_volume_is_exclusive_and_restored_afterwards() {
    let machine = machine();
    let _server = machine.serve("");
    let before = identities(&machine);
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    machine.refused("volume rescue tank/v", 5, "in use: 1 client(s), NBD");
    assert_eq!(client.read(0, 512).expect("undisturbed"), [2; 512]);
    drop(client);
    let nobody = || {
        machine.ok("nbd list tank --json").json()[0]["sessions"]
            .as_array()
            .is_none_or(Vec::is_empty)
    };
    eventually("the client is gone", nobody);

    let rescue = Rescue::begin(&machine, "tank/v");
    let mode = std::fs::metadata(&rescue.socket)
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut inside = rescue.connect();
    assert_eq!(inside.read(0, 4096).expect("read"), [2; 4096]);
    inside.write(4096, &[9; 4096]).expect("written");
    assert!(
        Nbd::connect(&machine.nbd_socket(), "v").is_err(),
        "nobody else may"
    );
    if installed("iscsi-inq") {
        let url = format!("iscsi://{}/{TARGET}/0", machine.portal("127.0.0.1:"));
        let said = try_run("iscsi-readcapacity16", &[&url]);
        assert!(!said.status.success(), "the unit is not ready");
    }
    machine.refused("volume rescue tank/v", 4, "being rescued already");
    machine.refused("volume rollback tank/v@old", 5, "tank/v is being rescued");
    machine.refused(
        "volume destroy tank/v --yes-destroy-data -r --exported",
        5,
        "--end tank/v",
    );
    drop(inside);
    rescue.interrupt();

    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("served again");
    assert_eq!(client.read(4096, 4096).expect("repaired"), [9; 4096]);
    drop(client);
    if installed("iscsi-inq") {
        let url = format!("iscsi://{}/{TARGET}/0", machine.portal("127.0.0.1:"));
        run("iscsi-readcapacity16", &[&url]);
    }
    assert_eq!(identities(&machine), before);
}

#[test]
fn rescue_of_snapshot_discards_its_writable_clone() {
    let machine = machine();
    let _server = machine.serve("");
    let before = identities(&machine);
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    let rescue = Rescue::begin(&machine, "tank/v@old");
    let mut inside = rescue.connect();
    assert_eq!(inside.read(0, 4096).expect("read"), [1; 4096]);
    assert!(inside.write(0, &[9; 4096]).is_err(), "read-only");
    client.write(0, &[3; 4096]).expect("the owner continues");
    drop(inside);
    machine.ok("volume rescue tank/v --end");
    eventually("it exits by itself", || !rescue.socket.exists());
    rescue.has_ended();

    let rescue = Rescue::begin(&machine, "tank/v@old --writable");
    // Its clone would be leaked.
    for words in [
        "rename tank/v tank/w",
        "destroy tank/v --recursive --exported --yes-destroy-data",
    ] {
        machine.refused(&format!("volume {words}"), 5, "tank/v is being rescued");
    }
    let rename = "snapshot rename tank/v@old new";
    machine.refused(rename, 5, "tank/v@old is being rescued");
    let clone = rescue.view["clone"].as_str().expect("a clone").to_owned();
    let mut inside = rescue.connect();
    inside.write(0, &[9; 4096]).expect("written");
    inside.flush().expect("flushed");
    assert_eq!(inside.read(0, 4096).expect("read"), [9; 4096]);
    assert!(machine.ok("volume list tank").out.contains(&clone));
    drop(inside);
    rescue.interrupt();
    assert_eq!(client.read(0, 4096).expect("untouched"), [3; 4096]);
    drop(client);
    assert_eq!(identities(&machine), before);
}

/// A stop is delayed until then: no client receives an error for a volume with a rescue that was
/// just ending.
#[test]
fn rescue_ending_during_server_stop_succeeds() {
    let machine = machine();
    let server = machine.serve("");
    machine.ok("nbd unexport tank/v");
    machine.ok("volume rescue tank/v --writable --background");
    let rescues = machine.ok("volume rescue --list --json").json();
    let socket = rescues[0]["socket"].as_str().expect("a socket").to_owned();
    // A client that stays connected delays the end of the rescue.
    let mut client = Nbd::connect(Path::new(&socket), "").expect("connected");
    client.write(0, &[3; 65_536]).expect("written");
    let mut end = machine.command("volume rescue tank/v --end");
    let end = end.stdout(Stdio::piped()).stderr(Stdio::piped());
    let end = end.spawn().expect("started");
    eventually("the rescue is ending", || {
        machine.ok("volume rescue --list --json").json() == serde_json::json!([])
    });
    assert_eq!(server.stop(), 0, "{}", machine.log());
    let said = end.wait_with_output().expect("ended");
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{errors}");
    assert!(!machine.log().contains("ERROR"), "{}", machine.log());

    let _server = machine.serve("");
    machine.ok("nbd export tank/v --name v");
    let mut client = Nbd::connect(&machine.nbd_socket(), "v").expect("connected");
    assert_eq!(client.read(0, 65_536).expect("read"), [3; 65_536]);
}

#[test]
fn killed_rescue_or_server_leaves_no_state() {
    let machine = machine();
    let server = machine.serve("");
    let before = identities(&machine);
    for words in ["tank/v", "tank/v@old", "tank/v@old --writable"] {
        let rescue = Rescue::begin(&machine, words);
        rescue.connect().read(0, 512).expect("read");
        let socket = rescue.socket.clone();
        rescue.kill();
        eventually("the server stops it", || !socket.exists());
    }
    eventually("all is as before", || identities(&machine) == before);
    machine.ok("volume rescue tank/v@old --writable --background");
    assert_eq!(
        machine
            .ok("volume rescue tank/v --list --json")
            .json()
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    for words in ["--list tank", "--list"] {
        let listed = machine.ok(&format!("volume rescue {words} --json")).json();
        assert_eq!(listed[0]["volume"], "tank/v", "{words}: {listed}");
    }
    machine.refused("volume rescue tank", 2, "name the volume");
    let volumes = || {
        let list = machine.ok("volume list tank --json").json();
        list.as_array().map(Vec::len)
    };
    server.kill();
    let server = machine.serve("");
    eventually("the clone is gone", || volumes() == Some(1));
    machine.ok("volume rescue tank/v@old --writable --background");
    server.kill();
    assert_eq!(volumes(), Some(2), "a look without a server writes nothing");
    let _server = machine.serve("");
    eventually("all is as before", || identities(&machine) == before);
}

#[test]
fn rescue_without_server_opens_and_exports_pool() {
    let machine = machine();
    let before = identities(&machine);
    machine.refused("volume rescue tank/none", 3, "no volume tank/none");
    let rescue = Rescue::begin(&machine, "tank/v");
    let mut inside = rescue.connect();
    inside.write(8192, &[7; 4096]).expect("written");
    drop(inside);
    machine.refused("pool-server tank --no-iscsi --no-nbd", 5, "served already");
    rescue.interrupt();
    assert_eq!(
        machine.ok("pool list --json").json()[0]["state"],
        "exported"
    );
    assert_eq!(identities(&machine), before);
    // Killed: the server that it had started detects it.
    let rescue = Rescue::begin(&machine, "tank/v@old");
    rescue.kill();
    eventually("exported", || {
        machine.ok("pool list --json").json()[0]["state"] == "exported"
    });
    assert_eq!(identities(&machine), before);
}

#[test]
fn a_file_system_in_a_partition_is_found_and_a_file_in_it_repaired() {
    let tools = ["mkfs.ext4", "debugfs", "nbdcopy", "sfdisk"];
    if !tools.iter().all(|tool| installed(tool)) {
        return;
    }
    const OFFSET: u64 = 1 << 20;
    let machine = machine();
    let path = |name: &str| machine.path(name).display().to_string();
    std::fs::write(machine.path("config"), "broken\n").expect("a file");
    std::fs::write(machine.path("fixed"), "repaired\n").expect("a file");
    let file_system = std::fs::File::create(machine.path("fs")).expect("a file");
    file_system.set_len(24 << 20).expect("a size");
    run("mkfs.ext4", &["-q", "-F", &path("fs")]);
    debugfs(&path("fs"), &format!("write {} config", path("config")));
    let disk = std::fs::File::create(machine.path("disk")).expect("a file");
    disk.set_len(32 << 20).expect("a size");
    let table = format!(
        "printf 'label: gpt\nstart=2048, size=49152, name=root\n' | sfdisk -q {}",
        path("disk")
    );
    run("sh", &["-c", &table]);
    splice(&machine.path("fs"), 0, &machine.path("disk"), OFFSET);

    let rescue = Rescue::begin(&machine, "tank/v");
    let uri = rescue.view["uri"].as_str().expect("a URI").to_owned();
    run("nbdcopy", &["--flush", &path("disk"), &uri]);
    rescue.interrupt();
    let rescue = Rescue::begin(&machine, "tank/v");
    let found = &rescue.view["partitions"][0];
    assert_eq!(rescue.view["partition_table"], "gpt");
    assert_eq!(
        (&found["number"], &found["start"]),
        (&1.into(), &OFFSET.into())
    );
    assert_eq!(
        (&found["name"], &found["contents"]),
        (&"root".into(), &"ext4".into())
    );
    // Copied out, repaired, and written back, with the printed commands.
    run("nbdcopy", &[&uri_of(&rescue), &path("copy")]);
    splice(&machine.path("copy"), OFFSET, &machine.path("fs"), 0);
    debugfs(&path("fs"), "rm config");
    debugfs(&path("fs"), &format!("write {} config", path("fixed")));
    splice(&machine.path("fs"), 0, &machine.path("copy"), OFFSET);
    run("nbdcopy", &["--flush", &path("copy"), &uri_of(&rescue)]);
    rescue.interrupt();
    let rescue = Rescue::begin(&machine, "tank/v --read-only");
    run("nbdcopy", &[&uri_of(&rescue), &path("again")]);
    splice(&machine.path("again"), OFFSET, &machine.path("fs"), 0);
    let said = run("debugfs", &["-R", "cat config", &path("fs")]);
    assert_eq!(said, "repaired\n");
    rescue.interrupt();
}

fn uri_of(rescue: &Rescue) -> String {
    rescue.view["uri"].as_str().expect("a URI").to_owned()
}

fn debugfs(file: &str, command: &str) {
    run("debugfs", &["-w", "-R", command, file]);
}

/// Copies 24 MiB from one file into another.
fn splice(from: &Path, from_at: u64, to: &Path, to_at: u64) {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; 24 << 20];
    let from = std::fs::File::open(from).expect("a file");
    from.read_exact_at(&mut bytes, from_at).expect("read");
    let to = std::fs::File::options()
        .write(true)
        .open(to)
        .expect("a file");
    to.write_all_at(&bytes, to_at).expect("written");
}
