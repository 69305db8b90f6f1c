//! Removes one rule at a time. The explorer must find the violation that the rule prevents.

use super::runs::{longer, report};
use super::search::{Violation, explore, shorten, walk};
use super::world::{Fault, Kind, Setup, Start};
use crate::rules::{Rule, without};

/// States of each exhaustive search for a mutation.
const STATES_MAX: usize = 16_000;
/// Random walks, if the search found nothing.
const WALKS_MAX: u64 = 20_000;
/// Random walks with all rules.
const WALKS_WITH_MAX: u64 = 40;
const WALK_STEPS_MAX: usize = 250;

use Fault::{
    Attach, Crash, Cut, DiskFails, ForeignImport, Forget, Freeze, Hurry, LenderRestart, LinkLost,
    Lose, Members, OlderImage, ReadFails, ServerCrash,
};

/// A rule, and the searches for its violation.
struct Mutation {
    rule: Rule,
    kind: Kind,
    start: Start,
    faults: &'static [Fault],
    /// Faults, opens, writes.
    bounds: (u8, u8, u8),
}

const fn mutation(
    rule: Rule,
    kind: Kind,
    start: Start,
    faults: &'static [Fault],
    bounds: (u8, u8, u8),
) -> Mutation {
    Mutation {
        rule,
        kind,
        start,
        faults,
        bounds,
    }
}

use Kind::{
    Joining, Leaving, Left, Mixed, Raidz2, Third, ThirdForWitness, TwoHeads, Unlike, Wide,
    WideTwoHeads, Witness,
};
use Start::{
    Aged, Ahead, Alone, Apart, Degraded, Forgotten, Frozen, Grouped, Grown, Held, Late, New,
    OnOtherHead, Parting, Proposed, Relapsed, Requested, Served, Torn, Unresponsive, Usurped,
};

#[rustfmt::skip]
const MUTATIONS: &[Mutation] = &[
    mutation(Rule::PromisesOfAQuorum, Witness, Alone, &[Crash, Cut], (2, 1, 1)),
    mutation(Rule::CommitByAQuorum, Witness, Served, &[DiskFails, Cut], (2, 0, 2)),
    mutation(Rule::NewestRecordOfTheQuorum, Witness, Alone, &[Crash], (1, 1, 1)),
    mutation(Rule::MembersRefuseOlderEpochs, Witness, Usurped, &[DiskFails, Hurry], (2, 0, 2)),
    mutation(Rule::OneCandidateForEachEpoch, Witness, New, &[Cut], (1, 2, 0)),
    mutation(Rule::MembersWriteBeforeResponse, TwoHeads, Served, &[DiskFails, Crash, Hurry], (3, 1, 2)),
    mutation(Rule::LendersRefuseOlderEpochs, Witness, Usurped, &[LinkLost], (1, 0, 2)),
    mutation(Rule::LendersDrain, Witness, Served, &[ServerCrash], (1, 1, 2)),
    mutation(Rule::LendersAdmitOneSession, Witness, Served, &[LinkLost], (1, 0, 2)),
    mutation(Rule::SameIncarnation, Witness, Served, &[LinkLost, LenderRestart], (2, 0, 1)),
    mutation(Rule::ErrorsAreWithheld, Witness, Served, &[DiskFails], (1, 0, 2)),
    mutation(Rule::ReadErrorsFailNoLeg, Witness, Degraded, &[ReadFails], (1, 0, 2)),
    mutation(Rule::StaleLegsStayFailed, Witness, Degraded, &[DiskFails], (1, 0, 3)),
    mutation(Rule::FailedLegsStayOut, Witness, Degraded, &[DiskFails], (1, 0, 2)),
    mutation(Rule::LastLegsStay, Witness, Served, &[DiskFails, Hurry], (2, 0, 2)),
    mutation(Rule::SinceOutlivesTheResilver, Witness, Relapsed, &[], (0, 0, 3)),
    mutation(Rule::ReturnIsComplete, Witness, Degraded, &[], (0, 0, 2)),
    mutation(Rule::GrowthBindsFromItsProposal, Witness, Proposed, &[DiskFails], (1, 0, 3)),
    mutation(Rule::ResilversAreOnRecord, Witness, Degraded, &[Crash, Hurry, DiskFails], (2, 1, 5)),
    mutation(Rule::ForeignHistoryIsDivergent, Witness, Degraded, &[Crash, ForeignImport], (2, 0, 2)),
    mutation(Rule::OlderImagesAreCopied, Witness, Aged, &[Crash, OlderImage], (2, 0, 3)),
    mutation(Rule::ReturnPassesItsRoots, Witness, Ahead, &[], (0, 0, 2)),
    mutation(Rule::OnlyCurrentLegs, Witness, Degraded, &[Crash], (2, 2, 2)),
    mutation(Rule::CommitBeforeImport, Witness, New, &[Hurry, Cut, Crash], (2, 2, 1)),
    mutation(Rule::ProofOfTheStop, Witness, Served, &[Cut], (1, 1, 1)),
    mutation(Rule::ProofForOneTerm, Witness, OnOtherHead, &[Cut, Hurry, Lose], (2, 2, 1)),
    mutation(Rule::OwnersPromiseNothing, Witness, Served, &[], (0, 1, 1)),
    mutation(Rule::LostMembersDoNotVote, Witness, Alone, &[Forget, Crash], (2, 1, 1)),
    mutation(Rule::WelcomeAfterTheCommit, Witness, Unresponsive, &[ServerCrash], (1, 1, 2)),
    mutation(Rule::PromisesOfThisLife, Witness, Forgotten, &[Cut, Hurry], (2, 0, 1)),
    mutation(Rule::HeadsOpenAsMembers, Third, New, &[], (0, 1, 0)),
    mutation(Rule::MembersOfTheRecord, Unlike, Apart, &[], (0, 1, 1)),
    mutation(Rule::ChangesNeedBothHeads, Joining, Degraded, &[Members, Cut], (2, 0, 2)),
    mutation(Rule::ChangesNeedBothHeads, Third, Degraded, &[Members, Cut], (2, 0, 2)),
    mutation(Rule::ChangesNeedBothHeads, ThirdForWitness, Degraded, &[Members, Cut], (2, 0, 2)),
    mutation(Rule::WelcomeAfterTheCommit, Third, Served, &[Members, Cut], (2, 0, 1)),
    mutation(Rule::WelcomeAfterTheCommit, ThirdForWitness, Served, &[Members, Cut], (2, 0, 1)),
    mutation(Rule::JoiningStartsNewLife, Left, Served, &[Members, Cut], (2, 1, 2)),
    mutation(Rule::LivesAreUsedOnce, Joining, Held, &[Members], (1, 0, 0)),
    mutation(Rule::WitnessLeavesInTwoSteps, Leaving, Served, &[Members], (1, 0, 1)),
    mutation(Rule::LeavingIsAgreed, Leaving, Parting, &[Crash], (1, 1, 1)),
    mutation(Rule::FenceExpiresOnContact, TwoHeads, Served, &[DiskFails, Hurry, Cut, Crash], (4, 1, 2)),
    mutation(Rule::UnsureAfterBoot, TwoHeads, Alone, &[Crash], (1, 1, 1)),
    mutation(Rule::ResponsesOfThisBoot, TwoHeads, Requested, &[Cut, Crash], (2, 1, 1)),
    mutation(Rule::FreezesAreNoticed, TwoHeads, Frozen, &[Crash], (1, 1, 2)),
    mutation(Rule::SoleIsCommitted, TwoHeads, Torn, &[Crash, Cut], (1, 2, 2)),
    mutation(Rule::SoleCountsProposals, TwoHeads, Proposed, &[DiskFails], (1, 1, 4)),
    mutation(Rule::NoFenceAgainstTheSole, TwoHeads, OnOtherHead, &[Cut, Crash], (2, 2, 2)),
    mutation(Rule::GrowthBeginsAtTheSole, TwoHeads, Grown, &[Crash, Cut], (2, 2, 4)),
    mutation(Rule::GroupsJoinWhole, Mixed, Grouped, &[Attach], (3, 0, 2)),
    mutation(Rule::OnlyCurrentLegs, Wide, Degraded, &[Crash], (2, 2, 2)),
    mutation(Rule::OnlyCurrentLegs, Raidz2, Degraded, &[Crash], (2, 2, 2)),
    mutation(Rule::ErrorsAreWithheld, Wide, Served, &[DiskFails], (1, 0, 2)),
    mutation(Rule::ErrorsAreWithheld, Raidz2, Served, &[DiskFails], (1, 0, 2)),
    mutation(Rule::LastLegsStay, Wide, Alone, &[DiskFails, Hurry], (2, 0, 2)),
    mutation(Rule::LastLegsStay, Raidz2, Alone, &[DiskFails], (2, 0, 2)),
    mutation(Rule::LastLegsStay, Mixed, Alone, &[DiskFails], (2, 0, 2)),
    mutation(Rule::FailedLegsStayOut, Raidz2, Degraded, &[DiskFails], (1, 0, 2)),
    mutation(Rule::NewestRecordOfTheQuorum, Wide, Alone, &[Crash], (1, 1, 1)),
    mutation(Rule::UnsureAfterBoot, WideTwoHeads, Alone, &[Crash], (1, 1, 1)),
];

/// Rules that other rules make redundant for the invariants: each only avoids an interruption of clients.
#[rustfmt::skip]
const SPARES: &[Mutation] = &[
    // An owner that resumes after it was considered off would end. The harm is limited: it can no longer write to the
    // legs of other heads.
    mutation(Rule::OwnersAcceptNothing, TwoHeads, Served, &[Freeze, Hurry], (2, 1, 2)),
    // A leg with more data missing than on record does not have the root of the group before: it is copied in full.
    mutation(Rule::SinceTheFirstUnconfirmed, Witness, Served, &[DiskFails], (1, 0, 2)),
    // The late end of an earlier return names a group that is on the leg by now, and the pool must pass that group
    // first.
    mutation(Rule::ReturnsNameTheirSession, Witness, Late, &[], (0, 0, 2)),
    // A member that a record names in an earlier life has no vote until an administrator confirms it.
    mutation(Rule::LivesAreAnnouncedAgain, Left, Served, &[Members, Lose], (3, 0, 1)),
    // A head that is alone with a change depends on the other one.
    mutation(Rule::ChangesBeginElsewhere, Joining, Degraded, &[Members, Cut], (2, 1, 1)),
    // A claim of an old term would end the session of the owner. The harm is limited: members refuse its record, and
    // another incarnation of the lender resumes no session.
    mutation(Rule::LendersStoreEpoch, Witness, Usurped, &[LinkLost, LenderRestart], (2, 0, 2)),
];

fn setup(mutation: &Mutation) -> Setup {
    let (faults, opens, writes) = mutation.bounds;
    Setup::new(mutation.kind, faults, opens, writes)
        .with(mutation.faults)
        .from(mutation.start)
}

fn find(mutation: &Mutation, walks_max: u64) -> Option<(String, Violation)> {
    let setup = setup(mutation);
    let found = explore(&setup, STATES_MAX);
    if let Some(violation) = found.violation {
        return Some((format!("{} states", found.states), violation));
    }
    (0..walks_max).find_map(|seed| {
        let violation = walk(&setup, seed, WALK_STEPS_MAX).violation?;
        Some((format!("seed {seed}"), shorten(&setup, violation)))
    })
}

/// The same searches as below, with the rule.
#[test]
fn all_rules_enabled_finds_no_violation() {
    for mutation in MUTATIONS.iter().chain(SPARES) {
        if let Some((by, violation)) = find(mutation, longer(WALKS_WITH_MAX)) {
            let text = violation.text(&setup(mutation));
            panic!("{:?}, {by}: {text}", mutation.rule);
        }
    }
}

/// Each violation is the shortest one after an exhaustive search, and otherwise one from which no step can be removed.
#[test]
fn disabling_any_one_rule_finds_a_violation() {
    let mut missed = Vec::new();
    for mutation in MUTATIONS {
        match without(mutation.rule, || find(mutation, WALKS_MAX)) {
            Some((by, violation)) => report(&format!(
                "without {:?}: {}, {by}, {} steps",
                mutation.rule,
                violation.name,
                violation.trace.len()
            )),
            None => missed.push(mutation.rule),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn rules_that_only_avoid_disruption_are_listed() {
    for mutation in SPARES {
        let found = without(mutation.rule, || find(mutation, WALKS_WITH_MAX));
        assert!(found.is_none(), "{:?} is needed: {found:?}", mutation.rule);
    }
}
