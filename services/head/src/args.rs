//! Options of `bulkhead head`, and of what it asks of other heads.

use std::net::SocketAddr;
use std::path::PathBuf;

use agents::ApplianceFile;
use clap::{Args, Subcommand};
use units::{HeadName, PoolName};

/// Where the API of a head listens, unless told otherwise.
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
    /// What else than to serve.
    #[command(subcommand)]
    pub verb: Option<HeadVerb>,
    /// How to serve.
    #[command(flatten)]
    pub serve: HeadArgs,
    /// Where accounts are.
    #[command(flatten)]
    pub place: HeadPlace,
}

/// Where the head keeps what it needs.
#[derive(Clone, Debug, Args)]
pub struct HeadPlace {
    /// Folder of the head's users, tokens, certificate and audit log
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "BULKHEAD_HEAD_DIR",
        default_value = "/etc/bulkhead/head"
    )]
    pub head_dir: PathBuf,
}

/// What else than to serve.
#[derive(Debug, Subcommand)]
pub enum HeadVerb {
    /// Make a certificate that is signed by itself, or take yours
    #[command(after_help = CERTIFICATE_EXAMPLES)]
    Certificate(CertificateArgs),
    /// Print the OpenAPI document of the HTTP API
    #[command(after_help = "Example:\n  bulkhead head openapi > openapi.json")]
    Openapi,
    /// Show what needs attention, the worst first, and what to do
    #[command(after_help = ALERTS_EXAMPLES)]
    Alerts,
    /// Perform what stands on the standard input as JSON, for a head
    #[command(hide = true)]
    Perform,
}

const ALERTS_EXAMPLES: &str = "Examples:
  bulkhead head alerts
  bulkhead head alerts --json

It looks by itself, whether `bulkhead head` runs or not. Pools that other heads serve are left out.";

const CERTIFICATE_EXAMPLES: &str = "Examples:
  bulkhead head certificate
  bulkhead head certificate --name left.example.org --name 10.77.9.11
  bulkhead head certificate --certificate chain.pem --key key.pem

A running head uses it from the next connection on.";

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

/// How to serve.
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
    /// The name of this head [default: that of this machine]
    #[arg(long, value_name = "HEAD")]
    pub name: Option<String>,
    /// The appliance file; there need be none
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
    /// Where labs of drills keep their files
    #[arg(long, value_name = "DIR", default_value = "/var/lib/bulkhead/lab")]
    pub lab_dir: PathBuf,
}

/// `pool move`
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// The pool
    pub pool: PoolName,
    /// The head that shall serve it
    pub head: HeadName,
    /// The appliance.
    #[command(flatten)]
    pub appliance: ApplianceFile,
    /// Also when that head lacks keys of volumes that are served now
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
