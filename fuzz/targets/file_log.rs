//! A record of a file system's intent log: any bytes are a record or an error, and the fields of a record are within
//! its bounds. A record that is logged is decoded to the same record.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zpl::records::{Bytes, Record, decode};

const OFFSET_MAX: u64 = i64::MAX as u64;

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, body) = (u64::from(input.0 % 32), input.1);
    let Ok(record) = decode(kind, body) else {
        return;
    };
    match record {
        Record::Write {
            offset,
            length,
            bytes,
            ..
        } => {
            assert!(offset + length <= OFFSET_MAX);
            if let Bytes::Here(bytes) = bytes {
                assert!(bytes.is_empty() || bytes.len() as u64 == length);
            }
            // The bytes of a write are fetched when it is logged.
            return;
        }
        Record::Truncate { offset, length, .. } => assert!(offset + length <= OFFSET_MAX),
        Record::Create(new) => assert!(!new.name.is_empty() && !new.name.contains(&b'/')),
        _ => {}
    }
    let (kind, logged) = record.encode();
    assert_eq!(decode(kind, &logged), Ok(record));
});
