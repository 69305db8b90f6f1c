//! The command line: the same nouns and verbs as of `bulkhead`, as far as a shelf has them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use control::operations::nbd::NbdCommand;
use control::operations::pool::create::PoolCreate;
use control::operations::pool::{self, events};
use control::operations::portal::PortalCommand;
use control::operations::volume::rollback::Rollback;
use control::operations::{
    Polling, PoolSelector, TableOptions, Verb, snapshot, status, target, volume,
};
use control::{Failure, Request};
use pool_access::common::Common;
use pool_server::args::ServeArgs;
use units::PoolName;

/// The name of this program.
pub const NAME: &str = "bulkhead-ceph";

/// The configuration file that Ceph's own tools use.
const CLUSTER: &str = "/etc/ceph/ceph.conf";
/// Not that of `bulkhead`: its files describe pools on disks.
const STATE_DIR: &str = "/var/lib/bulkhead-ceph";

/// Options of a pool server that are about disks, and other options that a shelf has no use for.
const OF_DISKS: &[&str] = &[
    "arc_size",
    "dirty_max",
    "txg_timeout",
    "disk_timeout",
    "multihost_silence",
    "legs",
    "stopped_owner",
    "fenced_owner",
    "watch_for_owner",
    "wait_for_devices",
    "claims",
    "replication",
];
/// Verbs of pools that a shelf has.
const POOL_VERBS: &[&str] = &[
    "create",
    "list",
    "status",
    "events",
    "export",
    "destroy",
    "iostat",
    "log-level",
    "help",
];

const EXAMPLES: &str = "Examples:
  bulkhead-ceph pool create tank --in rbd
  bulkhead-ceph pool-server tank --iscsi 10.0.0.1:3260 --nbd 10.0.0.1:10809
  bulkhead-ceph pool-server tank --take-over
  bulkhead-ceph volume create tank/vm0 --size 10G
  bulkhead-ceph target create iqn.2026-01.org.example:tank --pool tank
  bulkhead-ceph target map iqn.2026-01.org.example:tank tank/vm0
  bulkhead-ceph status";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = NAME,
    version,
    long_version = concat!(env!("CARGO_PKG_VERSION"), "\n", "librbd"),
    about = "Storage server on Ceph: volumes over iSCSI and NBD",
    long_about = "Storage server on Ceph. A shelf is a pool of volumes in an RBD namespace, which one host serves at a \
                  time over iSCSI and NBD.\n\nCommands about a shelf go to its server if one runs on this host; \
                  otherwise they claim the shelf, do their work, and export it again.",
    after_help = EXAMPLES,
    arg_required_else_help = true,
)]
pub struct Cli {
    /// The options of every command.
    #[command(flatten)]
    pub common: Common,
    /// The cluster.
    #[command(flatten)]
    pub ceph: CephOptions,
    /// The noun.
    #[command(subcommand)]
    pub command: Command,
}

/// The cluster, and how it is reached.
#[derive(Clone, Debug, Args)]
pub struct CephOptions {
    /// Configuration file of the cluster
    #[arg(long, global = true, value_name = "FILE", env = "BULKHEAD_CEPH_CLUSTER", default_value = CLUSTER, help_heading = "Common options")]
    pub cluster: PathBuf,
    /// User of the cluster, without `client.`; it needs the profile rbd for monitors, disks and the manager
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "BULKHEAD_CEPH_USER",
        default_value = "bulkhead",
        help_heading = "Common options"
    )]
    pub user: String,
    /// File with the key of the user [default: the one that the configuration file names, such as
    /// /etc/ceph/ceph.client.bulkhead.keyring]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "BULKHEAD_CEPH_KEYRING",
        help_heading = "Common options"
    )]
    pub keyring: Option<PathBuf>,
}

/// The nouns.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "a command line is one value")]
pub enum Command {
    /// Own a shelf and serve its volumes until stopped
    #[command(after_help = SERVER_EXAMPLES)]
    PoolServer(Box<ServeArgs>),
    /// Decrypt secrets for the server, at the standard input and output
    #[command(hide = true, name = pool_server::keeper::COMMAND)]
    PoolKeys,
    /// Requests of this program to itself
    #[command(hide = true, subcommand)]
    Head(Internal),
    /// Requests to shelves.
    #[command(flatten)]
    Ask(Noun),
}

const SERVER_EXAMPLES: &str = "Examples:
  bulkhead-ceph pool-server tank
  bulkhead-ceph pool-server tank --take-over --iscsi 10.0.0.1:3260,1 --nbd 10.0.0.1:10809

Signals: TERM or INT drains the sessions, exports the shelf and ends; HUP reads the exports again.
Under systemd it reports readiness, status and liveness (Type=notify, WatchdogSec=).
If another host takes the shelf over, the server exits with 6.";

/// Requests of this program to itself.
#[derive(Debug, Subcommand)]
pub enum Internal {
    /// Perform the JSON request on the standard input
    Perform,
}

/// Requests to shelves.
#[derive(Debug, Subcommand)]
pub enum Noun {
    /// Shelves: create, list, inspect, export, destroy
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Volumes: the block devices in a shelf
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Snapshots of volumes
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// iSCSI targets: their volumes, and the initiators that may use them
    #[command(subcommand)]
    Target(target::TargetCommand),
    /// NBD exports
    #[command(subcommand)]
    Nbd(NbdCommand),
    /// Portals of a shelf: iSCSI portals and NBD addresses of its server
    #[command(subcommand)]
    Portal(PortalCommand),
    Status(status::Arguments),
}

/// `pool`
#[derive(Debug, Subcommand)]
pub enum PoolCommand {
    /// Create a shelf in an RBD namespace of its own
    #[command(
        after_help = "Examples:\n  bulkhead-ceph pool create tank --in rbd\n  bulkhead-ceph pool create tank --in rbd --namespace storage"
    )]
    Create {
        /// Name of the shelf
        name: PoolName,
        /// Pool of the cluster, which `rbd pool init` has prepared
        #[arg(long = "in", value_name = "POOL")]
        rbd_pool: String,
        /// RBD namespace, which is created [default: the name of the shelf]
        #[arg(long, value_name = "NAME")]
        namespace: Option<String>,
    },
    /// List the shelves of the cluster
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead-ceph pool list --json"
    )]
    List,
    Events(events::Arguments),
    /// A request to a shelf.
    #[command(flatten)]
    Request(pool::PoolCommand),
}

/// `volume`
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// A request to a shelf.
    #[command(flatten)]
    Request(volume::VolumeCommand),
    /// Create a volume from a snapshot; the same as `snapshot clone`
    #[command(after_help = "Example:\n  bulkhead-ceph volume clone tank/vm0@monday tank/copy")]
    Clone(snapshot::clone::Arguments),
}

/// `snapshot`
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// A request to a shelf.
    #[command(flatten)]
    Request(snapshot::SnapshotCommand),
    /// Roll a volume back to a snapshot; the same as `volume rollback`
    #[command(after_help = "Example:\n  bulkhead-ceph snapshot rollback tank/vm0@monday")]
    Rollback(Rollback),
}

/// A plan for requests to shelves.
#[derive(Debug)]
pub enum Plan {
    /// Send a request to a shelf.
    Ask {
        /// Which.
        pool: PoolSelector,
        /// The request.
        request: Request,
        /// The columns and the order of the response.
        table: TableOptions,
    },
    /// Poll, until interrupted or for a number of times.
    Watch {
        /// Which.
        pool: PoolSelector,
        /// The request.
        request: Request,
        /// How often.
        again: Polling,
    },
    /// Show the events of a shelf as they occur, until interrupted.
    Follow(PoolName),
    /// Create a shelf.
    Create(PoolCreate),
    /// List the shelves that can be found.
    List,
}

impl Cli {
    /// The grammar, without the options of disks.
    fn grammar() -> clap::Command {
        let of_server = |command: clap::Command| {
            let command = OF_DISKS.iter().fold(command, |command, name| {
                command.mut_arg(*name, |argument| argument.hide(true))
            });
            command.mut_arg("previous_owner_is_stopped", |argument| {
                argument
                    .long("take-over")
                    .alias("previous-owner-is-stopped")
                    .help("Have the cluster refuse the host that used the shelf last, and take the shelf over. That host's server exits")
            })
        };
        let of_pools = |mut command: clap::Command| {
            let names: Vec<String> = command
                .get_subcommands()
                .map(|verb| verb.get_name().to_owned())
                .collect();
            for name in names
                .iter()
                .filter(|name| !POOL_VERBS.contains(&name.as_str()))
            {
                command = command.mut_subcommand(name, |verb| verb.hide(true));
            }
            command
        };
        Self::command()
            .mut_arg("search", |argument| argument.hide(true))
            .mut_arg("maintenance", |argument| argument.hide(true))
            .mut_arg("state_dir", |argument| argument.default_value(STATE_DIR))
            .mut_subcommand("pool-server", of_server)
            .mut_subcommand("pool", of_pools)
    }

    /// Parses the command line of this process. Prints help, or the error, and exits if it is not valid.
    pub fn read() -> Self {
        let matches = Self::grammar().get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// The common options. Child processes get those of the cluster, too.
    pub fn common(&self) -> Common {
        let mut common = self.common.clone();
        let cluster = std::path::absolute(&self.ceph.cluster);
        let cluster = cluster.unwrap_or_else(|_| self.ceph.cluster.clone());
        common.search_by_default(cluster.clone());
        let mut options: Vec<OsString> = vec!["--user".into(), self.ceph.user.clone().into()];
        options.extend(["--cluster".into(), cluster.into()]);
        if let Some(keyring) = &self.ceph.keyring {
            options.extend(["--keyring".into(), keyring.into()]);
        }
        common.of_program = options;
        common
    }
}

/// Converts the arguments of a noun into a plan.
fn ask<T>(
    asked: Result<(PoolSelector, T), Failure>,
    noun: impl Fn(T) -> Request,
    table: TableOptions,
) -> Result<Plan, Failure> {
    let (pool, request) = asked?;
    Ok(Plan::Ask {
        pool,
        request: noun(request),
        table,
    })
}

impl Noun {
    /// Returns the plan.
    pub fn plan(self, ceph: &CephOptions) -> Result<Plan, Failure> {
        let plain = TableOptions::default();
        match self {
            Self::Pool(command) => command.plan(ceph),
            Self::Volume(VolumeCommand::Request(command)) => {
                let table = command.table();
                ask(command.request(), Request::Volume, table)
            }
            Self::Volume(VolumeCommand::Clone(args)) => {
                let asked = snapshot::clone::Clone::from_arguments(args);
                ask(asked, |clone| Request::Snapshot(clone.into()), plain)
            }
            Self::Snapshot(SnapshotCommand::Request(command)) => {
                let table = command.table();
                ask(command.request(), Request::Snapshot, table)
            }
            Self::Snapshot(SnapshotCommand::Rollback(args)) => {
                let asked = Rollback::from_arguments(args);
                ask(asked, |rollback| Request::Volume(rollback.into()), plain)
            }
            Self::Target(command) => {
                let table = command.table();
                ask(command.request(), Request::Target, table)
            }
            Self::Nbd(command) => {
                let table = command.table();
                ask(command.request(), Request::Nbd, table)
            }
            Self::Portal(command) => ask(command.request(), Request::Portal, plain),
            Self::Status(args) => Ok(of_status(args)),
        }
    }
}

fn of_status(args: status::Arguments) -> Plan {
    let pool = args.pool.into();
    match args.watch {
        Some(seconds) => Plan::Watch {
            pool,
            request: Request::Status,
            again: Polling {
                interval: Duration::from_secs(seconds),
                count: None,
            },
        },
        None => Plan::Ask {
            pool,
            request: Request::Status,
            table: TableOptions::default(),
        },
    }
}

impl PoolCommand {
    fn plan(self, ceph: &CephOptions) -> Result<Plan, Failure> {
        match self {
            Self::Create {
                name,
                rbd_pool,
                namespace,
            } => {
                let namespace = namespace.unwrap_or_else(|| name.to_string());
                let cluster = ceph.cluster.to_string_lossy().into_owned();
                let properties = [
                    ("cluster", cluster),
                    ("pool", rbd_pool),
                    ("namespace", namespace),
                ];
                Ok(Plan::Create(PoolCreate {
                    name,
                    groups: Vec::new(),
                    properties: properties
                        .map(|(name, value)| (name.to_owned(), value))
                        .into(),
                    overwrite: false,
                }))
            }
            Self::List => Ok(Plan::List),
            Self::Events(args) if args.follow => Ok(Plan::Follow(args.pool)),
            Self::Events(args) => ask(Ok(args.request()), Request::Pool, TableOptions::default()),
            Self::Request(command) => {
                let again = command.again();
                let (pool, request) = command.request()?;
                let request = Request::Pool(request);
                Ok(match again {
                    Some(again) => Plan::Watch {
                        pool,
                        request,
                        again,
                    },
                    None => Plan::Ask {
                        pool,
                        request,
                        table: TableOptions::default(),
                    },
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Cli, clap::Error> {
        let words = std::iter::once(NAME).chain(words.split_whitespace());
        let matches = Cli::grammar().try_get_matches_from(words)?;
        Cli::from_arg_matches(&matches)
    }

    #[test]
    fn the_grammar_is_consistent_and_every_example_is_valid() {
        Cli::grammar().debug_assert();
        for text in [EXAMPLES, SERVER_EXAMPLES] {
            let lines = text
                .lines()
                .filter_map(|line| line.trim().strip_prefix("bulkhead-ceph "));
            for example in lines {
                parse(example).unwrap_or_else(|error| panic!("{example}: {error}"));
            }
        }
    }

    #[test]
    fn help_of_the_server_has_take_over_and_no_options_of_disks() {
        let mut grammar = Cli::grammar();
        grammar.build();
        let server = grammar.find_subcommand_mut("pool-server").expect("a verb");
        let help = server.render_long_help().to_string();
        assert!(help.contains("--take-over"), "{help}");
        for absent in ["--arc-size", "--legs", "--search", "--previous-owner"] {
            assert!(!help.contains(absent), "{absent}: {help}");
        }
        let pool = grammar.find_subcommand_mut("pool").expect("a noun");
        let help = pool.render_long_help().to_string();
        assert!(
            !help.contains("attach") && help.contains("create"),
            "{help}"
        );
    }

    #[test]
    fn take_over_is_the_confirmation_of_the_base_program() {
        for words in [
            "pool-server tank --take-over",
            "pool-server tank --previous-owner-is-stopped",
        ] {
            let cli = parse(words).expect("valid");
            let Command::PoolServer(args) = cli.command else {
                panic!("another command");
            };
            assert!(args.previous_owner_is_stopped, "{words}");
        }
    }

    #[test]
    fn child_processes_get_the_cluster_and_its_user() {
        let cli = parse("status --cluster /c --user u --keyring /k").expect("valid");
        let options = cli.common().as_options();
        let options: Vec<_> = options.iter().map(|one| one.to_string_lossy()).collect();
        let options = options.join(" ");
        assert!(options.contains("--search /c"), "{options}");
        assert!(
            options.contains("--user u --cluster /c --keyring /k"),
            "{options}"
        );
        assert!(
            options.contains("--state-dir /var/lib/bulkhead-ceph"),
            "{options}"
        );
    }

    #[test]
    fn new_shelf_is_named_by_cluster_pool_and_namespace() {
        let cli = parse("pool create tank --in rbd").expect("valid");
        let Command::Ask(noun) = cli.command else {
            panic!("another command");
        };
        let Ok(Plan::Create(create)) = noun.plan(&cli.ceph) else {
            panic!("another plan");
        };
        assert_eq!(create.properties["namespace"], "tank");
        assert_eq!(create.properties["pool"], "rbd");
        assert_eq!(create.properties["cluster"], CLUSTER);
    }
}
