//! TLS under the protocol: configuration from PEM files, and a transport that encrypts.
//!
//! Clients are known by certificates: rustls has no pre-shared keys of the user's own.

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
/// Plain and encrypted bytes that the session may hold back.
const SESSION_BYTES_MAX: usize = 256 << 10;

/// Files of TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Our certificate and those between it and a root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Roots of clients' certificates.
    pub authority: Option<PathBuf>,
}

/// What a protocol asks of TLS.
#[derive(Clone, Copy, Debug)]
pub struct TlsUse {
    /// Versions.
    pub versions: &'static [&'static SupportedProtocolVersion],
    /// What a client that names protocols must name, for ALPN (RFC 7301); empty: anything.
    pub name: &'static [u8],
    /// Whether each client must show a certificate where clients' roots are known. Else it may.
    pub needs_certificate: bool,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("read {what} from {}", path.display())]
    File {
        /// What is in the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        cause: pem::Error,
    },
    /// A file has no certificate.
    #[error("no certificate in {}: it must have a section BEGIN CERTIFICATE", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The parts do not fit together.
    #[error("use the certificate of {} for TLS", path.display())]
    Unusable {
        /// The file with our certificate.
        path: PathBuf,
        /// What does not fit.
        #[source]
        cause: rustls::Error,
    },
    /// The roots cannot be used to verify clients.
    #[error("use the roots of {} to verify clients", path.display())]
    Roots {
        /// The file with the roots.
        path: PathBuf,
        /// What does not fit.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Looked at before it is opened: to open some devices is an act, such as a watchdog, and an appliance file that somebody gave names
/// the path.
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
    /// Whether a server could do TLS with them.
    pub fn check(&self) -> Result<(), TlsError> {
        let strictly = TlsUse {
            versions: rustls::ALL_VERSIONS,
            name: b"",
            needs_certificate: true,
        };
        self.load(&strictly).map(drop)
    }

    /// What a server does TLS with.
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

/// A socket with TLS on it.
pub struct TlsTransport {
    stream: Arc<Stream>,
    session: Mutex<ServerConnection>,
    input: Mutex<Input>,
    /// Something was received that the socket does not show any more.
    has_input: AtomicBool,
}

/// Encrypted bytes that were received and are not decrypted yet.
struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl TlsTransport {
    /// TLS on `stream`, as its server.
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

    /// The client's verified certificate, once the TLS handshake is over.
    pub fn client_certificate(&self) -> Option<CertificateDer<'static>> {
        let session = self.session();
        let certificate = session.peer_certificates()?.first()?;
        Some(certificate.clone().into_owned())
    }

    fn session(&self) -> MutexGuard<'_, ServerConnection> {
        self.session.lock().expect("no holder panics")
    }

    /// Sends what the session has ready; whether nothing is left.
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
        // A failure is told to the client by an alert, which is ready to be sent now.
        self.pump(session)?;
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        Ok(())
    }
}

/// Decrypted bytes into `parts`; `None` if there are none yet, zero at the end.
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
                    // The session may have more, if the parts were filled.
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

/// The socket as rustls wants it.
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
