//! Runs this binary again for work that a process must not do itself, with bounds on time and output, and reads the
//! result.

mod question;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use control::{Answer, Failure, FailureKind};
use rustix::process::{Pid, Signal, kill_process};

pub use self::question::{Question, perform};

/// Maximum bytes of output that are read.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of last output lines that are retained for a failure.
const LAST_LINES_MAX: usize = 5;
/// Polling interval of a running process.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time after SIGTERM until the process is killed.
const END_WAIT: Duration = Duration::from_secs(60);

/// A run of this binary.
pub struct Run<'a> {
    /// Its words.
    pub arguments: Vec<OsString>,
    /// The standard input.
    pub input: Vec<u8>,
    /// The time-out.
    pub limit: Duration,
    /// Set when the result is no longer needed.
    pub cancel: Option<&'a AtomicBool>,
}

/// The result of a run.
pub struct Ran {
    /// The exit code, or 128 and the signal.
    pub code: i32,
    /// The standard output.
    pub stdout: String,
    /// The last lines of the standard error.
    pub last_words: Vec<String>,
}

impl Ran {
    /// The JSON document that it printed.
    pub fn document(&self) -> Result<serde_json::Value, Failure> {
        serde_json::from_str(&self.stdout).map_err(|_| self.failure())
    }

    /// Parses the response on the standard output.
    pub fn answer(&self) -> Result<Answer, Failure> {
        match serde_json::from_str(&self.stdout) {
            Ok(answer) if self.code == 0 => Ok(answer),
            _ => Err(self.failure()),
        }
    }

    /// The failure that it ended with.
    pub fn failure(&self) -> Failure {
        #[derive(serde::Deserialize)]
        struct Document {
            failure: Failure,
        }
        if let Ok(document) = serde_json::from_str::<Document>(&self.stdout) {
            return document.failure;
        }
        let words = self.last_words.join(" ");
        let code = self.code;
        Failure::new(
            FailureKind::Failed,
            format!("the process that did it ended with {code}: {words}"),
        )
    }
}

/// Runs it; each line of its standard error is progress.
pub fn run(run: Run<'_>, progress: &mut dyn FnMut(&str)) -> Result<Ran, Failure> {
    let program = std::env::current_exe().map_err(Failure::of("find this program"))?;
    let mut child = Command::new(program)
        .args(&run.arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Failure::of("start this program"))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // The process might exit before it reads all input.
                let _ = stdin.write_all(&run.input);
            }
        });
        let output = scope.spawn(move || read(stdout));
        let (sender, lines) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let lines = stderr
                .into_iter()
                .flat_map(|stderr| BufReader::new(stderr).lines());
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut last_words = Vec::new();
        let mut note = |line: String| {
            progress(&line);
            last_words.push(line);
            let over = last_words.len().saturating_sub(LAST_LINES_MAX);
            last_words.drain(..over);
        };
        let code = wait(&mut child, run.limit, run.cancel, &lines, &mut note);
        let stdout = output.join().unwrap_or_default();
        lines.iter().for_each(note);
        Ok(Ran {
            code,
            stdout,
            last_words,
        })
    })
}

/// Reads the output up to a limit.
pub fn read(from: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        let _ = from.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Blocks until the process exits, and kills it when its time-out passes.
fn wait(
    child: &mut Child,
    limit: Duration,
    cancel: Option<&AtomicBool>,
    lines: &std::sync::mpsc::Receiver<String>,
    note: &mut dyn FnMut(String),
) -> i32 {
    let deadline = Instant::now() + limit;
    let mut told = None::<Instant>;
    loop {
        while let Ok(line) = lines.try_recv() {
            note(line);
        }
        if let Ok(Some(status)) = child.try_wait() {
            return status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        }
        let is_unwanted = cancel.is_some_and(|cancel| cancel.load(Ordering::Acquire));
        match told {
            None if is_unwanted || Instant::now() >= deadline => {
                told = Some(Instant::now());
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
            }
            Some(at) if at.elapsed() >= END_WAIT => {
                let _ = child.kill();
            }
            _ => {}
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
