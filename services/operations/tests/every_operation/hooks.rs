//! The calls of operations to a server with open volumes.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::Failure;
use control::answer::{Answer, Done, FileClientView, OpenFilesView};
use engine::capabilities::{Keys as _, Volumes as _};
use engine::dataset::DatasetErrorKind;
use engine::{Paused, Volume};
use leg_door::LegRequest;
use memory_engine::Failure as Fails;
use operations::in_use::Used;
use operations::{ContentsSwapped, ServerHooks};
use units::VolumeName;

use super::Bench;

/// Records the calls. Has at most one volume open.
#[derive(Default)]
struct Recorder {
    told: RefCell<Vec<String>>,
    open: Option<(VolumeName, Arc<dyn Volume>)>,
    users: Vec<String>,
    held: Vec<String>,
}

impl Recorder {
    fn tell(&self, what: String) {
        self.told.borrow_mut().push(what);
    }

    fn take(&self) -> Vec<String> {
        self.told.take()
    }

    fn open(&self, name: &VolumeName) -> Option<&Arc<dyn Volume>> {
        let open = self.open.as_ref().filter(|(own, _)| own == name);
        open.map(|(_, volume)| volume)
    }
}

fn failed(error: impl std::error::Error) -> Failure {
    Failure::new(control::FailureKind::Failed, error.to_string())
}

impl ServerHooks for Recorder {
    fn exports_changed(&self) -> Result<(), Failure> {
        self.tell("exports changed".to_owned());
        Ok(())
    }

    fn open(&self, name: &VolumeName) -> Result<bool, Failure> {
        self.tell(format!("open {name}"));
        Ok(self.open(name).is_some())
    }

    fn resize(&self, name: &VolumeName, size: u64) -> Result<bool, Failure> {
        self.tell(format!("resize {name}"));
        let Some(volume) = self.open(name) else {
            return Ok(false);
        };
        volume.resize(size).map_err(failed)?;
        Ok(true)
    }

    fn resized(&self, name: &VolumeName) {
        self.tell(format!("resized {name}"));
    }

    fn keys_changed(&self) -> Result<bool, Failure> {
        self.tell("keys changed".to_owned());
        Ok(true)
    }

    fn is_open(&self, name: &VolumeName) -> bool {
        self.open(name).is_some()
    }

    fn users_of(&self, _: &Used<'_>) -> Vec<String> {
        self.users.clone()
    }

    /// One client, which is alive.
    fn open_files(&self, name: &VolumeName) -> Result<OpenFilesView, Failure> {
        let client = FileClientView {
            client: "1f".to_owned(),
            silent_s: 5,
            ..FileClientView::default()
        };
        Ok(OpenFilesView {
            name: name.to_string(),
            clients: vec![client],
            ..OpenFilesView::default()
        })
    }

    fn expire_client(&self, client: u64) -> bool {
        self.tell(format!("expire {client}"));
        client == 0x1f
    }

    fn close(&self, name: &VolumeName) {
        self.tell(format!("close {name}"));
        if let Some(volume) = self.open(name) {
            volume.close();
        }
    }

    fn renamed(&self, from: &VolumeName, to: &VolumeName) {
        self.tell(format!("renamed {from} {to}"));
    }

    fn swap_contents(
        &self,
        name: &VolumeName,
        swap: &mut dyn FnMut(&dyn Paused) -> Result<(), Failure>,
    ) -> Result<Option<ContentsSwapped>, Failure> {
        self.tell(format!("swap {name}"));
        let Some(volume) = self.open(name) else {
            return Ok(None);
        };
        let begun = Instant::now();
        let paused = volume.pause(Duration::from_secs(10)).map_err(failed)?;
        swap(&*paused)?;
        Ok(Some(ContentsSwapped {
            pause: begun.elapsed(),
            sessions_told: 1,
            connections_closed: 0,
        }))
    }

    fn held_legs(&self) -> Vec<String> {
        self.held.clone()
    }

    fn leg(&self, leg: &str, request: LegRequest) -> Option<Result<Answer, Failure>> {
        self.tell(format!("{request:?} {leg}"));
        match self.held.is_empty() {
            true => None,
            false => Some(Ok(Done::changed("tried again"))),
        }
    }

    fn is_ending(&self) -> bool {
        false
    }
}

const VOLUME: &str = r#"{"name":"tank/v","size":16777216,"block_size":null,"sparse":true,"properties":{},"parents":false,"exist_ok":false}"#;

fn prepared() -> (Bench, Recorder) {
    let bench = Bench::prepared();
    let hooks = Recorder::default();
    assert_eq!(bench.ask(&hooks, "volume.create", VOLUME).kind, "changed");
    hooks.take();
    (bench, hooks)
}

fn with_open_volume() -> (Bench, Recorder) {
    let (bench, mut hooks) = prepared();
    let name: VolumeName = "tank/v".parse().expect("a name");
    let volume = bench
        .pool
        .open_volume(&name, Default::default())
        .expect("open");
    hooks.open = Some((name, volume));
    (bench, hooks)
}

#[test]
fn server_is_notified_of_changes_affecting_clients() {
    let (bench, hooks) = prepared();
    let asked = [
        (
            "volume.resize",
            r#"{"name":"tank/v","size":33554432,"allow_shrink":false}"#,
            &["resize tank/v", "resized tank/v", "exports changed"][..],
        ),
        (
            "nbd.export",
            r#"{"volume":"tank/v","name":null,"read_only":false,"access":{}}"#,
            &["exports changed"],
        ),
        (
            "volume.rename",
            r#"{"from":"tank/v","to":"tank/w"}"#,
            &["renamed tank/v tank/w", "exports changed"],
        ),
        (
            "nbd.unexport",
            r#"{"volume":"tank/w","name":null}"#,
            &["exports changed"],
        ),
        ("nbd.unexport", r#"{"volume":"tank/w","name":null}"#, &[]),
        ("snapshot.create", r#"{"names":["tank/w@1"]}"#, &[]),
        ("volume.rollback", r#"{"to":"tank/w@1"}"#, &["swap tank/w"]),
        (
            "volume.destroy",
            r#"{"name":"tank/w","recursive":true,"exported":false}"#,
            &["exports changed", "close tank/w"],
        ),
    ];
    for (verb, arguments, expected) in asked {
        let outcome = bench.ask(&hooks, verb, arguments);
        assert!(
            ["changed", "already"].contains(&outcome.kind.as_str()),
            "{verb}: {}",
            outcome.text
        );
        assert_eq!(hooks.take(), expected, "{verb}");
    }
}

/// Errors are cleared after the devices were checked: a leg that failed three times within an hour is retried too.
#[test]
fn pool_clear_retries_its_legs() {
    let (bench, mut hooks) = prepared();
    let all = r#"{"device":null,"missing_devices_are_not_newer":false}"#;
    assert_eq!(bench.ask(&hooks, "pool.clear", all).kind, "changed");
    assert!(hooks.take().is_empty(), "no leg is held back");
    hooks.held = vec!["left:/dev/a".to_owned(), "right:/dev/b".to_owned()];
    let cleared = bench.ask(&hooks, "pool.clear", all);
    assert_eq!(cleared.kind, "changed", "{}", cleared.text);
    assert!(cleared.text.contains("right:/dev/b"), "{}", cleared.text);
    let expected = ["Readmit left:/dev/a", "Readmit right:/dev/b"];
    assert_eq!(hooks.take(), expected);
}

#[test]
fn open_volume_is_resized_and_rolled_back() {
    let (bench, hooks) = with_open_volume();
    let grown = bench.ask(
        &hooks,
        "volume.resize",
        r#"{"name":"tank/v","size":33554432,"allow_shrink":false}"#,
    );
    assert_eq!(grown.kind, "changed", "{}", grown.text);
    let (_, volume) = hooks.open.as_ref().expect("open");
    assert_eq!(volume.geometry().size, 33_554_432);
    let taken = bench.ask(&hooks, "snapshot.create", r#"{"names":["tank/v@1"]}"#);
    assert_eq!(taken.kind, "changed", "{}", taken.text);
    bench.pool.write("tank/v", 0, &[7; 4096]);
    let back = bench.ask(&hooks, "volume.rollback", r#"{"to":"tank/v@1"}"#);
    assert_eq!(back.kind, "changed", "{}", back.text);
    let extent = units::Extent::new(0, 4096);
    let now = bench.pool.read("tank/v", extent);
    assert!(now.iter().all(|byte| *byte == 0), "as it was");
}

#[test]
fn in_use_exports_are_removed_with_flag_only() {
    let (bench, mut hooks) = prepared();
    hooks.users = vec!["client 1".to_owned()];
    let export = r#"{"volume":"tank/v","name":null,"read_only":false,"access":{}}"#;
    assert_eq!(bench.ask(&hooks, "nbd.export", export).kind, "changed");
    let refused = bench.ask(&hooks, "nbd.unexport", r#"{"volume":"tank/v","name":null}"#);
    assert_eq!(refused.kind, "Busy", "{}", refused.text);
    assert!(refused.text.contains("client 1"), "{}", refused.text);
    let done = bench.ask(
        &hooks,
        "nbd.unexport",
        r#"{"volume":"tank/v","name":null,"in_use":true}"#,
    );
    assert_eq!(done.kind, "changed", "{}", done.text);
}

#[test]
fn possibly_active_client_is_expired_with_flag_only() {
    let bench = Bench::prepared();
    let hooks = Recorder::default();
    let make = r#"{"name":"tank/f","owner":0,"group":0,"mode":"755","properties":{},"parents":false,"exist_ok":false}"#;
    assert_eq!(bench.ask(&hooks, "filesystem.create", make).kind, "changed");
    hooks.take();
    let expire = |client: &str, in_use: bool| {
        let words = format!(r#"{{"name":"tank/f","client":"{client}","in_use":{in_use}}}"#);
        bench.ask(&hooks, "filesystem.expire_client", &words)
    };
    let refused = expire("1f", false);
    assert_eq!(refused.kind, "Busy", "{}", refused.text);
    assert_eq!(expire("2f", true).kind, "NotFound");
    assert_eq!(hooks.take(), [""; 0]);
    assert_eq!(expire("0x1F", true).kind, "changed");
    assert_eq!(hooks.take(), ["expire 31"]);
}

#[test]
fn key_of_datasets_in_use_is_not_unloaded() {
    let bench = Bench::prepared();
    let mut hooks = Recorder::default();
    let digits = "30".repeat(64);
    let key = format!(
        r#"{{"name":"tank/p","key":{{"format":"hex","location":"prompt","key":"{digits}"}}}}"#
    );
    assert_eq!(bench.ask(&hooks, "key.create", &key).kind, "changed");
    let volume = VOLUME.replace("tank/v", "tank/p/v");
    assert_eq!(bench.ask(&hooks, "volume.create", &volume).kind, "changed");
    let name: VolumeName = "tank/p/v".parse().expect("a name");
    let opened = bench
        .pool
        .open_volume(&name, Default::default())
        .expect("open");
    hooks.open = Some((name, opened));
    let unload = r#"{"name":"tank/p"}"#;
    assert_eq!(bench.ask(&hooks, "key.unload", unload).kind, "Busy");
    if let Some((_, volume)) = hooks.open.take() {
        volume.close();
    }
    hooks.take();
    assert_eq!(bench.ask(&hooks, "key.unload", unload).kind, "changed");
    let told = ["resized tank/p", "resized tank/p/v", "exports changed"];
    assert_eq!(hooks.take(), told);
    let load = format!(r#"{{"name":"tank/p","key":"{digits}"}}"#);
    assert_eq!(bench.ask(&hooks, "key.load", &load).kind, "changed");
    assert_eq!(hooks.take(), ["keys changed"]);
    let infos = bench.pool.encrypted_datasets().expect("its keys");
    assert!(infos.iter().all(|info| info.loaded));
}

/// The exports of datasets that could not be destroyed are restored.
#[test]
fn failed_destroy_keeps_the_volume_exported() {
    let (bench, hooks) = prepared();
    let export = r#"{"volume":"tank/v","name":"disk","read_only":false,"access":{}}"#;
    assert_eq!(bench.ask(&hooks, "nbd.export", export).kind, "changed");
    bench
        .pool
        .fail_next("destroy_dataset", Fails::Dataset(DatasetErrorKind::Busy));
    let refused = bench.ask(
        &hooks,
        "volume.destroy",
        r#"{"name":"tank/v","recursive":false,"exported":true}"#,
    );
    assert_eq!(refused.kind, "Busy", "{}", refused.text);
    let again = bench.ask(&hooks, "nbd.export", export);
    assert_eq!(again.kind, "already", "{}", again.text);
}

/// A failed write of a property is reported, and the unstored document is not served.
#[test]
fn unstored_document_is_not_served() {
    let (bench, hooks) = prepared();
    bench.pool.fail_next(
        "edit_user_properties",
        Fails::Dataset(DatasetErrorKind::NoSpace),
    );
    let export = r#"{"volume":"tank/v","name":"disk","read_only":false,"access":{}}"#;
    let refused = bench.ask(&hooks, "nbd.export", export);
    assert_eq!(refused.kind, "NoSpace", "{}", refused.text);
    assert!(hooks.take().is_empty());
    assert_eq!(bench.ask(&hooks, "nbd.export", export).kind, "changed");
}
