//! A whole NBD conversation from the first byte: handshake, options, requests. No crash, no
//! endless loop, bounded replies, and every request that is let through lies inside the device.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nbd::protocol::{
    Command, Directory, ExportInfo, Handshake, Listing, Lookup, Negotiated, Request, Step,
    TlsPolicy, Transmission, block_status_payload,
};

const EXPORT_BYTES: u64 = 1 << 20;
/// No option's replies come near this.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

struct OneExport;

impl Directory for OneExport {
    fn list(&self) -> Vec<Listing> {
        vec![Listing {
            name: "disk".into(),
            description: "a disk".into(),
        }]
    }

    fn find(&self, name: &str) -> Lookup {
        match name {
            "" | "disk" => Lookup::Found(ExportInfo {
                name: "disk".into(),
                description: "a disk".into(),
                size: EXPORT_BYTES,
                read_only: false,
                preferred_block: 4096,
            }),
            "secret" => Lookup::NeedsTls,
            _ => Lookup::Unknown,
        }
    }

    fn is_shutting_down(&self) -> bool {
        false
    }
}

fn perform_handshake(mut input: &[u8], policy: TlsPolicy) -> Option<(Transmission, &[u8])> {
    let (mut handshake, _greeting) = Handshake::start(policy);
    let mut output = Vec::new();
    loop {
        let (used, step) = handshake.advance(input, &OneExport, &mut output).ok()?;
        assert!(used <= input.len() && output.len() <= OUTPUT_BYTES_MAX);
        input = &input[used..];
        match step {
            Step::Again => assert!(used > 0, "no progress"),
            Step::NeedInput | Step::Close => return None,
            // The following data would be encrypted; here the conversation simply continues.
            Step::StartTls => assert!(used > 0, "no progress"),
            Step::Serve(transmission) => return Some((transmission, input)),
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let policy = match input.first() {
        Some(byte) if byte & 3 == 1 => TlsPolicy::Offered,
        Some(byte) if byte & 3 == 2 => TlsPolicy::Required,
        _ => TlsPolicy::Off,
    };
    let Some((transmission, mut rest)) = perform_handshake(input.get(1..).unwrap_or_default(), policy)
    else {
        return;
    };
    let style = transmission.style;
    let negotiated = Negotiated {
        style,
        has_status: transmission.has_status,
        read_only: false,
    };
    while let Ok(Some(request)) = Request::decode(style, rest) {
        rest = &rest[style.request_bytes()..];
        let payload = request.payload_bytes(style).min(rest.len() as u64) as usize;
        let _ = block_status_payload(&rest[..payload]);
        if let Ok(command) = request.check(negotiated, EXPORT_BYTES) {
            let inside = match command {
                Command::Read { extent, .. }
                | Command::Write { extent, .. }
                | Command::Trim { extent, .. }
                | Command::Cache { extent }
                | Command::WriteZeroes { extent, .. } => extent.fits(EXPORT_BYTES),
                _ => true,
            };
            assert!(inside, "{command:?}");
        }
        rest = &rest[payload..];
    }
});
