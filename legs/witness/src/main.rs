//! `bulkhead-witness`: stores, on a third host, which legs of a pool are current, so that after any loss
//! one of two heads can continue safely. It holds no data and needs no ZFS.
//!
//! `identity` has the key; `serve` runs the witness; `control_socket` is the socket for an administrator on the same
//! host.

#![forbid(unsafe_code)]

mod control_socket;
mod identity;
mod serve;

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Context;
use certificates::Fingerprint;
use clap::{Args, Parser, Subcommand};
use leg_record::MemberId;
use members::AllowedMember;

/// The witness of two heads with pools that have legs on both
#[derive(Debug, Parser)]
#[command(name = "bulkhead-witness", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    place: Paths,
}

/// Paths of the witness.
#[derive(Debug, Args)]
struct Paths {
    /// Directory of the key and the records. Never restore it from a backup: a witness with an older state
    /// than it reported can cost written data. If it is lost, readmit the witness
    #[arg(
        long,
        global = true,
        default_value = "/var/lib/bulkhead-witness",
        value_name = "FOLDER"
    )]
    folder: PathBuf,
    /// Socket by which `status` and `readmit` reach the running witness
    #[arg(
        long,
        global = true,
        default_value = "/run/bulkhead-witness/desk.sock",
        value_name = "PATH"
    )]
    desk: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Store records and serve the heads
    Serve(ServeArgs),
    /// Print the fingerprint by which heads identify this witness; creates a key if there is none
    Identity,
    /// Print the records of the running witness, and the connected heads
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Readmit the witness to a pool after its file was lost, or as a replacement of another host. It has no vote until
    /// the head that serves the pool has sent the record and the other head has agreed
    Readmit {
        /// Number of the pool, as `status` prints it: `guid` in legs.toml
        pool: u64,
        /// Confirms that the content of the lost file is discarded
        #[arg(long, required = true)]
        forget: bool,
        /// Confirms that this host replaces one that stored the pool, or that its whole directory was lost
        #[arg(long)]
        replaced: bool,
    },
    /// Remove the record of a pool that is gone for good
    Forget {
        /// Number of the pool, as `status` prints it: `guid` in legs.toml
        pool: u64,
        /// Confirms that no disk of the pool is needed on any head
        #[arg(long, required = true)]
        pool_is_gone: bool,
    },
}

#[derive(Clone, Debug, Args)]
struct ServeArgs {
    /// Number of this witness, which no head has and which never changes
    #[arg(long, value_name = "NUMBER")]
    number: u64,
    /// Where to listen
    #[arg(long, required = true, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// A head: its number, and the fingerprint of its certificate
    #[arg(long = "head", required = true, value_name = "NUMBER=FINGERPRINT")]
    heads: Vec<Head>,
}

/// A head, as given on the command line.
#[derive(Clone, Copy, Debug)]
struct Head(AllowedMember);

impl FromStr for Head {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text:?}: write NUMBER=FINGERPRINT, such as 1=5f0c… (64 hex digits)");
        let (number, fingerprint) = text.split_once('=').ok_or_else(wrong)?;
        let fingerprint: Fingerprint = fingerprint.parse().map_err(|_| wrong())?;
        let member = MemberId(number.parse().map_err(|_| wrong())?);
        Ok(Self(AllowedMember {
            member,
            fingerprint,
        }))
    }
}

fn main() -> ExitCode {
    output::abort_on_panic();
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "bulkhead-witness: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    match &cli.command {
        Command::Serve(args) => serve::run(args, &cli.place),
        Command::Identity => print(&format!("{}\n", fingerprint(&cli.place.folder)?)),
        Command::Status { json } => {
            let status = control_socket::status(&cli.place.desk)?;
            match json {
                true => print(&format!("{}\n", serde_json::to_string(&status)?)),
                false => print(&status.to_string()),
            }
        }
        Command::Forget { pool, .. } => {
            print(&match control_socket::forget(&cli.place.desk, *pool)? {
                true => format!("the record of pool {pool} is removed from this witness\n"),
                false => format!("this witness has no record of pool {pool}\n"),
            })
        }
        Command::Readmit { pool, replaced, .. } => {
            control_socket::readmit(&cli.place.desk, *pool, *replaced)?;
            print(&format!(
                "this witness receives the record of pool {pool} from the head that serves it, once the other head has agreed\n"
            ))
        }
    }
}

fn fingerprint(folder: &Path) -> anyhow::Result<Fingerprint> {
    Ok(identity::load_or_make(folder)?.fingerprint())
}

fn print(text: &str) -> anyhow::Result<()> {
    let written = std::io::stdout().write_all(text.as_bytes());
    written.context("print")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_head_is_a_number_and_a_fingerprint() {
        let digits = "0f".repeat(32);
        let head: Head = format!("2={digits}").parse().expect("a head");
        assert_eq!(head.0.member, MemberId(2));
        assert_eq!(head.0.fingerprint.to_string(), digits);
        for bad in ["", "2", "2=", "2=0f", "x=0f", &format!("={digits}")] {
            bad.parse::<Head>().expect_err(bad);
        }
    }
}
