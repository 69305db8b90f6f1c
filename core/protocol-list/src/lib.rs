//! Descriptions of the protocols, independent of their code: name, default addresses, and their syntax. Options of
//! binaries, members of requests, checks of the appliance file, the agent's messages and printed output are derived
//! from them.
//!
//! `docs/protocols.md` describes how to add one.

#![forbid(unsafe_code)]

mod place;

pub use place::{Place, Places, PlacesOfNames, socket_address};

/// Passes the list of protocols to the macro `$then`, in the order in which they are applied and shown.
///
/// **A protocol is registered by its name here.** It is the name of two files: `core/protocol-list/src/NAME.rs` describes
/// the protocol in a `PROTOCOL`, and `services/pool-server/src/servers/NAME.rs` serves it with a `start`.
#[macro_export]
macro_rules! registered {
    ($then:ident) => {
        $then! { iscsi, nbd, nfs }
    };
}

macro_rules! describe {
    ($($name:ident),* $(,)?) => {
        $(pub mod $name;)*

        /// Every protocol.
        pub const ALL: &[&Description] = &[$(&$name::PROTOCOL),*];
    };
}
registered!(describe);

/// A protocol by which clients reach volumes.
#[derive(Debug)]
pub struct Description {
    /// Its name in interfaces: the option `--NAME` sets its addresses, requests and responses have a member of that
    /// name, and metrics a label.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The name of one of its addresses: `NBD listener`.
    pub place: &'static str,
    /// The option that disables its listeners: `no-NAME`.
    pub nowhere: &'static str,
    /// Its port on the addresses of a pool.
    pub port: u16,
    /// Whether clients receive its addresses by groups, numbered from 1 on.
    pub has_groups: bool,
    /// Whether it also listens at Unix sockets.
    pub has_unix: bool,
    /// Whether it listens only while it has exports. Its port may be in use when a server starts: that is reported, and
    /// retried. It was added later: servers and heads of an older version do not support it, and do not report it.
    pub binds_late: bool,
    /// Its default addresses.
    pub places: &'static [&'static str],
    /// A further note on its addresses in the help, with a semicolon at the end; may be empty.
    pub note: &'static str,
    /// Its TLS options, if it supports TLS.
    pub tls: Option<TlsOptions>,
    /// The option that names the keytab of its service, if clients may use Kerberos.
    pub keytab: Option<&'static str>,
}

/// Options that name files of TLS, in PEM.
#[derive(Debug)]
pub struct TlsOptions {
    /// The certificate and those between it and a root.
    pub certificate: &'static str,
    /// Its private key.
    pub key: &'static str,
    /// The authorities that sign certificates of clients.
    pub authority: &'static str,
    /// Whether all clients must use TLS then. Else each export decides.
    pub is_required: bool,
}

impl PartialEq for Description {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Description {}

/// Returns the protocol with this name.
pub fn named(name: &str) -> Option<&'static Description> {
    ALL.iter().copied().find(|one| one.name == name)
}

/// Returns the title of the protocol `name`, which may be one of another version.
pub fn title(name: &str) -> &str {
    named(name).map_or(name, |protocol| protocol.title)
}

impl Description {
    /// The syntax of its addresses.
    pub const fn form(&self) -> &'static str {
        match (self.has_groups, self.has_unix) {
            (true, true) => "ADDRESS:PORT[,GROUP]|unix:PATH",
            (true, false) => "ADDRESS:PORT[,GROUP]",
            (false, true) => "ADDRESS:PORT|unix:PATH",
            (false, false) => "ADDRESS:PORT",
        }
    }

    /// Returns the help of the option that lists its addresses.
    pub fn about(&self) -> String {
        format!("{} as {}", self.place, self.form().replace('|', " or "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_names_and_ports_are_distinct() {
        for (index, one) in ALL.iter().enumerate() {
            assert_eq!(one.nowhere, format!("no-{}", one.name));
            assert!(one.note.is_empty() || one.note.ends_with(';'));
            for place in one.places {
                one.parse(place).expect("a place");
            }
            for other in &ALL[..index] {
                assert!(one.name != other.name && one.port != other.port);
            }
        }
    }
}
