//! `bulkhead pool move`: requests that the cluster move a pool, and reports the result.

use cluster::appliance_file;
use cluster::host::Local;
use cluster::situation::SituationError;
use cluster::{HandOverError, HandedOver};
use control::answer::Done;
use control::{Answer, Failure, FailureKind};
use pool_access::common::Common;

use crate::args::MoveArgs;
use crate::{move_keys, move_legs};

/// Moves the pool and blocks until it is served there.
pub fn run(args: &MoveArgs, common: &Common) -> Result<Answer, Failure> {
    let appliance = appliance_file::load(&args.appliance.file)?;
    let (pool, head) = (&args.pool, &args.head);
    let here = Local::default();
    let from = cluster::server_before(&here, &appliance, pool, head);
    let way = move_keys::PeerAccess {
        key: crate::peer_key::PeerKey::new(&args.peer_key, common),
        port: args.peer_port,
    };
    let mut remarks = Vec::new();
    if let Some(from) = from.map_err(|error| failure(&error))? {
        remarks.extend(move_legs::check(
            common,
            &appliance,
            &way,
            pool,
            (&from, head),
        )?);
        if !args.without_keys {
            let missing = move_keys::check(common, &appliance, &way, pool, (&from, head))?;
            remarks.extend(missing);
        }
    }
    match cluster::hand_over(&here, &appliance, pool, head) {
        Ok(HandedOver::Already) => Ok(Done::already(format!("{head} serves {pool}"))),
        Ok(HandedOver::Moved { from }) => {
            let remarks: String = remarks.iter().map(|one| format!("; {one}")).collect();
            Ok(Done::changed(format!(
                "{pool} moved from {from} to {head}{remarks}"
            )))
        }
        Err(error) => Err(failure(&error)),
    }
}

fn failure(error: &HandOverError) -> Failure {
    use HandOverError as E;
    let kind = match error {
        E::UnknownPool(_) | E::UnknownHead { .. } => FailureKind::NotFound,
        E::NotAllowed { .. } => FailureKind::Usage,
        E::NotReady { .. } | E::NotServed(_) => FailureKind::Unavailable,
        E::Failed { .. } => FailureKind::Failed,
        E::Tool(_) | E::Situation(_) => FailureKind::Unreachable,
    };
    let failure = Failure::from_chain(kind, error);
    match error {
        E::Failed { head, .. } => failure.advise(format!(
            "the pool is where the cluster has put it (`crm_mon`); its log is POOL.log in the \
             state directory of {head}"
        )),
        // The sentence contains the instructions.
        E::Situation(SituationError::Stopped) => failure,
        E::Tool(_) | E::Situation(_) => {
            failure.advise("run it as root on a head with a running Pacemaker")
        }
        _ => failure,
    }
}
