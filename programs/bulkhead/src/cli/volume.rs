//! `bulkhead volume …`

use clap::{Args, Subcommand};
use control::Failure;
use control::operations::{Verb, WhichPool, dataset, one_pool, pool_named, snapshot};
use control::request::{Properties, Request, VolumeCreate, VolumeRequest};
use units::{ByteCount, PoolName, SnapshotName, VolumeName};

use super::key::{KeyArgs, KeyCommand};
use super::rescue::{self, RescueArgs};
use super::{Plan, PoolSelector, confirmed, values};

/// Block size of a volume when none is given; the same as OpenZFS's.
pub const BLOCK_SIZE_DEFAULT: u32 = 16 << 10;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum VolumeCommand {
    /// Make a volume
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// List the volumes of a pool
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead volume list tank --json"
    )]
    List(WhichPool),
    /// Show where the space goes: data, snapshots, what is below; quotas and reservations
    #[command(after_help = SPACE_EXAMPLES)]
    Space(WhichPool),
    /// Show one volume with its properties, identity and exports
    Show(VolumeArg),
    /// Change a volume's size; connected clients are told
    #[command(after_help = "Example:\n  bulkhead volume resize tank/vm0 --size 20G")]
    Resize {
        /// The volume
        volume: VolumeName,
        /// The new size, such as 20G
        #[arg(long)]
        size: ByteCount,
        /// What lies beyond the new size may be lost
        #[arg(long)]
        allow_shrink: bool,
    },
    /// Destroy a volume
    #[command(
        visible_alias = "rm",
        after_help = "Example:\n  bulkhead volume destroy tank/vm0 --yes-destroy-data"
    )]
    Destroy {
        /// The volume
        volume: VolumeName,
        /// Yes, its contents shall be lost
        #[arg(long)]
        yes_destroy_data: bool,
        /// Its snapshots too
        #[arg(long, short)]
        recursive: bool,
        /// Even though it is exported, or in use: end its exports first
        #[arg(long, visible_alias = "in-use")]
        exported: bool,
    },
    /// Give a volume another name in its pool; exports and identity stay
    #[command(after_help = "Example:\n  bulkhead volume rename tank/vm0 tank/web")]
    Rename {
        /// The volume
        volume: VolumeName,
        /// Its new name
        new_name: VolumeName,
    },
    /// Take a volume back to a snapshot, also while it is exported and in use
    ///
    /// What was written since the snapshot is lost. Clients stay connected: iSCSI initiators are told
    /// that the contents changed. What a client has in its own memory is not changed: unmount the
    /// file system, or stop the virtual machine, before.
    #[command(after_help = ROLLBACK_EXAMPLES)]
    Rollback(RollbackArgs),
    /// Look into a volume whose virtual machine is off, or into a snapshot: a local NBD socket
    ///
    /// Of a volume itself nobody else may use it meanwhile: it is refused while a client is connected,
    /// and clients that come find the unit not ready. A snapshot is shown for reading; with
    /// --writable, a clone of it that is thrown away at the end. Nothing is left behind: identities,
    /// properties and exports are as before.
    #[command(after_help = rescue::EXAMPLES)]
    Rescue(RescueArgs),
    /// Make a volume of a snapshot; the same as `snapshot clone`
    #[command(after_help = "Example:\n  bulkhead volume clone tank/vm0@monday tank/copy")]
    Clone(snapshot::clone::Arguments),
    /// Swap roles with the volume this one was cloned from, so that that one can be destroyed
    #[command(after_help = "Example:\n  bulkhead volume promote tank/copy")]
    Promote(VolumeArg),
    /// Give up the acknowledged writes of a log that cannot be replayed
    ///
    /// A volume whose intent log cannot be replayed to its end is not served, and its log is kept: see to the devices
    /// first. This is for devices that never come back. What the log holds was acknowledged as durable, and is lost.
    #[command(after_help = DISCARD_LOG_EXAMPLES)]
    DiscardLog {
        /// The volume
        volume: VolumeName,
        /// Yes, acknowledged writes shall be lost
        #[arg(long)]
        yes_lose_acknowledged_writes: bool,
    },
    /// Keys of encrypted volumes: load, unload, change
    #[command(subcommand)]
    Key(KeyCommand),
    /// Read properties
    #[command(after_help = "Example:\n  bulkhead volume get tank/vm0 compression compressratio")]
    Get {
        /// The volume, or a pool for what its volumes inherit
        #[arg(value_parser = dataset)]
        volume: String,
        /// Which properties [default: all]
        names: Vec<String>,
    },
    /// Change properties
    #[command(
        after_help = "Example:\n  bulkhead volume set tank/vm0 sync=always org.example:owner=ann"
    )]
    Set {
        /// The volume, or a pool for what its volumes inherit
        #[arg(value_parser = dataset)]
        volume: String,
        /// New values
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = control::operations::property)]
        properties: Vec<(String, String)>,
    },
    /// Forget a property's own value, so that the parent's holds
    #[command(after_help = "Example:\n  bulkhead volume inherit tank/vm0 compression")]
    Inherit {
        /// The volume
        #[arg(value_parser = dataset)]
        volume: String,
        /// Which properties
        #[arg(required = true)]
        names: Vec<String>,
    },
}

const SPACE_EXAMPLES: &str = "Examples:
  bulkhead volume space tank
  bulkhead volume set tank quota=1T

USED is the sum of the four columns after it. A quota on a dataset above volumes is for all of them
together, with their snapshots.";

const DISCARD_LOG_EXAMPLES: &str = "Example:
  bulkhead volume discard-log tank/vm0 --yes-lose-acknowledged-writes";

const CREATE_EXAMPLES: &str = "Examples:
  bulkhead volume create tank/vm0 --size 10G
  bulkhead volume create tank/db/log --size 100G --sparse --parents --compression zstd-3
  bulkhead volume create tank/db/data --size 1T --block-size 8K --sync always --dedup on
  bulkhead volume create tank/vm1 --size 10G --sparse --encryption on
  bulkhead volume create tank/vm2 --size 10G --key-format raw --key-location file:///etc/keys/vm2";

const ROLLBACK_EXAMPLES: &str = "Examples:
  bulkhead volume rollback tank/vm0@monday
  bulkhead volume rollback tank/vm0@monday --destroy-newer";

/// `volume create`
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The volume, as POOL/NAME
    volume: VolumeName,
    /// Its size, such as 10G: a multiple of the block size
    #[arg(long)]
    size: ByteCount,
    /// Unit of storage: a power of two from 512 to 16M [default: 16K]
    #[arg(long, short, value_name = "SIZE", value_parser = values::block_size)]
    block_size: Option<u32>,
    /// Do not reserve space for it
    #[arg(long, short)]
    sparse: bool,
    /// on, off, lz4, zstd, zstd-1 to zstd-19, gzip, zle
    #[arg(long, value_name = "ALGORITHM")]
    compression: Option<String>,
    /// on, fletcher4, sha256, sha512, blake3, skein, edonr
    #[arg(long, value_name = "ALGORITHM")]
    checksum: Option<String>,
    /// on, off, verify, sha256, sha512, blake3
    #[arg(long, value_name = "MODE")]
    dedup: Option<String>,
    /// standard, always, disabled
    #[arg(long, value_name = "MODE")]
    sync: Option<String>,
    /// Set another property; may be repeated
    #[arg(long, short = 'o', value_name = "NAME=VALUE", value_parser = control::operations::property)]
    property: Vec<(String, String)>,
    /// Make missing parents
    #[arg(long, short)]
    parents: bool,
    /// An existing volume of the same size is success
    #[arg(long)]
    exist_ok: bool,
    /// Encryption with a key of its own.
    #[command(flatten)]
    key: KeyArgs,
}

/// `volume rollback`, `snapshot rollback`
#[derive(Debug, Args)]
pub struct RollbackArgs {
    /// The snapshot, as POOL/NAME@SNAPSHOT
    snapshot: SnapshotName,
    /// Destroy the volume's newer snapshots
    #[arg(long)]
    destroy_newer: bool,
}

/// A volume.
#[derive(Debug, Args)]
pub struct VolumeArg {
    /// The volume
    volume: VolumeName,
}

impl VolumeCommand {
    /// What to do.
    pub fn plan(self) -> Result<Plan, Failure> {
        let ask = |pool: PoolName, request| {
            Ok(Plan::Ask {
                pool: PoolSelector::Pool(pool),
                request: Request::Volume(request),
            })
        };
        match self {
            Self::Create(args) => {
                let create = args.check()?;
                ask(create.name.pool(), VolumeRequest::Create(create))
            }
            Self::List(pool) => Ok(Plan::Ask {
                pool: pool.into(),
                request: Request::Volume(VolumeRequest::List),
            }),
            Self::Space(pool) => Ok(Plan::Ask {
                pool: pool.into(),
                request: Request::Volume(VolumeRequest::Space),
            }),
            Self::Show(arg) => ask(arg.volume.pool(), VolumeRequest::Show { name: arg.volume }),
            Self::Resize {
                volume: name,
                size,
                allow_shrink,
            } => {
                let resize = VolumeRequest::Resize {
                    size: size.get(),
                    allow_shrink,
                    name: name.clone(),
                };
                ask(name.pool(), resize)
            }
            Self::Destroy {
                volume: name,
                yes_destroy_data,
                recursive,
                exported,
            } => {
                let what = format!("the contents of {name} would be lost");
                confirmed(yes_destroy_data, "yes-destroy-data", &what)?;
                let destroy = VolumeRequest::Destroy {
                    name: name.clone(),
                    recursive,
                    exported,
                };
                ask(name.pool(), destroy)
            }
            Self::Rename { volume, new_name } => {
                one_pool([volume.pool(), new_name.pool()])?;
                let rename = VolumeRequest::Rename {
                    from: volume.clone(),
                    to: new_name,
                };
                ask(volume.pool(), rename)
            }
            Self::Rollback(args) => args.plan(),
            Self::Rescue(args) => args.plan(),
            Self::Clone(args) => {
                let asked = snapshot::clone::Clone::from_arguments(args);
                super::ask(asked, |clone| Request::Snapshot(clone.into()))
            }
            Self::Key(command) => command.plan(),
            Self::Promote(arg) => ask(
                arg.volume.pool(),
                VolumeRequest::Promote { name: arg.volume },
            ),
            Self::DiscardLog {
                volume: name,
                yes_lose_acknowledged_writes,
            } => {
                let what = format!("the last acknowledged writes to {name} would be lost");
                let word = "yes-lose-acknowledged-writes";
                confirmed(yes_lose_acknowledged_writes, word, &what)?;
                ask(name.pool(), VolumeRequest::DiscardLog { name })
            }
            Self::Get {
                volume: name,
                names,
            } => ask(pool_named(&name), VolumeRequest::Get { name, names }),
            Self::Set {
                volume: name,
                properties,
            } => {
                let properties = properties.into_iter().collect();
                ask(pool_named(&name), VolumeRequest::Set { name, properties })
            }
            Self::Inherit {
                volume: name,
                names,
            } => ask(pool_named(&name), VolumeRequest::Inherit { name, names }),
        }
    }
}

impl RollbackArgs {
    /// What to do.
    pub fn plan(self) -> Result<Plan, Failure> {
        Ok(Plan::Ask {
            pool: PoolSelector::Pool(self.snapshot.volume().pool()),
            request: Request::Volume(VolumeRequest::Rollback {
                to: self.snapshot,
                destroy_newer: self.destroy_newer,
            }),
        })
    }
}

impl CreateArgs {
    fn check(self) -> Result<VolumeCreate, Failure> {
        let size = self.size.get();
        let block = u64::from(self.block_size.unwrap_or(BLOCK_SIZE_DEFAULT));
        if size == 0 {
            let message = format!(
                "a size of 0 is not possible: use at least {}",
                ByteCount(block)
            );
            return Err(Failure::usage(message));
        }
        if size % block != 0 {
            let message = format!(
                "a size of {size} bytes is no multiple of the block size, {block} bytes: use {} bytes",
                self.size.multiples_near(block)
            );
            return Err(Failure::usage(message));
        }
        let mut properties: Properties = self.property.into_iter().collect();
        let named = [
            ("compression", self.compression),
            ("checksum", self.checksum),
            ("dedup", self.dedup),
            ("sync", self.sync),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                properties.insert(name.to_owned(), value);
            }
        }
        Ok(VolumeCreate {
            name: self.volume,
            size,
            block_size: self.block_size,
            sparse: self.sparse,
            properties,
            parents: self.parents,
            exist_ok: self.exist_ok,
            key: self.key.settings_if_given()?,
        })
    }
}
