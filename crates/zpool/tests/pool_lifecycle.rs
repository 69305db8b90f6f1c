//! A pool on files, through its whole life, judged by the stock `zdb`.

use std::path::PathBuf;
use std::process::Command;

use units::PoolName;
use zpool::{Engine, EngineOptions, GroupKind, HostId, Pool, PoolSpec};

#[test]
fn mirror_on_files_is_created_and_exported_and_zdb_finds_nothing() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let devices: Vec<PathBuf> = (0..2)
        .map(|n| {
            let path = folder.path().join(format!("disk{n}"));
            let file = std::fs::File::create(&path).expect("create");
            file.set_len(256 << 20).expect("size");
            path
        })
        .collect();
    let engine = Engine::start(EngineOptions::new(HostId::derive("m", "tank"))).expect("start");
    let name: PoolName = "tank".parse().expect("name");
    let spec = PoolSpec::new(name, GroupKind::Mirror, devices);
    let pool = Pool::create(engine, &spec).expect("create");
    pool.sync().expect("sync");
    pool.export().map_err(|(_, e)| e).expect("export");

    let output = Command::new("zdb")
        .args(["-e", "-p"])
        .arg(folder.path())
        .args(["-bcc", "tank"])
        .output()
        .expect("zdb");
    assert!(output.status.success(), "{output:?}");
}
