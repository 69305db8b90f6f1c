//! Runs a command with limits on its time and its output.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use appliance::xml::Element;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// Longest retained output of a command, in bytes; a CIB is far below.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// Longest first line of a command that continues to run, in bytes.
const LINE_BYTES_MAX: u64 = 4096;

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The binary.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its standard input.
    pub input: Vec<u8>,
    /// Its time limit; then it is killed with all its children.
    pub time_limit: Duration,
}

impl Invocation {
    /// `program` with `arguments`, no input, and the usual limit of 30 s.
    pub fn new(program: &str, arguments: &[&str]) -> Self {
        Self {
            program: program.to_owned(),
            arguments: arguments.iter().map(|&one| one.to_owned()).collect(),
            input: Vec::new(),
            time_limit: Duration::from_secs(30),
        }
    }

    /// Sets the input.
    #[must_use]
    pub fn reading(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Sets the time limit.
    #[must_use]
    pub const fn within(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The exit code; -1 after a signal.
    pub code: i32,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// The standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The standard error, or else the standard output, on one line. Of a result of Pacemaker in XML its message.
    pub fn complaint(&self) -> String {
        if let Some(message) = self.pacemaker_message() {
            return message;
        }
        let bytes = if self.stderr.is_empty() {
            &self.stdout
        } else {
            &self.stderr
        };
        String::from_utf8_lossy(bytes)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl Output {
    /// The message in `<pacemaker-result><status code="102" message="Not connected">`.
    fn pacemaker_message(&self) -> Option<String> {
        let streams = [&self.stderr, &self.stdout];
        let mut texts = streams
            .into_iter()
            .map(|bytes| String::from_utf8_lossy(bytes));
        let text = texts.find(|text| text.contains("<pacemaker-result"))?;
        let begin = text.find("<pacemaker-result")?;
        let result = Element::parse(&text[begin..]).ok()?;
        let message = result.child("status")?.attribute("message")?;
        Some(message.to_owned())
    }
}

/// Why a command could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not be started.
    #[error("start {program}")]
    Start {
        /// The command.
        program: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The wait for it failed.
    #[error("wait for {program}")]
    Wait {
        /// The command.
        program: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// It exceeded its limit and was killed.
    #[error("{program} did not end within {limit_s} s")]
    TimedOut {
        /// The command.
        program: String,
        /// Its limit, in seconds.
        limit_s: u64,
    },
}

/// A process that runs until this is dropped: it exits when its input is closed, hence also when this process
/// terminates.
#[derive(Debug)]
pub struct Held {
    child: Child,
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // The input is closed, so that it exits.
        let _ = self.child.wait();
    }
}

/// Starts a command, and returns its first line and the process, which continues to run. Its output has no limit: only
/// scripts of this crate are run this way.
///
/// # Errors
///
/// It does not start, or exits before a line.
pub fn hold(invocation: &Invocation) -> Result<(String, Held), RunError> {
    let failed = |source| RunError::Start {
        program: invocation.program.clone(),
        source,
    };
    let child = Command::new(&invocation.program)
        .args(&invocation.arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let mut held = Held {
        child: child.map_err(failed)?,
    };
    let mut line = String::new();
    if let Some(stdout) = held.child.stdout.take() {
        let mut reader = BufReader::new(stdout).take(LINE_BYTES_MAX);
        reader.read_line(&mut line).map_err(failed)?;
    }
    match line.is_empty() {
        true => Err(failed(std::io::ErrorKind::UnexpectedEof.into())),
        false => Ok((line.trim().to_owned(), held)),
    }
}

/// Runs a command on this host. An exit code other than 0 is no error here.
///
/// # Errors
///
/// It does not exist, or exceeds its limit.
pub fn run(invocation: &Invocation) -> Result<Output, RunError> {
    let program = || invocation.program.clone();
    let mut child = Command::new(&invocation.program)
        .args(&invocation.arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|source| RunError::Start {
            program: program(),
            source,
        })?;
    let mut stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(stdin) = &mut stdin {
                // A command that does not read its input reports the reason by its exit code.
                let _ = stdin.write_all(&invocation.input);
            }
        });
        let stdout = scope.spawn(move || read_bounded(stdout));
        let stderr = scope.spawn(move || read_bounded(stderr));
        let ended = wait(&mut child, invocation.time_limit);
        let wait_error = |source| RunError::Wait {
            program: program(),
            source,
        };
        if !matches!(ended, Ok(true)) {
            // The readers return when the last holder of the pipes is gone.
            kill_group(&child);
        }
        let status = child.wait().map_err(wait_error)?;
        if !ended.map_err(wait_error)? {
            return Err(RunError::TimedOut {
                program: program(),
                limit_s: invocation.time_limit.as_secs(),
            });
        }
        Ok(Output {
            code: status.code().unwrap_or(-1),
            stdout: stdout.join().unwrap_or_default(),
            stderr: stderr.join().unwrap_or_default(),
        })
    })
}

fn read_bounded(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        // The rest is read, so that the process does not block, and dropped.
        let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    }
    bytes
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn kill_group(child: &Child) {
    if let Some(pid) = pid_of(child) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Whether the child terminated within the limit.
fn wait(child: &mut Child, time_limit: Duration) -> std::io::Result<bool> {
    let Some(pid) = pid_of(child) else {
        return Ok(false);
    };
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let deadline = std::time::Instant::now() + time_limit;
    loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut watched = [PollFd::new(&handle, PollFlags::IN)];
        match poll(&mut watched, Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_output_and_exit_code_are_forwarded() {
        let output =
            run(&Invocation::new("sh", &["-c", "cat; echo oops >&2; exit 3"]).reading("in"))
                .expect("sh runs");
        assert_eq!((output.code, output.text().as_str()), (3, "in"));
        assert_eq!(output.complaint(), "oops");
    }

    #[test]
    fn hung_command_is_killed_with_its_children() {
        let invocation = Invocation::new("sh", &["-c", "sleep 1000 & sleep 1000"])
            .within(Duration::from_millis(50));
        let started = std::time::Instant::now();
        let error = run(&invocation).expect_err("it hangs");
        assert!(matches!(error, RunError::TimedOut { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn missing_command_is_an_error() {
        let error = run(&Invocation::new("/nonexistent/program", &[])).expect_err("missing");
        assert!(matches!(error, RunError::Start { .. }), "{error}");
    }

    /// crm_mon(8) prints its failures as XML, too, if that is requested.
    #[test]
    fn complaint_of_pacemaker_in_xml_is_its_message() {
        let output = |stdout: &str, stderr: &str| Output {
            code: 102,
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        const XML: &str = r#"<?xml version="1.0"?>
            <pacemaker-result api-version="2.30" request="crm_mon --output-as xml">
              <status code="102" message="Not connected"><errors><error>crm_mon: Connection refused</error></errors></status>
            </pacemaker-result>"#;
        assert_eq!(output(XML, "").complaint(), "Not connected");
        assert_eq!(output("", XML).complaint(), "Not connected");
        assert_eq!(output("", "no such\n luck").complaint(), "no such luck");
    }
}
