//! `bulkhead leg-server`

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Default path of the configuration of legs.
pub const CONFIG: &str = legs_config::DEFAULT_PATH;
/// Default directory of the key of this head.
pub const KEYS: &str = "/etc/bulkhead/legs";

/// Examples of the help.
pub const EXAMPLES: &str = "Examples:
  bulkhead leg-server fingerprint
  bulkhead leg-server --config /etc/bulkhead/legs.toml

It runs on every head of a pool whose legs lie on several heads. Under systemd it reports readiness, status and liveness
(Type=notify, WatchdogSec=). It can be killed at any time: its responses are durable.";

/// `leg-server`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LegServerCommand {
    /// The subcommand; serves without one.
    #[command(subcommand)]
    pub verb: Option<LegServerVerb>,
    /// The configuration of legs
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}

/// Subcommands other than serving.
#[derive(Debug, Subcommand)]
pub enum LegServerVerb {
    /// Print the fingerprint by which the other members identify this head; creates a key if there is none
    #[command(after_help = "Example:\n  bulkhead leg-server fingerprint")]
    Fingerprint {
        /// Directory of the certificate and the key: cert.pem and key.pem
        #[arg(long, value_name = "FOLDER", default_value = KEYS)]
        folder: PathBuf,
    },
    /// List the numbers of the pools that this head has records of, as in legs.toml
    #[command(after_help = "Example:\n  bulkhead leg-server pools")]
    Pools,
    /// List the members of each pool, by the record that this head accepted last: numbers, as in legs.toml
    #[command(after_help = "Example:\n  bulkhead leg-server members")]
    Members,
    /// Print the legs.toml that the running leg-server has read: it reads the file again only when it is restarted
    #[command(
        after_help = "Example:\n  bulkhead leg-server configuration | diff - /etc/bulkhead/legs.toml"
    )]
    Configuration,
    /// Print the contents and sizes of disks of this head. Changes nothing
    #[command(after_help = "Example:\n  bulkhead leg-server look /dev/disk/by-id/scsi-C")]
    Look {
        /// The disks
        #[arg(required = true, value_name = "DISK")]
        disks: Vec<PathBuf>,
    },
    /// Succeed if this head can start its pools alone: the witness received nothing of the other head, and the legs of this one are current
    #[command(after_help = "Example:\n  bulkhead leg-server may-start-alone")]
    MayStartAlone {
        /// The configuration of legs
        #[arg(long, value_name = "FILE", default_value = CONFIG)]
        config: PathBuf,
    },
    /// Readmit this head to a pool after its file was lost. It has no vote until it has received the record
    #[command(after_help = "Example:\n  bulkhead leg-server readmit 100 --forget")]
    Readmit(ReadmitArgs),
    /// Remove the record of a pool that is gone for good. Its disks on this head must be erased before
    #[command(after_help = "Example:\n  bulkhead leg-server forget 100 --pool-is-gone")]
    Forget(ForgetArgs),
}

/// `leg-server forget`
#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// Number of the pool: `guid` in legs.toml
    pub pool: u64,
    /// Confirms that no disk of the pool is needed on any head
    #[arg(long, required = true)]
    pub pool_is_gone: bool,
    /// The configuration of legs
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}

/// `leg-server readmit`
#[derive(Debug, Args)]
pub struct ReadmitArgs {
    /// Number of the pool: `guid` in legs.toml
    pub pool: u64,
    /// Confirms that the content of the lost file is discarded
    #[arg(long, required = true)]
    pub forget: bool,
    /// Confirms that this host replaces one that stored the pool, or that its whole directory was lost
    #[arg(long)]
    pub replaced: bool,
    /// The configuration of legs
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}
