//! The binary for `ocf:bulkhead:pool` and `ocf:bulkhead:address`: the same as `bulkhead agent`, without the rest of
//! `bulkhead`, because Pacemaker starts it several times while clients are blocked.
//!
//! It links the C library only: it reads labels with the crate `labels`, and starts `bulkhead pool-server` from its own
//! directory. With the ZFS library linked in, the dynamic linker took longer than most runs: `perf stat -r 100` shows
//! 7.2 ms of CPU for `bulkhead agent pool meta-data` and 1.4 ms for `bulkhead-agent pool meta-data` (two processors).
//! An agent that must write to a pool would need the library again.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use agents::{AgentCommand, Settings};
use clap::Parser;

/// The resource agents of Bulkhead for Pacemaker
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
