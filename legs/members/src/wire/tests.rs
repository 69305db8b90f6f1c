//! Messages as bytes.

use super::*;
use leg_record::{MissingData, Session, Tag};

const POOL: u64 = 42;

fn ballot() -> Ballot {
    Ballot { epoch: 3, nonce: 7 }
}

fn record() -> Record {
    let mut record = Record::new(POOL, ballot(), (1..=3).map(DiskId));
    let missing_data = MissingData {
        since: 90,
        newest: 91,
    };
    record.drop_disk(DiskId(2), missing_data);
    record.lives.insert(MemberId(2), 8);
    record
}

fn messages() -> Vec<Message> {
    let (memory, version) = (MemberState::new(record()), record().version());
    let tag = Tag { boot: 9, number: 4 };
    let mut all = vec![
        Message::Alive,
        Message::Request(Request::Read(tag)),
        Message::Request(Request::Claim {
            ballot: ballot(),
            by: MemberId(2),
        }),
        Message::Request(Request::Withdraw(ballot())),
        Message::Request(Request::Propose(record())),
        Message::Request(Request::Welcome(record())),
        Message::Request(Request::Join {
            tag,
            record: record(),
            life: 6,
        }),
        Message::Response(Response::StateLost(tag, 8)),
        Message::Request(Request::Committed(ballot(), version)),
        Message::Response(Response::Known(tag, memory.clone())),
        Message::Response(Response::Known(tag, MemberState::default())),
        Message::Response(promised(Some(record()), 6)),
        Message::Response(promised(None, 0)),
        Message::Response(Response::Serves(ballot())),
        Message::Response(Response::Accepted(ballot(), version)),
        Message::Response(Response::Refused {
            requested: ballot(),
            promised: ballot(),
        }),
        Message::Found(memory),
        Message::Created(version),
    ];
    all.extend(Silence::ALL.map(Message::Silent));
    all.extend(lender_messages());
    all.extend(liveness());
    all
}

fn promised(record: Option<Record>, life: u64) -> Response {
    let ballot = ballot();
    Response::Promised {
        ballot,
        record,
        life,
    }
}

fn lender_messages() -> Vec<Message> {
    let session = Session {
        ballot: ballot(),
        number: 2,
    };
    let observed = Observed {
        incarnation: 8,
        mark: session,
        roots: Roots {
            newest: 40,
            before: 38,
        },
    };
    let lent = |response, export: &str| {
        Message::Lent(Lent {
            disk: DiskId(5),
            response,
            export: export.to_owned(),
            denial: None,
        })
    };
    let denied = [
        Denial::Term(ballot(), Some(MemberId(2))),
        Denial::Term(ballot(), None),
        Denial::InUse,
        Denial::Unopened,
        Denial::Unknown,
        Denial::Reopened,
    ];
    let denied = denied.map(|denial| {
        Message::Lent(Lent {
            disk: DiskId(5),
            response: LenderResponse::Refused(session),
            export: String::new(),
            denial: Some(denial),
        })
    });
    let holders = [
        Holder::Unused,
        Holder::Session(Some(MemberId(2))),
        Holder::Session(None),
        Holder::Process,
        Holder::Unopened,
        Holder::Unknown,
        Holder::NotLent,
    ];
    let looked = holders.map(|holder| {
        Message::Inspection(Inspection {
            disk: DiskId(5),
            holder,
            enforced: ballot(),
            pool: Some(POOL),
            contents: String::new(),
        })
    });
    let mut all = vec![
        Message::LenderRequest(DiskId(5), LenderRequest::Claim(session)),
        Message::LenderRequest(DiskId(5), LenderRequest::Begin(session, 8)),
        lent(LenderResponse::Admitted(session, observed), "5"),
        lent(LenderResponse::Begun(session), ""),
        Message::Inspect(DiskId(5)),
        Message::RequestConfiguration,
        Message::Configuration(None),
        Message::Configuration(Some([7; DIGEST_BYTES])),
    ];
    all.extend(denied.into_iter().chain(looked));
    all
}

fn liveness() -> Vec<Message> {
    let silent_ms = [(MemberId(1), 400), (MemberId(2), 70_000)];
    vec![
        Message::RequestLiveness,
        Message::Liveness(Liveness::default()),
        Message::Liveness(Liveness {
            observed_ms: 90_000,
            steady_ms: None,
            silent_ms: silent_ms.into(),
        }),
        Message::RequestSteadiness,
        Message::Liveness(Liveness {
            observed_ms: 90_000,
            steady_ms: Some(20_000),
            silent_ms: silent_ms.into(),
        }),
    ]
}

/// As written by the first release.
#[test]
fn messages_are_encoded_byte_for_byte_as_in_first_release() {
    let before: Vec<&str> = include_str!("messages.hex").lines().collect();
    let written = messages()
        .into_iter()
        .map(|message| enveloped(message).encode());
    let hex =
        |bytes: Vec<u8>| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    let written: Vec<String> = written.map(hex).collect();
    assert_eq!(written, before);
}

#[test]
fn a_text_about_a_disk_has_a_bound_and_no_control_characters() {
    let looked = |contents: String| {
        let looked = Inspection {
            disk: DiskId(5),
            holder: Holder::Unused,
            enforced: ballot(),
            pool: None,
            contents,
        };
        let envelope = enveloped(Message::Inspection(looked));
        Envelope::decode(&envelope.encode()[4..]) == Ok(envelope)
    };
    assert!(looked("a pool".repeat(42)));
    assert!(!looked("x".repeat(CONTENTS_BYTES_MAX + 1)));
    assert!(!looked("\x1b[2J".to_owned()));
}

fn enveloped(message: Message) -> Envelope {
    Envelope {
        pool: POOL,
        boot: 5,
        message,
    }
}

#[test]
fn every_message_round_trips_and_no_part_of_it_decodes() {
    for message in messages() {
        let envelope = enveloped(message);
        let bytes = envelope.encode();
        let (prefix, body) = bytes.split_first_chunk().expect("a length");
        assert_eq!(body_bytes(*prefix), Ok(body.len()));
        assert_eq!(Envelope::decode(body), Ok(envelope.clone()));
        for length in 0..body.len() {
            let cut = Envelope::decode(&body[..length]);
            assert!(cut.is_err(), "{length} bytes of {envelope:?}");
        }
        // Invalid UTF-8, at the end of a message that holds a text.
        let longer = [body, &[0xff]].concat();
        assert!(Envelope::decode(&longer).is_err(), "{envelope:?}");
    }
}

#[test]
fn export_name_is_bounded_and_not_displayed() {
    let session = Session::default();
    let observed = Observed {
        incarnation: 8,
        mark: session,
        roots: Roots {
            newest: 40,
            before: 38,
        },
    };
    let named = |length| {
        enveloped(Message::Lent(Lent {
            disk: DiskId(5),
            response: LenderResponse::Admitted(session, observed),
            export: "s".repeat(length),
            denial: None,
        }))
    };
    for (length, is_right) in [(0, false), (1, true), (128, true), (129, false)] {
        let decoded = Envelope::decode(&named(length).encode()[4..]);
        assert_eq!(decoded.is_ok(), is_right, "{length} bytes");
    }
    assert!(!format!("{:?}", named(20)).contains("sss"));
}

#[test]
fn longest_stored_state_fits() {
    let missing_data = MissingData {
        since: 90,
        newest: 91,
    };
    let mut record = Record::new(POOL, ballot(), (0..1024).map(DiskId));
    (0..1024).for_each(|disk| record.drop_disk(DiskId(disk), missing_data));
    let tag = Tag { boot: 9, number: 4 };
    let known = Response::Known(tag, MemberState::new(record));
    let bytes = enveloped(Message::Response(known)).encode();
    assert!(bytes.len() <= MESSAGE_BYTES_MAX + 4, "{}", bytes.len());
    let too_long = MESSAGE_BYTES_MAX as u32 + 1;
    assert_eq!(
        body_bytes(too_long.to_le_bytes()),
        Err(WireError::TooLong(too_long))
    );
}

/// At most so many members, each once, in ascending order.
#[test]
fn liveness_with_too_many_or_duplicate_members_is_malformed() {
    let listed = |members: &[u64]| {
        let mut bytes = vec![kind::LIVENESS];
        for number in [POOL, 5, 90_000] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend((members.len() as u32).to_le_bytes());
        for number in members.iter().flat_map(|member| [*member, 400]) {
            bytes.extend(number.to_le_bytes());
        }
        Envelope::decode(&bytes).is_ok()
    };
    let most: Vec<u64> = (0..=MEMBERS_MAX as u64).collect();
    assert!(listed(&[]) && listed(&[1, 2]) && listed(&most[1..]));
    assert!(!listed(&most) && !listed(&[1, 1]) && !listed(&[2, 1]));
}

/// The example bytes of `docs/formats/members.md`.
#[test]
fn encoding_matches_documented_bytes() {
    let claim = Request::Claim {
        ballot: ballot(),
        by: MemberId(2),
    };
    let bytes = enveloped(Message::Request(claim)).encode();
    let mut expected = vec![41, 0, 0, 0, 2];
    for number in [42_u64, 5, 3, 7, 2] {
        expected.extend(number.to_le_bytes());
    }
    assert_eq!(bytes, expected);
    let begun = hello(MemberId(3));
    assert_eq!(&begun, b"BHMEMBER\x02\0\0\0\x03\0\0\0\0\0\0\0");
    assert_eq!(greeted(&begun), Ok(MemberId(3)));
}

#[test]
fn foreign_protocol_and_later_version_are_distinguished() {
    let mut bytes = hello(MemberId(3));
    bytes[8] = 3;
    assert_eq!(greeted(&bytes), Err(WireError::UnknownVersion(3)));
    bytes[0] = b'b';
    assert_eq!(greeted(&bytes), Err(WireError::Stranger));
}

#[test]
fn a_record_of_another_pool_is_refused() {
    let mut envelope = enveloped(Message::Request(Request::Propose(record())));
    envelope.pool = 43;
    let bytes = envelope.encode();
    assert_eq!(Envelope::decode(&bytes[4..]), Err(WireError::OtherPool));
}
