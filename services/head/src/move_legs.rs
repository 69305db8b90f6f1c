//! Checks that the legs of the head that a pool moves to are current: without current legs it does not open the pool,
//! and clients would lose it for the time of the attempt.

use appliance::Appliance;
use control::calendar::utc;
use control::legs::reports::{HeadReport, MemberReport, may_move};
use control::legs::{LegState, LegView, LegsView};
use control::operations::pool::PoolRequest;
use control::{Answer, Failure, FailureKind, Request};
use pool_access::common::Common;
use units::{HeadName, PoolName};

use crate::move_keys::{PeerAccess, with_peers};

/// Refuses a move of `pool` to a head with legs that are not current. Returns a remark if the state of the legs is
/// unknown.
pub fn check(
    common: &Common,
    appliance: &Appliance,
    way: &PeerAccess,
    pool: &PoolName,
    (from, to): (&HeadName, &HeadName),
) -> Result<Option<String>, Failure> {
    let described = appliance.pools.get(pool);
    if !described.is_some_and(|described| described.has_legs()) {
        return Ok(None);
    }
    let legs = match from.as_str() == engine::host_name() {
        true => {
            let status = Request::Pool(PoolRequest::Status);
            match pool_access::ask_server(common, pool, status) {
                Ok(Answer::Pool(status)) => Ok(status.legs),
                Ok(_) => Ok(None),
                Err(failure) => Err(failure.message),
            }
        }
        false => with_peers(appliance, way, &[from], async |peers| {
            let legs = peers.legs(from.as_str(), pool).await;
            legs.map_err(|failure| failure.message)
        })?,
    };
    match legs {
        Ok(Some(legs)) => {
            refuse(pool, (from, to), &legs)?;
            members(common, appliance, way, (pool, to), &legs)
        }
        Ok(None) => Ok(None),
        Err(why) => Ok(Some(format!("the state of its legs is unknown: {why}"))),
    }
}

/// Refuses a head to which too few members of the record respond. Returns a remark if that is unknown.
fn members(
    common: &Common,
    appliance: &Appliance,
    way: &PeerAccess,
    (pool, to): (&PoolName, &HeadName),
    legs: &LegsView,
) -> Result<Option<String>, Failure> {
    let unpublished = || "its bulkhead-leg-server publishes no connections".to_owned();
    let report = match to.as_str() == engine::host_name() {
        true => {
            MemberReport::read(&common.settings.state_dir, api::now_ms()).ok_or_else(unpublished)
        }
        false => with_peers(appliance, way, &[to], async |peers| {
            let report = peers.head_report(to.as_str()).await;
            let report = report.map_err(|failure| failure.message)?;
            report.members.ok_or_else(unpublished)
        })?,
    };
    let report = match report {
        Ok(report) => HeadReport::Members(report),
        Err(why) => HeadReport::Unknown {
            why,
            is_lasting: false,
        },
    };
    may_move(legs, to.as_str(), &report).map_err(|(why, action)| {
        let message = format!(
            "{to} cannot take {pool} over: {why}, so it could not open it. Nothing was stopped"
        );
        Failure::new(FailureKind::Unavailable, message).advise(action)
    })
}

/// Refuses if `to` has legs in a group, and none of them is current.
fn refuse(
    pool: &PoolName,
    (from, to): (&HeadName, &HeadName),
    legs: &LegsView,
) -> Result<(), Failure> {
    let own = || legs.legs.iter().filter(|leg| leg.head == to.as_str());
    let is_current = |group: usize| {
        let mut legs = own().filter(|leg| leg.group == group);
        legs.any(|leg| leg.state == LegState::Current)
    };
    let Some(leg) = own().find(|leg| !is_current(leg.group)) else {
        return Ok(());
    };
    let since = leg
        .since_ms
        .map_or_else(String::new, |ms| format!(" since {}", utc(ms / 1000)));
    let message = format!(
        "{to} cannot take {pool} over: its leg {} is {}{since}, so {to} does not hold all acknowledged writes. Nothing was stopped",
        leg.name, leg.state
    );
    let advice = format!(
        "{}; `bulkhead pool status {pool}` on {from} shows it",
        until(pool, leg)
    );
    Err(Failure::new(FailureKind::Unavailable, message).advise(advice))
}

/// Advice on when the leg will be current.
fn until(pool: &PoolName, leg: &LegView) -> String {
    match leg.state {
        LegState::Copying => {
            let left = leg.remaining_s;
            let left = left.map_or_else(String::new, |left| format!(", in about {left} s"));
            format!("move it when the copy to the leg is complete{left}")
        }
        LegState::Faulted => {
            let again = leg.tried_again_ms;
            let again = again.map_or_else(String::new, |ms| {
                format!(", which is tried again at {}", utc(ms / 1000))
            });
            format!(
                "replace or repair the leg{again}; `bulkhead pool online {pool} {}` tries it at once; move the pool when it is current",
                leg.name
            )
        }
        LegState::Divergent => format!(
            "the leg has other data: see `bulkhead pool discard-leg --help`; move {pool} when it is current"
        ),
        LegState::Current | LegState::Failing | LegState::Stale => {
            "see to the head of the leg and to the way to it; the pool can be moved when the leg is current".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_with_stale_leg_is_refused_with_leg_and_time() {
        let (pool, left, right) = (
            "tank".parse().expect("name"),
            "left".parse().expect("name"),
            "right".parse().expect("name"),
        );
        let leg = |head: &str, group, state| LegView {
            name: format!("{head}:bay{group}"),
            head: head.to_owned(),
            group,
            state,
            remaining_s: Some(40),
            tried_again_ms: Some(60_000),
            since_ms: Some(1_000),
            ..LegView::default()
        };
        for (state, part) in [
            (LegState::Current, None),
            (LegState::Copying, Some("in about 40 s")),
            (LegState::Faulted, Some("tried again at 1970-01-01")),
            (LegState::Stale, Some("when the leg is current")),
            (LegState::Failing, Some("when the leg is current")),
            (LegState::Divergent, Some("discard-leg")),
        ] {
            let legs = LegsView {
                legs: vec![
                    leg("left", 0, LegState::Current),
                    leg("right", 0, LegState::Current),
                    leg("left", 1, LegState::Current),
                    leg("right", 1, state),
                ],
                ..LegsView::default()
            };
            let refused = refuse(&pool, (&left, &right), &legs).err();
            assert_eq!(refused.is_some(), part.is_some(), "{state}");
            if let (Some(failure), Some(part)) = (refused, part) {
                assert!(
                    failure.message.contains("right:bay1"),
                    "{}",
                    failure.message
                );
                let advice = failure.advice.expect("advice");
                assert!(advice.contains(part), "{state}: {advice}");
            }
            assert!(refuse(&pool, (&right, &left), &legs).is_ok());
        }
    }
}
