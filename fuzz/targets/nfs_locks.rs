//! Calls of NLM and NSM, with a lock of the only file or with bytes of the fuzzer, the replies of hosts to callbacks,
//! and calls to the port mapper. No crash, no endless loop, and no conflicting locks on a range.

#![no_main]

#[path = "common/nfs.rs"]
mod common;

use file_system::{FileSystem, Handle, Identity, Make, SetAttributes};
use libfuzzer_sys::fuzz_target;
use nfs::exports::Source;
use nfs::locks::portmap::{self, Ports};
use nfs::locks::{execute, monitor};
use nfs::rpc::Credential;
use nfs::v4::{Caller, LockUse, Service};
use nfs::xdr::Writer;

/// In the first byte of a call: it has a lock of the file, instead of bytes of the fuzzer.
const WELL_FORMED: u8 = 0x80;
const SOON: u8 = 0x40;
const NUMBER: u8 = 0x1f;
const NSM_NOTIFY: u8 = 24;
const PORTMAP: u8 = 25;
const LOCK: u8 = 2;
const CANCEL: u8 = 3;
const UNLOCK: u8 = 4;
/// Longer than a lease.
const LATER_MS: u64 = 100_000;

/// The arguments of `TEST`, `LOCK`, `CANCEL` or `UNLOCK`, from few bytes so that locks meet.
fn arguments(number: u8, handle: &[u8], choice: u8) -> Writer {
    let bit = |at: u8| u32::from(choice >> at & 1);
    let mut out = Writer::new();
    out.opaque(b"cookie");
    if matches!(number, LOCK | CANCEL) {
        out.u32(bit(7));
    }
    if number != UNLOCK {
        out.u32(bit(0));
    }
    out.opaque(&[b'h', b'0' + (choice >> 1 & 1)]);
    out.opaque(handle);
    out.opaque(b"owner");
    out.u32(bit(2));
    out.u64(u64::from(choice >> 3 & 3));
    out.u64(u64::from(choice >> 5 & 3));
    if number == LOCK {
        out.u32(0);
        out.u32(3);
    }
    out
}

fn overlap(one: &LockUse, other: &LockUse) -> bool {
    let last = |lock: &LockUse| {
        lock.length
            .map_or(u64::MAX, |length| lock.offset + (length - 1))
    };
    one.offset <= last(other) && other.offset <= last(one)
}

fn check(service: &Service, files: &dyn FileSystem, now_ms: u64) {
    for file in service.usage(files.id(), now_ms).files {
        for (at, one) in file.locks.iter().enumerate() {
            for other in &file.locks[at + 1..] {
                let is_same = (one.client, &one.process) == (other.client, &other.process);
                let excludes = one.is_exclusive || other.is_exclusive;
                assert!(is_same || !excludes || !overlap(one, other), "{file:?}");
            }
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let (service, files) = common::service_of_files();
    let root = Identity {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let none = SetAttributes::default();
    let made = files.make(&root, files.root(), b"file", Make::File, &none, None);
    let file = Handle {
        file_system: files.id(),
        node: made.expect("a file").object.node,
    };
    let handle = service.exports().key().sign(file);
    let credential = Credential::System {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let ports = Ports {
        here: Source::LOCAL.address,
        nfs: 2049,
        own: 111,
    };
    let (mut rest, mut now_ms) = (input, 0);
    while let Some(([what, choice], behind)) = rest.split_first_chunk() {
        let number = what & NUMBER;
        now_ms += if what & SOON != 0 { 1 } else { 0 };
        if what & (SOON | WELL_FORMED) == SOON && *choice == u8::MAX {
            now_ms += LATER_MS;
        }
        let mut length = 0;
        let given = if what & WELL_FORMED != 0 {
            arguments(number, &handle, *choice).into_bytes()
        } else {
            length = behind.len().min(usize::from(*choice) * 4);
            behind[..length].to_vec()
        };
        rest = &behind[length..];
        let caller = Caller {
            credential: &credential,
            transaction: 1,
            connection: 1,
            from: Source::LOCAL,
            here: Source::LOCAL.address,
            now_ms,
        };
        let mut out = Writer::new();
        let _ = match number {
            NSM_NOTIFY => monitor(&service, 6, &given, &caller).map(drop),
            PORTMAP => portmap::execute(&ports, u32::from(choice & 3) + 2, 3, &given, &mut out)
                .map_err(Into::into),
            number => execute(&service, number.into(), &given, &caller, &mut out).map(drop),
        };
        check(&service, &*files, now_ms);
    }
});
