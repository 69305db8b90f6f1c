//! Serves a disk in memory over NBD, to test clients: `memory_nbd SIZE ADDRESS...`, where an
//! address is `127.0.0.1:10809` or `unix:/PATH`. Prints the addresses when it listens, and serves
//! until the end of its standard input.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use block_device::MemoryDevice;
use nbd::{Access, DesiredExport, DesiredState, Farewell, NbdServer, ServerLimits};
use units::ByteCount;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let size: ByteCount = arguments.next().as_deref().unwrap_or("1G").parse()?;
    let listeners = arguments
        .map(|text| text.parse())
        .collect::<Result<_, _>>()?;
    let server = NbdServer::new(ServerLimits::default());
    let disk = DesiredExport {
        name: "disk".to_owned(),
        description: "a disk in memory".to_owned(),
        device: Arc::new(MemoryDevice::new(size.get(), 512)),
        read_only: false,
        access: Access::Local,
        hidden: false,
    };
    let applied = server.apply(DesiredState {
        listeners,
        tls: None,
        exports: vec![disk],
    })?;
    let mut output = std::io::stdout();
    for address in applied.listening {
        writeln!(output, "{address}")?;
    }
    output.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    server.drain(Instant::now() + Duration::from_secs(5), Farewell::Shutdown);
    Ok(())
}
