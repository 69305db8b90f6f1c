//! Limits per network, and numbers.

use super::*;
use crate::v4::seqids::{Owner, Purpose, Replied, Request};
use file_system::{FileSystemId, Node};

const LEASE_MS: u64 = 1000;
const CHANNEL: Channel = Channel {
    request_bytes_max: 4096,
    response_bytes_max: 4096,
    cached_bytes_max: 1024,
    operations_max: 8,
    slots: SLOTS_MAX,
};

fn state() -> State {
    State::new(1, LEASE_MS, 0, PersistentState::default())
}

fn introduction(owner: &str, network: u8) -> Introduction<'_> {
    Introduction {
        owner: owner.as_bytes(),
        verifier: [0; 8],
        principal: 0,
        kerberos: None,
        is_update: false,
        address: [10, 0, 0, network].into(),
        network: [10, 0, 0, network].into(),
    }
}

fn introduce(state: &mut State, owner: &str, network: u8, now_ms: u64) -> Result<u64, Status> {
    let who = introduction(owner, network);
    state.exchange_id(&who, now_ms).map(|(id, ..)| id)
}

/// A client without sessions that confirms itself.
fn come(state: &mut State, owner: &str, network: u8, now_ms: u64) -> Result<u64, Status> {
    let who = introduction(owner, network);
    let (id, confirmation) = state.set_client(&who, now_ms)?;
    state.confirm_client(id, confirmation, 0, now_ms)?;
    Ok(id)
}

/// A principal at the address of most clients here.
fn by(principal: u64) -> Requester {
    Requester {
        principal,
        address: [10, 0, 0, 1].into(),
    }
}

fn begin(state: &mut State, id: u64, sequence: u32, now_ms: u64) -> Result<Created, Status> {
    let requester = Requester {
        principal: 0,
        address: state
            .clients
            .get(&id)
            .map_or(by(0).address, |client| client.network),
    };
    state.create_session(id, sequence, requester, CHANNEL, 1, now_ms)
}

#[test]
fn unconfirmed_clients_are_evicted_within_their_network() {
    let mut state = state();
    let first = introduce(&mut state, "first", 1, 0).unwrap();
    for number in 0..CLIENTS_PER_NETWORK_MAX {
        introduce(&mut state, &format!("flood {number}"), 1, 1).unwrap();
    }
    assert_eq!(state.clients.len(), CLIENTS_PER_NETWORK_MAX);
    let lost = begin(&mut state, first, 1, 1).map(|_| ());
    assert_eq!(lost, Err(Status::STALE_CLIENTID));
    let last = introduce(&mut state, "last", 1, 1).unwrap();
    begin(&mut state, last, 1, 1).unwrap();
}

#[test]
fn host_with_locks_does_not_prevent_eviction() {
    let mut state = state();
    let way = crate::hosts::AddressPair {
        here: [10, 0, 0, 1].into(),
        there: [10, 0, 1, 1].into(),
    };
    let host = state.host(way, b"host", Some(3), 0).unwrap();
    let lock = state.number_of_state(host);
    state.clients.get_mut(&host).unwrap().held.insert(lock);
    let network = serving::network(way.there);
    let come = |state: &mut State, name: &str, now_ms| {
        let who = Introduction {
            network,
            ..introduction(name, 1)
        };
        let (id, confirmation) = state.set_client(&who, now_ms)?;
        state.confirm_client(id, confirmation, 0, now_ms)
    };
    for number in 1..CLIENTS_PER_NETWORK_MAX {
        come(&mut state, &format!("client {number}"), 1).unwrap();
    }
    assert_eq!(come(&mut state, "another", 2).err(), Some(Status::DELAY));
    come(&mut state, "another", LEASE_MS + 2).unwrap();
    assert!(state.clients.contains_key(&host));
}

#[test]
fn open_of_a_removed_client_is_refused() {
    let mut state = state();
    let file = Handle {
        file_system: FileSystemId {
            guid: 7,
            snapshot: 0,
        },
        node: Node {
            object: 8,
            generation: 9,
        },
    };
    let before = come(&mut state, "client", 1, 0).unwrap();
    let opened =
        |state: &mut State, client| state.check_share((client, b"owner"), file, (1, 0), false, 0);
    assert_eq!(opened(&mut state, before), Ok(()));
    let who = Introduction {
        verifier: [1; 8],
        ..introduction("client", 1)
    };
    let (after, confirmation) = state.set_client(&who, 0).unwrap();
    state.confirm_client(after, confirmation, 0, 0).unwrap();
    assert_eq!(opened(&mut state, before), Err(Status::STALE_CLIENTID));
    assert_eq!(opened(&mut state, after), Ok(()));
}

#[test]
fn client_ids_are_not_reused_while_held() {
    let mut state = state();
    let first = come(&mut state, "first", 1, 0).unwrap();
    // All numbers have been used once.
    state.next = (first & 0xffff_ffff) - 1 + (1 << 32);
    let second = come(&mut state, "second", 1, 0).unwrap();
    assert_ne!(first, second);
    assert_eq!(state.clients.len(), 2);
}

#[test]
fn network_at_its_client_limit_does_not_block_others() {
    let mut state = state();
    for number in 0..CLIENTS_PER_NETWORK_MAX {
        come(&mut state, &format!("hoarder {number}"), 1, 0).unwrap();
    }
    let refused = introduce(&mut state, "one more", 1, LEASE_MS);
    assert_eq!(refused, Err(Status::DELAY));
    introduce(&mut state, "another", 2, LEASE_MS).unwrap();
    introduce(&mut state, "one more", 1, LEASE_MS + 1).unwrap();
}

#[test]
fn slots_shrink_and_sessions_are_limited_per_network() {
    let mut state = state();
    let mut given = Vec::new();
    for number in 0..SESSIONS_PER_NETWORK_MAX / SESSIONS_PER_CLIENT_MAX {
        let id = introduce(&mut state, &format!("hoarder {number}"), 1, 0).unwrap();
        for sequence in 1..=SESSIONS_PER_CLIENT_MAX as u32 {
            let created = begin(&mut state, id, sequence, 0).unwrap();
            given.push((created.fore.slots, created.session));
        }
    }
    assert_eq!(given[SESSIONS_WITH_ALL_SLOTS - 1].0, SLOTS_MAX);
    assert_eq!(given[SESSIONS_WITH_ALL_SLOTS].0, SLOTS_OF_MANY_MAX);
    let id = introduce(&mut state, "one more", 1, 0).unwrap();
    let refused = begin(&mut state, id, 1, 0).map(|_| ());
    assert_eq!(refused, Err(Status::DELAY));
    state.destroy_session(&given[0].1, 1, 0).unwrap();
    begin(&mut state, id, 1, 0).unwrap();
}

#[test]
fn idle_owners_are_limited_in_a_busy_network() {
    let mut state = state();
    let ask = |state: &mut State, client: u64, number: usize| {
        let owner = Owner::Open(format!("{client} {number}").into_bytes());
        let request = Request {
            sequence: 1,
            fingerprint: 1,
            purpose: Purpose::Opens,
        };
        state.begin_seqid(client, &owner, &request).map(drop)?;
        let answered = Replied {
            status: Status::NOENT,
            body: Vec::new(),
            file: None,
        };
        state.end_seqid(client, &owner, &request, answered);
        Ok::<_, Status>(())
    };
    let network = IpAddr::from([10, 0, 0, 1]);
    let clients: Vec<u64> = (0..CLIENTS_PER_NETWORK_MAX)
        .map(|number| come(&mut state, &format!("hoarder {number}"), 1, 0).unwrap())
        .collect();
    for client in &clients {
        for number in 0..100 {
            ask(&mut state, *client, number).unwrap();
        }
    }
    assert!(state.idle_owners_of(network) <= 4096 + CLIENTS_PER_NETWORK_MAX * 2);
    let other = come(&mut state, "other", 2, 0).unwrap();
    for number in 0..100 {
        ask(&mut state, other, number).unwrap();
    }
    assert_eq!(state.idle_owners_of([10, 0, 0, 2].into()), 64);
    clients
        .iter()
        .for_each(|client| state.forget_client(*client));
    assert_eq!(state.idle_owners_of(network), 0);
}

#[test]
fn state_ids_are_not_predictable() {
    let mut state = state();
    let client = come(&mut state, "client", 1, 0).unwrap();
    let numbers: Vec<u64> = (0..64).map(|_| state.number_of_state(client)).collect();
    let is_next = |pair: &[u64]| pair[0].abs_diff(pair[1]) < 1 << 10;
    assert!(numbers.windows(2).filter(|pair| is_next(pair)).count() < 2);
    let of_client = |number: &u64| state.client_of_number(*number) == client;
    assert!(numbers.iter().all(of_client));
}

#[test]
fn removed_client_frees_its_network_quota() {
    let mut state = state();
    let id = introduce(&mut state, "a", 1, 0).unwrap();
    begin(&mut state, id, 1, 0).unwrap();
    state.forget_client(id);
    assert!(state.loads.is_empty());
}

/// A principal of Kerberos, by its number and its name.
fn kerberos<'a>(owner: &'a str, (principal, name): (u64, &'a str)) -> Introduction<'a> {
    Introduction {
        principal,
        kerberos: Some(name),
        ..introduction(owner, 1)
    }
}

#[test]
fn client_id_of_a_kerberos_principal_is_refused_to_others() {
    const OURS: (u64, &str) = (1 << 63, "host/a@REALM");
    const OTHERS: [u64; 3] = [0, u64::MAX, 1 << 63 | 1];
    let mut state = state();
    let (id, ..) = state.exchange_id(&kerberos("client", OURS), 0).unwrap();
    let made = state
        .create_session(id, 1, by(OURS.0), CHANNEL, 1, 0)
        .unwrap();
    for other in OTHERS {
        // The cached reply would disclose the session ID.
        for sequence in [1, 2] {
            let again = state.create_session(id, sequence, by(other), CHANNEL, 2, 0);
            assert_eq!(again.map(|_| ()), Err(Status::CLID_INUSE));
        }
        let refused = [
            state.bind(&made.session, 2, other),
            state.destroy_session(&made.session, 1, other),
            state.reclaim_complete(id, other),
            state.destroy_client(id, by(other)),
        ];
        assert_eq!(refused, [Err(Status::WRONG_CRED); 4]);
    }
    state.bind(&made.session, 2, OURS.0).unwrap();
    state.reclaim_complete(id, OURS.0).unwrap();
    state.destroy_session(&made.session, 1, OURS.0).unwrap();
    state.destroy_client(id, by(OURS.0)).unwrap();

    let who = kerberos("older", OURS);
    let (id, confirmation) = state.set_client(&who, 0).unwrap();
    for other in OTHERS {
        let confirmed = state.confirm_client(id, confirmation, other, 0);
        assert_eq!(confirmed, Err(Status::CLID_INUSE));
    }
    state.confirm_client(id, confirmation, OURS.0, 0).unwrap();
    for other in OTHERS {
        assert_eq!(state.renew(id, other, 0), Err(Status::ACCESS));
    }
    state.renew(id, OURS.0, 0).unwrap();
}

/// With AUTH_SYS every host can claim to be root. The reply to a repeated `CREATE_SESSION` would
/// disclose the session ID to it.
#[test]
fn other_hosts_cannot_create_or_destroy_sessions_by_client_id() {
    let mut state = state();
    let id = introduce(&mut state, "client", 1, 0).unwrap();
    let other = Requester {
        address: [10, 0, 0, 2].into(),
        ..by(0)
    };
    let made = state.create_session(id, 1, other, CHANNEL, 2, 0);
    assert_eq!(made.map(|_| ()), Err(Status::STALE_CLIENTID));
    let made = begin(&mut state, id, 1, 0).unwrap();
    for sequence in [1, 2] {
        let again = state.create_session(id, sequence, other, CHANNEL, 2, 0);
        assert_eq!(again.map(|_| ()), Err(Status::STALE_CLIENTID));
    }
    state.destroy_session(&made.session, 1, 0).unwrap();
    assert_eq!(state.destroy_client(id, other), Err(Status::STALE_CLIENTID));
    // A client with several networks, or with a new address, introduces itself there.
    let moved = Introduction {
        address: other.address,
        ..introduction("client", 1)
    };
    assert_eq!(state.exchange_id(&moved, 0), Ok((id, 2, true)));
    for (sequence, requester) in [(2, other), (3, by(0))] {
        let made = state
            .create_session(id, sequence, requester, CHANNEL, 2, 0)
            .unwrap();
        state.destroy_session(&made.session, 2, 0).unwrap();
    }
    state.destroy_client(id, other).unwrap();
}

#[test]
fn client_ids_are_unguessable() {
    let mut state = state();
    let ids: Vec<u64> = (0..3)
        .map(|number| introduce(&mut state, &format!("client {number}"), 1, 0).unwrap())
        .collect();
    assert!(
        ids.iter().all(|id| id >> 32 == 1),
        "they name the start of the server"
    );
    assert!(ids.windows(2).all(|two| two[0] + 1 != two[1]), "{ids:?}");
}

#[test]
fn session_ids_are_unguessable() {
    let numbers = [(); 2].map(|()| {
        let mut state = state();
        let id = introduce(&mut state, "client", 1, 0).unwrap();
        let session = begin(&mut state, id, 1, 0).unwrap().session;
        assert_eq!(session[..8], id.to_be_bytes());
        u64::from_be_bytes(session[8..].try_into().unwrap())
    });
    // Of two servers with equal actions.
    assert_ne!(numbers[0], numbers[1]);
}

#[test]
fn reclaim_requires_the_same_principal() {
    const OURS: (u64, &str) = (1 << 63, "host/a@REALM");
    let mut before = state();
    let (id, ..) = before.exchange_id(&kerberos("client", OURS), 0).unwrap();
    before
        .create_session(id, 1, by(OURS.0), CHANNEL, 1, 0)
        .unwrap();
    before.reclaim_complete(id, OURS.0).unwrap();
    before.record_state(id, ReclaimableState::ALL);
    let set = before.set_client(&kerberos("older", OURS), 0).unwrap();
    before.confirm_client(set.0, set.1, OURS.0, 0).unwrap();
    before.record_state(set.0, ReclaimableState::ALL);

    let earlier = PersistentState {
        holders: before.holders(0),
        ..PersistentState::default()
    };
    let mut after = State::new(2, LEASE_MS, LEASE_MS, earlier);
    let mut record_reclaim = |who: &dyn Fn(&'static str) -> Introduction<'static>| {
        let with_sessions = after.exchange_id(&who("client"), 0).unwrap().0;
        let without = after.set_client(&who("older"), 0).unwrap().0;
        [with_sessions, without].map(|id| after.check_reclaim(id, ReclaimableState::LOCKS, 0))
    };
    let refused = [Err(Status::NO_GRACE); 2];
    assert_eq!(record_reclaim(&|owner| introduction(owner, 1)), refused);
    let other = (1 << 63 | 1, "host/b@REALM");
    assert_eq!(record_reclaim(&|owner| kerberos(owner, other)), refused);
    assert_eq!(record_reclaim(&|owner| kerberos(owner, OURS)), [Ok(()); 2]);
}

/// The fingerprint is stored on disk. If another release of Rust computes a different one, our own
/// hash function is necessary.
#[test]
fn call_fingerprint_is_stable_across_builds() {
    let call = fingerprint_of(b"a call", &Credential::Nobody);
    assert_eq!(call, 4_758_411_875_782_237_179);
}

/// All other clients are blocked during the removal. It took ten seconds when each open visited all
/// locks of its file.
#[test]
fn removal_of_a_client_with_many_locks_is_fast() {
    use crate::v4::opens::{READ, Span, WRITE};
    const FILES: u64 = 4;
    const OPENS: u64 = 8190;
    let mut state = state();
    let id = introduce(&mut state, "many", 1, 0).unwrap();
    begin(&mut state, id, 1, 0).unwrap();
    state.reclaim_complete(id, 0).unwrap();
    let files: Arc<dyn FileSystem> = Arc::new(file_system::memory::MemoryFileSystem::new(1 << 20));
    let file = |object| Handle {
        file_system: FileSystemId::default(),
        node: Node {
            object,
            generation: 1,
        },
    };
    for file in (0..FILES).map(file) {
        for number in 0..OPENS {
            let owner = number.to_be_bytes();
            let (open, _) = state.open(id, &owner, file, (READ | WRITE, 0), Arc::clone(&files));
            let span = Span::new(number * 2, 1, true).unwrap();
            state.lock_as(id, &open, &owner, file, span, 0).unwrap();
        }
    }
    let started = std::time::Instant::now();
    state.forget_client(id);
    let took = started.elapsed();
    assert!(took < std::time::Duration::from_secs(2), "{took:?}");
    assert!(state.held.is_empty() && state.files.is_empty());
    assert_eq!(state.take_released().len(), FILES as usize);
}
