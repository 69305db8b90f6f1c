//! `bulkhead head`, `bulkhead user`, `bulkhead token`

use std::net::SocketAddr;
use std::path::PathBuf;

use api::Role;
use clap::{Args, Subcommand};

use super::Plan;

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
    /// Perform what stands on the standard input as JSON, for a head
    #[command(hide = true)]
    Perform,
}

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
    /// What the other heads of the appliance know as well, to recognise each other by
    #[arg(long, value_name = "FILE", default_value = appliance::plan::AUTHKEY_PATH)]
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

impl HeadCommand {
    /// What to do.
    pub fn plan(self) -> Plan {
        Plan::Head(Box::new(self))
    }
}

/// `user`
#[derive(Debug, Args)]
pub struct UserCommand {
    /// The verb.
    #[command(subcommand)]
    pub verb: UserVerb,
    /// Where accounts are.
    #[command(flatten)]
    pub place: HeadPlace,
}

/// What to do with users.
#[derive(Debug, Subcommand)]
pub enum UserVerb {
    /// Add a user of the API and the console
    #[command(after_help = "Examples:\n  bulkhead user add anna --role admin\n  \
                            bulkhead user add bert --role operator --password-file secret")]
    Add {
        /// The name
        name: String,
        /// What they may do: admin, operator or read-only
        #[arg(long)]
        role: Role,
        /// Where the password is.
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// List the users
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead user list --json"
    )]
    List,
    /// Remove a user with their tokens
    #[command(
        visible_alias = "rm",
        after_help = "Example:\n  bulkhead user remove bert"
    )]
    Remove {
        /// The name
        name: String,
    },
    /// Give a user another password
    #[command(after_help = "Example:\n  bulkhead user passwd anna")]
    Passwd {
        /// The name
        name: String,
        /// Where the password is.
        #[command(flatten)]
        password: PasswordArgs,
    },
}

/// Where a password is.
#[derive(Debug, Args)]
pub struct PasswordArgs {
    /// File whose first line is the password [default: a prompt, or the standard input]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// `token`
#[derive(Debug, Args)]
pub struct TokenCommand {
    /// The verb.
    #[command(subcommand)]
    pub verb: TokenVerb,
    /// Where accounts are.
    #[command(flatten)]
    pub place: HeadPlace,
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub enum TokenVerb {
    /// Make a token for a program; it is shown once
    #[command(
        after_help = "Examples:\n  bulkhead token create --user anna prometheus --role read-only\n  \
                            bulkhead token create --user anna ansible --expires-days 90"
    )]
    Create {
        /// What it is for
        name: String,
        /// Whose it is
        #[arg(long)]
        user: String,
        /// What may be done with it [default: all that its user may]
        #[arg(long)]
        role: Option<Role>,
        /// After how many days it ends [default: never]
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
        expires_days: Option<u32>,
    },
    /// List the tokens
    #[command(visible_alias = "ls", after_help = "Example:\n  bulkhead token list")]
    List,
    /// Revoke a token
    #[command(after_help = "Example:\n  bulkhead token revoke 3f0c9a7e21bd")]
    Revoke {
        /// Its id, as `list` shows it
        id: String,
    },
}
