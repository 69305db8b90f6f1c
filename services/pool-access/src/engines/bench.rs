//! The options of `bulkhead bench`, and its output.

use std::time::Duration;

use clap::{Args, Subcommand};
use control::{Failure, FailureKind};
use rendering::{Printer, Table};
use serde::Serialize;

use super::all;

/// The speed of a row, in megabytes (10^6 bytes) for each second of processor time. `None`: the
/// cipher is not offered.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// Such as `aes-256-gcm`.
    pub cipher: String,
    /// `encrypt` or `decrypt`.
    pub direction: &'static str,
    /// The cipher of volumes; megabytes for each second of processor time, as in the other rows.
    pub engine_mb_per_s: Option<f64>,
    /// The code that OpenZFS brings.
    pub openzfs_mb_per_s: Option<f64>,
    /// OpenSSL.
    pub openssl_mb_per_s: Option<f64>,
}

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Bytes that are encrypted at a time.
    pub block_bytes: usize,
    /// How long each cipher ran.
    pub seconds: f64,
    /// The processor that all of it ran on.
    pub processor: usize,
    /// The version of OpenSSL.
    pub openssl: String,
    /// Test vectors of standards that were checked first.
    pub known_answers: usize,
    /// The measured speeds.
    pub rows: Vec<Measured>,
    /// The meaning of the figures.
    pub notes: Vec<&'static str>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Measures the encryption speed of this host: the engine next to OpenSSL
    #[command(after_help = CRYPTO_EXAMPLES)]
    Crypto(BenchCryptoArgs),
}

const CRYPTO_EXAMPLES: &str = "Examples:
  bulkhead bench crypto
  bulkhead bench crypto --block-size 128K --seconds 3 --json";

/// `bench crypto`
#[derive(Clone, Debug, Args)]
pub struct BenchCryptoArgs {
    /// Duration of each measurement, per cipher and implementation
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub seconds: f64,
    /// Bytes per operation: a power of two from 512 to 16M
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = control::operations::block_size)]
    pub block_size: u32,
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

/// Measures, and prints the result.
pub fn run(BenchCommand::Crypto(args): &BenchCommand, out: Printer) -> Result<(), Failure> {
    let time = Duration::from_secs_f64(args.seconds);
    let tools = all().iter().find_map(|engine| engine.tools());
    let tools = tools.ok_or_else(|| {
        Failure::new(
            FailureKind::Unsupported,
            "no engine of this binary has ciphers",
        )
    })?;
    let report = tools.measure_ciphers(time, args.block_size as usize)?;
    out.either(&report, || text(&report))
}

fn text(report: &Report) -> String {
    let mut table = Table::new(&["CIPHER", "", ">ENGINE", ">OPENZFS", ">OPENSSL"]);
    let shown = |speed: Option<f64>| speed.map_or("-".to_owned(), |speed| format!("{speed:.0}"));
    for row in &report.rows {
        table.row([
            row.cipher.clone(),
            row.direction.to_owned(),
            shown(row.engine_mb_per_s),
            shown(row.openzfs_mb_per_s),
            shown(row.openssl_mb_per_s),
        ]);
    }
    let mut text = format!(
        "{} test vectors passed. MB for each second of processor {}, blocks of {} bytes, {}:\n\n{}\n",
        report.known_answers,
        report.processor,
        report.block_bytes,
        report.openssl,
        table.render()
    );
    for note in &report.notes {
        text.push_str(&format!("{note}\n"));
    }
    text
}
