//! Keeps commands away from pools that a cluster manages: whoever opens one beside Pacemaker is an owner whom nobody
//! counts, and another head may be given the pool at the same moment.

use std::path::PathBuf;

use cluster::machine::Local;
use cluster::standing::{PoolStanding, pool_standing};
use control::{Failure, FailureKind};
use units::PoolName;

use crate::common::Common;
use cluster::appliance_file;

/// The appliance file of this machine, for commands that do not name one.
fn path() -> PathBuf {
    let named = std::env::var_os("BULKHEAD_APPLIANCE");
    named.map_or_else(|| ::appliance::plan::APPLIANCE_PATH.into(), PathBuf::from)
}

/// The disks that the appliance file lists for `pool`, as far as this machine reaches them by itself; `None` if it describes no
/// such pool.
pub fn disks(pool: &PoolName) -> Option<Vec<PathBuf>> {
    let appliance = appliance_file::load(&path()).ok()?;
    let described = appliance.pools.get(pool)?;
    let own = labels::host_name().parse().ok();
    let disks = own.map(|own| appliance.disks_on(&own, described));
    Some(disks.unwrap_or_else(|| described.disks.clone()))
}

/// Refuses to open a pool that the cluster may start meanwhile.
pub fn refuse(common: &Common, pool: &PoolName) -> Result<(), Failure> {
    if disks(pool).is_none() {
        return Ok(());
    }
    judge(
        pool,
        pool_standing(&Local::default(), pool),
        common.maintenance,
    )
}

/// A pool of the appliance that has no server here. Nothing was asked of the cluster, and no disk was read.
pub fn not_here(pool: &PoolName) -> Failure {
    let message = format!("pool {pool} is not served here: the cluster decides which head has it");
    Failure::new(FailureKind::NeedsConfirmation, message)
        .advise("`crm_mon -1` shows which head has it")
}

fn judge(pool: &PoolName, standing: PoolStanding, is_maintenance: bool) -> Result<(), Failure> {
    use PoolStanding as S;
    let resource = ::appliance::render::pool_id(pool);
    let refused = |why: String, advice: String| {
        let message = format!("pool {pool} is not opened by a command: {why}");
        Err(Failure::new(FailureKind::NeedsConfirmation, message).advise(advice))
    };
    let stop = format!(
        "`crm_resource --resource {resource} --meta --set-parameter target-role --parameter-value Stopped`"
    );
    match standing {
        S::Absent => Ok(()),
        S::Stopped | S::Unknown if is_maintenance => Ok(()),
        S::Managed => refused(
            "the cluster decides which head has it".to_owned(),
            format!(
                "run the command on the head that serves it, which `crm_mon -1` shows; to open it without a server, \
                 stop it first, with {stop}, and add --maintenance"
            ),
        ),
        S::Stopped => refused(
            "the cluster may be told to start it".to_owned(),
            "if it stays stopped until the command is over, add --maintenance".to_owned(),
        ),
        S::Unknown => refused(
            "it belongs to the appliance, and no Pacemaker answers here".to_owned(),
            format!(
                "run the command on the head that serves it; if no head does, and none will before the command is \
                 over ({stop} on any head that is up), add --maintenance"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_of_the_cluster_is_opened_only_while_it_stays_stopped_and_somebody_says_so() {
        use PoolStanding::{Absent, Managed, Stopped, Unknown};
        let pool = "tank".parse().expect("a name");
        for (standing, is_maintenance, said) in [
            (Absent, false, None),
            (Absent, true, None),
            (Stopped, false, Some("--maintenance")),
            (Stopped, true, None),
            (Unknown, false, Some("--maintenance")),
            (Unknown, true, None),
            (Managed, false, Some("crm_mon")),
            (Managed, true, Some("--set-parameter target-role")),
        ] {
            let judged = judge(&pool, standing, is_maintenance);
            let advice = judged.err().and_then(|failure| failure.advice);
            assert_eq!(advice.is_some(), said.is_some(), "{standing:?}");
            if let (Some(advice), Some(said)) = (advice, said) {
                assert!(advice.contains(said), "{standing:?}: {advice}");
            }
        }
    }
}
