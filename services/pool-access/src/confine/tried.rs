//! Attack tests: the actions open to a client that controls a pool server, from inside its confinement. All of them
//! must fail.

use std::collections::BTreeSet;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Needs, Without, pool_server_without};

/// Prints the name of each attempt that passed the permission checks of the process. Attempts on the host itself have
/// arguments that the kernel refuses later: the error shows whether it checked them.
const TRIES: &str = include_str!("tried.py");
/// With all rights at least this number succeeds, on any kernel: the attempts are effective.
const REAL_MIN: usize = 45;

/// The file system of a host, as a server sees it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a folder"));
        for folder in ["own", "other", "cluster", "head"] {
            std::fs::create_dir(place.path().join(folder)).expect("made");
        }
        for file in ["other/state", "cluster/authkey", "head/peer-key", "alone"] {
            std::fs::write(place.path().join(file), "secret").expect("written");
        }
        place
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn needs(&self) -> Needs {
        Needs {
            only_devices: true,
            reservations: true,
            local_services: false,
            programs: false,
            core_dump: false,
            folders: vec![self.path().join("own")],
            secrets: ["cluster", "head", "alone"]
                .map(|name| self.path().join(name))
                .into(),
        }
    }

    /// Returns the attempts that succeeded in a process confined by `confine`.
    fn tried(&self, confine: impl FnOnce() + Send) -> BTreeSet<String> {
        let name = format!("bulkhead-test-{}", self.path().display());
        let address = {
            use std::os::linux::net::SocketAddrExt as _;
            std::os::unix::net::SocketAddr::from_abstract_name(&name).expect("a name")
        };
        let _listener = UnixListener::bind_addr(&address).expect("bound");
        let _another = UnixListener::bind(self.path().join("own/socket")).expect("bound");
        let mut victim = Command::new("sleep").arg("600").spawn().expect("started");
        let victim_pid = victim.id().to_string();
        let said = std::thread::scope(|scope| {
            let run = scope.spawn(|| {
                confine();
                Command::new("python3")
                    .args(["-c", TRIES])
                    .arg(self.path())
                    .args([&victim_pid, &name])
                    .stderr(Stdio::inherit())
                    .output()
                    .expect("it starts")
            });
            run.join().expect("no panic")
        });
        let _ = victim.kill();
        let _ = victim.wait();
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(text.ends_with("END\n"), "tried to the end: {text}");
        let lines = text.lines().filter(|line| *line != "END");
        lines.map(str::to_owned).collect()
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
#[allow(clippy::print_stderr, reason = "a skipped test prints the reason")]
fn compromised_server_attempts_fail_with_or_without_landlock() {
    if !rustix::process::getuid().is_root() || Command::new("python3").arg("-V").output().is_err() {
        eprintln!("skipped: it needs root and python3");
        return;
    }
    let free = Place::new().tried(|| {
        // Its mounts are its own.
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).expect("a name space");
        let slave = rustix::mount::MountPropagationFlags::DOWNSTREAM
            | rustix::mount::MountPropagationFlags::REC;
        rustix::mount::mount_change("/", slave).expect("separate");
    });
    assert!(
        free.len() >= REAL_MIN,
        "{} with all rights: {free:?}",
        free.len()
    );
    for landlock in [false, true] {
        let place = Place::new();
        let worked = place.tried(|| {
            let without = Without {
                landlock,
                no_programs: true,
            };
            let missing = pool_server_without(&place.needs(), without);
            let others: Vec<_> = missing.iter().filter(|one| **one != "Landlock").collect();
            assert!(others.is_empty(), "{others:?}");
        });
        assert!(
            worked.is_empty(),
            "without Landlock: {landlock}: {worked:?}"
        );
    }
}
