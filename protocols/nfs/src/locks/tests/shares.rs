//! Share reservations (`SHARE` and `UNSHARE`).

use super::*;

impl World {
    /// Sends `SHARE` or `UNSHARE` with denial, access and reclaim flag.
    fn share(&self, from: [u8; 4], number: u32, owner: &[u8], mode: [u32; 3]) -> (u32, Writer) {
        let [deny, access, is_reclaim] = mode;
        let mut arguments = Writer::new();
        arguments.opaque(b"cookie");
        arguments.opaque(name_of(from).as_bytes());
        arguments.opaque(&self.file());
        arguments.opaque(owner);
        arguments.u32(deny);
        arguments.u32(access);
        arguments.u32(is_reclaim);
        (number, arguments)
    }

    fn shares(&self, from: [u8; 4], owner: &[u8], mode: [u32; 3]) -> u32 {
        let (number, arguments) = self.share(from, SHARE, owner, mode);
        let answer = self.call(from, 0, 0, number, &arguments);
        assert_eq!(answer[answer.len() - 4..], [0; 4], "the sequence");
        status_of(&answer)
    }

    fn unshares(&self, from: [u8; 4], owner: &[u8]) -> u32 {
        let unshare = self.share(from, UNSHARE, owner, [0, 0, 0]);
        self.status(from, 0, unshare)
    }

    /// Whether NFS 3 clients are denied to read or write the file.
    fn is_denied(&self, from: [u8; 4], access: u32) -> bool {
        let file = crate::handles::unverified(&self.file()).expect("a handle");
        let used = self.service.check_use(file, access, from.into(), 0);
        used == Err(FileError::Access)
    }
}

const SHARE: u32 = 20;
const UNSHARE: u32 = 21;
const READ: u32 = 1;
const WRITE: u32 = 2;
const BOTH: u32 = 3;

#[test]
fn share_denies_conflicting_use_in_both_directions() {
    let world = World::new(OPEN_SHARE);
    assert_eq!(world.shares(ONE, b"a", [WRITE, BOTH, 0]), GRANTED);
    assert_eq!(world.shares(TWO, b"a", [0, WRITE, 0]), DENIED);
    assert_eq!(world.shares(ONE, b"b", [0, WRITE, 0]), DENIED, "same host");
    assert_eq!(world.shares(TWO, b"a", [READ, READ, 0]), DENIED);
    assert_eq!(world.shares(TWO, b"a", [0, READ, 0]), GRANTED);
    // Ranges and shares are independent, as in other servers.
    assert_eq!(world.status(TWO, 0, world.lock(TWO, ALL)), GRANTED);
    // It replaces the owner's earlier share.
    assert_eq!(world.shares(ONE, b"a", [0, READ, 0]), GRANTED);
    assert_eq!(world.shares(TWO, b"a", [0, BOTH, 0]), GRANTED);
    assert_eq!(world.unshares(TWO, b"a"), GRANTED);
    assert_eq!(world.unshares(TWO, b"a"), GRANTED, "it has none");
    assert_eq!(world.shares(ONE, b"a", [BOTH, BOTH, 0]), GRANTED);
    assert_eq!(world.unshares(ONE, b"a"), GRANTED);
    world.status(TWO, 0, world.unlock(TWO, ALL));
    assert_eq!(world.service.state().sizes(), (0, 0));
}

#[test]
fn share_owner_may_use_the_file_and_others_may_not() {
    let world = World::new(OPEN_SHARE);
    assert_eq!(world.shares(ONE, b"a", [WRITE, BOTH, 0]), GRANTED);
    assert!(world.is_denied(TWO, WRITE));
    assert!(!world.is_denied(TWO, READ));
    assert!(!world.is_denied(ONE, WRITE), "its own");
    let usage = world.service.usage(world.files.id(), 0);
    let open = usage.files[0].opens[0];
    assert_eq!((open.access, open.deny), (BOTH, WRITE));
    world.unshares(ONE, b"a");
    assert!(!world.is_denied(TWO, WRITE));
}

#[test]
fn shares_end_with_their_host_and_are_reclaimed() {
    let world = World::new(OPEN_SHARE);
    for procedure in [NOTIFY, FREE_ALL] {
        assert_eq!(world.shares(ONE, b"a", [BOTH, BOTH, 0]), GRANTED);
        assert_eq!(world.shares(TWO, b"a", [0, READ, 0]), DENIED);
        world.notifies_start(ONE, "host7", procedure, 5);
        assert_eq!(world.shares(TWO, b"a", [0, READ, 0]), GRANTED);
        world.unshares(TWO, b"a");
    }
    assert_eq!(world.shares(ONE, b"a", [WRITE, BOTH, 0]), GRANTED);
    let next = world.after();
    assert_eq!(next.shares(TWO, b"a", [0, WRITE, 0]), GRACE);
    assert_eq!(next.shares(ONE, b"a", [WRITE, BOTH, 1]), GRANTED);
    assert_eq!(
        next.shares(THREE, b"a", [0, READ, 1]),
        DENIED,
        "it had none"
    );
    let then = next.share(TWO, SHARE, b"a", [0, WRITE, 0]);
    assert_eq!(next.status(TWO, 20_001, then), DENIED);
}

/// The file retains slots for other hosts, however many one host requests.
#[test]
fn shares_per_host_and_file_are_limited() {
    const SHARES_MAX: u32 = 128;
    const NO_LOCKS: u32 = 2;
    let world = World::new(OPEN_SHARE);
    let shares = |from, owner: u32| world.shares(from, &owner.to_be_bytes(), [0, READ, 0]);
    for owner in 0..SHARES_MAX {
        assert_eq!(shares(ONE, owner), GRANTED);
    }
    assert_eq!(shares(ONE, SHARES_MAX), NO_LOCKS);
    assert_eq!(shares(ONE, 7), GRANTED, "it has that one");
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), GRANTED);
    assert_eq!(shares(TWO, SHARES_MAX), GRANTED);
    world.unshares(ONE, &7_u32.to_be_bytes());
    assert_eq!(shares(ONE, SHARES_MAX), GRANTED);
}

#[test]
fn share_without_access_and_denial_is_refused() {
    const FAILED: u32 = 9;
    let world = World::new(OPEN_SHARE);
    assert_eq!(world.shares(ONE, b"a", [0, 0, 0]), FAILED);
    assert_eq!(world.service.state().sizes(), (0, 0));
    assert_eq!(world.shares(ONE, b"a", [WRITE, 0, 0]), GRANTED);
}

/// A share carries no NSM state; locks do.
#[test]
fn share_does_not_change_the_nsm_state_of_locks() {
    let others_get = |world: &World| {
        let lock = world.status(TWO, 0, world.test(TWO, ALL)) == GRANTED;
        (lock, !world.is_denied(TWO, WRITE))
    };
    for is_first in [true, false] {
        let world = World::new(OPEN_SHARE);
        let share = || assert_eq!(world.shares(ONE, b"a", [WRITE, BOTH, 0]), GRANTED);
        if is_first {
            share();
        }
        // It carries NSM state 3.
        assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), GRANTED);
        share();
        world.notifies_start(ONE, "host7", NOTIFY, 3);
        assert_eq!(others_get(&world), (false, false), "a late message");
        world.status(ONE, 0, world.unlock(ONE, ALL));
        world.notifies_start(ONE, "host7", NOTIFY, 3);
        assert_eq!(others_get(&world), (true, false), "the share is left");
        world.notifies_start(ONE, "host7", NOTIFY, 5);
        assert_eq!(others_get(&world), (true, true));
    }
}

/// Neither has a lease, and AUTH_SYS calls are not authenticated.
#[test]
fn kerberos_export_refuses_locks_with_auth_sys() {
    const NO_LOCKS: u32 = 2;
    let world = World::new("sec=krb5,rw=10.0.0.0/24,no_root_squash");
    assert_eq!(world.shares(ONE, b"a", [BOTH, BOTH, 0]), NO_LOCKS);
    assert_eq!(world.status(ONE, 0, world.lock(ONE, ALL)), NO_LOCKS);
    assert_eq!(world.service.state().sizes(), (0, 0));
}
