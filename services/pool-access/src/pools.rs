//! Selects the pools of a request that names none, if there are several: lists cover all of them, served or not, and a
//! request with a target is sent to the pool that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::common::Common;
use crate::managed;
use crate::places;
use crate::sockets;
use crate::unable_heads;
use control::answer::{PoolStatus, PoolSummary, Status};
use control::legs::reports::MemberReport;
use control::operations::{PoolSelector, TableOptions, filesystem, pool, snapshot, target, volume};
use control::request::{
    FilesystemRequest, PoolRequest, SnapshotRequest, TargetRequest, VolumeRequest,
};
use control::{Advice, Answer, Failure, FailureKind, Request, Severity, owners};
use rendering::{Pools, Printer};
use units::{IscsiName, PoolName};

use crate::query_process::{QUERY_WAIT_MAX, QueryProcess};

/// Queries of the other heads of the appliance.
pub trait OtherHeads: Sync {
    /// Returns the status of a pool that `head` serves.
    ///
    /// # Errors
    ///
    /// The reason, in words, if the head does not respond in time.
    fn status(&self, head: &str, pool: &PoolName) -> Result<Status, String>;
    /// Returns the list that `request` asks for, of a pool that `head` serves.
    ///
    /// # Errors
    ///
    /// The reason, in words, if the head does not respond in time or refuses.
    fn list(&self, head: &str, pool: &PoolName, request: &Request) -> Result<Answer, String>;
    /// Returns the connections of the leg-server of `head` to the members of records.
    ///
    /// # Errors
    ///
    /// The reason, in words, if the head does not respond in time, or publishes none.
    fn members(&self, head: &str) -> Result<MemberReport, String>;
}

/// No other head is queried: completions must not wait for a network, and a shelf has no heads yet.
pub struct NoOtherHeads;

impl OtherHeads for NoOtherHeads {
    fn status(&self, head: &str, _: &PoolName) -> Result<Status, String> {
        Err(format!("{head} is not queried"))
    }

    fn list(&self, head: &str, _: &PoolName, _: &Request) -> Result<Answer, String> {
        Err(format!("{head} is not queried"))
    }

    fn members(&self, head: &str) -> Result<MemberReport, String> {
        Err(format!("{head} is not queried"))
    }
}

/// The responses.
pub struct Replies {
    /// The responses, by the names of the pools.
    pub answers: Vec<Answer>,
    /// The failure of the first pool that did not respond.
    pub failure: Option<Failure>,
}

impl Replies {
    fn one(answer: Answer) -> Self {
        Self {
            answers: vec![answer],
            failure: None,
        }
    }
}

/// Which pools a request without a pool's name means.
#[derive(Debug, PartialEq, Eq)]
enum PoolSelection<'a> {
    /// All.
    All,
    /// The pool with this target.
    With(&'a IscsiName),
    /// One pool, which must be named.
    One,
}

fn meant(request: &Request) -> PoolSelection<'_> {
    let operation = request.operation();
    match operation.target() {
        Some(target) => PoolSelection::With(target),
        None if operation.covers_all_pools() => PoolSelection::All,
        None => PoolSelection::One,
    }
}

/// Returns whether a request covers all pools.
pub fn pools_of(pool: &PoolSelector, request: &Request) -> Pools {
    match pool {
        PoolSelector::Single if meant(request) == PoolSelection::All => Pools::All,
        _ => Pools::One,
    }
}

/// The pools that a command without a pool's name may mean.
#[derive(Default)]
struct LocalPools {
    /// Those with a server.
    served: BTreeSet<PoolName>,
    /// Those without.
    unserved: BTreeSet<PoolName>,
    /// Those of them with a killed server.
    left: BTreeSet<PoolName>,
}

impl LocalPools {
    fn look(common: &Common) -> Result<Self, Failure> {
        let sockets = sockets::look(common);
        Ok(Self {
            unserved: crate::unserved(common, &sockets)?,
            served: sockets.served,
            left: sockets.left,
        })
    }

    /// Adds the pools of the appliance, which this head may never have served.
    fn with_appliance(mut self) -> Self {
        let others = managed::pools().into_iter();
        let others = others.filter(|pool| !self.served.contains(pool));
        self.unserved.extend(others.collect::<Vec<_>>());
        self
    }

    fn all(&self) -> impl Iterator<Item = &PoolName> {
        self.served.iter().chain(&self.unserved)
    }

    /// Returns whether lists leave out a pool that cannot be read. A pool is known here because it was once used here.
    /// It might now belong to a different host, or be incomplete. Served pools are listed in any case.
    fn may_skip(&self, pool: &PoolName, failure: &Failure) -> bool {
        let is_nowhere = failure.kind == FailureKind::NotFound;
        let was_served = self.served.contains(pool) || self.left.contains(pool);
        !was_served && (is_nowhere || !self.served.is_empty())
    }
}

/// Sends the request to the named pool, or to all selected pools. Prints the responses as in `table`, and returns the failure of one
/// pool.
pub fn show(
    common: &Common,
    heads: &dyn OtherHeads,
    pool: &PoolSelector,
    request: Request,
    table: &TableOptions,
    out: Printer,
) -> Result<(), Failure> {
    let pools = pools_of(pool, &request);
    let asked = ask(common, heads, pool, request, &mut |text| out.progress(text))?;
    out.answers(&asked.answers, pools, asked.failure.as_ref(), table)
}

/// Sends the request to the named pool, or to all selected pools. The status of a pool that another head serves comes
/// from that head.
pub fn ask(
    common: &Common,
    heads: &dyn OtherHeads,
    pool: &PoolSelector,
    request: Request,
    progress: &mut dyn FnMut(&str),
) -> Result<Replies, Failure> {
    let mut asked = match pool {
        PoolSelector::Pool(name) if is_list(&request) && is_elsewhere(common, name)? => {
            Replies::one(look_elsewhere(name, &request, managed::location(name), heads).answer?)
        }
        PoolSelector::Pool(_) => crate::ask(common, pool, request, progress).map(Replies::one)?,
        PoolSelector::Single => request_selected(common, heads, request, progress)?,
    };
    if asked.answers.iter_mut().any(|one| unserved(one).is_some()) {
        let mut left = sockets::look(common).left;
        if !common.maintenance {
            // The cluster starts their servers, on any head.
            let clustered = managed::clustered_pools();
            left.retain(|pool| !clustered.contains(pool));
        }
        for answer in &mut asked.answers {
            if let Some(status) = unserved(answer) {
                let pool = status.name.parse().ok();
                let options = pool.and_then(|pool| places::server_options(common, &pool));
                status.server_options =
                    options.unwrap_or(std::mem::take(&mut status.server_options));
            }
            advise_to_serve(answer, &left);
        }
    }
    for answer in &mut asked.answers {
        unable_heads::exclude(common, &|head: &str| heads.members(head), answer);
    }
    Ok(asked)
}

/// Whether the request only reads, and is for all pools where none is named: other heads can answer it for theirs.
fn is_list(request: &Request) -> bool {
    request.is_read_only() && request.operation().covers_all_pools()
}

/// Whether the request is for the status of a pool.
fn is_status(request: &Request) -> bool {
    matches!(
        request,
        Request::Status | Request::Pool(PoolRequest::Status)
    )
}

/// Whether the cluster manages the pool, and no server of it runs here.
fn is_elsewhere(common: &Common, pool: &PoolName) -> Result<bool, Failure> {
    let is_of_the_cluster = managed::disks(pool).is_some() && !common.maintenance;
    Ok(is_of_the_cluster && sockets::connect_for_state(common, pool)?.is_none())
}

/// Lists the pools that are served or can be found on this host, and those that other heads of the appliance serve. Reports
/// the known pools without a disk by `progress`.
///
/// # Errors
///
/// The directories with pools on this host cannot be searched.
pub fn list(
    common: &Common,
    heads: &dyn OtherHeads,
    progress: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    let mut pools = crate::discovered(common)?;
    if !common.maintenance {
        let is_served = |name: &PoolName| {
            let mut pools = pools.iter();
            pools.any(|pool| pool.name == *name && pool.state == SERVED)
        };
        let elsewhere = managed::pools();
        let elsewhere: Vec<&PoolName> = elsewhere.iter().filter(|name| !is_served(name)).collect();
        for (name, answer) in each_elsewhere(heads, &elsewhere, &Request::Status) {
            if let Ok(Answer::Status(status)) = answer {
                // Only Pacemaker knows whether another head serves it.
                let is_unknown = status.served_by.is_none()
                    && matches!(managed::location(&name), managed::Location::Unknown(_));
                let state = match (&status.served_by, is_unknown) {
                    (Some(_), _) => SERVED,
                    (None, true) => "unknown",
                    (None, false) => "unserved",
                };
                add_elsewhere(&mut pools, &name, *status, state);
            }
        }
        pools.sort_by(|a, b| a.name.cmp(&b.name));
    }
    let found = pools.iter().map(|pool| pool.name.clone()).collect();
    let vanished = places::vanished(common, &found);
    vanished.iter().for_each(|sentence| progress(sentence));
    Ok(Answer::Pools(pools))
}

/// The state of a pool with a server, in a list of pools.
const SERVED: &str = "served";

/// Adds a pool of the appliance that this host does not serve. A head that does not respond reports no GUID.
fn add_elsewhere(pools: &mut Vec<PoolSummary>, name: &PoolName, status: Status, state: &str) {
    let is_known = !status.pool.guid.is_empty();
    let found = pools.iter().position(|pool| match is_known {
        true => pool.guid == status.pool.guid,
        false => pool.name == *name,
    });
    match found {
        // The disks of a pool that no head serves are described by their labels.
        Some(_) if status.served_by.is_none() => {}
        Some(index) if !is_known => {
            pools[index].state = state.to_owned();
            pools[index].served_elsewhere = status.served_by;
        }
        found => {
            let summary = PoolSummary {
                state: state.to_owned(),
                served_elsewhere: status.served_by,
                ..crate::summary(name, status.pool)
            };
            let summary = match is_known {
                true => summary,
                false => PoolSummary {
                    size: None,
                    allocated: None,
                    ..summary
                },
            };
            match found {
                Some(index) => pools[index] = summary,
                None => pools.push(summary),
            }
        }
    }
}

/// The response for a pool without a server on this head.
struct Elsewhere {
    /// The head that serves it, by the cluster.
    served_by: Option<String>,
    /// The response of that head.
    answer: Result<Answer, Failure>,
}

/// Queries the head that serves `pool`.
fn look_elsewhere(
    pool: &PoolName,
    request: &Request,
    location: managed::Location,
    heads: &dyn OtherHeads,
) -> Elsewhere {
    use managed::Location;
    let head = match location {
        Location::Head(head) => head,
        Location::NoHead => {
            let message = format!("no head serves pool {pool}");
            let failure = Failure::new(FailureKind::Unavailable, message)
                .advise("`bulkhead head alerts` shows why, and what to do");
            return Elsewhere {
                served_by: None,
                answer: Err(failure),
            };
        }
        Location::Unknown(failure) => {
            return Elsewhere {
                served_by: None,
                answer: Err(failure),
            };
        }
    };
    let answer = match is_status(request) {
        true => heads.status(&head, pool).map(|status| {
            let status = Status {
                served_by: Some(head.clone()),
                ..status
            };
            status_answer(request, status)
        }),
        false => heads.list(&head, pool, request),
    };
    let answer = answer.map_err(|why| {
        let message = format!(
            "{head} serves pool {pool} by the cluster's record, and does not report its state: {why}"
        );
        Failure::new(FailureKind::Unreachable, message).advise(format!(
            "if its server has just failed, it is started again: repeat the command in a few seconds; else check that `bulkhead head` runs \
             on {head}; `bulkhead status {pool}` on {head} shows the pool"
        ))
    });
    Elsewhere {
        served_by: Some(head),
        answer,
    }
}

fn status_answer(request: &Request, status: Status) -> Answer {
    match request {
        Request::Status => Answer::Status(Box::new(status)),
        _ => Answer::Pool(Box::new(status.pool)),
    }
}

fn request_selected(
    common: &Common,
    heads: &dyn OtherHeads,
    request: Request,
    progress: &mut dyn FnMut(&str),
) -> Result<Replies, Failure> {
    let one = |pool: &PoolSelector, request, progress| {
        crate::ask(common, pool, request, progress).map(Replies::one)
    };
    let here = LocalPools::look(common)?;
    let here = match is_list(&request) {
        true => here.with_appliance(),
        false => here,
    };
    if here.all().count() < 2 && !(is_list(&request) && has_managed(common, &here)) {
        return one(&PoolSelector::Single, request, progress);
    }
    match meant(&request) {
        PoolSelection::All => each(common, heads, &here, &request, progress),
        PoolSelection::With(target) => {
            let pool = PoolSelector::Pool(pool_with(common, &here, target)?);
            one(&pool, request, progress)
        }
        PoolSelection::One if here.served.len() > 1 => {
            let message = format!("several pools are served here: {}", names_of(&here.served));
            Err(Failure::usage(message).advise("name one with --pool"))
        }
        PoolSelection::One => one(&PoolSelector::Single, request, progress),
    }
}

/// Whether the cluster manages a pool without a server here.
fn has_managed(common: &Common, here: &LocalPools) -> bool {
    let mut unserved = here.unserved.iter();
    !common.maintenance && unserved.any(|pool| managed::disks(pool).is_some())
}

fn names_of<'a>(pools: impl IntoIterator<Item = &'a PoolName>) -> String {
    let names: Vec<&str> = pools.into_iter().map(PoolName::as_str).collect();
    names.join(" ")
}

/// Returns the response or the failure of each pool, from servers and from processes that read pools without one.
fn each_response(
    common: &Common,
    heads: &dyn OtherHeads,
    here: &LocalPools,
    request: &Request,
) -> BTreeMap<PoolName, Result<Answer, Failure>> {
    let can_look = request.is_read_only() && !matches!(request, Request::Portal(_));
    let unserved = here.unserved.iter().filter(|_| can_look);
    let (of_the_cluster, unserved): (Vec<&PoolName>, Vec<&PoolName>) =
        unserved.partition(|pool| managed::disks(pool).is_some() && !common.maintenance);
    // They run concurrently.
    let looks: Vec<(&PoolName, Result<QueryProcess, Failure>)> = unserved
        .into_iter()
        .map(|pool| (pool, QueryProcess::begin(common, pool, request)))
        .collect();
    let elsewhere = each_elsewhere(heads, &of_the_cluster, request);
    let until = Instant::now() + QUERY_WAIT_MAX;
    let served = here.served.iter();
    let mut said: BTreeMap<PoolName, Result<Answer, Failure>> = served
        .map(|pool| {
            let answer = crate::ask_server(common, pool, request.clone());
            (pool.clone(), answer)
        })
        .collect();
    for (pool, look) in looks {
        let answer = look.and_then(|look| look.answer(until));
        said.insert(pool.clone(), answer);
    }
    said.extend(elsewhere);
    said
}

/// Returns the responses for pools of the cluster without a server here. A head that does not respond delays those for
/// its own pools only.
fn each_elsewhere(
    heads: &dyn OtherHeads,
    pools: &[&PoolName],
    request: &Request,
) -> Vec<(PoolName, Result<Answer, Failure>)> {
    if !is_list(request) {
        let refused = pools.iter().map(|pool| managed::not_here(pool));
        let refused = refused.map(Err);
        return pools.iter().copied().cloned().zip(refused).collect();
    }
    std::thread::scope(|scope| {
        let looks: Vec<_> = pools
            .iter()
            .map(|pool| {
                scope.spawn(move || look_elsewhere(pool, request, managed::location(pool), heads))
            })
            .collect();
        let found = looks.into_iter().map(|look| match look.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let names = pools.iter().copied().cloned();
        let answer = |(pool, found): (PoolName, Elsewhere)| {
            let answer = elsewhere_answer(&pool, request, found);
            (pool, answer)
        };
        names.zip(found).map(answer).collect()
    })
}

/// The response for a pool without a server here. The reason of a missing status is part of it, so that one silent head
/// does not hide the remaining pools.
fn elsewhere_answer(
    pool: &PoolName,
    request: &Request,
    found: Elsewhere,
) -> Result<Answer, Failure> {
    let failure = match found.answer {
        Ok(answer) => return Ok(answer),
        Err(failure) => failure,
    };
    let mut answer = unknown(pool, request, &failure).ok_or(failure)?;
    if let Answer::Status(status) = &mut answer {
        status.served_by = found.served_by;
    }
    Ok(answer)
}

fn each(
    common: &Common,
    heads: &dyn OtherHeads,
    here: &LocalPools,
    request: &Request,
    progress: &mut dyn FnMut(&str),
) -> Result<Replies, Failure> {
    let said = each_response(common, heads, here, request);
    if said.is_empty() {
        let message = "no server of a pool runs here";
        return Err(Failure::new(FailureKind::Unreachable, message)
            .advise("`bulkhead pool-server POOL` starts one"));
    }
    let mut asked = Replies {
        answers: Vec::new(),
        failure: None,
    };
    let mut gone = None;
    for (pool, answer) in said {
        let failure = match answer {
            Ok(answer) => {
                asked.answers.push(answer);
                continue;
            }
            Err(failure) => failure,
        };
        let is_gone = here.may_skip(&pool, &failure);
        let is_nowhere = is_gone && failure.kind == FailureKind::NotFound;
        let is_shown = here.unserved.contains(&pool) && !is_nowhere;
        let shown = unknown(&pool, request, &failure).filter(|_| is_shown);
        let failure = of_pool(&pool, failure);
        match (shown, is_gone) {
            (Some(answer), _) => asked.answers.push(answer),
            (None, true) => {
                // The location of the target, if there is one, is not news; a status without the pool is.
                let is_news = !is_nowhere || is_status(request);
                if is_news && failure.kind != FailureKind::NeedsConfirmation {
                    progress(&format!("left out: {}", failure.message));
                }
                gone.get_or_insert(failure);
            }
            (None, false) => {
                asked.failure.get_or_insert(failure);
            }
        }
    }
    if asked.answers.is_empty() {
        asked.failure = asked.failure.or(gone);
    }
    add_shared_targets(&mut asked.answers);
    Ok(asked)
}

fn of_pool(pool: &PoolName, mut failure: Failure) -> Failure {
    failure.message = format!("pool {pool}: {}", failure.message);
    failure
}

/// Returns the summary of a pool that has no server and cannot be read.
fn unknown(pool: &PoolName, request: &Request, failure: &Failure) -> Option<Answer> {
    let what = failure.advice.as_deref();
    let what = what.unwrap_or("see to its disks, and to where it is served");
    let status = PoolStatus {
        name: pool.to_string(),
        health: "UNKNOWN".to_owned(),
        advice: vec![Advice::new(Severity::Error, what, &failure.message)],
        ..PoolStatus::default()
    };
    match request {
        Request::Status => Some(Answer::Status(Box::new(Status {
            pool: status,
            ..Status::default()
        }))),
        Request::Pool(PoolRequest::Status) => Some(Answer::Pool(Box::new(status))),
        _ => None,
    }
}

/// Returns the status in a response of a pool that might have no server.
fn unserved(answer: &mut Answer) -> Option<&mut PoolStatus> {
    match answer {
        Answer::Status(status) if status.server.is_none() => Some(&mut status.pool),
        Answer::Pool(status) => Some(status),
        _ => None,
    }
}

/// Adds advice to restart a killed server. It has priority over all other advice.
fn advise_to_serve(answer: &mut Answer, left: &BTreeSet<PoolName>) {
    let Some(status) = unserved(answer) else {
        return;
    };
    if !left.iter().any(|pool| pool.as_str() == status.name) {
        return;
    }
    let why = "its server was killed or has crashed, and the pool is not served";
    let serve =
        Advice::new(Severity::Error, "start its server again", why).by(status.server_command());
    status.advice.insert(0, serve);
}

/// Adds to each glance which of its targets other pools have, too.
fn add_shared_targets(answers: &mut [Answer]) {
    let statuses: Vec<&Status> = answers
        .iter()
        .filter_map(|answer| match answer {
            Answer::Status(status) => Some(&**status),
            _ => None,
        })
        .collect();
    let mut told = control::answer::shared_names(&statuses);
    for answer in answers {
        if let Answer::Status(status) = answer {
            let sentences = told.remove(&status.pool.name);
            status.problems.extend(sentences.unwrap_or_default());
        }
    }
}

/// The pool that has `target`.
fn pool_with(common: &Common, here: &LocalPools, target: &IscsiName) -> Result<PoolName, Failure> {
    let served = LocalPools {
        served: here.served.clone(),
        ..LocalPools::default()
    };
    // Servers send it from memory, without disk access.
    let (found, silent) = having(common, &served, &Request::Status, target);
    if let Some(pool) = the_one_with(target, found)? {
        return Ok(pool);
    }
    if let Some(failure) = silent {
        // It may be that server's, and not the one of the same name in a pool without a server.
        return Err(failure);
    }
    let unserved = LocalPools {
        unserved: here.unserved.clone(),
        left: here.left.clone(),
        ..LocalPools::default()
    };
    let list = Request::Target(TargetRequest::List(target::list::List::default()));
    let (found, silent) = having(common, &unserved, &list, target);
    if let Some(pool) = the_one_with(target, found)? {
        return Ok(pool);
    }
    Err(silent.unwrap_or_else(|| {
        let names = names_of(here.all());
        Failure::not_found(format!("no pool of {names} has a target {target}"))
            .advise("`bulkhead target list` shows those there are")
    }))
}

/// Returns the pools that have `target` by their responses to `request`, and the failure of one that should have
/// responded.
fn having(
    common: &Common,
    here: &LocalPools,
    request: &Request,
    target: &IscsiName,
) -> (Vec<PoolName>, Option<Failure>) {
    let (mut found, mut silent) = (Vec::new(), None);
    for (pool, said) in each_response(common, &NoOtherHeads, here, request) {
        let targets = match &said {
            Ok(Answer::Status(status)) => &status.targets,
            Ok(Answer::Targets(targets)) => targets,
            Ok(_) => continue,
            Err(failure) if here.may_skip(&pool, failure) => continue,
            Err(failure) => {
                silent.get_or_insert(of_pool(&pool, failure.clone()));
                continue;
            }
        };
        if targets.iter().any(|one| one.name == *target) {
            found.push(pool);
        }
    }
    (found, silent)
}

fn the_one_with(target: &IscsiName, found: Vec<PoolName>) -> Result<Option<PoolName>, Failure> {
    if found.len() > 1 {
        let names = names_of(&found);
        let message = format!("several pools have a target {target}: {names}");
        return Err(Failure::usage(message).advise("name one with --pool"));
    }
    Ok(found.into_iter().next())
}

/// Returns the names that start with `word`, for completions: fast, and without error messages.
pub fn names(common: &Common, word: &str) -> Vec<String> {
    let here = LocalPools {
        served: sockets::look(common).served,
        ..LocalPools::default()
    };
    let mut names: Vec<String> = here.served.iter().map(PoolName::to_string).collect();
    let mut requests = vec![
        Request::Volume(VolumeRequest::List(volume::list::List::default())),
        Request::Filesystem(FilesystemRequest::List(filesystem::list::List::default())),
        Request::Target(TargetRequest::List(target::list::List::default())),
    ];
    if word.contains('@') {
        requests.push(Request::Snapshot(SnapshotRequest::List(
            snapshot::list::List::default(),
        )));
    }
    for request in requests {
        let said = each_response(common, &NoOtherHeads, &here, &request);
        for answer in said.into_values().flatten() {
            match answer {
                Answer::Volumes(all) => names.extend(all.iter().map(|one| one.name.to_string())),
                Answer::Filesystems(all) => {
                    names.extend(all.iter().map(|one| one.name.to_string()));
                }
                Answer::Targets(all) => names.extend(all.iter().map(|one| one.name.to_string())),
                Answer::Snapshots(all) => names.extend(all.iter().map(|one| one.name.to_string())),
                _ => {}
            }
        }
    }
    names.retain(|name| name.starts_with(word));
    names
}

/// Returns the names of properties of an object that start with `word`, for completions: those of a pool, or of a
/// dataset, that has a server here.
pub fn property_names(common: &Common, noun: &str, name: &str, word: &str) -> Vec<String> {
    let names = Vec::new();
    let owned = name.to_owned();
    let request = match noun {
        "pool" => Request::Pool(pool::get::Get { names }.into()),
        "volume" => Request::Volume(volume::get::Get { name: owned, names }.into()),
        "filesystem" => Request::Filesystem(filesystem::get::Get { name: owned, names }.into()),
        _ => return Vec::new(),
    };
    let pool = name.split('/').next().unwrap_or_default();
    let Ok(pool) = pool.parse::<PoolName>() else {
        return Vec::new();
    };
    match crate::ask_server(common, &pool, request) {
        Ok(Answer::Properties(all)) => {
            let of_owners = owners::prefixes().filter(|_| noun == "filesystem");
            let names = all.into_keys().chain(of_owners.map(str::to_owned));
            names.filter(|name| name.starts_with(word)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use control::operations::nbd;
    use control::operations::target::create::Create;
    use control::operations::target::discovery::chap_clear::ChapClear;
    use control::operations::target::show::Show;
    use control::request::{DiscoveryRequest, NbdRequest};

    use super::*;
    use control::operations::replicate::ReplicateRequest;

    fn here(served: &[&str], unserved: &[&str], left: &[&str]) -> LocalPools {
        let names = |all: &[&str]| -> Vec<PoolName> {
            all.iter()
                .map(|name| name.parse().expect("a name"))
                .collect()
        };
        LocalPools {
            served: names(served).into_iter().collect(),
            unserved: names(unserved).into_iter().collect(),
            left: names(left).into_iter().collect(),
        }
    }

    #[test]
    fn known_absent_pool_is_skipped_and_dead_server_fails_the_list() {
        let tank: PoolName = "tank".parse().expect("a name");
        let of = |kind| Failure::new(kind, "no");
        let (missing, elsewhere) = (FailureKind::NotFound, FailureKind::NeedsConfirmation);
        let beside = here(&["attic"], &["tank"], &[]);
        for kind in [
            missing,
            elsewhere,
            FailureKind::Busy,
            FailureKind::Unavailable,
        ] {
            assert!(beside.may_skip(&tank, &of(kind)), "{kind:?}");
        }
        let alone = here(&[], &["attic", "tank"], &[]);
        assert!(alone.may_skip(&tank, &of(missing)));
        assert!(!alone.may_skip(&tank, &of(elsewhere)));
        let died = here(&["attic"], &["tank"], &["tank"]);
        let silent = here(&["attic", "tank"], &[], &[]);
        for here in [died, silent] {
            for kind in [missing, elsewhere, FailureKind::Unreachable] {
                assert!(!here.may_skip(&tank, &of(kind)), "{kind:?}");
            }
        }
    }

    #[test]
    fn target_in_two_pools_needs_a_pool_name() {
        let target: IscsiName = "iqn.2026-01.org.example:a".parse().expect("a name");
        let [tank, attic] = ["tank", "attic"].map(|name| name.parse().expect("a name"));
        let one = the_one_with(&target, vec![tank]);
        let tank = one.expect("it is clear").expect("one has it");
        assert_eq!(the_one_with(&target, Vec::new()), Ok(None));
        let both = the_one_with(&target, vec![attic, tank]).expect_err("two have it");
        assert!(both.message.ends_with(": attic tank"), "{}", both.message);
    }

    #[test]
    fn unreadable_pool_is_listed_with_the_reason() {
        let tank: PoolName = "tank".parse().expect("a name");
        let failure = Failure::not_found("it is nowhere").advise("look for it");
        let mut answer = unknown(&tank, &Request::Status, &failure).expect("shown");
        advise_to_serve(&mut answer, &BTreeSet::from([tank.clone()]));
        let Answer::Status(status) = answer else {
            panic!("{answer:?}");
        };
        let advice: Vec<String> = status.pool.advice.iter().map(ToString::to_string).collect();
        assert!(
            advice[0].contains("`bulkhead pool-server tank`"),
            "{advice:?}"
        );
        assert_eq!(advice[1], "look for it (it is nowhere)");
        let list = Request::Volume(VolumeRequest::List(volume::list::List::default()));
        assert!(unknown(&tank, &list, &failure).is_none());
    }

    /// `right` responds, `third` does not.
    struct Heads;

    impl OtherHeads for Heads {
        fn status(&self, head: &str, pool: &PoolName) -> Result<Status, String> {
            if head != "right" {
                return Err("connection refused".to_owned());
            }
            let pool = PoolStatus {
                name: pool.to_string(),
                health: "DEGRADED".to_owned(),
                ..PoolStatus::default()
            };
            Ok(Status {
                pool,
                ..Status::default()
            })
        }

        fn list(&self, head: &str, _: &PoolName, _: &Request) -> Result<Answer, String> {
            match head {
                "right" => Ok(Answer::Volumes(Vec::new())),
                _ => Err("connection refused".to_owned()),
            }
        }

        fn members(&self, _: &str) -> Result<MemberReport, String> {
            Err("connection refused".to_owned())
        }
    }

    #[test]
    fn list_of_another_heads_pool_comes_from_that_head_or_fails_with_the_reason() {
        use managed::Location;
        let tank: PoolName = "tank".parse().expect("a name");
        let list = Request::Volume(VolumeRequest::List(volume::list::List::default()));
        assert!(is_list(&list) && is_list(&Request::Status));
        let change = Request::Pool(PoolRequest::Export);
        assert!(!is_list(&change));
        let look = |head: &str| {
            let found = look_elsewhere(&tank, &list, Location::Head(head.to_owned()), &Heads);
            elsewhere_answer(&tank, &list, found)
        };
        assert!(matches!(look("right"), Ok(Answer::Volumes(_))));
        let failure = look("third").expect_err("it does not respond");
        assert_eq!(failure.kind, FailureKind::Unreachable);
        assert!(
            failure.message.contains("third serves pool tank"),
            "{failure}"
        );
    }

    #[test]
    fn pool_of_another_head_is_shown_by_that_head_or_with_the_reason() {
        use managed::Location;
        let tank: PoolName = "tank".parse().expect("a name");
        let shown = |location: Location, request: &Request| {
            let found = look_elsewhere(&tank, request, location, &Heads);
            elsewhere_answer(&tank, request, found).expect("always shown")
        };
        let status = |location| match shown(location, &Request::Status) {
            Answer::Status(status) => {
                let advice = status.pool.advice.first().map(ToString::to_string);
                (
                    status.served_by,
                    status.pool.health,
                    advice.unwrap_or_default(),
                )
            }
            other => panic!("{other:?}"),
        };
        let on = |head: &str| Location::Head(head.to_owned());
        let (head, health, _) = status(on("right"));
        assert_eq!((head.as_deref(), &*health), (Some("right"), "DEGRADED"));
        let (head, health, advice) = status(on("third"));
        assert_eq!((head.as_deref(), &*health), (Some("third"), "UNKNOWN"));
        for part in [
            "`bulkhead status tank` on third",
            "does not report its state: connection refused",
        ] {
            assert!(advice.contains(part), "{part}: {advice}");
        }
        let (head, _, advice) = status(Location::NoHead);
        assert!(head.is_none() && advice.contains("no head serves pool tank"));
        let unknown = Failure::new(FailureKind::NeedsConfirmation, "no Pacemaker responds");
        let (_, _, advice) = status(Location::Unknown(unknown));
        assert!(advice.contains("no Pacemaker responds"), "{advice}");
        let detail = shown(on("right"), &Request::Pool(PoolRequest::Status));
        assert!(matches!(detail, Answer::Pool(pool) if pool.health == "DEGRADED"));
        // A named pool without a status is a failure, with the head's name.
        let failure = look_elsewhere(&tank, &Request::Status, on("third"), &Heads).answer;
        let failure = failure.expect_err("it does not respond");
        assert_eq!(failure.kind, FailureKind::Unreachable);
    }

    #[test]
    fn requests_are_routed_to_all_one_or_the_targets_pool() {
        let name: IscsiName = "iqn.2026-01.org.example:a".parse().expect("a name");
        assert_eq!(meant(&Request::Status), PoolSelection::All);
        assert_eq!(
            meant(&Request::Nbd(NbdRequest::List(nbd::list::List::default()))),
            PoolSelection::All
        );
        let show = Request::Target(TargetRequest::Show(Show { name: name.clone() }));
        assert_eq!(meant(&show), PoolSelection::With(&name));
        let create = Request::Target(TargetRequest::Create(Create {
            name: name.clone(),
            portal_groups: Vec::new(),
        }));
        assert_eq!(meant(&create), PoolSelection::One);
        let show = Request::Target(TargetRequest::Discovery(DiscoveryRequest::Show));
        assert_eq!(meant(&show), PoolSelection::All);
        let clear = DiscoveryRequest::ChapClear(ChapClear {
            user: None,
            no_secret: true,
        });
        let clear = Request::Target(TargetRequest::Discovery(clear));
        assert_eq!(meant(&clear), PoolSelection::One);
        let identity = Request::Replicate(ReplicateRequest::Identity);
        assert_eq!(meant(&identity), PoolSelection::One);
    }
}
