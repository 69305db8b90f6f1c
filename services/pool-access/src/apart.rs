//! Looks at a pool that nobody serves in a process of its own: a process opens one pool, and a disk that hangs holds
//! up what is told of the others for [`LOOK_WAIT`] at most.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::child::{Question, Ran, read as read_output};
use crate::common::Common;
use control::{Answer, Failure, FailureKind, Request};
use units::PoolName;

/// Longest time that all looks of a command take.
pub const LOOK_WAIT: Duration = Duration::from_secs(20);

/// A look under way.
pub struct Look {
    child: Child,
    said: Receiver<String>,
}

impl Look {
    /// Begins to ask `pool`, which this machine does not serve, for something that changes nothing.
    pub fn begin(common: &Common, pool: &PoolName, request: &Request) -> Result<Self, Failure> {
        debug_assert!(request.only_looks(), "{request:?}");
        let failed = Failure::of(format!("start a process that looks at pool {pool}"));
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
            // One that ended early says why.
            let _ = stdin.write_all(&question);
        }
        let (sender, said) = channel();
        let output = child.stdout.take();
        let read = move || {
            // Nobody may be waiting any more.
            let _ = sender.send(read_output(output));
        };
        std::thread::Builder::new()
            .name("look".into())
            .spawn(read)
            .map_err(failed)?;
        Ok(Self { child, said })
    }

    /// What came of it. One that takes longer than `until` is given up: a disk may hold it.
    pub fn answer(mut self, until: Instant) -> Result<Answer, Failure> {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(stdout) = self.said.recv_timeout(left) else {
            // It ends when its disk lets it, and nobody waits for that.
            let _ = self.child.kill();
            let seconds = LOOK_WAIT.as_secs();
            let message = format!("it was not read within {seconds} seconds");
            return Err(Failure::new(FailureKind::Unavailable, message)
                .advise("see whether its disks answer, and whether another command has it open"));
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
