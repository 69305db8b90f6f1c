//! Whether a lender lives that says nothing: a slow disk keeps its answers back, a process that hangs says nothing at all.
//!
//! A server of NBD speaks first. So a connection of its own tells, without a request: a process that is stopped, a machine
//! that is gone, and a network that is cut greet nobody.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nbd::protocol::wire::INIT_MAGIC;

/// The addresses at which a lender greets within `wait`. Asks all of them at the same time.
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
