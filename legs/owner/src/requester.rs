//! Where the deciding thread sends requests: to the store in this process, or to members over the network.

use std::path::PathBuf;

use leg_memory::Store;
use leg_record::{Config, MemberState};

use crate::linked::{Linked, Network};
use crate::{Failure, Reporter};

/// The members, and how they are reached.
pub enum Members {
    /// Only this process, with its store in this directory.
    Own(PathBuf),
    /// Members over the network.
    Links(Network),
}

pub(crate) enum Requester {
    Own(Box<Store>),
    Links(Box<Linked>),
}

impl Requester {
    pub(crate) fn start(
        members: Members,
        config: &Config,
        boot: u64,
        reporter: &Reporter,
    ) -> Result<Self, Failure> {
        Ok(match members {
            Members::Own(folder) => Self::Own(Box::new(Store::open(&folder, config.pool)?)),
            Members::Links(network) => {
                Self::Links(Box::new(Linked::start(network, config, boot, reporter)?))
            }
        })
    }

    /// Returns the durable state of this head's own member.
    pub(crate) fn memory(&self) -> &MemberState {
        match self {
            Self::Own(store) => store.memory(),
            Self::Links(linked) => linked.own(),
        }
    }

    pub(crate) fn linked(&mut self) -> Option<&mut Linked> {
        match self {
            Self::Own(_) => None,
            Self::Links(linked) => Some(linked),
        }
    }
}
