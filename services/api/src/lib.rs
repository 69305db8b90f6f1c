//! The HTTP API of a head: resources, login and roles, a stream of changes, metrics, and the OpenAPI document. It
//! depends on the requests to pools ([`control`]) only; pools, the cluster and the host are behind [`Backend`].
//!
//! One table, `routes::ROUTES`, defines the paths, roles, inputs and outputs. The router, the rights and the OpenAPI
//! document are derived from it.

#![forbid(unsafe_code)]

mod account_merge;
mod accounts;
mod alerts;
pub mod audit;
pub mod audit_search;
pub mod backend;
mod call;
mod caller;
pub mod certificate;
mod connection_slots;
mod dispatch;
pub mod fill;
mod handlers;
mod hardware_faults;
mod head_reports;
mod limits;
mod metrics;
mod notifications;
mod openapi;
mod operations;
mod peer;
mod peer_keys;
mod pool_permits;
pub mod report;
mod responses;
mod role;
mod route;
mod routes;
mod sampler;
mod server;
mod sessions;
mod stream;
mod takeovers;
#[cfg(test)]
mod testing;
pub mod view;

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::UNIX_EPOCH;

use tokio::sync::Semaphore;

pub use accounts::{Accounts, TokenView, UserView};
pub use backend::{Backend, MissingKey, Notifier};
pub use hardware_faults::{DISK, SENSOR};
pub use peer::Peers;
pub use role::{Role, verb};
pub use routes::openapi_document as openapi;
pub use sampler::alerts_now;
pub use server::{ServeError, Settings, serve};

use crate::audit::Audit;
use crate::certificate::Certificate;
use crate::operations::Operations;
use crate::sampler::Sampler;

/// Concurrently hashed passwords; each uses 19 MiB and a whole processor.
const HASHED_MAX: usize = 2;

/// The state that requests share.
pub(crate) struct Api {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) accounts: Accounts,
    pub(crate) sessions: sessions::Sessions,
    pub(crate) requests: limits::Requests,
    pub(crate) logins: limits::Logins,
    pub(crate) audit: Audit,
    pub(crate) operations: Arc<Operations>,
    pub(crate) sampler: Arc<Sampler>,
    pub(crate) certificate: RwLock<Option<Arc<Certificate>>>,
    pub(crate) peers: Peers,
    pub(crate) pool_permits: pool_permits::PoolPermits,
    pub(crate) hashed: Semaphore,
    /// Slots of key queries by other heads.
    pub(crate) key_looks: Arc<Semaphore>,
    pub(crate) limits: server::Counts,
}

impl Api {
    /// Returns the user of a session's cookie, while the credential at login is still valid.
    pub(crate) fn session_of(
        &self,
        cookie: &str,
        asked: sessions::RequestOrigin,
    ) -> Option<(accounts::Identity, sessions::Session)> {
        let session = self.sessions.find(cookie, asked)?;
        let identity = self.accounts.user(&session.user)?;
        (identity.credential == session.credential).then_some((identity, session))
    }

    fn new(backend: Arc<dyn Backend>, folder: PathBuf, commands: &Path, peers: Peers) -> Arc<Self> {
        let operations = Arc::new(Operations::default());
        Arc::new(Self {
            accounts: Accounts::new(&folder),
            audit: Audit::new(&folder, commands),
            sampler: Arc::new(Sampler::new(Arc::clone(&backend), Arc::clone(&operations))),
            operations,
            backend,
            sessions: sessions::Sessions::default(),
            requests: limits::Requests::default(),
            logins: limits::Logins::default(),
            certificate: RwLock::new(None),
            peers,
            pool_permits: pool_permits::PoolPermits::default(),
            hashed: Semaphore::new(HASHED_MAX),
            key_looks: Arc::new(Semaphore::new(peer_keys::QUERIES_MAX)),
            limits: server::Counts::default(),
        })
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    UNIX_EPOCH.elapsed().unwrap_or_default().as_millis() as u64
}

pub(crate) fn tls_provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
