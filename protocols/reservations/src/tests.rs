//! The state machine with clients that are not I_T nexuses: hosts with identifiers, as in NVMe. The
//! tables of SCSI are tested on the same state machine in
//! `protocols/scsi/src/reservations/tests.rs`.

use serde::{Deserialize, Serialize};

use crate::ReservationType::{self, *};
use crate::*;

/// A host by its identifier.
#[derive(Clone, Debug, PartialEq)]
struct Host(u128);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostForm {
    host: String,
    key: u64,
}

impl Stored for Host {
    type Form = HostForm;

    fn store(registrant: &Registrant<Self>) -> HostForm {
        HostForm {
            host: format!("{:032x}", registrant.nexus.0),
            key: registrant.key,
        }
    }

    fn restore(form: HostForm) -> Result<Registrant<Self>, &'static str> {
        let host = u128::from_str_radix(&form.host, 16);
        Ok(Registrant {
            nexus: Self(host.map_err(|_| "a host is not hexadecimal")?),
            key: form.key,
            all_target_ports: false,
        })
    }
}

fn no_ports(_: &Host) -> Vec<Host> {
    Vec::new()
}

fn register(key: u64, new_key: u64) -> Request<Host> {
    Request::Register {
        key: Some(key),
        new_key,
        aptpl: true,
        all_target_ports: false,
        others: Vec::new(),
    }
}

fn decide(
    state: &Reservations<Host>,
    host: u128,
    request: Request<Host>,
) -> Result<Transition<Host>, Refusal> {
    state.decide(&Host(host), &no_ports, request)
}

#[test]
fn stored_bytes_match_the_registrant_format() {
    let mut state = decide(&Reservations::default(), 10, register(0, 7))
        .expect("registered")
        .next;
    let kind = WriteExclusiveRegistrantsOnly;
    state = decide(&state, 10, Request::Reserve { key: 7, kind })
        .expect("reserved")
        .next;
    let bytes = encode(&state);
    assert_eq!(
        String::from_utf8_lossy(&bytes),
        r#"{"version":1,"registrants":[{"host":"0000000000000000000000000000000a","key":7}],"reservation":[5,0]}"#
    );
    let restored: Reservations<Host> = decode(&bytes).expect("restored");
    assert_eq!(restored.registrants, state.registrants);
    assert_eq!(restored.holder, state.holder);
    let unknown = br#"{"version":1,"registrants":[{"host":"a","key":7,"more":1}]}"#;
    assert!(decode::<Host>(unknown).is_err());
}

#[test]
fn a_preempted_holder_is_notified_and_its_commands_are_aborted() {
    let mut state = Reservations::default();
    for (host, key) in [(1, 11), (2, 22)] {
        state = decide(&state, host, register(0, key))
            .expect("registered")
            .next;
    }
    let kind = ExclusiveAccess;
    state = decide(&state, 1, Request::Reserve { key: 11, kind })
        .expect("reserved")
        .next;
    assert!(!state.permits(&Host(2), Access::Read));
    let preempt = |victim, kind| Request::Preempt {
        key: 22,
        victim,
        kind,
        abort: true,
    };
    assert_eq!(decide(&state, 2, preempt(11, None)), Err(Refusal::NoType));
    assert_eq!(
        decide(&state, 2, preempt(0, Some(kind))),
        Err(Refusal::ZeroKey)
    );
    let transition = decide(&state, 2, preempt(11, Some(kind))).expect("preempted");
    let notice = Notice {
        nexus: Host(1),
        event: Event::RegistrationPreempted,
    };
    assert_eq!(transition.notices, [notice]);
    assert_eq!(transition.abort, [Host(1)]);
    assert!(transition.next.is_holder(&Host(2)));
}

/// After random requests of three hosts the stored state can be restored, and a holder is
/// registered.
#[test]
fn invariant_holds_for_random_histories() {
    const TYPES: [ReservationType; 3] = [
        WriteExclusive,
        ExclusiveAccessRegistrantsOnly,
        WriteExclusiveAllRegistrants,
    ];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..200 {
        let mut state = Reservations::default();
        for _ in 0..60 {
            let (key, other) = (random.u64(..3), random.u64(..3));
            let kind = TYPES[random.usize(..3)];
            let request = match random.u8(..6) {
                0 | 1 => register(key, other),
                2 => Request::Reserve { key, kind },
                3 => Request::Release { key, kind },
                4 => Request::Clear { key },
                _ => Request::Preempt {
                    key,
                    victim: other,
                    kind: Some(kind),
                    abort: random.bool(),
                },
            };
            if let Ok(transition) = decide(&state, random.u128(..3), request) {
                state = transition.next;
                assert!(state.invariant_holds());
                let restored: Reservations<Host> = decode(&encode(&state)).expect("restored");
                assert_eq!(restored.registrants, state.registrants);
            }
        }
    }
}
