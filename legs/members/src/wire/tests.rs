//! Messages as bytes.

use super::*;
use leg_record::{Lack, Session, Tag};

const POOL: u64 = 42;

fn ballot() -> Ballot {
    Ballot { epoch: 3, nonce: 7 }
}

fn record() -> Record {
    let mut record = Record::new(POOL, ballot(), (1..=3).map(DiskId));
    let lack = Lack {
        since: 90,
        newest: 91,
    };
    record.drop_disk(DiskId(2), lack);
    record.lives.insert(MemberId(2), 8);
    record
}

fn messages() -> Vec<Message> {
    let (memory, version) = (Memory::new(record()), record().version());
    let tag = Tag { boot: 9, number: 4 };
    let mut all = vec![
        Message::Alive,
        Message::Ask(Request::Read(tag)),
        Message::Ask(Request::Claim {
            ballot: ballot(),
            by: MemberId(2),
        }),
        Message::Ask(Request::Withdraw(ballot())),
        Message::Ask(Request::Propose(record())),
        Message::Ask(Request::Welcome(record())),
        Message::Ask(Request::Join {
            tag,
            record: record(),
            life: 6,
        }),
        Message::Tell(Answer::Forgot(tag, 8)),
        Message::Ask(Request::Committed(ballot(), version)),
        Message::Tell(Answer::Known(tag, memory.clone())),
        Message::Tell(Answer::Known(tag, Memory::default())),
        Message::Tell(promised(Some(record()), 6)),
        Message::Tell(promised(None, 0)),
        Message::Tell(Answer::Serves(ballot())),
        Message::Tell(Answer::Accepted(ballot(), version)),
        Message::Tell(Answer::Refused {
            asked: ballot(),
            promised: ballot(),
        }),
        Message::Found(memory),
        Message::Founded(version),
    ];
    all.extend(Silence::ALL.map(Message::Silent));
    all.extend(lender_messages());
    all.extend(liveness());
    all
}

fn promised(record: Option<Record>, life: u64) -> Answer {
    let ballot = ballot();
    Answer::Promised {
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
    let lent = |answer, export: &str| {
        Message::Lent(Lent {
            disk: DiskId(5),
            answer,
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
        Denial::Anew,
    ];
    let denied = denied.map(|denial| {
        Message::Lent(Lent {
            disk: DiskId(5),
            answer: LenderAnswer::Refused(session),
            export: String::new(),
            denial: Some(denial),
        })
    });
    let holders = [
        Holder::Nobody,
        Holder::Session(Some(MemberId(2))),
        Holder::Session(None),
        Holder::Process,
        Holder::Unopened,
        Holder::Unknown,
        Holder::NotLent,
    ];
    let looked = holders.map(|holder| {
        Message::Looked(Looked {
            disk: DiskId(5),
            holder,
            enforced: ballot(),
            pool: Some(POOL),
            contents: String::new(),
        })
    });
    let mut all = vec![
        Message::AskLender(DiskId(5), LenderRequest::Claim(session)),
        Message::AskLender(DiskId(5), LenderRequest::Begin(session, 8)),
        lent(LenderAnswer::Admitted(session, observed), "5"),
        lent(LenderAnswer::Begun(session), ""),
        Message::LookAt(DiskId(5)),
        Message::AskConfiguration,
        Message::Configuration(None),
        Message::Configuration(Some([7; DIGEST_BYTES])),
    ];
    all.extend(denied.into_iter().chain(looked));
    all
}

fn liveness() -> Vec<Message> {
    let silent_ms = [(MemberId(1), 400), (MemberId(2), 70_000)];
    vec![
        Message::AskLiveness,
        Message::Liveness(Liveness::default()),
        Message::Liveness(Liveness {
            observed_ms: 90_000,
            silent_ms: silent_ms.into(),
        }),
    ]
}

/// As written by the first release.
#[test]
fn messages_are_written_byte_for_byte_as_before() {
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
        let looked = Looked {
            disk: DiskId(5),
            holder: Holder::Nobody,
            enforced: ballot(),
            pool: None,
            contents,
        };
        let envelope = enveloped(Message::Looked(looked));
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
fn every_message_comes_back_and_no_part_or_tail_of_it_is_one() {
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
fn the_name_of_an_export_has_a_bound_and_is_not_shown() {
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
            answer: LenderAnswer::Admitted(session, observed),
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
fn the_longest_memory_fits() {
    let lack = Lack {
        since: 90,
        newest: 91,
    };
    let mut record = Record::new(POOL, ballot(), (0..1024).map(DiskId));
    (0..1024).for_each(|disk| record.drop_disk(DiskId(disk), lack));
    let tag = Tag { boot: 9, number: 4 };
    let known = Answer::Known(tag, Memory::new(record));
    let bytes = enveloped(Message::Tell(known)).encode();
    assert!(bytes.len() <= MESSAGE_BYTES_MAX + 4, "{}", bytes.len());
    let too_long = MESSAGE_BYTES_MAX as u32 + 1;
    assert_eq!(
        body_bytes(too_long.to_le_bytes()),
        Err(WireError::TooLong(too_long))
    );
}

/// At most so many members, each once, in ascending order.
#[test]
fn a_liveness_that_lists_too_many_members_or_one_twice_is_malformed() {
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
fn the_bytes_are_those_of_the_format() {
    let claim = Request::Claim {
        ballot: ballot(),
        by: MemberId(2),
    };
    let bytes = enveloped(Message::Ask(claim)).encode();
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
fn a_stranger_and_a_later_version_are_told_apart() {
    let mut bytes = hello(MemberId(3));
    bytes[8] = 3;
    assert_eq!(greeted(&bytes), Err(WireError::UnknownVersion(3)));
    bytes[0] = b'b';
    assert_eq!(greeted(&bytes), Err(WireError::Stranger));
}

#[test]
fn a_record_of_another_pool_is_refused() {
    let mut envelope = enveloped(Message::Ask(Request::Propose(record())));
    envelope.pool = 43;
    let bytes = envelope.encode();
    assert_eq!(Envelope::decode(&bytes[4..]), Err(WireError::OtherPool));
}
