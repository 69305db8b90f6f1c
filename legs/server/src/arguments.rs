//! `bulkhead leg-server`

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Where the configuration of legs is, unless told otherwise.
pub const CONFIG: &str = legs_config::DEFAULT_PATH;
/// Where the key of this head is, unless told otherwise.
pub const KEYS: &str = "/etc/bulkhead/legs";

/// Examples of the help.
pub const EXAMPLES: &str = "Examples:
  bulkhead leg-server fingerprint
  bulkhead leg-server --config /etc/bulkhead/legs.toml

It runs on every head of a pool whose legs lie on several heads. Under systemd it reports readiness, status and liveness
(Type=notify, WatchdogSec=). A kill harms nothing: what it answered is durable.";

/// `leg-server`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LegServerCommand {
    /// What else than to serve.
    #[command(subcommand)]
    pub verb: Option<LegServerVerb>,
    /// The configuration of legs
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}

/// What else than to serve.
#[derive(Debug, Subcommand)]
pub enum LegServerVerb {
    /// Print the fingerprint by which the other members know this head; a key is made if there is none
    #[command(after_help = "Example:\n  bulkhead leg-server fingerprint")]
    Fingerprint {
        /// Folder of the certificate and the key: cert.pem and key.pem
        #[arg(long, value_name = "FOLDER", default_value = KEYS)]
        folder: PathBuf,
    },
    /// List the numbers of the pools that this head remembers, as in legs.toml
    #[command(after_help = "Example:\n  bulkhead leg-server pools")]
    Pools,
    /// List who remembers each pool, by the record that this head accepted last: numbers, as in legs.toml
    #[command(after_help = "Example:\n  bulkhead leg-server members")]
    Members,
    /// Print the legs.toml that the running leg-server has read: it reads another one when it is restarted
    #[command(
        after_help = "Example:\n  bulkhead leg-server configuration | diff - /etc/bulkhead/legs.toml"
    )]
    Configuration,
    /// Say what disks of this head carry, and how long they are. Changes nothing
    #[command(after_help = "Example:\n  bulkhead leg-server look /dev/disk/by-id/scsi-C")]
    Look {
        /// The disks
        #[arg(required = true, value_name = "DISK")]
        disks: Vec<PathBuf>,
    },
    /// Have this head told anew of a pool whose file it lost. Until it is told it has no vote
    #[command(after_help = "Example:\n  bulkhead leg-server readmit 100 --forget")]
    Readmit(ReadmitArgs),
}

/// `leg-server readmit`
#[derive(Debug, Args)]
pub struct ReadmitArgs {
    /// Number of the pool: `guid` in legs.toml
    pub pool: u64,
    /// Says that what the lost file held is to be forgotten
    #[arg(long, required = true)]
    pub forget: bool,
    /// Says that this machine takes the place of one that remembered the pool, or that its whole folder was lost
    #[arg(long)]
    pub replaced: bool,
    /// The configuration of legs
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}
