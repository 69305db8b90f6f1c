//! The units of a head, and the subset of systemctl(1) that setting up an appliance needs: a head of the lab has no
//! systemd, so its first process starts the enabled units, and a command `systemctl` sends requests to that process.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use super::boot::{Service, Services};
use super::{ssh, step};
use crate::directory::Setup;

/// The socket of the first process.
const SOCKET: &str = "/run/lab/units.sock";
/// Longest question, in bytes.
const REQUEST_BYTES_MAX: u64 = 4_096;
/// How long a unit may take to stop, as systemd has it.
const STOP_TIME_LIMIT: Duration = Duration::from_secs(90);
/// Units that are started at boot are listed here, as with systemd.
const WANTS: &str = "etc/systemd/system/multi-user.target.wants";
/// The name of the process of the witness, as the kernel shortens it.
const WITNESS_COMMAND: &str = "bulkhead-witnes";
/// The exit code of systemctl(1) for a unit that is not active.
const EXIT_INACTIVE: u8 = 3;

/// Starts units that need Corosync once it responds; fails after a minute.
const AFTER_COROSYNC: &str = "tries=0; until corosync-cfgtool -s >/dev/null 2>&1; do \
    tries=$((tries + 1)); [ $tries -lt 600 ] || exit 100; sleep 0.1; done;";

/// A unit as its file describes it.
struct Unit {
    name: &'static str,
    needs_corosync: bool,
    script: &'static str,
    restarts: bool,
}

/// The units of a head, in the order of their start.
const UNITS: &[Unit] = &[
    Unit {
        name: "corosync.service",
        needs_corosync: false,
        script: "set -a; [ -r /etc/default/corosync ] && . /etc/default/corosync; exec corosync -f",
        restarts: false,
    },
    Unit {
        name: "corosync-qdevice.service",
        needs_corosync: true,
        // The options are those that the appliance's setup wrote; the unit file reads the same file.
        script: "set -a; [ -r /etc/default/corosync-qdevice ] && . /etc/default/corosync-qdevice; \
            grep -q '^ *device {' /etc/corosync/corosync.conf || exit 100; mkdir -p /run/corosync-qdevice; \
            exec corosync-qdevice -f $COROSYNC_QDEVICE_OPTIONS",
        restarts: true,
    },
    Unit {
        name: appliance::plan::LEG_UNIT,
        needs_corosync: false,
        script: "[ -r /etc/bulkhead/legs.toml ] || exit 100; mkdir -p /run/bulkhead; \
            exec bulkhead leg-server --config /etc/bulkhead/legs.toml",
        restarts: true,
    },
    Unit {
        name: "pacemaker.service",
        needs_corosync: true,
        // The commands before the unit's main process, from the drop-in that the appliance's setup
        // wrote.
        script: "[ ! -x /etc/bulkhead/await-heads ] || /etc/bulkhead/await-heads; \
            set -a; [ -r /etc/default/pacemaker ] && . /etc/default/pacemaker; exec pacemakerd -f",
        restarts: true,
    },
    Unit {
        name: appliance::plan::HEAD_UNIT,
        needs_corosync: false,
        script: "[ -r /etc/bulkhead/head.conf ] && . /etc/bulkhead/head.conf; mkdir -p /run/bulkhead; \
            exec nice -n 5 bulkhead head $OPTIONS",
        restarts: true,
    },
    Unit {
        name: ssh::UNIT,
        needs_corosync: false,
        script: ssh::SCRIPT,
        restarts: true,
    },
];

/// The link that enables a unit at boot.
pub fn wants(root: &Path, name: &str) -> PathBuf {
    root.join(WANTS).join(name)
}

/// Disables the units of the host in a copy of its `/etc` below `root`.
pub fn disable_all(root: &Path) -> io::Result<()> {
    for unit in UNITS {
        match std::fs::remove_file(wants(root, unit.name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Starts and stops the units of a head.
#[derive(Clone)]
pub struct Units {
    services: Services,
    environment: BTreeMap<String, String>,
    has_console: bool,
    has_ssh: bool,
}

impl Units {
    /// The units of a head, none of which is active yet. Requests of `systemctl` are handled from
    /// now on.
    pub fn listen(
        services: &Services,
        setup: &Setup,
        environment: BTreeMap<String, String>,
    ) -> io::Result<Self> {
        let units = Self {
            services: services.clone(),
            environment,
            has_console: setup.has_console,
            has_ssh: setup.has_ssh,
        };
        let listener = UnixListener::bind(SOCKET).map_err(step("listen for systemctl"))?;
        let answering = units.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let units = answering.clone();
                std::thread::spawn(move || {
                    // A client that has disconnected does not need the reply.
                    let _ = units.respond(&stream);
                });
            }
        });
        Ok(units)
    }

    /// Starts the enabled units.
    pub fn start_enabled(&self) {
        let root = Path::new("/");
        for unit in UNITS
            .iter()
            .filter(|unit| wants(root, unit.name).is_symlink())
        {
            self.start(unit);
        }
    }

    fn find(&self, name: &str) -> Option<&'static Unit> {
        let is_there = |unit: &&Unit| match unit.name {
            appliance::plan::HEAD_UNIT => self.has_console,
            ssh::UNIT => self.has_ssh,
            _ => true,
        };
        UNITS.iter().filter(is_there).find(|unit| unit.name == name)
    }

    fn start(&self, unit: &Unit) {
        let script = match unit.needs_corosync {
            true => format!("{AFTER_COROSYNC} {}", unit.script),
            false => unit.script.to_owned(),
        };
        self.services.start(Service {
            name: unit.name.to_owned(),
            words: vec!["sh".to_owned(), "-c".to_owned(), script],
            environment: self.environment.clone(),
            restarts: unit.restarts,
        });
    }

    fn respond(&self, mut stream: &UnixStream) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
        let (verb, name) = line.trim().split_once(' ').unwrap_or_default();
        let unit = self.find(name);
        let is_so = match (verb, unit) {
            (_, None) => false,
            ("start", Some(unit)) => {
                if !self.services.runs(unit.name) {
                    self.start(unit);
                }
                true
            }
            ("stop", Some(unit)) => self.services.stop(unit.name, STOP_TIME_LIMIT),
            ("is-active", Some(unit)) => self.services.runs(unit.name),
            (verb, Some(_)) => verb == "cat",
        };
        stream.write_all(if is_so { b"yes\n" } else { b"no\n" })
    }
}

fn send_request(verb: &str, name: &str) -> io::Result<bool> {
    let mut stream = UnixStream::connect(SOCKET)?;
    stream.write_all(format!("{verb} {name}\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer == "yes\n")
}

/// The same on the witness. Its first process starts a terminated daemon again.
fn on_witness(verb: &str, name: &str) -> io::Result<ExitCode> {
    if name != "bulkhead-witness.service" {
        return Err(io::Error::other(format!(
            "{name} is not known on this host of the lab"
        )));
    }
    let signal = match verb {
        "restart" => "-KILL",
        "is-active" => "-0",
        other => {
            let message = format!(
                "the witness of the lab has no systemd, and no {other}: `restart` reads its file again"
            );
            return Err(io::Error::other(message));
        }
    };
    let done = Command::new("pkill")
        .args([signal, "-x", WITNESS_COMMAND])
        .status()?;
    match (done.success(), verb) {
        (true, _) => Ok(ExitCode::SUCCESS),
        (false, "is-active") => Ok(ExitCode::from(EXIT_INACTIVE)),
        (false, _) => Err(io::Error::other(format!(
            "{name} does not run; its output is in the directory of the lab"
        ))),
    }
}

/// Does the same as systemctl(1).
pub fn run(words: &[&str]) -> io::Result<ExitCode> {
    let (options, words): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| word.starts_with('-'));
    let (Some(verb), names) = (words.first().copied(), words.get(1..).unwrap_or_default()) else {
        return Err(io::Error::other("no verb"));
    };
    let is_now = options.contains(&"--now");
    for name in names {
        let name = match name.contains('.') {
            true => (*name).to_owned(),
            false => format!("{name}.service"),
        };
        if !Path::new(SOCKET).exists() {
            return on_witness(verb, &name);
        }
        let place = wants(Path::new("/"), &name);
        let is_so = match verb {
            "is-enabled" => place.is_symlink(),
            "is-active" | "start" | "stop" | "cat" => send_request(verb, &name)?,
            "restart" => send_request("stop", &name)? && send_request("start", &name)?,
            "enable" => {
                let is_known = send_request("cat", &name)?;
                if is_known && !place.is_symlink() {
                    std::fs::create_dir_all(place.parent().unwrap_or(Path::new("/")))?;
                    symlink(Path::new("/lib/systemd/system").join(&name), &place)?;
                }
                is_known && (!is_now || send_request("start", &name)?)
            }
            "disable" => {
                if place.is_symlink() {
                    std::fs::remove_file(&place)?;
                }
                !is_now || send_request("stop", &name)?
            }
            other => {
                let message = format!("a head of the lab has no systemd, and no {other}");
                return Err(io::Error::other(message));
            }
        };
        match (is_so, verb) {
            (true, _) => {}
            (false, "is-active") => return Ok(ExitCode::from(EXIT_INACTIVE)),
            (false, "is-enabled") => return Ok(ExitCode::FAILURE),
            (false, _) => {
                return Err(io::Error::other(format!(
                    "{name} is not known, or does not stop"
                )));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
