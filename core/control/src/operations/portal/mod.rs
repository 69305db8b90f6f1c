//! Where a server listens. NBD addresses are `ADDRESS:PORT` or `unix:/PATH`. Either all that a request says is done,
//! or nothing.

use std::path::PathBuf;

use clap::Args;

use super::{WhichPool, noun};
use crate::portal::{IscsiPortal, NbdAddress};

noun! {
    /// Requests about where the server listens.
    PortalRequest, PortalCommand, "portal";
    verbs { add::Add, remove::Remove, set::Set }
    bare { list::List }
    nouns {}
}

/// Addresses.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Places {
    /// iSCSI portal as ADDRESS:PORT[,GROUP]; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT[,GROUP]")]
    iscsi: Vec<IscsiPortal>,
    /// NBD listener as ADDRESS:PORT or unix:PATH; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT|unix:PATH")]
    nbd: Vec<NbdAddress>,
}

impl Places {
    /// As the server is told, which has a working directory of its own.
    fn told(self) -> (Vec<IscsiPortal>, Vec<String>) {
        let from_here = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let listeners = self.nbd.iter().map(|listener| match listener {
            NbdAddress::Unix(path) => NbdAddress::Unix(from_here(path)).to_string(),
            NbdAddress::Tcp(_) => listener.to_string(),
        });
        (self.iscsi, listeners.collect())
    }
}

/// A change after which clients may be served no more.
#[derive(Debug, Args)]
struct Change {
    #[command(flatten)]
    pool: WhichPool,
    #[command(flatten)]
    places: Places,
    /// Even though clients came in by what goes: their sessions end
    #[arg(long)]
    in_use: bool,
}
