//! The pool agent with a stand-in for the server, a shell script: for the tests of the agent and for ocf-tester(8),
//! which need no disks. The environment configures the stand-in: `STAND_IN_DIR` is its directory, `STAND_IN_MODE` is
//! empty, `stubborn`, `late`, `dies` or `lingers`, `STAND_IN_LABEL` the name of the pool's previous owner,
//! `STAND_IN_PEER` the cluster's view of it.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use cluster::agent::{AgentEnvironment, ClusterView, PoolBackend, Remains, run};
use cluster::host::Local;
use cluster::process::{Invocation, run as run_program};
use takeover::{Grant, Label, Peer, Server};
use units::PoolName;

/// Polling interval of the server's exit.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

struct StandIn {
    folder: PathBuf,
    mode: String,
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Has the pool open while the file `serving` exists; closes it on SIGTERM.
const SERVER: &str = r#"
cd "$1"
echo $$ >pid
[ "$2" = dies ] && exit 1
[ "$2" = late ] && exec sleep 1000
trap 'rm -f serving; exit 0' TERM
[ "$2" = lingers ] && trap 'rm -f serving' TERM
[ "$2" = stubborn ] && trap '' TERM
touch serving
echo serving
while :; do sleep 0.02; done
"#;

impl PoolBackend for StandIn {
    fn status(&self, _: &PoolName, _: Duration) -> Option<Server> {
        let pid = std::fs::read_to_string(self.folder.join("pid")).ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok()?;
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        let answers = !matches!(state, 'Z' | 'T') && self.folder.join("serving").exists();
        answers.then_some(Server::Serving)
    }

    fn request_export(&self, _: &PoolName, limit: Duration) -> Result<(), String> {
        if !self.folder.join("serving").exists() {
            return Err("it does not listen".to_owned());
        }
        let deadline = Instant::now() + limit;
        let pid = std::fs::read_to_string(self.folder.join("pid")).map_err(|e| e.to_string())?;
        run_program(&Invocation::new("kill", &["-TERM", pid.trim()]))
            .map_err(|error| error.to_string())?;
        while self.folder.join("serving").exists() {
            if Instant::now() >= deadline {
                return Err("it does not let go".to_owned());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn disks(&self, _: &PoolName) -> Result<Vec<PathBuf>, String> {
        Ok(Vec::new())
    }

    /// It has no disks.
    fn await_release(&self, _: &PoolName, _: Remains<'_>) -> Result<(), String> {
        Ok(())
    }

    fn read_label(&self, _: &PoolName) -> Result<Label, String> {
        Ok(match variable("STAND_IN_LABEL").as_str() {
            "" => Label::Exported,
            owner => Label::InUse {
                by_this_host: false,
                host_name: Some(owner.to_owned()),
                is_watched: false,
            },
        })
    }

    fn server_command(&self, _: &Grant) -> Result<Command, String> {
        let mut command = Command::new("sh");
        let folder = self.folder.as_os_str();
        command
            .args(["-c", SERVER, "server"])
            .arg(folder)
            .arg(&self.mode);
        command.stderr(Stdio::null());
        Ok(command)
    }

    fn validate(&self, _: &PoolName) -> Result<(), String> {
        match self.folder.is_dir() {
            true => Ok(()),
            false => Err(format!("{} is no directory", self.folder.display())),
        }
    }
}

impl ClusterView for StandIn {
    fn peer(&self, _: &str, _: &PoolName) -> Peer {
        match variable("STAND_IN_PEER").as_str() {
            "fenced" => Peer::Fenced,
            "member" => Peer::Member,
            _ => Peer::Unknown,
        }
    }
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "Pacemaker reads both"
)]
fn main() -> ExitCode {
    let stand_in = StandIn {
        folder: PathBuf::from(variable("STAND_IN_DIR")),
        mode: variable("STAND_IN_MODE"),
    };
    let around = AgentEnvironment {
        program: &stand_in,
        cluster: &stand_in,
        machine: &Local::default(),
        run_dir: stand_in.folder.clone(),
        environment: &|name| std::env::var(name).ok(),
    };
    let exit = run(&std::env::args().nth(1).unwrap_or_default(), &around);
    print!("{}", exit.output);
    if let Some(line) = exit.reason_line() {
        eprintln!("{line}");
    }
    ExitCode::from(exit.code)
}
