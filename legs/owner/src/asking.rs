//! Whom the deciding thread asks: the store in this process, or members by messages.

use std::path::PathBuf;

use leg_memory::Store;
use leg_record::{Config, Memory};

use crate::linked::{Linked, Network};
use crate::{Failure, Reporter};

/// Who remembers, and how it is reached.
pub enum Members {
    /// This process alone, in this folder.
    Own(PathBuf),
    /// Members by messages.
    Links(Network),
}

pub(crate) enum Asking {
    Own(Box<Store>),
    Links(Box<Linked>),
}

impl Asking {
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

    /// What this head's own member has on stable storage.
    pub(crate) fn memory(&self) -> &Memory {
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
