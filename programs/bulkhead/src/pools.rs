//! Which pools a question is about that names none, where several are served: lists cover all of them, and what
//! names a target finds the pool that has it.

use control::portal::PortalRequest;
use control::replication::ReplicateRequest;
use control::request::{
    DiscoveryRequest, KeyRequest, NbdRequest, PoolRequest, ScheduleRequest, SnapshotRequest,
    TargetRequest, VolumeRequest,
};
use control::rescue::RescueRequest;
use control::{Answer, Failure, Request};
use units::{IscsiName, PoolName};

use crate::cli::{Common, Whose};
use crate::reach;

/// What was answered.
pub struct Asked {
    /// The answers, by the names of the pools.
    pub answers: Vec<Answer>,
    /// Why the first pool did not answer, of those that did not.
    pub failure: Option<Failure>,
}

impl Asked {
    fn one(answer: Answer) -> Self {
        Self {
            answers: vec![answer],
            failure: None,
        }
    }
}

/// Which pools a request without a pool's name means.
#[derive(Debug, PartialEq, Eq)]
enum Meant<'a> {
    /// All.
    All,
    /// The one that has this target.
    With(&'a IscsiName),
    /// One, which has to be named.
    One,
}

fn meant(request: &Request) -> Meant<'_> {
    use TargetRequest as Target;
    match request {
        Request::Status
        | Request::Pool(PoolRequest::Status)
        | Request::Volume(
            VolumeRequest::List | VolumeRequest::Space | VolumeRequest::Rescue(RescueRequest::List),
        )
        | Request::Snapshot(
            SnapshotRequest::List { volume: None }
            | SnapshotRequest::Schedule(ScheduleRequest::List),
        )
        | Request::Key(KeyRequest::Status { name: None })
        | Request::Target(Target::List | Target::Discovery(DiscoveryRequest::Show))
        | Request::Nbd(NbdRequest::List)
        | Request::Portal(PortalRequest::List)
        | Request::Replicate(ReplicateRequest::List) => Meant::All,
        Request::Target(
            Target::Show { name }
            | Target::Destroy { name, .. }
            | Target::Map { name, .. }
            | Target::Unmap { name, .. }
            | Target::Allow { name, .. }
            | Target::Deny { name, .. }
            | Target::ChapSet { name, .. }
            | Target::MutualSet { name, .. }
            | Target::ChapClear { name, .. },
        ) => Meant::With(name),
        _ => Meant::One,
    }
}

/// Asks the pool that is named; without a name all that are meant.
pub fn ask(
    common: &Common,
    whose: &Whose,
    request: Request,
    progress: &mut dyn FnMut(&str),
) -> Result<Asked, Failure> {
    let served = match whose {
        Whose::Pool(_) => Vec::new(),
        Whose::TheOnlyOne => reach::sockets(common),
    };
    if served.len() < 2 {
        return reach::ask(common, whose, request, progress).map(Asked::one);
    }
    match meant(&request) {
        Meant::All => Ok(each(common, &served, &request)),
        Meant::With(target) => {
            let pool = Whose::Pool(pool_with(common, &served, target)?);
            reach::ask(common, &pool, request, progress).map(Asked::one)
        }
        Meant::One => {
            let names: Vec<&str> = served.iter().map(PoolName::as_str).collect();
            let message = format!("several pools are served here: {}", names.join(" "));
            Err(Failure::usage(message).advise("name one with --pool"))
        }
    }
}

fn each(common: &Common, pools: &[PoolName], request: &Request) -> Asked {
    let mut asked = Asked {
        answers: Vec::new(),
        failure: None,
    };
    for pool in pools {
        match reach::ask_server(common, pool, request.clone()) {
            Ok(answer) => asked.answers.push(answer),
            Err(mut failure) => {
                failure.message = format!("pool {pool}: {}", failure.message);
                asked.failure.get_or_insert(failure);
            }
        }
    }
    asked
}

fn pool_with(common: &Common, pools: &[PoolName], target: &IscsiName) -> Result<PoolName, Failure> {
    let asked = |pool: &PoolName| {
        let list = Request::Target(TargetRequest::List);
        match reach::ask_server(common, pool, list) {
            Ok(Answer::Targets(targets)) => Ok(targets.iter().any(|one| one.name == *target)),
            Ok(_) => Ok(false),
            Err(failure) => Err(failure),
        }
    };
    let mut silent = None;
    for pool in pools {
        match asked(pool) {
            Ok(true) => return Ok(pool.clone()),
            Ok(false) => {}
            Err(failure) => silent = silent.or(Some(failure)),
        }
    }
    let names: Vec<&str> = pools.iter().map(PoolName::as_str).collect();
    Err(silent.unwrap_or_else(|| {
        let message = format!("no pool of {} has a target {target}", names.join(" "));
        Failure::not_found(message).advise("`bulkhead target list` shows those there are")
    }))
}

/// The names that begin like `word`, for completions: quick, and silent where something fails.
pub fn names(common: &Common, word: &str) -> Vec<String> {
    let pools = reach::sockets(common);
    let mut names: Vec<String> = pools.iter().map(PoolName::to_string).collect();
    let mut requests = vec![
        Request::Volume(VolumeRequest::List),
        Request::Target(TargetRequest::List),
    ];
    if word.contains('@') {
        requests.push(Request::Snapshot(SnapshotRequest::List { volume: None }));
    }
    for request in requests {
        let asked = each(common, &pools, &request);
        for answer in asked.answers {
            match answer {
                Answer::Volumes(all) => names.extend(all.iter().map(|one| one.name.to_string())),
                Answer::Targets(all) => names.extend(all.iter().map(|one| one.name.to_string())),
                Answer::Snapshots(all) => names.extend(all.iter().map(|one| one.name.to_string())),
                _ => {}
            }
        }
    }
    names.retain(|name| name.starts_with(word));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_mean_all_pools_a_target_its_own_and_what_makes_something_one() {
        let name: IscsiName = "iqn.2026-01.org.example:a".parse().expect("a name");
        assert_eq!(meant(&Request::Status), Meant::All);
        assert_eq!(meant(&Request::Nbd(NbdRequest::List)), Meant::All);
        let show = Request::Target(TargetRequest::Show { name: name.clone() });
        assert_eq!(meant(&show), Meant::With(&name));
        let create = Request::Target(TargetRequest::Create {
            name: name.clone(),
            portal_groups: Vec::new(),
        });
        assert_eq!(meant(&create), Meant::One);
        let show = Request::Target(TargetRequest::Discovery(DiscoveryRequest::Show));
        assert_eq!(meant(&show), Meant::All);
        let clear = DiscoveryRequest::ChapClear { user: None };
        let clear = Request::Target(TargetRequest::Discovery(clear));
        assert_eq!(meant(&clear), Meant::One);
        let identity = Request::Replicate(ReplicateRequest::Identity);
        assert_eq!(meant(&identity), Meant::One);
    }
}
