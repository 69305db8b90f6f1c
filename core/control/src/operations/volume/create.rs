//! `volume create`

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{ByteCount, PoolName, VolumeName};

use crate::answer::Done;
use crate::key::KeySettings;
use crate::operations::key::KeyOptions;
use crate::operations::{
    Changed, Example, Examples, Least, Operation, PoolSelector, Route, Source, Verb, block_size,
    property, schema_of,
};
use crate::request::Properties;
use crate::{Effect, Failure, effect};

/// Block size of a volume when none is given; the same as OpenZFS's.
const BLOCK_SIZE_DEFAULT: u32 = 16 << 10;

/// Create a volume
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "VolumeCreate")]
pub struct Create {
    /// Its name.
    pub name: VolumeName,
    /// Size in bytes: a multiple of the block size.
    pub size: u64,
    /// Block size in bytes: a power of two, 512 to 16M.
    pub block_size: Option<u32>,
    /// No space is reserved.
    pub sparse: bool,
    /// Native (`compression`, `checksum`, `dedup`, `sync`, ...) and user (`a:b`) properties.
    pub properties: Properties,
    /// Create missing parents.
    pub parents: bool,
    /// Succeed if a volume of the same size exists.
    pub exist_ok: bool,
    /// A key of its own. Without one it inherits: plain, or encrypted with the parent's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeySettings>,
}

impl Operation for Create {
    fn effect(&self, _: &PoolName) -> Effect {
        let Self {
            name: _,
            size: _,
            block_size: _,
            sparse: _,
            properties,
            parents: _,
            exist_ok: _,
            key,
        } = self;
        effect::make(properties, key.as_ref())
    }

    fn properties(&self) -> Option<Changed<'_>> {
        Some(Changed::new(self.name.as_str(), self.properties.keys()))
    }

    fn opens_volumes(&self) -> bool {
        true
    }
}

const EXAMPLES: Examples = Examples::of(&[
    Example::of("bulkhead volume create tank/vm0 --size 10G")
        .prepared_by(&["bulkhead volume destroy tank/vm0 --yes-destroy-data --recursive"]),
    Example::of("bulkhead volume create tank/db/log --size 100G --sparse --parents --compression zstd-3")
        .prepared_by(&["bulkhead volume destroy tank/db/log --yes-destroy-data"]),
    Example::of("bulkhead volume create tank/db/data --size 1T --block-size 8K --sync always --dedup on")
        .prepared_by(&["bulkhead volume destroy tank/db/data --yes-destroy-data"]),
    Example::of("bulkhead volume create tank/vm1 --size 10G --sparse --encryption on")
        .elsewhere("prompts for a passphrase: tests/head/encryption.rs"),
    Example::of("bulkhead volume create tank/vm2 --size 10G --key-format raw --key-location file:///etc/keys/vm2")
        .elsewhere("needs a key: tests/head/encryption.rs"),
]);

/// Create a volume
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The volume, as POOL/NAME
    volume: VolumeName,
    /// Its size, such as 10G: a multiple of the block size
    #[arg(long)]
    size: ByteCount,
    /// Unit of storage: a power of two from 512 to 16M [default: 16K]
    #[arg(long, short, value_name = "SIZE", value_parser = block_size)]
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
    #[arg(long, short = 'o', value_name = "NAME=VALUE", value_parser = property)]
    property: Vec<(String, String)>,
    /// Create missing parents
    #[arg(long, short)]
    parents: bool,
    /// Succeed if a volume of the same size exists
    #[arg(long)]
    exist_ok: bool,
    /// Encryption with a key of its own.
    #[command(flatten)]
    key: KeyOptions,
}

impl Arguments {
    fn check_size(&self) -> Result<(), Failure> {
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
        Ok(())
    }
}

impl Verb for Create {
    type Arguments = Arguments;
    const EXAMPLES: Examples = EXAMPLES;
    const ROUTES: &'static [Route] = &[Route::post(
        "/pools/{pool}/volumes",
        "Make a volume",
        schema_of::<Done>,
        Least::Change,
    )
    .body(r#"{"name": "tank/vm0", "size": 10737418240}"#)
    .with(&[
        ("block_size", Source::Default("null")),
        ("sparse", Source::Default("false")),
        ("properties", Source::Default("{}")),
        ("parents", Source::Default("false")),
        ("exist_ok", Source::Default("false")),
    ])];

    /// Prompts for the key, if it shall have one of its own.
    fn from_arguments(arguments: Arguments) -> Result<(PoolSelector, Self), Failure> {
        arguments.check_size()?;
        let mut properties: Properties = arguments.property.into_iter().collect();
        let named = [
            ("compression", arguments.compression),
            ("checksum", arguments.checksum),
            ("dedup", arguments.dedup),
            ("sync", arguments.sync),
        ];
        for (name, value) in named {
            if let Some(value) = value {
                properties.insert(name.to_owned(), value);
            }
        }
        let create = Self {
            name: arguments.volume,
            size: arguments.size.get(),
            block_size: arguments.block_size,
            sparse: arguments.sparse,
            properties,
            parents: arguments.parents,
            exist_ok: arguments.exist_ok,
            key: arguments.key.settings_if_given()?,
        };
        Ok((PoolSelector::Pool(create.name.pool()), create))
    }
}
