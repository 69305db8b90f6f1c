//! Volumes are replicated between two servers with attached clients, and either server is killed on
//! the way. Unauthorized pools are refused.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::TestHost;
use crate::common::heads::{Head, MIB, fill, noise};

/// Longest wait for a run that is due.
const RUN_WAIT: Duration = Duration::from_secs(120);

/// Returns a recently free address; a server uses it across restarts. It stays free in between,
/// because all other connections and listeners are on 127.0.0.1.
fn free_address() -> String {
    let process = std::process::id();
    let own = format!("127.{}.{}.1:0", 128 + process / 250 % 64, process % 250);
    let listener = TcpListener::bind(own).expect("bound");
    listener.local_addr().expect("an address").to_string()
}

struct Pair {
    near: Head,
    far: Head,
    address: String,
    near_print: String,
    far_print: String,
}

fn fingerprint(head: &Head) -> String {
    let identity = head.machine.ok("replicate identity tank --json").json();
    identity["fingerprint"]
        .as_str()
        .expect("a fingerprint")
        .to_owned()
}

impl Pair {
    fn new() -> Self {
        let address = free_address();
        let near = Head::new();
        let far = Head::with_options(&format!("--replication {address}"));
        Self {
            near_print: fingerprint(&near),
            far_print: fingerprint(&far),
            near,
            far,
            address,
        }
    }

    fn set(&self, options: &str) {
        let Self {
            address, far_print, ..
        } = self;
        self.near.machine.ok(&format!(
            "replicate set tank/v --to {address} --peer {far_print} {options}"
        ));
    }

    /// Replicates now; a scheduled run in progress goes first.
    fn run_in_turn(&self) {
        let deadline = Instant::now() + RUN_WAIT;
        loop {
            let said = self.near.machine.run("replicate run tank/v");
            let busy = said.code == 5 && said.err.contains("under way");
            if !busy {
                assert_eq!(said.code, 0, "{} {}", said.out, said.err);
                return;
            }
            assert!(Instant::now() < deadline, "{}", said.err);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The far side retains no more than requested.
    fn accept(&self, below: &str) {
        self.accept_keeping(below, "--keep 1 --keep-days 0");
    }

    fn accept_keeping(&self, below: &str, options: &str) {
        let print = &self.near_print;
        self.far.machine.ok(&format!(
            "replicate accept {print} --below {below} {options}"
        ));
    }

    /// Returns the names of the snapshots of `volume` that replication created.
    fn snapshots(&self, head: &Head, volume: &str) -> Vec<String> {
        let all = head
            .machine
            .ok(&format!("snapshot list {volume} --json"))
            .json();
        let names = all.as_array().expect("a list").iter();
        let names = names.map(|one| one["name"].as_str().expect("a name").to_owned());
        names.filter(|name| name.contains("@repl-")).collect()
    }

    fn contents_agree(&self, copy: &str) {
        let newest =
            |head: &Head, volume: &str| self.snapshots(head, volume).pop().expect("a snapshot");
        let (near, far) = (newest(&self.near, "tank/v"), newest(&self.far, copy));
        assert_eq!(near.split('@').nth(1), far.split('@').nth(1));
        assert!(self.near.contents(&near) == self.far.contents(&far));
    }
}

#[test]
fn volume_is_replicated_until_acceptance_is_revoked() {
    let pair = Pair::new();
    let near = &pair.near.machine;
    let mut client = pair.near.client();
    client.write(0, &noise(1, MIB)).expect("written");
    client.flush().expect("flushed");
    pair.set("--into tank/from/v --keep 2");

    assert_unknown_clients_are_refused(&pair);
    near.refused("replicate run tank/v", 7, "talk to");
    near.refused(
        "replicate run tank/v",
        7,
        "does not accept the certificate of this pool",
    );
    let accept = format!(
        "`bulkhead replicate accept {} --below tank/from/v`",
        pair.near_print
    );
    near.refused("replicate run tank/v", 7, &accept);
    assert!(
        pair.snapshots(&pair.near, "tank/v").is_empty(),
        "no receiver would accept it"
    );
    pair.accept("tank/elsewhere");
    near.refused("replicate run tank/v", 10, "not accepted");
    pair.accept("tank/from");
    near.ok("replicate run tank/v");
    pair.contents_agree("tank/from/v");
    let list = pair.far.machine.ok("replicate list tank --json").json();
    assert_eq!(list["copies"][0]["volume"], "tank/from/v");
    assert_eq!(list["copies"][0]["exports"], serde_json::json!(["nbd:v"]));
    assert!(list["copies"][0]["age_s"].is_u64(), "{list}");

    // The original's documents were replicated, and have no effect.
    let copy = pair.far.machine.ok("volume show tank/from/v --json").json();
    let kept = &copy["properties"]["bulkhead-source:export"]["value"];
    assert!(
        kept.as_str().is_some_and(|text| text.contains("nbd")),
        "{copy}"
    );
    assert_eq!(copy["exports"].as_array().map(Vec::len), Some(0));

    // The snapshots keep their names. Recursive snapshots leave copies out, unless a copy is named.
    for (head, volume) in [(&pair.near, "tank/v"), (&pair.far, "tank/from/v")] {
        let snapshot = pair.snapshots(head, volume).pop().expect("a snapshot");
        let rename = format!("snapshot rename {snapshot} mine");
        head.machine.refused(&rename, 5, "clone it");
    }
    let below = pair.far.machine.ok("snapshot create -r tank@noon").out;
    assert!(below.contains("left out 1 that"), "{below}");
    pair.far.machine.ok("snapshot create -r tank/from/v@mine");

    // By its schedule, without a request; old snapshots are destroyed on both sides.
    client.write(MIB as u64, &noise(2, MIB)).expect("written");
    client.flush().expect("flushed");
    pair.set("--into tank/from/v --keep 2 --every 10s");
    let deadline = Instant::now() + RUN_WAIT;
    let first = pair.snapshots(&pair.far, "tank/from/v");
    while pair
        .snapshots(&pair.far, "tank/from/v")
        .iter()
        .any(|name| first.contains(name))
    {
        assert!(Instant::now() < deadline, "{}", pair.near.machine.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    pair.set("--into tank/from/v --keep 2");
    let status = near.ok("replicate list --json").json()[0].clone();
    assert!(status["replicated"][0]["lag_s"].is_u64(), "{status}");
    pair.run_in_turn();
    assert!(pair.snapshots(&pair.near, "tank/v").len() <= 3);
    assert!(pair.snapshots(&pair.far, "tank/from/v").len() <= 2);
    pair.contents_agree("tank/from/v");

    let export = "nbd export tank/from/v --name copy";
    pair.far.machine.refused(export, 5, "promote it");
    let print = &pair.near_print;
    pair.far.machine.ok(&format!("replicate revoke {print}"));
    near.refused("replicate run tank/v", 7, "talk to");
    let status = near.ok("replicate list --json").json()[0].clone();
    assert!(
        status["replicated"][0]["state"]["failure"].is_string(),
        "{status}"
    );
    near.ok("replicate remove tank/v");
    near.refused("replicate run tank/v", 3, "not replicated");
    client.read(0, 512).expect("still attached");
    assert_eq!(pair.near.server.stop(), 0);
    assert_eq!(pair.far.server.stop(), 0);
}

/// Peers without an accepted key: noise, silence, and a pool with another fingerprint.
fn assert_unknown_clients_are_refused(pair: &Pair) {
    let connect = || TcpStream::connect(&pair.address).expect("connected");
    let silent = connect();
    let mut noisy = connect();
    noisy.write_all(&noise(3, 4096)).expect("sent");
    let limit = Some(Duration::from_secs(60));
    noisy.set_read_timeout(limit).expect("set");
    let mut answer = Vec::new();
    // An alert, or a reset.
    let _ = noisy.read_to_end(&mut answer);
    assert!(answer.len() < 100, "{}", answer.len());
    let other = "1".repeat(64);
    let Pair { address, .. } = pair;
    let near = &pair.near.machine;
    near.ok(&format!(
        "replicate set tank/v --to {address} --peer {other} --into tank/from/v"
    ));
    near.refused("replicate run tank/v", 7, "has the fingerprint");
    // In the form that `--peer` accepts, as a command to compare and repeat.
    let real = format!("`--peer {}`", pair.far_print);
    near.refused("replicate run tank/v", 7, &real);
    pair.set("--into tank/from/v --keep 2");
    drop(silent);
}

#[test]
fn replication_survives_kill_of_either_side() {
    let mut pair = Pair::new();
    pair.set("--into tank/copy --keep 1");
    pair.accept("tank/copy");
    for round in 0..6_u64 {
        fill(&mut pair.near.client(), round * 1000);
        let mut run = pair.near.machine.command("replicate run tank/v");
        run.stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = run.spawn().expect("started");
        // Anywhere between the first frame and the last commit.
        std::thread::sleep(Duration::from_millis(40 * round + 20));
        match round % 2 {
            0 => pair.far = pair.far.killed_and_restarted(),
            _ => pair.near = pair.near.killed_and_restarted(),
        }
        run.wait().expect("it ends");
        pair.run_in_turn();
        pair.contents_agree("tank/copy");
    }
    assert!(pair.snapshots(&pair.far, "tank/copy").len() <= 1);
    assert!(pair.far.token("tank/copy").is_empty());
}

/// An intruder at the source requests to keep one snapshot, and sends so many that the good ones would be pruned.
#[test]
fn source_does_not_control_backup_retention() {
    let pair = Pair::new();
    pair.set("--into tank/copy --keep 1");
    pair.accept_keeping("tank/copy", "--keep 3 --keep-days 2");
    pair.run_in_turn();
    let good = pair.snapshots(&pair.far, "tank/copy");
    for _ in 0..5 {
        pair.run_in_turn();
    }
    let left = pair.snapshots(&pair.far, "tank/copy");
    assert_eq!(left[0], good[0], "the first of its day");
    assert!(left.len() >= 4, "{left:?}");
    assert!(pair.snapshots(&pair.near, "tank/v").len() <= 2);
    let list = pair.far.machine.ok("replicate list tank --json").json();
    assert_eq!(list["peers"][0]["retention"]["newest"], 3, "{list}");
    // Fewer are retained from now on because this side decides so.
    pair.accept("tank/copy");
    pair.run_in_turn();
    assert_eq!(pair.snapshots(&pair.far, "tank/copy").len(), 1);
}

#[test]
fn silent_connections_do_not_block_replication() {
    let pair = Pair::new();
    pair.set("--into tank/copy");
    pair.accept("tank/copy");
    let connect = |_| {
        let mut dripping = TcpStream::connect(&pair.address).expect("connected");
        dripping.write_all(&[0x16]).expect("sent");
        dripping
    };
    let silent: Vec<TcpStream> = (0..40).map(connect).collect();
    pair.near.machine.ok("replicate run tank/v");
    drop(silent);
}

/// Forwards this number of bytes, and then stalls.
fn stalling_link(to: String, most: usize) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    let stalled = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stalled);
    std::thread::spawn(move || {
        let (near, _) = listener.accept().expect("accepted");
        let far = TcpStream::connect(to).expect("connected");
        let back = (
            far.try_clone().expect("a copy"),
            near.try_clone().expect("a copy"),
        );
        let forth = std::thread::spawn(move || {
            let _ = std::io::copy(&mut (&near).take(most as u64), &mut &far);
            told.store(true, Ordering::Release);
            (near, far)
        });
        let (mut from, mut to) = back;
        let _ = std::io::copy(&mut from, &mut to);
        // The peer has ended it.
        let _ = to.shutdown(Shutdown::Both);
        drop(forth.join());
    });
    (address, stalled)
}

/// Its silence alone would time out after a minute.
#[test]
fn revoked_replication_stream_ends_at_once() {
    const CONCURRENT_SNAPSHOTS: Duration = Duration::from_secs(30);
    let pair = Pair::new();
    let mut client = pair.near.client();
    client.write(0, &noise(5, 8 * MIB)).expect("written");
    client.flush().expect("flushed");
    let (way, stalled) = stalling_link(pair.address.clone(), 2 * MIB);
    let print = &pair.far_print;
    pair.near.machine.ok(&format!(
        "replicate set tank/v --to {way} --peer {print} --into tank/copy"
    ));
    pair.accept("tank/copy");
    let mut run = pair.near.machine.command("replicate run tank/v");
    run.stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = run.spawn().expect("started");
    crate::common::eventually("the stream stands", || stalled.load(Ordering::Acquire));
    let print = &pair.near_print;
    pair.far.machine.ok(&format!("replicate revoke {print}"));
    let revoked = Instant::now();
    assert!(!run.wait().expect("it ends").success());
    assert!(
        revoked.elapsed() < CONCURRENT_SNAPSHOTS,
        "{:?}",
        revoked.elapsed()
    );
}

/// Both heads of each appliance, in turn: the schedule continues on the head with the pool.
#[test]
fn replication_continues_after_takeover_of_either_side() {
    let mut pair = Pair::new();
    pair.set("--into tank/copy --keep 2 --every 10s");
    pair.accept("tank/copy");
    let arrived = |pair: &Pair| {
        let far = &pair.far.machine;
        match far.run("snapshot list tank/copy --json") {
            said if said.code == 0 => pair.snapshots(&pair.far, "tank/copy").pop(),
            _ => None,
        }
    };
    for round in 0..3 {
        let before = arrived(&pair);
        let mut client = pair.near.client();
        client.write(0, &noise(77 + round, MIB)).expect("written");
        client.flush().expect("flushed");
        drop(client);
        match round {
            0 => {}
            1 => pair.near = pair.near.taken_over("0000beef"),
            _ => pair.far = pair.far.taken_over("0000cafe"),
        }
        let deadline = Instant::now() + RUN_WAIT;
        while arrived(&pair) <= before {
            assert!(Instant::now() < deadline, "{}", pair.near.machine.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    pair.set("--into tank/copy --keep 2");
    pair.run_in_turn();
    pair.contents_agree("tank/copy");
}

const TARGET: &str = "iqn.2026-01.org.example:tank";

/// The near site is lost: the copy replaces the original disk, in one step that is atomic under a
/// kill, and accepts no data from the original any more.
#[test]
fn copy_is_promoted_for_lost_original() {
    let pair = Pair::new();
    let (near, far) = (&pair.near.machine, &pair.far.machine);
    for words in [
        format!("target create {TARGET}"),
        format!("target allow {TARGET} --network 127.0.0.0/8"),
        format!("target map {TARGET} tank/v --lun 7"),
    ] {
        near.ok(&words);
    }
    let mut client = pair.near.client();
    client.write(0, &noise(1, MIB)).expect("written");
    client.flush().expect("flushed");
    near.ok("volume set tank/v refreservation=8M");
    pair.set("--into tank/from/v");
    pair.accept("tank/from");
    near.ok("replicate run tank/v");
    let shown = |head: &crate::common::TestHost, volume: &str| {
        head.ok(&format!("volume show {volume} --json")).json()
    };
    let original = shown(near, "tank/v");

    let promote = "replicate promote tank/from --original-is-lost";
    far.refused(promote, 4, "export name \"v\" is already");
    far.ok("nbd unexport tank/v");
    far.refused("replicate promote tank/v", 3, "is a copy");
    let asked = "replicate promote tank/from";
    far.refused(asked, 6, &format!("iscsi:{TARGET}/7 nbd:v"));
    assert_eq!(shown(far, "tank/from/v")["exports"], serde_json::json!([]));
    far.refused("nbd export tank/from/v --name w", 5, "is a copy");

    // After a kill in the middle, either state is valid.
    let mut killed = far.command(promote).spawn().expect("started");
    let Pair { near, far, .. } = pair;
    let far = far.killed_and_restarted();
    killed.wait().expect("it ends");
    let exports = &shown(&far.machine, "tank/from/v")["exports"];
    assert!(
        [0, 2].contains(&exports.as_array().map_or(9, Vec::len)),
        "{exports}"
    );
    far.machine.ok(promote);
    let copy = shown(&far.machine, "tank/from/v");
    for what in ["identity", "exports"] {
        assert_eq!(copy[what], original[what]);
    }
    assert!(
        copy["properties"].get("bulkhead-source:identity").is_none(),
        "{copy}"
    );
    let targets = far
        .machine
        .ok(&format!("target show {TARGET} --json"))
        .json();
    assert_eq!(
        targets["access"]["networks"],
        serde_json::json!(["127.0.0.0/8"])
    );
    assert_eq!(
        copy["space"]["refreservation"],
        original["space"]["refreservation"]
    );
    let list = far.machine.ok("replicate list tank --json").json();
    assert!(
        list["copies"][0]["promoted_unix_s"].is_u64(),
        "no copy any more: {list}"
    );
    assert!(far.client().read(0, MIB).expect("read") == noise(1, MIB));
    assert!(far.machine.ok(promote).out.contains("already"));

    // The original is back, and does not overwrite it.
    near.machine
        .refused("replicate run tank/v", 4, "was promoted");
    far.machine.ok("nbd unexport tank/from/v");
    far.machine
        .ok(&format!("target unmap {TARGET} tank/from/v"));
    near.machine
        .refused("replicate run tank/v", 4, "was promoted");
    let other_way = "`bulkhead replicate set tank/from/v …`";
    near.machine.refused("replicate run tank/v", 4, other_way);
}

/// Both pools are on one host, and the original is not lost at all.
#[test]
fn copy_is_not_promoted_while_host_serves_original() {
    let machine = TestHost::with_disks(&["a", "b"]);
    for words in [
        "pool create tank a",
        "pool create vault b",
        "volume create tank/v --size 32M --sparse",
        &format!("target create {TARGET} --pool tank"),
        &format!("target map {TARGET} tank/v --lun 7"),
    ] {
        machine.ok(words);
    }
    let address = free_address();
    let near = machine.serve("");
    let options = format!("--replication {address}");
    let far = machine.serve_pool("vault", "far.sock", &options, |_| ());
    let print = |pool: &str| {
        let identity = machine
            .ok(&format!("replicate identity {pool} --json"))
            .json();
        identity["fingerprint"]
            .as_str()
            .expect("a fingerprint")
            .to_owned()
    };
    let (near_print, far_print) = (print("tank"), print("vault"));
    machine.ok(&format!("replicate accept {near_print} --below vault/v"));
    machine.ok(&format!(
        "replicate set tank/v --to {address} --peer {far_print} --into vault/v"
    ));
    machine.ok("replicate run tank/v");
    let promote = "replicate promote vault/v --original-is-lost";
    let why =
        "tank/v of pool tank, which this host serves, has the identity that vault/v would get";
    machine.refused(promote, 4, why);
    assert_eq!(far.stop(), 0);
    machine.refused(promote, 4, why);
    machine.ok(&format!("target unmap {TARGET} tank/v"));
    machine.ok("nbd export tank/v --name v");
    let promoted = machine.ok(promote).err;
    for part in [
        "tank/v, the original of vault/v, is still exported over NBD on this host",
        "`bulkhead nbd unexport tank/v`",
    ] {
        assert!(promoted.contains(part), "{promoted}");
    }
    // The original is back: both are reported.
    machine.ok(&format!("target map {TARGET} tank/v --lun 8"));
    let far = machine.serve_pool("vault", "far.sock", &options, |_| ());
    let all = machine.ok("status --json").json();
    for status in all.as_array().expect("two pools") {
        let problems = status["problems"].to_string();
        assert!(problems.contains("has the serial number of"), "{status}");
    }
    assert_eq!((far.stop(), near.stop()), (0, 0));
}

/// A shared file system is replicated with its children. The copies are not shared until they are promoted.
#[test]
fn replicated_file_systems_are_shared_after_promotion() {
    const SHARE: &str = "rw=127.0.0.0/8,insecure";
    let pair = Pair::new();
    let (near, far) = (&pair.near.machine, &pair.far.machine);
    near.ok(&format!("filesystem create tank/home --share {SHARE}"));
    near.ok("filesystem create tank/home/ann --owner 1000 --mode 0700");
    // The copies would inherit this, were they not closed from the beginning.
    far.ok(&format!("filesystem create tank/from --share {SHARE}"));
    let (address, print) = (&pair.address, &pair.far_print);
    near.ok(&format!(
        "replicate set tank/home --to {address} --peer {print} --into tank/from/home"
    ));
    pair.accept("tank/from");
    near.refused("replicate run tank/home", 10, "only volumes are taken");
    pair.accept_keeping("tank/from", "--keep 1 --keep-days 0 --files");
    near.ok("replicate run tank/home");
    near.ok("replicate run tank/home");
    let names = ["tank/from/home", "tank/from/home/ann"];
    let shares = || {
        let show = |name| far.ok(&format!("filesystem show {name} --json")).json();
        names.map(|name| show(name)["share"]["value"].clone())
    };
    assert_eq!(shares(), ["off", "off"]);
    for name in names {
        assert_eq!(pair.snapshots(&pair.far, name).len(), 2);
        far.ok(&format!("filesystem check {name}"));
    }
    let serve = format!("filesystem set tank/from/home sharenfs={SHARE}");
    far.refused(&serve, 5, "is a copy");
    far.refused("filesystem inherit tank/from/home sharenfs", 5, "is a copy");

    far.refused("replicate promote tank/from", 6, &format!("nfs:{SHARE}"));
    far.ok("replicate promote tank/from --original-is-lost");
    assert_eq!(shares(), [SHARE, SHARE]);
    near.refused("replicate run tank/home", 4, "was promoted");
}
