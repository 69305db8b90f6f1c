//! What Pacemaker runs as `ocf:bulkhead:pool` and `ocf:bulkhead:address`: the same as `bulkhead agent`, without
//! everything else of `bulkhead`, because it is started several times while clients wait.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use agents::{AgentCommand, Settings};
use clap::Parser;

/// The resource agents of Bulkhead, as Pacemaker runs them
#[derive(Debug, Parser)]
#[command(name = "bulkhead-agent", version, about)]
struct Cli {
    #[command(subcommand)]
    command: AgentCommand,
    #[command(flatten)]
    settings: Settings,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.command.run(&cli.settings)
}
