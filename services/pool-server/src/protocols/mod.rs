//! The protocols by which clients reach volumes.
//!
//! The server knows each of them as a [`Protocol`] and holds a list. It reads the pool's documents, has every protocol
//! serve what they say, and lists, counts, drains and ends the clients of all. `docs/protocols.md` tells how to add one.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use ::protocols::Description;
use block_device::SharedDevice;
use control::answer::{
    ExportView, FileSystemActivity, OpenFilesView, ProtocolView, RecoveryView, SessionView, Status,
};
use control::exports::{DesiredState, Problem};
use control::portal::PortalView;
use control::{Answer, Failure, FailureKind};
use file_system::FileSystem;
use serving::{ListenAddress, Peer, TlsFiles};
use units::{PoolName, VolumeName};

use super::portals::Addresses;
use super::serving::Setup;
use super::shared_pool::SharedPool;
use super::volumes::Volumes;
use operations::DocumentCache;
use operations::documents::All;
use operations::seals::Ring;

macro_rules! serve {
    ($($name:ident),* $(,)?) => {
        $(mod $name;)*

        /// Every protocol, in the order in which they are applied and shown. None serves anything yet.
        pub fn all(start: &Start<'_>) -> Vec<Box<dyn Protocol>> {
            vec![$(Box::new($name::Server::new(start))),*]
        }

        /// What is wrong with the settings of any protocol, such as files of TLS, before the pool is touched.
        pub fn check(setup: &Setup) -> Result<(), Failure> {
            $($name::Server::check_settings(setup)?;)*
            Ok(())
        }
    };
}
::protocols::registered!(serve);

/// Whether a protocol could do TLS with the files as they are now.
fn check_tls(protocol: &Description, files: Option<&TlsFiles>) -> Result<(), Failure> {
    let (Some(options), Some(files)) = (&protocol.tls, files) else {
        return Ok(());
    };
    files.check().map_err(|error| {
        Failure::from_chain(FailureKind::Usage, &error).advise(format!(
            "give PEM files that fit together: --{}, --{} and, for the authority of the clients, --{}",
            options.certificate, options.key, options.authority
        ))
    })
}

/// What a protocol begins with.
pub struct Start<'a> {
    /// Where and how to serve.
    pub setup: &'a Setup,
    /// The pool.
    pub pool: &'a Arc<SharedPool>,
    /// Its documents.
    pub documents: &'a Arc<DocumentCache>,
}

/// What is to be served now.
pub struct Wanted<'a> {
    /// The pool's documents. A protocol finds properties of its own here.
    pub documents: &'a All,
    /// What they add up to.
    pub desired: &'a DesiredState,
    /// Volumes whose keys are missing, with the dataset that has the key. They cannot be read.
    pub locked: &'a BTreeMap<VolumeName, String>,
    /// Volumes that only a rescue may use.
    pub rescued: &'a BTreeSet<VolumeName>,
    /// Datasets that must not be opened now, with all below them.
    pub closed: &'a [VolumeName],
    /// Opens the secrets in the documents.
    pub ring: &'a Ring,
    /// The devices of the volumes, opened with the first command.
    pub volumes: &'a Volumes,
    /// Where to listen.
    pub addresses: &'a Addresses,
}

/// What is served.
pub struct Served<'a> {
    /// The pool.
    pub pool: &'a PoolName,
    /// What its documents add up to.
    pub desired: &'a DesiredState,
    /// What [`Protocol::exports`] said.
    pub exports: &'a [Export],
}

/// What clients can connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name in the protocol: a target, an export.
    pub name: String,
    /// The volumes that it shows.
    pub volumes: BTreeSet<VolumeName>,
    /// The file system that it shows.
    pub file_system: Option<VolumeName>,
}

/// Who is connected. It may have several connections.
#[derive(Clone, Debug)]
pub struct Client {
    /// [`Export::name`].
    pub export: String,
    /// How the client calls itself; the export's name where the protocol has no such name.
    pub name: String,
    /// What it is, for messages: `initiator NAME from`, `NBD client`.
    pub title: String,
    /// Its connections.
    pub peers: Vec<Peer>,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.title)?;
        for peer in &self.peers {
            write!(f, " {peer}")?;
        }
        write!(f, " at {}", self.export)
    }
}

/// Who is connected, by the name of the export.
fn sessions(clients: Vec<Client>) -> BTreeMap<String, Vec<SessionView>> {
    let mut sessions: BTreeMap<_, Vec<SessionView>> = BTreeMap::new();
    for client in clients {
        let peers = client.peers.iter().map(ToString::to_string);
        let view = SessionView {
            name: client.name,
            peers: peers.collect(),
        };
        sessions.entry(client.export).or_default().push(view);
    }
    sessions
}

/// Where a protocol without groups listens, and how many clients `came_by` each.
fn portal_views(
    pool: &PoolName,
    protocol: &str,
    addresses: &Addresses,
    came_by: impl Fn(&ListenAddress) -> u64,
) -> Vec<PortalView> {
    let listeners = addresses.listeners(protocol);
    let views = listeners.iter().map(|listener| PortalView {
        pool: pool.clone(),
        protocol: protocol.to_owned(),
        address: listener.to_string(),
        group: None,
        is_here: listener
            .tcp()
            .is_none_or(|address| serving::is_here(address.ip())),
        clients: came_by(listener),
    });
    views.collect()
}

/// How clients learned that a volume has other contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentsTold {
    /// Sessions that were told.
    pub sessions: u64,
    /// Connections that were closed, because the protocol cannot tell.
    pub closed: u64,
}

impl std::ops::AddAssign for ContentsTold {
    fn add_assign(&mut self, more: Self) {
        self.sessions += more.sessions;
        self.closed += more.closed;
    }
}

/// A protocol server as the pool's server sees it. Calls of [`Self::apply`] come one after the other; the others may
/// come at any time.
pub trait Protocol: Send + Sync {
    /// Serves nothing yet.
    fn new(start: &Start<'_>) -> Self
    where
        Self: Sized;

    /// What is known of it everywhere: its name, where it may listen.
    fn description(&self) -> &'static Description;

    /// What is wrong with its settings, such as files of TLS, without a change of anything.
    fn check_settings(setup: &Setup) -> Result<(), Failure>
    where
        Self: Sized,
    {
        let _ = setup;
        Ok(())
    }

    /// The same of those that it has.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// [`Description::name`].
    fn name(&self) -> &'static str {
        self.description().name
    }

    /// What it would serve. The volumes in it stay open.
    fn exports(&self, wanted: &Wanted<'_>) -> Vec<Export>;

    /// Serves what is wanted, by the difference to what it serves: clients that nothing changes for notice nothing.
    /// Whatever can be applied is, also beside an error.
    fn apply(&self, wanted: &Wanted<'_>) -> Result<(), Failure>;

    /// What of that could not be done and kept nothing else from being served. Asked after [`Self::apply`].
    fn problems(&self) -> Vec<Problem> {
        Vec::new()
    }

    /// Whether [`Self::apply`] should be called again some seconds later, because what it could not do may be possible then, or
    /// [`Self::problems`] says something else now.
    fn wants_another_try(&self) -> bool {
        false
    }

    /// Tries again what it could not do, and can do without a look at what is wanted.
    fn try_again(&self) {}

    /// File systems of which changes were refused for lack of space, and how many since each was opened. Nothing while that cannot be
    /// known without a wait.
    fn refused_for_space(&self) -> Option<Vec<(VolumeName, u64)>> {
        Some(Vec::new())
    }

    /// What clients did in each file system that it shares.
    fn file_system_activity(&self) -> Vec<FileSystemActivity> {
        Vec::new()
    }

    /// What clients have open and locked in a file system. Nothing: it does not share that. May wait for disks.
    fn open_files(&self, name: &VolumeName) -> Option<OpenFilesView> {
        let _ = name;
        None
    }

    /// The files of a file system that it has open.
    fn files(&self, _: &VolumeName) -> Option<Arc<dyn FileSystem>> {
        None
    }

    /// Takes away what the client of that number has open and locked; whether there is such a client.
    fn expire_client(&self, client: u64) -> bool {
        let _ = client;
        false
    }

    /// Lets go of the file systems at and below `dataset`, which is about to go or to change under them. [`Self::apply`] opens them again
    /// when it is not [`Wanted::closed`] any more.
    fn close(&self, dataset: &VolumeName) {
        let _ = dataset;
    }

    /// Lets go of the file systems at and below `dataset`, which may be the pool's root. [`Self::apply`] opens them again.
    fn opened_anew(&self, dataset: &str) {
        let _ = dataset;
    }

    /// Lets go of all that it has opened itself, after [`Self::drain`]: the pool is about to be closed. May block.
    fn let_go(&self) {}

    /// A dataset, and all below it, has another name.
    fn renamed(&self, from: &VolumeName, to: &VolumeName) {
        let _ = (from, to);
    }

    /// A volume has other contents, and another size if it `was_resized`. Commands on `device` wait meanwhile.
    fn contents_changed(
        &self,
        volume: &VolumeName,
        device: &SharedDevice,
        was_resized: bool,
    ) -> ContentsTold;

    /// Says in `status` what it shows, and who is connected. A protocol with a view of its own puts that there instead.
    fn show(&self, served: &Served<'_>, status: &mut Status) {
        let listeners = self.listeners();
        if served.exports.is_empty() && listeners.is_empty() {
            return;
        }
        let mut sessions = sessions(self.clients());
        let exports = served.exports.iter().map(|export| ExportView {
            name: export.name.clone(),
            volumes: export.volumes.iter().cloned().collect(),
            sessions: sessions.remove(&export.name).unwrap_or_default(),
        });
        status.other_protocols.push(ProtocolView {
            name: self.name().to_owned(),
            listeners,
            exports: exports.collect(),
            secured_by: self.secured_by(),
            recovery: self.recovery(),
        });
    }

    /// By what clients can secure their connections now.
    fn secured_by(&self) -> Vec<String> {
        Vec::new()
    }

    /// What is left of the time in which clients take back what they had at the server before.
    fn recovery(&self) -> Option<RecoveryView> {
        None
    }

    /// Puts in who is connected, where an operation of its own answers what it exports.
    fn add_sessions(&self, answer: &mut Answer) {
        let _ = answer;
    }

    /// Who is connected.
    fn clients(&self) -> Vec<Client>;

    /// Clients with the connections that did not come in by `addresses`.
    fn clients_beyond(&self, addresses: &Addresses) -> Vec<Client>;

    /// Connections that came in by each of its `addresses`.
    fn portals(&self, pool: &PoolName, addresses: &Addresses) -> Vec<PortalView>;

    /// Where it listens, as text.
    fn listeners(&self) -> Vec<String>;

    /// The TCP addresses among these.
    fn tcp_listeners(&self) -> Vec<SocketAddr>;

    /// The other ends of all connections, also of those that have not logged in.
    fn peers(&self) -> Vec<Peer>;

    /// Says to clients that the server is about to end and that they may come back at once, if the protocol has a
    /// word for it.
    fn announce_end(&self) {}

    /// Closes connections whose local address this machine has lost, without a word; how many.
    fn silence_withdrawn(&self) -> usize;

    /// Ends all connections without another answer.
    fn drop_all(&self);

    /// Lets clients finish until `deadline`, then ends what is left.
    fn drain(&self, deadline: Instant);
}
