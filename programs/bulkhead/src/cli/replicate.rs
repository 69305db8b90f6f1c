//! `bulkhead replicate …`

use clap::{Args, Subcommand};
use control::Failure;
use control::replication::{Fingerprint, Peer, ReplicateDocument, ReplicateRequest, Retention};
use control::request::Request;
use units::VolumeName;

use super::{Plan, PoolSelector};
use control::operations::{PoolOption, WhichPool};

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum ReplicateCommand {
    /// Print the fingerprint by which other pools know this one; make its key if it has none
    #[command(after_help = "Example:\n  bulkhead replicate identity tank")]
    Identity(WhichPool),
    /// Make another key for the pool; the other pools have to be told its new fingerprint
    ///
    /// Nothing is replicated between this pool and the others until both sides know the fingerprint: the
    /// answer says what to do where. What was missed follows with the next run.
    #[command(after_help = "Example:\n  bulkhead replicate rotate-key tank")]
    RotateKey(WhichPool),
    /// Let another pool replicate into this one
    #[command(after_help = ACCEPT_EXAMPLE)]
    Accept {
        /// The other pool's fingerprint
        fingerprint: Fingerprint,
        /// The dataset below which it may write, or the one volume
        #[arg(long, value_name = "POOL/NAME")]
        below: VolumeName,
        /// Snapshots of replication that stay of each volume, even if the other pool asks for fewer
        #[arg(long, value_name = "NUMBER", default_value_t = Retention::default().newest)]
        keep: u32,
        /// Of so many last days on which some arrived, the first one stays as well
        #[arg(long, value_name = "NUMBER", default_value_t = Retention::default().days)]
        keep_days: u32,
    },
    /// Do not let another pool replicate into this one any more
    Revoke {
        /// The other pool's fingerprint
        fingerprint: Fingerprint,
        /// The pool
        #[command(flatten)]
        pool: PoolOption,
    },
    /// Replicate a volume, or every volume below a dataset, to another appliance
    #[command(after_help = SET_EXAMPLE)]
    Set(SetArgs),
    /// Do not replicate it any more; what has arrived stays there
    Remove {
        /// The volume or dataset
        dataset: VolumeName,
    },
    /// What is replicated, how far behind it is, and who may replicate into the pool
    #[command(visible_aliases = ["status", "ls"])]
    List(WhichPool),
    /// The site of the originals is lost: the copies take their place, with identities and exports
    ///
    /// Initiators find the same disks under the same names. What is missing of the targets is made.
    /// Afterwards nothing is replicated into these volumes any more.
    #[command(after_help = PROMOTE_EXAMPLES)]
    Promote {
        /// The copy, or the dataset above copies
        dataset: VolumeName,
        /// Yes, the originals are served nowhere, and never will be again
        #[arg(long)]
        original_is_lost: bool,
    },
    /// Replicate now
    #[command(after_help = "Example:\n  bulkhead replicate run tank/vm0")]
    Run {
        /// The volume or dataset
        dataset: VolumeName,
    },
}

const ACCEPT_EXAMPLE: &str = "Example:
  bulkhead replicate accept \\
      5f0c1b6ad2e98a7c3b4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3 --below vault/from-tank";

const PROMOTE_EXAMPLES: &str = "Examples:
  bulkhead replicate promote vault/from-tank
  bulkhead replicate promote vault/from-tank --original-is-lost

The first says what would be served, and how old it is.";

const SET_EXAMPLE: &str = "Example:
  bulkhead replicate set tank/vm0 --to backup.example.org:8873 --into vault/from-tank/vm0 \\
      --peer 0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9 --every 15m";

/// Where to.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// The volume, or a dataset with volumes below
    dataset: VolumeName,
    /// The receiver, as HOST:PORT
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    to: String,
    /// The receiving pool's fingerprint
    #[arg(long, value_name = "FINGERPRINT")]
    peer: Fingerprint,
    /// The volume, or the dataset above the volumes, there
    #[arg(long, value_name = "POOL/NAME")]
    into: VolumeName,
    /// Pause between two runs, such as 30s, 15m, 4h, 1d [default: only when asked for]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    every: Option<u64>,
    /// Snapshots of replication to keep on each side
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    keep: u32,
    /// Encrypted volumes stay encrypted on the way and there: the receiver needs no key
    #[arg(long)]
    raw: bool,
}

fn host_and_port(text: &str) -> Result<String, String> {
    let valid = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    match valid {
        true => Ok(text.to_owned()),
        false => Err("write it as HOST:PORT, such as backup.example.org:8873".to_owned()),
    }
}

/// A time such as `15m`, in seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || "write a number and s, m, h or d, such as 15m".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let factor = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(factor).ok_or_else(wrong)
}

impl ReplicateCommand {
    /// What to do.
    pub fn plan(self) -> Result<Plan, Failure> {
        let (pool, request): (PoolSelector, _) = match self {
            Self::Identity(pool) => (pool.into(), ReplicateRequest::Identity),
            Self::List(pool) => (pool.into(), ReplicateRequest::List),
            Self::RotateKey(pool) => (pool.into(), ReplicateRequest::RotateKey),
            Self::Accept {
                fingerprint,
                below,
                keep,
                keep_days,
            } => {
                let peer = Peer {
                    fingerprint,
                    below,
                    retention: Retention {
                        newest: keep,
                        days: keep_days,
                    },
                };
                (
                    PoolSelector::Pool(peer.below.pool()),
                    ReplicateRequest::Accept(peer),
                )
            }
            Self::Revoke { fingerprint, pool } => {
                (pool.into(), ReplicateRequest::Revoke { fingerprint })
            }
            Self::Set(args) => {
                let document = ReplicateDocument {
                    version: 1,
                    to: args.to,
                    peer: args.peer,
                    into: args.into,
                    every_s: args.every,
                    keep: args.keep,
                    raw: args.raw,
                };
                let dataset = args.dataset;
                let pool = PoolSelector::Pool(dataset.pool());
                (pool, ReplicateRequest::Set { dataset, document })
            }
            Self::Remove { dataset } => {
                let pool = PoolSelector::Pool(dataset.pool());
                (pool, ReplicateRequest::Remove { dataset })
            }
            Self::Promote {
                dataset,
                original_is_lost,
            } => {
                let pool = PoolSelector::Pool(dataset.pool());
                let promote = ReplicateRequest::Promote {
                    dataset,
                    original_is_lost,
                };
                (pool, promote)
            }
            Self::Run { dataset } => {
                let pool = PoolSelector::Pool(dataset.pool());
                (pool, ReplicateRequest::Run { dataset })
            }
        };
        Ok(Plan::Ask {
            pool,
            request: Request::Replicate(request),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(seconds("90s"), Ok(90));
        assert_eq!(seconds("15m"), Ok(900));
        assert_eq!(seconds("4h"), Ok(14_400));
        assert_eq!(seconds("1d"), Ok(86_400));
        for wrong in [
            "",
            "15",
            "m",
            "-1m",
            "99999999999999999999d",
            "18446744073709551615d",
            "1é",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_has_a_port() {
        assert!(host_and_port("[::1]:8873").is_ok());
        for wrong in ["host", "host:", ":8873", "host:0", "host:70000"] {
            assert!(host_and_port(wrong).is_err(), "{wrong}");
        }
    }
}
