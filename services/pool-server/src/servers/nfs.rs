//! NFS: file systems of the pool, for the clients that the property `sharenfs` names.

mod clients;
mod files;
mod handle_key;
mod lazy_files;
mod shares;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use ::nfs::exports::{ExportError, Shared};
use ::nfs::handles::HandleKey;
use ::nfs::server::{
    ApplyError, ConfigurationError, ConnectionStatus, DesiredState, KeytabError, LockPorts,
    NfsServer, NoPorts, ServerLimits,
};
use ::nfs::v4::Presentation;
use ::protocol_list::Description;
use ::protocol_list::nfs::PROTOCOL;
use block_device::SharedDevice;
use control::answer::{FileSystemActivity, OpenFilesView, RecoveryView};
use control::exports::Problem;
use control::failure::chain;
use control::portal::PortalView;
use control::{Failure, FailureKind};
use engine::dataset::DatasetError;
use file_system::{FileSystem, FileSystemId};
use operations::DocumentCache;
use serving::{EarlySockets, ListenAddress, ListenError, Peer, TlsFiles};
use takeover::budget::STATE_LEASE;
use units::{PoolName, VolumeName};

use super::super::portals::Addresses;
use super::super::serving::Setup;
use super::super::shared_pool::SharedPool;
use super::{Client, ContentsNotified, Export, FileProtocol, Protocol, Start, Wanted, portal_views};
use clients::PoolRecord;
use files::OpenFiles;
use shares::{Shares, is_below};

/// [`STATE_LEASE`] in seconds.
const LEASE_SECONDS: u32 = STATE_LEASE.as_secs() as u32;

/// Mode bits that grant access to the group and other users.
const MODE_OTHERS: u32 = 0o077;

/// The NFS server of a pool.
pub struct Server {
    server: NfsServer,
    pool: Arc<SharedPool>,
    documents: Arc<DocumentCache>,
    early: Arc<EarlySockets>,
    /// Addresses that open with the first share. Read by a status, which never blocks on `state`.
    unused: Mutex<Vec<ListenAddress>>,
    tls: Option<TlsFiles>,
    keytab: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The desired shares; `None` if they could not be read.
    shares: Option<Shares>,
    files: OpenFiles,
    /// Closed file systems that may reopen, with their identities.
    aside: BTreeMap<String, FileSystemId>,
    /// Signs the file handles of clients. `None` before the first share.
    handle_key: Option<HandleKey>,
    /// The last applied state.
    desired: DesiredState,
    problems: Vec<Problem>,
    /// A step failed that may succeed later without a change.
    has_failed: bool,
    /// The last reported problems of ports and keys, which change by themselves.
    told: Vec<Problem>,
    /// The exports were requested before.
    was_asked: bool,
    /// The shares are not read yet.
    is_unread: bool,
}

impl State {
    fn problem(&mut self, subject: &str, sentence: String) {
        self.problems.push(Problem {
            subject: subject.to_owned(),
            sentence,
        });
    }
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    fn unused(&self) -> MutexGuard<'_, Vec<ListenAddress>> {
        self.unused.lock().expect("no holder panics")
    }

    fn client(one: ConnectionStatus) -> Client {
        let export = one.export.to_string();
        Client {
            name: export.clone(),
            export,
            title: "NFS client".to_owned(),
            peers: vec![one.peer],
        }
    }

    /// The desired shares. Without an NFS address they only produce a problem message, so a server that has just
    /// started reads them at the next retry: clients of other protocols must not be delayed.
    fn read_shares(&self, state: &mut State, wanted: &Wanted<'_>) -> Option<Shares> {
        let pool = self.pool.get()?;
        let has_address = wanted.addresses.of(PROTOCOL.name).next().is_some();
        state.is_unread = !has_address && !std::mem::replace(&mut state.was_asked, true);
        if state.is_unread {
            return Some(Shares::default());
        }
        let shares = Shares::read(&*pool);
        let failed = |error: &DatasetError| {
            tracing::error!(error = chain(error), "read the NFS shares");
        };
        let mut shares = shares.inspect_err(failed).ok()?;
        Some(match has_address {
            true => {
                shares.note_missing_tls(self.tls.as_ref());
                if self.keytab.is_none() {
                    shares.remove_kerberos();
                }
                shares
            }
            false => {
                let other = wanted.addresses.tcp().next();
                shares.without_address(pool.name(), other.map(|address| address.ip()))
            }
        })
    }

    /// Loads the pool's key for file handles. No file system is shared before the key is durable.
    fn find_handle_key(&self, state: &mut State) -> bool {
        if state.handle_key.is_some() {
            return true;
        }
        let Some(pool) = self.pool.get() else {
            return false;
        };
        match handle_key::of(&*pool, &self.documents) {
            Ok(key) => state.handle_key = Some(key),
            Err(failure) => {
                tracing::error!(%failure, "the key of file handles");
                let mut sentence = format!("nothing is shared over NFS: {}", failure.message);
                if let Some(advice) = &failure.advice {
                    sentence.push_str("; ");
                    sentence.push_str(advice);
                }
                state.has_failed = true;
                state.problem(pool.name().as_str(), sentence);
            }
        }
        state.handle_key.is_some()
    }

    /// Closes these file systems. Clients must retry until their state is known.
    fn close_temporarily(&self, is_meant: impl Fn(&str) -> bool) {
        let state = &mut *self.state();
        if !state.files.names().any(&is_meant) {
            return;
        }
        let mut desired = state.desired.clone();
        let shared = desired.shared.into_iter();
        let (closed, shared): (Vec<_>, Vec<_>) = shared.partition(|one| is_meant(&one.name));
        desired.shared = shared;
        let aside = closed.into_iter().map(|one| (one.name, one.files.id()));
        state.aside.extend(aside);
        desired.closed = state.aside.values().copied().collect();
        self.apply_supported(state, desired);
        state.has_failed = true;
        state.files.keep_only(|name| !is_meant(name));
    }

    /// Problems of ports and keys, until they resolve by themselves.
    fn passing_problems(&self) -> Vec<Problem> {
        let without_ports = self.server.without_ports();
        let keytab = self.server.keytab_problem();
        let configuration = self.server.configuration_problem();
        let ports = without_ports.iter().map(no_ports);
        let keys = keytab.iter().map(no_keytab);
        let open = self.keytab.as_deref().and_then(open_to_others);
        let configuration = configuration.iter().map(no_configuration);
        ports.chain(keys).chain(configuration).chain(open).collect()
    }

    /// Applies `desired`, without the parts that the server refuses.
    fn apply_supported(&self, state: &mut State, mut desired: DesiredState) {
        loop {
            let refused = match self.server.apply(desired.clone()) {
                Ok(()) | Err(ApplyError::Ended) => break,
                Err(refused) => refused,
            };
            match &refused {
                ApplyError::Listen(error) => {
                    state.has_failed = true;
                    state.problem(&error.address.to_string(), taken(error));
                    desired.listeners.retain(|one| *one != error.address);
                }
                ApplyError::Exports(error) => {
                    let (ExportError::SameIdentity { other: name, .. }
                    | ExportError::BadName { name }) = error;
                    state.problem(name, format!("it is not shared over NFS: {error}"));
                    desired.shared.retain(|one| one.name != *name);
                }
                ApplyError::Tls(error) => {
                    let why = chain(error);
                    state.problem("TLS of NFS", format!("clients cannot use it: {why}"));
                    desired.tls = None;
                }
                ApplyError::Ended => break,
            }
        }
        state.desired = desired;
    }
}

fn is_at_or_below(name: &str, dataset: &VolumeName) -> bool {
    let name = name.parse::<VolumeName>();
    name.is_ok_and(|name| name.is_at_or_below(dataset))
}

fn taken(error: &ListenError) -> String {
    let why = match error.cause.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another process listens there: stop it, for example the kernel's NFS server \
             (`systemctl disable --now nfs-server`)"
                .to_owned()
        }
        _ => chain(error),
    };
    format!("NFS is not served there, and this is retried every few seconds; {why}")
}

fn no_ports(no: &NoPorts) -> Problem {
    let why = match no.cause.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another process listens there: stop it, mostly by `systemctl disable --now rpcbind.socket rpcbind`".to_owned()
        }
        std::io::ErrorKind::PermissionDenied => {
            "the server may not listen at a port below 1024: give it the capability CAP_NET_BIND_SERVICE".to_owned()
        }
        _ => no.cause.to_string(),
    };
    Problem {
        subject: no.address.to_string(),
        sentence: format!(
            "clients of NFS 3 find no locks there, and have to mount with `nolock` and the ports; this is retried every few seconds; {why}"
        ),
    }
}

fn no_keytab(error: &KeytabError) -> Problem {
    Problem {
        subject: "Kerberos of NFS".to_owned(),
        sentence: format!(
            "no further client can use it: {}; this is retried every few seconds",
            chain(error)
        ),
    }
}

fn no_configuration(error: &ConfigurationError) -> Problem {
    Problem {
        subject: "Kerberos of NFS".to_owned(),
        sentence: format!(
            "all users that come by it are nobody: {}; put the krb5.conf of the realm there, with its default_realm; \
             who came before stays nobody for up to an hour",
            chain(error)
        ),
    }
}

/// A process that can read the keys of a service can impersonate any user to it.
fn open_to_others(keytab: &Path) -> Option<Problem> {
    let mode = std::fs::metadata(keytab).ok()?.permissions().mode() & 0o7777;
    let shown = keytab.display();
    (mode & MODE_OTHERS != 0).then(|| Problem {
        subject: "Kerberos of NFS".to_owned(),
        sentence: format!(
            "the keytab {shown} (mode {mode:04o}) is readable beyond its owner, and its keys allow to impersonate any user: run `chmod 0600 {shown}`"
        ),
    })
}

/// Checks that the server can read this keytab.
fn check_keytab(keytab: Option<&Path>) -> Result<(), Failure> {
    keytab.map_or(Ok(()), ::nfs::server::check_keytab).map_err(|error| {
        Failure::from_chain(FailureKind::Usage, &error).advise(
            "put the keys of nfs/NAME@REALM there, for a name of the pool's address: `kadmin -q \"ktadd -k FILE nfs/NAME\"`",
        )
    })
}

fn presentation(pool: &SharedPool) -> Presentation {
    let owner = pool.get().map(|pool| {
        let guid = pool.status().map_or(0, |status| status.guid);
        format!("bulkhead:{}:{guid:016x}", pool.name())
    });
    let mut start = [0; 8];
    getrandom::fill(&mut start).expect("the kernel has random numbers");
    Presentation {
        owner: owner.unwrap_or_default().into_bytes(),
        start: u64::from_ne_bytes(start),
        // Replaced by the pool's key before the first share.
        handle_key: HandleKey::random(),
        lease_seconds: LEASE_SECONDS,
        grace_seconds: LEASE_SECONDS,
    }
}

impl Protocol for Server {
    fn new(start: &Start<'_>) -> Self {
        let setup = start.setup;
        let limits = ServerLimits {
            connections: setup.connections,
            workers_max: setup.workers,
            ports: LockPorts {
                nfs: Some(PROTOCOL.port),
                ..LockPorts::default()
            },
            ..ServerLimits::default()
        };
        let record = PoolRecord::new(Arc::clone(start.pool), Arc::clone(start.documents));
        let earlier = record.read();
        let server = NfsServer::after(presentation(start.pool), limits, earlier, Arc::new(record));
        Self {
            server: server.with_early(Arc::clone(&setup.early)),
            pool: Arc::clone(start.pool),
            documents: Arc::clone(start.documents),
            early: Arc::clone(&setup.early),
            tls: setup.tls.get(PROTOCOL.name).cloned(),
            keytab: setup.keytabs.get(PROTOCOL.name).cloned(),
            state: Mutex::default(),
            unused: Mutex::default(),
        }
    }

    fn description(&self) -> &'static Description {
        &PROTOCOL
    }

    fn check_settings(setup: &Setup) -> Result<(), Failure> {
        super::check_tls(&PROTOCOL, setup.tls.get(PROTOCOL.name))?;
        match check_keytab(setup.keytabs.get(PROTOCOL.name).map(PathBuf::as_path)) {
            // On a takeover no administrator sees the message, and clients of volumes must not be delayed.
            Err(failure) if setup.is_of_a_cluster => {
                tracing::error!(%failure, "clients of NFS cannot use Kerberos");
                Ok(())
            }
            checked => checked,
        }
    }

    fn check(&self) -> Result<(), Failure> {
        super::check_tls(&PROTOCOL, self.tls.as_ref())
    }

    fn exports(&self, wanted: &Wanted<'_>) -> Vec<Export> {
        let mut state = self.state();
        state.shares = self.read_shares(&mut state, wanted);
        let shares = state.shares.iter().flat_map(|shares| shares.all.keys());
        let exports = shares.map(|name| Export {
            name: name.clone(),
            volumes: [].into(),
            file_system: name.parse().ok(),
        });
        exports.collect()
    }

    /// A problem of one file system or address does not keep the rest from being served.
    fn apply(&self, wanted: &Wanted<'_>) -> Result<(), Failure> {
        let state = &mut *self.state();
        let Some(shares) = state.shares.take().filter(|_| self.pool.get().is_some()) else {
            state.has_failed = true;
            return Ok(());
        };
        let is_closed = |name: &String| wanted.closed.iter().any(|top| is_at_or_below(name, top));
        let to_open = shares.all.keys().filter(|name| !is_closed(name));
        let to_open = to_open.filter_map(|name| Some((name, *shares.ids.get(name)?)));
        let opened = state.files.open_all(&self.pool, to_open);
        let is_open = |name: &str| state.files.get(name).is_some();
        state
            .aside
            .retain(|name, _| shares.all.contains_key(name) && !is_open(name));
        state.problems = shares.problems;
        state.problems.extend(opened.problems);
        state.has_failed = opened.has_failed || state.is_unread;
        let shared = shares.all.iter().filter_map(|(name, share)| {
            Some(Shared {
                name: name.clone(),
                share: share.clone(),
                files: state.files.get(name)?,
            })
        });
        let shared: Vec<_> = shared.collect();
        let is_needed = !shared.is_empty() || opened.has_waiting || !state.aside.is_empty();
        let is_needed = is_needed && self.find_handle_key(state);
        let listeners = wanted.addresses.listeners(PROTOCOL.name);
        if !is_needed {
            let unused: Vec<SocketAddr> = listeners.iter().filter_map(ListenAddress::tcp).collect();
            self.early.forget(&unused);
        }
        *self.unused() = if is_needed { Vec::new() } else { listeners.clone() };
        let desired = DesiredState {
            listeners: if is_needed { listeners } else { Vec::new() },
            tls: self.tls.clone(),
            keytab: self.keytab.clone(),
            handle_key: state.handle_key.clone(),
            shared: if is_needed { shared } else { Vec::new() },
            has_more_to_come: opened.has_waiting,
            closed: state.aside.values().copied().collect(),
            names: shares.names,
        };
        tracing::debug!(
            listeners = desired.listeners.len(),
            shared = desired.shared.len(),
            has_more_to_come = desired.has_more_to_come,
            "applying NFS shares"
        );
        self.apply_supported(state, desired);
        state.files.keep_only(|name| shares.all.contains_key(name));
        Ok(())
    }

    fn problems(&self) -> Vec<Problem> {
        let mut state = self.state();
        state.told = self.passing_problems();
        state.problems.iter().chain(&state.told).cloned().collect()
    }

    fn wants_retry(&self) -> bool {
        // A locked state means that another thread is applying.
        let state = self.state.try_lock();
        state.is_ok_and(|state| {
            state.has_failed || state.files.has_failed() || state.told != self.passing_problems()
        })
    }

    fn try_again(&self) {
        self.server.try_ports_again();
        self.server.try_keytab_again();
    }

    fn as_files(&self) -> Option<&dyn FileProtocol> {
        Some(self)
    }

    fn secured_by(&self) -> Vec<String> {
        let ways = [
            ("TLS", self.server.has_tls()),
            ("Kerberos", self.server.has_kerberos()),
        ];
        let usable = ways.into_iter().filter(|(_, is_usable)| *is_usable);
        usable.map(|(name, _)| name.to_owned()).collect()
    }

    fn renamed(&self, from: &VolumeName, to: &VolumeName) {
        self.state().files.renamed(from, to);
    }

    /// Not applicable: only clients write to a file system.
    fn contents_changed(&self, _: &VolumeName, _: &SharedDevice, _: bool) -> ContentsNotified {
        ContentsNotified::default()
    }

    fn clients(&self) -> Vec<Client> {
        let clients = self.server.clients().into_iter();
        clients.map(Self::client).collect()
    }

    fn clients_beyond(&self, addresses: &Addresses) -> Vec<Client> {
        let left = addresses.listeners(PROTOCOL.name);
        let clients = self.server.clients().into_iter();
        let lost = clients.filter(|one| !left.contains(&one.listener));
        lost.map(Self::client).collect()
    }

    fn portals(&self, pool: &PoolName, addresses: &Addresses) -> Vec<PortalView> {
        let clients = self.server.clients();
        let came_by = |listener: &ListenAddress| {
            let came = clients.iter().filter(|one| one.listener == *listener);
            came.count() as u64
        };
        portal_views(pool, PROTOCOL.name, addresses, came_by)
    }

    fn addresses(&self) -> Vec<String> {
        let unused: Vec<String> = self.unused().iter().map(ToString::to_string).collect();
        self.listeners().into_iter().chain(unused).collect()
    }

    fn listeners(&self) -> Vec<String> {
        let listeners = self.server.listeners();
        listeners.iter().map(ToString::to_string).collect()
    }

    fn tcp_listeners(&self) -> Vec<SocketAddr> {
        let listeners = self.server.listeners();
        listeners.iter().filter_map(ListenAddress::tcp).collect()
    }

    fn peers(&self) -> Vec<Peer> {
        self.server.peers()
    }

    fn silence_removed_addresses(&self) -> usize {
        self.server.silence_removed_addresses()
    }

    fn drop_all(&self) {
        self.server.drop_all();
    }

    fn drain(&self, deadline: Instant) {
        self.server.drain(deadline);
    }
}

impl FileProtocol for Server {
    fn refused_for_space(&self) -> Option<Vec<(VolumeName, u64)>> {
        // The holder may take long to open file systems.
        Some(self.state.try_lock().ok()?.files.refused_for_space())
    }

    fn activity(&self) -> Vec<FileSystemActivity> {
        let all = self.server.activity();
        all.iter()
            .map(|(name, one)| usage::activity(name, one))
            .collect()
    }

    fn open_files(&self, name: &VolumeName) -> Option<OpenFilesView> {
        let file_system = self.state().files.get(name.as_str())?.id();
        Some(usage::view(name, &self.server.usage(file_system)))
    }

    fn files(&self, name: &VolumeName) -> Option<Arc<dyn FileSystem>> {
        self.state().files.get(name.as_str())
    }

    fn expire_client(&self, client: u64) -> bool {
        let is_known = self.server.expire(client);
        tracing::debug!(client, is_known, "revoked the state of an NFS client");
        is_known
    }

    fn close(&self, dataset: &VolumeName) {
        self.close_temporarily(|name| is_at_or_below(name, dataset));
    }

    fn close_for_reopen(&self, dataset: &str) {
        self.close_temporarily(|name| name == dataset || is_below(name, dataset));
    }

    fn close_all(&self) {
        self.server.forget_files();
        self.state().files.keep_only(|_| false);
    }

    fn recovery(&self) -> Option<RecoveryView> {
        let left = self.server.recovery();
        tracing::trace!(?left, "rest of the NFS grace period");
        left.map(|left| RecoveryView {
            remaining_ms: left.remaining_ms,
            awaited_clients: left.awaited.map(|count| count as u64),
        })
    }
}
