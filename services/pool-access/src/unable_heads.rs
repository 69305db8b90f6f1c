//! Corrects the failures that a pool survives, in a response of its server: by the state of the heads in the cluster, and
//! by the members of the record that respond to them. The server has access to neither.

use std::collections::BTreeMap;

use control::Answer;
use control::legs::reports::{HeadReport, MemberReport, NO_REPORT};
use units::PoolName;

use crate::common::Common;
use crate::managed;

/// Corrects the status of a pool with legs. `members` queries another head for the connections of its leg-server.
pub fn exclude(
    common: &Common,
    members: &dyn Fn(&str) -> Result<MemberReport, String>,
    answer: &mut Answer,
) {
    let status = match answer {
        Answer::Status(status) => &mut status.pool,
        Answer::Pool(status) => &mut **status,
        _ => return,
    };
    let survives = status.legs.as_ref().and_then(|legs| legs.survives.as_ref());
    let (Some(survives), Ok(pool)) = (survives, status.name.parse::<PoolName>()) else {
        return;
    };
    if !managed::clustered_pools().contains(&pool) {
        return;
    }
    let unable = managed::unable_heads(&pool);
    let server = match managed::location(&pool) {
        managed::Location::Head(head) => Some(head),
        managed::Location::NoHead | managed::Location::Unknown(_) => None,
    };
    let heads = survives.heads.iter().chain(&survives.not_heads);
    let heads = heads.chain(&survives.uncertain_heads);
    let is_queried = |head: &&String| {
        server.as_ref().is_some_and(|server| server != *head) && !unable.contains_key(*head)
    };
    let reports = heads.filter(is_queried).map(|head| {
        let report = match *head == units::host_name() {
            true => own(common),
            false => members(head),
        };
        (head.clone(), of_report(report))
    });
    let reports: BTreeMap<String, HeadReport> = reports.collect();
    control::answer::exclude_heads(status, server.as_deref(), &unable, &reports);
}

/// The connections of the leg-server of this host.
fn own(common: &Common) -> Result<MemberReport, String> {
    let own = MemberReport::read(&common.settings.state_dir, api::now_ms());
    own.ok_or_else(|| NO_REPORT.to_owned())
}

/// A command does not know how long a head sends no report.
fn of_report(report: Result<MemberReport, String>) -> HeadReport {
    match report {
        Ok(report) => HeadReport::Members(report),
        Err(why) => HeadReport::Unknown {
            why,
            is_lasting: true,
        },
    }
}
