//! The status of pools that other heads serve, for the command line.

use std::time::Duration;

use control::answer::Status;
use pool_access::common::Common;
use pool_access::managed;
use pool_access::pools::OtherHeads;
use units::{HeadName, PoolName};

use crate::args::API_PORT;
use crate::move_keys::{PeerAccess, with_peers};
use crate::peer_key::PeerKey;

/// Time-out of another head: a status of the whole appliance is shown without it then.
const STATUS_WAIT: Duration = Duration::from_secs(5);

/// The other heads, by their API.
pub struct Peers<'a> {
    /// The options of the command.
    pub common: &'a Common,
}

impl OtherHeads for Peers<'_> {
    fn status(&self, head: &str, pool: &PoolName) -> Result<Status, String> {
        let file = managed::file();
        let file = file.map_err(|failure| failure.message)?;
        let file = file.ok_or("the appliance file cannot be read: run it as root")?;
        let name: HeadName = head.parse().map_err(|error| format!("{error}"))?;
        let key = appliance::plan::PEER_KEY_PATH;
        let way = PeerAccess {
            key: PeerKey::new(key.as_ref(), self.common),
            port: API_PORT,
        };
        let status = with_peers(&file, &way, &[&name], async |peers| {
            let status = tokio::time::timeout(STATUS_WAIT, peers.pool_status(head, pool)).await;
            let status = status.map_err(|_| "it does not respond in time".to_owned())?;
            status.map_err(|failure| failure.message)
        });
        status.map_err(|failure| failure.message)?
    }
}
