//! The lender of a machine's disks.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use block_device::SharedDevice;
use labels::Device;
use nbd::{Access, ApplyError, DesiredExport, DesiredState, NbdServer, ServerLimits};
use rustls::ServerConfig;
use serving::{ConnectionLimits, ListenAddress};
use takeover::legs::{DiskId, LenderAnswer, LenderRequest, Session};

use crate::device::{LentDevice, Right};
use crate::disk::{Disk, OpenError};
use crate::gate::Gate;
use crate::kept::{KeptError, KeptFile};

/// Disks that one machine lends.
const DISKS_MAX: usize = 1024;
/// Connections of all sessions: each has one for each storage network and one that takes its place.
const CONNECTIONS_MAX: usize = 4096;
/// Payload in memory.
const PAYLOAD_BYTES_MAX: u64 = 256 << 20;
/// Calls that may wait for disks at a time.
const WORKERS_MAX: usize = 64;
/// Bytes of a session's secret.
const SECRET_BYTES: usize = 16;

/// How disks are lent.
#[derive(Clone)]
pub struct Settings {
    /// Where to listen.
    pub listeners: Vec<ListenAddress>,
    /// TLS, if any, which everybody must use then. It decides which certificates are let in.
    pub tls: Option<Arc<ServerConfig>>,
    /// Who may connect.
    pub access: Access,
    /// Where tenures and stamps are kept.
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
    /// What it is known for cannot be read.
    #[error("lend disk {0}")]
    Kept(u64, #[source] KeptError),
    /// The server refuses.
    #[error("lend disk {0}")]
    Serve(u64, #[source] ApplyError),
}

/// Why a claim has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// It is not lent here.
    #[error("disk {0} is not lent here")]
    NotLent(u64),
    /// The disk does not end what was asked of it, or a newer session claims.
    #[error("disk {0} has not ended what it was asked before")]
    Busy(u64),
    /// The tenure could not be made durable.
    #[error("claim disk {0}")]
    Kept(u64, #[source] KeptError),
    /// The server refuses.
    #[error("claim disk {0}")]
    Serve(u64, #[source] ApplyError),
    /// The system has no random bytes.
    #[error("make a secret: {0}")]
    Secret(getrandom::Error),
}

/// What a claim is answered with.
#[derive(Clone, PartialEq, Eq)]
pub struct Grant {
    /// For the owner.
    pub answer: LenderAnswer,
    /// Name of the export, if the session is admitted. Who knows it may write: it goes over a connection that proves who is
    /// at its other end.
    pub export: Option<String>,
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secret.
        write!(f, "Grant({:?})", self.answer)
    }
}

struct Lent {
    disk: Arc<Disk>,
    gate: Arc<Gate>,
    /// Held while what is decided is made durable, so that files are written in the order of decisions.
    kept: Arc<Mutex<KeptFile>>,
    /// For anybody who only reads.
    look: SharedDevice,
    session: Option<(String, SharedDevice)>,
}

/// Lends disks of this machine.
pub struct Lender {
    settings: Settings,
    incarnation: u64,
    server: NbdServer,
    disks: Mutex<BTreeMap<DiskId, Lent>>,
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
            settings,
            incarnation,
            server,
            disks: Mutex::default(),
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

    /// Lends the disk at `path` from now on, to whoever claims it.
    ///
    /// # Errors
    ///
    /// Somebody has it, or what is known of it cannot be read.
    pub fn lend(&self, id: DiskId, path: &Path) -> Result<(), LendError> {
        let mut disks = self.disks();
        if disks.contains_key(&id) {
            return Err(LendError::Twice(id.0));
        }
        if disks.len() >= DISKS_MAX {
            return Err(LendError::TooMany);
        }
        let disk = Disk::open(path).map_err(|error| LendError::Open(id.0, error))?;
        let disk = Arc::new(disk);
        let file = KeptFile::new(&self.settings.folder, id);
        let kept = file.read().map_err(|error| LendError::Kept(id.0, error))?;
        let look = LentDevice {
            disk: Arc::clone(&disk),
            right: Right::Look,
        };
        let lent = Lent {
            disk,
            gate: Gate::new(kept, self.incarnation),
            kept: Arc::new(Mutex::new(file)),
            look: Arc::new(look),
            session: None,
        };
        disks.insert(id, lent);
        self.publish(&disks)
            .map_err(|error| LendError::Serve(id.0, error))
    }

    /// Answers a request as it came from a head; nothing, and a line in the log, if there is no answer.
    pub fn answer(&self, id: DiskId, request: LenderRequest) -> Option<Grant> {
        let answered = match request {
            LenderRequest::Claim(session) => self.claim(id, session),
            LenderRequest::Begin(session, incarnation) => {
                let begun = self.begin(id, session, incarnation);
                begun.map(|answer| Grant {
                    answer,
                    export: None,
                })
            }
        };
        let log = |error: &ClaimError| {
            let cause = std::error::Error::source(error).map(tracing::field::display);
            tracing::warn!(%error, cause, "a claim of a disk is not answered");
        };
        answered.inspect_err(log).ok()
    }

    /// Claims a disk for a session. Waits until all I/O of others has ended.
    ///
    /// # Errors
    ///
    /// The disk does not end what it was asked, or the tenure cannot be kept. The owner asks again, or goes on without the disk.
    pub fn claim(&self, id: DiskId, session: Session) -> Result<Grant, ClaimError> {
        let (disk, gate, kept) = {
            let disks = self.disks();
            let lent = disks.get(&id).ok_or(ClaimError::NotLent(id.0))?;
            (
                Arc::clone(&lent.disk),
                Arc::clone(&lent.gate),
                Arc::clone(&lent.kept),
            )
        };
        let claim = {
            let mut file = kept.lock().expect("no holder panics");
            let (claim, write) = gate.claim(session);
            let written = file.keep(write, || gate.kept());
            written.map_err(|error| ClaimError::Kept(id.0, error))?;
            claim
        };
        let Some(claim) = claim else {
            let answer = LenderAnswer::Refused(session);
            return Ok(Grant {
                answer,
                export: None,
            });
        };
        self.cut(id)?;
        if !claim.wait(Instant::now() + self.settings.drain_wait) {
            return Err(ClaimError::Busy(id.0));
        }
        // Nothing is written meanwhile.
        let answer = claim.admit(newest_group(disk.path()));
        let export = match answer {
            LenderAnswer::Admitted(..) => Some(self.open(id, session)?),
            LenderAnswer::Begun(_) | LenderAnswer::Refused(_) => None,
        };
        tracing::info!(disk = id.0, ?answer, "a session claims a disk");
        Ok(Grant { answer, export })
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
    ) -> Result<LenderAnswer, ClaimError> {
        let (gate, kept) = {
            let disks = self.disks();
            let lent = disks.get(&id).ok_or(ClaimError::NotLent(id.0))?;
            (Arc::clone(&lent.gate), Arc::clone(&lent.kept))
        };
        let mut file = kept.lock().expect("no holder panics");
        let reply = gate.begin(session, incarnation);
        let written = file.keep(reply.write, || gate.kept());
        written.map_err(|error| ClaimError::Kept(id.0, error))?;
        Ok(reply.answer.unwrap_or(LenderAnswer::Refused(session)))
    }

    /// Ends the connections of the session that had the disk.
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

    /// An export for the session, under a name that nobody can guess.
    fn open(&self, id: DiskId, session: Session) -> Result<String, ClaimError> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(ClaimError::Secret)?;
        let name = format!("{}/{}", id.0, units::hex::encode(&secret));
        let mut disks = self.disks();
        let lent = disks.get_mut(&id).ok_or(ClaimError::NotLent(id.0))?;
        let device = LentDevice {
            disk: Arc::clone(&lent.disk),
            right: Right::Session(Arc::clone(&lent.gate), session),
        };
        lent.session = Some((name.clone(), Arc::new(device)));
        let published = self.publish(&disks);
        published.map_err(|error| ClaimError::Serve(id.0, error))?;
        Ok(name)
    }

    fn publish(&self, disks: &BTreeMap<DiskId, Lent>) -> Result<(), ApplyError> {
        let mut exports = Vec::new();
        for (id, lent) in disks {
            let path = lent.disk.path().display();
            let export = DesiredExport {
                name: id.0.to_string(),
                description: format!("{path}, to be looked at"),
                device: Arc::clone(&lent.look),
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
}

/// The newest transaction group whose root is on the disk; 0 if there is none.
fn newest_group(path: &Path) -> u64 {
    let device = Device::open(path).ok().flatten();
    let newest = device.and_then(|device| device.newest_uberblock());
    newest.map_or(0, |root| root.txg)
}
