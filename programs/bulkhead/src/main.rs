//! The one binary: the command line, and the server of a pool.
//!
//! `cli` turns words into a plan; `appliance` checks and applies the description of a whole
//! appliance; what Pacemaker runs is the crate `agents`; `head` serves the HTTP API; `hand_over` has Pacemaker
//! move a pool; `pools` finds which pools a request is about, `reach` who performs it, a running server or this very
//! process; `apart` looks at one of several pools that nobody serves;
//! `patience` asks a server's successor; `operations` perform requests on
//! an open pool; `server` keeps a pool open and serves it; `output` prints what came of it.

#![forbid(unsafe_code)]

mod accounts;
mod apart;
mod appliance;
mod cli;
mod drill;
mod head_facts;
mod lab;
mod output;
mod patience;
mod pools;
mod rescue;
mod table;
mod validity;
mod watch;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use control::answer::Event;
use control::request::TransferRequest;
use control::{Answer, Failure};
use pool_access::common::Common;
use pool_access::engines;

use crate::cli::{Cli, Plan};

fn main() -> ExitCode {
    if let Some(code) = lab::inside() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let error = cli::without_odd_tips(error);
            return match cli::misunderstood(&error, std::env::args_os()) {
                Some(failure) => fail(&failure, true),
                // Prints help, or what is wrong, as people read it, and ends.
                None => error.exit(),
            };
        }
    };
    match cli.command.plan().and_then(|plan| run(plan, &cli.common)) {
        Ok(code) => code,
        Err(failure) => fail(&failure, cli.common.json),
    }
}

/// Tells why it ends.
fn fail(failure: &Failure, json: bool) -> ExitCode {
    let text = output::failure(failure, json);
    // Scripts read the document where they read an answer.
    let _ = match json {
        true => std::io::stdout().write_all(text.as_bytes()),
        false => std::io::stderr().write_all(text.as_bytes()),
    };
    ExitCode::from(failure.kind.exit_code())
}

fn run(plan: Plan, common: &Common) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    let mut progress = progress_line(common.json);
    let answer = match plan {
        Plan::Serve(args) => return pool_server::run(*args, common).map(done),
        Plan::Agent(command) => return Ok(command.run(&common.settings)),
        Plan::Head(command) => {
            let mut print = |text: &str| print(text.as_bytes());
            let answer = head::run(&command, common, &mut print)?;
            return match answer {
                Some(answer) => print(&output::answer(&answer, common.json)).map(done),
                None => Ok(done(())),
            };
        }
        Plan::User(command) => {
            let mut print = |text: &str| print(text.as_bytes());
            return accounts::user(&command, common.json, &mut print).map(done);
        }
        Plan::Token(command) => {
            let mut print = |text: &str| print(text.as_bytes());
            return accounts::token(&command, common.json, &mut print).map(done);
        }
        Plan::Appliance(command) => {
            let mut print = |text: &str| print(text.as_bytes());
            return appliance::run(&command, common, &mut print);
        }
        Plan::Lab(command) => {
            let mut print = |text: &str| print(text.as_bytes());
            return lab::run(&command, common, &mut print, &mut progress);
        }
        Plan::Drill(args) => {
            let mut print = |text: &str| print(text.as_bytes());
            return drill::run(&args, common, &mut print, &mut progress);
        }
        Plan::Rescue(args) => {
            let mut print = |text: &str| print(text.as_bytes());
            return rescue::run(&args, common, &mut print).map(done);
        }
        Plan::BenchCrypto(args) => {
            let report = engines::bench_crypto::run(args.time(), args.block_size as usize)?;
            return print(output::bench::crypto(&report, common.json).as_bytes()).map(done);
        }
        Plan::Completion(shell) => {
            return print(cli::completions(shell).as_bytes()).map(done);
        }
        Plan::Man(directory) => {
            return cli::manual_pages(&directory).map(done).map_err(|error| {
                let message = format!("write into {}: {error}", directory.display());
                Failure::new(control::FailureKind::Failed, message)
            });
        }
        Plan::Watch {
            pool,
            request,
            again,
        } => return watch::run(common, &pool, &request, again, &mut progress).map(done),
        Plan::Follow(pool) => {
            let mut line = |event: &Event| print(output::event_line(event, common.json).as_bytes());
            return patience::follow(common, &pool, &mut line, &mut progress);
        }
        Plan::Patiently(pool, request) => patience::ask(common, &pool, request, &mut progress)?,
        Plan::Stream { pool, request } => return transfer(&pool, request, common).map(done),
        Plan::Ask { pool, request } => {
            let asked = pools::ask(common, &pool, request, &mut progress)?;
            return show_all(&asked, common).map(done);
        }
        Plan::Names { word } => {
            let names = pools::names(common, &word);
            return print(names.join("\n").as_bytes()).map(done);
        }
        Plan::Definitions { examples } => {
            let told = cli::definitions(&examples)?.to_string();
            return print(told.as_bytes()).map(done);
        }
        Plan::Move(args) => head::hand_over::run(&args, common)?,
        Plan::Create(create) => pool_access::create(common, create)?,
        Plan::Discover => pool_access::discover(common)?,
        Plan::TakeOver {
            pool,
            previous_owner_is_stopped,
        } => pool_access::take_over(common, &pool, previous_owner_is_stopped)?,
        Plan::Confirm { pool, said } => pool_access::legs::confirm(common, &pool, said)?,
    };
    show(&answer, common).map(done)
}

/// Sends to the standard output, or receives from the standard input.
fn transfer(
    pool: &units::PoolName,
    request: TransferRequest,
    common: &Common,
) -> Result<(), Failure> {
    use std::io::IsTerminal;
    use std::os::fd::AsFd;
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let is_send = matches!(request, TransferRequest::Send(_));
    let (stream, is_terminal) = match is_send {
        true => (output.as_fd(), output.is_terminal()),
        false => (input.as_fd(), input.is_terminal()),
    };
    cli::refuse_terminal(is_terminal, is_send)?;
    let stream = stream.try_clone_to_owned().map_err(|error| {
        let message = format!("use the stream: {error}");
        Failure::new(control::FailureKind::Failed, message)
    })?;
    let mut bar = output::ProgressBar::new(common.json);
    let request = control::Request::Transfer(request);
    let answer = pool_access::ask_with(common, pool, request, Some(stream), &mut |text| {
        bar.show(text)
    });
    bar.end();
    let text = output::answer(&answer?, common.json);
    match is_send {
        // The standard output holds the stream.
        true => {
            let _ = std::io::stderr().write_all(text.as_bytes());
            Ok(())
        }
        false => print(text.as_bytes()),
    }
}

fn show(answer: &Answer, common: &Common) -> Result<(), Failure> {
    print(output::answer(answer, common.json).as_bytes())
}

/// Prints what pools answered; what one could not answer is told after it.
fn show_all(asked: &pools::Asked, common: &Common) -> Result<(), Failure> {
    match (&asked.failure, common.json) {
        // One document: a script must not take a part for the whole.
        (Some(failure), true) => return Err(failure.clone()),
        _ => print(output::answers(&asked.answers, common.json).as_bytes())?,
    }
    asked.failure.clone().map_or(Ok(()), Err)
}

/// Prints; a reader that went away (`| head`) is no failure.
fn print(text: &[u8]) -> Result<(), Failure> {
    output::print(text).map(drop)
}

/// Shows progress on the standard error, unless a script listens. Whoever does not read it does not stop the work, for
/// which this process may have a pool open.
fn progress_line(json: bool) -> impl FnMut(&str) {
    move |text| {
        if !json {
            telling::log().say(&format!("{text}\n"));
        }
    }
}
