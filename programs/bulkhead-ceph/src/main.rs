//! `bulkhead-ceph`: serves shelves, which are volumes on a Ceph cluster, as `bulkhead` serves pools of OpenZFS. The server,
//! the requests and the responses are the same crates. This program registers the engine on Ceph instead of OpenZFS, and
//! links no library of OpenZFS.

#![forbid(unsafe_code)]

mod cli;
mod registered;

use std::io::Write;
use std::process::ExitCode;

use control::Failure;
use pool_access::common::Common;
use pool_access::pools::{self, NoOtherHeads};
use pool_access::{child, reconnect, watch};
use pool_server::args::{ClaimsOption, ServeArgs};
use rendering::Printer;

use crate::cli::{Cli, Command, Internal, Plan};

fn main() -> ExitCode {
    output::abort_on_panic();
    rendering::name_program(cli::NAME);
    registered::register();
    let cli = Cli::read();
    let (common, out) = (cli.common(), Printer::new(cli.common.json));
    if let Err(failure) = registered::configure(&cli.ceph, &common) {
        return fail(&failure, common.json);
    }
    let done = match cli.command {
        Command::PoolServer(args) => serve(*args, &common),
        Command::PoolKeys => pool_server::keeper::serve(&common),
        Command::Head(Internal::Perform) => child::perform(&common, out),
        Command::Ask(noun) => noun
            .plan(&cli.ceph)
            .and_then(|plan| ask(plan, &common, out)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => fail(&failure, common.json),
    }
}

/// Reports the failure before the exit.
fn fail(failure: &Failure, json: bool) -> ExitCode {
    let failure = &rendering::for_user(failure);
    let text = rendering::failure(failure, json);
    // Scripts read the document from the same stream as a response.
    let _ = match json {
        true => std::io::stdout().write_all(text.as_bytes()),
        false => std::io::stderr().write_all(text.as_bytes()),
    };
    ExitCode::from(failure.kind.exit_code())
}

fn serve(mut args: ServeArgs, common: &Common) -> Result<(), Failure> {
    // A shelf has no disks of this host. Without reservations the server drops more rights.
    args.claims = ClaimsOption::Locks;
    pool_server::run(args, common)
}

/// Sends requests to shelves, and prints their responses.
fn ask(plan: Plan, common: &Common, out: Printer) -> Result<(), Failure> {
    let answer = match plan {
        Plan::Ask {
            pool,
            request,
            table,
        } => {
            if out.is_json() && !table.columns.is_empty() {
                let message = "--columns is for the table; --json has all fields";
                return Err(Failure::usage(message).advise("leave one of them out"));
            }
            return pools::show(common, &NoOtherHeads, &pool, request, &table, out);
        }
        Plan::Watch {
            pool,
            request,
            again,
        } => return watch::run(common, &NoOtherHeads, &pool, &request, again, out),
        Plan::Follow(pool) => return reconnect::follow(common, &pool, out),
        Plan::Create(create) => pool_access::create(common, create, None)?,
        Plan::List => pools::list(common, &NoOtherHeads)?,
    };
    out.answer(&answer)
}
