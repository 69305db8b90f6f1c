//! iSCSI targets: their volumes, and the initiators that may use them.

use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{IscsiName, Network};

use super::secret_input::{self, SecretSource};
use super::{PoolOption, PoolSelector, noun};
use crate::{Failure, Secret};

noun! {
    /// Requests about iSCSI targets.
    TargetRequest, TargetCommand, "target";
    verbs {
        create::Create, show::Show, destroy::Destroy, map::Map, unmap::Unmap, allow::Allow, deny::Deny, list::List,
    }
    bare {}
    nouns {
        /// Authentication of initiators for discovery of a pool's targets
        discovery::Discovery(DiscoveryRequest, DiscoveryCommand)
    }
    groups {
        /// Secrets by which initiators (and the target) authenticate
        Chap(ChapCommand) {
            chap_set::ChapSet as "set",
            mutual_set::MutualSet as "mutual",
            chap_show::ChapShow as "show",
            chap_clear::ChapClear as "clear",
        }
    }
}

/// A target and, if necessary, its pool.
#[derive(Debug, Args)]
struct TargetArgument {
    /// The target's name, such as iqn.2026-01.org.example:tank
    target: IscsiName,
    #[command(flatten)]
    pool: PoolOption,
}

impl TargetArgument {
    fn into_parts(self) -> (PoolSelector, IscsiName) {
        (self.pool.into(), self.target)
    }
}

/// Clients that are added to or removed from an access rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Who {
    /// Initiators by name.
    #[serde(default)]
    pub initiators: Vec<IscsiName>,
    /// Clients by network.
    #[serde(default)]
    pub networks: Vec<Network>,
    /// Any client that reaches a portal.
    #[serde(default)]
    pub everyone: bool,
    /// If all clients are allowed: these instead.
    #[serde(default)]
    pub instead_of_everyone: bool,
}

/// The clients to allow or deny.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct ClientOptions {
    /// An initiator by its name; may be repeated
    #[arg(long, value_name = "IQN")]
    initiator: Vec<IscsiName>,
    /// Clients of a network such as 10.0.0.0/24; may be repeated
    #[arg(long, value_name = "CIDR")]
    network: Vec<Network>,
    /// Any client that reaches a portal
    #[arg(long)]
    everyone: bool,
}

impl From<ClientOptions> for Who {
    fn from(options: ClientOptions) -> Self {
        Self {
            initiators: options.initiator,
            networks: options.network,
            everyone: options.everyone,
            instead_of_everyone: false,
        }
    }
}

/// A user and the source of its secret: a file, the standard input, or a prompt.
#[derive(Debug, Args)]
struct ChapOptions {
    /// User name
    #[arg(long)]
    user: String,
    /// File with the secret in its first line
    #[arg(long, value_name = "FILE", conflicts_with = "secret_stdin")]
    secret_file: Option<PathBuf>,
    /// The first line of the standard input is the secret
    #[arg(long)]
    secret_stdin: bool,
}

impl ChapOptions {
    fn read(self) -> Result<(String, Secret), Failure> {
        if self.user.is_empty() || self.user.len() > 255 {
            return Err(Failure::usage("a CHAP user name has 1 to 255 characters"));
        }
        let source = match (self.secret_file, self.secret_stdin) {
            (Some(path), _) => SecretSource::File(path),
            (None, true) => SecretSource::Stdin,
            (None, false) => SecretSource::Prompt,
        };
        Ok((self.user, secret_input::read(&source)?))
    }
}
