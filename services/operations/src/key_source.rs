//! Reads keys from files and from the output of key programs.
//!
//! Reads keys from prompts, files and key programs. The pool names the program that prints its key,
//! so a foreign pool could name any binary. Therefore only binaries of one directory, owned by the
//! administrator of this host, are run.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use control::key::{KEY_BYTES_MAX, KeyLocation};
use engine::keys::KeyMaterial;
use zeroize::Zeroizing;

/// The directory of key programs on this host.
const PROGRAMS: &str = "/etc/bulkhead/key-programs";
/// Overrides the directory.
const PROGRAMS_VARIABLE: &str = "BULKHEAD_KEY_PROGRAMS";
/// Time-out for a key binary.
const PROGRAM_TIME_MAX: Duration = Duration::from_secs(10);
/// Interval between two checks whether the process has exited.
const PROGRAM_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Bytes of its standard error that are retained.
const COMPLAINT_BYTES_MAX: usize = 1024;
/// Time-out for the standard error of a failed process, if a child of it holds the pipe open.
const COMPLAINT_WAIT: Duration = Duration::from_secs(1);

/// The reason why a key was not read, with its location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// No prompt is possible here.
    #[error(
        "it is entered at a prompt: `bulkhead volume key load` with --prompt or --key-stdin loads it"
    )]
    Prompt,
    /// The file cannot be read.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The process failed.
    #[error("key program {program}: {why}")]
    Program {
        /// Its name.
        program: String,
        /// The reason.
        why: String,
    },
}

/// Returns the key at that location. Blocks up to `PROGRAM_TIME_MAX`.
pub fn fetch(location: &KeyLocation) -> Result<KeyMaterial, SourceError> {
    match location {
        KeyLocation::Prompt => Err(SourceError::Prompt),
        KeyLocation::File(path) => from_file(path),
        KeyLocation::Command(words) => from_program(&programs(), words, PROGRAM_TIME_MAX),
    }
}

fn programs() -> PathBuf {
    let folder = std::env::var_os(PROGRAMS_VARIABLE);
    folder.map_or_else(|| PROGRAMS.into(), PathBuf::from)
}

/// Returns whether this host has the directory of key programs. A pool server that starts without it runs no key
/// program until its next start.
pub fn has_programs() -> bool {
    programs().is_dir()
}

/// All that there is, at most as much as a key has and one byte more.
fn read_bounded(from: impl Read) -> std::io::Result<Zeroizing<Vec<u8>>> {
    // Never moved while it grows, which would leave copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_BYTES_MAX + 2));
    from.take(KEY_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn checked(bytes: Zeroizing<Vec<u8>>) -> Result<KeyMaterial, String> {
    match bytes.len() {
        0 => Err("it is empty".to_owned()),
        length if length > KEY_BYTES_MAX => {
            Err(format!("it is longer than any key, {KEY_BYTES_MAX} bytes"))
        }
        _ => Ok(KeyMaterial::new(bytes)),
    }
}

fn from_file(path: &Path) -> Result<KeyMaterial, SourceError> {
    let read = || -> std::io::Result<_> {
        let no_file = || std::io::Error::other("it is no ordinary file");
        // Checked first, because opening some devices has an effect, such as a watchdog.
        if !std::fs::metadata(path)?.is_file() {
            return Err(no_file());
        }
        // Opening a pipe blocks until a writer opens it, and a foreign pool can name a pipe.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = std::fs::File::options()
            .read(true)
            .custom_flags(flags)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(no_file());
        }
        read_bounded(file)
    };
    let bytes = read().map_err(|error| error.to_string());
    bytes.and_then(checked).map_err(|why| SourceError::File {
        path: path.to_owned(),
        why,
    })
}

/// Refuses a file that users other than root and the current user could have written.
fn refuse_strangers(path: &Path) -> Result<(), String> {
    let described = |error: std::io::Error| format!("{}: {error}", path.display());
    let facts = std::fs::metadata(path).map_err(described)?;
    let own = rustix::process::geteuid().as_raw();
    if !facts.is_file() || facts.permissions().mode() & 0o111 == 0 {
        return Err(format!("{} is not an executable file", path.display()));
    }
    if ![0, own].contains(&facts.uid()) || facts.permissions().mode() & 0o022 != 0 {
        return Err(format!(
            "{} is writable by other users: `chown root` and `chmod go-w` it",
            path.display()
        ));
    }
    Ok(())
}

fn from_program(
    folder: &Path,
    words: &[String],
    time_max: Duration,
) -> Result<KeyMaterial, SourceError> {
    let name = words.first().cloned().unwrap_or_default();
    let path = folder.join(&name);
    let fail = |why: String| SourceError::Program {
        program: name.clone(),
        why,
    };
    refuse_strangers(&path).map_err(fail)?;
    // A process group of its own, so that its children are killed with it.
    let child = Command::new(&path)
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let child = child.map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => fail(format!(
            "{} cannot be started: {error}; a server that was started before the directory of key programs existed runs \
             none: start the server again",
            path.display()
        )),
        _ => fail(format!("{}: {error}", path.display())),
    })?;
    let output = finish(child, Instant::now() + time_max).map_err(fail)?;
    checked(output).map_err(fail)
}

/// Returns the output of the process, if it exits successfully before the deadline.
fn finish(mut child: Child, deadline: Instant) -> Result<Zeroizing<Vec<u8>>, String> {
    let key = collect(child.stdout.take(), |from| {
        read_bounded(from).unwrap_or_default()
    });
    let complaint = collect(child.stderr.take(), |from| {
        let mut text = Vec::new();
        let _ = from.take(COMPLAINT_BYTES_MAX as u64).read_to_end(&mut text);
        text
    });
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(PROGRAM_POLL_INTERVAL),
            Ok(None) => {
                end_group(&child);
                let _ = child.wait();
                return Err("it took too long and was ended".to_owned());
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    // Its children can hold the pipes open.
    let left = deadline.saturating_duration_since(Instant::now());
    let key = key.recv_timeout(left.max(PROGRAM_POLL_INTERVAL));
    if !status.success() {
        let text = complaint.recv_timeout(COMPLAINT_WAIT).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let line = text.lines().rfind(|line| !line.trim().is_empty());
        return Err(format!("{status}: {}", line.unwrap_or("it said nothing")));
    }
    key.map_err(|_| {
        end_group(&child);
        "a child process of it was still running and was killed".to_owned()
    })
}

fn end_group(child: &Child) {
    let group = i32::try_from(child.id()).ok();
    if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// Reads a pipe in a thread of its own, because a full pipe blocks the writer.
fn collect<R: Read + Send + 'static, T: Send + 'static>(
    pipe: Option<R>,
    read: impl FnOnce(R) -> T + Send + 'static,
) -> Receiver<T> {
    let (tell, told) = channel();
    if let Some(pipe) = pipe {
        std::thread::spawn(move || {
            // After the time-out there is no receiver.
            let _ = tell.send(read(pipe));
        });
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path, name: &str, script: &str, mode: u32) -> Vec<String> {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("program");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
        vec![name.to_owned(), "an argument".to_owned()]
    }

    fn run(folder: &Path, words: &[String], time_max: Duration) -> Result<Vec<u8>, String> {
        loop {
            let found = from_program(folder, words, time_max);
            let found = found.map(|key| key.reveal().to_vec());
            match found.map_err(|error| error.to_string()) {
                // A concurrent test forked while the file was open for writing. Its child holds the file open until it
                // calls exec.
                Err(why) if why.contains("Text file busy") => std::thread::yield_now(),
                other => return other,
            }
        }
    }

    #[test]
    fn key_command_gets_its_arguments_unchanged() {
        let folder = tempfile::tempdir().expect("folder");
        let words = program(folder.path(), "good", "printf '%s' \"$1\"", 0o755);
        let found = run(folder.path(), &words, PROGRAM_TIME_MAX);
        assert_eq!(found, Ok(b"an argument".to_vec()));
    }

    #[test]
    fn output_of_a_failing_key_command_is_quoted() {
        let folder = tempfile::tempdir().expect("folder");
        let words = program(folder.path(), "bad", "echo sealed >&2; exit 3", 0o755);
        let why = run(folder.path(), &words, PROGRAM_TIME_MAX).expect_err("fails");
        assert!(why.contains("bad") && why.contains("sealed"), "{why}");
        let words = program(folder.path(), "silent", "exit 0", 0o755);
        let why = run(folder.path(), &words, PROGRAM_TIME_MAX).expect_err("fails");
        assert!(why.contains("empty"), "{why}");
    }

    #[test]
    fn hung_key_command_is_killed_with_its_children() {
        let folder = tempfile::tempdir().expect("folder");
        let words = program(folder.path(), "slow", "sleep 1000", 0o755);
        let begun = Instant::now();
        let why = run(folder.path(), &words, Duration::from_millis(200)).expect_err("slow");
        assert!(why.contains("too long"), "{why}");
        assert!(begun.elapsed() < Duration::from_secs(100));
    }

    #[test]
    fn writable_or_invalid_key_command_is_not_run() {
        let folder = tempfile::tempdir().expect("folder");
        for (name, mode) in [("open", 0o757), ("plain", 0o644)] {
            let words = program(folder.path(), name, "echo never", mode);
            assert!(
                run(folder.path(), &words, PROGRAM_TIME_MAX).is_err(),
                "{name}"
            );
        }
        let missing = run(folder.path(), &["none".to_owned()], PROGRAM_TIME_MAX);
        assert!(missing.expect_err("missing").contains("No such file"));
    }

    #[test]
    fn key_file_is_read_unchanged() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("key");
        std::fs::write(&path, [0, 10, 255]).expect("file");
        let key = fetch(&KeyLocation::File(path.clone())).expect("read");
        assert_eq!(key.reveal(), [0, 10, 255]);
        std::fs::write(&path, vec![1; KEY_BYTES_MAX + 1]).expect("file");
        assert!(fetch(&KeyLocation::File(path)).is_err());
        assert!(fetch(&KeyLocation::File(folder.path().into())).is_err());
    }

    #[test]
    fn pipe_without_writer_is_refused_without_blocking() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).expect("a pipe");
        let (sender, receiver) = channel();
        std::thread::spawn(move || sender.send(fetch(&KeyLocation::File(path)).err()));
        let error = receiver.recv_timeout(Duration::from_secs(60));
        let why = error.expect("an answer").expect("no key").to_string();
        assert!(why.contains("no ordinary file"), "{why}");
    }
}
