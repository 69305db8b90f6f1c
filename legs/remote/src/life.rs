//! Checks whether a silent lender is alive: a slow disk delays its replies, a process that hangs sends nothing at all.
//!
//! An NBD server speaks first. So a separate connection shows it without a request: a stopped process, a lost host, and
//! a cut network send no greeting.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nbd::protocol::wire::INIT_MAGIC;

/// The addresses at which a lender greets within `wait`. Tries all of them concurrently.
pub(crate) fn alive_at(addresses: &[SocketAddr], wait: Duration) -> Vec<SocketAddr> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = addresses
            .iter()
            .map(|address| (*address, scope.spawn(move || greets(*address, wait))))
            .collect();
        let greeting = asked
            .into_iter()
            .filter_map(|(address, thread)| matches!(thread.join(), Ok(Ok(()))).then_some(address));
        greeting.collect()
    })
}

fn greets(address: SocketAddr, wait: Duration) -> io::Result<()> {
    let until = Instant::now() + wait;
    let mut stream = TcpStream::connect_timeout(&address, wait)?;
    let left = until.saturating_duration_since(Instant::now());
    // No time at all is no limit.
    stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
    let mut magic = [0; 8];
    stream.read_exact(&mut magic)?;
    match magic == INIT_MAGIC.to_be_bytes() {
        true => Ok(()),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}
