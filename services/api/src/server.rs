//! The HTTP server: on the loopback only until there is a certificate and a user, then on the configured addresses. A
//! slow, silent or numerous peer is limited to its share.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::backend::Backend;
use crate::caller::Link;
use crate::certificate::{self, CERTIFICATE, Certificate};
use crate::connection_slots::{ConnectionSlot, ConnectionSlots};
use crate::{Api, Peers};

/// Longest time for the head of a request, including the idle time before it.
const HEAD_WAIT: Duration = Duration::from_secs(30);
/// Longest TLS handshake.
const TLS_WAIT: Duration = Duration::from_secs(10);
/// Data that is not acknowledged for this long closes a connection.
const SENT_WAIT: Duration = Duration::from_secs(60);
/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Polling interval of certificate and users.
const SETTINGS_INTERVAL: Duration = Duration::from_secs(1);
/// Delay after the system is out of connections.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(200);

/// The settings of a server.
pub struct Settings {
    /// The configured addresses; until these are allowed, the loopback at the same ports.
    pub listen: Vec<SocketAddr>,
    /// Directory of accounts, certificate and audit logs.
    pub folder: PathBuf,
    /// The log of changes by commands.
    pub commands: PathBuf,
    /// The other heads.
    pub peers: Peers,
    /// Called with each listening address, as `http://…` or `https://…`.
    pub listening: Box<dyn Fn(&str) + Send + Sync>,
}

/// Why the server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// No address is available.
    #[error("listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        cause: std::io::Error,
    },
    /// A thread could not be started.
    #[error("start the sampling thread")]
    Thread(#[source] std::io::Error),
}

/// Connections and refusals, by reason.
#[derive(Default)]
pub(crate) struct Counts {
    /// Slots for connections.
    pub(crate) connection_slots: ConnectionSlots,
    /// Open streams.
    pub(crate) streams: AtomicUsize,
    /// Connections that were dropped in favour of new ones before their clients were authenticated.
    pub(crate) refused: AtomicU64,
    /// Requests beyond the rate limit of their peer.
    pub(crate) limited: AtomicU64,
    /// Connections with a failed TLS handshake.
    pub(crate) unencrypted: AtomicU64,
}

/// Serves until the process terminates.
///
/// # Errors
///
/// No address is available at the start.
pub async fn serve(backend: Arc<dyn Backend>, settings: Settings) -> Result<(), ServeError> {
    let peers = settings.peers.clone();
    let api = Api::new(
        backend,
        settings.folder.clone(),
        &settings.commands,
        peers.clone(),
    );
    let mut listeners = Listeners {
        api: Arc::clone(&api),
        router: crate::dispatch::router(&api),
        settings,
        listening: BTreeMap::new(),
        certificate_of: None,
    };
    listeners.arrange().await?;
    let looking = Arc::clone(&api);
    std::thread::Builder::new()
        .name("sampler".into())
        .spawn(move || {
            looking
                .sampler
                .run(&peers, &looking.accounts, &looking.audit)
        })
        .map_err(ServeError::Thread)?;
    loop {
        tokio::time::sleep(SETTINGS_INTERVAL).await;
        if let Err(error) = listeners.arrange().await {
            tracing::warn!(error = %control::failure::chain(&error), "cannot listen");
        }
    }
}

struct Listeners {
    api: Arc<Api>,
    router: Router,
    settings: Settings,
    listening: BTreeMap<SocketAddr, JoinHandle<()>>,
    /// Modification time of the certificate in use.
    certificate_of: Option<SystemTime>,
}

impl Listeners {
    /// Listens on the currently allowed addresses only.
    async fn arrange(&mut self) -> Result<(), ServeError> {
        self.read_certificate();
        let has_certificate = self
            .api
            .certificate
            .read()
            .expect("no holder panics")
            .is_some();
        let is_open = has_certificate && self.api.accounts.has_users();
        let wanted = wanted(&self.settings.listen, is_open);
        let unwanted: Vec<SocketAddr> = self
            .listening
            .keys()
            .filter(|address| !wanted.contains(address))
            .copied()
            .collect();
        for address in unwanted {
            if let Some(task) = self.listening.remove(&address) {
                task.abort();
                // The socket is closed when the task is gone.
                let _ = task.await;
            }
        }
        for address in wanted {
            if self.listening.contains_key(&address) {
                continue;
            }
            let failed = |cause| ServeError::Listen { address, cause };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            let bound = listener.local_addr().map_err(failed)?;
            let scheme = if has_certificate { "https" } else { "http" };
            (self.settings.listening)(&format!("{scheme}://{bound}"));
            let (api, router) = (Arc::clone(&self.api), self.router.clone());
            let task = tokio::spawn(accept(api, router, listener));
            self.listening.insert(address, task);
        }
        Ok(())
    }

    /// Loads the certificate, also a renewed one.
    fn read_certificate(&mut self) {
        let path = self.settings.folder.join(CERTIFICATE);
        let written = std::fs::metadata(&path)
            .and_then(|data| data.modified())
            .ok();
        if written == self.certificate_of {
            return;
        }
        let loaded = match certificate::load(&self.settings.folder) {
            Ok(loaded) => loaded.map(Arc::new),
            Err(failure) => {
                // The current one stays in use.
                tracing::error!(%failure, "the certificate cannot be used");
                return;
            }
        };
        self.certificate_of = written;
        *self.api.certificate.write().expect("no holder panics") = loaded;
    }
}

/// The allowed addresses: all configured ones, or their part of the loopback.
fn wanted(listen: &[SocketAddr], is_open: bool) -> BTreeSet<SocketAddr> {
    let restricted = listen.iter().map(|address| match address.ip() {
        ip if is_open || ip.is_loopback() => *address,
        IpAddr::V4(_) => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(_) => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
    });
    restricted.collect()
}

async fn accept(api: Arc<Api>, router: Router, listener: TcpListener) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accept a connection");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
                continue;
            }
        };
        let (seat, another_gave_way) = api.limits.connection_slots.take(peer.ip());
        if another_gave_way {
            api.limits.refused.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%peer, "another connection was dropped in favour of this peer");
        }
        let (api, router, seat) = (Arc::clone(&api), router.clone(), Arc::new(seat));
        tokio::spawn(async move {
            let own = Arc::clone(&seat);
            tokio::select! {
                () = converse(&api, router, stream, peer, own) => {}
                () = seat.evicted() => {}
            }
        });
    }
}

async fn converse(
    api: &Arc<Api>,
    router: Router,
    stream: TcpStream,
    peer: SocketAddr,
    seat: Arc<ConnectionSlot>,
) {
    let Ok(local) = stream.local_addr() else {
        return;
    };
    let _ = stream.set_nodelay(true);
    // A peer that acknowledges no data must not occupy its slot.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, SENT_WAIT.as_millis() as u32);
    let certificate = api.certificate.read().expect("no holder panics").clone();
    let mut link = Link {
        peer,
        local,
        is_encrypted: certificate.is_some(),
        binding: None,
        is_head: AtomicBool::new(false),
        seat: Some(seat),
    };
    let Some(certificate) = certificate else {
        return talk(router, link, TokioIo::new(stream)).await;
    };
    match agree(&certificate, stream).await {
        Some(encrypted) => {
            link.binding = crate::peer::binding(encrypted.get_ref().1);
            talk(router, link, TokioIo::new(encrypted)).await;
        }
        None => {
            api.limits.unencrypted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn agree(
    certificate: &Certificate,
    stream: TcpStream,
) -> Option<tokio_rustls::server::TlsStream<TcpStream>> {
    let acceptor = TlsAcceptor::from(Arc::clone(&certificate.config));
    let agreed = tokio::time::timeout(TLS_WAIT, acceptor.accept(stream)).await;
    agreed.ok()?.ok()
}

async fn talk<I>(router: Router, link: Link, io: I)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router.layer(axum::Extension(Arc::new(link))));
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(io, service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(words: &[&str]) -> Vec<SocketAddr> {
        let parsed = words.iter().map(|word| word.parse().expect("an address"));
        parsed.collect()
    }

    #[test]
    fn no_remote_listener_before_setup_is_complete() {
        let listen = addresses(&["0.0.0.0:7443", "[fd00::1]:7443", "127.0.0.2:80"]);
        let restricted: Vec<_> = wanted(&listen, false).into_iter().collect();
        assert!(restricted.iter().all(|address| address.ip().is_loopback()));
        assert_eq!(restricted.len(), 3);
        let open = wanted(&listen, true);
        assert!(listen.iter().all(|address| open.contains(address)));
    }
}
