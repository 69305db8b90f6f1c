//! The next step of an upgrade, for the observed state of all heads and pools. Pure.
//!
//! A head that is being upgraded has a mark in the cluster's configuration. Its other state is visible on the head
//! itself. So a killed run needs no journal, and the step after each state is a row of a table in the tests.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use units::{HeadName, PoolName};

use super::version::compare;

/// The version that all heads get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// As `bulkhead --version` prints it.
    pub program: String,
    /// The version of the package, if there is one.
    pub package: Option<String>,
    /// An older version is wanted.
    pub downgrade: bool,
}

impl Wanted {
    /// The mark of a head that gets this version.
    pub fn mark(&self) -> &str {
        self.package.as_deref().unwrap_or(&self.program)
    }
}

/// The state of a head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadState {
    /// The version of the installed binary; none if it does not run.
    pub program: Option<String>,
    /// The version of the package, if it is completely installed.
    pub package: Option<String>,
    /// Processes that run a binary that was replaced since.
    pub replaced: BTreeSet<String>,
    /// Units that are active.
    pub active_units: BTreeSet<String>,
    /// Units that are enabled and not active.
    pub stopped_units: BTreeSet<String>,
    /// Whether it is a full member of the cluster.
    pub is_member: bool,
    /// Whether the cluster's configuration excludes it from serving.
    pub is_excluded: bool,
    /// The version that an upgrade of this head began to install.
    pub mark: Option<String>,
    /// Resources of pools that run there, or may run there.
    pub resources: BTreeSet<String>,
    /// The findings of its verification in this run; none before.
    pub findings: Option<Vec<String>>,
}

impl HeadState {
    fn has(&self, wanted: &Wanted) -> bool {
        let is_program = self.program.as_deref() == Some(&wanted.program);
        is_program && (wanted.package.is_none() || self.package == wanted.package)
    }

    /// Whether the wanted version is installed, and all processes run it.
    fn is_done(&self, wanted: &Wanted) -> bool {
        self.has(wanted) && self.replaced.is_empty()
    }

    /// One line for the report.
    fn summary(&self) -> String {
        let version = self.package.as_ref().or(self.program.as_ref());
        let mut text = version.map_or_else(|| "no working binary".to_owned(), String::clone);
        if !self.replaced.is_empty() {
            let replaced: Vec<&str> = self.replaced.iter().map(String::as_str).collect();
            text += &format!(", a replaced binary still runs ({})", replaced.join(", "));
        }
        text += match (self.is_member, self.is_excluded) {
            (true, false) => ", serves pools",
            (true, true) => ", in maintenance",
            (false, true) => ", in maintenance, no member of the cluster",
            (false, false) => ", no member of the cluster",
        };
        text
    }
}

/// The state of a pool of the file that the cluster runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolState {
    /// The head that serves it.
    pub server: Option<HeadName>,
    /// Its home.
    pub home: Option<HeadName>,
    /// Why it is not as a pool should be before a head is stopped; none if it is.
    pub trouble: Option<String>,
}

/// The observed state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Each head, or why it was not observed.
    pub heads: BTreeMap<HeadName, Result<HeadState, String>>,
    /// The pools.
    pub pools: BTreeMap<PoolName, PoolState>,
    /// A head that was to be powered off, and is not confirmed to be off.
    pub power_off: Option<String>,
    /// Heads that were powered off during this run.
    pub fenced: BTreeSet<String>,
}

impl Observed {
    /// The state of each head, a line each.
    pub fn summary(&self) -> Vec<String> {
        let heads = self.heads.iter().map(|(head, state)| match state {
            Ok(state) => format!("{head}: {}", state.summary()),
            Err(why) => format!("{head}: not reached: {why}"),
        });
        heads.collect()
    }

    fn served_by(&self, head: &HeadName) -> usize {
        let pools = self.pools.values();
        pools
            .filter(|pool| pool.server.as_ref() == Some(head))
            .count()
    }
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Mark the head, move its pools, exclude it.
    Begin(HeadName),
    /// Stop the cluster and the services of the head.
    Stop(HeadName),
    /// Install the version.
    Install(HeadName),
    /// Start the services and the cluster of the head.
    Start(HeadName),
    /// Compare the head with the file, and the formats with those of the other heads.
    Verify(HeadName),
    /// Allow it to serve, and remove the mark.
    End(HeadName),
    /// Move a pool to its home.
    Home(PoolName, HeadName),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(head) => write!(f, "{head}: move its pools, begin maintenance"),
            Self::Stop(head) => write!(f, "{head}: stop the cluster and the services"),
            Self::Install(head) => write!(f, "{head}: install"),
            Self::Start(head) => write!(f, "{head}: start the services and the cluster"),
            Self::Verify(head) => write!(f, "{head}: verify"),
            Self::End(head) => write!(f, "{head}: end maintenance"),
            Self::Home(pool, head) => write!(f, "{pool}: move home to {head}"),
        }
    }
}

/// A state that follows by itself, within a bound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Awaited {
    /// The head is a member of the cluster.
    Member(HeadName),
    /// A head serves the pool.
    Served(PoolName),
    /// The pool is complete.
    Complete(PoolName),
}

/// Why an upgrade stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Surprise {
    /// A head was not observed.
    Unreachable(HeadName, String),
    /// A power-off is pending.
    PowerOff(String),
    /// A head was powered off.
    Fenced(String),
    /// Another upgrade is not completed.
    OtherUpgrade(HeadName, String),
    /// Two heads are marked.
    TwoMarked(HeadName, HeadName),
    /// The head has a newer version.
    Newer(HeadName, String),
    /// The head is in maintenance for another reason.
    Excluded(HeadName),
    /// The head is not a member of the cluster.
    NoMember(HeadName),
    /// A head that must be a member does not run all of its units.
    Units(HeadName, Vec<String>),
    /// Processes run although their units are stopped.
    StillRuns(HeadName, Vec<String>),
    /// The verification found errors.
    Findings(HeadName, Vec<String>),
    /// A step was performed, and the state requires it again.
    NoEffect(Action, String),
    /// An awaited state was not reached.
    NotReached(Awaited, u64, String),
    /// A step failed.
    Failed(Action, String),
}

impl fmt::Display for Surprise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(head, why) => write!(f, "{head} cannot be reached: {why}"),
            Self::PowerOff(text) => f.write_str(text),
            Self::Fenced(head) => write!(f, "{head} was powered off by the cluster"),
            Self::OtherUpgrade(head, version) => {
                write!(f, "the upgrade of {head} to {version} is not completed")
            }
            Self::TwoMarked(one, other) => write!(
                f,
                "{one} and {other} are both marked as being upgraded, which no run does"
            ),
            Self::Newer(head, version) => write!(f, "{head} has {version}, which is newer"),
            Self::Excluded(head) => write!(
                f,
                "{head} is in maintenance, and this command did not begin it; \
                 `bulkhead appliance maintenance {head} off` ends it"
            ),
            Self::NoMember(head) => write!(f, "{head} is no member of the cluster"),
            Self::Units(head, units) => {
                write!(f, "not active on {head}: {}", units.join(", "))
            }
            Self::StillRuns(head, processes) => write!(
                f,
                "{head} still runs processes of the replaced version: {}",
                processes.join(", ")
            ),
            Self::Findings(head, findings) => {
                write!(f, "the check of {head} found: {}", findings.join("; "))
            }
            Self::NoEffect(action, state) => {
                write!(f, "\"{action}\" succeeded without effect; {state}")
            }
            Self::NotReached(awaited, limit_s, why) => {
                match awaited {
                    Awaited::Member(head) => {
                        write!(
                            f,
                            "{head} did not become a member of the cluster within {limit_s} s"
                        )
                    }
                    Awaited::Served(pool) => {
                        write!(f, "no head serves pool {pool} after {limit_s} s")
                    }
                    Awaited::Complete(pool) => {
                        write!(f, "pool {pool} is not complete after {limit_s} s")
                    }
                }?;
                match why.is_empty() {
                    true => Ok(()),
                    false => write!(f, ": {why}"),
                }
            }
            Self::Failed(action, why) => write!(f, "\"{action}\" failed: {why}"),
        }
    }
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// All heads have the version, and all pools are at home.
    Done,
    /// Perform this step.
    Do(Action),
    /// Observe again.
    Await(Awaited, String),
    /// Stop.
    Stop(Surprise),
}

/// The state of all heads, if all were observed.
type Heads<'a> = BTreeMap<&'a HeadName, &'a HeadState>;

/// Returns the next step.
pub fn next(wanted: &Wanted, observed: &Observed) -> Next {
    if let Some(text) = &observed.power_off {
        return Next::Stop(Surprise::PowerOff(text.clone()));
    }
    if let Some(head) = observed.fenced.first() {
        return Next::Stop(Surprise::Fenced(head.clone()));
    }
    let mut heads = Heads::new();
    for (head, state) in &observed.heads {
        match state {
            Ok(state) => heads.insert(head, state),
            Err(why) => return Next::Stop(Surprise::Unreachable(head.clone(), why.clone())),
        };
    }
    if let Some(surprise) = contradiction(wanted, &heads) {
        return Next::Stop(surprise);
    }
    let marked = heads.iter().find(|(_, state)| state.mark.is_some());
    if let Some((head, state)) = marked {
        return continue_with(wanted, observed, &heads, (*head, *state));
    }
    let mut left: Vec<&HeadName> = heads
        .iter()
        .filter(|(_, state)| !state.is_done(wanted))
        .map(|(head, _)| *head)
        .collect();
    // The idle ones first: their upgrade moves no pool.
    left.sort_by_key(|head| observed.served_by(head));
    if let Some(blocked) = others_blocked(&heads, None).or_else(|| pools_blocked(observed)) {
        return blocked;
    }
    match left.first() {
        Some(head) => Next::Do(Action::Begin((*head).clone())),
        None => home(observed, &heads),
    }
}

/// The order in which the heads are upgraded.
pub fn order(wanted: &Wanted, observed: &Observed) -> Vec<HeadName> {
    let is_left = |state: &HeadState| state.mark.is_some() || !state.is_done(wanted);
    let heads = observed.heads.iter();
    let mut left: Vec<(&HeadName, &HeadState)> = heads
        .filter_map(|(head, state)| Some((head, state.as_ref().ok()?)))
        .filter(|(_, state)| is_left(state))
        .collect();
    left.sort_by_key(|(head, state)| (state.mark.is_none(), observed.served_by(head)));
    left.into_iter().map(|(head, _)| head.clone()).collect()
}

/// A mark or a version that contradicts the request.
fn contradiction(wanted: &Wanted, heads: &Heads<'_>) -> Option<Surprise> {
    let mut marked = heads.iter().filter(|(_, state)| state.mark.is_some());
    if let (Some((one, _)), Some((other, _))) = (marked.next(), marked.next()) {
        return Some(Surprise::TwoMarked((*one).clone(), (*other).clone()));
    }
    for (head, state) in heads {
        let mark = state.mark.as_deref();
        if let Some(mark) = mark.filter(|mark| *mark != wanted.mark() && !wanted.downgrade) {
            return Some(Surprise::OtherUpgrade((*head).clone(), mark.to_owned()));
        }
        let found = state.program.as_deref();
        let is_newer = |found: &&str| compare(found, &wanted.program) == Ordering::Greater;
        if let Some(found) = found.filter(is_newer).filter(|_| !wanted.downgrade) {
            return Some(Surprise::Newer((*head).clone(), found.to_owned()));
        }
    }
    None
}

/// A head, except `own`, that cannot serve now.
fn others_blocked(heads: &Heads<'_>, own: Option<&HeadName>) -> Option<Next> {
    for (head, state) in heads.iter().filter(|(head, _)| Some(**head) != own) {
        let head = (*head).clone();
        if state.is_excluded {
            return Some(Next::Stop(Surprise::Excluded(head)));
        }
        if !state.is_member {
            return Some(Next::Stop(Surprise::NoMember(head)));
        }
        if !state.stopped_units.is_empty() {
            let units = state.stopped_units.iter().cloned().collect();
            return Some(Next::Stop(Surprise::Units(head, units)));
        }
    }
    None
}

/// A pool that no head serves.
fn unserved(observed: &Observed) -> Option<Next> {
    let mut pools = observed.pools.iter();
    let (pool, _) = pools.find(|(_, pool)| pool.server.is_none())?;
    Some(Next::Await(Awaited::Served(pool.clone()), String::new()))
}

/// A pool that is not served, or not complete.
fn pools_blocked(observed: &Observed) -> Option<Next> {
    if let Some(awaited) = unserved(observed) {
        return Some(awaited);
    }
    let pools = observed.pools.iter();
    let mut incomplete = pools.filter_map(|(pool, state)| Some((pool, state.trouble.clone()?)));
    let (pool, trouble) = incomplete.next()?;
    Some(Next::Await(Awaited::Complete(pool.clone()), trouble))
}

/// The next step of a head that is being upgraded.
fn continue_with(
    wanted: &Wanted,
    observed: &Observed,
    heads: &Heads<'_>,
    (head, state): (&HeadName, &HeadState),
) -> Next {
    if let Some(blocked) = others_blocked(heads, Some(head)) {
        return blocked;
    }
    let own = || head.clone();
    if !state.is_done(wanted) {
        return replace(wanted, observed, (head, state));
    }
    if !state.stopped_units.is_empty() {
        return Next::Do(Action::Start(own()));
    }
    if !state.is_member {
        return Next::Await(Awaited::Member(own()), String::new());
    }
    match &state.findings {
        None => return Next::Do(Action::Verify(own())),
        Some(findings) if !findings.is_empty() => {
            return Next::Stop(Surprise::Findings(own(), findings.clone()));
        }
        Some(_) => {}
    }
    pools_blocked(observed).unwrap_or_else(|| Next::Do(Action::End(own())))
}

/// The next step of a head without the version, or with processes of other versions.
fn replace(wanted: &Wanted, observed: &Observed, (head, state): (&HeadName, &HeadState)) -> Next {
    let own = head.clone();
    if !state.is_excluded || !state.resources.is_empty() {
        return Next::Do(Action::Begin(own));
    }
    if let Some(awaited) = unserved(observed) {
        return awaited;
    }
    if !state.active_units.is_empty() {
        return Next::Do(Action::Stop(own));
    }
    if !state.has(wanted) {
        return Next::Do(Action::Install(own));
    }
    let processes = state.replaced.iter().cloned().collect();
    Next::Stop(Surprise::StillRuns(own, processes))
}

/// Moves a pool to its home.
fn home(observed: &Observed, heads: &Heads<'_>) -> Next {
    for (pool, state) in &observed.pools {
        let Some(home) = state.home.as_ref().filter(|home| heads.contains_key(home)) else {
            continue;
        };
        if state.server.as_ref() != Some(home) {
            return Next::Do(Action::Home(pool.clone(), home.clone()));
        }
    }
    Next::Done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(name: &str) -> HeadName {
        name.parse().expect("a name")
    }

    fn pool() -> PoolName {
        "tank".parse().expect("a name")
    }

    fn set(words: &[&str]) -> BTreeSet<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn wanted() -> Wanted {
        Wanted {
            program: "0.2.0".to_owned(),
            package: None,
            downgrade: false,
        }
    }

    fn serving(version: &str) -> HeadState {
        HeadState {
            program: Some(version.to_owned()),
            active_units: set(&["pacemaker.service"]),
            is_member: true,
            ..HeadState::default()
        }
    }

    /// `left` serves `tank`, its home.
    fn world(left: HeadState, right: HeadState) -> Observed {
        let tank = PoolState {
            server: Some(head("left")),
            home: Some(head("left")),
            trouble: None,
        };
        Observed {
            heads: [(head("left"), Ok(left)), (head("right"), Ok(right))].into(),
            pools: [(pool(), tank)].into(),
            ..Observed::default()
        }
    }

    /// A change of the state of `right` after the start of its upgrade.
    type Change = fn(&mut HeadState);

    /// Each state of a head after the start of its upgrade, and its only next step.
    #[test]
    fn begun_upgrade_has_one_next_step_in_each_state() {
        let cases: &[(&str, Change, Next)] = &[
            (
                "marked only",
                |_| {},
                Next::Do(Action::Begin(head("right"))),
            ),
            (
                "a pool still stops there",
                |state| {
                    state.is_excluded = true;
                    state.resources = set(&["pool-tank"]);
                },
                Next::Do(Action::Begin(head("right"))),
            ),
            (
                "excluded",
                |state| state.is_excluded = true,
                Next::Do(Action::Stop(head("right"))),
            ),
            (
                "stopped in part",
                |state| {
                    state.is_excluded = true;
                    state.is_member = false;
                    state.active_units = set(&["bulkhead-head.service"]);
                    state.stopped_units = set(&["pacemaker.service"]);
                },
                Next::Do(Action::Stop(head("right"))),
            ),
            (
                "stopped",
                |state| {
                    state.is_excluded = true;
                    state.is_member = false;
                    state.active_units.clear();
                    state.stopped_units = set(&["pacemaker.service"]);
                },
                Next::Do(Action::Install(head("right"))),
            ),
            (
                "no binary after a failed install",
                |state| {
                    state.is_excluded = true;
                    state.is_member = false;
                    state.active_units.clear();
                    state.stopped_units = set(&["pacemaker.service"]);
                    state.program = None;
                },
                Next::Do(Action::Install(head("right"))),
            ),
            (
                "a process survived the stop",
                |state| {
                    state.is_excluded = true;
                    state.is_member = false;
                    state.active_units.clear();
                    state.program = Some("0.2.0".to_owned());
                    state.replaced = set(&["pool-server"]);
                },
                Next::Stop(Surprise::StillRuns(
                    head("right"),
                    vec!["pool-server".to_owned()],
                )),
            ),
            (
                "installed",
                |state| {
                    state.is_excluded = true;
                    state.is_member = false;
                    state.active_units.clear();
                    state.stopped_units = set(&["pacemaker.service"]);
                    state.program = Some("0.2.0".to_owned());
                },
                Next::Do(Action::Start(head("right"))),
            ),
            (
                "started",
                |state| {
                    state.is_excluded = true;
                    state.is_member = false;
                    state.program = Some("0.2.0".to_owned());
                },
                Next::Await(Awaited::Member(head("right")), String::new()),
            ),
            (
                "a member again",
                |state| {
                    state.is_excluded = true;
                    state.program = Some("0.2.0".to_owned());
                },
                Next::Do(Action::Verify(head("right"))),
            ),
            (
                "errors",
                |state| {
                    state.is_excluded = true;
                    state.program = Some("0.2.0".to_owned());
                    state.findings = Some(vec!["a disk is missing".to_owned()]);
                },
                Next::Stop(Surprise::Findings(
                    head("right"),
                    vec!["a disk is missing".to_owned()],
                )),
            ),
            (
                "verified",
                |state| {
                    state.is_excluded = true;
                    state.program = Some("0.2.0".to_owned());
                    state.findings = Some(Vec::new());
                },
                Next::Do(Action::End(head("right"))),
            ),
            (
                "no longer excluded",
                |state| {
                    state.program = Some("0.2.0".to_owned());
                    state.findings = Some(Vec::new());
                },
                Next::Do(Action::End(head("right"))),
            ),
        ];
        for (name, change, expected) in cases {
            let mut right = HeadState {
                mark: Some("0.2.0".to_owned()),
                ..serving("0.1.0")
            };
            change(&mut right);
            let found = next(&wanted(), &world(serving("0.1.0"), right));
            assert_eq!(found, *expected, "{name}");
        }
    }

    #[test]
    fn idle_head_is_first_and_serving_head_last() {
        let both_old = world(serving("0.1.0"), serving("0.1.0"));
        assert_eq!(
            next(&wanted(), &both_old),
            Next::Do(Action::Begin(head("right")))
        );
        assert_eq!(order(&wanted(), &both_old), [head("right"), head("left")]);
        let one_old = world(serving("0.1.0"), serving("0.2.0"));
        assert_eq!(
            next(&wanted(), &one_old),
            Next::Do(Action::Begin(head("left")))
        );
        let mut away = world(serving("0.2.0"), serving("0.2.0"));
        away.pools.get_mut(&pool()).expect("a pool").server = Some(head("right"));
        assert_eq!(
            next(&wanted(), &away),
            Next::Do(Action::Home(pool(), head("left")))
        );
        let done = world(serving("0.2.0"), serving("0.2.0"));
        assert_eq!(next(&wanted(), &done), Next::Done);
    }

    /// A package that was installed by hand is not in use before its processes are restarted.
    #[test]
    fn installed_version_that_does_not_run_is_upgraded() {
        let right = HeadState {
            replaced: set(&["head"]),
            ..serving("0.2.0")
        };
        let found = next(&wanted(), &world(serving("0.2.0"), right));
        assert_eq!(found, Next::Do(Action::Begin(head("right"))));
        let packaged = Wanted {
            package: Some("0.2.0~deb12".to_owned()),
            ..wanted()
        };
        let found = next(&packaged, &world(serving("0.2.0"), serving("0.2.0")));
        assert_eq!(
            found,
            Next::Do(Action::Begin(head("right"))),
            "no package is installed"
        );
    }

    #[test]
    fn first_surprise_stops_before_any_step() {
        let right = |observed: &mut Observed, change: fn(&mut HeadState)| {
            let state = observed.heads.get_mut(&head("right")).expect("a head");
            change(state.as_mut().expect("observed"));
        };
        type Change = Box<dyn Fn(&mut Observed)>;
        let cases: Vec<(&str, Change)> = vec![
            (
                "right cannot be reached: no route",
                Box::new(|observed| {
                    observed
                        .heads
                        .insert(head("right"), Err("no route".to_owned()));
                }),
            ),
            (
                "the power-off of right is pending",
                Box::new(|observed| {
                    observed.power_off = Some("the power-off of right is pending".to_owned());
                }),
            ),
            (
                "right was powered off by the cluster",
                Box::new(|observed| observed.fenced = set(&["right"])),
            ),
            (
                "right is in maintenance, and this command did not begin it",
                Box::new(move |observed| right(observed, |state| state.is_excluded = true)),
            ),
            (
                "right is no member of the cluster",
                Box::new(move |observed| right(observed, |state| state.is_member = false)),
            ),
            (
                "not active on right: bulkhead-head.service",
                Box::new(move |observed| {
                    right(observed, |state| {
                        state.stopped_units = set(&["bulkhead-head.service"]);
                    });
                }),
            ),
            (
                "the upgrade of right to 0.3.0 is not completed",
                Box::new(move |observed| {
                    right(observed, |state| state.mark = Some("0.3.0".to_owned()));
                }),
            ),
            (
                "right has 0.3.0, which is newer",
                Box::new(move |observed| {
                    right(observed, |state| state.program = Some("0.3.0".to_owned()));
                }),
            ),
        ];
        for (sentence, change) in &cases {
            for begun in [false, true] {
                let mut observed = world(serving("0.1.0"), serving("0.1.0"));
                if begun {
                    let left = observed.heads.get_mut(&head("left")).expect("a head");
                    let left = left.as_mut().expect("observed");
                    (left.mark, left.is_excluded) = (Some("0.2.0".to_owned()), true);
                }
                change(&mut observed);
                let Next::Stop(found) = next(&wanted(), &observed) else {
                    panic!("{sentence}: {:?}", next(&wanted(), &observed));
                };
                // A second mark is refused before its version is compared.
                let is_two = matches!(found, Surprise::TwoMarked(..));
                assert!(
                    found.to_string().contains(sentence) || is_two,
                    "{sentence}: {found}"
                );
            }
        }
    }

    #[test]
    fn incomplete_pool_delays_the_next_head_and_the_end_of_maintenance() {
        let mut observed = world(serving("0.1.0"), serving("0.1.0"));
        let tank = observed.pools.get_mut(&pool()).expect("a pool");
        tank.trouble = Some("a leg is copying".to_owned());
        let awaited = Next::Await(Awaited::Complete(pool()), "a leg is copying".to_owned());
        assert_eq!(next(&wanted(), &observed), awaited);
        let verified = HeadState {
            mark: Some("0.2.0".to_owned()),
            is_excluded: true,
            findings: Some(Vec::new()),
            ..serving("0.2.0")
        };
        observed.heads.insert(head("right"), Ok(verified));
        assert_eq!(next(&wanted(), &observed), awaited);
        let tank = observed.pools.get_mut(&pool()).expect("a pool");
        (tank.server, tank.trouble) = (None, None);
        let served = Next::Await(Awaited::Served(pool()), String::new());
        assert_eq!(next(&wanted(), &observed), served);
    }

    /// After a failed upgrade of `right`, the older version returns: first to the marked head.
    #[test]
    fn downgrade_continues_from_an_upgrade_that_stopped() {
        let back = Wanted {
            program: "0.1.0".to_owned(),
            package: None,
            downgrade: true,
        };
        let right = HeadState {
            mark: Some("0.2.0".to_owned()),
            is_excluded: true,
            is_member: false,
            active_units: BTreeSet::new(),
            ..serving("0.2.0")
        };
        let observed = world(serving("0.1.0"), right);
        assert_eq!(
            next(&back, &observed),
            Next::Do(Action::Install(head("right")))
        );
        assert_eq!(order(&back, &observed), [head("right")]);
    }
}
