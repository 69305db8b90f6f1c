//! The one binary: parses the command line and dispatches it.
//!
//! `cli` turns the arguments into a plan. Other crates perform it: `pool-access` sends requests to pools, `pool-server`
//! serves one, `head` serves the HTTP API, `cluster` sets appliances up, `agents` are run by Pacemaker, `lab` and
//! `drills` rehearse; `rendering` prints the results.

#![forbid(unsafe_code)]

mod cli;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use control::Failure;
use pool_access::common::Common;
use pool_access::{client_export, device_names, engines, mount, pools, reconnect, rescue, watch};
use rendering::Printer;

use crate::cli::{Benchmark, Cli, Command, Plan, Program};

fn main() -> ExitCode {
    output::abort_on_panic();
    zfs_start::register();
    if let Some(code) = lab::command::start_inside() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let error = cli::without_misleading_tips(error);
            return match cli::usage_error(&error, std::env::args_os()) {
                Some(failure) => fail(&failure, true),
                // Prints help, or the error, for people, and exits.
                None => error.exit(),
            };
        }
    };
    let (common, out) = (&cli.common, Printer::new(cli.common.json));
    let done = match cli.command {
        Command::Ask(noun) => noun
            .plan()
            .and_then(|plan| ask(plan, common, out))
            .map(success),
        Command::Perform(program) => perform(program, common, out),
    };
    done.unwrap_or_else(|failure| fail(&failure, common.json))
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

/// Sends requests to pools, and prints their responses.
fn ask(plan: Plan, common: &Common, out: Printer) -> Result<(), Failure> {
    let progress = &mut |text: &str| out.progress(text);
    let heads = &head::other_heads::Peers { common };
    let answer = match plan {
        Plan::Inspect(args) => return pool_server::inspect::run(&args, common, out),
        Plan::Mount(args) => return mount::run(&args, common, out),
        Plan::Growth(args) => return head::pool_growth::run(&args, common, out),
        Plan::Export(args) => return client_export::run(args, common, out),
        Plan::Rescue(args) => return rescue::run(&args, common, heads, out),
        Plan::Watch {
            pool,
            request,
            again,
        } => return watch::run(common, heads, &pool, &request, again, out),
        Plan::Follow(pool) => return reconnect::follow(common, &pool, out),
        Plan::Ask {
            pool,
            request,
            table,
        } => {
            if out.is_json() && !table.columns.is_empty() {
                let message = "--columns is for the table; --json has all fields";
                return Err(Failure::usage(message).advise("leave one of them out"));
            }
            return pools::show(common, heads, &pool, request, &table, out);
        }
        Plan::Stream { pool, request } => {
            return pool_access::stream::transfer(common, &pool, request, out);
        }
        Plan::WithLongTimeOut(pool, request) => reconnect::ask(common, &pool, request, progress)?,
        Plan::Move(args) => noted(common, "pool.move", args.pool.as_str(), || {
            head::hand_over::run(&args, common)
        })?,
        Plan::Create(create, legs) => pool_access::create(common, create, legs.as_deref())?,
        Plan::Discover => pool_access::discover(common)?,
        Plan::ListPools => pools::list(common, heads, &mut |text| out.progress(text))?,
        Plan::TakeOver {
            pool,
            previous_owner_is_stopped,
            devices,
        } => noted(common, "pool.import", pool.as_str(), || {
            pool_access::take_over(common, &pool, previous_owner_is_stopped, &devices)
        })?,
        Plan::Reidentify {
            pool,
            name,
            devices,
            previous_owner_is_stopped,
        } => pool_access::reidentify(common, &pool, &name, &devices, previous_owner_is_stopped)?,
        Plan::RecordLegs {
            pool,
            legs,
            previous_owner_is_stopped,
        } => pool_access::record_legs(common, &pool, &legs, previous_owner_is_stopped)?,
        Plan::Forget(pool) => noted(common, "pool.forget", pool.as_str(), || {
            pool_access::forget(common, &pool)
        })?,
        Plan::Confirm { pool, said } => noted(common, "pool.confirm", pool.as_str(), || {
            pool_access::confirm::confirm(common, &pool, &said)
        })?,
    };
    out.answer(&answer)
}

/// Performs `work` on an object, and records it in the audit log: no server does that.
fn noted<T>(
    common: &Common,
    what: &str,
    of: &str,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    pool_access::audit::noted(&pool_access::audit::path(common), what, of, work)
}

/// Performs a command that is no request to a pool.
fn perform(program: Program, common: &Common, out: Printer) -> Result<ExitCode, Failure> {
    match program {
        Program::PoolServer(args) => pool_server::run(*args, common),
        Program::PoolKeys => pool_server::keeper::serve(common),
        Program::LegServer(command) => leg_server::run(&command, &common.settings.state_dir, out),
        Program::Head(command) => head::run(&command, common, out),
        Program::User(command) => head::accounts::user(&command, out),
        Program::Token(command) => head::accounts::token(&command, out),
        Program::Alert(command) => return head::alert_receivers::run(&command, common, out),
        Program::Audit(command) => head::audit_log::audit(&command, common, out),
        Program::Appliance(command) => {
            let own_facts = |stalls| head::facts::print_facts(common, stalls);
            let run = || cluster::command::run(&command, &own_facts, out);
            return match command.change() {
                Some((what, of)) => {
                    let log = pool_access::audit::path(common);
                    pool_access::audit::noted_command(&log, what, &of, run)
                }
                None => run(),
            };
        }
        Program::Lab(command) => return lab::command::run(&command, out),
        Program::Drill(args) => return drills::command::run(&args, out),
        Program::Agent(command) => {
            let legs = leg_server::files(&common.settings.state_dir);
            return Ok(command.run(&common.settings, &legs));
        }
        Program::Growth(command) => return ceph_growth::command::run(&command, out),
        Program::Watch(command) => return drop_watch::command::run(&command, out),
        Program::Bench(Benchmark::Engine(command)) => engines::bench::run(&command, out),
        Program::Bench(Benchmark::Network(args)) => network_bench::command::run(&args, out),
        Program::Completion { shell } => out.text(&cli::completions(shell)),
        Program::Names {
            word,
            properties,
            devices,
        } => {
            let names = match (properties.as_deref(), devices.as_deref()) {
                (Some([noun, name]), _) => pools::property_names(common, noun, name, &word),
                (_, Some([verb, pool])) => device_names::of_verb(common, verb, pool, &word),
                _ => pools::names(common, &word),
            };
            out.text(&names.join("\n"))
        }
        Program::Definitions { examples } => out.text(&cli::definitions(&examples)?.to_string()),
        Program::Man { directory } => cli::manual_pages(&directory)
            .map_err(Failure::of(format!("write into {}", directory.display()))),
    }
    .map(success)
}

fn success((): ()) -> ExitCode {
    ExitCode::SUCCESS
}
