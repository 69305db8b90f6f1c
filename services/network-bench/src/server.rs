//! `bench network --serve`: a server of iperf3 for each connection, until the time is over or the process is stopped.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control::{Failure, FailureKind};
use rendering::Printer;

use crate::arguments::NetworkArgs;
use crate::iperf::PROGRAM;

/// Interval of the checks whether the time is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The line that a server prints when it listens contains this.
const LISTENING: &str = "Server listening";
/// Most lines and bytes before that.
const LINES_MAX: usize = 8;
const LINE_BYTES_MAX: u64 = 4096;
/// Longest text of a server that is shown, in characters.
const TEXT_CHARS_MAX: usize = 200;

/// The processes of the servers.
#[derive(Clone, Default)]
struct Servers(Arc<Mutex<Vec<Child>>>);

impl Servers {
    fn kill(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for mut child in all.drain(..) {
            // It has exited already, otherwise.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn have_all_exited(&self) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter_mut()
            .all(|child| matches!(child.try_wait(), Ok(Some(_))))
    }
}

/// Serves.
///
/// # Errors
///
/// iperf3 is not installed, or a port is in use.
pub fn serve(args: &NetworkArgs, out: Printer) -> Result<(), Failure> {
    let servers = Servers::default();
    let stopped = servers.clone();
    output::signals::stop_after(move || stopped.kill()).map_err(Failure::of("handle signals"))?;
    let result = serve_until_done(args, &servers, out);
    servers.kill();
    result
}

fn serve_until_done(args: &NetworkArgs, servers: &Servers, out: Printer) -> Result<(), Failure> {
    for number in 0..args.connections {
        let child = start(args, args.port + number)?;
        let mut all = servers.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(child);
    }
    let last = args.port + args.connections - 1;
    let at = args
        .bind
        .map_or_else(|| "all addresses".to_owned(), |address| address.to_string());
    out.progress(&format!(
        "listens on {at}, ports {} to {last}, for {} minutes: run `bulkhead bench network ADDRESS` on the other host",
        args.port, args.minutes
    ));
    let end = Instant::now() + Duration::from_secs(args.minutes * 60);
    while Instant::now() < end && !servers.have_all_exited() {
        std::thread::sleep(CHECK_INTERVAL);
    }
    Ok(())
}

/// Starts a server, and returns when it listens. The kernel kills it when this process terminates.
fn start(args: &NetworkArgs, port: u16) -> Result<Child, Failure> {
    let port_text = port.to_string();
    let mut command = Command::new("setpriv");
    command.args([
        "--pdeathsig",
        "KILL",
        PROGRAM,
        "--server",
        "--forceflush",
        "--port",
        &port_text,
    ]);
    if let Some(address) = args.bind {
        command.args(["--bind", &address.to_string()]);
    }
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(Failure::of("start setpriv (package util-linux)"))?;
    let mut stdout = child.stdout.take().map(BufReader::new);
    let lines = stdout
        .as_mut()
        .map(|stdout| stdout.take(LINE_BYTES_MAX).lines());
    let mut lines = lines
        .into_iter()
        .flatten()
        .map_while(Result::ok)
        .take(LINES_MAX);
    if lines.any(|line| line.contains(LISTENING)) {
        drop(lines);
        // Its reports are read, so that it does not block.
        if let Some(mut stdout) = stdout {
            std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        }
        return Ok(child);
    }
    drop(lines);
    let _ = child.kill();
    let mut text = String::new();
    if let Some(stderr) = child.stderr.take() {
        // The reason is incomplete, otherwise.
        let _ = stderr.take(LINE_BYTES_MAX).read_to_string(&mut text);
    }
    let _ = child.wait();
    let text = units::printable(&text, TEXT_CHARS_MAX);
    if text.contains("No such file") {
        return Err(
            Failure::new(FailureKind::Unsupported, "iperf3 is not installed")
                .advise("run `apt-get install iperf3` on both hosts"),
        );
    }
    Err(
        Failure::new(FailureKind::Failed, format!("iperf3 does not listen on port {port}: {text}"))
            .advise("another server uses the port, or this host does not have the address: choose --port and --bind"),
    )
}
