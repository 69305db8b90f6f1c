//! A principal cannot close, unlock or free state of another Kerberos principal, even in the same
//! session.

use kerberos::{Principal, User};

use super::*;

const ACCESS: u32 = 13;
const ALICE: &str = "alice@REALM";

pub(super) fn kerberos(name: &str, uid: u32) -> Credential {
    Credential::Kerberos(Arc::new(Principal {
        name: name.to_owned(),
        user: Some(User {
            uid,
            gid: uid,
            groups: vec![uid],
        }),
    }))
}

/// `CLOSE` (4) of the current file.
fn close(open: &[u8]) -> Vec<u8> {
    [words(&[4, 0]), open.to_vec()].concat()
}

/// `OPEN_DOWNGRADE` (21) to reading.
fn downgrade(open: &[u8]) -> Vec<u8> {
    [words(&[21]), open.to_vec(), words(&[0, 1, 0])].concat()
}

/// `LOCK` (12) of ten bytes by an owner that is new.
fn lock(client: &Client, open: &[u8]) -> Vec<u8> {
    let mut lock = Writer::new();
    for word in [12, 2, 0, 0, 0, 0, 10, 1, 0] {
        lock.u32(word);
    }
    lock.fixed(open);
    lock.u32(0);
    lock.u64(client.client);
    lock.opaque(b"owner");
    lock.into_bytes()
}

/// `LOCK` of further bytes, and `LOCKU` (14) of all.
fn further(lock: &[u8]) -> [Vec<u8>; 2] {
    let more = [
        words(&[12, 2, 0, 0, 20, 0, 10, 0]),
        lock.to_vec(),
        words(&[0]),
    ]
    .concat();
    let unlock = [words(&[14, 2, 0]), lock.to_vec(), words(&[0, 0, 0, 30])].concat();
    [more, unlock]
}

#[test]
fn state_of_another_principal_is_protected() {
    const OTHERS: [(Option<&str>, u32); 3] =
        [(Some("mallory@REALM"), 1000), (None, 1000), (None, 0)];
    let mut client = Client::connect(&service(), b"one", 0);
    let (root, file) = (words(&[24]), path(&[b"file"]));
    (client.uid, client.principal) = (0, Some(ALICE));
    let open = client.open(b"file", 3, 0).expect("a new file");
    let answer = client.ask(&[&root, &file, &lock(&client, &open)]);
    assert_eq!(answer[..4], words(&[0]), "it is locked");
    let lock_id = answer[answer.len() - 16..].to_vec();
    let [more, unlock] = further(&lock_id);
    let free = [words(&[45]), lock_id.clone()].concat();
    for (principal, uid) in OTHERS {
        (client.principal, client.uid) = (principal, uid);
        for operation in [
            &close(&open),
            &downgrade(&open),
            &lock(&client, &open),
            &more,
            &unlock,
            &free,
        ] {
            let refused = client.status(&[&root, &file, operation]);
            assert_eq!(refused, ACCESS, "{principal:?} {:?}", &operation[..4]);
        }
        if uid == 0 {
            assert_eq!(client.open(b"file", 1, 0), Err(ACCESS), "by the same owner");
        }
    }
    (client.uid, client.principal) = (0, Some(ALICE));
    assert_eq!(client.status(&[&root, &file, &unlock]), 0);
    let mut freed = free;
    freed[4..8].copy_from_slice(&words(&[2]));
    assert_eq!(client.status(&[&freed]), 0);
    assert_eq!(client.status(&[&root, &file, &close(&open)]), 0);
}

/// With AUTH_SYS each user of the client could be any other one: its state is the client's.
#[test]
fn auth_sys_state_belongs_to_the_client() {
    let mut client = Client::connect(&service(), b"one", 0);
    let open = client.open(b"file", 3, 0).expect("a new file");
    (client.uid, client.principal) = (1000, Some(ALICE));
    let (root, file) = (words(&[24]), path(&[b"file"]));
    assert_eq!(client.status(&[&root, &file, &close(&open)]), 0);
}

/// The principal that introduced the client may remove state of its users, because their tickets
/// may have expired.
#[test]
fn client_principal_may_end_state_of_its_users() {
    const HOST: &str = "host/client@REALM";
    let service = service();
    let host = kerberos(HOST, 0);
    let ask = |operation: &[u8]| send_by(&service, &host, 0, &compound(&[operation]));
    let id = Reader::new(&ask(&exchange_id(b"one", 1))[20..])
        .u64()
        .expect("a client id");
    let session = ask(&create_session(id, 1, 8192))[20..36]
        .try_into()
        .expect("a session");
    let mut client = Client {
        service: Arc::clone(&service),
        session,
        client: id,
        sequence: 0,
        now_ms: 0,
        uid: 0,
        principal: Some(HOST),
    };
    assert_eq!(client.status(&[&words(&[58, 0])]), 0, "RECLAIM_COMPLETE");
    client.principal = Some(ALICE);
    let open = client.open(b"file", 3, 0).expect("a new file");
    client.principal = Some(HOST);
    let (root, file) = (words(&[24]), path(&[b"file"]));
    assert_eq!(client.status(&[&root, &file, &close(&open)]), 0);
}
