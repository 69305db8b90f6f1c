//! `bulkhead nbd …`

use clap::Subcommand;
use control::Failure;
use control::exports::AccessRule;
use control::request::{NbdRequest, Request};
use units::{Network, VolumeName};

use super::{Plan, PoolSelector};
use control::operations::WhichPool;

/// Longest export name (the NBD protocol's limit on strings, in bytes).
const EXPORT_NAME_BYTES_MAX: usize = 4096 / 16;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum NbdCommand {
    /// Offer a volume over NBD; changes the export if there is one of that name
    #[command(after_help = "Examples:
  bulkhead nbd export tank/vm0 --name vm0
  bulkhead nbd export tank/iso --read-only --allow-network 10.0.0.0/24
  bulkhead nbd export tank/vm0 --allow-certificate hypervisor1")]
    Export {
        /// The volume
        volume: VolumeName,
        /// Name of the export [default: the volume's name]
        #[arg(long, value_parser = export_name)]
        name: Option<String>,
        /// Refuse writes
        #[arg(long)]
        read_only: bool,
        /// Let clients of a network connect; may be repeated [default: this machine only]
        #[arg(long, value_name = "CIDR", conflicts_with = "allow_everyone")]
        allow_network: Vec<Network>,
        /// Let clients connect whose certificate has this name (DNS name or address); may be
        /// repeated. The server needs --nbd-tls-ca
        #[arg(long, value_name = "NAME", conflicts_with = "allow_everyone",
              value_parser = identity)]
        allow_certificate: Vec<String>,
        /// Let anybody connect who reaches the server
        #[arg(long)]
        allow_everyone: bool,
    },
    /// Stop offering a volume
    #[command(
        visible_alias = "rm",
        after_help = "Example:\n  bulkhead nbd unexport tank/vm0"
    )]
    Unexport {
        /// The volume
        volume: VolumeName,
        /// Only the export of this name
        #[arg(long)]
        name: Option<String>,
        /// Even though clients are connected: their connections end
        #[arg(long)]
        in_use: bool,
    },
    /// List the exports with their clients
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead nbd list tank --json"
    )]
    List(WhichPool),
}

fn identity(text: &str) -> Result<String, String> {
    match nbd::is_identity(text) {
        true => Ok(text.to_owned()),
        false => {
            Err("write a DNS name, or an address, as in the certificate's subjectAltName".into())
        }
    }
}

fn export_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > EXPORT_NAME_BYTES_MAX || text.contains(char::is_control) {
        return Err(format!(
            "use 1 to {EXPORT_NAME_BYTES_MAX} characters without control characters"
        ));
    }
    Ok(text.to_owned())
}

impl NbdCommand {
    /// What to do.
    pub fn plan(self) -> Result<Plan, Failure> {
        let (pool, request) = match self {
            Self::Export {
                volume,
                name,
                read_only,
                allow_network: networks,
                allow_certificate: identities,
                allow_everyone: everyone,
            } => {
                let pool = PoolSelector::Pool(volume.pool());
                let access = AccessRule {
                    everyone,
                    initiators: Vec::new(),
                    networks,
                    identities,
                };
                let export = NbdRequest::Export {
                    volume,
                    name,
                    read_only,
                    access,
                };
                (pool, export)
            }
            Self::Unexport {
                volume,
                name,
                in_use,
            } => {
                let pool = PoolSelector::Pool(volume.pool());
                let unexport = NbdRequest::Unexport {
                    volume,
                    name,
                    in_use,
                };
                (pool, unexport)
            }
            Self::List(pool) => (pool.into(), NbdRequest::List),
        };
        Ok(Plan::Ask {
            pool,
            request: Request::Nbd(request),
        })
    }
}
