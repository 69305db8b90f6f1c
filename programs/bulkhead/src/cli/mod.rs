//! The grammar of the command line: noun, then verb. Arguments in, a [`Plan`] out, without side
//! effects, so that every command line can be tested without a pool.

#[cfg(test)]
mod advised;
mod completion;
mod definitions;
mod filesystem;
mod key;
mod manual;
mod pool;
#[cfg(test)]
mod serve;
mod snapshot;
mod status;
mod target;
mod transfer;
mod usage_error;
pub mod volume;

use std::path::PathBuf;
use std::sync::LazyLock;

use ceph_growth::arguments::GrowthCommand;
use clap::{Parser, Subcommand};
use cluster::arguments::ApplianceCommand;
use control::operations::nbd::NbdCommand;
use control::operations::pool::create::PoolCreate;
use control::operations::portal::PortalCommand;
use control::operations::replicate::ReplicateCommand;
use control::operations::{Polling, PoolSelector, TableOptions};
use control::request::{PoolRequest, Request, TransferRequest};
use control::{Failure, FailureKind};
use drills::arguments::DrillArgs;
use drop_watch::arguments::WatchCommand;
use head::accounts::{TokenCommand, UserCommand};
use head::alert_receivers::AlertCommand;
use head::args::{HeadCommand, MoveArgs};
use head::audit_log::AuditCommand;
use head::pool_growth::GrowthArgs;
use lab::arguments::LabCommand;
use leg_server::arguments::LegServerCommand;
use network_bench::arguments::NetworkArgs;
use pool_access::client_export::ExportArgs;
use pool_access::common::Common;
use pool_access::confirm::Confirmations;
use pool_access::engines;
use pool_access::engines::bench::BenchCommand;
use pool_access::mount::MountArgs;
use pool_access::rescue::RescueArgs;
use pool_server::args::ServeArgs;
use pool_server::inspect::InspectArgs;
use units::PoolName;

pub use completion::write as completions;
pub use definitions::render_definitions as definitions;
pub use manual::write as manual_pages;
pub use usage_error::{usage_error, without_misleading_tips};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "bulkhead",
    version,
    long_version = long_version(),
    about = "Storage server on OpenZFS in user space: pools, volumes, iSCSI, NBD",
    long_about = "Storage server on OpenZFS in user space: pools on plain disks or files, volumes \
                  over iSCSI and NBD, no kernel module.\n\n\
                  Commands about a pool go to its server if one runs (over its control socket); \
                  otherwise they open the pool, do their work, and export it again.",
    after_help = EXAMPLES,
    after_long_help = after_long_help(),
    arg_required_else_help = true,
)]
pub struct Cli {
    /// The options of every command.
    #[command(flatten)]
    pub common: Common,
    /// The noun.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "Examples:
  bulkhead pool create tank mirror /dev/disk/by-id/scsi-a /dev/disk/by-id/scsi-b
  bulkhead volume create tank/vm0 --size 10G --sparse
  bulkhead target create iqn.2026-01.org.example:tank --pool tank
  bulkhead target map iqn.2026-01.org.example:tank tank/vm0
  bulkhead nbd export tank/vm0 --name vm0
  bulkhead filesystem create tank/home --share rw=192.0.2.0/24
  bulkhead pool-server tank
  bulkhead status";

/// With the loaded library.
fn long_version() -> &'static str {
    static TEXT: LazyLock<String> =
        LazyLock::new(|| format!("{}\n{}", env!("CARGO_PKG_VERSION"), engines::libraries()));
    &TEXT
}

fn after_long_help() -> String {
    let mut text = format!(
        "{EXAMPLES}\n\nExit codes:\n  0   the requested state is established, or already was\n"
    );
    for kind in FailureKind::ALL {
        text.push_str(&format!("  {:<3} {}\n", kind.exit_code(), kind.meaning()));
    }
    text
}

/// The nouns.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Requests to pools.
    #[command(flatten)]
    Ask(Noun),
    /// All other commands.
    #[command(flatten)]
    Perform(Program),
}

/// Requests to pools.
#[derive(Debug, Subcommand)]
pub enum Noun {
    /// Pools: create, inspect, check, repair, change
    #[command(subcommand)]
    Pool(pool::PoolCommand),
    /// Volumes: the block devices in a pool
    #[command(subcommand)]
    Volume(volume::VolumeCommand),
    /// File systems: files and directories in a pool, and their access over NFS
    #[command(subcommand)]
    Filesystem(filesystem::FilesystemCommand),
    /// Snapshots of volumes and file systems
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotCommand),
    /// iSCSI targets: their volumes, and the initiators that may use them
    #[command(subcommand)]
    Target(target::TargetCommand),
    /// NBD exports
    #[command(subcommand)]
    Nbd(NbdCommand),
    /// Portals of a pool: iSCSI portals and NBD addresses of its server
    #[command(subcommand)]
    Portal(PortalCommand),
    /// Replication of volumes to other appliances
    #[command(subcommand)]
    Replicate(ReplicateCommand),
    Status(control::operations::status::Arguments),
}

/// `bench`
#[derive(Debug, Subcommand)]
pub enum Benchmark {
    /// Those of engines.
    #[command(flatten)]
    Engine(BenchCommand),
    /// Measures the network to another host by the number of connections, and finds what bounds it
    #[command(after_help = network_bench::arguments::EXAMPLES)]
    Network(NetworkArgs),
}

/// Commands that are no requests to a pool.
#[derive(Debug, Subcommand)]
pub enum Program {
    /// Own a pool and serve its volumes until stopped
    #[command(after_help = pool_server::args::EXAMPLES)]
    PoolServer(Box<ServeArgs>),
    /// Decrypt secrets for the pool server, at the standard input and output
    #[command(hide = true, name = pool_server::keeper::COMMAND)]
    PoolKeys,
    /// Store records of the legs of pools, and lend this host's disks to other heads
    #[command(after_help = leg_server::arguments::EXAMPLES)]
    LegServer(LegServerCommand),
    /// Serve the HTTP API and the console of this head
    #[command(after_help = head::args::EXAMPLES)]
    Head(Box<HeadCommand>),
    /// Users of the API and the console
    User(UserCommand),
    /// Tokens for clients of the API
    Token(TokenCommand),
    /// Messages about alerts: test the receivers, see them, and the messages that were sent
    Alert(AlertCommand),
    /// The audit log of this head: each change with its user, the newest first
    Audit(AuditCommand),
    /// The appliance: heads, networks, fencing, pools and addresses in one file
    #[command(subcommand)]
    Appliance(ApplianceCommand),
    /// The lab: a whole appliance on this host, to rehearse its file
    #[command(subcommand)]
    Lab(LabCommand),
    /// Faults injected into a lab, with a verdict: the effect on clients, compared with the
    /// promises
    Drill(DrillArgs),
    /// The growth of a Ceph cluster: planned before it is done
    #[command(subcommand)]
    Growth(GrowthCommand),
    /// Watch this host
    #[command(subcommand)]
    Watch(WatchCommand),
    /// Benchmarks of this host
    #[command(subcommand)]
    Bench(Benchmark),
    /// The resource agents that Pacemaker runs
    #[command(subcommand)]
    Agent(agents::AgentCommand),
    /// Print the completions for a shell
    #[command(
        after_help = "Example:\n  bulkhead completion bash > /etc/bash_completion.d/bulkhead"
    )]
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the names of pools, volumes, snapshots and targets with a prefix: for completions
    #[command(hide = true)]
    Names {
        /// The prefix
        #[arg(default_value = "", allow_hyphen_values = true)]
        word: String,
        /// Those of the properties of this object instead: `pool`, `volume` or `filesystem`, and its name
        #[arg(long, num_args = 2, value_names = ["NOUN", "NAME"])]
        properties: Option<Vec<String>>,
        /// Those of devices instead, for this verb of `pool`, and the pool's name
        #[arg(long, num_args = 2, value_names = ["VERB", "POOL"], conflicts_with = "properties")]
        devices: Option<Vec<String>>,
    },
    /// Print the verbs, and the definitions of command lines: for proofs
    #[command(hide = true)]
    Definitions {
        /// Command lines, each an array of words as JSON
        examples: Vec<String>,
    },
    /// Write the manual pages into a directory
    Man {
        /// The directory; it must exist
        directory: PathBuf,
    },
}

/// A plan for requests to pools.
#[derive(Debug)]
pub enum Plan {
    /// Send a request to a pool.
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
        /// Which pool.
        pool: PoolSelector,
        /// The request.
        request: Request,
        /// How often.
        again: Polling,
    },
    /// A request to a pool, retried if its server exits in between.
    WithLongTimeOut(PoolName, PoolRequest),
    /// Send or receive a stream through the standard output or input.
    Stream {
        /// Which pool.
        pool: PoolName,
        /// The request.
        request: TransferRequest,
    },
    /// Show the events of a pool as they occur, until interrupted.
    Follow(PoolName),
    /// Create a pool.
    Create(PoolCreate, Option<PathBuf>),
    /// List the pools that can be found.
    Discover,
    /// The same with the pools of other heads of the appliance.
    ListPools,
    /// Import a pool, which writes our host id to its labels, and export it again.
    TakeOver {
        /// Which.
        pool: PoolName,
        /// The administrator confirms that the previous owner is stopped.
        previous_owner_is_stopped: bool,
        /// The selected ones of several devices with the same identity.
        devices: Vec<PathBuf>,
    },
    /// Turn copies of a pool's devices into a pool of their own.
    Reidentify {
        /// The pool that they are copies of.
        pool: PoolName,
        /// The new name.
        name: PoolName,
        /// The copies.
        devices: Vec<PathBuf>,
        /// The administrator confirms that no host uses them.
        previous_owner_is_stopped: bool,
    },
    /// Show the contents of the legs of a head.
    Inspect(InspectArgs),
    /// Put the disks of a pool of one head on record as legs.
    RecordLegs {
        /// Which.
        pool: PoolName,
        /// The configuration of legs.
        legs: PathBuf,
        /// The last host of the pool is powered off, or will never access it again.
        previous_owner_is_stopped: bool,
    },
    /// Record the administrator's confirmation that a pool may be opened although newer data may be lost.
    Confirm {
        /// Which.
        pool: PoolName,
        /// The confirmation.
        said: Confirmations,
    },
    /// Remove a pool without disks from the known pools of this host.
    Forget(PoolName),
    /// Hand a pool over to another head.
    Move(MoveArgs),
    /// Show the fill of a pool over time.
    Growth(GrowthArgs),
    /// Export a volume to a client.
    Export(ExportArgs),
    /// Begin, end or list rescues.
    Rescue(RescueArgs),
    /// Mount a file system.
    Mount(MountArgs),
}

impl Noun {
    /// Returns the plan.
    pub fn plan(self) -> Result<Plan, Failure> {
        match self {
            Self::Pool(command) => command.plan(),
            Self::Volume(command) => command.plan(),
            Self::Filesystem(command) => command.plan(),
            Self::Snapshot(command) => command.plan(),
            Self::Target(command) => command.plan(),
            Self::Nbd(command) => {
                let table = command.table();
                Ok(ask(command.request(), Request::Nbd)?.with(table))
            }
            Self::Portal(command) => ask(command.request(), Request::Portal),
            Self::Replicate(command) => ask(command.request(), Request::Replicate),
            Self::Status(args) => Ok(status::plan(args)),
        }
    }
}

/// Converts the arguments of a noun of the definitions into a plan.
fn ask<T>(
    asked: Result<(PoolSelector, T), Failure>,
    noun: impl Fn(T) -> Request,
) -> Result<Plan, Failure> {
    let (pool, request) = asked?;
    Ok(Plan::Ask {
        pool,
        request: noun(request),
        table: TableOptions::default(),
    })
}

impl Plan {
    /// Returns it with the columns and the order of the response.
    #[must_use]
    fn with(mut self, options: TableOptions) -> Self {
        if let Self::Ask { table, .. } = &mut self {
            *table = options;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Returns the plan of a command line, or the message of its refusal.
    pub fn plan(words: &str) -> Result<Option<Plan>, String> {
        let words = std::iter::once("bulkhead").chain(words.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        match cli.command {
            Command::Ask(noun) => noun.plan().map(Some).map_err(|failure| failure.message),
            Command::Perform(_) => Ok(None),
        }
    }

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_help_and_verbs_with_choices_an_example() {
        fn visit(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{} {}",
                    command.get_name(),
                    argument.get_id()
                );
            }
            command
                .get_subcommands()
                .filter(|c| c.get_name() != "help")
                .for_each(visit);
        }
        let mut command = Cli::command();
        command.build();
        visit(&command);
    }

    #[test]
    fn every_example_in_the_help_is_a_valid_command_line() {
        fn visit(command: &clap::Command, examples: &mut Vec<String>) {
            let text = command.get_after_help().map(ToString::to_string);
            let lines = text.iter().flat_map(|text| text.lines());
            let mut continued = String::new();
            for line in lines {
                let line = line.trim();
                if let Some(start) = line.strip_suffix('\\') {
                    continued.push_str(start);
                    continue;
                }
                let whole = std::mem::take(&mut continued) + line;
                // The rest of the line is for the shell.
                let ours = whole.split([';', '|', '>', '<']).next().unwrap_or_default();
                if let Some(words) = ours.strip_prefix("bulkhead ") {
                    examples.push(words.to_owned());
                }
            }
            for inner in command.get_subcommands() {
                visit(inner, examples);
            }
        }
        let mut examples = Vec::new();
        visit(&Cli::command(), &mut examples);
        assert!(examples.len() > 20, "{}", examples.len());
        for example in examples {
            // A secret is read from the source in the example, which a test must not do.
            let words = example
                .split_whitespace()
                .map(|word| word.trim_matches('\''));
            let parsed = Cli::try_parse_from(std::iter::once("bulkhead").chain(words));
            assert!(parsed.is_ok(), "{example}: {parsed:?}");
        }
    }

    #[test]
    fn manual_and_completions_contain_every_verb() {
        let directory = tempfile::tempdir().expect("directory");
        manual_pages(directory.path()).expect("written");
        let completion = completions(clap_complete::Shell::Bash);
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|noun| !noun.is_hide_set());
        for noun in shown {
            let page = format!("bulkhead-{}.1", noun.get_name());
            assert!(directory.path().join(&page).exists(), "{page}");
            for verb in noun.get_subcommands().filter(|verb| !verb.is_hide_set()) {
                let page = format!("bulkhead-{}-{}.1", noun.get_name(), verb.get_name());
                let text = std::fs::read_to_string(directory.path().join(&page));
                assert!(text.is_ok(), "{page}");
                assert!(completion.contains(verb.get_name()), "{}", verb.get_name());
            }
        }
    }

    #[test]
    fn common_command_aliases_are_accepted() {
        for words in [
            "pool ls",
            "volume ls tank",
            "volume list --pool tank",
            "volume space --pool tank",
            "volume rm tank/v --yes-destroy-data",
            "volume create tank/v --size 1.5G",
            "filesystem ls tank",
            "filesystem list --pool tank",
            "filesystem rm tank/home --yes-destroy-data",
            "filesystem clone tank/home@a tank/copy",
            "filesystem key status tank/home",
            "snapshot ls --pool tank",
            "snapshot rm tank/v@a --yes-destroy-data",
            "snapshot rollback tank/v@a",
            "snapshot schedule ls",
            "target ls tank",
            "target list --pool tank",
            "target rm iqn.2026-01.org.example:tank",
            "nbd ls --pool tank",
            "nbd rm tank/v",
            "portal ls",
            "portal rm tank --iscsi 10.0.0.1:3260,2 --nbd unix:/run/x",
            "replicate ls --pool tank",
            "status --pool tank",
            "pool status",
            "user ls",
            "token ls",
        ] {
            assert!(plan(words).is_ok(), "{words}: {:?}", plan(words));
        }
        assert!(plan("status tank --pool tank").is_err(), "said twice");
        let refused = plan("volume create tank/v --size 10MB").expect_err("not in silence");
        assert!(refused.contains("write 10M"), "{refused}");
    }

    #[test]
    fn lists_accept_a_pool_a_dataset_or_a_pattern() {
        for (words, pool, only) in [
            ("volume list", None, None),
            ("volume list tank", Some("tank"), None),
            ("volume list --pool tank", Some("tank"), None),
            ("volume list tank/vms", Some("tank"), Some("tank/vms")),
            ("filesystem list tank/*", Some("tank"), Some("tank/*")),
            ("nbd list web-?", None, Some("web-?")),
            (
                "volume space web-* --pool tank",
                Some("tank"),
                Some("web-*"),
            ),
            (
                "target list iqn.2026-01.org.example:a",
                None,
                Some("iqn.2026-01.org.example:a"),
            ),
        ] {
            let Ok(Some(Plan::Ask {
                pool: found,
                request,
                ..
            })) = plan(words)
            else {
                panic!("{words}: {:?}", plan(words));
            };
            let named: Option<PoolName> = pool.map(|pool| pool.parse().expect("a name"));
            assert_eq!(found, PoolSelector::from(named), "{words}");
            let sent = serde_json::to_value(&request).expect("JSON");
            let noun = sent.as_object().and_then(|nouns| nouns.values().next());
            let verb = noun.and_then(|verb| verb.as_object()?.values().next());
            let sent = verb.and_then(|verb| verb["only"].as_str());
            assert_eq!(sent, only, "{words}");
        }
        for (words, part) in [
            ("volume list tank --pool attic", "two pools"),
            ("volume list tank/a --pool attic", "two pools"),
            ("volume list tank/a@b", "snapshot list"),
            ("volume list ta*/b", "POOL/PATTERN"),
            ("volume list --sort siez", "possible values: name, size"),
            (
                "nbd list --columns export,siez",
                "possible values: export, volume",
            ),
        ] {
            let message = plan(words).expect_err(words);
            assert!(message.contains(part), "{words}: {message}");
        }
    }

    #[test]
    fn columns_and_order_of_a_list_are_part_of_the_plan() {
        let words = "snapshot ls tank -o name,used --sort used --reverse";
        let Ok(Some(Plan::Ask { table, .. })) = plan(words) else {
            panic!("a request");
        };
        assert_eq!(table.columns, ["name", "used"]);
        assert_eq!((table.sort.as_deref(), table.reverse), (Some("used"), true));
    }

    #[test]
    fn the_help_lists_every_exit_code() {
        let help = Cli::command().render_long_help().to_string();
        for kind in FailureKind::ALL {
            assert!(help.contains(kind.meaning()), "{kind:?}");
        }
    }

    #[test]
    fn destroy_requires_confirmation_flag() {
        for (words, word) in [
            ("pool destroy tank", "--yes-destroy-all-data"),
            ("volume destroy tank/a", "--yes-destroy-data"),
            ("filesystem destroy tank/a", "--yes-destroy-data"),
            ("snapshot destroy tank/a@b", "--yes-destroy-data"),
        ] {
            let cli =
                Cli::try_parse_from(std::iter::once("bulkhead").chain(words.split_whitespace()))
                    .expect(words);
            let Command::Ask(noun) = cli.command else {
                panic!("{words} sends no request to a pool");
            };
            // The server refuses, and lists the objects that would be destroyed.
            let asked = format!("{:?}", noun.plan().expect(words));
            assert!(asked.contains("ask: true"), "{asked}");
            let confirmed = format!("{:?}", plan(&format!("{words} {word}")).expect(words));
            assert!(confirmed.contains("ask: false"), "{confirmed}");
        }
    }

    #[test]
    fn invalid_arguments_are_refused_with_advice() {
        for (words, part) in [
            ("volume create tank/a%b --size 1G", "letters, digits"),
            ("volume create tank --size 1G", "POOL/NAME"),
            ("volume create tank/a --size 1X", "such as 10G"),
            ("volume create tank/a --size 0", "at least"),
            (
                "volume create tank/a --size 1G --block-size 5000",
                "power of two",
            ),
            (
                "volume create tank/a --size 10000 --block-size 4K",
                "multiple",
            ),
            (
                "volume create tank/a --size 1G --property novalue",
                "NAME=VALUE",
            ),
            ("pool create mirror0 /tmp/x", "ZFS's own"),
            ("pool create tank", "at least one device"),
            ("pool create tank mirror /tmp/a", "at least 2"),
            ("pool create tank raidz2 /tmp/a /tmp/b", "at least 3"),
            ("pool create tank log /tmp/a", "data device"),
            ("target create disk", "iqn.YYYY-MM"),
            ("target allow iqn.2026-01.org.example:a", "--everyone"),
            (
                "target allow iqn.2026-01.org.example:a --network 10.0.0.0/99",
                "ADDRESS/BITS",
            ),
            ("pool-server tank --iscsi 127.0.0.1", "ADDRESS:PORT"),
            ("pool-server tank --nbd unix:", "unix:PATH"),
            ("portal add tank", "--iscsi"),
            ("portal add tank --iscsi 10.0.0.1", "ADDRESS:PORT"),
            ("portal remove tank --nbd host:1", "ADDRESS:PORT"),
        ] {
            let message = plan(words).expect_err(words);
            assert!(message.contains(part), "{words}: {message}");
        }
    }
}
