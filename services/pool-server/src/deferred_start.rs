//! Defers work until the clients of the previous owner have reconnected. They connect as soon as the server accepts
//! requests, and other work would compete with them for the processors. That includes Pacemaker, which runs a dozen
//! actions after a completed start.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::serving::StaleConnection;

use super::core::Core;

/// Longest wait for the clients. Some never reconnect.
const RETURN_WAIT: Duration = Duration::from_millis(200);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The number of awaited clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited(usize);

impl Awaited {
    /// The clients of the previous owner. Connections of one host to one address count once.
    pub fn of(stale_connections: &[StaleConnection]) -> Self {
        let ways: BTreeSet<(IpAddr, SocketAddr)> = stale_connections
            .iter()
            .map(|stale| (stale.remote.ip(), stale.local))
            .collect();
        Self(ways.len())
    }

    /// Whether any client is awaited.
    pub const fn is_any(self) -> bool {
        self.0 > 0
    }

    /// Blocks until that many clients have a session and received a reply each, up to `RETURN_WAIT`.
    fn wait(self, core: &Core) {
        let deadline = Instant::now() + RETURN_WAIT;
        while Instant::now() < deadline && !core.is_shutting_down() && !self.are_back(core) {
            std::thread::sleep(POLL_INTERVAL);
        }
        let are_back = self.are_back(core);
        tracing::debug!(pool = %core.name, awaited = self.0, are_back, "wait for clients is over");
    }

    fn are_back(self, core: &Core) -> bool {
        core.serving.session_count() >= self.0
            && core.serving.volumes.completed_requests() >= self.0 as u64
    }
}

/// Runs `work` after they have reconnected, in a thread of its own; at once if none is awaited.
pub fn then(
    core: &Arc<Core>,
    awaited: Awaited,
    work: impl FnOnce(&Arc<Core>) + Send + 'static,
) -> std::io::Result<()> {
    let core = Arc::clone(core);
    let thread = std::thread::Builder::new().name("returning".into());
    let wait = move || {
        awaited.wait(&core);
        work(&core);
    };
    thread.spawn(wait).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnects_are_counted_per_client_and_address() {
        let stale = |remote: &str, local: &str| StaleConnection {
            remote: remote.parse().expect("an address"),
            local: local.parse().expect("an address"),
        };
        let stale_connections = [
            stale("192.0.2.9:40000", "192.0.2.1:3260"),
            stale("192.0.2.9:40001", "192.0.2.1:3260"),
            stale("192.0.2.9:40002", "192.0.2.1:10809"),
            stale("192.0.2.8:40000", "192.0.2.1:3260"),
        ];
        assert_eq!(Awaited::of(&stale_connections), Awaited(3));
        assert!(!Awaited::of(&[]).is_any());
    }
}
