//! The appliance file, `appliance.toml`: the desired heads, links, fence devices, pools and
//! addresses of one appliance. All of this crate is pure: [`parse`] reads the text, [`check()`]
//! finds mistakes, [`render`] generates the configuration of Corosync and Pacemaker, and [`plan()`]
//! compares it with the actual state. The crate `cluster` observes heads and changes them.
//!
//! The file is described field by field in `docs/formats/appliance.md`.

#![forbid(unsafe_code)]

pub mod alerts;
pub mod check;
mod edit;
pub mod facts;
mod file;
pub mod formats;
mod key;
mod parse;
pub mod placement;
pub mod plan;
pub mod ports;
pub mod reference;
pub mod render;
pub mod secret;
mod subnet;
mod timeouts;
pub mod tuning;
mod ups;
pub mod xml;

pub use check::{CheckReport, Code, Finding, HeadAsked, Place, Severity, check};
pub use edit::{Shortened, without_pool};
pub use facts::Facts;
pub use file::{
    Appliance, Bmc, Claims, Clients, Fencing, Head, Kerberos, Leg, LegGroup, LegGroupKind,
    LegWitness, Legs, Link, Network, Outlet, OwnDisk, Pdu, Pool, PoolAddress, Privilege, Quorum,
    QuorumRule, Replication, Tls, TlsProtocol, Witness,
};
pub use key::{Key, SourceMap};
pub use parse::{FILE_BYTES_MAX, Parsed, parse};
pub use plan::{Layout, Plan, desired_state, plan};

pub use subnet::{ParseSubnetError, Subnet};
pub use timeouts::{Profile, TimeoutWishes, Timeouts};
pub use ups::{Feed, Ups, UpsAddress};
