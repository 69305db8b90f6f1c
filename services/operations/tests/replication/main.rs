//! Replication between pools in memory, over TLS on the loopback: the snapshots that a run retains, destroys and leaves
//! alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control::replication::{Fingerprint, ReplicationView};
use control::{Answer, Failure, FailureKind, Request};
use engine::Pool;
use engine::capabilities::{Datasets as _, Receiving as _, Sending as _, Snapshotting as _};
use engine::dataset::{DatasetRef, Snapshots};
use engine::transfer::{ReceiveSpec, SendSpec};
use memory_engine::MemoryPool;
use operations::replicate::{Access, Service};
use operations::seals::Seals;
use operations::{Context, DocumentCache, NoServer, perform};
use serde_json::json;
use units::{SnapshotName, VolumeName};

/// A process runs one replication at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A pool, with its listener for replication.
struct Site {
    own: Arc<Own>,
    service: Service,
}

struct Own {
    pool: MemoryPool,
    documents: DocumentCache,
    _folder: tempfile::TempDir,
}

impl Access for Own {
    fn with(&self, work: &mut dyn FnMut(&Context<'_>)) {
        work(&self.context());
    }
}

impl Own {
    fn context(&self) -> Context<'_> {
        Context {
            pool: &self.pool as &dyn Pool,
            hooks: &NoServer,
            documents: &self.documents,
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.service.stop();
    }
}

impl Site {
    fn new(name: &str) -> Self {
        let (_, pool) = MemoryPool::with_engine(name);
        let folder = tempfile::tempdir().expect("a folder");
        let seals = Seals::new(&folder.path().join("authkey"), folder.path());
        let own = Arc::new(Own {
            pool,
            documents: DocumentCache::with_seals(seals),
            _folder: folder,
        });
        let access: Arc<dyn Access> = own.clone();
        let local = "127.0.0.1:0".parse().expect("an address");
        let service = Service::start(access, Some(local)).expect("it listens");
        Self { own, service }
    }

    fn ask(&self, request: serde_json::Value) -> Result<Answer, Failure> {
        let request: Request = serde_json::from_value(request).expect("a request");
        perform(&self.own.context(), request, &mut |_| ())
    }

    fn ok(&self, request: serde_json::Value) {
        self.ask(request.clone())
            .unwrap_or_else(|failure| panic!("{request}: {failure:?}"));
    }

    fn make(&self, name: &str) {
        self.ok(json!({"volume": {"create": {"name": name, "size": 4 << 20, "block_size": null, "sparse": true,
            "properties": {}, "parents": true, "exist_ok": true}}}));
    }

    fn fingerprint(&self) -> Fingerprint {
        match self.ask(json!({"replicate": "identity"})) {
            Ok(Answer::Replication(view)) => view.fingerprint.expect("it has one"),
            other => panic!("{other:?}"),
        }
    }

    fn view(&self) -> ReplicationView {
        match self.ask(json!({"replicate": "list"})) {
            Ok(Answer::Replication(view)) => *view,
            other => panic!("{other:?}"),
        }
    }

    /// Has `dataset` replicated to `into` there.
    fn replicate(&self, dataset: &str, there: &Site, into: &str, keep: u32) {
        let below = into.split_once('/').map_or(into, |_| into);
        there.ok(
            json!({"replicate": {"accept": {"fingerprint": self.fingerprint(), "below": below}}}),
        );
        let to = there.service.address.expect("it listens").to_string();
        self.ok(
            json!({"replicate": {"set": {"dataset": dataset, "document": {"version": 1, "to": to,
            "peer": there.fingerprint(), "into": into, "keep": keep}}}}),
        );
    }

    fn run(&self, dataset: &str) -> Result<Answer, Failure> {
        self.ask(json!({"replicate": {"run": {"dataset": dataset}}}))
    }

    fn runs(&self, dataset: &str, times: usize) {
        for time in 0..times {
            self.write(dataset, time);
            self.run(dataset)
                .unwrap_or_else(|failure| panic!("run {time} of {dataset}: {failure:?}"));
        }
    }

    /// Changes every volume at and below `dataset` that nothing arrives in.
    fn write(&self, dataset: &str, time: usize) {
        let copies = self.view().copies;
        let is_copy = |name: &str| copies.iter().any(|copy| copy.volume.as_str() == name);
        let all = self
            .own
            .pool
            .datasets(DatasetRef::from_checked(dataset), Snapshots::Skip);
        for info in all.expect("datasets") {
            if info.volume.is_some() && !is_copy(&info.name) {
                let byte = u8::try_from(time % 250).expect("a byte") + 1;
                self.own.pool.write(&info.name, 0, &[byte; 4096]);
            }
        }
    }

    /// GUIDs of the snapshots of a volume, by tag.
    fn snapshots(&self, volume: &str) -> BTreeMap<String, u64> {
        let all = self
            .own
            .pool
            .datasets(DatasetRef::from_checked(volume), Snapshots::Include);
        let own = format!("{volume}@");
        let all = all.expect("datasets").into_iter();
        all.filter_map(|info| Some((info.name.strip_prefix(&own)?.to_owned(), info.guid)))
            .collect()
    }

    fn first_byte(&self, volume: &str) -> u8 {
        self.own.pool.read(volume, units::Extent::new(0, 4096))[0]
    }
}

/// A copy is replicated onward: received snapshots are forwarded, and remain under the control of
/// this side's retention.
#[test]
fn onward_replication_keeps_received_history() {
    let _alone = alone();
    let [first, second, third] = ["tank", "vault", "attic"].map(Site::new);
    first.make("tank/v");
    first.replicate("tank/v", &second, "vault/v", 1);
    first.runs("tank/v", 6);
    assert_eq!(second.snapshots("vault/v").len(), 6);
    second.replicate("vault/v", &third, "attic/v", 1);
    for time in 6..10 {
        second.run("vault/v").expect("onward");
        first.write("tank/v", time);
        first.run("tank/v").expect("the first one continues");
    }
    second.run("vault/v").expect("onward");
    let kept = second.snapshots("vault/v");
    assert_eq!(
        kept.len(),
        9,
        "the 8 newest, and the first of the day: {kept:?}"
    );
    let newest = |site: &Site, volume: &str| site.snapshots(volume).pop_last();
    assert_eq!(newest(&third, "attic/v"), newest(&second, "vault/v"));
    assert_eq!(third.first_byte("attic/v"), 10);
}

/// The copies are promoted, and replicated back to the original pool.
#[test]
fn replication_back_after_promotion_keeps_received_history() {
    let _alone = alone();
    let [first, second] = ["tank", "vault"].map(Site::new);
    first.make("tank/v");
    first.replicate("tank/v", &second, "vault/v", 8);
    first.runs("tank/v", 8);
    let arrived = second.snapshots("vault/v");
    second.ok(json!({"replicate": {"promote": {"dataset": "vault/v", "original_is_lost": true}}}));
    second.replicate("vault/v", &first, "tank/back", 1);
    second.runs("vault/v", 4);
    let now = second.snapshots("vault/v");
    assert!(arrived.keys().all(|tag| now.contains_key(tag)), "{now:?}");
    assert_eq!(now.len(), 9, "and one of its own: {now:?}");
}

#[test]
fn each_destination_of_a_volume_keeps_its_base() {
    let _alone = alone();
    let [first, second, third] = ["tank", "vault", "attic"].map(Site::new);
    first.make("tank/z/v");
    first.replicate("tank/z", &second, "vault/z", 2);
    first.replicate("tank/z/v", &third, "attic/v", 8);
    first.runs("tank/z/v", 2);
    for _ in 0..12 {
        first.runs("tank/z", 1);
    }
    first.runs("tank/z/v", 1);
    for _ in 0..12 {
        first.runs("tank/z/v", 1);
    }
    first.runs("tank/z", 1);
}

#[test]
fn replication_resumes_from_a_bookmark_without_snapshots() {
    let _alone = alone();
    let [first, second] = ["tank", "vault"].map(Site::new);
    first.make("tank/v");
    first.replicate("tank/v", &second, "vault/v", 2);
    first.runs("tank/v", 3);
    let names: Vec<String> = first.snapshots("tank/v").into_keys().collect();
    let names: Vec<String> = names.iter().map(|tag| format!("tank/v@{tag}")).collect();
    first.ok(json!({"snapshot": {"destroy": {"names": names}}}));
    first.runs("tank/v", 1);
    assert_eq!(second.first_byte("vault/v"), 1);
}

/// One of three volumes cannot arrive: the copy of it was promoted.
#[test]
fn refused_volume_blocks_no_other_and_piles_up_no_snapshots() {
    let _alone = alone();
    let [first, second] = ["tank", "vault"].map(Site::new);
    for name in ["tank/z/a", "tank/z/b", "tank/z/c"] {
        first.make(name);
    }
    first.replicate("tank/z", &second, "vault/z", 3);
    first.runs("tank/z", 1);
    // A changed copy accepts no further stream; a second copy was promoted.
    second.own.pool.write("vault/z/b", 0, &[99; 4096]);
    for time in 2..9 {
        first.write("tank/z", time);
        let failure = first.run("tank/z").expect_err("one fails");
        assert!(
            failure
                .message
                .starts_with("1 of 3 were not replicated: tank/z/b: "),
            "{failure:?}"
        );
    }
    for volume in ["a", "c"] {
        assert_eq!(second.first_byte(&format!("vault/z/{volume}")), 9);
        assert_eq!(first.snapshots(&format!("tank/z/{volume}")).len(), 3);
    }
    let left = first.snapshots("tank/z/b");
    assert!(left.len() <= 2, "{left:?}");
    let state = &first.view().replicated[0].state;
    assert!(
        state.failure.is_some() && state.bytes_total > 0,
        "{state:?}"
    );
    // It is advice of the pool.
    let status = first.ask(json!("status")).expect("a status");
    let Answer::Status(status) = status else {
        panic!("{status:?}");
    };
    let advice = &status.pool.advice;
    assert!(
        advice.iter().any(|one| one.why.contains("tank/z/b")),
        "{advice:?}"
    );
}

/// An interrupted first copy that was started by hand.
#[test]
fn manual_partial_receive_does_not_block_replication() {
    let _alone = alone();
    let [first, second] = ["tank", "vault"].map(Site::new);
    first.make("tank/v");
    first.own.pool.write("tank/v", 0, &vec![7; 1 << 20]);
    let snapshot: SnapshotName = "tank/v@mine".parse().expect("a name");
    first
        .own
        .pool
        .snapshot(std::slice::from_ref(&snapshot))
        .expect("taken");
    let mut stream = Vec::new();
    first
        .own
        .pool
        .send(&SendSpec::full(snapshot), &mut stream)
        .expect("sent");
    let volume: VolumeName = "vault/v".parse().expect("a name");
    let spec = ReceiveSpec {
        volume: volume.clone(),
        tag: None,
        force: false,
        resumable: true,
        only_volumes: true,
    };
    let half = &mut &stream[..stream.len() / 2];
    second
        .own
        .pool
        .receive(&spec, &|_, _| Vec::new(), half)
        .expect_err("cut off");
    let left = second.own.pool.interrupted(&volume).expect("looked");
    assert!(left.is_some_and(|left| left.token.is_some()));
    first.replicate("tank/v", &second, "vault/v", 2);
    first.run("tank/v").expect("it arrives");
    assert_eq!(second.first_byte("vault/v"), 7);
}

#[test]
fn far_future_snapshot_does_not_stop_replication() {
    let _alone = alone();
    let [first, second] = ["tank", "vault"].map(Site::new);
    first.make("tank/v");
    let name = format!("tank/v@repl-{}", u64::MAX);
    let refused = first.ask(json!({"snapshot": {"create": {"names": [name]}}}));
    assert_eq!(refused.expect_err("refused").kind, FailureKind::Busy);
    // An older version permitted it.
    let name: SnapshotName = name.parse().expect("a name");
    first.own.pool.snapshot(&[name]).expect("taken");
    first.replicate("tank/v", &second, "vault/v", 2);
    first.runs("tank/v", 3);
}

#[test]
fn encrypted_volume_is_sent_decrypted_with_flag_only() {
    let _alone = alone();
    let [first, second] = ["tank", "vault"].map(Site::new);
    first.ok(json!({"key": {"create": {"name": "tank/p",
        "key": {"format": "hex", "location": "prompt", "key": "30".repeat(64)}}}}));
    first.make("tank/p/v");
    let document = |more: &str| {
        let mut document = json!({"version": 1, "to": "127.0.0.1:1", "peer": second.fingerprint(), "into": "vault/p", "keep": 2});
        if !more.is_empty() {
            document[more] = json!(true);
        }
        json!({"replicate": {"set": {"dataset": "tank/p", "document": document}}})
    };
    let refused = first.ask(document("")).expect_err("refused");
    assert_eq!(refused.kind, FailureKind::NeedsConfirmation);
    assert!(
        refused.message.contains("tank/p/v") || refused.message.contains("tank/p is"),
        "{refused:?}"
    );
    first.ok(document("raw"));
    first.ok(document("decrypt"));
}

const IQN: &str = "iqn.2026-01.org.example:tank";

impl Site {
    fn map(&self, volume: &str, lun: u16) {
        self.ok(json!({"target": {"create": {"name": IQN, "portal_groups": []}}}));
        self.ok(json!({"target": {"map": {"name": IQN, "volume": volume, "lun": lun, "read_only": false}}}));
    }

    fn promote(&self, dataset: &str) -> Result<String, Failure> {
        let promote =
            json!({"replicate": {"promote": {"dataset": dataset, "original_is_lost": true}}});
        match self.ask(promote)? {
            Answer::Done(done) => Ok(done.message),
            other => panic!("{other:?}"),
        }
    }

    /// Serial numbers of the units that are shown, with their volumes.
    fn units(&self) -> Vec<(String, String)> {
        let Ok(Answer::Targets(targets)) = self.ask(json!({"target": "list"})) else {
            panic!("no targets");
        };
        let units = targets.into_iter().flat_map(|target| target.units);
        units
            .map(|unit| (unit.serial, unit.volume.to_string()))
            .collect()
    }
}

/// The sender's volume was renamed and mapped again: its copy under the former name is the same disk in an older state.
#[test]
fn renamed_volume_is_promoted_once_in_its_newest_state() {
    let _alone = alone();
    for runs_after in [1, 2] {
        let [first, second] = ["tank", "vault"].map(Site::new);
        first.make("tank/z/old");
        first.make("tank/z/other");
        first.map("tank/z/old", 1);
        first.map("tank/z/other", 2);
        first.replicate("tank/z", &second, "vault/z", 4);
        first.runs("tank/z", 1);
        first.ok(
            json!({"target": {"unmap": {"name": IQN, "volume": "tank/z/old", "in_use": false}}}),
        );
        first.ok(json!({"volume": {"rename": {"from": "tank/z/old", "to": "tank/z/new"}}}));
        first.map("tank/z/new", 3);
        first.own.pool.write("tank/z/new", 0, &[200; 4096]);
        for _ in 0..runs_after {
            first.run("tank/z").expect("it arrives");
        }
        let told = second.promote("vault/z").expect("promoted");
        assert!(
            told.contains("vault/z/old"),
            "left out datasets are named: {told}"
        );
        let volumes: Vec<String> = second
            .units()
            .into_iter()
            .map(|(_, volume)| volume)
            .collect();
        assert_eq!(volumes, ["vault/z/other", "vault/z/new"]);
        assert_eq!(second.first_byte("vault/z/new"), 200);
        let again = second.promote("vault/z").expect("it was done");
        assert!(again.contains("already"), "{again}");
        // The older state cannot become the same disk afterwards.
        let twice = second.promote("vault/z/old").expect_err("refused");
        assert_eq!(twice.kind, FailureKind::Exists, "{twice:?}");
    }
}

/// The newest copy alone is the disk, whichever is named.
#[test]
fn older_copy_is_not_promoted_instead_of_the_newer_one() {
    let _alone = alone();
    let [first, second] = ["tank", "vault"].map(Site::new);
    first.make("tank/z/a");
    first.map("tank/z/a", 1);
    first.replicate("tank/z", &second, "vault/z", 4);
    first.runs("tank/z", 1);
    first.ok(json!({"target": {"unmap": {"name": IQN, "volume": "tank/z/a", "in_use": false}}}));
    first.ok(json!({"volume": {"rename": {"from": "tank/z/a", "to": "tank/z/b"}}}));
    first.map("tank/z/b", 1);
    first.runs("tank/z", 1);
    let refused = second.promote("vault/z/a").expect_err("refused");
    assert_eq!(refused.kind, FailureKind::Exists, "{refused:?}");
    assert!(refused.message.contains("vault/z/b"), "{refused:?}");
    second.promote("vault/z/b").expect("promoted");
}

/// The sender is switched off.
#[test]
fn receiver_reports_stale_copies() {
    let _alone = alone();
    let [first, second] = ["tank", "vault"].map(Site::new);
    first.make("tank/v");
    first.replicate("tank/v", &second, "vault/v", 2);
    first.runs("tank/v", 1);
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .expect("a clock")
        .as_secs();
    let late = |now: u64| {
        let late = operations::replicate::late_copies(&second.own.context(), now);
        let late = late.expect("looked").into_iter();
        late.map(|one| one.dataset.to_string()).collect::<Vec<_>>()
    };
    assert!(late(now + 1_000_000).is_empty(), "it has no time");
    let mut document = serde_json::to_value(&first.view().replicated[0].document).expect("JSON");
    document["every_s"] = json!(900);
    first.ok(json!({"replicate": {"set": {"dataset": "tank/v", "document": document}}}));
    first.runs("tank/v", 1);
    assert!(late(now + 1800).is_empty());
    assert_eq!(late(now + 2200), ["vault/v"]);
}

/// A promotion of all copies skips a volume that the sender destroyed; one that names it promotes it.
#[test]
fn copy_of_a_destroyed_volume_is_promoted_by_name_only() {
    let _alone = alone();
    let [first, second] = ["tank", "vault"].map(Site::new);
    for name in ["tank/z/a", "tank/z/b"] {
        first.make(name);
    }
    first.map("tank/z/a", 1);
    first.map("tank/z/b", 2);
    first.replicate("tank/z", &second, "vault/z", 4);
    first.runs("tank/z", 1);
    first.ok(json!({"target": {"unmap": {"name": IQN, "volume": "tank/z/b", "in_use": false}}}));
    let snapshots: Vec<String> = first.snapshots("tank/z/b").into_keys().collect();
    let snapshots: Vec<String> = snapshots
        .iter()
        .map(|tag| format!("tank/z/b@{tag}"))
        .collect();
    first.ok(json!({"snapshot": {"destroy": {"names": snapshots}}}));
    first.ok(
        json!({"volume": {"destroy": {"name": "tank/z/b", "recursive": false, "exported": false}}}),
    );
    first.runs("tank/z", 1);
    let copies = second.view().copies;
    let gone: Vec<&str> = copies
        .iter()
        .filter(|copy| copy.orphaned_unix_s.is_some())
        .map(|copy| copy.volume.as_str())
        .collect();
    assert_eq!(gone, ["vault/z/b"]);
    let told = second.promote("vault/z").expect("promoted");
    assert!(told.contains("vault/z/b"), "{told}");
    assert_eq!(second.units().len(), 1);
    second.promote("vault/z/b").expect("promoted by name");
    assert_eq!(second.units().len(), 2);
}

/// The site is lost while the copy under the new name is on its way for the first time.
#[test]
fn only_copy_of_a_renamed_volume_is_promoted() {
    let _alone = alone();
    let [first, second] = ["tank", "vault"].map(Site::new);
    first.make("tank/z/a");
    first.map("tank/z/a", 1);
    first.replicate("tank/z", &second, "vault/z", 4);
    first.runs("tank/z", 1);
    first.ok(json!({"target": {"unmap": {"name": IQN, "volume": "tank/z/a", "in_use": false}}}));
    first.ok(json!({"volume": {"rename": {"from": "tank/z/a", "to": "tank/z/b"}}}));
    first.map("tank/z/b", 1);
    // An existing dataset of the same name prevents its arrival.
    second.make("vault/z/b");
    first.run("tank/z").expect_err("it cannot arrive");
    assert!(
        second
            .view()
            .copies
            .iter()
            .all(|copy| copy.orphaned_unix_s.is_none())
    );
    second.promote("vault/z").expect("promoted");
    assert_eq!(second.units().len(), 1);
}
