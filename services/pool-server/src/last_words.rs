//! The end of the previous server of a pool, if it did not close the pool. While a server runs, a file names the boot of
//! its host. A crash adds its reason: a signal, a panic, or a failed assertion of the engine. A server that exits in
//! order removes the file. So the next server on this host can report the reason.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use control::{Advice, Severity};
use operations::events::NewEvent;
use serde::{Deserialize, Serialize};
use units::PoolName;

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 10;
/// The longest reason, in characters.
const REASON_CHARS_MAX: usize = 400;
/// How long a crash is a warning.
const WARNING_TIME: Duration = Duration::from_secs(24 * 3600);
/// Interval at which a running server dates its file: the end of a killed one is known to this precision.
const ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Differs after each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The end of a server that did not close its pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerEnd {
    /// The time of a crash; of any other end the last time that the server was alive, in milliseconds since 1970.
    pub at_ms: u64,
    /// The start of the server, if known, in the same unit.
    #[serde(default)]
    pub started_ms: Option<u64>,
    /// The cause.
    pub cause: Cause,
}

/// Why a server did not close its pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It crashed, for this reason.
    Crash(String),
    /// Its host was switched off, or crashed.
    Host,
    /// It was killed by a signal that cannot be caught.
    Killed,
}

impl ServerEnd {
    /// The event of the next server.
    pub fn event(&self) -> NewEvent {
        let at = control::calendar::utc(self.at_ms / 1_000);
        let started = self.started_ms.map_or_else(String::new, |ms| {
            format!(
                " that had started at {}",
                control::calendar::utc(ms / 1_000)
            )
        });
        let message = match &self.cause {
            Cause::Crash(reason) => format!("the previous server crashed: {reason} ({at})"),
            Cause::Host => {
                format!(
                    "the host stopped at about {at}, while the server{started} had the pool open"
                )
            }
            Cause::Killed => {
                format!(
                    "the server of this head{started} was killed, or gave the pool up, at about {at}, without closing it"
                )
            }
        };
        let is_crash = matches!(self.cause, Cause::Crash(_));
        NewEvent::of_pool("server_ended", message, is_crash)
    }

    /// The advice about a crash, for a day.
    pub fn advice(&self, pool: &str, now_ms: u64) -> Option<Advice> {
        let age_ms = now_ms.saturating_sub(self.at_ms);
        let Cause::Crash(reason) = &self.cause else {
            return None;
        };
        if u128::from(age_ms) > WARNING_TIME.as_millis() {
            return None;
        }
        let why = format!("the previous server of {pool} crashed: {reason}");
        let mut advice = Advice::new(
            Severity::Warning,
            "report the fault with the log of the server; this warning expires after a day",
            why,
        );
        advice.since_ms = Some(self.at_ms);
        Some(advice.by(format!("bulkhead pool events {pool}")))
    }
}

/// Marks a running server, until it is dropped.
pub struct RunningServer {
    path: PathBuf,
    file: Option<&'static File>,
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        exits_in_order(&self.path);
    }
}

/// The server that is marked by this file exits, and its end needs no explanation.
pub fn exits_in_order(running: &Path) {
    // A file that remains is reported as an end without an export, once.
    let _ = fs::remove_file(running);
}

impl RunningServer {
    /// Dates the file while the process runs, on a thread of its own.
    pub fn date(&self) {
        let Some(file) = self.file else { return };
        let thread = std::thread::Builder::new().name("alive".into());
        let dating = thread.spawn(move || {
            loop {
                std::thread::sleep(ALIVE_INTERVAL);
                if let Err(error) = file.set_modified(SystemTime::now()) {
                    tracing::debug!(%error, "the file of the running server is not dated");
                }
            }
        });
        if let Err(error) = dating {
            tracing::debug!(%error, "the file of the running server is not dated");
        }
    }

    /// Returns the file that receives the reason of a crash.
    pub fn crash_reason(&self) -> Option<BorrowedFd<'static>> {
        self.file.map(AsFd::as_fd)
    }
}

/// Marks this server as running in the file `running`. Returns the end of the previous one, if it did not close the pool,
/// and stores it in the file `ended`.
pub fn begin(
    running: PathBuf,
    ended: &Path,
    pool: &PoolName,
) -> (RunningServer, Option<ServerEnd>) {
    let boot = read(Path::new(BOOT_ID)).unwrap_or_default();
    let end = previous(&running, boot.trim());
    if let Some(end) = &end {
        if let Err(error) = store(ended, end) {
            tracing::warn!(%pool, %error, "the end of the previous server is not stored");
        }
    }
    let file = mark(&running, boot.trim());
    let file = match file {
        // It is written until the process has terminated.
        Ok(file) => Some(&*Box::leak(Box::new(file))),
        Err(error) => {
            tracing::debug!(%pool, %error, "a crash of this server will have no stored reason");
            None
        }
    };
    if let Some(file) = file {
        output::report_panics_to(file);
    }
    (
        RunningServer {
            path: running,
            file,
        },
        end,
    )
}

/// The end of an earlier server that is stored.
pub fn stored(ended: &Path) -> Option<ServerEnd> {
    let mut end: ServerEnd = serde_json::from_str(&read(ended)?).ok()?;
    if let Cause::Crash(reason) = &mut end.cause {
        *reason = plain(reason);
    }
    Some(end)
}

fn mark(running: &Path, boot: &str) -> std::io::Result<File> {
    if let Some(directory) = running.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut file = File::create(running)?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH);
    let started_ms = started.map_or(0, |since| since.as_millis());
    writeln!(file, "{boot} {started_ms}")?;
    Ok(file)
}

fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Text from a file, for terminals.
fn plain(text: &str) -> String {
    units::printable(text, REASON_CHARS_MAX)
}

fn previous(running: &Path, boot: &str) -> Option<ServerEnd> {
    let text = read(running)?;
    let changed = fs::metadata(running).and_then(|file| file.modified()).ok();
    let since = changed
        .unwrap_or(SystemTime::now())
        .duration_since(UNIX_EPOCH);
    let at_ms = since.map_or(0, |since| since.as_millis() as u64);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    // An earlier release stored no start.
    let (of_boot, started) = first.split_once(' ').unwrap_or((first, ""));
    let reason = lines.next().map(plain).filter(|reason| !reason.is_empty());
    let cause = match reason {
        Some(reason) => Cause::Crash(reason),
        None if of_boot == boot => Cause::Killed,
        None => Cause::Host,
    };
    Some(ServerEnd {
        at_ms,
        started_ms: started.parse().ok(),
        cause,
    })
}

fn store(path: &Path, end: &ServerEnd) -> std::io::Result<()> {
    let new = path.with_extension("ended-new");
    fs::write(&new, serde_json::to_vec(end)?)?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tank() -> PoolName {
        "tank".parse().expect("a name")
    }

    #[test]
    fn end_without_an_export_is_reported_once_and_stored() {
        let folder = tempfile::tempdir().expect("a directory");
        let (running, ended) = (
            folder.path().join("tank.running"),
            folder.path().join("tank.ended"),
        );
        let begin = || begin(running.clone(), &ended, &tank());
        let (server, end) = begin();
        assert_eq!(end, None);
        // An orderly exit.
        drop(server);
        assert!(!running.exists());
        let (server, end) = begin();
        assert_eq!(end, None);
        // A kill.
        std::mem::forget(server);
        let (server, end) = begin();
        assert_eq!(end.expect("known").cause, Cause::Killed);
        // A crash: the first reason counts.
        let mut file = server.file.expect("it exists");
        file.write_all(b"VERIFY(x) failed\nSIGABRT in thread y\n")
            .expect("written");
        std::mem::forget(server);
        let (server, end) = begin();
        let end = end.expect("known");
        assert_eq!(end.cause, Cause::Crash("VERIFY(x) failed".to_owned()));
        assert_eq!(stored(&ended), Some(end.clone()));
        drop(server);
        // A later server still warns of it, for a day.
        let (_server, later) = begin();
        assert_eq!((later, stored(&ended)), (None, Some(end.clone())));
        let advice = end.advice("tank", end.at_ms + 1_000).expect("a warning");
        assert!(advice.why.contains("VERIFY(x) failed"), "{advice}");
        assert_eq!(end.advice("tank", end.at_ms + 25 * 3_600_000), None);
    }

    /// The event is recorded when this head serves the pool again, which may be much later.
    #[test]
    fn killed_server_has_its_start_and_the_last_time_that_it_was_alive() {
        let folder = tempfile::tempdir().expect("a directory");
        let running = folder.path().join("tank.running");
        fs::write(&running, "this-boot 1795887180000\n").expect("written");
        let alive = UNIX_EPOCH + Duration::from_millis(1_795_887_300_000);
        let file = File::options().write(true).open(&running).expect("open");
        file.set_modified(alive).expect("dated");
        let end = previous(&running, "this-boot").expect("known");
        assert_eq!((&end.cause, end.at_ms), (&Cause::Killed, 1_795_887_300_000));
        let message = end.event().message;
        for part in [
            "started at 2026-11-28T17:33:00Z",
            "at about 2026-11-28T17:35:00Z",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        fs::write(&running, "this-boot\n").expect("written");
        let earlier = previous(&running, "this-boot").expect("known");
        assert_eq!((earlier.cause, earlier.started_ms), (Cause::Killed, None));
    }

    #[test]
    fn file_of_an_earlier_boot_is_the_end_of_the_host() {
        let folder = tempfile::tempdir().expect("a directory");
        let running = folder.path().join("tank.running");
        fs::write(&running, "another-boot\n").expect("written");
        let end = previous(&running, "this-boot").expect("known");
        assert_eq!(end.cause, Cause::Host);
        assert!(
            end.advice("tank", end.at_ms).is_none(),
            "no fault of the server"
        );
    }

    #[test]
    fn hostile_files_are_bounded() {
        let folder = tempfile::tempdir().expect("a directory");
        let (running, ended) = (
            folder.path().join("tank.running"),
            folder.path().join("tank.ended"),
        );
        let long = [b"boot\n\x1b[2J".to_vec(), vec![b'x'; 1 << 20]].concat();
        fs::write(&running, long).expect("written");
        let Cause::Crash(reason) = previous(&running, "boot").expect("known").cause else {
            panic!("there is a reason");
        };
        assert!(reason.chars().count() <= REASON_CHARS_MAX && !reason.contains('\x1b'));
        fs::write(&ended, "{\"at_ms\":1,\"cause\":{\"crash\":\"\\u001b[2J\"}}").expect("written");
        assert_eq!(
            stored(&ended).expect("valid").cause,
            Cause::Crash("[2J".to_owned())
        );
        fs::write(&ended, "half").expect("written");
        assert_eq!(stored(&ended), None);
    }
}
