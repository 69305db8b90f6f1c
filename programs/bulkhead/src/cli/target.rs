//! `bulkhead target …`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use control::Failure;
use control::request::{DiscoveryRequest, Request, TargetRequest, Who};
use units::{IscsiName, Network, PoolName, VolumeName};

use super::Plan;
use crate::secret::{self, SecretSource};
use control::operations::{PoolOption, WhichPool};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum TargetCommand {
    /// Make a target; until `target allow`, only this machine may use it
    #[command(
        after_help = "Example:\n  bulkhead target create iqn.2026-01.org.example:tank --pool tank"
    )]
    Create {
        /// The target
        #[command(flatten)]
        target: TargetArg,
        /// Group of portals that offers it; may be repeated [default: all]
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
        portal_group: Vec<u16>,
    },
    /// List the targets with their volumes
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead target list --json"
    )]
    List(WhichPool),
    /// Show one target
    Show(TargetArg),
    /// Remove a target; its volumes stay
    #[command(
        visible_alias = "rm",
        after_help = "Example:\n  bulkhead target destroy iqn.2026-01.org.example:tank"
    )]
    Destroy {
        /// The target
        #[command(flatten)]
        target: TargetArg,
        /// Even though initiators are connected: their sessions end
        #[arg(long)]
        in_use: bool,
    },
    /// Show a volume in a target as a logical unit
    #[command(
        after_help = "Examples:\n  bulkhead target map iqn.2026-01.org.example:tank tank/vm0
  bulkhead target map iqn.2026-01.org.example:tank tank/iso --lun 7 --read-only"
    )]
    Map(MapArgs),
    /// Take a volume out of a target
    #[command(
        after_help = "Example:\n  bulkhead target unmap iqn.2026-01.org.example:tank tank/vm0"
    )]
    Unmap {
        /// The target's name
        target: IscsiName,
        /// The volume
        volume: VolumeName,
        /// Even though initiators are connected: the unit vanishes under them
        #[arg(long)]
        in_use: bool,
    },
    /// Let initiators use a target
    #[command(after_help = "Examples:
  bulkhead target allow iqn.2026-01.org.example:tank --initiator iqn.1993-08.org.debian:01:abc
  bulkhead target allow iqn.2026-01.org.example:tank --network 10.0.0.0/24
  bulkhead target allow iqn.2026-01.org.example:tank --everyone
  bulkhead target allow iqn.2026-01.org.example:tank --network 10.0.0.0/24 --instead-of-everyone")]
    Allow {
        /// The target
        #[command(flatten)]
        target: TargetArg,
        /// Who
        #[command(flatten)]
        who: WhoArgs,
        /// Where everyone is let in: only those that are named from now on
        #[arg(long, conflicts_with = "everyone")]
        instead_of_everyone: bool,
    },
    /// Stop letting initiators use a target
    #[command(
        after_help = "Example:\n  bulkhead target deny iqn.2026-01.org.example:tank --everyone"
    )]
    Deny {
        /// The target
        #[command(flatten)]
        target: TargetArg,
        /// Who
        #[command(flatten)]
        who: WhoArgs,
    },
    /// Secrets that initiators (and the target) prove to know
    #[command(subcommand)]
    Chap(ChapCommand),
    /// Secrets that initiators prove to know before they are told of a pool's targets
    #[command(subcommand)]
    Discovery(DiscoveryCommand),
}

/// `target discovery …`
#[derive(Debug, Subcommand)]
pub enum DiscoveryCommand {
    /// Ask whoever asks for targets for a user name and a secret; the secret is never an argument
    #[command(after_help = "Examples:
  bulkhead target discovery set tank --user finder
  bulkhead target discovery set tank --user finder --secret-file /root/finder.secret")]
    Set {
        /// The pool
        #[command(flatten)]
        pool: WhichPool,
        /// User and secret
        #[command(flatten)]
        chap: ChapArgs,
    },
    /// Prove the server to initiators that ask (mutual CHAP)
    #[command(after_help = "Example:
  bulkhead target discovery mutual tank --user tank --secret-file /root/tank.secret")]
    Mutual {
        /// The pool
        #[command(flatten)]
        pool: WhichPool,
        /// User and secret
        #[command(flatten)]
        chap: ChapArgs,
    },
    /// Show the users, without their secrets
    #[command(after_help = "Example:\n  bulkhead target discovery show tank")]
    Show(WhichPool),
    /// Forget users and secrets; without any, everybody is told of the targets that he may use
    #[command(after_help = "Example:\n  bulkhead target discovery clear tank")]
    Clear {
        /// The pool
        #[command(flatten)]
        pool: WhichPool,
        /// Only this user
        #[arg(long)]
        user: Option<String>,
    },
}

/// `target chap …`
#[derive(Debug, Subcommand)]
pub enum ChapCommand {
    /// Ask initiators for a user name and a secret; the secret is never an argument
    #[command(after_help = "Examples:
  bulkhead target chap set iqn.2026-01.org.example:tank --user ann
  bulkhead target chap set iqn.2026-01.org.example:tank --user ann --secret-file /root/ann.secret")]
    Set {
        /// The target
        #[command(flatten)]
        target: TargetArg,
        /// User and secret
        #[command(flatten)]
        chap: ChapArgs,
    },
    /// Prove the target to initiators that ask (mutual CHAP)
    #[command(after_help = "Example:
  bulkhead target chap mutual iqn.2026-01.org.example:tank --user tank \\
      --secret-file /root/tank.secret")]
    Mutual {
        /// The target
        #[command(flatten)]
        target: TargetArg,
        /// User and secret
        #[command(flatten)]
        chap: ChapArgs,
    },
    /// Show the users, without their secrets, and whether the target proves itself
    #[command(after_help = "Example:\n  bulkhead target chap show iqn.2026-01.org.example:tank")]
    Show(TargetArg),
    /// Forget users and secrets
    #[command(
        after_help = "Example:\n  bulkhead target chap clear iqn.2026-01.org.example:tank --user ann"
    )]
    Clear {
        /// The target
        #[command(flatten)]
        target: TargetArg,
        /// Only this user
        #[arg(long)]
        user: Option<String>,
    },
}

/// A target and, if need be, its pool.
#[derive(Debug, Args)]
pub struct TargetArg {
    /// The target's name, such as iqn.2026-01.org.example:tank
    target: IscsiName,
    /// The pool
    #[command(flatten)]
    pool: PoolOption,
}

/// `target map`
#[derive(Debug, Args)]
pub struct MapArgs {
    /// The target's name
    target: IscsiName,
    /// The volume
    volume: VolumeName,
    /// Number of the unit [default: the lowest free one]
    #[arg(long, value_parser = clap::value_parser!(u16).range(..=LUN_MAX))]
    lun: Option<u16>,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Whether the unit starts with a volatile write cache: on answers writes before they are
    /// durable, as a disk does, and loses those that were not flushed if the server dies under
    /// a running initiator [default: off]
    #[arg(long, value_name = "on|off", value_parser = on_off)]
    write_cache: Option<bool>,
}

/// Highest unit number: flat space addressing has 14 bits (SAM-5, 4.7.7.3).
const LUN_MAX: i64 = 16_383;

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("write on or off".to_owned()),
    }
}

/// Who is allowed or denied.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct WhoArgs {
    /// An initiator by its name; may be repeated
    #[arg(long, value_name = "IQN")]
    initiator: Vec<IscsiName>,
    /// Clients of a network such as 10.0.0.0/24; may be repeated
    #[arg(long, value_name = "CIDR")]
    network: Vec<Network>,
    /// Anybody who reaches a portal
    #[arg(long)]
    everyone: bool,
}

/// A user and where its secret comes from: a file, the standard input, or a prompt.
#[derive(Debug, Args)]
pub struct ChapArgs {
    /// User name
    #[arg(long)]
    user: String,
    /// File whose first line is the secret
    #[arg(long, value_name = "FILE", conflicts_with = "secret_stdin")]
    secret_file: Option<PathBuf>,
    /// The first line of the standard input is the secret
    #[arg(long)]
    secret_stdin: bool,
}

impl From<WhoArgs> for Who {
    fn from(args: WhoArgs) -> Self {
        Self {
            initiators: args.initiator,
            networks: args.network,
            everyone: args.everyone,
            instead_of_everyone: false,
        }
    }
}

impl ChapArgs {
    fn read(self) -> Result<(String, control::Secret), Failure> {
        if self.user.is_empty() || self.user.len() > 255 {
            return Err(Failure::usage("a CHAP user name has 1 to 255 characters"));
        }
        let source = match (self.secret_file, self.secret_stdin) {
            (Some(path), _) => SecretSource::File(path),
            (None, true) => SecretSource::Stdin,
            (None, false) => SecretSource::Prompt,
        };
        Ok((self.user, secret::read(&source)?))
    }
}

fn ask(pool: Option<PoolName>, request: TargetRequest) -> Result<Plan, Failure> {
    Ok(Plan::Ask {
        pool: pool.into(),
        request: Request::Target(request),
    })
}

impl TargetCommand {
    /// What to do. Reads the secret, for the verbs that take one.
    pub fn plan(self) -> Result<Plan, Failure> {
        match self {
            Self::Create {
                target,
                portal_group: portal_groups,
            } => {
                let name = target.target;
                let create = TargetRequest::Create {
                    name,
                    portal_groups,
                };
                ask(target.pool.pool, create)
            }
            Self::List(pool) => Ok(Plan::Ask {
                pool: pool.into(),
                request: Request::Target(TargetRequest::List),
            }),
            Self::Show(arg) => ask(arg.pool.pool, TargetRequest::Show { name: arg.target }),
            Self::Destroy { target, in_use } => {
                let name = target.target;
                ask(target.pool.pool, TargetRequest::Destroy { name, in_use })
            }
            Self::Map(args) => {
                let pool = args.volume.pool();
                let map = TargetRequest::Map {
                    name: args.target,
                    volume: args.volume,
                    lun: args.lun,
                    read_only: args.read_only,
                    write_cache: args.write_cache,
                };
                ask(Some(pool), map)
            }
            Self::Unmap {
                target: name,
                volume,
                in_use,
            } => {
                let pool = Some(volume.pool());
                let unmap = TargetRequest::Unmap {
                    name,
                    volume,
                    in_use,
                };
                ask(pool, unmap)
            }
            Self::Allow {
                target,
                who,
                instead_of_everyone,
            } => {
                let name = target.target;
                let who = Who {
                    instead_of_everyone,
                    ..who.into()
                };
                ask(target.pool.pool, TargetRequest::Allow { name, who })
            }
            Self::Deny { target, who } => {
                let (name, who) = (target.target, who.into());
                ask(target.pool.pool, TargetRequest::Deny { name, who })
            }
            Self::Chap(command) => command.plan(),
            Self::Discovery(command) => command.plan(),
        }
    }
}

impl DiscoveryCommand {
    fn plan(self) -> Result<Plan, Failure> {
        let (pool, request) = match self {
            Self::Set { pool, chap } => {
                let (user, secret) = chap.read()?;
                (pool, DiscoveryRequest::ChapSet { user, secret })
            }
            Self::Mutual { pool, chap } => {
                let (user, secret) = chap.read()?;
                (pool, DiscoveryRequest::MutualSet { user, secret })
            }
            Self::Show(pool) => (pool, DiscoveryRequest::Show),
            Self::Clear { pool, user } => (pool, DiscoveryRequest::ChapClear { user }),
        };
        Ok(Plan::Ask {
            pool: pool.into(),
            request: Request::Target(TargetRequest::Discovery(request)),
        })
    }
}

impl ChapCommand {
    fn plan(self) -> Result<Plan, Failure> {
        match self {
            Self::Set { target, chap } => {
                let name = target.target;
                let (user, secret) = chap.read()?;
                ask(
                    target.pool.pool,
                    TargetRequest::ChapSet { name, user, secret },
                )
            }
            Self::Mutual { target, chap } => {
                let name = target.target;
                let (user, secret) = chap.read()?;
                ask(
                    target.pool.pool,
                    TargetRequest::MutualSet { name, user, secret },
                )
            }
            Self::Show(arg) => ask(arg.pool.pool, TargetRequest::ChapShow { name: arg.target }),
            Self::Clear { target, user } => {
                let name = target.target;
                ask(target.pool.pool, TargetRequest::ChapClear { name, user })
            }
        }
    }
}
