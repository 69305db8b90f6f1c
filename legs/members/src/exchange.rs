//! Requests to members that are repeated until each has a response. Read-only requests only: one may be handled twice.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use certificates::Identity;
use leg_record::MemberId;

use crate::{LinkState, Links, Message, Peer, Received};

/// A request without a response is sent again after this time.
const AGAIN: Duration = Duration::from_millis(500);
/// Interval of checks for connections.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Responses that are not read yet; more are dropped, and requested again.
const RESPONSES_MAX: usize = 1024;

/// Connections for requests of one command.
pub struct Exchange {
    links: Links,
    received: Receiver<Received>,
}

impl Exchange {
    /// Starts to connect to all `peers`, as member `me`. `boot` is the random number of this process.
    ///
    /// # Errors
    ///
    /// The system cannot create a thread, or the certificate does not match its key.
    pub fn start(
        me: MemberId,
        boot: u64,
        identity: &Identity,
        peers: Vec<Peer>,
    ) -> io::Result<Self> {
        let (send, received) = sync_channel(RESPONSES_MAX);
        let links = Links::start(me, boot, identity, peers, move |received| {
            // Dropped if there are too many.
            let _ = send.try_send(received);
        })?;
        Ok(Self { links, received })
    }

    /// The connections.
    pub fn states(&self) -> BTreeMap<MemberId, LinkState> {
        self.links.states()
    }

    /// Sends the requests without a response, by member and pool, until `open` returns none, or `until`. `take` adds a
    /// response to `responses`.
    pub fn run<R>(
        &self,
        until: Instant,
        responses: &mut R,
        mut open: impl FnMut(&R) -> Vec<(MemberId, u64, Message)>,
        mut take: impl FnMut(&mut R, Received),
    ) {
        let mut sent = BTreeMap::<(MemberId, u64), Instant>::new();
        loop {
            let open = open(responses);
            if open.is_empty() || Instant::now() >= until {
                return;
            }
            for (member, pool, message) in open {
                let at = sent.get(&(member, pool));
                if at.is_none_or(|at| at.elapsed() >= AGAIN)
                    && self.links.send(member, pool, message)
                {
                    sent.insert((member, pool), Instant::now());
                }
            }
            match self.received.recv_timeout(CHECK_INTERVAL) {
                Ok(received) => take(responses, received),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}
