//! TLS below the protocol: configuration from PEM files, and an encrypting transport.
//!
//! Clients authenticate with certificates: rustls has no external pre-shared keys.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};

use crate::{ReceiveWait, Stream, Transport};

/// Encrypted bytes received at once.
const INPUT_BYTES: usize = 64 << 10;
/// Plain and encrypted bytes that the session may buffer.
const SESSION_BYTES_MAX: usize = 256 << 10;

/// The PEM files of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate chain, without the root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Roots of client certificates.
    pub authority: Option<PathBuf>,
}

/// The TLS requirements of a protocol.
#[derive(Clone, Copy, Debug)]
pub struct TlsUse {
    /// The permitted versions.
    pub versions: &'static [&'static SupportedProtocolVersion],
    /// The ALPN protocol (RFC 7301) that a client with ALPN must offer; empty: any.
    pub name: &'static [u8],
    /// Whether each client must present a certificate if client roots are configured. Otherwise it
    /// may.
    pub needs_certificate: bool,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("read {what} from {}", path.display())]
    File {
        /// The content of the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        cause: pem::Error,
    },
    /// A file has no certificate.
    #[error("no certificate in {}: it must have a section BEGIN CERTIFICATE", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The certificate does not match the key.
    #[error("use the certificate of {} for TLS", path.display())]
    Unusable {
        /// The file with the certificate.
        path: PathBuf,
        /// The error.
        #[source]
        cause: rustls::Error,
    },
    /// The roots cannot be used to verify clients.
    #[error("use the roots of {} to verify clients", path.display())]
    Roots {
        /// The file with the roots.
        path: PathBuf,
        /// The error.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Checked before the open, because opening some devices has effects, such as a watchdog, and the
/// path comes from a configurable appliance file.
fn refuse_other_than_file(path: &Path) -> Result<(), pem::Error> {
    let facts = std::fs::metadata(path).map_err(pem::Error::Io)?;
    match facts.is_file() {
        true => Ok(()),
        false => Err(pem::Error::Io(std::io::Error::other(
            "it is no ordinary file",
        ))),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |cause| TlsError::File {
        what: "certificates",
        path: path.to_owned(),
        cause,
    };
    refuse_other_than_file(path).map_err(failed)?;
    let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    if certificates.is_empty() {
        return Err(TlsError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(certificates)
}

impl TlsFiles {
    /// Checks that a server could use TLS with these files.
    pub fn check(&self) -> Result<(), TlsError> {
        let strictly = TlsUse {
            versions: rustls::ALL_VERSIONS,
            name: b"",
            needs_certificate: true,
        };
        self.load(&strictly).map(drop)
    }

    /// Loads the TLS configuration of a server.
    pub fn load(&self, how: &TlsUse) -> Result<Arc<ServerConfig>, TlsError> {
        let unusable = |cause| TlsError::Unusable {
            path: self.certificate.clone(),
            cause,
        };
        let chain = certificates(&self.certificate)?;
        let key = refuse_other_than_file(&self.key)
            .and_then(|()| PrivateKeyDer::from_pem_file(&self.key))
            .map_err(|cause| TlsError::File {
                what: "a private key",
                path: self.key.clone(),
                cause,
            })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(how.versions)
            .map_err(unusable)?;
        let builder = match &self.authority {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let bad_roots = |cause| TlsError::Roots {
                    path: path.clone(),
                    cause,
                };
                let mut roots = RootCertStore::empty();
                for root in certificates(path)? {
                    roots.add(root).map_err(|error| bad_roots(error.into()))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = match how.needs_certificate {
                    true => verifier,
                    false => verifier.allow_unauthenticated(),
                };
                let verifier = verifier.build().map_err(|error| bad_roots(error.into()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
        if !how.name.is_empty() {
            config.alpn_protocols = vec![how.name.to_vec()];
        }
        Ok(Arc::new(config))
    }
}

/// A TLS session on a socket.
pub struct TlsTransport {
    stream: Arc<Stream>,
    session: Mutex<ServerConnection>,
    input: Mutex<Input>,
    /// Input was received that the socket no longer shows.
    has_input: AtomicBool,
}

/// Received bytes that are not decrypted yet.
struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl TlsTransport {
    /// Creates a TLS server session on `stream`.
    pub fn new(stream: Arc<Stream>, config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let mut session = ServerConnection::new(config)?;
        session.set_buffer_limit(Some(SESSION_BYTES_MAX));
        let input = Input {
            bytes: vec![0; INPUT_BYTES].into(),
            start: 0,
            end: 0,
        };
        Ok(Self {
            stream,
            session: Mutex::new(session),
            input: Mutex::new(input),
            has_input: AtomicBool::new(false),
        })
    }

    /// Returns the client's verified certificate after the TLS handshake.
    pub fn client_certificate(&self) -> Option<CertificateDer<'static>> {
        let session = self.session();
        let certificate = session.peer_certificates()?.first()?;
        Some(certificate.clone().into_owned())
    }

    fn session(&self) -> MutexGuard<'_, ServerConnection> {
        self.session.lock().expect("no holder panics")
    }

    /// Sends the session's output. Returns whether none is left.
    fn pump(&self, session: &mut ServerConnection) -> io::Result<bool> {
        while session.wants_write() {
            match session.write_tls(&mut NonBlocking(&self.stream)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Decrypts some of the input.
    fn decrypt(&self, session: &mut ServerConnection, input: &mut Input) -> io::Result<()> {
        let mut unread = &input.bytes[input.start..input.end];
        session.read_tls(&mut unread)?;
        input.start = input.end - unread.len();
        let processed = session.process_new_packets();
        // A failure is reported to the client by an alert, which is sent here.
        self.pump(session)?;
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        Ok(())
    }
}

/// Copies decrypted bytes to `parts`; `None` if there are none yet, zero at the end of the stream.
fn take_plaintext(
    session: &mut ServerConnection,
    parts: &mut [IoSliceMut<'_>],
) -> io::Result<Option<usize>> {
    let mut taken = 0;
    for part in parts {
        let mut filled = 0;
        while filled < part.len() {
            match session.reader().read(&mut part[filled..]) {
                Ok(0) => return Ok(Some(taken + filled)),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    taken += filled;
                    return Ok((taken > 0).then_some(taken));
                }
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Some(0)),
                Err(error) => return Err(error),
            }
        }
        taken += filled;
    }
    Ok((taken > 0).then_some(taken))
}

impl Transport for TlsTransport {
    fn receive(&self, parts: &mut [IoSliceMut<'_>], wait: ReceiveWait) -> io::Result<usize> {
        let mut input = self.input.lock().expect("no holder panics");
        loop {
            {
                let mut session = self.session();
                if let Some(taken) = take_plaintext(&mut session, parts)? {
                    // The session may have more if the parts were filled.
                    self.has_input.store(true, Ordering::Relaxed);
                    return Ok(taken);
                }
                if input.start < input.end {
                    self.decrypt(&mut session, &mut input)?;
                    continue;
                }
            }
            self.has_input.store(false, Ordering::Relaxed);
            input.start = 0;
            input.end = 0;
            let mut whole = [IoSliceMut::new(&mut input.bytes)];
            input.end = match self.stream.receive(&mut whole, wait)? {
                0 => return Ok(0),
                count => count,
            };
        }
    }

    fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut session = self.session();
        if !self.pump(&mut session)? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let taken = session.writer().write_vectored(parts)?;
        self.pump(&mut session)?;
        Ok(taken)
    }

    fn flush(&self) -> io::Result<bool> {
        self.pump(&mut self.session())
    }

    fn has_input(&self) -> bool {
        self.has_input.load(Ordering::Relaxed)
    }

    fn finish(&self) {
        let mut session = self.session();
        session.send_close_notify();
        let _ = self.pump(&mut session);
    }

    fn stream(&self) -> &Stream {
        &self.stream
    }
}

/// Adapts the socket to rustls.
struct NonBlocking<'a>(&'a Stream);

impl Write for NonBlocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
