//! Table tests of the access rules and of each service action.

use ::reservations::ReservationType::{self, *};
use ::reservations::{Access, Notice, REGISTRANTS_MAX, decode, encode};

use super::*;
use crate::state::Reservations;

/// A client at each of two ports.
fn at_both_ports(nexus: &NexusId) -> Vec<NexusId> {
    let at = |portal_group| NexusId {
        portal_group,
        ..nexus.clone()
    };
    [1, 2].map(at).to_vec()
}

fn nexus(name: &str) -> NexusId {
    NexusId {
        initiator: format!("iqn.2026-01.org.example:{name}").parse().unwrap(),
        isid: [0x80, 0, 0, 0, 0, 1],
        portal_group: 1,
    }
}

fn register(key: u64, new_key: u64) -> Request {
    Request::Register {
        key: Some(key),
        new_key,
        aptpl: false,
        all_target_ports: false,
        others: Vec::new(),
    }
}

/// A state under construction; panics on a refusal.
#[derive(Default)]
struct Play {
    state: Reservations,
    told: Vec<Notice<NexusId>>,
    aborted: Vec<NexusId>,
}

impl Play {
    fn registered(names: &[(&str, u64)]) -> Self {
        let mut play = Self::default();
        for (name, key) in names {
            play.act(name, register(0, *key));
        }
        play
    }

    fn try_act(&mut self, name: &str, request: Request) -> Result<(), Refusal> {
        let transition = self.state.decide(&nexus(name), &at_both_ports, request)?;
        assert!(transition.next.invariant_holds());
        self.state = transition.next;
        self.told = transition.notices;
        self.aborted = transition.abort;
        Ok(())
    }

    fn act(&mut self, name: &str, request: Request) {
        self.try_act(name, request).unwrap();
    }

    fn told(&self, name: &str) -> Vec<Asc> {
        let about = self.told.iter().filter(|one| one.nexus == nexus(name));
        about.map(|one| attention(one.event)).collect()
    }

    fn keys(&self) -> Vec<u64> {
        self.state.registrants.iter().map(|one| one.key).collect()
    }

    fn kind(&self) -> Option<ReservationType> {
        self.state.holder.as_ref().map(|holder| holder.kind)
    }
}

const ALL_TYPES: [ReservationType; 6] = [
    WriteExclusive,
    ExclusiveAccess,
    WriteExclusiveRegistrantsOnly,
    ExclusiveAccessRegistrantsOnly,
    WriteExclusiveAllRegistrants,
    ExclusiveAccessAllRegistrants,
];

/// SBC-4, table 14: (type, registrant reads, registrant writes, other reads, other writes).
const ACCESS_RULES: [(ReservationType, bool, bool, bool, bool); 6] = [
    (WriteExclusive, true, false, true, false),
    (ExclusiveAccess, false, false, false, false),
    (WriteExclusiveRegistrantsOnly, true, true, true, false),
    (ExclusiveAccessRegistrantsOnly, true, true, false, false),
    (WriteExclusiveAllRegistrants, true, true, true, false),
    (ExclusiveAccessAllRegistrants, true, true, false, false),
];

#[test]
fn access_matches_the_spc_4_conflict_table() {
    for (kind, registrant_reads, registrant_writes, other_reads, other_writes) in ACCESS_RULES {
        let mut play = Play::registered(&[("holder", 1), ("registrant", 2)]);
        play.act("holder", Request::Reserve { key: 1, kind });
        let may = |name: &str, access| play.state.permits(&nexus(name), access);
        assert!(may("holder", Access::Read) && may("holder", Access::Write));
        assert_eq!(
            may("registrant", Access::Read),
            registrant_reads,
            "{kind:?}"
        );
        assert_eq!(
            may("registrant", Access::Write),
            registrant_writes,
            "{kind:?}"
        );
        assert_eq!(may("other", Access::Read), other_reads, "{kind:?}");
        assert_eq!(may("other", Access::Write), other_writes, "{kind:?}");
    }
}

#[test]
fn wrong_key_is_a_conflict_for_every_action() {
    let kind = WriteExclusive;
    let requests = [
        register(9, 2),
        Request::Reserve { key: 9, kind },
        Request::Release { key: 9, kind },
        Request::Clear { key: 9 },
        Request::Preempt {
            key: 9,
            victim: 1,
            kind: Some(kind),
            abort: false,
        },
    ];
    for request in requests {
        let mut play = Play::registered(&[("a", 1)]);
        let before = play.state.clone();
        assert_eq!(play.try_act("a", request.clone()), Err(Refusal::Conflict));
        assert_eq!(play.try_act("stranger", request), Err(Refusal::Conflict));
        assert_eq!(play.state, before);
    }
}

#[test]
fn register_again_changes_key_and_ignore_needs_none() {
    let mut play = Play::registered(&[("a", 1)]);
    assert_eq!(play.state.generation, 1);
    play.act("a", register(1, 2));
    assert_eq!((play.keys(), play.state.generation), (vec![2], 2));
    let ignore = |new_key| Request::Register {
        key: None,
        new_key,
        aptpl: true,
        all_target_ports: false,
        others: Vec::new(),
    };
    play.act("a", ignore(3));
    assert_eq!((play.keys(), play.state.aptpl), (vec![3], true));
    play.act("a", ignore(0));
    assert_eq!((play.keys(), play.state.generation), (vec![], 4));
    play.act("a", register(0, 0));
    assert_eq!(play.state.generation, 4);
}

#[test]
fn unregistering_the_last_holder_releases() {
    for kind in ALL_TYPES {
        let mut play = Play::registered(&[("a", 1), ("b", 2)]);
        play.act("a", Request::Reserve { key: 1, kind });
        play.act("a", register(1, 0));
        if kind.is_all_registrants() {
            assert_eq!(play.kind(), Some(kind));
            assert!(play.told.is_empty());
            play.act("b", register(2, 0));
            assert_eq!(play.kind(), None);
        } else {
            assert_eq!(play.kind(), None);
            let expected = if kind.admits_registrants() {
                vec![Asc::RESERVATIONS_RELEASED]
            } else {
                vec![]
            };
            assert_eq!(play.told("b"), expected, "{kind:?}");
        }
    }
}

#[test]
fn reservation_is_exclusive_and_released_only_with_its_type() {
    let mut play = Play::registered(&[("a", 1), ("b", 2)]);
    let kind = WriteExclusiveRegistrantsOnly;
    play.act("a", Request::Reserve { key: 1, kind });
    play.act("a", Request::Reserve { key: 1, kind });
    let other = Request::Reserve {
        key: 1,
        kind: ExclusiveAccess,
    };
    assert_eq!(play.try_act("a", other), Err(Refusal::Conflict));
    let second = Request::Reserve { key: 2, kind };
    assert_eq!(play.try_act("b", second), Err(Refusal::Conflict));
    play.act("b", Request::Release { key: 2, kind });
    assert_eq!(play.kind(), Some(kind), "not the holder: no effect");
    let wrong = Request::Release {
        key: 1,
        kind: WriteExclusive,
    };
    let refusal = Sense::illegal(Asc::INVALID_RELEASE_OF_PERSISTENT_RESERVATION);
    let found = play.try_act("a", wrong).map_err(refused);
    assert!(matches!(found, Err(Stop::Sense(found)) if found == refusal));
    play.act("a", Request::Release { key: 1, kind });
    assert_eq!(play.kind(), None);
    assert_eq!(play.told("b"), [Asc::RESERVATIONS_RELEASED]);
    assert!(play.told("a").is_empty());
    assert_eq!(play.state.generation, 2, "only registrations count");
}

#[test]
fn clear_removes_all_and_notifies_other_registrants() {
    let mut play = Play::registered(&[("a", 1), ("b", 2)]);
    let kind = ExclusiveAccess;
    play.act("b", Request::Reserve { key: 2, kind });
    play.act("a", Request::Clear { key: 1 });
    assert_eq!((play.keys(), play.kind()), (vec![], None));
    assert_eq!(play.told("b"), [Asc::RESERVATIONS_PREEMPTED]);
    assert!(play.told("a").is_empty());
    assert_eq!(play.state.generation, 3);
}

fn preempt(key: u64, victim: u64, kind: ReservationType, abort: bool) -> Request {
    Request::Preempt {
        key,
        victim,
        kind: Some(kind),
        abort,
    }
}

#[test]
fn preempting_the_holder_moves_the_reservation_and_aborts_its_commands() {
    let mut play = Play::registered(&[("old", 1), ("new", 2), ("third", 3)]);
    let kind = WriteExclusiveRegistrantsOnly;
    play.act("old", Request::Reserve { key: 1, kind });
    play.act("new", preempt(2, 1, ExclusiveAccessRegistrantsOnly, true));
    assert_eq!(play.keys(), [2, 3]);
    assert_eq!(play.kind(), Some(ExclusiveAccessRegistrantsOnly));
    assert!(play.state.is_holder(&nexus("new")));
    assert_eq!(play.told("old"), [Asc::REGISTRATIONS_PREEMPTED]);
    assert_eq!(play.told("third"), [Asc::RESERVATIONS_RELEASED]);
    assert_eq!(play.aborted, [nexus("old")]);
}

#[test]
fn preempting_a_registration_leaves_the_reservation_alone() {
    let mut play = Play::registered(&[("holder", 1), ("victim", 2), ("a", 3)]);
    let kind = WriteExclusive;
    play.act("holder", Request::Reserve { key: 1, kind });
    play.act("a", preempt(3, 2, ExclusiveAccess, false));
    assert_eq!((play.keys(), play.kind()), (vec![1, 3], Some(kind)));
    assert!(play.aborted.is_empty(), "PREEMPT aborts nothing");
    assert_eq!(
        play.try_act("a", preempt(3, 77, ExclusiveAccess, false)),
        Err(Refusal::Conflict)
    );
    assert!(matches!(
        play.try_act("a", preempt(3, 0, ExclusiveAccess, false)),
        Err(Refusal::ZeroKey)
    ));
}

#[test]
fn an_all_registrants_reservation_is_preempted_with_key_zero() {
    let mut play = Play::registered(&[("a", 1), ("b", 2), ("c", 3)]);
    let kind = WriteExclusiveAllRegistrants;
    play.act("a", Request::Reserve { key: 1, kind });
    play.act("b", preempt(2, 0, WriteExclusive, true));
    assert_eq!((play.keys(), play.kind()), (vec![2], Some(WriteExclusive)));
    assert_eq!(play.aborted, [nexus("a"), nexus("c")]);
}

#[test]
fn register_and_move_transfers_the_reservation() {
    let hand_over = |unregister| Request::Move {
        key: 1,
        new_key: 8,
        to: nexus("b"),
        unregister,
        aptpl: true,
    };
    let mut play = Play::registered(&[("a", 1), ("c", 3)]);
    assert_eq!(play.try_act("a", hand_over(true)), Err(Refusal::Conflict));
    let kind = ExclusiveAccess;
    play.act("a", Request::Reserve { key: 1, kind });
    play.act("a", hand_over(true));
    assert_eq!(play.keys(), [3, 8]);
    assert!(play.state.is_holder(&nexus("b")));
    assert!(!play.state.is_holder(&nexus("a")));
}

#[test]
fn all_target_ports_and_named_initiators_are_registered_together() {
    let mut play = Play::default();
    play.act(
        "a",
        Request::Register {
            key: Some(0),
            new_key: 5,
            aptpl: false,
            all_target_ports: true,
            others: vec![nexus("b")],
        },
    );
    assert_eq!(play.keys(), [5; 4]);
    let mut second_port = nexus("b");
    second_port.portal_group = 2;
    assert!(play.state.registrant(&second_port).is_some());
}

#[test]
fn registrations_are_bounded() {
    let mut play = Play::default();
    for at in 0..REGISTRANTS_MAX {
        play.act(&format!("n{at}"), register(0, 1));
    }
    let refusal = Sense::illegal(Asc::INSUFFICIENT_REGISTRATION_RESOURCES);
    let found = play.try_act("more", register(0, 1)).map_err(refused);
    assert!(matches!(found, Err(Stop::Sense(found)) if found == refusal));
}

#[test]
fn aptpl_state_is_stored_and_restored() {
    let mut play = Play::registered(&[("a", 1), ("b", 0xfedc_ba98_7654_3210)]);
    assert!(encode(&play.state).is_empty());
    play.act(
        "a",
        Request::Register {
            key: Some(1),
            new_key: 7,
            aptpl: true,
            all_target_ports: true,
            others: Vec::new(),
        },
    );
    for kind in ALL_TYPES {
        play.act(
            "b",
            Request::Reserve {
                key: 0xfedc_ba98_7654_3210,
                kind,
            },
        );
        let mut back = decode(&encode(&play.state)).unwrap();
        assert_eq!(back.generation, 0, "power on resets the generation");
        back.generation = play.state.generation;
        assert_eq!(back, play.state);
        play.act(
            "b",
            Request::Release {
                key: 0xfedc_ba98_7654_3210,
                kind,
            },
        );
    }
}

#[test]
fn corrupt_stored_state_is_an_error() {
    for text in [
        "x",
        "{}",
        r#"{"version":2,"registrants":[]}"#,
        r#"{"version":1,"registrants":[],"reservation":[1,0]}"#,
        r#"{"version":1,"registrants":[{"initiator":"iqn.2026-01.org.example:a","isid":"80","portal_group":1,"key":"1"}]}"#,
        r#"{"version":1,"registrants":[{"initiator":"iqn.2026-01.org.example:a","isid":"800000000001","portal_group":1,"key":"0"}]}"#,
    ] {
        assert!(decode::<NexusId>(text.as_bytes()).is_err(), "{text}");
    }
    assert_eq!(decode(b"").unwrap(), Reservations::default());
}

/// Random requests of three nexuses: the invariant holds after each, and the stored form can be
/// restored.
#[test]
fn invariant_holds_for_random_histories() {
    let mut random = fastrand::Rng::with_seed(42);
    for _ in 0..200 {
        let mut play = Play::default();
        for _ in 0..100 {
            let name = ["a", "b", "c"][random.usize(..3)];
            let kind = ALL_TYPES[random.usize(..6)];
            let key = random.u64(..3);
            let victim = random.u64(..3);
            let request = match random.u8(..8) {
                0..3 => register(key, victim),
                3 => Request::Reserve { key, kind },
                4 => Request::Release { key, kind },
                5 => Request::Clear { key },
                6 => preempt(key, victim, kind, random.bool()),
                _ => Request::Move {
                    key,
                    new_key: victim,
                    to: nexus(["a", "b", "c"][random.usize(..3)]),
                    unregister: random.bool(),
                    aptpl: random.bool(),
                },
            };
            let _ = play.try_act(name, request);
            if play.state.aptpl && !play.state.registrants.is_empty() {
                let back = decode(&encode(&play.state)).unwrap();
                assert_eq!(back.registrants, play.state.registrants);
                assert_eq!(back.holder.is_some(), play.state.holder.is_some());
            }
        }
    }
}
