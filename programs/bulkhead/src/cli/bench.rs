//! `bulkhead bench …`

use std::time::Duration;

use clap::{Args, Subcommand};
use control::Failure;

use super::Plan;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// How fast this machine encrypts: the engine beside OpenSSL, after known answers
    #[command(after_help = CRYPTO_EXAMPLES)]
    Crypto(BenchCryptoArgs),
}

const CRYPTO_EXAMPLES: &str = "Examples:
  bulkhead bench crypto
  bulkhead bench crypto --block-size 128K --seconds 3 --json";

/// `bench crypto`
#[derive(Clone, Debug, Args)]
pub struct BenchCryptoArgs {
    /// How long each cipher runs, for each who offers it
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub seconds: f64,
    /// What is encrypted at a time: a power of two from 512 to 16M
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = control::operations::block_size)]
    pub block_size: u32,
}

impl BenchCryptoArgs {
    /// How long each cipher runs.
    pub fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "give a number of seconds".to_owned())?;
    match (0.05..=600.0).contains(&seconds) {
        true => Ok(seconds),
        false => Err("give 0.05 to 600 seconds".to_owned()),
    }
}

impl BenchCommand {
    /// What to do.
    pub fn plan(self) -> Result<Plan, Failure> {
        match self {
            Self::Crypto(args) => Ok(Plan::BenchCrypto(args)),
        }
    }
}
