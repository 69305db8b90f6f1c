//! User errors and dangers that are refused, each with its own kind of error.

mod support;

use std::io::{BufRead, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use engine::capabilities::{Devices, Health, PoolProperties};
use engine::pool::{
    CandidateState, GroupKind, GroupRole, GroupSpec, ImportOptions, PoolErrorKind, PoolSpec,
    SafeToOwn,
};
use support::{
    Parts, dir, disks, engine, export, isolated, mirror, part, sized_disks, tank, wait_until,
};
use zpool::{Engine, EngineError, EngineOptions, HostId, Pool, discover};

fn create_kind(engine: &'static Engine, kind: GroupKind, devices: Vec<PathBuf>) -> PoolErrorKind {
    match Pool::create(engine, &PoolSpec::new(tank(), kind, devices)) {
        Ok(_) => panic!("created"),
        Err(error) => error.kind,
    }
}

#[test]
fn unusable_devices_are_refused_with_reasons() {
    isolated("unusable_devices_are_refused_with_reasons", || {
        let engine = engine();
        let good = disks(&["good"])[0].clone();
        let missing = dir().join("missing");
        assert_eq!(
            create_kind(engine, GroupKind::Stripe, vec![missing.clone()]),
            PoolErrorKind::DeviceMissing { path: missing }
        );
        let small = sized_disks(&["small"], 32 << 20)[0].clone();
        assert!(matches!(
            create_kind(engine, GroupKind::Stripe, vec![small]),
            PoolErrorKind::DeviceTooSmall { .. }
        ));
        let foreign = disks(&["foreign"])[0].clone();
        let file = std::fs::File::options().write(true).open(&foreign);
        std::io::Write::write_all(&mut file.expect("open"), b"XFSB").expect("write");
        assert!(matches!(
            create_kind(engine, GroupKind::Stripe, vec![foreign]),
            PoolErrorKind::DeviceHolds { .. }
        ));
        assert!(matches!(
            create_kind(engine, GroupKind::Mirror, vec![good.clone(), good.clone()]),
            PoolErrorKind::DeviceUnusable { .. }
        ));
        assert!(matches!(
            create_kind(engine, GroupKind::Mirror, vec![good.clone()]),
            PoolErrorKind::Shape { .. }
        ));
        assert!(matches!(
            create_kind(engine, GroupKind::Stripe, vec![dir()]),
            PoolErrorKind::DeviceUnusable { .. }
        ));
        assert!(matches!(
            create_kind(engine, GroupKind::Stripe, vec!["relative".into()]),
            PoolErrorKind::DeviceUnusable { .. }
        ));
        let mut spec = PoolSpec::new(tank(), GroupKind::Stripe, vec![good.clone()]);
        for (name, value) in [("ashift", "99"), ("nonsense", "1"), ("failmode", "maybe")] {
            spec.properties = vec![(name.into(), value.into())];
            let error = Pool::create(engine, &spec).expect_err("a bad property");
            assert!(
                matches!(&error.kind, PoolErrorKind::Property { property, .. } if property == name),
                "{error}"
            );
        }
        spec.properties.clear();
        let pool = Pool::create(engine, &spec).expect("the good device");
        let long = "x".repeat(33);
        for (name, value) in [
            ("ashift", "99"),
            ("ashift", "-1"),
            ("readonly", "on"),
            ("compatibility", "no-such-set"),
            ("comment", long.as_str()),
        ] {
            let desired = [(name.to_owned(), value.to_owned())];
            let error = pool.set_properties(&desired).expect_err(name);
            assert!(
                matches!(&error.kind, PoolErrorKind::Property { property, .. } if property == name),
                "{error}"
            );
        }
        let error = Pool::create(engine, &spec).expect_err("twice");
        assert!(
            matches!(error.kind, PoolErrorKind::DeviceInPool { .. }),
            "{error}"
        );
        let other = disks(&["other"]);
        assert_eq!(
            create_kind(engine, GroupKind::Stripe, other),
            PoolErrorKind::Exists
        );
        export(pool);
        assert!(matches!(
            create_kind(engine, GroupKind::Stripe, vec![good.clone()]),
            PoolErrorKind::DeviceInPool { .. }
        ));
        spec.overwrite = true;
        export(Pool::create(engine, &spec).expect("with permission"));
    });
}

#[test]
fn second_engine_in_a_process_is_refused() {
    isolated("second_engine_in_a_process_is_refused", || {
        engine();
        let again = Engine::start(EngineOptions::new(HostId::derive("a", "b")));
        assert!(matches!(again, Err(EngineError::AlreadyStarted)));
    });
}

#[test]
fn pool_of_live_process_is_refused_and_of_killed_one_imported() {
    const TEST: &str = "pool_of_live_process_is_refused_and_of_killed_one_imported";
    match part().as_deref() {
        None => {
            let parts = Parts::of(TEST);
            let mut holder = parts.start("hold");
            let output = holder.stdout.take().expect("piped");
            let ready = std::io::BufReader::new(output)
                .lines()
                .map_while(Result::ok)
                .any(|line| line.contains("holding"));
            assert!(ready, "the first process holds the pool");
            parts.pass("refused");
            holder.kill().expect("kill");
            holder.wait().expect("wait");
            parts.pass("other host");
            parts.pass("take over");
            parts.zdb_is_content("tank");
        }
        Some("hold") => {
            let _pool = mirror(engine(), &disks(&["a", "b"]));
            writeln!(std::io::stdout(), "holding").expect("print");
            loop {
                std::thread::park();
            }
        }
        Some("refused") => {
            let engine = engine();
            let found = discover(&[dir()]).expect("discover");
            assert_eq!(found[0].state, CandidateState::Active);
            assert!(SafeToOwn::exported(&found[0]).is_none());
            let error = zpool::pool::same_host_and_locked(engine, &found[0]).expect_err("locked");
            assert!(
                matches!(&error.kind, PoolErrorKind::DeviceInUse { by, .. } if by.contains("process")),
                "{error}"
            );
            // The lock cannot be overridden by an operator.
            let proof = SafeToOwn::operator_confirms(&found[0]);
            let error = Pool::import(engine, &found[0], proof, &ImportOptions::default())
                .expect_err("locked");
            assert!(
                matches!(error.kind, PoolErrorKind::DeviceInUse { .. }),
                "{error}"
            );
            let devices = vec![dir().join("a"), dir().join("b")];
            assert!(matches!(
                create_kind(engine, GroupKind::Mirror, devices),
                PoolErrorKind::DeviceInUse { .. }
            ));
        }
        Some("other host") => {
            let options = EngineOptions::new(HostId::derive("another machine", "tank"));
            let engine = Engine::start(options).expect("start");
            let found = discover(&[dir()]).expect("discover");
            let error = zpool::pool::same_host_and_locked(engine, &found[0]).expect_err("foreign");
            assert_eq!(error.kind, PoolErrorKind::ActiveElsewhere);
            // Its owner may still be writing: no confirmation frees its disks for another pool.
            let devices = vec![dir().join("a"), dir().join("b")];
            let other = "other".parse().expect("a name");
            let mut spec = PoolSpec::new(other, GroupKind::Mirror, devices);
            spec.overwrite = true;
            let error = Pool::create(engine, &spec).expect_err("in use elsewhere");
            assert!(
                matches!(error.kind, PoolErrorKind::DeviceActive { .. }),
                "{error}"
            );
        }
        Some(_) => {
            let engine = engine();
            let found = discover(&[dir()]).expect("discover");
            let proof = zpool::pool::same_host_and_locked(engine, &found[0]).expect("free now");
            let pool =
                Pool::import(engine, &found[0], proof, &ImportOptions::default()).expect("import");
            export(pool);
        }
    }
}

/// ZFS does not write to the offset of ext4's signature.
#[test]
fn signatures_of_previous_contents_are_erased() {
    isolated("signatures_of_previous_contents_are_erased", || {
        let engine = engine();
        let device = disks(&["used"])[0].clone();
        let file = std::fs::File::options().write(true).open(&device);
        let file = file.expect("open");
        file.write_all_at(&[1, 0, 0, 0], 1024).expect("write");
        file.write_all_at(&[0x53, 0xef], 1080).expect("write");
        assert!(matches!(
            create_kind(engine, GroupKind::Stripe, vec![device.clone()]),
            PoolErrorKind::DeviceHolds { .. }
        ));
        let mut spec = PoolSpec::new(tank(), GroupKind::Stripe, vec![device]);
        spec.overwrite = true;
        let pool = Pool::create(engine, &spec).expect("it may be overwritten");
        pool.destroy().map_err(|(_, error)| error).expect("destroy");
        spec.overwrite = false;
        export(Pool::create(engine, &spec).expect("nothing is left of either"));
        let found = discover(&[dir()]).expect("discover");
        assert_eq!(found.len(), 1, "the new pool is whole");
    });
}

#[test]
fn import_error_names_the_missing_device_or_log() {
    isolated("import_error_names_the_missing_device_or_log", || {
        let engine = engine();
        let mut spec = PoolSpec::new(tank(), GroupKind::Stripe, disks(&["a", "b"]));
        spec.groups.push(engine::pool::GroupSpec {
            kind: GroupKind::Stripe,
            role: engine::pool::GroupRole::Log,
            devices: disks(&["log"]),
        });
        export(Pool::create(engine, &spec).expect("create"));
        let import = |options: &ImportOptions| {
            let found = discover(&[dir()]).expect("discover");
            let proof = SafeToOwn::exported(&found[0]).expect("exported");
            Pool::import(engine, &found[0], proof, options)
        };

        std::fs::rename(dir().join("b"), dir().join(".hidden")).expect("hide");
        let hidden = tempfile::tempdir().expect("dir");
        std::fs::rename(dir().join(".hidden"), hidden.path().join("b")).expect("hide");
        let error = import(&ImportOptions::default()).expect_err("a group is missing");
        assert!(
            matches!(error.kind, PoolErrorKind::DevicesMissing { .. }),
            "{error}"
        );
        std::fs::rename(hidden.path().join("b"), dir().join("b")).expect("return");

        std::fs::rename(dir().join("log"), hidden.path().join("log")).expect("hide");
        let error = import(&ImportOptions::default()).expect_err("the log is missing");
        assert_eq!(error.kind, PoolErrorKind::LogMissing, "{error}");
        let options = ImportOptions {
            without_log: true,
            ..ImportOptions::default()
        };
        export(import(&options).expect("without the log"));
    });
}

#[test]
fn cache_device_cannot_be_attached_elsewhere_in_its_pool() {
    isolated(
        "cache_device_cannot_be_attached_elsewhere_in_its_pool",
        || {
            let legs = disks(&["a", "b", "c"]);
            let pool = mirror(engine(), &legs[..2]);
            let (old, cache) = (legs[0].to_str().expect("UTF-8"), &legs[2]);
            let group = GroupSpec {
                role: GroupRole::Cache,
                kind: GroupKind::Stripe,
                devices: vec![cache.clone()],
            };
            pool.add(&[group], false).expect("added");
            // An indirect path to the same file.
            let roundabout = dir().join(".").join("c");
            for path in [cache, &roundabout] {
                let replaced = pool.replace(old, path, true).expect_err("refused");
                let attached = pool.attach(old, path, true).expect_err("refused");
                for error in [replaced, attached] {
                    assert!(
                        matches!(error.kind, PoolErrorKind::DeviceUnusable { .. }),
                        "{error}"
                    );
                }
            }
            pool.remove(cache.to_str().expect("UTF-8"))
                .expect("removed");
            pool.replace(old, cache, true).expect("free now");
            wait_until("the new leg is in", || {
                let status = pool.status().expect("status");
                status.find(old).is_none() && status.leaves().len() == 2
            });
            export(pool);
        },
    );
}
