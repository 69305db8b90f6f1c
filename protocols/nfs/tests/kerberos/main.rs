//! `RPCSEC_GSS` (RFC 2203) with a key distribution center of MIT Kerberos: identities, protection
//! of calls, and refused clients.

mod client;
mod realm;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Caller, Client, MOUNT, NFS, ReplyContent, SERVER, credential};
use file_system::memory::MemoryFileSystem;
use nfs::exports::Shared;
use nfs::handles::HandleKey;
use nfs::server::{ApplyError, DesiredState, NfsServer, ServerLimits};
use nfs::sharenfs::Share;
use nfs::v4::Presentation;
use nfs::xdr::{Reader, Writer};
use realm::{Realm, within};

/// `auth_stat`.
const TOO_WEAK: u32 = 5;
const NO_CONTEXT: u32 = 13;
const BAD_CREDENTIAL: u32 = 1;
const GARBAGE: u32 = 4;
/// Procedures of version 3.
const LOOKUP: u32 = 3;
const READ: u32 = 6;
const WRITE: u32 = 7;
const CREATE: u32 = 8;
const MKDIR: u32 = 9;
const REMOVE: u32 = 12;
const READDIRPLUS: u32 = 17;
const MNT: u32 = 1;
/// Service numbers.
const NONE: u32 = 1;
const INTEGRITY: u32 = 2;
const PRIVACY: u32 = 3;

/// File systems that survive a server.
struct Files {
    realm: PathBuf,
    all: Vec<(&'static str, &'static str, Arc<MemoryFileSystem>)>,
}

struct TestServer<'a> {
    files: &'a Files,
    server: NfsServer,
}

impl Files {
    fn new(realm: &Realm) -> Self {
        let rules = [
            ("any", "sec=sys:krb5:krb5i:krb5p"),
            ("private", "sec=krb5p:krb5i,anonuid=77"),
            ("numbers", "sec=sys"),
            ("root", "sec=krb5,no_root_squash"),
        ];
        let all = rules.into_iter().zip(1..).map(|((name, rule), guid)| {
            (
                name,
                rule,
                Arc::new(MemoryFileSystem::with_guid(guid, 8 << 20)),
            )
        });
        Self {
            realm: realm.as_ref().to_owned(),
            all: all.collect(),
        }
    }

    fn serve(&self, start: u64) -> TestServer<'_> {
        let presentation = Presentation {
            owner: b"kerberos".to_vec(),
            start,
            handle_key: HandleKey::new(&[7; HandleKey::BYTES]),
            lease_seconds: 20,
            grace_seconds: 0,
        };
        let server = NfsServer::new(presentation, ServerLimits::default());
        let stand = TestServer {
            files: self,
            server,
        };
        stand.apply(Some("nfs.keytab")).expect("applied");
        stand
    }
}

impl TestServer<'_> {
    fn apply(&self, keytab: Option<&str>) -> Result<(), ApplyError> {
        let shared = self.files.all.iter().map(|(name, rule, files)| {
            let rule = format!("rw=127.0.0.0/8,insecure,{rule}");
            Shared {
                name: (*name).to_owned(),
                share: Share::parse(&rule).expect("a share").expect("not off"),
                files: Arc::clone(files) as _,
            }
        });
        self.server.apply(DesiredState {
            listeners: vec!["127.0.0.1:0".parse().expect("an address")],
            keytab: keytab.map(|name| self.files.realm.join(name)),
            shared: shared.collect(),
            ..DesiredState::default()
        })
    }

    fn address(&self) -> SocketAddr {
        self.server.listeners()[0].tcp().expect("TCP")
    }

    fn log_in(&self, user: &str, service: u32) -> Client {
        Client::log_in(self.address(), user, service)
    }

    fn caller(&self, caller: Caller) -> Client {
        Client::connect(self.address(), caller)
    }
}

/// Mounts a share. Returns its handle and the flavors in the reply.
fn mount(client: &mut Client, share: &str) -> (Vec<u8>, Vec<u32>) {
    let mut arguments = Writer::new();
    arguments.opaque(format!("/{share}").as_bytes());
    let results = client.call((MOUNT, 3, MNT), arguments.bytes()).results();
    let mut reader = Reader::new(&results);
    assert_eq!(reader.u32(), Ok(0));
    let handle = reader.opaque(64).expect("a handle").to_vec();
    let count = reader.count(8).expect("flavors");
    let flavors = (0..count).map(|_| reader.u32().expect("a flavor"));
    (handle, flavors.collect())
}

fn name_in(directory: &[u8], name: &str) -> Writer {
    let mut arguments = Writer::new();
    arguments.opaque(directory);
    arguments.opaque(name.as_bytes());
    arguments
}

/// Creates a file. Returns its handle, user and group.
fn create(
    client: &mut Client,
    directory: &[u8],
    name: &str,
) -> Result<(Vec<u8>, u32, u32), ReplyContent> {
    let mut arguments = name_in(directory, name);
    for _ in 0..7 {
        arguments.u32(0);
    }
    let results = match client.call((NFS, 3, CREATE), arguments.bytes()) {
        ReplyContent::Results(results) => results,
        other => return Err(other),
    };
    let mut reader = Reader::new(&results);
    assert_eq!((reader.u32(), reader.boolean()), (Ok(0), Ok(true)));
    let handle = reader.opaque(64).expect("a handle").to_vec();
    assert_eq!(reader.boolean(), Ok(true));
    let words: Vec<u32> = (0..5).map(|_| reader.u32().expect("a word")).collect();
    Ok((handle, words[3], words[4]))
}

/// Sends a compound of version 4.0 that enters a share. Returns its status and the results of the
/// last operation.
fn walk(client: &mut Client, share: &str, last: &[u32]) -> (u32, Vec<u8>) {
    let mut arguments = Writer::new();
    for word in [0, 0, 3, 24, 15] {
        arguments.u32(word);
    }
    arguments.opaque(share.as_bytes());
    last.iter().for_each(|word| arguments.u32(*word));
    let results = client.call((NFS, 4, 1), arguments.bytes()).results();
    (Reader::new(&results).u32().expect("a status"), results)
}

#[test]
fn client_maps_to_its_principal_with_each_security() {
    within("client_maps_to_its_principal_with_each_security", |realm| {
        let files = Files::new(realm);
        let stand = files.serve(1);
        for service in [NONE, INTEGRITY, PRIVACY] {
            let mut client = stand.log_in("daemon", service);
            let (any, _) = mount(&mut client, "any");
            let (_, uid, gid) = create(&mut client, &any, &format!("f{service}")).expect("made");
            assert_eq!((uid, gid), (1, 1), "{service}");
        }
        // Unknown users and host principals are mapped to `nobody`; root is squashed as usual.
        for (user, uid) in [("stranger", 77), ("root/admin", 77), ("root", 65_534)] {
            let share = if uid == 77 { "private" } else { "any" };
            let mut client = stand.log_in(user, PRIVACY);
            let (handle, _) = mount(&mut client, share);
            let made = create(&mut client, &handle, &user.replace('/', "-"));
            assert_eq!(made.map(|(_, uid, _)| uid), Ok(uid), "{user}");
        }
        let mut client = stand.log_in("root", NONE);
        let (handle, _) = mount(&mut client, "root");
        let made = create(&mut client, &handle, "mine");
        assert_eq!(made.map(|(_, uid, _)| uid), Ok(0));
    });
}

#[test]
fn share_accepts_only_calls_with_its_rpc_security() {
    within("share_accepts_only_calls_with_its_rpc_security", |realm| {
        let files = Files::new(realm);
        let stand = files.serve(1);
        let mut numbers = stand.caller(Caller::User(1));
        let (private, flavors) = mount(&mut numbers, "private");
        assert_eq!(flavors, [390_005, 390_004]);
        assert_eq!(mount(&mut numbers, "numbers").1, [1, 0]);
        assert_eq!(
            create(&mut numbers, &private, "no"),
            Err(ReplyContent::Denied(TOO_WEAK))
        );
        let mut weak = stand.log_in("daemon", NONE);
        assert_eq!(
            create(&mut weak, &private, "no"),
            Err(ReplyContent::Denied(TOO_WEAK))
        );
        let (any, _) = mount(&mut weak, "numbers");
        assert_eq!(
            create(&mut weak, &any, "no"),
            Err(ReplyContent::Denied(TOO_WEAK))
        );
        // GETFH, and the same on the directory that LOOKUP reaches.
        const WRONGSEC: u32 = 10_016;
        let statuses: Vec<u32> = ["any", "private", "numbers"]
            .map(|share| walk(&mut weak, share, &[10]).0)
            .to_vec();
        assert_eq!(statuses, [0, WRONGSEC, WRONGSEC]);
        let mut good = stand.log_in("daemon", INTEGRITY);
        assert_eq!(walk(&mut good, "private", &[10]).0, 0);
        // PUTROOTFH and SECINFO: both flavors, the better one first.
        let mut arguments = Writer::new();
        for word in [0, 0, 2, 24, 33] {
            arguments.u32(word);
        }
        arguments.opaque(b"private");
        let results = weak.call((NFS, 4, 1), arguments.bytes()).results();
        let mechanism =
            b"\0\0\0\x06\0\0\0\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\0\0\0\0\0\0\0\0\0\0";
        let mut ways = b"\0\0\0\x02".to_vec();
        for service in [3, 2] {
            ways.extend_from_slice(mechanism);
            ways.push(service);
        }
        assert!(results.ends_with(&ways), "{results:?}");
    });
}

/// Returns the results of version 4.0 operations that start at a handle.
fn at(client: &mut Client, handle: &[u8], count: u32, operations: &[u8]) -> Vec<u8> {
    let mut arguments = Writer::new();
    for word in [0, 0, count + 1, 22] {
        arguments.u32(word);
    }
    arguments.opaque(handle);
    arguments.append(operations);
    client.call((NFS, 4, 1), arguments.bytes()).results()
}

/// Creates a directory with this mode.
fn make_directory(client: &mut Client, parent: &[u8], name: &str, mode: u32) -> Vec<u8> {
    let mut arguments = name_in(parent, name);
    for word in [1, mode, 0, 0, 0, 0, 0] {
        arguments.u32(word);
    }
    let results = client.call((NFS, 3, MKDIR), arguments.bytes()).results();
    let mut reader = Reader::new(&results);
    assert_eq!((reader.u32(), reader.boolean()), (Ok(0), Ok(true)));
    reader.opaque(64).expect("a handle").to_vec()
}

/// An AUTH_SYS client can discover neither names nor the attributes of the root of a file system.
#[test]
fn share_is_hidden_from_calls_without_its_security() {
    within("share_is_hidden_from_calls_without_its_security", |realm| {
        let files = Files::new(realm);
        let stand = files.serve(1);
        let mut good = stand.log_in("daemon", PRIVACY);
        let (private, _) = mount(&mut good, "private");
        let closed = make_directory(&mut good, &private, "closed", 0o700);
        make_directory(&mut good, &closed, "within", 0o755);
        make_directory(&mut good, &private, "open", 0o755);

        let mut numbers = stand.caller(Caller::User(1));
        let answers = ["open", "missing"].map(|name| {
            [15, 33].map(|operation| {
                let mut operations = Writer::new();
                operations.u32(operation);
                operations.opaque(name.as_bytes());
                at(&mut numbers, &private, 1, operations.bytes())
            })
        });
        assert_eq!(answers[0], answers[1]);
        // LOOKUP is refused. SECINFO returns the accepted flavors.
        let statuses = answers[0].clone().map(|answer| answer[..4].to_vec());
        assert_eq!(statuses, [10_016_u32.to_be_bytes(), [0; 4]]);

        let mut mounts = |path: &str| {
            let mut arguments = Writer::new();
            arguments.opaque(path.as_bytes());
            let results = numbers.call((MOUNT, 3, MNT), arguments.bytes()).results();
            Reader::new(&results).u32().expect("a status")
        };
        // Linux mounts with AUTH_SYS. A directory that is not readable by all users is closed
        // to it.
        let paths = [
            "/private/open",
            "/private/closed/within",
            "/private/closed/no",
        ];
        assert_eq!(paths.map(&mut mounts), [0, 13, 13]);
        let good_mount = mount(&mut good, "private/closed/within");
        assert_eq!(good_mount.1, [390_005, 390_004]);

        // READDIR of the root: type and size with the error, if requested; the type alone.
        let (root, _) = mount(&mut numbers, "");
        let mut listed = |attributes: u32| {
            let mut operation = Writer::new();
            for word in [26, 0, 0, 0, 0, 8192, 8192, 1, attributes] {
                operation.u32(word);
            }
            let results = at(&mut numbers, &root, 1, operation.bytes());
            assert_eq!(results[..4], [0; 4]);
            let words = results.chunks_exact(4);
            words
                .filter(|word| **word == 10_016_u32.to_be_bytes())
                .count()
        };
        const KIND: u32 = 1 << 1;
        const SIZE: u32 = 1 << 4;
        const ERROR: u32 = 1 << 11;
        // Those of "private" and of "root".
        assert_eq!(
            [KIND | SIZE | ERROR, KIND | ERROR, KIND | SIZE].map(&mut listed),
            [2, 0, 0]
        );

        let (any, _) = mount(&mut numbers, "any");
        let mut arguments = Writer::new();
        arguments.opaque(&root);
        for word in [0, 0, 0, 0, 8192, 8192] {
            arguments.u32(word);
        }
        let results = numbers
            .call((NFS, 3, READDIRPLUS), arguments.bytes())
            .results();
        let told = [&any, &private].map(|handle| {
            let mut all = results.windows(handle.len());
            all.any(|bytes| bytes == &handle[..])
        });
        assert_eq!(told, [true, false]);
    });
}

#[test]
fn replayed_or_tampered_calls_have_no_effect() {
    within("replayed_or_tampered_calls_have_no_effect", |realm| {
        let files = Files::new(realm);
        let stand = files.serve(1);
        for service in [INTEGRITY, PRIVACY] {
            let mut client = stand.log_in("daemon", service);
            let (any, _) = mount(&mut client, "any");
            create(&mut client, &any, "f").expect("made");
            let name = name_in(&any, "f");
            let record = client.record((NFS, 3, REMOVE), name.bytes());
            client.send(&record);
            assert_eq!(client.answer().results()[..4], [0; 4]);
            // It was dropped: the next reply belongs to the next call.
            client.send(&record);
            create(&mut client, &any, "f").expect("made");
            // Another body, another header, another sequence number in the body.
            let mut record = client.record((NFS, 3, REMOVE), name.bytes());
            let last = record.len() - 8;
            record[last] ^= 1;
            client.send(&record);
            assert_eq!(client.answer(), ReplyContent::Failed(GARBAGE), "{service}");
            let mut record = client.record((NFS, 3, REMOVE), name.bytes());
            record[23] = LOOKUP as u8;
            client.send(&record);
            assert_eq!(client.answer(), ReplyContent::Denied(NO_CONTEXT));
            let looked = client.call((NFS, 3, LOOKUP), name.bytes()).results();
            assert_eq!(looked[..4], [0; 4], "it is still there");
            client.call((NFS, 3, REMOVE), name.bytes()).results();
        }
    });
}

#[test]
fn one_mebibyte_round_trips_with_each_security() {
    within("one_mebibyte_round_trips_with_each_security", |realm| {
        let files = Files::new(realm);
        let stand = files.serve(1);
        let bytes: Vec<u8> = (0..1u32 << 20).map(|at| ((at * 31) >> 7) as u8).collect();
        for service in [NONE, INTEGRITY, PRIVACY] {
            let mut client = stand.log_in("daemon", service);
            let (any, _) = mount(&mut client, "any");
            let (file, ..) = create(&mut client, &any, "large").expect("made");
            let mut write = Writer::new();
            write.opaque(&file);
            write.u64(0);
            write.u32(bytes.len() as u32);
            write.u32(2);
            write.opaque(&bytes);
            let record = client.record((NFS, 3, WRITE), write.bytes());
            assert!(service != PRIVACY || !record.windows(64).any(|part| part == &bytes[..64]));
            client.send(&record);
            assert_eq!(client.answer().results()[..4], [0; 4]);
            let mut read = Writer::new();
            read.opaque(&file);
            read.u64(0);
            read.u32(bytes.len() as u32);
            let results = client.call((NFS, 3, READ), read.bytes()).results();
            assert!(results.ends_with(&bytes), "{service}");
        }
    });
}

#[test]
fn client_without_service_ticket_is_refused() {
    within("client_without_service_ticket_is_refused", |realm| {
        let files = Files::new(realm);
        let stand = files.serve(1);
        let mut client = stand.caller(Caller::Nobody);
        let begun = client.begin(&credential("daemon"), b"host@localhost", NONE);
        assert!(matches!(begun, Err(ReplyContent::Failed(_))), "{begun:?}");
        stand.apply(None).expect("applied");
        let begun = client.begin(&credential("daemon"), SERVER, NONE);
        assert_eq!(begun, Err(ReplyContent::Denied(BAD_CREDENTIAL)));
    });
}

/// An unusable keytab does not affect other clients, and is used as soon as it becomes valid.
#[test]
fn unusable_keytab_is_reported_and_retried() {
    within("unusable_keytab_is_reported_and_retried", |realm| {
        let files = Files::new(realm);
        let stand = files.serve(1);
        let is_told = || stand.server.keytab_problem().is_some();
        let mut client = stand.caller(Caller::Nobody);
        let mut begins = || client.begin(&credential("daemon"), SERVER, NONE);
        let later = realm.path("later.keytab");
        for keytab in ["host.keytab", "later.keytab"] {
            stand.apply(Some(keytab)).expect("applied");
            assert!(is_told(), "{keytab}");
            assert_eq!(begins(), Err(ReplyContent::Denied(BAD_CREDENTIAL)));
        }
        std::fs::copy(realm.path("nfs.keytab"), &later).expect("copied");
        stand.server.try_keytab_again();
        assert!(!is_told());
        begins().expect("let in");
        // The same file is absent for a short time.
        let aside = realm.path("aside.keytab");
        std::fs::rename(&later, &aside).expect("renamed");
        stand.apply(Some("later.keytab")).expect("applied");
        assert!(is_told());
        std::fs::rename(&aside, &later).expect("renamed");
        begins().expect("let in");
        stand.server.try_keytab_again();
        assert!(!is_told());
    });
}

#[test]
fn new_keytab_keys_take_effect_at_once() {
    within("new_keytab_keys_take_effect_at_once", |realm| {
        let files = Files::new(realm);
        let stand = files.serve(1);
        let mut before = stand.log_in("daemon", PRIVACY);
        realm.take_keys("nfs.keytab", "nfs/localhost");
        let mut after = stand.log_in("daemon", PRIVACY);
        for client in [&mut before, &mut after] {
            mount(client, "any");
        }
    });
}

#[test]
fn context_ends_with_its_ticket_or_on_destroy() {
    within("context_ends_with_its_ticket_or_on_destroy", |realm| {
        let files = Files::new(realm);
        let stand = files.serve(1);
        let mut client = stand.log_in("daemon", INTEGRITY);
        mount(&mut client, "any");
        let record = client.record_for(3, (NFS, 4, 0), b"");
        client.send(&record);
        client.secured().service = NONE;
        assert_eq!(client.answer(), ReplyContent::Results(Vec::new()));
        assert_eq!(
            client.call((NFS, 3, 0), b""),
            ReplyContent::Denied(NO_CONTEXT)
        );
        // One second plus the permitted clock skew.
        let mut short = stand.log_in("short", NONE);
        let deadline = Instant::now() + Duration::from_secs(30);
        while short.call((NFS, 3, 0), b"") != ReplyContent::Denied(NO_CONTEXT) {
            assert!(Instant::now() < deadline, "the context stays");
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(
            stand.log_in("short", NONE).call((NFS, 3, 0), b""),
            ReplyContent::Results(Vec::new())
        );
    });
}

/// The next server has no contexts. Clients create new ones and retain their state.
#[test]
fn next_server_requires_new_contexts() {
    within("next_server_requires_new_contexts", |realm| {
        let files = Files::new(realm);
        let stand = files.serve(1);
        let mut client = stand.log_in("daemon", PRIVACY);
        let (any, _) = mount(&mut client, "any");
        create(&mut client, &any, "f").expect("made");
        let caller = std::mem::replace(&mut client.caller, Caller::Nobody);
        drop(stand);
        let stand = files.serve(2);
        let mut client = stand.caller(caller);
        let name = name_in(&any, "f");
        let looked = client.call((NFS, 3, LOOKUP), name.bytes());
        assert_eq!(looked, ReplyContent::Denied(NO_CONTEXT));
        client
            .begin(&credential("daemon"), SERVER, PRIVACY)
            .expect("let in");
        let looked = client.call((NFS, 3, LOOKUP), name.bytes()).results();
        assert_eq!(looked[..4], [0; 4]);
    });
}

/// A client must not wait for the reply to a call that the server cannot distinguish from a
/// retransmission.
#[test]
fn gss_sequence_below_the_window_closes_the_connection() {
    within(
        "gss_sequence_below_the_window_closes_the_connection",
        |realm| {
            let files = Files::new(realm);
            let stand = files.serve(1);
            let mut client = stand.log_in("daemon", NONE);
            let late = client.record((NFS, 3, 0), b"");
            for _ in 0..1023 {
                client.call((NFS, 3, 0), b"").results();
            }
            client.send(&late);
            // It was the last of the window.
            client.receive();
            client.call((NFS, 3, 0), b"").results();
            client.send(&late);
            assert!(client.is_over());
        },
    );
}

/// One network may have 1024 contexts. Contexts without a call are evicted first, then those of the
/// principal with the most contexts.
#[test]
fn context_limit_per_network_evicts_the_oldest() {
    within("context_limit_per_network_evicts_the_oldest", |realm| {
        let files = Files::new(realm);
        let stand = files.serve(1);
        let mut used = stand.log_in("daemon", NONE);
        let mut unused = stand.log_in("daemon", NONE);
        used.call((NFS, 3, 0), b"").results();
        let mut many = stand.caller(Caller::Nobody);
        let credential = credential("daemon");
        for _ in 0..1023 {
            many.begin(&credential, SERVER, NONE).expect("let in");
        }
        assert_eq!(
            unused.call((NFS, 3, 0), b""),
            ReplyContent::Denied(NO_CONTEXT)
        );
        used.call((NFS, 3, 0), b"").results();
        many.call((NFS, 3, 0), b"").results();
        let mut other = stand.log_in("stranger", NONE);
        other.call((NFS, 3, 0), b"").results();
        for _ in 0..1024 {
            many.begin(&credential, SERVER, NONE).expect("let in");
            many.call((NFS, 3, 0), b"").results();
        }
        assert_eq!(
            used.call((NFS, 3, 0), b""),
            ReplyContent::Denied(NO_CONTEXT)
        );
        other.call((NFS, 3, 0), b"").results();
    });
}
