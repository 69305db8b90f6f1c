//! RPC with TLS (RFC 9289): started by a call, and required by shares.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use certificates::{Generated, Purpose};
use file_system::memory::MemoryFileSystem;
use nfs::exports::Shared;
use nfs::handles::HandleKey;
use nfs::server::{DesiredState, NfsServer, ServerLimits};
use nfs::sharenfs::Share;
use nfs::v4::Presentation;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serving::TlsFiles;

/// Time-out of a reply.
const ANSWER: Duration = Duration::from_secs(20);
const TRANSACTION: u32 = 7;
const MOUNT: u32 = 100_005;
const NFS: u32 = 100_003;
const EXPORT: u32 = 5;
const NONE: u32 = 0;
const TLS: u32 = 7;

/// A server with one share for each transport security, and its files.
struct TestServer {
    server: NfsServer,
    folder: tempfile::TempDir,
    authority: Generated,
    client: Generated,
}

fn made() -> Generated {
    certificates::make(&["nfs.example".to_owned()], Purpose::Any).expect("a certificate")
}

fn shared(name: &str, guid: u64, how: &str) -> Shared {
    let rule = format!("rw=127.0.0.0/8,insecure{how}");
    Shared {
        name: name.to_owned(),
        share: Share::parse(&rule).expect("a share").expect("not off"),
        files: Arc::new(MemoryFileSystem::with_guid(guid, 1 << 20)),
    }
}

impl TestServer {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (authority, client) = (made(), made());
        let put = |name: &str, text: String| {
            std::fs::write(folder.path().join(name), text).expect("written")
        };
        put("cert.pem", authority.certificate_pem());
        put("key.pem", authority.key_pem());
        put("clients.pem", client.certificate_pem());
        let presentation = Presentation {
            owner: b"tls".to_vec(),
            start: 1,
            handle_key: HandleKey::new(&[7; HandleKey::BYTES]),
            lease_seconds: 20,
            grace_seconds: 0,
        };
        let server = NfsServer::new(presentation, ServerLimits::default());
        let stand = Self {
            server,
            folder,
            authority,
            client,
        };
        stand.apply(true);
        stand
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn apply(&self, has_tls: bool) {
        let files = TlsFiles {
            certificate: self.path("cert.pem"),
            key: self.path("key.pem"),
            authority: Some(self.path("clients.pem")),
        };
        let desired = DesiredState {
            listeners: vec!["127.0.0.1:0".parse().expect("an address")],
            tls: has_tls.then_some(files),
            shared: vec![
                shared("any", 1, ""),
                shared("tls", 2, ",xprtsec=tls:mtls"),
                shared("known", 3, ",xprtsec=mtls"),
            ],
            ..DesiredState::default()
        };
        self.server.apply(desired).expect("applied");
    }

    fn connect(&self) -> TcpStream {
        let address: SocketAddr = self.server.listeners()[0].tcp().expect("TCP");
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(ANSWER)).expect("set");
        stream
    }

    /// Starts TLS on a new connection, with a certificate or without.
    fn secured(
        &self,
        shows: bool,
        protocols: &[&[u8]],
    ) -> StreamOwned<ClientConnection, TcpStream> {
        let mut stream = self.connect();
        call(&mut stream, NFS, 4, 0, TLS);
        assert_eq!(answer(&mut stream).expect("an answer"), STARTTLS);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(der(&self.authority)).expect("a root");
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match shows {
            true => builder
                .with_client_auth_cert(vec![der(&self.client)], key(&self.client))
                .expect("a certificate"),
            false => builder.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("nfs.example").expect("a name");
        let session = ClientConnection::new(Arc::new(config), name).expect("a session");
        StreamOwned::new(session, stream)
    }
}

/// The reply to the probe for TLS (section 4.1): accepted, with the verifier `STARTTLS`.
const STARTTLS: &[u8] = b"\0\0\0\x07\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x08STARTTLS\0\0\0\0";

fn der(made: &Generated) -> CertificateDer<'static> {
    CertificateDer::from(made.certificate.clone())
}

fn key(made: &Generated) -> PrivateKeyDer<'static> {
    PrivateKeyDer::try_from(made.key.clone()).expect("a key")
}

fn call(stream: &mut impl Write, program: u32, version: u32, procedure: u32, flavor: u32) {
    let words = [
        TRANSACTION,
        0,
        2,
        program,
        version,
        procedure,
        flavor,
        0,
        NONE,
        0,
    ];
    let mut record = ((words.len() as u32 * 4) | (1 << 31))
        .to_be_bytes()
        .to_vec();
    record.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    stream.write_all(&record).expect("sent");
    stream.flush().expect("sent");
}

fn answer(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let mut record = vec![0; (u32::from_be_bytes(mark) & !(1 << 31)) as usize];
    stream.read_exact(&mut record)?;
    Ok(record)
}

/// Returns the exports that a client sees.
fn visible_exports(stream: &mut (impl Read + Write)) -> Vec<&'static str> {
    call(stream, MOUNT, 3, EXPORT, NONE);
    let record = answer(stream).expect("an answer");
    let has = |name: &&str| {
        record
            .windows(name.len())
            .any(|part| part == name.as_bytes())
    };
    ["any", "tls", "known"].into_iter().filter(has).collect()
}

#[test]
fn share_accepts_only_connections_with_its_tls_mode() {
    let stand = TestServer::new();
    assert_eq!(visible_exports(&mut stand.connect()), ["any"]);
    assert_eq!(
        visible_exports(&mut stand.secured(false, &[b"sunrpc"])),
        ["any", "tls"]
    );
    let mut known = stand.secured(true, &[b"sunrpc"]);
    assert_eq!(visible_exports(&mut known), ["any", "tls", "known"]);
    assert_eq!(
        known.conn.protocol_version(),
        Some(rustls::ProtocolVersion::TLSv1_3)
    );
    // A client may send no ALPN protocol.
    assert_eq!(
        visible_exports(&mut stand.secured(true, &[])),
        ["any", "tls", "known"]
    );
}

#[test]
fn other_application_protocol_is_refused() {
    let stand = TestServer::new();
    let mut other = stand.secured(true, &[b"http/1.1"]);
    other
        .write_all(b"x")
        .and_then(|()| other.flush())
        .expect_err("refused");
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let mut stand = TestServer::new();
    stand.client = made();
    let mut stranger = stand.secured(true, &[b"sunrpc"]);
    let words = [0; 4];
    let visible_exports = stranger
        .write_all(&words)
        .and_then(|()| answer(&mut stranger).map(drop));
    visible_exports.expect_err("refused");
}

#[test]
fn plaintext_after_starttls_closes_the_connection() {
    let stand = TestServer::new();
    let mut stream = stand.connect();
    let mut both = Vec::new();
    call(&mut both, NFS, 4, 0, TLS);
    call(&mut both, MOUNT, 3, EXPORT, NONE);
    stream.write_all(&both).expect("sent");
    let mut all = Vec::new();
    // It may be reset.
    let _ = stream.read_to_end(&mut all);
    assert!(all.len() <= 4 + STARTTLS.len(), "{all:?}");
}

#[test]
fn tls_is_off_without_certificate_files() {
    let stand = TestServer::new();
    stand.apply(false);
    let mut stream = stand.connect();
    call(&mut stream, NFS, 4, 0, TLS);
    let denied = b"\0\0\0\x07\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01";
    assert_eq!(answer(&mut stream).expect("an answer"), denied);
    // The connection continues in plain text.
    assert_eq!(visible_exports(&mut stream), ["any"]);
}

#[test]
fn renewed_certificates_take_effect() {
    let mut stand = TestServer::new();
    stand.authority = made();
    let put = |path: &Path, text: String| std::fs::write(path, text).expect("written");
    put(&stand.path("cert.pem"), stand.authority.certificate_pem());
    put(&stand.path("key.pem"), stand.authority.key_pem());
    stand.apply(true);
    assert_eq!(
        visible_exports(&mut stand.secured(false, &[b"sunrpc"])),
        ["any", "tls"]
    );
}
