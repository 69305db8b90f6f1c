//! A head whose memory is bounded while a process consumes all of it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lab::MemoryGroup;

use crate::error::DrillError;

/// How much more the head gets than its programs hold: the kernel keeps some of their files in it.
const SPARE_BYTES: u64 = 64 << 20;
/// How long the program takes memory. It is ended by the kernel again and again meanwhile.
const HOG_TIME: Duration = Duration::from_secs(5);
/// Takes memory without end, and once more when the kernel has ended it. It joins the head's memory first.
const HOG: &str = "echo $$ >\"$0\" && exec \"$@\"";
/// `tail` keeps what could be the last line, and there is no end of a line in zeros.
const HOG_IN_HEAD: &str = "while :; do tail /dev/zero; done";

/// A head whose memory is bounded.
#[derive(Debug)]
pub struct Exhausted {
    group: MemoryGroup,
    hog: Child,
    kills_before: u64,
}

impl Exhausted {
    /// Bounds the memory of `head`, and starts what takes it.
    /// `enter` is the command that enters the head.
    pub fn begin(enter: Vec<String>, group: MemoryGroup) -> Result<Self, DrillError> {
        let failed = |what: &'static str| DrillError::io(what);
        let kills_before = group.kills().map_err(failed("count what was killed"))?;
        let held = group.held_bytes().map_err(failed("read a head's memory"))?;
        group
            .limit(Some(held + SPARE_BYTES))
            .map_err(failed("bound a head's memory"))?;
        let hog = Command::new("sh")
            .args(["-c", HOG])
            .arg(group.procs())
            .args(enter)
            .args(["timeout", "-s", "KILL", &HOG_TIME.as_secs().to_string()])
            .args(["sh", "-c", HOG_IN_HEAD])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed("start a program that takes memory"))?;
        Ok(Self {
            group,
            hog,
            kills_before,
        })
    }

    /// Waits until the program has ended, and lets the head have its memory again. How many programs the kernel
    /// has ended.
    pub fn end(mut self) -> Result<u64, DrillError> {
        // How it ended does not matter.
        let _ = self.hog.wait();
        self.group
            .limit(None)
            .map_err(DrillError::io("unbound a head's memory"))?;
        let kills = self.group.kills();
        let kills = kills.map_err(DrillError::io("count what was killed"))?;
        Ok(kills.saturating_sub(self.kills_before))
    }
}
