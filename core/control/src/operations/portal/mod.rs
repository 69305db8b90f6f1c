//! The portals of a server. A request is performed completely or not at all.

use clap::{ArgGroup, ArgMatches, Args, Command, FromArgMatches};
use protocol_list::{Place, Places};

use super::{PoolArgument, noun};
use crate::portal;

noun! {
    /// Requests about portals.
    PortalRequest, PortalCommand, "portal";
    verbs { add::Add, remove::Remove, set::Set }
    bare { list::List }
    nouns {}
}

/// Addresses.
#[derive(Debug)]
struct Listed(Places);

impl Args for Listed {
    fn augment_args(command: Command) -> Command {
        let names = protocol_list::ALL.iter().map(|protocol| protocol.name);
        let group = ArgGroup::new("Places").args(names);
        command
            .args(
                protocol_list::ALL
                    .iter()
                    .map(|protocol| portal::option(protocol)),
            )
            .group(group.required(true).multiple(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Listed {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(portal::listen_addresses(matches, protocol_list::ALL)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Listed {
    /// Returns absolute paths, because the server has a working directory of its own.
    fn listen_addresses(mut self) -> Places {
        for place in self.0.0.values_mut().flatten() {
            if let Place::Unix(path) = place {
                *path = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
            }
        }
        self.0
    }
}

/// A change that can disconnect clients.
#[derive(Debug, Args)]
struct Change {
    #[command(flatten)]
    pool: PoolArgument,
    #[command(flatten)]
    places: Listed,
    /// Even though clients are connected through a removed portal: their sessions are closed
    #[arg(long)]
    in_use: bool,
}
