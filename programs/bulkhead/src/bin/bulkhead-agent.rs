//! What Pacemaker runs as `ocf:bulkhead:pool` and `ocf:bulkhead:address`: the same as `bulkhead agent`, without
//! everything else of `bulkhead`, because it is started several times while clients wait.
//!
//! It links the C library only: it reads labels with the crate `labels`, and starts `bulkhead pool-server` from its own
//! folder. With the ZFS library linked in, the dynamic linker took longer than most runs: `perf stat -r 100` shows 7.2 ms of
//! CPU for `bulkhead agent pool meta-data` and 1.4 ms for `bulkhead-agent pool meta-data` (two processors). Only an agent that has to
//! write to a pool would need the library again.

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
    let legs = leg_server::files(&cli.settings.state_dir);
    cli.command.run(&cli.settings, &legs)
}
