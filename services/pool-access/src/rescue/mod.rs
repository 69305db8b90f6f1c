//! `bulkhead volume rescue`: requests a rescue from the pool's server, or starts a server for the
//! rescue alone. Shows how to use it, and stops it on exit. If this process is killed, the server
//! detects that by a lock that was held, or by a pipe that closes.

mod arguments;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::common::Common;
use crate::sockets;
use control::operations::TableOptions;
use control::operations::volume::rescue::begin::Begin;
use control::operations::volume::rescue::end::End;
use control::request::{Request, RescueRequest, VolumeRequest};
use control::{Answer, Failure, FailureKind, PoolLock};
use output::signals::{self, SignalEvent};
use rendering::Printer;
use units::{PoolName, VolumeName};

pub use self::arguments::{EXAMPLES, RescueArgs};
use crate::pools::{self, OtherHeads};

/// Interval between two checks that the rescue is active.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Begins a rescue, stops one, or lists them.
pub fn run(
    args: &RescueArgs,
    common: &Common,
    heads: &dyn OtherHeads,
    out: Printer,
) -> Result<(), Failure> {
    if args.list {
        let list = Request::Volume(VolumeRequest::Rescue(RescueRequest::List));
        let table = TableOptions::default();
        let pool = args.pool().into();
        return pools::show(common, heads, &pool, list, &table, out);
    }
    let volume = args.volume()?;
    let pool = volume.pool();
    if args.end {
        let answer = ask(common, &pool, End { volume }.into())?;
        return out.answer(&answer);
    }
    begin(args, common, volume, out)
}

fn ask(common: &Common, pool: &PoolName, request: RescueRequest) -> Result<Answer, Failure> {
    let request = Request::Volume(VolumeRequest::Rescue(request));
    crate::ask_server(common, pool, request)
}

fn begin(
    args: &RescueArgs,
    common: &Common,
    volume: VolumeName,
    out: Printer,
) -> Result<(), Failure> {
    let pool = &volume.pool();
    let signals = signals::catch().map_err(Failure::of("wait for signals"))?;
    let own_server = match sockets::is_served(common, pool)? {
        true => None,
        false if args.background => return Err(crate::no_server(pool)),
        false => Some(OwnServer::start(common, pool)?),
    };
    let lease_file = format!("{pool}.rescue-{}.lease", std::process::id());
    let lease_file = common.settings.run_dir.join(lease_file);
    let lease = match args.background {
        true => None,
        false => Some(take_lease(&lease_file)?),
    };
    let begin = Begin {
        volume,
        snapshot: args.snapshot().cloned(),
        writable: args.is_writable(),
        allow_label_changes: args.allows_label_changes(),
        lease: lease.as_ref().map(|_| lease_file.clone()),
    };
    let begun = ask(common, pool, begin.into());
    let answer = begun.inspect_err(|_| forget_lease(&lease_file))?;
    let Answer::Rescue(view) = &answer else {
        let message = "the server sent an unexpected response";
        return Err(Failure::new(FailureKind::Failed, message));
    };
    out.answer(&answer)?;
    if args.background {
        return Ok(());
    }
    if !common.json {
        out.text("\nPress Ctrl-C to end the rescue.\n")?;
    }
    let ended = wait(common, pool, &view.volume, &signals);
    drop(lease);
    forget_lease(&lease_file);
    if let Some(server) = own_server {
        server.stop()?;
    }
    let message = ended?;
    match common.json {
        true => Ok(()),
        false => out.text(&format!("{message}\n")),
    }
}

fn take_lease(file: &std::path::Path) -> Result<PoolLock, Failure> {
    let taken = PoolLock::try_take(file);
    taken.ok().flatten().ok_or_else(|| {
        let message = format!("lock {}", PoolLock::path(file).display());
        Failure::new(FailureKind::Denied, message).advise("run it as root")
    })
}

/// The file belongs to this process alone: its name contains the process ID.
fn forget_lease(file: &std::path::Path) {
    let _ = std::fs::remove_file(PoolLock::path(file));
}

/// Blocks until the user or another command stops the rescue.
fn wait(
    common: &Common,
    pool: &PoolName,
    volume: &VolumeName,
    signals: &Receiver<SignalEvent>,
) -> Result<String, Failure> {
    loop {
        match signals.recv_timeout(POLL_INTERVAL) {
            Ok(SignalEvent::Stop(_)) => {
                let volume = volume.clone();
                return match ask(common, pool, End { volume }.into())? {
                    Answer::Done(done) => Ok(done.message),
                    _ => Ok("the rescue has ended".to_owned()),
                };
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL_INTERVAL),
        }
        let listed = ask(common, pool, RescueRequest::List);
        match listed {
            Ok(Answer::Rescues(views)) if views.iter().any(|view| view.volume == *volume) => {}
            Err(failure) if failure.kind == FailureKind::Busy => {}
            Err(failure) if failure.kind == FailureKind::Unreachable => {
                return Ok(format!("the rescue of {volume} has ended with its server"));
            }
            Err(failure) => return Err(failure),
            Ok(_) => return Ok(format!("the rescue of {volume} was ended")),
        }
    }
}

/// A pool server of our own, which serves nothing but the rescue.
struct OwnServer(Child);

impl OwnServer {
    /// Starts the server, and returns when it has opened the pool.
    fn start(common: &Common, pool: &PoolName) -> Result<Self, Failure> {
        use std::os::unix::process::CommandExt;
        let failed = Failure::of("open the pool");
        let program = std::env::current_exe().map_err(&failed)?;
        let mut command = Command::new(program);
        command
            .args(["--json", "pool-server", pool.as_str()])
            .args(
                protocol_list::ALL
                    .iter()
                    .map(|one| format!("--{}", one.nowhere)),
            )
            .args(["--ready-fd", "1", "--until-stdin-closes"])
            .args(common.as_options())
            .env("RUST_LOG", "error")
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C terminates this process only; the pipe notifies the server.
            .process_group(0);
        let mut server = Self(command.spawn().map_err(&failed)?);
        let out = server.0.stdout.take().expect("piped");
        let mut out = BufReader::new(out);
        let mut text = String::new();
        out.read_line(&mut text).map_err(&failed)?;
        if text == "READY\n" {
            return Ok(server);
        }
        out.read_to_string(&mut text).map_err(&failed)?;
        let told: Option<Document> = serde_json::from_str(&text).ok();
        Err(told.map_or_else(
            || Failure::new(FailureKind::Failed, format!("open pool {pool}")),
            |told| told.failure,
        ))
    }

    /// Has it export the pool and end.
    fn stop(mut self) -> Result<(), Failure> {
        drop(self.0.stdin.take());
        let ended = self.0.wait();
        match ended {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => {
                let message = format!("the pool was not exported in good order: {status}");
                Err(Failure::new(FailureKind::Failed, message)
                    .advise("it is as safe as after a crash: the next command recovers it"))
            }
            Err(error) => Err(Failure::new(FailureKind::Failed, error.to_string())),
        }
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The JSON form of a failure that our binaries print.
#[derive(serde::Deserialize)]
struct Document {
    failure: Failure,
}
