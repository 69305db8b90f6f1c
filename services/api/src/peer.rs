//! Communication between heads. A request for a pool that another head serves is forwarded to that head's API. Both
//! sides prove that they have the appliance's key, bound to the TLS connection (RFC 5705, RFC 9266): with this proof
//! any self-signed certificate suffices, and no message can be replayed or relayed.
//!
//! The key is one that only heads have (`/etc/bulkhead/head/peer-key`). Until `appliance apply` has distributed it,
//! they use Corosync's. After the TLS 1.3 handshake each side sends an HMAC, under that key, of a value that only the
//! two sides of this connection can compute. A relay has two connections, and no proof fits both. Mutual TLS would need
//! an authority: files to distribute, and certificates that expire. A shared token could be stolen, and would be sent
//! to any server that responds.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::answer::{Event, Status};
use control::{Failure, FailureKind};
use hmac::{Hmac, Mac};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde::de::DeserializeOwned;
use sha2::Sha256;
use takeover::timeline::TimedStep;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::accounts::Merge;
use crate::audit::{Audit, Entry};
use crate::caller::{By, Caller, Link, ROLE_HEADER, USER_HEADER};
use crate::report::PeerReport;
use crate::view::{HardwareFault, Overview};
use crate::{Accounts, Api, Role};

/// The path of the greeting.
pub const HELLO: &str = "/api/v1/peer/hello";
/// The path of the accounts.
pub const ACCOUNTS: &str = "/api/v1/peer/accounts";
/// The path of the logged takeover steps of a pool.
pub const TAKEOVER_STEPS: &str = "/api/v1/peer/takeover-steps";
/// The path of the state of messages about alerts.
pub const NOTIFICATIONS: &str = "/api/v1/peer/notifications";
/// Longest accepted proof, in hex digits.
const PROOF_DIGITS_MAX: usize = 128;
/// A side's proof.
const PROOF_HEADER: &str = "x-bulkhead-proof";
/// The path of the faults of the disks of a head.
pub const HARDWARE: &str = "/api/v1/peer/hardware";
/// The path of the report of a head about itself.
pub const REPORT: &str = "/api/v1/peer/report";
/// Separates these proofs from other uses of the key.
const PURPOSE: &[u8] = b"bulkhead head api 1";
/// The label of a channel binding (RFC 9266, section 2).
const BINDING_LABEL: &[u8] = b"EXPORTER-Channel-Binding";
/// Longest wait for a connection at one address of a head.
const CONNECT_WAIT: Duration = Duration::from_millis(800);
/// Longest wait for a connection and a greeting.
const HELLO_WAIT: Duration = Duration::from_secs(3);
/// Longest wait for a response; requests to pools may take long.
const RESPONSE_WAIT: Duration = Duration::from_secs(300);
/// Longest wait for a response while sampling.
const QUERY_WAIT: Duration = Duration::from_secs(3);
/// Longest response, in bytes.
const REPLY_BYTES_MAX: usize = 32 << 20;
/// Shortest accepted key, in bytes.
const KEY_BYTES_MIN: usize = 32;

/// The other heads.
#[derive(Clone)]
pub struct Peers(Arc<Inner>);

struct Inner {
    key: RwLock<Option<Zeroizing<Vec<u8>>>>,
    heads: RwLock<BTreeMap<String, Vec<SocketAddr>>>,
    runtime: Handle,
}

/// The side of a proof.
#[derive(Clone, Copy)]
enum Side {
    Client,
    Server,
}

impl Peers {
    /// Creates an empty set. `key` is known only to the heads of the appliance; without it, no head is queried or
    /// trusted. Must be called inside the runtime.
    pub fn new(key: Option<Vec<u8>>) -> Self {
        let peers = Self(Arc::new(Inner {
            key: RwLock::default(),
            heads: RwLock::default(),
            runtime: Handle::current(),
        }));
        peers.set_key(key);
        peers
    }

    /// Replaces the key: a head may run before its appliance is set up.
    pub fn set_key(&self, key: Option<Vec<u8>>) {
        let key = key
            .filter(|key| key.len() >= KEY_BYTES_MIN)
            .map(Zeroizing::new);
        *self.0.key.write().expect("no holder panics") = key;
    }

    /// Sets the API addresses of the other heads, in the order of preference.
    pub fn set_heads(&self, heads: BTreeMap<String, Vec<SocketAddr>>) {
        *self.0.heads.write().expect("no holder panics") = heads;
    }

    fn proof(&self, side: Side, binding: &[u8; 32]) -> Option<Hmac<Sha256>> {
        let key = self.0.key.read().expect("no holder panics");
        let mut mac = Hmac::<Sha256>::new_from_slice(key.as_ref()?).ok()?;
        mac.update(PURPOSE);
        mac.update(match side {
            Side::Client => b"client",
            Side::Server => b"server",
        });
        mac.update(binding);
        Some(mac)
    }

    fn proof_text(&self, side: Side, binding: &[u8; 32]) -> Option<String> {
        let mac = self.proof(side, binding)?;
        Some(units::hex::encode(&mac.finalize().into_bytes()))
    }

    fn is_proven(&self, side: Side, binding: &[u8; 32], headers: &HeaderMap) -> bool {
        let given = headers
            .get(PROOF_HEADER)
            .and_then(|proof| proof.to_str().ok());
        let given = given.filter(|text| text.len() <= PROOF_DIGITS_MAX);
        let given = given.and_then(units::hex::decode);
        match (self.proof(side, binding), given) {
            (Some(mac), Some(given)) => mac.verify_slice(&given).is_ok(),
            _ => false,
        }
    }

    /// Forwards a request of a caller to `head`.
    pub(crate) async fn send_request(
        &self,
        head: &str,
        method: &Method,
        target: &str,
        body: Bytes,
        caller: &Caller,
    ) -> Result<Response, Failure> {
        let asked = self.exchange(head, method, target, body, caller);
        let (status, bytes) = match tokio::time::timeout(RESPONSE_WAIT, asked).await {
            Ok(answer) => answer?,
            Err(_) => return Err(unreachable(head, &"it does not respond")),
        };
        let json = HeaderValue::from_static("application/json");
        let mut response = Response::new(Body::from(bytes));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        Ok(response)
    }

    pub(crate) async fn exchange(
        &self,
        head: &str,
        method: &Method,
        target: &str,
        body: Bytes,
        caller: &Caller,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let mut sender = match tokio::time::timeout(HELLO_WAIT, self.greet(head)).await {
            Ok(greeted) => greeted?,
            Err(_) => return Err(unreachable(head, &"it does not respond")),
        };
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .header(USER_HEADER, &caller.user)
            .header(ROLE_HEADER, caller.role.name())
            .body(Full::new(body))
            .map_err(|error| unreachable(head, &error))?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| unreachable(head, &error))?;
        let status = response.status();
        let limited = Limited::new(response.into_body(), REPLY_BYTES_MAX);
        let collected = limited.collect().await;
        let collected = collected.map_err(|error| unreachable(head, &error))?;
        Ok((status, collected.to_bytes()))
    }

    /// Connects to the first address of a head that accepts.
    async fn connect(&self, head: &str) -> Result<(TcpStream, SocketAddr), Failure> {
        let addresses = {
            let heads = self.0.heads.read().expect("no holder panics");
            heads.get(head).cloned().unwrap_or_default()
        };
        let mut last = unreachable(head, &"the address of its API is unknown");
        for address in addresses {
            match tokio::time::timeout(CONNECT_WAIT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok((stream, address)),
                Ok(Err(error)) => last = unreachable(head, &error),
                Err(_) => last = unreachable(head, &"it does not respond"),
            }
        }
        Err(last)
    }

    /// Opens a connection on which both sides have proven their identity.
    async fn greet(&self, head: &str) -> Result<SendRequest<Full<Bytes>>, Failure> {
        let (stream, address) = self.connect(head).await?;
        let name = ServerName::IpAddress(address.ip().into());
        let connected = connector(head)?.connect(name, stream).await;
        let stream = connected.map_err(|error| unreachable(head, &error))?;
        let binding =
            binding(stream.get_ref().1).ok_or_else(|| unreachable(head, &"no TLS 1.3"))?;
        let no_key = || unreachable(head, &"this head has no key of the appliance");
        let own = self.proof_text(Side::Client, &binding).ok_or_else(no_key)?;
        let shaken = handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| unreachable(head, &error))?;
        tokio::spawn(async move {
            // A waiting request receives the error.
            let _ = connection.await;
        });
        let hello = Request::get(HELLO)
            .header(header::HOST, "localhost")
            .header(PROOF_HEADER, own)
            .body(Full::new(Bytes::new()))
            .map_err(|error| unreachable(head, &error))?;
        let response = sender.send_request(hello).await;
        let response = response.map_err(|error| unreachable(head, &error))?;
        if !self.is_proven(Side::Server, &binding, response.headers()) {
            return Err(unreachable(
                head,
                &"the server there is no head of this appliance",
            ));
        }
        let limited = Limited::new(response.into_body(), REPLY_BYTES_MAX);
        let _ = limited.collect().await;
        Ok(sender)
    }

    /// Queries `head`. May block; `None` without a response.
    fn look<T: DeserializeOwned>(&self, head: &str, target: &str) -> Option<T> {
        self.0.key.read().expect("no holder panics").as_ref()?;
        let caller = Caller {
            user: "head".to_owned(),
            role: Role::ReadOnly,
            by: By::Head,
        };
        let asked = self.exchange(head, &Method::GET, target, Bytes::new(), &caller);
        let waited = self
            .0
            .runtime
            .block_on(async { tokio::time::timeout(QUERY_WAIT, asked).await });
        match waited {
            Ok(Ok((StatusCode::OK, bytes))) => serde_json::from_slice(&bytes).ok(),
            Ok(Ok((status, _))) => {
                tracing::debug!(head, target, %status, "another head refuses");
                None
            }
            Ok(Err(failure)) => {
                tracing::debug!(head, target, %failure, "query another head");
                None
            }
            Err(_) => None,
        }
    }

    /// The state of a pool that `head` serves.
    pub(crate) fn status(&self, head: &str, pool: &str) -> Option<Status> {
        self.look(head, &format!("/api/v1/pools/{pool}"))
    }

    /// The events of a pool that `head` serves.
    pub(crate) fn events(&self, head: &str, pool: &str, after: Option<u64>) -> Option<Vec<Event>> {
        let after = after.map_or_else(String::new, |after| format!("?after={after}"));
        self.look(head, &format!("/api/v1/pools/{pool}/events{after}"))
    }

    /// The takeover steps of a pool in the logs of `head`.
    pub(crate) fn takeover_steps(&self, head: &str, pool: &str) -> Option<Vec<TimedStep>> {
        self.look(head, &format!("{TAKEOVER_STEPS}?pool={pool}"))
    }

    /// The faults that the hardware of `head` reports.
    pub(crate) fn hardware_faults(&self, head: &str) -> Option<Vec<HardwareFault>> {
        self.look(head, HARDWARE)
    }

    /// The overview of `head`.
    pub(crate) fn overview(&self, head: &str) -> Option<Overview> {
        self.look(head, "/api/v1/overview")
    }

    /// The report of `head` about itself. Its format is that of this release or of an earlier one.
    pub(crate) fn report(&self, head: &str) -> Option<PeerReport> {
        self.look(head, REPORT)
    }

    /// The state of messages about alerts of `head`. May block.
    pub fn notifications(&self, head: &str) -> Option<serde_json::Value> {
        self.look(head, NOTIFICATIONS)
    }

    /// Merges the accounts of other heads into ours.
    pub(crate) fn compare_accounts(&self, accounts: &Accounts, audit: &Audit) {
        let heads: Vec<String> = {
            let heads = self.0.heads.read().expect("no holder panics");
            heads.keys().cloned().collect()
        };
        for head in heads {
            let Some(theirs) = self.look::<serde_json::Value>(&head, ACCOUNTS) else {
                continue;
            };
            match accounts.merge(theirs) {
                Ok(merge) => log_merge(&merge, &head, audit),
                Err(failure) => {
                    tracing::warn!(head, %failure, "merge the accounts of another head")
                }
            }
        }
    }
}

/// Reports the result of a merge with `head`.
fn log_merge(merge: &Merge, head: &str, audit: &Audit) {
    if merge.has_changed {
        tracing::info!(head, "merged changes of accounts from another head");
    }
    if let Some(user) = &merge.restored {
        tracing::warn!(
            head,
            user,
            "no admin was left after this head and another had changed their accounts separately: \
             this user is admin again; see that this is right by `bulkhead user list`"
        );
        let entry = Entry {
            who: "bulkhead".to_owned(),
            from: format!("head {head}"),
            what: "user.admin_again".to_owned(),
            target: user.clone(),
            ..Entry::default()
        };
        audit.changed(&entry.ended(None));
    }
}

pub(crate) fn unreachable(head: &str, why: &dyn std::fmt::Display) -> Failure {
    let message = format!("query head {head}: {why}");
    Failure::new(FailureKind::Unreachable, message).advise(format!(
        "check that `bulkhead head` runs on {head} with a certificate and a user"
    ))
}

/// A value that only the two sides of a connection can compute; `None` below TLS 1.3, where it is not always unique.
pub fn binding<Data>(connection: &rustls::ConnectionCommon<Data>) -> Option<[u8; 32]> {
    let is_new = connection.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3);
    let exported = connection.export_keying_material([0; 32], BINDING_LABEL, Some(&[]));
    exported.ok().filter(|_| is_new)
}

fn connector(head: &str) -> Result<TlsConnector, Failure> {
    let provider = crate::tls_provider();
    let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| unreachable(head, &error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ProvenOtherwise(provider)))
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Accepts any certificate: the proof that follows on the connection authenticates the peer.
#[derive(Debug)]
struct ProvenOtherwise(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for ProvenOtherwise {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &rustls::pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &rustls::pki_types::CertificateDer<'_>,
        signed: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Responds to a head's greeting with our proof.
pub(crate) async fn hello(
    State(api): State<Arc<Api>>,
    Extension(link): Extension<Arc<Link>>,
    headers: HeaderMap,
) -> Response {
    let refused = || StatusCode::FORBIDDEN.into_response();
    if let Err(response) = crate::responses::admit_peer(&api, &link) {
        return *response;
    }
    let Some(binding) = &link.binding else {
        return refused();
    };
    if !api.peers.is_proven(Side::Client, binding, &headers) {
        return refused();
    }
    let own = api.peers.proof_text(Side::Server, binding);
    let Some(Ok(own)) = own.map(|own| HeaderValue::from_str(&own)) else {
        return refused();
    };
    link.is_of_a_head();
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(PROOF_HEADER, own);
    response
}

/// Responds to another head with a value, the reading of which may block.
pub(crate) async fn respond<T>(read: impl FnOnce() -> T + Send + 'static) -> Response
where
    T: serde::Serialize + Send + 'static,
{
    match tokio::task::spawn_blocking(read).await {
        Ok(value) => axum::Json(value).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Sends the accounts to another head.
pub(crate) async fn accounts(State(api): State<Arc<Api>>) -> Response {
    match api.accounts.exported() {
        Ok(Some(book)) => axum::Json(book).into_response(),
        Ok(None) => StatusCode::NO_CONTENT.into_response(),
        Err(failure) => crate::responses::failure_response(&failure, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(key: &[u8]) -> Peers {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        runtime.block_on(async { Peers::new(Some(key.to_vec())) })
    }

    #[test]
    fn a_proof_holds_for_its_key_its_side_and_its_connection_only() {
        let (own, other) = (peers(&[1; 32]), peers(&[2; 32]));
        let (here, elsewhere) = ([3; 32], [4; 32]);
        let mut headers = HeaderMap::new();
        let proof = own.proof_text(Side::Client, &here).expect("a key");
        headers.insert(PROOF_HEADER, proof.parse().expect("a value"));
        assert!(own.is_proven(Side::Client, &here, &headers));
        assert!(!own.is_proven(Side::Client, &elsewhere, &headers));
        assert!(!own.is_proven(Side::Server, &here, &headers));
        assert!(!other.is_proven(Side::Client, &here, &headers));
        assert!(!own.is_proven(Side::Client, &here, &HeaderMap::new()));
    }

    #[test]
    fn restored_admin_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let audit = Audit::new(folder.path(), &folder.path().join("commands.log"));
        let restored = Some("anna".to_owned());
        let merge = |restored| Merge {
            has_changed: true,
            restored,
        };
        log_merge(&merge(None), "right", &audit);
        assert!(audit.newest(9).expect("readable").is_empty());
        log_merge(&merge(restored), "right", &audit);
        let told = audit.newest(9).expect("readable");
        assert_eq!(
            (told[0].target.as_str(), told[0].from.as_str()),
            ("anna", "head right")
        );
    }

    #[test]
    fn a_short_key_proves_nothing() {
        assert!(peers(&[1; 31]).proof_text(Side::Client, &[0; 32]).is_none());
    }
}
