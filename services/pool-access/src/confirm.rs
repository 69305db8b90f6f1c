//! Stores an administrator's confirmation about a pool. To continue without its leg record is accepted only if no
//! leg-server lends or stores it, and if this host's disks hold all data by the last known record.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use control::answer::Done;
use control::{Answer, Failure, calendar};
use engine::pool::legs::{Confirmation, Evidence, Verdict};
use leg_door::Configuration;
use units::PoolName;

use crate::access::{Hold, hold};
use crate::common::Common;
use crate::legs::keep;
use crate::{engines, places, sockets};

/// The confirmations of an administrator.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Confirmations {
    /// They are lost for good, or fell behind: whatever only they hold may be lost
    #[arg(long)]
    pub missing_devices_are_not_newer: bool,
    /// The writes of the newest transaction groups are lost: the pool continues from an older state, if the newest
    /// cannot be read
    #[arg(long)]
    pub newest_groups_are_lost: bool,
    /// Missing log devices are lost for good: unless the pool was exported, so are the last seconds of synchronous writes
    #[arg(long)]
    pub missing_logs_are_lost: bool,
    /// The pool continues without its leg record, for good, with the disks of this host only: data that is on other
    /// heads' legs only is lost
    #[arg(long)]
    pub forget_legs: bool,
    /// With --forget-legs: also if legs of this host are out of date by the record, or a member in it cannot be
    /// reached: their missing data is lost
    #[arg(long, requires = "forget_legs")]
    pub use_stale_legs: bool,
    /// With --forget-legs: the leg configuration that lists the other members [default: /etc/bulkhead/legs.toml, if it
    /// exists]
    #[arg(long, value_name = "FILE", requires = "forget_legs")]
    pub legs: Option<PathBuf>,
}

impl Confirmations {
    /// The configuration of legs.
    fn configuration(&self) -> Configuration<'_> {
        let named = self.legs.as_deref();
        Configuration {
            path: named.unwrap_or(Path::new(leg_door::DEFAULT_PATH)),
            is_named: named.is_some(),
        }
    }
}

/// Stores an administrator's confirmation for the current state of `pool`.
pub fn confirm(common: &Common, pool: &PoolName, said: &Confirmations) -> Result<Answer, Failure> {
    let served = || Ok(Done::already(format!("pool {pool} is served here")));
    // A server that uses the record must not start concurrently. A server that is waiting for devices can receive the
    // confirmation.
    let _lock = match said.forget_legs {
        true => match hold(common, pool)? {
            Hold::Server(_) => return served(),
            Hold::Own(lock) => Some(lock),
        },
        false if sockets::is_served(common, pool)? => return served(),
        false => None,
    };
    let legs = places::candidate(common, pool)?.devices.legs;
    let _memory = match legs.record.filter(|_| said.forget_legs) {
        Some(number) => {
            let file = said.configuration();
            let legs = engines::legs();
            legs.may_discard(
                &common.directories(),
                pool,
                number,
                file,
                said.use_stale_legs,
            )?
        }
        None => None,
    };
    let mut word = Confirmation {
        pool_guid: legs.pool_guid,
        newest_txg: legs.newest_txg,
        missing: BTreeSet::new(),
        may_lose_newest: said.newest_groups_are_lost,
        may_lose_logs: said.missing_logs_are_lost && legs.may_miss_logs(),
        forgets_record: said.forget_legs && legs.record.is_some(),
    };
    let evidence = Evidence {
        word: Some(&word),
        has_waited: true,
        ..Evidence::default()
    };
    let doubt = match legs.judge(&evidence) {
        Verdict::NeedsRecord(number) => {
            let file = said.configuration().path;
            return Err(operations::has_record(pool.as_str(), number, file));
        }
        Verdict::Refuse(doubt)
            if said.missing_devices_are_not_newer
                || (said.missing_logs_are_lost && legs.is_about_logs(&doubt)) =>
        {
            Some(doubt)
        }
        Verdict::Refuse(doubt) => return Err(operations::refusal(pool.as_str(), &doubt)),
        _ if word.may_lose_newest || word.may_lose_logs || word.forgets_record => None,
        _ if said.missing_logs_are_lost => {
            let message = format!("no log device of pool {pool} is missing: nothing to confirm");
            return Ok(Done::already(message));
        }
        _ => {
            let message =
                format!("no missing device of pool {pool} can be newer: nothing to confirm");
            return Ok(Done::already(message));
        }
    };
    if let Some(doubt) = &doubt {
        word.missing = doubt.word().missing;
    }
    keep(common, pool, &word)?;
    let without = doubt.map_or_else(String::new, |doubt| {
        format!(" without {}", doubt.missing_paths())
    });
    let state = match said.newest_groups_are_lost {
        true => "from a state before",
        false => "as of",
    };
    let logs = match word.may_lose_logs {
        true => " without log devices that are missing,",
        false => "",
    };
    let record = match word.forgets_record {
        true => " without the record of its legs, which it then has no more,",
        false => "",
    };
    Ok(Done::changed(format!(
        "pool {pool} may be opened once, on this head,{without}{logs}{record} {state} transaction group {} of {}",
        legs.newest_txg,
        calendar::utc(legs.newest_time_s),
    )))
}
