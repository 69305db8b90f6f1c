//! What is known of each protocol without its code: its name, where it listens, how that is written. Options of programs,
//! members of requests, the checks of the appliance file, the agent's words and what is printed follow from it.
//!
//! `docs/protocols.md` tells how to add one.

#![forbid(unsafe_code)]

mod place;

pub use place::{Place, Places, PlacesOfNames, socket_address};

/// Hands the list of protocols to the macro `$then`, in the order in which they are applied and shown.
///
/// **A protocol is registered by its name here.** It is the name of two files: `core/protocols/src/NAME.rs` describes the protocol
/// in a `PROTOCOL`, and `services/pool-server/src/protocols/NAME.rs` serves it with a `start`.
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
    /// Its name for programs: an option `--NAME` says where it listens, requests and answers have a member of that name, and
    /// metrics a label.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What an address of it is called: `NBD listener`.
    pub place: &'static str,
    /// The option that has it listen nowhere: `no-NAME`.
    pub nowhere: &'static str,
    /// Where it listens on the addresses of a pool.
    pub port: u16,
    /// Whether clients are told of its addresses by groups, numbered from 1 on.
    pub has_groups: bool,
    /// Whether it also listens at Unix sockets.
    pub has_unix: bool,
    /// Whether it listens only while there is something to serve. Its port may be taken when a server starts: that is told, and tried
    /// again. It came after the others: servers and heads of an older version do not know it, and say nothing of it.
    pub binds_late: bool,
    /// Where it listens if nothing is said.
    pub places: &'static [&'static str],
    /// What else the help says of its addresses, with a semicolon at the end; may be empty.
    pub note: &'static str,
    /// How its TLS is asked for, if it has any.
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
    /// Those who sign what clients show.
    pub authority: &'static str,
    /// Whether all clients must use TLS then. Else what is served says who must.
    pub is_required: bool,
}

impl PartialEq for Description {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Description {}

/// The one that programs call so.
pub fn named(name: &str) -> Option<&'static Description> {
    ALL.iter().copied().find(|one| one.name == name)
}

/// What people call the protocol `name`, which another version of the program may know.
pub fn title(name: &str) -> &str {
    named(name).map_or(name, |protocol| protocol.title)
}

impl Description {
    /// How an address of it is written.
    pub const fn form(&self) -> &'static str {
        match (self.has_groups, self.has_unix) {
            (true, true) => "ADDRESS:PORT[,GROUP]|unix:PATH",
            (true, false) => "ADDRESS:PORT[,GROUP]",
            (false, true) => "ADDRESS:PORT|unix:PATH",
            (false, false) => "ADDRESS:PORT",
        }
    }

    /// What the option says that lists its addresses.
    pub fn about(&self) -> String {
        format!("{} as {}", self.place, self.form().replace('|', " or "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ports_are_told_apart() {
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
