//! An `RPCSEC_GSS` client with the same library as the server. The wire format is implemented
//! separately.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libgssapi::context::{ClientCtx, CtxFlags, SecurityContext};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_HOSTBASED_SERVICE, GSS_NT_USER_NAME, OidSet};
use nfs::xdr::{Reader, Writer};

use super::realm::PASSWORD;

/// Time-out of a reply.
const ANSWER: Duration = Duration::from_secs(20);
pub const NFS: u32 = 100_003;
pub const MOUNT: u32 = 100_005;
pub const GSS: u32 = 6;
/// The service in the server's keytab.
pub const SERVER: &[u8] = b"nfs@localhost";

/// The content of a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum ReplyContent {
    /// The results.
    Results(Vec<u8>),
    /// `accept_stat`.
    Failed(u32),
    /// `auth_stat`.
    Denied(u32),
}

impl ReplyContent {
    pub fn results(self) -> Vec<u8> {
        match self {
            Self::Results(results) => results,
            other => panic!("{other:?}"),
        }
    }
}

/// The caller.
pub enum Caller {
    Nobody,
    User(u32),
    Secured(Box<Secured>),
}

pub struct Secured {
    context: ClientCtx,
    pub handle: Vec<u8>,
    pub sequence: u32,
    pub service: u32,
}

pub struct Client {
    stream: TcpStream,
    transaction: u32,
    pub caller: Caller,
}

/// The credential of a user, with its tickets.
pub fn credential(user: &str) -> Cred {
    let name = Name::new(user.as_bytes(), Some(GSS_NT_USER_NAME)).expect("a name");
    let kerberos = OidSet::singleton(GSS_MECH_KRB5).expect("a set");
    let usage = CredUsage::Initiate;
    let credential =
        Cred::acquire_with_password(Some(&name), PASSWORD, None, usage, Some(&kerberos));
    credential.expect("a credential")
}

impl Client {
    pub fn connect(address: SocketAddr, caller: Caller) -> Self {
        let stream = TcpStream::connect(address).expect("connected");
        stream.set_read_timeout(Some(ANSWER)).expect("set");
        // The server detects retransmissions by transaction ID.
        static CLIENTS: AtomicU32 = AtomicU32::new(1);
        let number = CLIENTS.fetch_add(1, Ordering::Relaxed);
        Self {
            stream,
            transaction: number << 16,
            caller,
        }
    }

    /// Connects a client as a Kerberos user, with calls protected by `service`.
    pub fn log_in(address: SocketAddr, user: &str, service: u32) -> Self {
        let mut client = Self::connect(address, Caller::Nobody);
        client
            .begin(&credential(user), SERVER, service)
            .expect("let in");
        client
    }

    /// Establishes a context, or returns the status of the server's library.
    pub fn begin(
        &mut self,
        user: &Cred,
        acceptor: &[u8],
        service: u32,
    ) -> Result<(), ReplyContent> {
        let acceptor = Name::new(acceptor, Some(GSS_NT_HOSTBASED_SERVICE)).expect("a name");
        let flags = CtxFlags::GSS_C_MUTUAL_FLAG;
        let mut context = ClientCtx::new(Some(user.clone()), acceptor, flags, Some(GSS_MECH_KRB5));
        let token = context.step(None, None).expect("a ticket");
        let token = token.expect("a token");
        let mut arguments = Writer::new();
        arguments.opaque(&token);
        let record = self.header(NFS, 4, 0, Some((1, 0, service, b"")));
        let mut record = record.into_bytes();
        record.extend_from_slice(b"\0\0\0\0\0\0\0\0");
        record.extend_from_slice(arguments.bytes());
        self.send(&record);
        let answer = self.receive();
        let (told, verifier) = read(&answer);
        let ReplyContent::Results(results) = told else {
            return Err(told);
        };
        let mut reader = Reader::new(&results);
        let handle = reader.opaque(400).expect("a handle").to_vec();
        let (major, _minor) = (reader.u32().expect("a word"), reader.u32().expect("a word"));
        let window = reader.array::<4>().expect("a window");
        if major != 0 {
            assert!(handle.is_empty());
            return Err(ReplyContent::Failed(major));
        }
        let token = reader.opaque(65_536).expect("a token");
        assert!(
            context
                .step(Some(token), None)
                .expect("the server")
                .is_none()
        );
        let checksum = verifier.expect("a verifier");
        context
            .verify_mic(&window, &checksum)
            .expect("the server's");
        self.caller = Caller::Secured(Box::new(Secured {
            context,
            handle,
            sequence: 0,
            service,
        }));
        Ok(())
    }

    pub fn secured(&mut self) -> &mut Secured {
        match &mut self.caller {
            Caller::Secured(secured) => secured,
            _ => panic!("not secured"),
        }
    }

    fn header(
        &mut self,
        program: u32,
        version: u32,
        procedure: u32,
        gss: Option<(u32, u32, u32, &[u8])>,
    ) -> Writer {
        self.transaction += 1;
        let mut header = Writer::new();
        for word in [self.transaction, 0, 2, program, version, procedure] {
            header.u32(word);
        }
        let mut body = Writer::new();
        let flavor = match (gss, &self.caller) {
            (Some((control, sequence, service, handle)), _) => {
                for word in [1, control, sequence, service] {
                    body.u32(word);
                }
                body.opaque(handle);
                GSS
            }
            (None, Caller::User(uid)) => {
                for word in [0, 0, *uid, *uid, 0] {
                    body.u32(word);
                }
                1
            }
            (None, _) => 0,
        };
        header.u32(flavor);
        header.opaque(body.bytes());
        header
    }

    /// Returns the record of a call.
    pub fn record(
        &mut self,
        (program, version, procedure): (u32, u32, u32),
        arguments: &[u8],
    ) -> Vec<u8> {
        self.record_for(0, (program, version, procedure), arguments)
    }

    /// Returns the record of a call with a context operation.
    pub fn record_for(
        &mut self,
        control: u32,
        (program, version, procedure): (u32, u32, u32),
        arguments: &[u8],
    ) -> Vec<u8> {
        if let Caller::Secured(secured) = &mut self.caller {
            secured.sequence += 1;
            let (sequence, service) = (secured.sequence, secured.service);
            let handle = secured.handle.clone();
            let mut record = self.header(
                program,
                version,
                procedure,
                Some((control, sequence, service, &handle)),
            );
            let context = &mut self.secured().context;
            let checksum = context.get_mic(record.bytes()).expect("a checksum");
            record.u32(GSS);
            record.opaque(&checksum);
            let mut body = Writer::new();
            body.u32(sequence);
            body.append(arguments);
            match service {
                2 => {
                    record.opaque(body.bytes());
                    record.opaque(&context.get_mic(body.bytes()).expect("a checksum"));
                }
                3 => record.opaque(&context.wrap(true, body.bytes()).expect("sealed")),
                _ => record.append(arguments),
            }
            return record.into_bytes();
        }
        let mut record = self.header(program, version, procedure, None);
        record.u32(0);
        record.u32(0);
        record.append(arguments);
        record.into_bytes()
    }

    pub fn send(&mut self, record: &[u8]) {
        let mark = (record.len() as u32) | (1 << 31);
        let marked = [&mark.to_be_bytes(), record].concat();
        self.stream.write_all(&marked).expect("sent");
    }

    /// Receives the next reply as bytes.
    pub fn receive(&mut self) -> Vec<u8> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).expect("an answer");
        let mut record = vec![0; (u32::from_be_bytes(mark) & !(1 << 31)) as usize];
        self.stream.read_exact(&mut record).expect("an answer");
        record
    }

    /// Whether the server closes the connection without a reply.
    pub fn is_over(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0))
    }

    /// Receives and unwraps the reply to the last call.
    pub fn answer(&mut self) -> ReplyContent {
        let answer = self.receive();
        let transaction = Reader::new(&answer).u32().expect("a transaction");
        assert_eq!(transaction, self.transaction);
        let (told, verifier) = read(&answer);
        let Caller::Secured(secured) = &mut self.caller else {
            return told;
        };
        if matches!(told, ReplyContent::Denied(_)) {
            return told;
        }
        let number = secured.sequence.to_be_bytes();
        let checksum = verifier.expect("a verifier");
        secured
            .context
            .verify_mic(&number, &checksum)
            .expect("the server's");
        let ReplyContent::Results(results) = told else {
            return told;
        };
        let mut reader = Reader::new(&results);
        let body = match secured.service {
            2 => {
                let body = reader.opaque(results.len()).expect("a body").to_vec();
                let checksum = reader.opaque(400).expect("a checksum");
                secured
                    .context
                    .verify_mic(&body, checksum)
                    .expect("the server's");
                body
            }
            3 => {
                let sealed = reader.opaque(results.len()).expect("a body");
                secured
                    .context
                    .unwrap(sealed)
                    .expect("the server's")
                    .to_vec()
            }
            _ => return ReplyContent::Results(results),
        };
        assert_eq!(body[..4], number);
        // The server accounts for this overhead, so that replies have the agreed size.
        let around = answer.len() - (body.len() - 4);
        assert!(around <= if secured.service == 2 { 120 } else { 164 });
        ReplyContent::Results(body[4..].to_vec())
    }

    pub fn call(&mut self, what: (u32, u32, u32), arguments: &[u8]) -> ReplyContent {
        let record = self.record(what, arguments);
        self.send(&record);
        self.answer()
    }
}

/// Returns the content of a reply, and the checksum of its verifier if it has one.
fn read(answer: &[u8]) -> (ReplyContent, Option<Vec<u8>>) {
    let mut reader = Reader::new(answer);
    let mut word = || reader.u32().expect("a word");
    let (_transaction, _reply, is_denied) = (word(), word(), word());
    if is_denied == 1 {
        assert_eq!(word(), 1, "not of another version");
        return (ReplyContent::Denied(word()), None);
    }
    let flavor = word();
    let verifier = reader.opaque(400).expect("a verifier").to_vec();
    let told = match reader.u32().expect("a word") {
        0 => ReplyContent::Results(reader.rest().to_vec()),
        status => ReplyContent::Failed(status),
    };
    (told, (flavor == GSS).then_some(verifier))
}
