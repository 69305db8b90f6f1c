//! What a lender, or what stands in its place, says at the beginning of a connection: an export is agreed on, or it is refused, after so
//! many bytes at most.

#![no_main]

use std::io::{self, Read, Write};

use libfuzzer_sys::fuzz_target;
use remote_leg::agree;

/// The client says that much once.
const SAID_BYTES_MAX: usize = 64;

struct Talk<'a> {
    input: &'a [u8],
    said: usize,
}

impl Read for Talk<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.input.read(bytes)
    }
}

impl Write for Talk<'_> {
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
        let mut talk = Talk { input, said: 0 };
        let _ = agree(&mut talk, "5/secret");
        assert!(talk.said <= SAID_BYTES_MAX);
    }
});
