//! The processes inside a lab: the first process, the supervisor, the first process of each node,
//! and its BMCs and power distribution units.

mod bmc;
mod boot;
mod chassis;
mod first;
mod pdu;
mod root;
pub(crate) mod ssh;
mod supervisor;
mod switch;
mod systemctl;
mod unit;
pub(crate) mod witness;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use cluster::process::{Invocation, run};
use units::chain;

use crate::directory::LabDirectory;

pub(crate) use boot::{CLIENT, WITNESS};
pub(crate) use root::is_possible;
pub(crate) use supervisor::READY;

/// The hidden command that starts all of them.
pub const COMMAND: &str = "lab-inside";

/// Runs one process of a lab. `words` are the arguments after [`COMMAND`] on its command line.
pub fn main(words: &[String]) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["first", folder] => first::run(&at(folder)),
        ["supervisor", folder] => supervisor::run(&at(folder)),
        ["machine", folder, name] => boot::run(&at(folder), name),
        ["bmc", folder, head] => bmc::run(&at(folder), head),
        ["chassis", folder, head, words @ ..] => chassis::run(&at(folder), head, words),
        ["systemctl", words @ ..] => systemctl::run(words),
        ["pdu", folder, name] => pdu::run(&at(folder), name),
        ["outlets", folder, name] => pdu::respond(&at(folder), name),
        _ => Err(io::Error::other("no such part of a lab")),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            tracing::error!(error = %chain(&error), part = words.join(" "), "ended");
            ExitCode::FAILURE
        }
    }
}

fn at(folder: &str) -> LabDirectory {
    LabDirectory::at(PathBuf::from(folder))
}

/// Names the step that failed.
fn step<'a>(what: impl Into<String> + 'a) -> impl FnOnce(io::Error) -> io::Error + 'a {
    |error| io::Error::new(error.kind(), format!("{}: {error}", what.into()))
}

/// Runs a command that must succeed, with its standard input.
fn must(program: &str, arguments: &[&str], input: &str) -> io::Result<String> {
    let invocation = Invocation::new(program, arguments).reading(input);
    let output = run(&invocation).map_err(|error| io::Error::other(chain(&error)))?;
    if output.code == 0 {
        return Ok(output.text());
    }
    Err(io::Error::other(format!(
        "{program} {} exited with {}: {}",
        arguments.join(" "),
        output.code,
        output.complaint()
    )))
}

/// Lines for `ip -batch`.
fn ip(lines: &[String]) -> io::Result<()> {
    match lines.is_empty() {
        true => Ok(()),
        false => must("ip", &["-batch", "-"], &(lines.join("\n") + "\n")).map(|_| ()),
    }
}
