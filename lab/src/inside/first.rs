//! The first process of a lab. It starts the supervisor, and exits when the supervisor exits. The
//! kernel kills every process of the lab then.
//!
//! Its standard input is the lab's lock: a process that acquires the lock can rely on the lab being
//! gone.

use std::io;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::mount::{MountFlags, mount, mount_bind};
use rustix::process::{WaitOptions, wait};

use super::{COMMAND, ssh, step};
use crate::directory::{
    AGENT_PROGRAM_IN_NODE, FirstProcess, LabDirectory, Setup, WITNESS_PROGRAM_IN_NODE,
};

/// Starts the lab; returns when the supervisor has ended.
pub fn run(folder: &LabDirectory) -> io::Result<ExitCode> {
    write_process_file(folder)?;
    mount("proc", "/proc", "proc", MountFlags::empty(), None)
        .map_err(io::Error::from)
        .map_err(step("mount /proc"))?;
    // A rebuild or an upgrade while the lab runs must not change a part of it.
    std::fs::write(folder.program(), "")?;
    mount_bind("/proc/self/exe", folder.program())
        .map_err(io::Error::from)
        .map_err(step("keep the program"))?;
    copy_sibling_binary(AGENT_PROGRAM_IN_NODE, &folder.agent_binary())
        .map_err(step("copy the binary of the agents"))?;
    copy_sibling_binary(WITNESS_PROGRAM_IN_NODE, &folder.witness_binary())
        .map_err(step("copy the binary of the witness"))?;
    // Here, because a process started by the command itself would outlive it.
    if Setup::load(folder)?.has_ssh {
        ssh::create_key(folder).map_err(step("make a key for ssh"))?;
    }
    let path = folder.path().to_string_lossy().into_owned();
    let mut supervisor = command_in_front(folder);
    let supervisor = supervisor
        .args([COMMAND, "supervisor", &path])
        .stdin(Stdio::null())
        .spawn()
        .map_err(step("start the supervisor"))?;
    let supervisor = i64::from(supervisor.id());
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if i64::from(pid.as_raw_pid()) == supervisor => {
                return Err(io::Error::other(format!(
                    "the supervisor ended: {status:?}"
                )));
            }
            // A process without a parent, or nothing.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Copies a binary from the directory of this one. Without it the agents are called through this binary, and a witness
/// uses an installed one.
fn copy_sibling_binary(program: &str, kept: &Path) -> io::Result<()> {
    let own = std::fs::read_link("/proc/self/exe")?;
    let name = Path::new(program).file_name();
    let beside = own.with_file_name(name.unwrap_or_default());
    if !beside.is_file() {
        return Ok(());
    }
    std::fs::write(kept, "")?;
    Ok(mount_bind(beside, kept)?)
}

/// The pid of this process on the host is in the host's /proc, which is still mounted.
fn write_process_file(folder: &LabDirectory) -> io::Result<()> {
    let link = std::fs::read_link("/proc/self")?;
    let pid = link.to_string_lossy().parse().map_err(io::Error::other)?;
    let started_ticks = cluster::agent::started_ticks(pid)?
        .ok_or_else(|| io::Error::other("this process is not in /proc"))?;
    FirstProcess { pid, started_ticks }.save(folder)
}

/// Switches, BMCs and similar devices are hardware, independent of the load of the host. Where
/// real-time scheduling is not allowed they share its load.
fn command_in_front(folder: &LabDirectory) -> Command {
    let allowed = Command::new("chrt")
        .args(["-r", "2", "true"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !allowed {
        return Command::new(folder.program());
    }
    let mut command = Command::new("chrt");
    command.args(["-r", "2"]).arg(folder.program());
    command
}
