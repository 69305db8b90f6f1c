//! Serves files in memory over NFS, to test clients: `memory_nfs LEASE_SECONDS [--keytab FILE SEC]
//! ADDRESS...`, where an address is `127.0.0.1:2049`, and `SEC` is the security flavor, such as
//! `krb5p`. Prints the addresses when it listens, and serves until the end of its standard input.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use file_system::memory::MemoryFileSystem;
use nfs::exports::Shared;
use nfs::handles::HandleKey;
use nfs::server::{DesiredState, NfsServer, ServerLimits};
use nfs::sharenfs::Share;
use nfs::v4::Presentation;

/// Maximum bytes of all files.
const BYTES_MAX: u64 = 1 << 30;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let lease_seconds = arguments.next().as_deref().unwrap_or("90").parse()?;
    let mut arguments = arguments.peekable();
    let mut keytab = None;
    let mut security = "sys".to_owned();
    if arguments.next_if(|word| word == "--keytab").is_some() {
        keytab = arguments.next().map(Into::into);
        security = arguments.next().ok_or("--keytab FILE SEC")?;
    }
    let rule = format!("rw=127.0.0.0/8,no_root_squash,insecure,sec={security}");
    let addresses: Vec<_> = arguments
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    let presentation = Presentation {
        owner: b"memory".to_vec(),
        start: SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64,
        handle_key: HandleKey::random(),
        lease_seconds,
        grace_seconds: 0,
    };
    let shared = Shared {
        name: String::new(),
        share: Share::parse(&rule)?.ok_or("not off")?,
        files: Arc::new(MemoryFileSystem::new(BYTES_MAX)),
    };
    let server = NfsServer::new(presentation, ServerLimits::default());
    server.apply(DesiredState {
        listeners: addresses,
        keytab,
        shared: vec![shared],
        ..DesiredState::default()
    })?;
    let mut output = std::io::stdout();
    for address in server.listeners() {
        writeln!(output, "{address}")?;
    }
    output.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.drain(Instant::now() + Duration::from_secs(5));
    Ok(())
}
