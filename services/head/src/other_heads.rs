//! The status and lists of pools that other heads serve, for the command line.

use std::time::Duration;

use control::answer::Status;
use control::legs::reports::{MemberReport, NO_REPORT};
use control::{Answer, Failure, Request};
use pool_access::common::Common;
use pool_access::managed;
use pool_access::pools::OtherHeads;
use units::{HeadName, PoolName};

use crate::args::API_PORT;
use crate::move_keys::{PeerAccess, with_peers};
use crate::peer_key::PeerKey;

/// Time-out of another head: lists of the whole appliance are shown without it then.
const WAIT: Duration = Duration::from_secs(5);

/// The other heads, by their API.
pub struct Peers<'a> {
    /// The options of the command.
    pub common: &'a Common,
}

impl Peers<'_> {
    /// Runs `ask` with a connection to `head`.
    fn ask<T>(
        &self,
        head: &str,
        ask: impl AsyncFnOnce(&api::Peers) -> Result<T, Failure>,
    ) -> Result<T, String> {
        let file = managed::file();
        let file = file.map_err(|failure| failure.message)?;
        let file = file.ok_or("the appliance file cannot be read: run it as root")?;
        let name: HeadName = head.parse().map_err(|error| format!("{error}"))?;
        let key = appliance::plan::PEER_KEY_PATH;
        let way = PeerAccess {
            key: PeerKey::new(key.as_ref(), self.common),
            port: API_PORT,
        };
        let answer = with_peers(&file, &way, &[&name], async |peers| {
            let answer = tokio::time::timeout(WAIT, ask(peers)).await;
            let answer = answer.map_err(|_| "it does not respond in time".to_owned())?;
            answer.map_err(|failure| failure.message)
        });
        answer.map_err(|failure| failure.message)?
    }
}

impl OtherHeads for Peers<'_> {
    fn status(&self, head: &str, pool: &PoolName) -> Result<Status, String> {
        self.ask(head, async |peers| peers.pool_status(head, pool).await)
    }

    fn members(&self, head: &str) -> Result<MemberReport, String> {
        let report = self.ask(head, async |peers| peers.head_report(head).await)?;
        report.members.ok_or_else(|| NO_REPORT.to_owned())
    }

    fn list(&self, head: &str, pool: &PoolName, request: &Request) -> Result<Answer, String> {
        self.ask(head, async |peers| peers.list(head, pool, request).await)
    }
}
