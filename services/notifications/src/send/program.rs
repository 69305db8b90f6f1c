//! A command on this host. It reads the message as JSON from its standard input.

use std::io::{Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use appliance::alerts::Program;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::message::Rendered;

/// Interval between two checks of the process.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Longest time until a killed process is gone.
const REAP_LIMIT: Duration = Duration::from_secs(1);
/// Longest part of its complaints that is read, in bytes.
const COMPLAINT_BYTES_MAX: u64 = 1024;

/// Runs the command to its end.
pub(super) async fn run(program: &Program, message: &Rendered) -> Result<(), String> {
    let (program, json) = (program.clone(), message.json.to_string());
    let ran = tokio::task::spawn_blocking(move || run_to_end(&program, json.as_bytes()));
    ran.await.unwrap_or_else(|error| Err(error.to_string()))
}

/// Files instead of pipes: a child that outlives the process, or a process that does not read, blocks nothing.
fn run_to_end(program: &Program, json: &[u8]) -> Result<(), String> {
    let shown = program.path.display();
    let failed = |error: std::io::Error| format!("start {shown}: {error}");
    let mut input = tempfile::tempfile().map_err(failed)?;
    input.write_all(json).map_err(failed)?;
    input.rewind().map_err(failed)?;
    let mut complaint = tempfile::tempfile().map_err(failed)?;
    let mut child = Command::new(&program.path)
        .stdin(Stdio::from(input))
        .stdout(Stdio::null())
        .stderr(complaint.try_clone().map_err(failed)?)
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let limit_s = program.timeout_s;
    let deadline = Instant::now() + Duration::from_secs(limit_s.into());
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL_INTERVAL),
            ended => {
                kill_group(&child);
                reap(&mut child);
                let late = format!("{shown} did not end within {limit_s} s, and was killed");
                return Err(ended.map_or_else(|error| error.to_string(), |_| late));
            }
        }
    };
    if status.success() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let _ = complaint.rewind();
    let _ = complaint.take(COMPLAINT_BYTES_MAX).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let words: Vec<&str> = text.split_whitespace().collect();
    Err(format!("{shown} ended with {status}: {}", words.join(" ")))
}

/// A process that the kernel cannot end, for example in a request to a server of files, is left.
fn reap(child: &mut Child) {
    let deadline = Instant::now() + REAP_LIMIT;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn kill_group(child: &Child) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}
