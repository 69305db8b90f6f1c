//! The clients: a separate process with stock initiators (`proof/drill`). Its source is embedded in this binary, so
//! that no checkout is needed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use drill_verdict::Clients;
use tempfile::TempDir;

use crate::client_events::{ClientEvents, Event};
use crate::error::DrillError;
use crate::kinds::{self, Files, carried};

/// Debian's own interpreter has the module of libnbd; other interpreters may not.
pub(crate) const PYTHON: &str = "/usr/bin/python3";
/// Time until the client must have terminated after its input was closed.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Interval between two checks whether it has terminated.
const END_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The files of the Python package `proof` that every client consists of.
const FILES: Files = carried![
    "__init__.py",
    "runtime.py",
    "pattern.py",
    "ledger.py",
    "clients/__init__.py",
    "clients/base.py",
    "drill/__init__.py",
    "drill/__main__.py",
    "drill/blocks.py",
    "drill/events.py",
    "drill/initiator.py",
    "drill/path.py",
];

/// Exports that the initiators connect to: the name of the kind and the URI.
pub type Targets = Vec<(&'static str, String)>;

/// How much they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As much as the drills measure with.
    Usual,
    /// Enough to notice a pause: for clients of the other pools, of which there can be many.
    Calm,
}

/// A running client and its events.
pub struct Client {
    process: Child,
    orders: Option<ChildStdin>,
    events: Receiver<Result<Event, String>>,
    /// Its events.
    pub seen: ClientEvents,
    /// Its files.
    _files: TempDir,
}

impl Client {
    /// Starts it with the command prefix `enter`, which enters the client's namespaces.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn start(
        enter: &[String],
        targets: &[(&str, String)],
        (clients, pace): (Clients, Pace),
        seed: u64,
        log: &Path,
    ) -> Result<Self, DrillError> {
        let files = unpack().map_err(DrillError::io("unpack the client"))?;
        let log = std::fs::File::create(log).map_err(DrillError::io("open the client's log"))?;
        let mut words = enter.to_vec();
        words.extend(["env", "PYTHONDONTWRITEBYTECODE=1"].map(str::to_owned));
        words.push(format!("PYTHONPATH={}", files.path().display()));
        words.extend([PYTHON, "-m", "proof.drill", "--seed"].map(str::to_owned));
        words.push(seed.to_string());
        for (kind, way) in targets {
            words.extend([format!("--{kind}"), way.clone()]);
        }
        if clients == Clients::Patient {
            words.push("--patient".to_owned());
        }
        if pace == Pace::Calm {
            words.push("--calm".to_owned());
        }
        let (program, arguments) = words.split_first().expect("there are words");
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(DrillError::io("start the client"))?;
        let orders = process.stdin.take();
        let output = process.stdout.take().expect("it is a pipe");
        let (sender, events) = channel();
        std::thread::Builder::new()
            .name("client".into())
            .spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let event = serde_json::from_str(&line);
                    // The receiver is gone: the drills are over.
                    if sender.send(event.map_err(|_| line)).is_err() {
                        break;
                    }
                }
            })
            .map_err(DrillError::io("listen to the client"))?;
        Ok(Self {
            process,
            orders,
            events,
            seen: ClientEvents::default(),
            _files: files,
        })
    }

    /// Listens for `time`.
    ///
    /// # Errors
    ///
    /// The client has terminated, or sent a line that cannot be parsed.
    pub fn listen(&mut self, time: Duration) -> Result<(), DrillError> {
        let deadline = Instant::now() + time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(Ok(event)) => self.seen.take(event),
                Ok(Err(line)) => return Err(DrillError::Client(format!("it says {line:?}"))),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(DrillError::Client(
                        "it has terminated; see its log".to_owned(),
                    ));
                }
            }
        }
    }

    /// Listens until `is_so`; whether it was so before `limit`.
    ///
    /// # Errors
    ///
    /// As for [`Self::listen`].
    pub fn listen_until(
        &mut self,
        limit: Duration,
        is_so: impl Fn(&ClientEvents) -> bool,
    ) -> Result<bool, DrillError> {
        const STEP: Duration = Duration::from_millis(20);
        let deadline = Instant::now() + limit;
        loop {
            self.listen(STEP)?;
            if is_so(&self.seen) {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
        }
    }

    /// Requests that it reads back and verifies all data.
    ///
    /// # Errors
    ///
    /// It is gone.
    pub fn verify(&mut self) -> Result<(), DrillError> {
        self.seen.verified = None;
        let orders = self.orders.as_mut().expect("its input is open");
        orders
            .write_all(b"verify\n")
            .map_err(DrillError::io("tell the client to verify"))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Closing its input terminates it.
        self.orders = None;
        let deadline = Instant::now() + END_LIMIT;
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                // It is gone, or will be reaped by the wait.
                let _ = self.process.kill();
                let _ = self.process.wait();
                return;
            }
            std::thread::sleep(END_POLL_INTERVAL);
        }
    }
}

pub(crate) fn unpack() -> std::io::Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("bulkhead-client-")
        .tempdir()?;
    let of_kinds = kinds::ALL.iter().flat_map(|kind| kind.files);
    for (name, text) in FILES.iter().chain(of_kinds) {
        let path = folder.path().join("proof").join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_client_is_complete() {
        let files = unpack().expect("unpacked");
        let output = Command::new(PYTHON)
            .args(["-m", "proof.drill", "--help"])
            .env("PYTHONPATH", files.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir("/")
            .output();
        match output {
            Ok(output) => {
                let words = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{words}");
            }
            Err(error) => {
                // The log is only for the person who runs the tests.
                let _ = writeln!(std::io::stderr(), "skipped: {PYTHON}: {error}");
            }
        }
    }
}
