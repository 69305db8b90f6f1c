//! `bulkhead portal …`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use control::portal::{IscsiPortal, PortalRequest};
use control::request::Request;

use super::Plan;
use super::serve::NbdAddress;
use control::operations::WhichPool;

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum PortalCommand {
    /// List where pools are served, with the number of clients that came in there
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  bulkhead portal list tank --json"
    )]
    List(WhichPool),
    /// Serve a pool at another address, too, for as long as its server runs
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// The pool.
        #[command(flatten)]
        pool: WhichPool,
        /// Where.
        #[command(flatten)]
        places: Places,
        /// Also at an address that this machine does not have yet
        #[arg(long)]
        may_come: bool,
    },
    /// Serve a pool at an address no more; the others go on
    #[command(visible_alias = "rm", after_help = REMOVE_EXAMPLES)]
    Remove(Change),
    /// Serve a pool at these addresses and no others, which this machine may not have yet
    #[command(after_help = SET_EXAMPLES)]
    Set(Change),
}

/// A change after which clients may be served no more.
#[derive(Debug, Args)]
pub struct Change {
    /// The pool.
    #[command(flatten)]
    pool: WhichPool,
    /// Where.
    #[command(flatten)]
    places: Places,
    /// Even though clients came in by what goes: their sessions end
    #[arg(long)]
    in_use: bool,
}

const ADD_EXAMPLES: &str = "Examples:
  bulkhead portal add tank --iscsi 10.1.0.1:3260,2
  bulkhead portal add tank --nbd 10.1.0.1:10809 --nbd unix:/run/tank.nbd

The next start of the server goes by its own options --iscsi and --nbd: add the address there, too. On a
pair the addresses stand in the appliance file, and `bulkhead appliance apply` tells the running servers.";

const REMOVE_EXAMPLES: &str = "Examples:
  bulkhead portal remove tank --iscsi 10.1.0.1:3260
  bulkhead portal remove tank --nbd 10.1.0.1:10809 --in-use

The next start of the server goes by its own options --iscsi and --nbd: take the address out there, too.";

const SET_EXAMPLES: &str = "Example:
  bulkhead portal set tank --iscsi 10.0.0.1:3260,1 --iscsi 10.1.0.1:3260,2 --nbd 10.0.0.1:10809

`bulkhead appliance apply` does this where a pool is served.";

/// Addresses.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct Places {
    /// iSCSI portal as ADDRESS:PORT[,GROUP]; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT[,GROUP]")]
    iscsi: Vec<IscsiPortal>,
    /// NBD listener as ADDRESS:PORT or unix:PATH; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT|unix:PATH")]
    nbd: Vec<NbdAddress>,
}

impl Places {
    fn told(self) -> (Vec<IscsiPortal>, Vec<String>) {
        let from_here = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let listeners = self.nbd.iter().map(|listener| match listener {
            // The server has a working directory of its own.
            NbdAddress::Unix(path) => NbdAddress::Unix(from_here(path)).to_string(),
            NbdAddress::Tcp(_) => listener.to_string(),
        });
        (self.iscsi, listeners.collect())
    }
}

impl Change {
    fn told(
        self,
        request: impl FnOnce(Vec<IscsiPortal>, Vec<String>, bool) -> PortalRequest,
    ) -> (WhichPool, PortalRequest) {
        let (iscsi, nbd) = self.places.told();
        (self.pool, request(iscsi, nbd, self.in_use))
    }
}

impl PortalCommand {
    /// What to do.
    pub fn plan(self) -> Plan {
        let (pool, request) = match self {
            Self::List(pool) => (pool, PortalRequest::List),
            Self::Add {
                pool,
                places,
                may_come,
            } => {
                let (iscsi, nbd) = places.told();
                let request = PortalRequest::Add {
                    iscsi,
                    nbd,
                    may_come,
                };
                (pool, request)
            }
            Self::Remove(change) => change.told(|iscsi, nbd, in_use| PortalRequest::Remove {
                iscsi: iscsi.iter().map(|portal| portal.address).collect(),
                nbd,
                in_use,
            }),
            Self::Set(change) => {
                change.told(|iscsi, nbd, in_use| PortalRequest::Set { iscsi, nbd, in_use })
            }
        };
        Plan::Ask {
            pool: pool.into(),
            request: Request::Portal(request),
        }
    }
}
