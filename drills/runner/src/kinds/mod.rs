//! Kinds of clients that a drill has at work: one for each protocol that it watches. **A new kind is registered in [`ALL`]**, and in
//! `INITIATORS` of `proof/drill/__main__.py` by the same name.

mod iscsi;
mod nbd;
mod nfs;

use units::PoolName;

/// Every kind, in the order in which they are made.
pub const ALL: &[Kind] = &[iscsi::KIND, nbd::KIND, nfs::KIND];

/// The kind of the client of single blocks, `proof/drill/blocks.py`.
pub const OF_BLOCKS: &Kind = &nbd::KIND;

/// Files of the Python package `proof`, by their names, with their contents.
pub type Files = &'static [(&'static str, &'static str)];

/// Lists files that are embedded in this binary.
macro_rules! carried {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../proof/", $path)))),*]
    };
}
pub(crate) use carried;

/// The words of a command.
pub type Words = Vec<String>;

/// A kind of client.
pub struct Kind {
    /// Its name: in options of the client's process, and in verdicts.
    pub name: &'static str,
    /// The files that the client's process needs for it.
    pub files: Files,
    /// Commands of `bulkhead` that prepare the pool for such exports.
    pub prepare: fn(&PoolName) -> Vec<Words>,
    /// The kind of dataset that such clients use.
    pub store: Store,
    /// The URI of an export that is reached at `hosts`.
    pub client_address: fn(&Exported<'_>, hosts: &[String]) -> String,
}

/// The dataset that a kind of client uses.
#[derive(Clone, Copy)]
pub enum Store {
    /// A volume.
    Volume {
        /// The command that exports one.
        export: fn(&Exported<'_>) -> Words,
    },
    /// A file system.
    FileSystem {
        /// The command that creates a file system and shares it.
        create: fn(&Exported<'_>) -> Words,
    },
}

/// A volume or a file system that is exported to clients.
pub struct Exported<'a> {
    /// Its pool.
    pub pool: &'a PoolName,
    /// Its name within the pool.
    pub name: &'a str,
    /// Which of those of its kind in the pool it is.
    pub number: u32,
}

impl Kind {
    /// The name, within the pool, of the dataset that its client writes to.
    pub fn dataset(&self) -> String {
        format!("drill-{}", self.name)
    }

    /// The commands that create the dataset of this size for its clients, and export it.
    pub fn make(&self, of: &Exported<'_>, size: &str) -> Vec<Words> {
        match self.store {
            Store::Volume { export } => vec![create_volume(of, size), export(of)],
            Store::FileSystem { create } => vec![create(of)],
        }
    }
}

impl Exported<'_> {
    /// The dataset.
    pub fn dataset(&self) -> String {
        format!("{}/{}", self.pool, self.name)
    }
}

/// The command that creates a volume.
pub fn create_volume(of: &Exported<'_>, size: &str) -> Words {
    let volume = of.dataset();
    words(["volume", "create", &volume, "--size", size, "--sparse"])
}

fn words<const COUNT: usize>(all: [&str; COUNT]) -> Words {
    all.map(str::to_owned).into()
}

fn joined(hosts: &[String], of: impl Fn(&String) -> String) -> String {
    hosts.iter().map(of).collect::<Vec<_>>().join(",")
}
