//! The handshake in literal bytes, in order and out of order.

use super::*;

/// Two exports, one of them only after TLS.
struct Two {
    encrypted: bool,
    stopping: bool,
}

const PLAIN: Two = Two {
    encrypted: false,
    stopping: false,
};

impl Directory for Two {
    fn list(&self) -> Vec<Listing> {
        ["disk", "secret"]
            .into_iter()
            .filter(|name| *name == "disk" || self.encrypted)
            .map(|name| Listing {
                name: name.to_owned(),
                description: "a disk".to_owned(),
            })
            .collect()
    }

    fn find(&self, name: &str) -> Lookup {
        match name {
            "secret" if !self.encrypted => Lookup::NeedsTls,
            "disk" | "secret" | "" => Lookup::Found(ExportInfo {
                name: if name.is_empty() { "disk" } else { name }.to_owned(),
                description: "a disk".to_owned(),
                size: 0x1234_5000,
                read_only: false,
                preferred_block: 16384,
            }),
            _ => Lookup::Unknown,
        }
    }

    fn is_shutting_down(&self) -> bool {
        self.stopping
    }
}

fn opt(code: u32, data: &[u8]) -> Vec<u8> {
    [
        b"IHAVEOPT",
        &code.to_be_bytes()[..],
        &(data.len() as u32).to_be_bytes(),
        data,
    ]
    .concat()
}

fn info_data(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(wanted.len() as u16).to_be_bytes());
    wanted
        .iter()
        .for_each(|kind| data.extend_from_slice(&kind.to_be_bytes()));
    data
}

fn meta_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend_from_slice(&(query.len() as u32).to_be_bytes());
        data.extend_from_slice(query.as_bytes());
    }
    data
}

fn greeted(policy: TlsPolicy) -> Handshake {
    let (mut handshake, greeting) = Handshake::start(policy);
    assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
    let taken = handshake.advance(&[0, 0, 0, 3], &PLAIN, &mut Vec::new());
    assert_eq!(taken, Ok((4, Step::Again)));
    handshake
}

/// Returns types and bodies of the replies to one option, and the step.
fn ask(
    handshake: &mut Handshake,
    exports: &Two,
    code: u32,
    data: &[u8],
) -> (Vec<(u32, Vec<u8>)>, Step) {
    let input = opt(code, data);
    let mut output = Vec::new();
    let (taken, step) = handshake.advance(&input, exports, &mut output).unwrap();
    assert_eq!(taken, input.len());
    let mut replies = Vec::new();
    let mut rest = &output[..];
    while !rest.is_empty() {
        assert_eq!(rest[..8], 0x3e889045565a9_u64.to_be_bytes());
        assert_eq!(rest[8..12], code.to_be_bytes());
        let word = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
        let end = 20 + word(16) as usize;
        replies.push((word(12), rest[20..end].to_vec()));
        rest = &rest[end..];
    }
    (replies, step)
}

/// Returns the final reply's type without the error bit.
fn verdict(handshake: &mut Handshake, exports: &Two, code: u32, data: &[u8]) -> (bool, u32) {
    let (replies, step) = ask(handshake, exports, code, data);
    assert_eq!(step, Step::Again);
    let kind = replies.last().unwrap().0;
    (kind >> 31 == 0, kind & 0x7fff_ffff)
}

#[test]
fn go_returns_size_flags_names_and_block_sizes() {
    let mut handshake = greeted(TlsPolicy::Off);
    assert_eq!(verdict(&mut handshake, &PLAIN, 8, &[]), (true, 1));
    let (replies, step) = ask(&mut handshake, &PLAIN, 7, &info_data("", &[3, 1, 2, 99]));
    let expected: Vec<(u32, Vec<u8>)> = vec![
        (3, b"\0\0\0\0\0\0\x12\x34\x50\0\x0d\xed".to_vec()),
        (3, b"\0\x01disk".to_vec()),
        (3, b"\0\x02a disk".to_vec()),
        (3, b"\0\x03\0\0\0\x01\0\0\x40\0\x02\0\0\0".to_vec()),
        (1, vec![]),
    ];
    assert_eq!(replies, expected);
    let transmission = Transmission {
        export: "disk".to_owned(),
        style: HeaderStyle::Structured,
        has_status: false,
    };
    assert_eq!(step, Step::Serve(transmission));
}

#[test]
fn info_continues_the_handshake_and_unknown_options_get_errors() {
    let mut handshake = greeted(TlsPolicy::Off);
    assert_eq!(
        verdict(&mut handshake, &PLAIN, 6, &info_data("disk", &[])),
        (true, 1)
    );
    assert_eq!(
        verdict(&mut handshake, &PLAIN, 7, &info_data("none", &[])),
        (false, 6)
    );
    assert_eq!(
        verdict(&mut handshake, &PLAIN, 7, &info_data("secret", &[])),
        (false, 5)
    );
    assert_eq!(verdict(&mut handshake, &PLAIN, 4, b"data"), (false, 1));
    assert_eq!(
        verdict(&mut handshake, &PLAIN, 0xffff_ffff, &[]),
        (false, 1)
    );
    assert_eq!(verdict(&mut handshake, &PLAIN, 3, b"data"), (false, 3));
    assert_eq!(verdict(&mut handshake, &PLAIN, 5, &[]), (false, 2));
    assert_eq!(
        verdict(&mut handshake, &PLAIN, 6, b"\0\0\0\x09disk\0\0"),
        (false, 3)
    );
    assert_eq!(
        verdict(&mut handshake, &PLAIN, 6, b"\0\0\0\x01\xff\0\0"),
        (false, 3)
    );
    let (replies, _) = ask(&mut handshake, &PLAIN, 3, &[]);
    assert_eq!(
        replies,
        [(2, b"\0\0\0\x04diska disk".to_vec()), (1, vec![])]
    );
    let (replies, step) = ask(&mut handshake, &PLAIN, 2, b"ignored");
    assert_eq!((replies, step), (vec![(1, vec![])], Step::Close));
}

#[test]
fn export_name_ends_with_zeroes_unless_they_were_declined() {
    let mut handshake = greeted(TlsPolicy::Off);
    let mut output = Vec::new();
    let (_, step) = handshake
        .advance(&opt(1, b"disk"), &PLAIN, &mut output)
        .unwrap();
    assert!(matches!(step, Step::Serve(_)));
    assert_eq!(output, b"\0\0\0\0\x12\x34\x50\0\x0d\x6d");

    let (mut handshake, _) = Handshake::start(TlsPolicy::Off);
    handshake
        .advance(&[0, 0, 0, 0], &PLAIN, &mut output)
        .unwrap();
    output.clear();
    handshake
        .advance(&opt(1, b"disk"), &PLAIN, &mut output)
        .unwrap();
    assert_eq!(output.len(), 10 + 124);

    let refused = greeted(TlsPolicy::Off).advance(&opt(1, b"none"), &PLAIN, &mut output);
    assert_eq!(refused, Err(HandshakeViolation::ExportRefused));
}

#[test]
fn metadata_contexts_follow_the_wildcard_rules() {
    let mut handshake = greeted(TlsPolicy::Off);
    let set = |handshake: &mut Handshake, queries: &[&str]| {
        ask(handshake, &PLAIN, 10, &meta_data("disk", queries)).0
    };
    let early = set(&mut handshake, &["base:allocation"]);
    assert_eq!(early[0].0, (1 << 31) + 3, "structured replies come first");
    ask(&mut handshake, &PLAIN, 8, &[]);
    let listed = vec![(4, b"\0\0\0\0base:allocation".to_vec()), (1, vec![])];
    for queries in [&[][..], &["base:"], &["x-none:what", "base:allocation"]] {
        let (replies, _) = ask(&mut handshake, &PLAIN, 9, &meta_data("disk", queries));
        assert_eq!(replies, listed, "{queries:?}");
    }
    for queries in [
        &[][..],
        &["base:"],
        &["base:other"],
        &["qemu:dirty-bitmap:x"],
    ] {
        assert_eq!(set(&mut handshake, queries), [(1, vec![])], "{queries:?}");
    }
    assert_eq!(set(&mut handshake, &["nocolon"])[0].0, (1 << 31) + 3);
    let chosen = set(&mut handshake, &["base:allocation", "base:allocation"]);
    assert_eq!(
        chosen,
        [(4, b"\0\0\0\x01base:allocation".to_vec()), (1, vec![])]
    );
    let lying = [
        &b"\0\0\0\x04disk\0\0\0\x02\0\0\0\x05base:"[..],
        b"\0\0\0\xff",
    ]
    .concat();
    assert_eq!(verdict(&mut handshake, &PLAIN, 9, &lying), (false, 3));
    let (_, step) = ask(&mut handshake, &PLAIN, 7, &info_data("disk", &[]));
    assert!(matches!(
        step,
        Step::Serve(Transmission {
            has_status: true,
            ..
        })
    ));
}

#[test]
fn failed_selection_or_other_export_clears_the_context() {
    for (again, name) in [(Some("nowhere"), "disk"), (None, "secret")] {
        let encrypted = Two {
            encrypted: true,
            stopping: false,
        };
        let mut handshake = greeted(TlsPolicy::Offered);
        ask(&mut handshake, &encrypted, 8, &[]);
        ask(
            &mut handshake,
            &encrypted,
            10,
            &meta_data("disk", &["base:allocation"]),
        );
        if let Some(again) = again {
            let data = meta_data(again, &["base:allocation"]);
            assert_eq!(verdict(&mut handshake, &encrypted, 10, &data), (false, 6));
        }
        let (_, step) = ask(&mut handshake, &encrypted, 7, &info_data(name, &[]));
        assert!(matches!(
            step,
            Step::Serve(Transmission {
                has_status: false,
                ..
            })
        ));
    }
}

#[test]
fn extended_headers_take_precedence_over_structured_replies() {
    let mut handshake = greeted(TlsPolicy::Off);
    assert_eq!(verdict(&mut handshake, &PLAIN, 8, &[]), (true, 1));
    assert_eq!(verdict(&mut handshake, &PLAIN, 11, b"x"), (false, 3));
    assert_eq!(verdict(&mut handshake, &PLAIN, 11, &[]), (true, 1));
    assert_eq!(verdict(&mut handshake, &PLAIN, 8, &[]), (false, 10));
    ask(
        &mut handshake,
        &PLAIN,
        10,
        &meta_data("disk", &["base:allocation"]),
    );
    let old = handshake.advance(&opt(1, b"disk"), &PLAIN, &mut Vec::new());
    assert_eq!(old, Err(HandshakeViolation::ExportRefused));
    let (replies, step) = ask(&mut handshake, &PLAIN, 7, &info_data("disk", &[]));
    assert_eq!(replies[0].1[10..], *b"\x1d\xed");
    let Step::Serve(transmission) = step else {
        panic!("not served")
    };
    assert_eq!(
        (transmission.style, transmission.has_status),
        (HeaderStyle::Extended, true)
    );
}

#[test]
fn required_tls_refuses_options_and_resets_state() {
    let mut handshake = greeted(TlsPolicy::Required);
    for code in [3, 6, 7, 8, 9, 10, 11, 99] {
        assert_eq!(
            verdict(&mut handshake, &PLAIN, code, &[]),
            (false, 5),
            "option {code}"
        );
    }
    assert_eq!(verdict(&mut handshake, &PLAIN, 5, b"x"), (false, 3));
    let (replies, step) = ask(&mut handshake, &PLAIN, 5, &[]);
    assert_eq!((replies, step), (vec![(1, vec![])], Step::StartTls));
    assert_eq!(verdict(&mut handshake, &PLAIN, 5, &[]), (false, 3));
    assert_eq!(verdict(&mut handshake, &PLAIN, 8, &[]), (true, 1));

    let refused = greeted(TlsPolicy::Required).advance(&opt(1, b"disk"), &PLAIN, &mut Vec::new());
    assert_eq!(refused, Err(HandshakeViolation::ExportRefused));

    let mut handshake = greeted(TlsPolicy::Offered);
    ask(&mut handshake, &PLAIN, 11, &[]);
    ask(&mut handshake, &PLAIN, 5, &[]);
    let (_, step) = ask(&mut handshake, &PLAIN, 7, &info_data("disk", &[]));
    assert!(matches!(step, Step::Serve(t) if t.style == HeaderStyle::Simple));
}

#[test]
fn stopping_server_replies_shutdown_until_client_aborts() {
    let stopping = Two {
        encrypted: false,
        stopping: true,
    };
    let mut handshake = greeted(TlsPolicy::Off);
    assert_eq!(
        verdict(&mut handshake, &stopping, 7, &info_data("disk", &[])),
        (false, 7)
    );
    let (_, step) = ask(&mut handshake, &stopping, 2, &[]);
    assert_eq!(step, Step::Close);
}

#[test]
fn oversized_option_is_skipped_and_the_next_is_parsed() {
    let mut handshake = greeted(TlsPolicy::Off);
    let mut input = opt(42, &vec![0xaa; 100_000]);
    input.extend(opt(3, &[]));
    let (mut output, mut at, mut shown) = (Vec::new(), 0, 0);
    while at < input.len() {
        shown = (shown + 7000).min(input.len());
        loop {
            let (taken, step) = handshake
                .advance(&input[at..shown], &PLAIN, &mut output)
                .unwrap();
            at += taken;
            if step == Step::NeedInput {
                break;
            }
        }
    }
    let too_big = ((1_u32 << 31) + 9).to_be_bytes();
    assert_eq!(output[12..16], too_big);
    assert_eq!(output[output.len() - 20..][8..16], *b"\0\0\0\x03\0\0\0\x01");
}

#[test]
fn handshake_of_any_bytes_never_panics() {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..20_000 {
        let mut handshake = greeted(TlsPolicy::Offered);
        let data: Vec<u8> = (0..next() % 40).map(|_| (next() % 6) as u8).collect();
        let mut input = opt((next() % 13) as u32, &data);
        if next() % 4 == 0 {
            let at = (next() as usize) % input.len();
            input[at] ^= 1 << (next() % 8);
        }
        let mut output = Vec::new();
        let mut at = 0;
        while let Ok((taken, Step::Again)) = handshake.advance(&input[at..], &PLAIN, &mut output) {
            at += taken;
        }
        assert!(output.len() < 1000);
    }
}

#[test]
fn unknown_client_flags_and_old_magic_close_the_session() {
    let (mut handshake, _) = Handshake::start(TlsPolicy::Off);
    let flags = handshake.advance(&[0, 0, 0, 4], &PLAIN, &mut Vec::new());
    assert_eq!(flags, Err(HandshakeViolation::ClientFlags(4)));
    let magic = greeted(TlsPolicy::Off).advance(&[0; 16], &PLAIN, &mut Vec::new());
    assert_eq!(magic, Err(HandshakeViolation::OptionMagic(0)));
}
