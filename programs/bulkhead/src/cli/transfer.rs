//! `bulkhead snapshot send`, `receive` and `bookmark`.

use clap::Args;
use control::Failure;
use control::operations::TableOptions;
use control::operations::transfer::TransferRequest;
use control::operations::transfer::abort::Abort;
use control::operations::transfer::bookmark::Bookmark;
use control::operations::transfer::interrupted::Interrupted;
use control::operations::transfer::receive::Receive;
use control::operations::transfer::send::Send;
use control::request::Request;
use control::transfer::SendWhat;
use units::{SnapshotName, VolumeName};

use super::{Plan, PoolSelector};

pub const SEND_EXAMPLES: &str = "Examples:
  bulkhead snapshot send tank/vm0@monday > vm0.zfs
  bulkhead snapshot send tank/vm0@tuesday --from @monday | ssh other zfs receive vault/vm0
  bulkhead snapshot send --resume 1-10a7f9c6f4-f0-789c6360 | ssh other zfs receive -s vault/vm0";

pub const RECEIVE_EXAMPLES: &str = "Examples:
  bulkhead snapshot receive vault/vm0 < vm0.zfs
  ssh other zfs send -i @monday tank/vm0@tuesday | bulkhead snapshot receive vault/vm0 --resumable
  bulkhead snapshot receive vault/vm0 --token
  bulkhead snapshot receive vault/vm0 --abort";

/// The stream to send.
#[derive(Debug, Args)]
pub struct SendArgs {
    /// The snapshot, as POOL/NAME@SNAPSHOT
    #[arg(required_unless_present = "resume")]
    snapshot: Option<SnapshotName>,
    /// Only changes since: @SNAPSHOT or #BOOKMARK of the volume, or a full name
    #[arg(long, value_name = "BASE")]
    from: Option<String>,
    /// Blocks of an encrypted volume stay encrypted: the receiver needs no key
    #[arg(long)]
    raw: bool,
    /// Send tiny blocks within their records (not for receivers that encrypt)
    #[arg(long, conflicts_with = "raw")]
    embedded: bool,
    /// Decompress blocks, and limit them to 128K: for receivers with old features
    #[arg(long, conflicts_with = "raw")]
    plain: bool,
    /// Resume an interrupted receive: the receiver's token
    #[arg(long, value_name = "TOKEN",
          conflicts_with_all = ["snapshot", "from", "raw", "embedded", "plain"])]
    resume: Option<String>,
    /// Only estimate the number of bytes
    #[arg(long)]
    estimate: bool,
}

impl SendArgs {
    /// Returns the plan.
    pub fn plan(self) -> Result<Plan, Failure> {
        let (pool, what) = match (self.resume, self.snapshot) {
            (Some(token), _) => {
                let parsed = pool_access::engines::parse_token(&token);
                let parsed = parsed.map_err(|error| Failure::usage(error.to_string()))?;
                let name: SnapshotName = parsed.to_name.parse().map_err(|_| {
                    Failure::usage(format!("the token is for {}, no snapshot", parsed.to_name))
                })?;
                (name.volume().pool(), SendWhat::Rest { token })
            }
            (None, Some(name)) => {
                let what = SendWhat::Snapshot {
                    name: name.clone(),
                    from: self.from,
                    raw: self.raw,
                    embedded: self.embedded,
                    plain: self.plain,
                };
                (name.volume().pool(), what)
            }
            (None, None) => return Err(Failure::usage("name a snapshot")),
        };
        let estimate = self.estimate;
        let request: TransferRequest = Send { what, estimate }.into();
        match estimate {
            true => Ok(ask(PoolSelector::Pool(pool), request)),
            false => Ok(Plan::Stream { pool, request }),
        }
    }
}

/// Where to receive.
#[derive(Debug, Args)]
pub struct ReceiveArgs {
    /// The volume, as POOL/NAME, or the snapshot, as POOL/NAME@SNAPSHOT
    #[arg(value_name = "VOLUME")]
    to: String,
    /// Retain the received data when the stream is cut off, so that it can be resumed
    #[arg(long)]
    resumable: bool,
    /// Discard writes and snapshots since the stream's base
    #[arg(long)]
    force: bool,
    /// Create missing parents
    #[arg(long)]
    parents: bool,
    /// Receive nothing: print the token of an interrupted receive
    #[arg(long, conflicts_with_all = ["resumable", "force", "parents", "abort"])]
    token: bool,
    /// Receive nothing: discard the state of an interrupted receive
    #[arg(long, conflicts_with_all = ["resumable", "force", "parents"])]
    abort: bool,
}

impl ReceiveArgs {
    /// Returns the plan.
    pub fn plan(self) -> Result<Plan, Failure> {
        let usage = |error: units::NameError| Failure::usage(error.to_string());
        let (volume, tag): (VolumeName, _) = match self.to.contains('@') {
            true => {
                let snapshot: SnapshotName = self.to.parse().map_err(usage)?;
                (snapshot.volume(), Some(snapshot.tag().to_owned()))
            }
            false => (self.to.parse().map_err(usage)?, None),
        };
        let pool = volume.pool();
        if self.token {
            let request = Interrupted { volume }.into();
            return Ok(ask(PoolSelector::Pool(pool), request));
        }
        if self.abort {
            return Ok(ask(PoolSelector::Pool(pool), Abort { volume }.into()));
        }
        let receive = Receive {
            volume,
            tag,
            force: self.force,
            resumable: self.resumable,
            parents: self.parents,
        };
        let request = receive.into();
        Ok(Plan::Stream { pool, request })
    }
}

/// Returns the plan that creates a bookmark.
pub fn bookmark(snapshot: SnapshotName, mark: String) -> Plan {
    let pool = PoolSelector::Pool(snapshot.volume().pool());
    ask(pool, Bookmark { snapshot, mark }.into())
}

fn ask(pool: PoolSelector, request: TransferRequest) -> Plan {
    Plan::Ask {
        pool,
        request: Request::Transfer(request),
        table: TableOptions::default(),
    }
}
