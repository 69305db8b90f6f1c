//! Reads the state of a pool without a server in a separate process: a process opens at most one pool, and a hanging
//! disk must not delay the status of the other pools beyond [`QUERY_WAIT_MAX`].

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::child::{Question, Ran, read as read_output};
use crate::common::Common;
use control::{Answer, Failure, FailureKind, Request};
use units::PoolName;

/// Time-out for all such reads of a command.
pub const QUERY_WAIT_MAX: Duration = Duration::from_secs(20);

/// A running query.
pub struct QueryProcess {
    child: Child,
    said: Receiver<String>,
}

impl QueryProcess {
    /// Starts a read-only request to `pool`, which has no server here.
    pub fn begin(common: &Common, pool: &PoolName, request: &Request) -> Result<Self, Failure> {
        debug_assert!(request.is_read_only(), "{request:?}");
        let failed = Failure::of(format!("start a process that reads pool {pool}"));
        let program = std::env::current_exe().map_err(&failed)?;
        let mut command = Command::new(program);
        command.args(["--json", "head", "perform"]);
        command.args(common.as_options());
        if common.maintenance {
            command.arg("--maintenance");
        }
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.stderr(Stdio::null()).spawn().map_err(&failed)?;
        let question = Question::Ask {
            pool: pool.clone(),
            request: request.clone(),
        };
        if let Some(mut stdin) = child.stdin.take() {
            let question = serde_json::to_vec(&question).expect("questions are JSON");
            // A process that exited early reports the reason on its output.
            let _ = stdin.write_all(&question);
        }
        let (sender, said) = channel();
        let output = child.stdout.take();
        let read = move || {
            // The receiver might be gone.
            let _ = sender.send(read_output(output));
        };
        std::thread::Builder::new()
            .name("look".into())
            .spawn(read)
            .map_err(failed)?;
        Ok(Self { child, said })
    }

    /// Returns the response. A process that exceeds `until` is abandoned, because a disk can block
    /// it.
    pub fn answer(mut self, until: Instant) -> Result<Answer, Failure> {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(stdout) = self.said.recv_timeout(left) else {
            // It exits when its disk permits it. Waiting for that is not bounded.
            let _ = self.child.kill();
            let seconds = QUERY_WAIT_MAX.as_secs();
            let message = format!("it was not read within {seconds} seconds");
            return Err(Failure::new(FailureKind::Unavailable, message).advise(
                "check whether its disks respond, and whether another command has it open",
            ));
        };
        let code = self.child.wait().ok().and_then(|status| status.code());
        let ran = Ran {
            code: code.unwrap_or(-1),
            stdout,
            last_words: Vec::new(),
        };
        ran.answer()
    }
}
