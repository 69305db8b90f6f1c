//! The ports that the servers of pools use on the pools' addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use protocol_list::{Description, Place};
use schemars::JsonSchema;
use serde::Serialize;

use crate::file::Pool;

/// The addresses at which the server of a pool listens, by protocol: the name of the option of `bulkhead pool-server`
/// and `bulkhead portal`, and its values: `ADDRESS:PORT`, or `ADDRESS:PORT,GROUP` for a protocol with groups. Every
/// protocol is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Portals(BTreeMap<String, BTreeSet<String>>);

impl Default for Portals {
    fn default() -> Self {
        let names = protocol_list::ALL.iter().map(|one| one.name.to_owned());
        Self(names.map(|name| (name, BTreeSet::new())).collect())
    }
}

impl Portals {
    /// Returns the portals of `pool`: every protocol at each address, and a group for each in the order of the file.
    pub fn of(pool: &Pool) -> Self {
        let listed = protocol_list::ALL.iter().map(|protocol| {
            let addresses = pool.addresses.iter().map(|one| one.address);
            let places = (1..).zip(addresses).map(|(group, address)| {
                place(protocol, SocketAddr::new(address, protocol.port), group).to_string()
            });
            (protocol.name.to_owned(), places.collect())
        });
        Self(listed.collect())
    }

    /// Adds an `address` of the protocol `name`, as a server reported it.
    pub fn insert(&mut self, name: &str, address: &str, group: Option<u16>) {
        let places = self.0.entry(name.to_owned()).or_default();
        places.insert(match group {
            Some(group) => format!("{address},{group}"),
            None => address.to_owned(),
        });
    }

    /// Returns the portals that a server that reports `known` can accept: its version may not support every protocol.
    #[must_use]
    pub fn supported_by(&self, known: &Self) -> Self {
        let is_known = |name: &str| {
            let binds_late = protocol_list::named(name).is_some_and(|protocol| protocol.binds_late);
            let told = known.0.get(name).is_some_and(|places| !places.is_empty());
            told || !binds_late
        };
        let all = self.0.iter().map(|(name, places)| {
            let places = if is_known(name) {
                places.clone()
            } else {
                BTreeSet::new()
            };
            (name.clone(), places)
        });
        Self(all.collect())
    }

    /// Returns the arguments of a command line.
    pub fn words(&self) -> Vec<String> {
        let options = self.0.iter().flat_map(|(name, places)| {
            let option = format!("--{name}");
            places
                .iter()
                .flat_map(move |one| [option.clone(), one.clone()])
        });
        options.collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(BTreeSet::is_empty)
    }

    /// Returns whether both contain the same address, whatever its group.
    pub fn overlaps(&self, other: &Self) -> bool {
        let place = |one: &String| one.split(',').next().unwrap_or_default().to_owned();
        self.0.iter().any(|(name, places)| {
            let theirs = other.0.get(name).into_iter().flatten();
            let theirs: BTreeSet<String> = theirs.map(place).collect();
            places.iter().any(|one| theirs.contains(&place(one)))
        })
    }

    /// Those that are not in `other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let none = BTreeSet::new();
        let more = self.0.iter().map(|(name, places)| {
            let theirs = other.0.get(name).unwrap_or(&none);
            (name.clone(), places.difference(theirs).cloned().collect())
        });
        Self(more.collect())
    }
}

const fn place(protocol: &Description, address: SocketAddr, group: u16) -> Place {
    match protocol.has_groups {
        true => Place::Grouped(address, group),
        false => Place::Tcp(address),
    }
}
