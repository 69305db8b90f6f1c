//! The lender of a machine's disks.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use block_device::SharedDevice;
use leg_record::{Ballot, Denial, DiskId, LenderRequest, LenderResponse, MemberId, Session};
use nbd::{Access, ApplyError, DesiredExport, DesiredState, NbdServer, ServerLimits};
use rustls::ServerConfig;
use serving::{ConnectionLimits, ListenAddress};

use crate::device::{LentDevice, Right};
use crate::disk::{Disk, OpenError};
use crate::gate::{Claim, Gate};
use crate::lender_state::{StateFile, StateFileError};

mod inspect;

pub use inspect::{Inspection, contents};

use inspect::newest_roots;

/// Maximum number of disks that one host lends.
const DISKS_MAX: usize = 1024;
/// Connections of all sessions: each has one for each storage network, and a replacement.
const CONNECTIONS_MAX: usize = 4096;
/// Payload in memory.
const PAYLOAD_BYTES_MAX: u64 = 256 << 20;
/// Calls that may wait for disks at a time.
const WORKERS_MAX: usize = 64;
/// Bytes of a session's secret.
const SECRET_BYTES: usize = 16;
/// Pause between two attempts to open a disk that another process has, or to see that this one has let it go.
const DISK_PAUSE: Duration = Duration::from_millis(10);

/// How disks are lent.
#[derive(Clone)]
pub struct Settings {
    /// Where to listen.
    pub listeners: Vec<ListenAddress>,
    /// TLS, if any, which everybody must use then. It decides which certificates are let in.
    pub tls: Option<Arc<ServerConfig>>,
    /// The hosts that may connect.
    pub access: Access,
    /// Where terms and stamps are kept.
    pub folder: PathBuf,
    /// A claim is given up when the I/O of the session before has not ended by then.
    pub drain_wait: Duration,
}

/// Why a disk is not lent.
#[derive(Debug, thiserror::Error)]
pub enum LendError {
    /// It is lent.
    #[error("disk {0} is lent already, and a disk has one lender: see which path is meant")]
    Twice(u64),
    /// Too many.
    #[error("{DISKS_MAX} disks are lent: no further one is")]
    TooMany,
    /// It cannot be opened.
    #[error("lend disk {0}")]
    Open(u64, #[source] OpenError),
    /// Its stored state cannot be read.
    #[error("lend disk {0}")]
    LenderState(u64, #[source] StateFileError),
    /// The server refuses.
    #[error("lend disk {0}")]
    Serve(u64, #[source] ApplyError),
}

/// The reason why a claim has no reply.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// It is not lent here.
    #[error("disk {0} is not lent here")]
    NotLent(u64),
    /// The disk does not complete earlier requests, or a newer session claims.
    #[error("disk {0} has not completed earlier requests")]
    Busy(u64),
    /// It cannot be opened: another process has it, or it is not there.
    #[error("claim disk {0}")]
    Open(u64, #[source] OpenError),
    /// Its stored state cannot be read.
    #[error("disk {0} is not lent while its last writer is unknown")]
    Withheld(u64, #[source] StateFileError),
    /// The term could not be made durable.
    #[error("claim disk {0}")]
    LenderState(u64, #[source] StateFileError),
    /// The server refuses.
    #[error("claim disk {0}")]
    Serve(u64, #[source] ApplyError),
    /// The system has no random bytes.
    #[error("make a secret: {0}")]
    Secret(getrandom::Error),
}

/// The reply to a claim.
#[derive(Clone, PartialEq, Eq)]
pub struct Grant {
    /// For the owner.
    pub response: LenderResponse,
    /// Name of the export, if the session is admitted. The name permits writes: it is sent over an authenticated
    /// connection.
    pub export: Option<String>,
    /// Why a session was refused.
    pub denial: Option<Denial>,
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secret.
        write!(f, "Grant({:?})", self.response)
    }
}

struct Lent {
    path: PathBuf,
    /// `None`: a process of this host has it, or it is missing.
    disk: Option<Arc<Disk>>,
    /// The term of a process of this host that was given the disk.
    given_to: Option<Ballot>,
    gate: Arc<Gate>,
    /// Held while decisions are made durable, so that files are written in the order of decisions.
    kept: Arc<Mutex<StateFile>>,
    /// For read-only clients.
    inspect: Option<SharedDevice>,
    session: Option<(String, SharedDevice)>,
    /// The session that was admitted last, and the name of its export: a session that claims again while its first
    /// reply is in transit gets the same name.
    named: Option<(Session, String)>,
    /// The session that was admitted last, since the start of this lender.
    holder: Option<MemberId>,
}

impl Lent {
    /// This process has the disk.
    fn have(&mut self, disk: Arc<Disk>) {
        self.inspect = Some(Arc::new(LentDevice {
            disk: Arc::clone(&disk),
            right: Right::Inspection,
        }));
        self.disk = Some(disk);
    }
}

impl Grant {
    fn refused(session: Session, denial: Denial) -> Self {
        Self {
            response: LenderResponse::Refused(session),
            export: None,
            denial: Some(denial),
        }
    }

    fn of(response: LenderResponse, export: Option<String>) -> Self {
        Self {
            response,
            export,
            denial: None,
        }
    }
}

/// Opens a disk; tests have it wait.
type Opens = Box<dyn Fn(&Path) -> Result<Disk, OpenError> + Send + Sync>;

/// Lends disks of this host.
pub struct Lender {
    opens: Opens,
    settings: Settings,
    incarnation: u64,
    server: NbdServer,
    disks: Mutex<BTreeMap<DiskId, Lent>>,
    /// Disks with unreadable stored state. Each claim retries, and is refused until it can be read.
    withheld: Mutex<BTreeMap<DiskId, PathBuf>>,
}

impl Lender {
    /// A lender that lends nothing yet. `incarnation`: random, and new with each start.
    ///
    /// # Errors
    ///
    /// An address cannot be listened on, or TLS cannot be set up.
    pub fn start(settings: Settings, incarnation: u64) -> Result<Self, ApplyError> {
        let limits = ServerLimits {
            connections: ConnectionLimits {
                total_max: CONNECTIONS_MAX,
                ..ConnectionLimits::default()
            },
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            workers_max: WORKERS_MAX,
            ..ServerLimits::default()
        };
        let mut server = NbdServer::new(limits);
        if let Some(tls) = &settings.tls {
            server = server.with_tls(Arc::clone(tls));
        }
        let lender = Self {
            opens: Box::new(Disk::open),
            settings,
            incarnation,
            server,
            disks: Mutex::default(),
            withheld: Mutex::default(),
        };
        lender.publish(&lender.disks())?;
        Ok(lender)
    }

    /// The start of this lender.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Where it listens, with real ports.
    pub fn listeners(&self) -> Vec<ListenAddress> {
        self.server.listeners()
    }

    fn disks(&self) -> MutexGuard<'_, BTreeMap<DiskId, Lent>> {
        self.disks.lock().expect("no holder panics")
    }

    fn withheld(&self) -> MutexGuard<'_, BTreeMap<DiskId, PathBuf>> {
        self.withheld.lock().expect("no holder panics")
    }

    /// Lends the disk at `path` from now on, to the session that claims it.
    ///
    /// # Errors
    ///
    /// Another process has it, or its stored state cannot be read.
    pub fn lend(&self, id: DiskId, path: &Path) -> Result<(), LendError> {
        self.has_room(&self.disks(), id)?;
        let disk = (self.opens)(path).map_err(|error| LendError::Open(id.0, error))?;
        self.add(id, path, Some(disk))
    }

    /// The same, also for a disk that a process of this host has, or that is missing: it is opened when it is claimed,
    /// or by [`open_ahead`](Self::open_ahead). If its stored state cannot be read, its claims are refused until it can,
    /// and other disks are lent.
    ///
    /// # Errors
    ///
    /// It is lent already, or there are too many.
    pub fn lend_when_free(&self, id: DiskId, path: &Path) -> Result<(), LendError> {
        match self.add(id, path, None) {
            Err(LendError::LenderState(_, error)) => {
                let cause = std::error::Error::source(&error).map(tracing::field::display);
                tracing::error!(leg = id.0, %error, cause, "claims of this disk are refused");
                self.withheld().insert(id, path.to_owned());
                Ok(())
            }
            decided => decided,
        }
    }

    /// Opens a disk before it is claimed, so that it can be looked at, unless a process has it. May take as long as the disk does.
    pub fn open_ahead(&self, id: DiskId) {
        let path = self.disks().get(&id).map(|lent| lent.path.clone());
        let Some(path) = path else { return };
        let disk = match (self.opens)(&path) {
            Ok(disk) => Arc::new(disk),
            Err(error) => {
                tracing::info!(leg = id.0, %error, "not lent before it is claimed");
                return;
            }
        };
        let mut disks = self.disks();
        let free = disks.get_mut(&id);
        // The process that was given it concurrently opens it now.
        let free = free.filter(|lent| lent.disk.is_none() && lent.given_to.is_none());
        if let Some(lent) = free {
            lent.have(disk);
            if let Err(error) = self.publish(&disks) {
                tracing::error!(leg = id.0, %error, "it cannot be looked at");
            }
        }
    }

    /// Lends a disk after all, if its stored state can be read now.
    fn retry_withheld(&self, id: DiskId) -> Result<(), ClaimError> {
        // Its lock is not held during that time: a disk may take long to open.
        let Some(path) = self.withheld().remove(&id) else {
            return Ok(());
        };
        self.add(id, &path, None).map_err(|error| match error {
            LendError::LenderState(_, error) => {
                self.withheld().insert(id, path);
                ClaimError::Withheld(id.0, error)
            }
            LendError::Serve(_, error) => ClaimError::Serve(id.0, error),
            LendError::Open(_, error) => ClaimError::Open(id.0, error),
            LendError::Twice(_) | LendError::TooMany => ClaimError::NotLent(id.0),
        })
    }

    fn add(&self, id: DiskId, path: &Path, disk: Option<Disk>) -> Result<(), LendError> {
        let mut disks = self.disks();
        self.has_room(&disks, id)?;
        let file = StateFile::new(&self.settings.folder, id);
        let kept = file
            .read()
            .map_err(|error| LendError::LenderState(id.0, error))?;
        let mut lent = Lent {
            path: path.to_owned(),
            disk: None,
            given_to: None,
            gate: Gate::new(kept, self.incarnation),
            kept: Arc::new(Mutex::new(file)),
            inspect: None,
            session: None,
            named: None,
            holder: None,
        };
        if let Some(disk) = disk {
            lent.have(Arc::new(disk));
        }
        disks.insert(id, lent);
        self.publish(&disks)
            .map_err(|error| LendError::Serve(id.0, error))
    }

    /// Handles a request of a head; `None`, and a log line, if there is no reply. `is_own`: it came from this host,
    /// which opens its disks itself.
    pub fn response(
        &self,
        id: DiskId,
        request: LenderRequest,
        by: MemberId,
        is_own: bool,
    ) -> Option<Grant> {
        let granted = self.grant(id, request, is_own)?;
        let mut disks = self.disks();
        if let LenderResponse::Admitted(session, _) = granted.response {
            // A newer one may have been admitted since.
            let lent = disks.get_mut(&id);
            if let Some(lent) = lent.filter(|lent| lent.gate.takes(session)) {
                lent.holder = Some(by);
            }
        }
        Some(granted)
    }

    fn grant(&self, id: DiskId, request: LenderRequest, is_own: bool) -> Option<Grant> {
        let answered = match request {
            LenderRequest::Claim(session) => {
                let retried = self.retry_withheld(id);
                retried.and_then(|()| match is_own {
                    true => self.give(id, session),
                    false => self.claim(id, session),
                })
            }
            LenderRequest::Begin(session, incarnation) => {
                let begun = self.begin(id, session, incarnation);
                begun.map(|response| match response {
                    LenderResponse::Refused(session) => self.refused(id, session),
                    response => Grant::of(response, None),
                })
            }
        };
        let log = |error: &ClaimError| {
            let cause = std::error::Error::source(error).map(tracing::field::display);
            tracing::warn!(%error, cause, "a claim of a disk fails");
        };
        match (answered.inspect_err(log), request) {
            (Ok(grant), _) => Some(grant),
            // The client does not need to wait for it.
            (Err(error), LenderRequest::Claim(session)) => {
                let denial = match error {
                    ClaimError::Open(_, OpenError::InUse(_)) => Denial::InUse,
                    ClaimError::Open(..) => Denial::Unopened,
                    ClaimError::Withheld(..) => Denial::Unknown,
                    _ => return None,
                };
                Some(Grant::refused(session, denial))
            }
            (Err(_), _) => None,
        }
    }

    /// The session is refused: the blocking term, and its owner.
    fn refused(&self, id: DiskId, session: Session) -> Grant {
        let disks = self.disks();
        let denial =
            disks
                .get(&id)
                .map_or(Denial::Unknown, |lent| match lent.gate.denial(session) {
                    Denial::Term(ballot, _) => Denial::Term(ballot, lent.holder),
                    denial => denial,
                });
        Grant::refused(session, denial)
    }

    /// Claims a disk for a session. Blocks until all I/O of earlier sessions has ended.
    ///
    /// # Errors
    ///
    /// The disk does not complete its requests, or the term cannot be stored. The owner retries, or continues without
    /// the disk.
    pub fn claim(&self, id: DiskId, session: Session) -> Result<Grant, ClaimError> {
        let until = Instant::now() + self.settings.drain_wait;
        let Some(claim) = self.begin_claim(id, session, true, until)? else {
            return Ok(self.refused(id, session));
        };
        let disk = self.take_well(id, &claim, until)?;
        // No write is in progress during that time.
        let response = claim.admit(newest_roots(disk.path()));
        let export = match response {
            LenderResponse::Admitted(..) => match self.open(id, session)? {
                Some(export) => Some(export),
                None => return Ok(self.refused(id, session)),
            },
            LenderResponse::Begun(_) | LenderResponse::Refused(_) => None,
        };
        tracing::info!(leg = id.0, ?response, "a session claims a disk");
        Ok(match response {
            LenderResponse::Refused(session) => self.refused(id, session),
            response => Grant::of(response, export),
        })
    }

    /// Claims a disk for a session of a process of this host, which opens it itself. Blocks until all I/O of earlier
    /// sessions has ended. When it returns, this process has closed the disk, and admits no other session before it has
    /// the lock of the disk again: the process that was given the disk has terminated then, and with it all its I/O in
    /// the kernel.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    pub fn give(&self, id: DiskId, session: Session) -> Result<Grant, ClaimError> {
        let until = Instant::now() + self.settings.drain_wait;
        let is_given = self.is_given(id, session.ballot)?;
        let Some(claim) = self.begin_claim(id, session, !is_given, until)? else {
            return Ok(self.refused(id, session));
        };
        if !is_given {
            drop(self.take(id, until)?);
        }
        let path = self.release(id, until)?;
        let response = claim.admit(newest_roots(&path));
        if matches!(response, LenderResponse::Admitted(..)) {
            let mut disks = self.disks();
            let lent = disks.get_mut(&id).ok_or(ClaimError::NotLent(id.0))?;
            if !lent.gate.takes(session) {
                drop(disks);
                return Ok(self.refused(id, session));
            }
            lent.given_to = Some(session.ballot);
        }
        tracing::info!(
            leg = id.0,
            ?response,
            "a process of this host claims a disk"
        );
        Ok(match response {
            LenderResponse::Refused(session) => self.refused(id, session),
            response => Grant::of(response, None),
        })
    }

    /// From now on no I/O of earlier sessions begins, and none is in progress. `None`: the claim is refused. `opens`:
    /// this process opens the disk first, if it does not have it. A claim of a disk that cannot be opened changes
    /// nothing.
    fn begin_claim(
        &self,
        id: DiskId,
        session: Session,
        opens: bool,
        until: Instant,
    ) -> Result<Option<Claim>, ClaimError> {
        let (gate, kept) = {
            let disks = self.disks();
            let lent = disks.get(&id).ok_or(ClaimError::NotLent(id.0))?;
            (Arc::clone(&lent.gate), Arc::clone(&lent.kept))
        };
        if gate.refuses(session) {
            return Ok(None);
        }
        let is_opened = opens && self.take(id, until)?.1;
        let claim = {
            let mut file = kept.lock().expect("no holder panics");
            let (claim, write) = gate.claim(session);
            let written = file.keep(write, || gate.lender_state());
            written.map_err(|error| ClaimError::LenderState(id.0, error))?;
            claim
        };
        let Some(claim) = claim else {
            // By a newer claim that arrived in the meantime, and may have been given the disk.
            if is_opened {
                self.release(id, until)?;
            }
            return Ok(None);
        };
        self.cut(id)?;
        match claim.wait(until) {
            true => Ok(Some(claim)),
            false => Err(ClaimError::Busy(id.0)),
        }
    }

    /// Whether the process of that term was given the disk. Its stamp outlives a restart of this one.
    fn is_given(&self, id: DiskId, ballot: Ballot) -> Result<bool, ClaimError> {
        let disks = self.disks();
        let lent = disks.get(&id).ok_or(ClaimError::NotLent(id.0))?;
        Ok(lent.given_to == Some(ballot) || lent.gate.lender_state().mark.ballot == ballot)
    }

    /// The disk, opened if necessary; and whether it was opened. The process that was given it has terminated. The lock
    /// of all disks is not held during that time: a disk may take long to open.
    fn take(&self, id: DiskId, until: Instant) -> Result<(Arc<Disk>, bool), ClaimError> {
        loop {
            let path = {
                let disks = self.disks();
                let lent = disks.get(&id).ok_or(ClaimError::NotLent(id.0))?;
                if let Some(disk) = &lent.disk {
                    return Ok((Arc::clone(disk), false));
                }
                lent.path.clone()
            };
            let failed = match (self.opens)(&path) {
                Ok(disk) => {
                    let disk = Arc::new(disk);
                    let mut disks = self.disks();
                    let lent = disks.get_mut(&id).ok_or(ClaimError::NotLent(id.0))?;
                    lent.have(Arc::clone(&disk));
                    let published = self.publish(&disks);
                    published.map_err(|error| ClaimError::Serve(id.0, error))?;
                    return Ok((disk, true));
                }
                Err(error) => error,
            };
            let may_end = matches!(failed, OpenError::InUse(_));
            if !may_end || Instant::now() >= until {
                return Err(ClaimError::Open(id.0, failed));
            }
            std::thread::sleep(DISK_PAUSE);
        }
    }

    /// The open disk, for a claim that has drained. A disk that failed or was replaced is reopened: it may be plugged
    /// in again, and its flushes fail until then. Its unflushed writes may be lost, so the incarnation changes.
    fn take_well(
        &self,
        id: DiskId,
        claim: &Claim,
        until: Instant,
    ) -> Result<Arc<Disk>, ClaimError> {
        let (disk, _) = self.take(id, until)?;
        // A new term cannot compare the contents of another disk, so it continues with this one.
        let is_worn = match claim.is_of_new_term() {
            true => disk.has_failed() && !disk.is_replaced(),
            false => disk.has_failed() || disk.is_replaced(),
        };
        if !is_worn {
            return Ok(disk);
        }
        let path = disk.path().display();
        tracing::warn!(leg = id.0, %path, "it failed, or was replaced: it is reopened");
        drop(disk);
        claim.reopens();
        self.reopen(id, until)
    }

    /// Closes the disk, which no other session has, and opens the device or file at its path now.
    fn reopen(&self, id: DiskId, until: Instant) -> Result<Arc<Disk>, ClaimError> {
        self.release(id, until)?;
        Ok(self.take(id, until)?.0)
    }

    /// Closes the disk. Connections that look at it end first.
    fn release(&self, id: DiskId, until: Instant) -> Result<PathBuf, ClaimError> {
        let (disk, path) = {
            let mut disks = self.disks();
            let lent = disks.get_mut(&id).ok_or(ClaimError::NotLent(id.0))?;
            let (disk, path) = (lent.disk.take(), lent.path.clone());
            let inspect = lent.inspect.take();
            self.publish(&disks)
                .map_err(|error| ClaimError::Serve(id.0, error))?;
            if let Some(inspect) = inspect {
                self.server.drop_sessions_of(&inspect);
            }
            (disk.map(|disk| Arc::downgrade(&disk)), path)
        };
        while disk.as_ref().is_some_and(|disk| disk.strong_count() > 0) {
            if Instant::now() >= until {
                return Err(ClaimError::Busy(id.0));
            }
            std::thread::sleep(DISK_PAUSE);
        }
        Ok(path)
    }

    /// The record that lists the disk for this session is committed: its stamp is kept.
    ///
    /// # Errors
    ///
    /// The disk is not lent, or the stamp cannot be kept.
    pub fn begin(
        &self,
        id: DiskId,
        session: Session,
        incarnation: u64,
    ) -> Result<LenderResponse, ClaimError> {
        let (gate, kept) = {
            let disks = self.disks();
            let lent = disks.get(&id).ok_or(ClaimError::NotLent(id.0))?;
            (Arc::clone(&lent.gate), Arc::clone(&lent.kept))
        };
        let mut file = kept.lock().expect("no holder panics");
        let reply = gate.begin(session, incarnation);
        let written = file.keep(reply.write, || gate.lender_state());
        written.map_err(|error| ClaimError::LenderState(id.0, error))?;
        Ok(reply.response.unwrap_or(LenderResponse::Refused(session)))
    }

    /// Closes the connections of the session that had the disk.
    fn cut(&self, id: DiskId) -> Result<(), ClaimError> {
        let mut disks = self.disks();
        let Some(lent) = disks.get_mut(&id) else {
            return Err(ClaimError::NotLent(id.0));
        };
        let Some((_, device)) = lent.session.take() else {
            return Ok(());
        };
        self.server.drop_sessions_of(&device);
        self.publish(&disks)
            .map_err(|error| ClaimError::Serve(id.0, error))
    }

    /// An export for the session, under a secret name; none if a newer session claimed the disk since this one was admitted, and may
    /// have its export.
    fn open(&self, id: DiskId, session: Session) -> Result<Option<String>, ClaimError> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(ClaimError::Secret)?;
        let mut disks = self.disks();
        let lent = disks.get_mut(&id).ok_or(ClaimError::NotLent(id.0))?;
        if !lent.gate.takes(session) {
            return Ok(None);
        }
        let known = lent.named.take().filter(|(named, _)| *named == session);
        let name = known.map_or_else(
            || format!("{}/{}", id.0, units::hex::encode(&secret)),
            |(_, name)| name,
        );
        lent.named = Some((session, name.clone()));
        let Some(disk) = &lent.disk else {
            return Err(ClaimError::Busy(id.0));
        };
        let device = LentDevice {
            disk: Arc::clone(disk),
            right: Right::Session(Arc::clone(&lent.gate), session),
        };
        lent.session = Some((name.clone(), Arc::new(device)));
        lent.given_to = None;
        let published = self.publish(&disks);
        published.map_err(|error| ClaimError::Serve(id.0, error))?;
        Ok(Some(name))
    }

    fn publish(&self, disks: &BTreeMap<DiskId, Lent>) -> Result<(), ApplyError> {
        let mut exports = Vec::new();
        for (id, lent) in disks {
            let Some(inspect) = &lent.inspect else {
                continue;
            };
            let path = lent.path.display();
            let export = DesiredExport {
                name: id.0.to_string(),
                description: format!("{path}, to be looked at"),
                device: Arc::clone(inspect),
                read_only: true,
                access: self.settings.access.clone(),
                hidden: false,
            };
            if let Some((name, device)) = &lent.session {
                exports.push(DesiredExport {
                    name: name.clone(),
                    description: String::new(),
                    device: Arc::clone(device),
                    read_only: false,
                    hidden: true,
                    ..export.clone()
                });
            }
            exports.push(export);
        }
        let desired = DesiredState {
            listeners: self.settings.listeners.clone(),
            tls: None,
            exports,
        };
        self.server.apply(desired).map(drop)
    }

    fn has_room(&self, disks: &BTreeMap<DiskId, Lent>, id: DiskId) -> Result<(), LendError> {
        match disks.contains_key(&id) || self.withheld().contains_key(&id) {
            true => Err(LendError::Twice(id.0)),
            false if disks.len() >= DISKS_MAX => Err(LendError::TooMany),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    use leg_record::{Holder, Roots};

    fn lender(folder: &Path) -> Lender {
        let settings = Settings {
            listeners: vec!["127.0.0.1:0".parse().expect("an address")],
            tls: None,
            access: Access::Local,
            folder: folder.to_owned(),
            drain_wait: Duration::from_secs(10),
        };
        Lender::start(settings, 1).expect("started")
    }

    fn session(epoch: u64) -> Session {
        let ballot = Ballot { epoch, nonce: 1 };
        Session { ballot, number: 1 }
    }

    fn disk(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        let file = std::fs::File::create(&path).expect("file");
        file.set_len(64 << 20).expect("sized");
        path
    }

    fn is_admitted(grant: Option<&Grant>) -> bool {
        grant.is_some_and(|grant| matches!(grant.response, LenderResponse::Admitted(..)))
    }

    /// A pool was to be made of it, with a wrong path.
    #[test]
    fn failed_open_during_claim_leaves_no_state() {
        let folder = tempfile::tempdir().expect("folder");
        let lender = lender(folder.path());
        let id = DiskId(5);
        let path = folder.path().join("disk");
        lender.lend_when_free(id, &path).expect("lent");
        for is_own in [false, true] {
            let claim = LenderRequest::Claim(session(7));
            let grant = lender
                .response(id, claim, MemberId(2), is_own)
                .expect("a response");
            assert_eq!(grant.response, LenderResponse::Refused(session(7)));
        }
        assert!(!folder.path().join("5.lent").exists());
        disk(folder.path(), "disk");
        let grant = lender.response(id, LenderRequest::Claim(session(1)), MemberId(2), false);
        assert!(is_admitted(grant.as_ref()), "{grant:?}");
    }

    #[test]
    fn inspection_reports_owner_and_content_without_changes() {
        let folder = tempfile::tempdir().expect("folder");
        let lender = lender(folder.path());
        let id = DiskId(5);
        assert_eq!(lender.inspect(id).holder, Holder::NotLent);
        let path = folder.path().join("disk");
        lender.lend_when_free(id, &path).expect("lent");
        assert_eq!(lender.inspect(id).holder, Holder::Unopened);
        disk(folder.path(), "disk");
        std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| std::os::unix::fs::FileExt::write_all_at(&file, b"XFSB", 0))
            .expect("written");
        let inspect = lender.inspect(id);
        assert_eq!(
            (inspect.holder, inspect.contents.as_str()),
            (Holder::Unused, "an XFS file system")
        );
        assert!(!folder.path().join("5.lent").exists());
        let taken = Disk::open(&path).expect("opened");
        assert_eq!(lender.inspect(id).holder, Holder::Process);
        drop(taken);
        let claim = LenderRequest::Claim(session(3));
        let grant = lender.response(id, claim, MemberId(2), false);
        assert!(is_admitted(grant.as_ref()), "{grant:?}");
        assert_eq!(lender.inspect(id).enforced, session(3).ballot);
        // An older claim is refused with the blocking term.
        let older = LenderRequest::Claim(session(2));
        let grant = lender.response(id, older, MemberId(1), false);
        let denial = grant.and_then(|grant| grant.denial);
        let expected = Denial::Term(session(3).ballot, Some(MemberId(2)));
        assert_eq!(denial, Some(expected));
    }

    /// Its first reply was in transit: both name the same export.
    #[test]
    fn repeated_claim_of_session_returns_same_export() {
        let folder = tempfile::tempdir().expect("folder");
        let lender = lender(folder.path());
        let id = DiskId(5);
        let path = disk(folder.path(), "disk");
        lender.lend(id, &path).expect("lent");
        let export = |epoch| {
            let claim = LenderRequest::Claim(session(epoch));
            let grant = lender.response(id, claim, MemberId(2), false);
            grant.and_then(|grant| grant.export)
        };
        let (first, again, next) = (export(1), export(1), export(2));
        assert!(first.is_some() && first == again);
        assert!(next.is_some() && next != first);
        assert_eq!(export(1), None, "refused");
    }

    /// Plugged in again, or replaced by a new one.
    #[test]
    fn failed_or_replaced_disk_is_reopened_on_claim() {
        let folder = tempfile::tempdir().expect("folder");
        let lender = lender(folder.path());
        let id = DiskId(5);
        let path = disk(folder.path(), "disk");
        lender.lend(id, &path).expect("lent");
        let open = || lender.disks().get(&id).and_then(|lent| lent.disk.clone());
        let claim = |epoch, is_own| {
            let claim = LenderRequest::Claim(session(epoch));
            match lender.response(id, claim, MemberId(2), is_own)?.response {
                LenderResponse::Admitted(_, observed) => Some(observed.incarnation),
                _ => None,
            }
        };
        assert_eq!((claim(1, false), claim(1, false)), (Some(1), Some(1)));
        let begun = |session, incarnation| {
            let response = lender.begin(id, session, incarnation).expect("a response");
            response == LenderResponse::Begun(session)
        };
        assert!(begun(session(1), 1));
        open().expect("open").fail();
        assert_eq!(claim(0, false), None, "refused, and nothing was changed");
        let second = claim(1, false).expect("admitted");
        assert_ne!(second, 1);
        open().expect("open").flush().expect("flushed");
        assert!(!begun(session(1), 1), "of the opening before");
        assert!(begun(session(1), second));

        std::fs::rename(&path, folder.path().join("old")).expect("renamed");
        let gone = claim(2, false);
        assert_eq!(gone, Some(second), "the path may be missing only briefly");
        disk(folder.path(), "disk");
        let next = claim(3, false);
        assert_eq!(next, Some(second), "a new term continues with its disk");
        assert!(open().expect("open").is_replaced());
        assert!(claim(3, false).is_some_and(|third| third != second));
        assert!(!open().expect("open").is_replaced());
        assert_eq!(claim(1, false), None, "it refuses as before");

        open().expect("open").fail();
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(claim(4, false), None, "there is none");
        disk(folder.path(), "disk");
        assert!(claim(4, false).is_some());
        open().expect("open").fail();
        assert!(claim(5, true).is_some());
        assert!(open().is_none(), "a process of this host has it");
    }

    /// The older claim was admitted, and gets to its export only when the newer one has its own.
    #[test]
    fn older_session_does_not_replace_newer_export() {
        let folder = tempfile::tempdir().expect("folder");
        let lender = lender(folder.path());
        let id = DiskId(5);
        lender.lend(id, &disk(folder.path(), "disk")).expect("lent");
        let gate = Arc::clone(&lender.disks()[&id].gate);
        let until = Instant::now() + Duration::from_secs(10);
        let older = gate.claim(session(1)).0.expect("newest");
        assert!(older.wait(until));
        let admitted = older.admit(Roots::default());
        assert!(matches!(admitted, LenderResponse::Admitted(..)));
        let newer = lender.claim(id, session(2)).expect("claimed");
        assert!(newer.export.is_some());
        let late = lender.open(id, session(1)).expect("decided");
        assert_eq!(late, None);
        let disks = lender.disks();
        let served = disks[&id].session.as_ref().map(|(name, _)| name.clone());
        assert_eq!(served, newer.export);
    }

    /// The creation of a pool and the replacement of a disk rely on its size.
    #[test]
    fn replaced_disk_is_inspected_again_unless_in_use() {
        let folder = tempfile::tempdir().expect("folder");
        let lender = lender(folder.path());
        let id = DiskId(5);
        let path = disk(folder.path(), "disk");
        lender.lend(id, &path).expect("lent");
        let size = || {
            let disks = lender.disks();
            disks[&id].disk.as_ref().map(|disk| disk.size)
        };
        let was = size().expect("open");
        let cut = |bytes| {
            let file = std::fs::OpenOptions::new().write(true).open(&path);
            file.and_then(|file| file.set_len(bytes)).expect("sized");
        };
        cut(was / 2);
        assert_eq!(lender.inspect(id).holder, Holder::Unused);
        assert_eq!(size(), Some(was / 2));
        std::fs::rename(&path, folder.path().join("old")).expect("renamed");
        disk(folder.path(), "disk");
        lender.inspect(id);
        assert_eq!(size(), Some(was));
        let incarnation = || match lender.claim(id, session(3)).expect("claimed").response {
            LenderResponse::Admitted(_, observed) => observed.incarnation,
            response => panic!("{response:?}"),
        };
        let before = incarnation();
        lender.inspect(id);
        assert_eq!(incarnation(), before, "it is unchanged");
        cut(was / 4);
        lender.inspect(id);
        assert_ne!(incarnation(), before, "its former session detects that");
        // A pending claim keeps it open.
        cut(was);
        let gate = Arc::clone(&lender.disks()[&id].gate);
        let (waits, _) = gate.claim(session(4));
        lender.inspect(id);
        assert_eq!(size(), Some(was / 4));
        drop(waits);
        lender.inspect(id);
        assert_eq!(size(), Some(was));
    }

    /// A client reads from the disk that failed, and it hangs.
    #[test]
    fn failed_disk_is_not_reopened_during_io() {
        let folder = tempfile::tempdir().expect("folder");
        let mut lender = lender(folder.path());
        lender.settings.drain_wait = Duration::from_millis(50);
        let id = DiskId(5);
        lender.lend(id, &disk(folder.path(), "disk")).expect("lent");
        let claim = |epoch| {
            let claim = LenderRequest::Claim(session(epoch));
            is_admitted(lender.response(id, claim, MemberId(2), false).as_ref())
        };
        assert!(claim(1));
        let hangs = lender.disks().get(&id).and_then(|lent| lent.disk.clone());
        hangs.as_ref().expect("open").fail();
        assert!(!claim(2) && !claim(3));
        drop(hangs);
        assert!(claim(3));
    }

    #[test]
    fn hanging_open_does_not_block_other_disks() {
        let folder = tempfile::tempdir().expect("folder");
        let mut lender = lender(folder.path());
        let (hung, whole) = (disk(folder.path(), "hung"), disk(folder.path(), "whole"));
        let (begin, begun) = channel();
        let (goes_on, go_on) = channel::<()>();
        let go_on = Mutex::new(go_on);
        lender.opens = Box::new(move |path| {
            if path.ends_with("hung") {
                begin.send(()).expect("somebody waits");
                let _ = go_on.lock().expect("no panic").recv();
            }
            Disk::open(path)
        });
        lender.lend_when_free(DiskId(5), &hung).expect("lent");
        lender.lend_when_free(DiskId(6), &whole).expect("lent");
        std::thread::scope(|scope| {
            // Dropped when this fails, so that no thread blocks for ever.
            let goes_on = goes_on;
            let claim = LenderRequest::Claim(session(1));
            let lender = &lender;
            let slow = scope.spawn(move || lender.response(DiskId(5), claim, MemberId(2), false));
            begun.recv().expect("it is being opened");
            let (notify, reported) = channel();
            scope.spawn(move || {
                notify
                    .send(lender.response(DiskId(6), claim, MemberId(2), false))
                    .expect("somebody waits");
            });
            let grant = reported.recv_timeout(Duration::from_secs(20));
            let grant = grant.expect("it is not held up");
            assert!(is_admitted(grant.as_ref()), "{grant:?}");
            goes_on.send(()).expect("somebody waits");
            let grant = slow.join().expect("no panic");
            assert!(is_admitted(grant.as_ref()), "{grant:?}");
        });
    }
}
