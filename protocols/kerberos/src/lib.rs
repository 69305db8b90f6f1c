//! Kerberos for a server with the system's GSS-API (RFC 2743, RFC 4121). A client with a ticket for
//! a key of the keytab gets a context, and its principal is mapped to a user of this host. No
//! sockets; the protocols define the messages.

#![deny(unsafe_code)]

mod configuration;
mod keytab;
mod library;
mod users;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use libgssapi::context::{SecurityContext, ServerCtx};
use libgssapi::credential::Cred;
use libgssapi::error::Error;
use library::{Owned, enter};

pub use configuration::{ConfigurationError, check_configuration};
use users::Names;
pub use users::{LookupFailed, Principal, User, number_of_group, number_of_user};

/// The OID of Kerberos 5, 1.2.840.113554.1.2.2 (RFC 4121), in its wire format.
pub const MECHANISM: &[u8] = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02";
/// Maximum bytes of a client's token. Tickets of Active Directory contain many groups.
pub const TOKEN_BYTES_MAX: usize = 64 << 10;

/// The token ID of sealed messages with AES (RFC 4121, section 4.2.6.2).
const SEALED_TOKEN: [u8; 2] = [5, 4];
/// The bit of the following flags for encrypted contents (4.2.2).
const IS_ENCRYPTED: u8 = 2;

/// An error of the library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GssError(String);

impl From<Error> for GssError {
    fn from(error: Error) -> Self {
        // The second part of the message is stored per thread.
        let text = error.to_string();
        Self(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// The keytab is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the keytab {}", path.display())]
pub struct KeytabError {
    /// The keytab.
    pub path: PathBuf,
    #[source]
    cause: GssError,
}

/// Why a client is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refused {
    /// The status for the client (RFC 2743, 1.2.1.1): of the routine and of the mechanism.
    pub status: (u32, u32),
    /// The reason for operators.
    pub why: String,
}

impl Refused {
    /// `GSS_S_FAILURE`, without a mechanism status.
    fn other(why: impl fmt::Display) -> Self {
        Self {
            status: (13 << 16, 0),
            why: why.to_string(),
        }
    }
}

impl From<GssError> for Refused {
    fn from(error: GssError) -> Self {
        Self::other(error)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self {
            status: (error.major.bits(), error.minor),
            why: GssError::from(error).to_string(),
        }
    }
}

/// The keys of a service. The keytab is read for each client, so that new keys are used
/// immediately.
pub struct Acceptor {
    credential: Owned<Cred>,
}

impl Acceptor {
    /// Opens the keys of `service`, such as `nfs`, for any name of the host.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no key of the service.
    pub fn open(keytab: &Path, service: &str) -> Result<Self, KeytabError> {
        let call = enter();
        let credential = keytab::acquire(keytab, service);
        drop(call);
        credential
            .map(|credential| Self {
                credential: Owned::new(credential),
            })
            .map_err(|cause| KeytabError {
                path: keytab.to_owned(),
                cause,
            })
    }

    /// Establishes a context from a client's `token`. Returns the context and the token for the
    /// client. Kerberos needs no further round.
    ///
    /// # Errors
    ///
    /// The ticket is not for this service, or not valid now; or the user cannot be looked up.
    pub fn accept(&self, token: &[u8]) -> Result<(Context, Vec<u8>), Refused> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Refused::other("a token that is too long"));
        }
        let (context, answer, names, lifetime) = self.step(token)?;
        let gss = Mutex::new(Owned::new(context));
        // The look-up may query a server. It must block neither other clients nor the exit of the
        // process.
        let (principal, lifetime) = names.look_up(lifetime).map_err(Refused::other)?;
        let context = Context {
            gss,
            principal,
            lifetime,
        };
        Ok((context, answer))
    }

    fn step(&self, token: &[u8]) -> Result<(ServerCtx, Vec<u8>, Names, Duration), Refused> {
        let _call = enter();
        let mut context = ServerCtx::new(Some(self.credential.clone()));
        let answer = context.step(token, None)?;
        // Delegated credentials are discarded.
        drop(context.take_delegated_cred());
        let answer = answer.map_or(Vec::new(), |token| token.to_vec());
        if !context.is_complete() {
            return Err(Refused::other("the client wants a further round"));
        }
        let lifetime = context.lifetime()?;
        let names = Names::of(&context.source_name()?)?;
        Ok((context, answer, names, lifetime))
    }
}

/// An established context with a client. It may be used by several threads, one at a time.
pub struct Context {
    gss: Mutex<Owned<ServerCtx>>,
    /// The client's principal.
    pub principal: Principal,
    /// Remaining validity of its ticket and of the look-up of its user.
    pub lifetime: Duration,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.principal).finish()
    }
}

impl Context {
    /// Calls the library with the context.
    fn call<T>(
        &self,
        what: impl FnOnce(&mut ServerCtx) -> Result<T, Error>,
    ) -> Result<T, GssError> {
        let mut context = self.gss.lock().expect("no holder panics");
        let _call = enter();
        Ok(what(&mut context)?)
    }

    /// Returns the checksum of `message` that authenticates the server to the client.
    ///
    /// # Errors
    ///
    /// The library refuses.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        self.call(|gss| Ok(gss.get_mic(message)?.to_vec()))
    }

    /// Verifies a checksum of `message` by the client.
    pub fn is_signed(&self, message: &[u8], checksum: &[u8]) -> bool {
        self.call(|gss| gss.verify_mic(message, checksum)).is_ok()
    }

    /// Encrypts a message for the client.
    ///
    /// # Errors
    ///
    /// The library refuses.
    pub fn seal(&self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        self.call(|gss| Ok(gss.wrap(true, message)?.to_vec()))
    }

    /// Decrypts a message of the client. Returns `None` if it is not from this client or not
    /// encrypted.
    pub fn unseal(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let is_encrypted = |flags: &u8| flags & IS_ENCRYPTED != 0;
        if !sealed.starts_with(&SEALED_TOKEN) || !sealed.get(2).is_some_and(is_encrypted) {
            return None;
        }
        self.call(|gss| Ok(gss.unwrap(sealed)?.to_vec())).ok()
    }
}
