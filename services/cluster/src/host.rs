//! A head as seen by the command line: it can run commands, and read and replace files. The local host, a set of
//! namespaces on it, and a host behind ssh have the same interface.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use units::HeadName;

use crate::netlink::{self, Change};
use crate::process::{Invocation, Output, RunError, hold, run};

/// All heads by name.
pub type Hosts = BTreeMap<HeadName, Box<dyn Host>>;

/// Starts a process detached.
const DETACH: &str = "\"$@\" </dev/null >/dev/null 2>&1 &";

/// A host on which commands can be run.
pub trait Host: Send + Sync {
    /// Runs a command there. An exit code other than 0 is no error here.
    ///
    /// # Errors
    ///
    /// It cannot be run, or exceeds its time limit.
    fn run(&self, invocation: &Invocation) -> Result<Output, RunError>;

    /// The addresses of the host over which it was not reached, each with the reason.
    fn unreached(&self) -> Vec<String> {
        Vec::new()
    }

    /// Starts a process there without waiting, detached from the output of this process.
    ///
    /// # Errors
    ///
    /// It cannot be started. A later failure is not detected.
    fn leave(&self, invocation: &Invocation) -> Result<(), RunError> {
        let mut words = vec!["-c", DETACH, "leave", &invocation.program];
        words.extend(invocation.arguments.iter().map(String::as_str));
        self.run(&Invocation::new("sh", &words)).map(drop)
    }

    /// Acquires the lock that serializes changes of the heads, for `who`. Its file is empty after a boot.
    ///
    /// # Errors
    ///
    /// Another run holds it, or the host cannot be reached.
    fn lock(&self, who: &str) -> Result<Lock, LockError> {
        let _ = who;
        Ok(Box::new(()))
    }

    /// Adds or removes an address without a process, and returns whether that was a change; `None` if the host needs a
    /// process for that.
    ///
    /// # Errors
    ///
    /// As [`netlink::change`].
    fn change_address(
        &self,
        change: Change,
        address: IpAddr,
        prefix: u8,
        interface: &str,
    ) -> Option<std::io::Result<bool>> {
        let _ = (change, address, prefix, interface);
        None
    }
}

/// Excludes other runs from the host while it exists.
pub type Lock = Box<dyn Send>;

/// Why the lock of a host was not acquired.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run holds it.
    #[error("another run changes the heads already: {0}")]
    Busy(String),
    /// The host cannot be reached.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Holds the lock until its input is closed, in the given directory or that of the control sockets. The kernel releases
/// it when the process terminates.
const LOCK: &str = "folder=${1:-${BULKHEAD_RUN_DIR:-/run/bulkhead}}; mkdir -p \"$folder\" || exit 1; \
    lock=$folder/appliance.lock; exec 9>>\"$lock\" || exit 1; \
    flock -n 9 || { echo \"busy $(cat \"$lock\")\"; exit 0; }; echo \"$2\" >\"$lock\"; echo locked; cat >/dev/null";

fn lock_invocation(folder: &str, who: &str) -> Invocation {
    Invocation::new("sh", &["-c", LOCK, "lock", folder, who])
}

fn lock_by(invocation: &Invocation) -> Result<Lock, LockError> {
    let (said, held) = hold(invocation)?;
    match said.strip_prefix("busy") {
        None => Ok(Box::new(held)),
        Some(who) => Err(LockError::Busy(who.trim().to_owned())),
    }
}

/// A failure on a host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A command could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A command failed.
    #[error("{program} ended with {code}: {complaint}")]
    Failed {
        /// The command.
        program: String,
        /// Its exit code.
        code: i32,
        /// Its error output.
        complaint: String,
    },
}

/// The local host, or namespaces on it that a prefix enters, such as `nsenter -t 123 -a`.
#[derive(Clone, Debug, Default)]
pub struct Local {
    /// Words before the command.
    pub prefix: Vec<String>,
}

impl Local {
    fn placed(&self, invocation: &Invocation) -> Invocation {
        let Some((first, rest)) = self.prefix.split_first() else {
            return invocation.clone();
        };
        let mut arguments = rest.to_vec();
        arguments.push(invocation.program.clone());
        arguments.extend(invocation.arguments.iter().cloned());
        Invocation {
            program: first.clone(),
            arguments,
            ..invocation.clone()
        }
    }
}

impl Host for Local {
    fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
        run(&self.placed(invocation))
    }

    fn lock(&self, who: &str) -> Result<Lock, LockError> {
        lock_by(&self.placed(&lock_invocation("", who)))
    }

    fn leave(&self, invocation: &Invocation) -> Result<(), RunError> {
        let (program, arguments) = match self.prefix.split_first() {
            Some((first, rest)) => (
                first,
                [rest, std::slice::from_ref(&invocation.program)].concat(),
            ),
            None => (&invocation.program, Vec::new()),
        };
        let started = Command::new(program)
            .args(arguments)
            .args(&invocation.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        // This process exits soon, and the detached process is reaped by init.
        started.map(drop).map_err(|source| RunError::Start {
            program: invocation.program.clone(),
            source,
        })
    }

    fn change_address(
        &self,
        change: Change,
        address: IpAddr,
        prefix: u8,
        interface: &str,
    ) -> Option<std::io::Result<bool>> {
        // Other namespaces on this host may have other interfaces.
        let is_here = self.prefix.is_empty();
        is_here.then(|| netlink::change(change, address, prefix, interface))
    }
}

/// A host behind ssh, with a key that needs no passphrase. Its addresses are tried in order: the cable of one may be cut.
#[derive(Debug)]
pub struct Ssh {
    /// The binary.
    program: String,
    /// The destinations, such as `root@10.77.9.11`; at least one.
    destinations: Vec<String>,
    route: Mutex<Route>,
}

/// The destination in use, and those before it.
#[derive(Debug, Default)]
struct Route {
    used: usize,
    /// Each with the reason.
    unreached: Vec<String>,
}

/// Longest wait for a connection to one address, in seconds.
const SSH_CONNECT_S_MAX: u32 = 5;
/// The exit code of ssh itself when it cannot connect.
const SSH_FAILED: i32 = 255;
/// Parts of the messages of ssh when there was no connection, so that the command has not run.
const SSH_NOT_CONNECTED: [&str; 3] = [
    "connect to host",
    "during banner exchange",
    "Could not resolve hostname",
];

impl Ssh {
    /// The host at these destinations, in the order of the attempts.
    pub fn new(destinations: Vec<String>) -> Self {
        debug_assert!(!destinations.is_empty());
        Self {
            program: "ssh".to_owned(),
            destinations,
            route: Mutex::default(),
        }
    }

    fn route(&self) -> MutexGuard<'_, Route> {
        self.route.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn placed(&self, invocation: &Invocation, destination: &str) -> Invocation {
        // ssh joins its arguments and passes them to a shell.
        let words = std::iter::once(&invocation.program).chain(&invocation.arguments);
        let command: Vec<String> = words.map(|word| quoted(word)).collect();
        let arguments = [
            "-o".to_owned(),
            "BatchMode=yes".to_owned(),
            "-o".to_owned(),
            format!("ConnectTimeout={SSH_CONNECT_S_MAX}"),
            "--".to_owned(),
            destination.to_owned(),
            command.join(" "),
        ];
        Invocation {
            program: self.program.clone(),
            arguments: arguments.to_vec(),
            ..invocation.clone()
        }
    }

    /// Notes that the destination `failed` is not reached, and returns whether a further one is left.
    fn next(&self, failed: usize, why: &str) -> bool {
        let mut route = self.route();
        // Another thread may have noted it already.
        if route.used == failed {
            let destination = &self.destinations[failed];
            tracing::warn!(destination, why, "ssh does not connect");
            let unreached = format!("{destination} ({why})");
            if !route.unreached.contains(&unreached) {
                route.unreached.push(unreached);
            }
            route.used += 1;
        }
        if route.used < self.destinations.len() {
            return true;
        }
        // A later command tries them all again.
        route.used = 0;
        false
    }
}

impl Host for Ssh {
    fn lock(&self, who: &str) -> Result<Lock, LockError> {
        if self.destinations.len() > 1 {
            // Selects a destination that is reached.
            self.run(&Invocation::new("true", &[]))?;
        }
        let used = self.route().used;
        lock_by(&self.placed(&lock_invocation("", who), &self.destinations[used]))
    }

    fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
        let failed = |program: &str, why: String| RunError::Start {
            program: format!("ssh {program}"),
            source: std::io::Error::other(why),
        };
        // Each attempt but the last one moves on to another destination.
        for _ in 0..self.destinations.len() {
            let used = self.route().used;
            let destination = &self.destinations[used];
            let output = run(&self.placed(invocation, destination))?;
            if output.code != SSH_FAILED {
                return Ok(output);
            }
            let why = output.complaint();
            // A command whose connection was lost may have run.
            if !SSH_NOT_CONNECTED.iter().any(|part| why.contains(part)) {
                return Err(failed(destination, why));
            }
            if !self.next(used, &why) {
                break;
            }
        }
        let all = self.unreached().join("; ");
        Err(failed(&self.destinations.join(", "), all))
    }

    fn unreached(&self) -> Vec<String> {
        self.route().unreached.clone()
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Runs a command that must exit with 0.
///
/// # Errors
///
/// It does not run, or fails.
pub fn must(machine: &dyn Host, invocation: &Invocation) -> Result<Output, HostError> {
    let output = machine.run(invocation)?;
    if output.code == 0 {
        return Ok(output);
    }
    Err(HostError::Failed {
        program: invocation.program.clone(),
        code: output.code,
        complaint: output.complaint(),
    })
}

/// The exit code for a missing file.
const CODE_MISSING: i32 = 44;

/// A file's bytes and permissions; `None` if it does not exist.
///
/// # Errors
///
/// It exists and cannot be read.
pub fn read_file(machine: &dyn Host, path: &Path) -> Result<Option<(Vec<u8>, u32)>, HostError> {
    let script =
        format!("[ -e \"$1\" ] || exit {CODE_MISSING}; stat -L -c %a \"$1\" && cat \"$1\"");
    let path = path.to_string_lossy();
    let invocation = Invocation::new("sh", &["-c", &script, "read", &path]);
    let output = machine.run(&invocation)?;
    if output.code == CODE_MISSING {
        return Ok(None);
    }
    let failed = || HostError::Failed {
        program: format!("read {path}"),
        code: output.code,
        complaint: output.complaint(),
    };
    if output.code != 0 {
        return Err(failed());
    }
    let newline = output.stdout.iter().position(|byte| *byte == b'\n');
    let (mode, bytes) = output.stdout.split_at(newline.ok_or_else(failed)?);
    let mode = std::str::from_utf8(mode)
        .ok()
        .and_then(|text| u32::from_str_radix(text, 8).ok())
        .ok_or_else(failed)?;
    Ok(Some((bytes[1..].to_vec(), mode)))
}

/// Replaces a file atomically: readers see the old or the new one, also after a power cut or a lost connection to the
/// host.
///
/// # Errors
///
/// It cannot be written.
pub fn write_file(
    machine: &dyn Host,
    path: &Path,
    bytes: &[u8],
    mode: u32,
) -> Result<(), HostError> {
    const SCRIPT: &str = "set -e; umask 077; mkdir -p -m 755 \"$(dirname \"$1\")\"; \
        new=$(mktemp \"$1.new.XXXXXX\"); trap 'rm -f \"$new\"' EXIT; cat >\"$new\"; \
        [ \"$(wc -c <\"$new\")\" -eq \"$3\" ] || { echo 'the file arrived in part' >&2; exit 1; }; \
        chmod \"$2\" \"$new\"; \
        sync \"$new\"; mv -f \"$new\" \"$1\"; sync \"$(dirname \"$1\")\"";
    let (mode, length) = (format!("{mode:o}"), bytes.len().to_string());
    let path = path.to_string_lossy();
    let invocation = Invocation::new("sh", &["-c", SCRIPT, "write", &path, &mode, &length]);
    must(machine, &invocation.reading(bytes)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_replaced_atomically_and_verified() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new folder/it's a file");
        let here = Local::default();
        assert_eq!(read_file(&here, &path).expect("readable"), None);
        for (bytes, mode) in [(&b"one\n\0two"[..], 0o600), (b"", 0o644)] {
            write_file(&here, &path, bytes, mode).expect("writable");
            let found = read_file(&here, &path).expect("readable");
            assert_eq!(found, Some((bytes.to_vec(), mode)));
        }
        let names = std::fs::read_dir(path.parent().expect("a parent")).expect("a folder");
        assert_eq!(names.count(), 1, "no temporary file is left");
    }

    /// A host that receives only a part of the input.
    struct Cut(Local);

    impl Host for Cut {
        fn run(&self, invocation: &Invocation) -> Result<Output, RunError> {
            let half = &invocation.input[..invocation.input.len() / 2];
            self.0.run(&invocation.clone().reading(half))
        }
    }

    #[test]
    fn truncated_transfer_replaces_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("authkey");
        let here = Local::default();
        write_file(&here, &path, &[1; 256], 0o400).expect("writable");
        write_file(&Cut(Local::default()), &path, &[2; 256], 0o400)
            .expect_err("half of it arrived");
        let found = read_file(&here, &path).expect("readable");
        assert_eq!(found, Some((vec![1; 256], 0o400)));
        let names = std::fs::read_dir(folder.path()).expect("a folder");
        assert_eq!(names.count(), 1, "no temporary file is left");
    }

    #[test]
    fn lock_is_exclusive_and_released_with_its_holder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_str().expect("plain text");
        let lock = |who| lock_by(&lock_invocation(path, who));
        let first = lock("one of left").expect("nobody has it");
        for _ in 0..2 {
            let Err(LockError::Busy(who)) = lock("another") else {
                panic!("it is held twice");
            };
            assert_eq!(who, "one of left");
        }
        drop(first);
        lock("another").expect("nobody has it");
        let nowhere = lock_invocation("/dev/null/folder", "another");
        assert!(matches!(lock_by(&nowhere), Err(LockError::Run(_))));
    }

    #[test]
    fn command_prefix_is_prepended() {
        let there = Local {
            prefix: vec!["env".into(), "PLACE=there".into()],
        };
        let output = must(&there, &Invocation::new("sh", &["-c", "echo $PLACE"])).expect("it runs");
        assert_eq!(output.text(), "there\n");
    }

    #[test]
    fn failing_command_is_reported_with_its_stderr() {
        let invocation = Invocation::new("sh", &["-c", "echo no such luck >&2; exit 7"]);
        let error = must(&Local::default(), &invocation).expect_err("it fails");
        assert_eq!(error.to_string(), "sh ended with 7: no such luck");
    }

    /// A stand-in for ssh: the first address is cut, the second one loses the connection of `drop`.
    fn ssh(folder: &Path, destinations: &[&str]) -> Ssh {
        use std::os::unix::fs::PermissionsExt;
        const SCRIPT: &str = r#"#!/bin/sh
case "$6" in
root@10.0.0.1 | root@10.0.0.9) echo "ssh: connect to host ${6#*@} port 22: Connection timed out" >&2; exit 255 ;;
esac
echo "$7" >>"$(dirname "$0")/log"
case "$7" in *drop*) echo "client_loop: send disconnect: Broken pipe" >&2; exit 255 ;; esac
exec sh -c "$7"
"#;
        let path = folder.join("ssh");
        std::fs::write(&path, SCRIPT).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("set");
        Ssh {
            program: path.to_string_lossy().into_owned(),
            ..Ssh::new(destinations.iter().map(|one| (*one).to_owned()).collect())
        }
    }

    #[test]
    fn cut_first_address_uses_the_next_one_and_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let host = ssh(folder.path(), &["root@10.0.0.1", "root@10.0.0.2"]);
        let output = must(&host, &Invocation::new("echo", &["here"])).expect("it runs");
        assert_eq!(output.text(), "here\n");
        let unreached = host.unreached();
        assert_eq!(unreached.len(), 1, "{unreached:?}");
        assert!(unreached[0].starts_with("root@10.0.0.1 (ssh: connect to host"));
        // The address is not tried for each command.
        must(&host, &Invocation::new("true", &[])).expect("it runs");
        assert_eq!(host.unreached().len(), 1);
    }

    #[test]
    fn command_whose_connection_is_lost_is_not_repeated() {
        let folder = tempfile::tempdir().expect("a folder");
        let host = ssh(folder.path(), &["root@10.0.0.2", "root@10.0.0.3"]);
        host.run(&Invocation::new("drop", &[])).expect_err("lost");
        let log = std::fs::read_to_string(folder.path().join("log")).expect("it ran");
        assert_eq!(log.lines().count(), 1, "{log}");
    }

    #[test]
    fn failure_names_every_address_that_is_not_reached() {
        let folder = tempfile::tempdir().expect("a folder");
        let host = ssh(folder.path(), &["root@10.0.0.1", "root@10.0.0.9"]);
        let error = host.run(&Invocation::new("true", &[])).expect_err("cut");
        let text = control::failure::chain(&error);
        assert_eq!(text.matches("Connection timed out").count(), 2, "{text}");
    }
}
