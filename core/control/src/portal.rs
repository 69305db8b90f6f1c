//! The portals of a server: shown, and changed while it runs.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches};
use protocol_list::{Description, Place, Places};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::PoolName;

/// Returns the option that lists addresses of `protocol`.
pub fn option(protocol: &'static Description) -> Arg {
    let parse = |text: &str| protocol.parse(text);
    Arg::new(protocol.name)
        .long(protocol.name)
        .value_name(protocol.form())
        .value_parser(ValueParser::new(parse))
        .action(ArgAction::Append)
        .help(format!("{}; may be repeated", protocol.about()))
}

/// Returns the addresses that the options of the protocols `of` list.
pub fn listen_addresses(matches: &mut ArgMatches, of: &[&Description]) -> Places {
    let listed = of.iter().map(|protocol| {
        let places = matches.remove_many::<Place>(protocol.name);
        (
            protocol.name.to_owned(),
            places.into_iter().flatten().collect(),
        )
    });
    Places(listed.collect())
}

/// An address that a server listens at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortalView {
    /// The pool that is served there.
    pub pool: PoolName,
    /// The name of the protocol.
    pub protocol: String,
    /// `ADDRESS:PORT`, or `unix:/PATH`.
    pub address: String,
    /// Its group, where clients receive addresses by groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u16>,
    /// Whether the host has the address now. Clients cannot connect before it does.
    pub is_here: bool,
    /// Sessions through it.
    pub clients: u64,
}
