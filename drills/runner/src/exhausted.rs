//! Memory exhaustion on a head: a bound, and a process that consumes all memory.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lab::MemoryGroup;

use crate::error::DrillError;

/// Memory that the head gets in addition to its current use: the kernel holds page cache in it.
const SPARE_BYTES: u64 = 64 << 20;
/// How long the process allocates memory. The kernel kills it repeatedly during that time.
const HOG_TIME: Duration = Duration::from_secs(5);
/// Allocates memory without end, and starts again when the kernel has killed it. It joins the head's memory cgroup
/// first.
const HOG: &str = "echo $$ >\"$0\" && exec \"$@\"";
/// `tail` buffers the last line, and zeros contain no end of a line.
const HOG_IN_HEAD: &str = "while :; do tail /dev/zero; done";

/// A head with bounded memory.
#[derive(Debug)]
pub struct Exhausted {
    group: MemoryGroup,
    hog: Child,
    kills_before: u64,
}

impl Exhausted {
    /// Bounds the memory of `head`, and starts a process that consumes it. `enter` is the command
    /// that enters the head.
    pub fn begin(enter: Vec<String>, group: MemoryGroup) -> Result<Self, DrillError> {
        let failed = |what: &'static str| DrillError::io(what);
        let kills_before = group.kills().map_err(failed("count killed processes"))?;
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
            .map_err(failed("start a process that consumes memory"))?;
        Ok(Self {
            group,
            hog,
            kills_before,
        })
    }

    /// Blocks until the process has terminated, and removes the bound. Returns the number of processes that the kernel
    /// has killed.
    pub fn end(mut self) -> Result<u64, DrillError> {
        // How it ended does not matter.
        let _ = self.hog.wait();
        self.group
            .limit(None)
            .map_err(DrillError::io("unbound a head's memory"))?;
        let kills = self.group.kills();
        let kills = kills.map_err(DrillError::io("count killed processes"))?;
        Ok(kills.saturating_sub(self.kills_before))
    }
}
