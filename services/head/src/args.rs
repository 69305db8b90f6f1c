//! Options of `bulkhead head`, and of its requests to other heads.

use std::net::SocketAddr;
use std::path::PathBuf;

use agents::ApplianceFile;
use clap::{Args, Subcommand};
use units::{HeadName, PoolName};

/// Default port of a head's API.
pub const API_PORT: u16 = 7443;

/// Examples of the help.
pub const EXAMPLES: &str = "Examples:
  bulkhead user add anna --role admin
  bulkhead head certificate
  bulkhead head
  bulkhead head --listen 127.0.0.1:7443
  bulkhead head openapi > openapi.json

Until there is a certificate and a user, only this machine can connect, without TLS.";

/// `head`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HeadCommand {
    /// The subcommand; serves without one.
    #[command(subcommand)]
    pub verb: Option<HeadVerb>,
    /// Options of the server.
    #[command(flatten)]
    pub serve: HeadArgs,
    /// Directory of the accounts.
    #[command(flatten)]
    pub place: HeadPaths,
}

/// The head's own files.
#[derive(Clone, Debug, Args)]
pub struct HeadPaths {
    /// Directory of the head's users, tokens, certificate and audit log
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "BULKHEAD_HEAD_DIR",
        default_value = "/etc/bulkhead/head"
    )]
    pub head_dir: PathBuf,
}

/// Subcommands other than serving.
#[derive(Debug, Subcommand)]
pub enum HeadVerb {
    /// Create a self-signed certificate, or install yours
    #[command(after_help = CERTIFICATE_EXAMPLES)]
    Certificate(CertificateArgs),
    /// Print the OpenAPI document of the HTTP API
    #[command(after_help = "Example:\n  bulkhead head openapi > openapi.json")]
    Openapi,
    /// Show the alerts, the most severe first, with advice
    #[command(after_help = ALERTS_EXAMPLES)]
    Alerts,
    /// Show the disks of this head with their health, slots and users
    #[command(after_help = DISKS_EXAMPLES)]
    Disks,
    /// Switch the locate light of a disk's slot on or off
    #[command(after_help = LOCATE_EXAMPLES)]
    Locate(LocateArgs),
    /// Show the power supplies, and what happens when they are low
    #[command(after_help = POWER_EXAMPLES)]
    Power(PowerArgs),
    /// Perform the JSON request on the standard input, for a head
    #[command(hide = true)]
    Perform,
}

const ALERTS_EXAMPLES: &str = "Examples:
  bulkhead head alerts
  bulkhead head alerts --json

It checks itself, whether `bulkhead head` runs or not. Pools that other heads serve are left out.";

const DISKS_EXAMPLES: &str = "Examples:
  bulkhead head disks
  bulkhead head disks --json

smartctl (package smartmontools) reads the health. A disk that sleeps is not woken.";

const LOCATE_EXAMPLES: &str = "Examples:
  bulkhead head locate /dev/disk/by-id/wwn-0x5000c500a1b20100
  bulkhead head locate /dev/disk/by-id/wwn-0x5000c500a1b20100 --off

Only slots of enclosures that the kernel knows (driver ses) have a light.";

const POWER_EXAMPLES: &str = "Examples:
  bulkhead head power
  bulkhead head power appliance.toml --json

It queries the supplies of the appliance file itself, whether `bulkhead head` runs or not.";

const CERTIFICATE_EXAMPLES: &str = "Examples:
  bulkhead head certificate
  bulkhead head certificate --name left.example.org --name 10.77.9.11
  bulkhead head certificate --certificate chain.pem --key key.pem

A running head uses it from the next connection on.";

/// `head locate`
#[derive(Debug, Args)]
pub struct LocateArgs {
    /// The disk, by any of its paths
    #[arg(value_name = "DISK")]
    pub disk: String,
    /// Switch the light off
    #[arg(long)]
    pub off: bool,
}

/// `head power`
#[derive(Debug, Args)]
pub struct PowerArgs {
    /// The appliance file
    #[arg(default_value = appliance::plan::APPLIANCE_PATH)]
    pub file: PathBuf,
}

/// `head certificate`
#[derive(Debug, Args)]
pub struct CertificateArgs {
    /// Host name or address that clients use; may be repeated [default: this machine's name, and
    /// the loopback]
    #[arg(long, value_name = "HOST", conflicts_with = "certificate")]
    pub name: Vec<String>,
    /// Your certificate with those between it and a root, PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
}

/// Options of the server.
#[derive(Clone, Debug, Args)]
pub struct HeadArgs {
    /// Where to listen, once there is a certificate and a user; until then on the loopback at the
    /// same port; may be repeated
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "0.0.0.0:7443",
        value_delimiter = ','
    )]
    pub listen: Vec<SocketAddr>,
    /// The name of this head [default: the host name]
    #[arg(long, value_name = "HEAD")]
    pub name: Option<String>,
    /// The appliance file; it need not exist
    #[arg(long, value_name = "FILE", default_value = appliance::plan::APPLIANCE_PATH)]
    pub file: PathBuf,
    /// The key that the heads of the appliance recognise each other by; without such a file, that of
    /// --cluster-key
    #[arg(long, value_name = "FILE", default_value = appliance::plan::PEER_KEY_PATH)]
    pub peer_key: PathBuf,
    /// Port of the other heads [default: that of the first --listen]
    #[arg(long, value_name = "PORT")]
    pub peer_port: Option<u16>,
    /// Options of pool servers that this head starts itself, where no systemd runs
    #[arg(
        long,
        value_name = "OPTIONS",
        allow_hyphen_values = true,
        default_value = ""
    )]
    pub pool_options: String,
    /// Directory of the labs of drills
    #[arg(long, value_name = "DIR", default_value = "/var/lib/bulkhead/lab")]
    pub lab_dir: PathBuf,
}

/// `pool move`
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// The pool
    pub pool: PoolName,
    /// The head that is to serve it
    pub head: HeadName,
    /// The appliance.
    #[command(flatten)]
    pub appliance: ApplianceFile,
    /// Also if keys of volumes that are served now are missing on that head
    #[arg(long)]
    pub without_keys: bool,
    /// The key that the heads of the appliance recognise each other by; without such a file, that of
    /// --cluster-key
    #[arg(long, value_name = "FILE", default_value = appliance::plan::PEER_KEY_PATH)]
    pub peer_key: PathBuf,
    /// Port of the API of the other heads
    #[arg(long, value_name = "PORT", default_value_t = API_PORT)]
    pub peer_port: u16,
}
