//! Calls of NFS 3 and MOUNT, with the root's handle or with one of the fuzzer. No crash, no endless loop, no reply
//! larger than a client accepts, and a retransmitted call gets the first reply.

#![no_main]

#[path = "common/nfs.rs"]
mod common;

use libfuzzer_sys::fuzz_target;
use nfs::exports::Source;
use nfs::rpc::Credential;
use nfs::v3;
use nfs::v4::Caller;
use nfs::xdr::{Reader, Writer};

const REPLY_BYTES_MAX: usize = (1 << 20) + (64 << 10);
const ROOT: u8 = 0x80;
const MOUNT: u8 = 0x40;

fuzz_target!(|input: &[u8]| {
    let service = common::service();
    let memory = v3::Memory::default();
    let credential = Credential::System {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
    };
    let caller = |transaction| Caller {
        credential: &credential,
        transaction,
        connection: 1,
        from: Source::LOCAL,
        here: Source::LOCAL.address,
        now_ms: 0,
    };
    let mut path = Writer::new();
    path.opaque(b"/");
    let mut mounted = Writer::new();
    v3::mount(&service, 1, path.bytes(), &caller(0), &mut mounted).expect("an answer");
    let root = Reader::new(&mounted.bytes()[4..])
        .opaque(64)
        .expect("a handle")
        .to_vec();
    let mut rest = input;
    for transaction in 0.. {
        let Some(([what, length], behind)) = rest.split_first_chunk() else {
            return;
        };
        let length = behind.len().min(*length as usize * 4);
        let mut arguments = Writer::new();
        if what & ROOT != 0 {
            arguments.opaque(&root);
        }
        arguments.append(&behind[..length]);
        rest = &behind[length..];
        let (number, arguments) = ((what & 0x3f).into(), arguments.into_bytes());
        let call = |out: &mut Writer| match what & MOUNT {
            0 => v3::execute(
                &service,
                &memory,
                number,
                &arguments,
                &caller(transaction),
                out,
            ),
            _ => v3::mount(&service, number, &arguments, &caller(transaction), out),
        };
        let (mut first, mut again) = (Writer::new(), Writer::new());
        let answered = call(&mut first);
        assert!(first.len() <= REPLY_BYTES_MAX);
        // SETATTR, and CREATE to LINK.
        if what & MOUNT == 0 && answered.is_ok() && matches!(number, 2 | 8..=15) {
            call(&mut again).expect("an answer again");
            assert_eq!(first.bytes(), again.bytes());
        }
    }
});
