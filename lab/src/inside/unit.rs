//! A set of namespaces with a first process in it: a node, a BMC, a power distribution unit.
//!
//! The first process reports its pid when its namespaces exist, receives a message when its cables are plugged in, and
//! reports when it is up. These are all messages between them.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use appliance::Appliance;

use super::switch::{self, Plug};
use super::{COMMAND, step};
use crate::directory::LabDirectory;
use crate::fabric::Port;

/// The message to a unit when its cables are plugged in.
const PLUGGED: &str = "plugged";
/// The message of a unit when it is up.
const UP: &str = "up";

/// How a unit is started.
pub struct Kind<'a> {
    /// Words after [`COMMAND`].
    pub words: &'a [&'a str],
    /// Options of unshare(1).
    pub namespaces: &'a [&'a str],
    /// Name of the directory and of the log in it.
    pub console: std::path::PathBuf,
    /// Whether it is as quick as hardware; machines share the processor like other programs.
    pub in_front: bool,
}

/// A running unit.
pub struct Unit {
    /// unshare(1), which exits when the first process has exited.
    outer: Child,
    /// The first process, as the lab numbers it.
    pub pid: i32,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Unit {
    /// Starts a unit and plugs it in.
    pub fn start(
        folder: &LabDirectory,
        appliance: &Appliance,
        kind: &Kind<'_>,
        plug: Plug,
        ports: &[Port],
    ) -> io::Result<Self> {
        let console = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&kind.console)
            .map_err(step("open the console"))?;
        let mut command = match kind.in_front {
            true => Command::new("unshare"),
            false => {
                let mut command = Command::new("chrt");
                command.args(["--other", "0", "unshare"]);
                command
            }
        };
        command
            .args(kind.namespaces)
            .args(["--fork", "--kill-child=KILL", "--"])
            .arg(folder.program())
            .arg(COMMAND)
            .args(kind.words)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(console);
        let mut outer = command.spawn().map_err(step("run unshare"))?;
        let (Some(stdin), Some(stdout)) = (outer.stdin.take(), outer.stdout.take()) else {
            return Err(io::Error::other("no pipes to a unit"));
        };
        let mut unit = Self {
            outer,
            pid: 0,
            stdin,
            stdout: BufReader::new(stdout),
        };
        unit.pid = unit.receive()?.parse().map_err(io::Error::other)?;
        switch::plug(appliance, plug, ports, unit.pid)?;
        unit.send(PLUGGED)?;
        match unit.receive()?.as_str() {
            UP => Ok(unit),
            other => Err(io::Error::other(format!("a unit sent {other:?}"))),
        }
    }

    fn receive(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line)? {
            0 => Err(io::Error::other(
                "it ended while it started; see its console",
            )),
            _ => Ok(line.trim().to_owned()),
        }
    }

    /// Sends a message to the first process.
    pub fn send(&mut self, word: &str) -> io::Result<()> {
        self.stdin.write_all(format!("{word}\n").as_bytes())
    }

    /// Kills all processes of the unit and blocks until they are gone.
    pub fn end(mut self) -> io::Result<()> {
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid) {
            match rustix::process::kill_process(pid, rustix::process::Signal::KILL) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The parent of the first process is notified of its end only after all other processes are
        // gone.
        self.outer.wait().map(|_| ())
    }
}

/// The first steps of the first process of a unit. Afterwards its cables are plugged in. Returns
/// the stream for further messages.
pub fn handshake() -> io::Result<BufReader<io::Stdin>> {
    // /proc is still that of the lab.
    let own = std::fs::read_link("/proc/self")?;
    println_to_stdout(&own.to_string_lossy())?;
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    input.read_line(&mut line)?;
    match line.trim() {
        PLUGGED => Ok(input),
        other => Err(io::Error::other(format!(
            "received {other:?} before the start"
        ))),
    }
}

/// Reports that this unit is up.
pub fn is_up() -> io::Result<()> {
    println_to_stdout(UP)
}

fn println_to_stdout(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(format!("{line}\n").as_bytes())?;
    stdout.flush()
}
