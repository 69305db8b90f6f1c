//! The options for listening addresses and TLS files, generated from the descriptions of the protocols.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use ::protocol_list::{ALL, Description, Place, Places, TlsOptions};
use clap::builder::ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
pub use serving::TlsFiles;

/// TLS files by the name of the protocol.
pub type Tls = BTreeMap<&'static str, TlsFiles>;

/// Keytabs by the name of the protocol, for protocols that support Kerberos.
pub type Keytabs = BTreeMap<&'static str, PathBuf>;

/// The parsed options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// The addresses.
    pub places: Places,
    /// The TLS files.
    pub tls: Tls,
    /// The keytabs.
    pub keytabs: Keytabs,
}

impl Listen {
    /// Adds the options of the protocols `of`.
    pub fn options(command: Command, of: &[&'static Description]) -> Command {
        of.iter().fold(command, |command, protocol| {
            let listed = control::portal::option(protocol).conflicts_with(protocol.nowhere);
            let nowhere = Arg::new(protocol.nowhere)
                .long(protocol.nowhere)
                .action(ArgAction::SetTrue)
                .help(format!("Do not serve {}", protocol.title));
            let tls = protocol.tls.iter();
            let tls = tls.flat_map(|options| tls_options(protocol, options));
            let keytab = protocol
                .keytab
                .map(|option| keytab_option(protocol, option));
            command
                .arg(listed.help(help(protocol)))
                .arg(nowhere)
                .args(tls)
                .args(keytab)
        })
    }

    /// Reads the parsed options.
    pub fn read(matches: &mut ArgMatches, of: &[&'static Description]) -> Self {
        let mut listen = Self {
            places: control::portal::listen_addresses(matches, of),
            tls: of.iter().filter_map(|one| tls(matches, one)).collect(),
            keytabs: of.iter().filter_map(|one| keytab(matches, one)).collect(),
        };
        for protocol in of.iter().filter(|one| !matches.get_flag(one.nowhere)) {
            let places = listen.places.0.entry(protocol.name.to_owned()).or_default();
            if places.is_empty() {
                let parse = |text: &&str| protocol.parse(text).expect("a valid default");
                *places = protocol.places.iter().map(parse).collect();
            }
        }
        listen
    }

    /// Every address, with the protocol's name.
    fn all(&self) -> impl Iterator<Item = (&str, &Place)> {
        let all = self.places.0.iter();
        all.flat_map(|(name, places)| places.iter().map(|place| (name.as_str(), place)))
    }

    /// The TCP addresses.
    pub fn tcp(&self) -> Vec<SocketAddr> {
        self.all().filter_map(|(_, place)| place.tcp()).collect()
    }

    /// The TCP addresses of protocols that listen from the start.
    pub fn early_tcp(&self) -> Vec<SocketAddr> {
        let early = self.all().filter(|(name, _)| !binds_late(name));
        early.filter_map(|(_, place)| place.tcp()).collect()
    }

    /// The TCP addresses of protocols that listen once there is an export.
    pub fn late_tcp(&self) -> Vec<SocketAddr> {
        let late = self.all().filter(|(name, _)| binds_late(name));
        late.filter_map(|(_, place)| place.tcp()).collect()
    }

    /// The paths of its sockets.
    pub fn unix(&self) -> impl Iterator<Item = &PathBuf> {
        self.all().filter_map(|(_, place)| match place {
            Place::Unix(path) => Some(path),
            Place::Tcp(_) | Place::Grouped(..) => None,
        })
    }

    /// The protocol that is configured for `address`.
    pub fn protocol_at(&self, address: SocketAddr) -> Option<&'static Description> {
        let mut all = self.all();
        let found = all.find(|(_, place)| place.tcp() == Some(address));
        found.and_then(|(name, _)| ::protocol_list::named(name))
    }
}

fn binds_late(name: &str) -> bool {
    ::protocol_list::named(name).is_some_and(|protocol| protocol.binds_late)
}

fn help(protocol: &Description) -> String {
    let note = match protocol.note {
        "" => String::new(),
        note => format!(" {note}"),
    };
    let default = match protocol.places {
        [] => "none".to_owned(),
        places => places.join(" and "),
    };
    format!(
        "{}; port 0 selects a free one;{note} may be repeated [default: {default}]",
        protocol.about(),
    )
}

fn keytab_option(protocol: &Description, option: &'static str) -> Arg {
    let title = protocol.title;
    Arg::new(option)
        .long(option)
        .value_name("FILE")
        .value_parser(ValueParser::path_buf())
        .help(format!(
            "Keytab with the keys of the {title} server; {title} clients then may use Kerberos"
        ))
}

fn keytab(
    matches: &mut ArgMatches,
    protocol: &'static Description,
) -> Option<(&'static str, PathBuf)> {
    let file = matches.remove_one::<PathBuf>(protocol.keytab?)?;
    Some((protocol.name, file))
}

fn tls_options(protocol: &Description, options: &TlsOptions) -> [Arg; 3] {
    let title = protocol.title;
    let file = |option: &'static str, with: &'static str, help: String| {
        Arg::new(option)
            .long(option)
            .value_name("FILE")
            .value_parser(ValueParser::path_buf())
            .requires(with)
            .help(help)
    };
    let (certificate, key) = (options.certificate, options.key);
    let who = match options.is_required {
        true => "then must",
        false => "then may",
    };
    let about =
        format!("Certificate (chain) of the {title} server, PEM; {title} clients {who} use TLS");
    let must = if options.is_required { "must" } else { "may" };
    let authority =
        format!("Authority that signs the certificates that {title} clients {must} show, PEM");
    [
        file(certificate, key, about),
        file(key, certificate, "Its private key, PEM".to_owned()),
        file(options.authority, certificate, authority),
    ]
}

fn tls(
    matches: &mut ArgMatches,
    protocol: &'static Description,
) -> Option<(&'static str, TlsFiles)> {
    let options = protocol.tls.as_ref()?;
    let mut file = |option: &str| matches.remove_one::<PathBuf>(option);
    let files = TlsFiles {
        certificate: file(options.certificate)?,
        key: file(options.key)?,
        authority: file(options.authority),
    };
    Some((protocol.name, files))
}

impl Args for Listen {
    fn augment_args(command: Command) -> Command {
        Self::options(command, ALL)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Listen {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::read(matches, ALL))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
