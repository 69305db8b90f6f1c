//! The greeting of a lender, or of an impostor: an export is negotiated or refused, after a bounded number of bytes.

#![no_main]

use std::io::{self, Read, Write};

use libfuzzer_sys::fuzz_target;
use remote_leg::agree;

/// The client sends at most this much.
const SENT_BYTES_MAX: usize = 64;

struct Transcript<'a> {
    input: &'a [u8],
    said: usize,
}

impl Read for Transcript<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.input.read(bytes)
    }
}

impl Write for Transcript<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.said += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let begun = [b"NBDMAGICIHAVEOPT\0\x03", data].concat();
    for input in [data, &begun] {
        let mut talk = Transcript { input, said: 0 };
        let _ = agree(&mut talk, "5/secret");
        assert!(talk.said <= SENT_BYTES_MAX);
    }
});
