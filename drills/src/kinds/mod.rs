//! Kinds of clients that a drill has at work: one for each protocol that it watches. **A new kind is registered in [`ALL`]**, and in
//! `INITIATORS` of `proof/drill/__main__.py` by the same name.

mod iscsi;
mod nbd;

use units::PoolName;

/// Every kind, in the order in which they are made.
pub const ALL: &[Kind] = &[iscsi::KIND, nbd::KIND];

/// Files of the Python package `proof`, by their names, with their contents.
pub type Files = &'static [(&'static str, &'static str)];

/// Names such files, which are taken into this program.
macro_rules! carried {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../proof/", $path)))),*]
    };
}
pub(crate) use carried;

/// The words of a command.
pub type Words = Vec<String>;

/// A kind of client.
pub struct Kind {
    /// Its name: of the option that says to the client's program where to go, and in verdicts.
    pub name: &'static str,
    /// What the client's program needs for it.
    pub files: Files,
    /// Commands of `bulkhead` that prepare the pool for such exports.
    pub prepare: fn(&PoolName) -> Vec<Words>,
    /// The command that exports a volume.
    pub export: fn(&Exported<'_>) -> Words,
    /// How the client's program is told of an export, which is reached by `hosts`.
    pub way: fn(&Exported<'_>, hosts: &[String]) -> String,
}

/// A volume that is exported to clients.
pub struct Exported<'a> {
    /// Its pool.
    pub pool: &'a PoolName,
    /// Its name within the pool.
    pub name: &'a str,
    /// Which of the pool's volumes that are exported so it is.
    pub number: u32,
}

impl Kind {
    /// The name, within the pool, of the volume that its client writes to.
    pub fn volume(&self) -> String {
        format!("drill-{}", self.name)
    }
}

impl Exported<'_> {
    /// The volume.
    pub fn volume(&self) -> String {
        format!("{}/{}", self.pool, self.name)
    }
}

fn words<const COUNT: usize>(all: [&str; COUNT]) -> Words {
    all.map(str::to_owned).into()
}

fn joined(hosts: &[String], of: impl Fn(&String) -> String) -> String {
    hosts.iter().map(of).collect::<Vec<_>>().join(",")
}
