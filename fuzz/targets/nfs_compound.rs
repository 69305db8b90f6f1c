//! A stream of RPC records with compounds, in the session of a known client, and from an unknown client. No crash, no
//! endless loop, and every reply within the limits of the session.

#![no_main]

#[path = "common/nfs.rs"]
mod common;

use libfuzzer_sys::fuzz_target;
use nfs::exports::Source;
use nfs::rpc::{Credential, Found, NotExecutable, find_record, join_fragments, read_call};
use nfs::v4::{Caller, MESSAGE_BYTES_MAX, Service};
use nfs::xdr::{Reader, Writer};

const RECORD_BYTES_MAX: usize = 64 << 10;

/// `EXCHANGE_ID` and `CREATE_SESSION`; the session.
fn begin(service: &Service) -> [u8; 16] {
    let mut exchange = Writer::new();
    for word in [0, 1, 1, 42, 0, 1] {
        exchange.u32(word);
    }
    exchange.opaque(b"fuzz");
    for word in [0, 0, 0] {
        exchange.u32(word);
    }
    let answer = call(service, exchange.bytes());
    let client = Reader::new(&answer[20..]).u64().expect("a client id");
    let mut create = Writer::new();
    for word in [0, 1, 1, 43] {
        create.u32(word);
    }
    create.u64(client);
    let channel = [0, 1 << 20, 1 << 20, 4096, 64, 8, 0];
    for word in [1, 0]
        .into_iter()
        .chain(channel)
        .chain(channel)
        .chain([0, 0])
    {
        create.u32(word);
    }
    let answer = call(service, create.bytes());
    Reader::new(&answer[20..]).array().expect("a session")
}

fn call(service: &Service, compound: &[u8]) -> Vec<u8> {
    let credential = Credential::System {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let caller = Caller {
        credential: &credential,
        transaction: 0,
        connection: 1,
        from: Source::LOCAL,
        here: Source::LOCAL.address,
        now_ms: 0,
    };
    let mut out = Writer::new();
    let _ = service.compound(compound, &caller, &mut out);
    out.into_bytes()
}

/// A compound with a `SEQUENCE` and a `RECLAIM_COMPLETE` or `PUTROOTFH` before the bytes of the fuzzer.
fn within_session(service: &Service, session: &[u8; 16], sequence: u32, operations: &[u8]) {
    let mut compound = Writer::new();
    for word in [0, 2, 32, 53] {
        compound.u32(word);
    }
    compound.fixed(session);
    for word in [sequence, 0, 0, 0] {
        compound.u32(word);
    }
    if sequence == 1 {
        compound.u32(58);
        compound.u32(0);
    }
    compound.u32(24);
    compound.append(operations);
    let answer = call(service, compound.bytes());
    assert!(answer.len() <= MESSAGE_BYTES_MAX as usize);
}

/// `SETCLIENTID` and `SETCLIENTID_CONFIRM` of NFS 4.0; the client's number.
fn begin_without_session(service: &Service) -> u64 {
    let mut set = Writer::new();
    for word in [0, 0, 1, 35, 0, 1] {
        set.u32(word);
    }
    for name in [&b"fuzz"[..], b"tcp", b"0.0.0.0.0.0"] {
        set.opaque(name);
        if name == b"fuzz" {
            set.u32(0);
        }
    }
    set.u32(0);
    let answer = call(service, set.bytes());
    let mut confirm = Writer::new();
    for word in [0, 0, 1, 36] {
        confirm.u32(word);
    }
    confirm.append(&answer[20..36]);
    call(service, confirm.bytes());
    Reader::new(&answer[20..]).u64().expect("a client id")
}

/// A compound of NFS 4.0 with `PUTROOTFH` and an `OPEN` of a file before the bytes of the fuzzer.
fn without_session(service: &Service, client: u64, sequence: u32, operations: &[u8]) {
    let mut compound = Writer::new();
    for word in [0, 0, 32, 24, 18, sequence, 3, 0] {
        compound.u32(word);
    }
    compound.u64(client);
    compound.opaque(b"owner");
    for word in [1, 0, 0, 0, 0] {
        compound.u32(word);
    }
    compound.opaque(b"file");
    compound.append(operations);
    let answer = call(service, compound.bytes());
    assert!(answer.len() <= MESSAGE_BYTES_MAX as usize);
}

fuzz_target!(|input: &[u8]| {
    let service = common::service();
    let session = begin(&service);
    let client = begin_without_session(&service);
    let mut rest = input;
    for sequence in 1.. {
        let Ok(Found::Whole { input_bytes, .. }) = find_record(rest, RECORD_BYTES_MAX) else {
            return;
        };
        let record = join_fragments(&rest[..input_bytes]);
        rest = &rest[input_bytes..];
        let mut reader = Reader::new(&record);
        match read_call(&mut reader) {
            Ok(_) => drop(call(&service, reader.rest())),
            Err(NotExecutable::Reply(answer)) => assert!(answer.len() <= 24),
            Err(NotExecutable::Malformed | NotExecutable::StartTls { .. } | NotExecutable::Secured(_)) => {}
        }
        within_session(&service, &session, sequence, &record);
        without_session(&service, client, sequence, &record);
    }
});
