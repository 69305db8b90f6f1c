//! A witness or a third head is added to two heads that serve a pool, or a witness is removed: the outcome, and that no
//! data is lost in between.

use super::cases::{begin_with, is_open, opens, write};
use super::runs::{inspect, longer, pass, report};
use super::search::{last_notice, walk};
use super::steps::Step;
use super::world::{
    Fault, Kind, Payload, Sent, Setup, Start, WITNESS, World, disk_id, member_id, three_heads,
    two_heads, with_witness,
};
use crate::rules::{Rule, without};
use crate::{Membership, Notice, Refusal, Response};
use std::collections::BTreeSet;

const KINDS: [Kind; 6] = [
    Kind::Joining,
    Kind::Leaving,
    Kind::Unlike,
    Kind::Left,
    Kind::Third,
    Kind::ThirdForWitness,
];

/// Kinds in which a third head is added.
const WIDER: [Kind; 2] = [Kind::Third, Kind::ThirdForWitness];

/// Kinds with the same configuration on both heads.
const UNNAMED: [Kind; 2] = [Kind::Joining, Kind::Leaving];

const FAULTS: [Fault; 14] = [
    Fault::Members,
    Fault::Attach,
    Fault::Crash,
    Fault::ServerCrash,
    Fault::LenderRestart,
    Fault::Cut,
    Fault::Lose,
    Fault::Duplicate,
    Fault::DiskFails,
    Fault::LinkLost,
    Fault::FenceFails,
    Fault::PowerLoss,
    Fault::Hurry,
    Fault::Close,
];

const ADD: Step = Step::Members {
    head: 0,
    is_wider: true,
};
const REMOVE: Step = Step::Members {
    head: 0,
    is_wider: false,
};

fn begin(kind: Kind, start: Start) -> (Setup, World) {
    begin_with(kind, start, &[Fault::Cut, Fault::Members])
}

fn accepted(world: &World, member: u8) -> Option<Membership> {
    world.memory(member)?.accepted.as_ref()?.members.clone()
}

#[test]
fn added_witness_votes_on_head_loss_without_fence() {
    for kind in [Kind::Joining, Kind::Left] {
        let (setup, mut world) = begin(kind, Start::Served);
        world.then(&setup, ADD);
        for member in [0, 1, WITNESS] {
            assert_eq!(accepted(&world, member), Some(with_witness()), "{kind:?}");
        }
        world.take(&setup, Step::DiskFails(1));
        world.toggle_cut(0, 1);
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        assert!(world.heads[1].is_up);
        // And the head that was cut off does not open its leg.
        world.then(&setup, Step::Open(1));
        assert!(!is_open(&world, 1));
        assert_eq!(world.violation, None);
    }
}

#[test]
fn head_takes_over_with_vote_of_added_witness() {
    let (setup, mut world) = begin(Kind::Joining, Start::Served);
    world.then(&setup, ADD);
    assert!(write(&setup, &mut world, 0));
    world.take(&setup, Step::PowerLoss);
    world.take(&setup, Step::Boot(1));
    opens(&setup, &mut world, 1);
    assert!(write(&setup, &mut world, 1));
}

#[test]
fn removed_witness_has_no_vote_and_fence_decides() {
    for kind in [Kind::Leaving, Kind::Unlike] {
        let (setup, mut world) = begin(kind, Start::Served);
        world.then(&setup, REMOVE);
        for head in [0, 1] {
            assert_eq!(accepted(&world, head), Some(two_heads()), "{kind:?}");
        }
        world.toggle_cut(0, WITNESS);
        world.toggle_cut(0, 1);
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        assert!(!world.heads[1].is_up, "it was fenced");
        assert_eq!(world.heads[0].boots, 1, "{kind:?}");
    }
}

/// It gets a leg, and serves the pool when both other heads are lost in turn.
#[test]
fn added_third_head_votes_gets_leg_and_takes_over() {
    for kind in WIDER {
        let (setup, mut world) = begin(kind, Start::Served);
        world.then(&setup, ADD);
        for member in [0, 1, 2] {
            assert_eq!(accepted(&world, member), Some(three_heads()), "{kind:?}");
        }
        world.then(&setup, Step::Attach { head: 0, disk: 2 });
        world.then(&setup, Step::LegReturned { head: 0, disk: 2 });
        assert_eq!(world.committed.current.len(), 3, "{kind:?}");
        // Head 1 is lost, and no head is fenced.
        world.take(&setup, Step::Crash(1));
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        assert!(!world.committed.current.contains_key(&disk_id(1)));
        // The lost heads are back, and the owner is lost.
        world.then(&setup, Step::Boot(1));
        world.then(&setup, Step::LegReturned { head: 0, disk: 1 });
        assert_eq!(world.committed.current.len(), 3, "{kind:?}");
        world.take(&setup, Step::Crash(0));
        opens(&setup, &mut world, 2);
        assert!(write(&setup, &mut world, 2), "{kind:?}");
        assert_eq!(world.violation, None, "{kind:?}");
    }
}

/// By its configuration it is one of three.
#[test]
fn head_not_yet_added_does_not_open_the_pool() {
    for kind in WIDER {
        let (setup, mut world) = begin(kind, Start::New);
        world.then(&setup, Step::Open(2));
        assert!(!is_open(&world, 2), "{kind:?}");
        assert_eq!(
            last_notice(),
            Some(Notice::Refused(Refusal::NoMember)),
            "{kind:?}"
        );
        opens(&setup, &mut world, 0);
    }
}

/// The other head cannot be reached. No head counts the vote of the third head before it can.
#[test]
fn third_head_recorded_by_one_head_has_no_vote() {
    for kind in WIDER {
        let (setup, mut world) = begin(kind, Start::Served);
        let before = accepted(&world, 0);
        world.toggle_cut(0, 1);
        world.then(&setup, ADD);
        assert_eq!(accepted(&world, 0), before, "{kind:?}");
        let reported = world.memory(2).expect("a head");
        assert!(reported.is_lost(), "{kind:?}: {reported:?}");
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        world.toggle_cut(0, 1);
        if !world.heads[1].is_up {
            world.then(&setup, Step::Boot(1));
        }
        world.then(&setup, ADD);
        assert_eq!(accepted(&world, 2), Some(three_heads()), "{kind:?}");
        assert_eq!(world.violation, None, "{kind:?}");
    }
}

/// Also with a new life, because its earlier state is obsolete.
#[test]
fn witness_can_be_added_again_after_removal() {
    let (setup, mut world) = begin(Kind::Joining, Start::Served);
    for _ in 0..2 {
        world.then(&setup, ADD);
        assert_eq!(accepted(&world, WITNESS), Some(with_witness()));
        assert!(write(&setup, &mut world, 0));
        world.then(&setup, REMOVE);
        assert_eq!(accepted(&world, 1), Some(two_heads()));
        assert!(write(&setup, &mut world, 0));
    }
    assert_eq!(world.violation, None);
}

/// The other head cannot be reached: the change does not block, and a repeated request succeeds later.
#[test]
fn change_not_accepted_by_peer_is_reverted() {
    for (kind, step) in [(Kind::Joining, ADD), (Kind::Leaving, REMOVE)] {
        let (setup, mut world) = begin(kind, Start::Degraded);
        let before = accepted(&world, 0);
        world.toggle_cut(0, 1);
        world.then(&setup, step);
        assert_eq!(accepted(&world, 0), before, "{kind:?}");
        assert_eq!(last_notice(), Some(Notice::MembersStay), "{kind:?}");
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        world.toggle_cut(0, 1);
        if !world.heads[1].is_up {
            world.then(&setup, Step::Boot(1));
        }
        world.then(&setup, step);
        assert_ne!(accepted(&world, 1), before, "{kind:?}");
        assert_eq!(accepted(&world, 0), accepted(&world, 1), "{kind:?}");
    }
}

/// The request for a witness was withdrawn. A record that the other head has accepted is not undone by that.
#[test]
fn withdrawn_change_is_not_started_or_completes() {
    let mut ends = BTreeSet::new();
    for count in 0.. {
        let (setup, mut world) = begin(Kind::Joining, Start::Served);
        let before = accepted(&world, 0);
        world.take(&setup, ADD);
        let is_over = !world.settle_for(&setup, count);
        let is_begun = accepted(&world, 1) != before;
        world.then(&setup, Step::MembersStay(0));
        let after = accepted(&world, 0);
        assert_eq!(accepted(&world, 1), after, "{count} steps");
        assert!(after == before || after == Some(with_witness()));
        assert!(!is_begun || after != before, "{count} steps");
        assert!(write(&setup, &mut world, 0), "{count} steps");
        ends.insert(after == before);
        if is_over {
            break;
        }
    }
    assert_eq!(ends.len(), 2, "it came too late, and in time");
}

/// A leg fails while the other head does not respond: its exclusion is independent of the change.
#[test]
fn leg_failing_during_change_is_excluded_independently() {
    for (kind, step) in [
        (Kind::Joining, ADD),
        (Kind::Leaving, REMOVE),
        (Kind::Third, ADD),
        (Kind::ThirdForWitness, ADD),
    ] {
        let (setup, mut world) = begin(kind, Start::Served);
        let before = accepted(&world, 0);
        world.take(&setup, step);
        settle_without(&setup, &mut world, 1);
        world.toggle_cut(0, 1);
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        assert_eq!(accepted(&world, 0), before, "{kind:?}");
        assert_eq!(world.committed.current.len(), 1, "{kind:?}");
    }
}

/// The owner is killed at each step of a change. The change is either made or not, and can be repeated.
#[test]
fn owner_crash_at_any_step_of_change_is_recoverable() {
    for (kind, step, wanted) in [
        (Kind::Joining, ADD, with_witness()),
        (Kind::Leaving, REMOVE, two_heads()),
        (Kind::Third, ADD, three_heads()),
        (Kind::ThirdForWitness, ADD, three_heads()),
    ] {
        let mut count = 0;
        loop {
            let (setup, mut world) = begin(kind, Start::Served);
            world.then(&setup, Step::Listen(1));
            world.take(&setup, step);
            let is_over = !world.settle_for(&setup, count);
            world.take(&setup, Step::Crash(0));
            world.take(&setup, Step::Boot(0));
            opens(&setup, &mut world, 0);
            world.then(&setup, step);
            world.then(&setup, Step::Look(0));
            for head in [0, 1] {
                let found = accepted(&world, head);
                assert_eq!(found.as_ref(), Some(&wanted), "{kind:?}, {count} steps");
            }
            assert!(write(&setup, &mut world, 0), "{kind:?}, {count} steps");
            count += 1;
            if is_over {
                break;
            }
        }
        assert!(count > 5, "{count}");
        report(&format!("{kind:?}: the owner died at {count} steps"));
    }
}

/// Performs the steps without a fault, except a deadline and those that deliver a message to this member.
fn settle_without(setup: &Setup, world: &mut World, member: u8) {
    world.settle_by(setup, |world, step| match step {
        Step::Deliver(key) => world.sent(*key).is_some_and(|sent| sent.to != member),
        _ => !matches!(step, Step::Deadline(_)),
    });
}

/// The head that continues with an unfinished change needs the other one.
#[test]
fn addition_recorded_by_one_head_needs_the_other() {
    let (setup, mut world) = begin(Kind::Joining, Start::Served);
    world.then(&setup, Step::Listen(1));
    world.take(&setup, ADD);
    world.settle_by(&setup, |world, _| accepted(world, 1) == Some(two_heads()));
    assert_eq!(accepted(&world, 1), Some(with_witness()));
    assert_eq!(
        accepted(&world, 0),
        Some(two_heads()),
        "its request is the last one"
    );
    world.take(&setup, Step::PowerLoss);
    world.take(&setup, Step::Boot(1));
    world.then(&setup, Step::Open(1));
    let refusal = Refusal::NoQuorum {
        received: [member_id(1)].into(),
    };
    assert_eq!(last_notice(), Some(Notice::Refused(refusal)));
    world.take(&setup, Step::Boot(0));
    opens(&setup, &mut world, 1);
}

/// The other head is lost for good, and an administrator requests other members.
#[test]
fn lone_head_continues_after_requesting_a_change() {
    assert!(continues_alone());
    assert!(!without(Rule::ChangesBeginElsewhere, continues_alone));
}

fn continues_alone() -> bool {
    let (setup, mut world) = begin(Kind::Joining, Start::Degraded);
    world.take(&setup, Step::Crash(1));
    world.take(&setup, ADD);
    settle_without(&setup, &mut world, 1);
    world.take(&setup, Step::Crash(0));
    world.take(&setup, Step::Boot(0));
    world.then(&setup, Step::Open(0));
    is_open(&world, 0) && write(&setup, &mut world, 0)
}

/// An unrelated time-out may have expired just then.
#[test]
fn change_is_reverted_only_after_its_own_time_out() {
    let (setup, mut world) = begin(Kind::Joining, Start::Served);
    world.toggle_cut(0, 1);
    world.take(&setup, ADD);
    settle_without(&setup, &mut world, 1);
    world.take(&setup, Step::Deadline(0));
    assert_eq!(last_notice(), None);
    world.take(&setup, Step::Deadline(0));
    assert_eq!(last_notice(), Some(Notice::MembersStay));
}

/// The witness receives late that it was a member, and is added again.
#[test]
fn readded_witness_starts_a_new_life() {
    let (setup, mut world) = begin(Kind::Joining, Start::Held);
    let before = world.memory(WITNESS).expect("a witness").clone();
    assert!(before.is_lost());
    assert_eq!(world.committed.life(member_id(WITNESS)), before.life);
    world.then(&setup, ADD);
    let reported = world.memory(WITNESS).expect("a witness");
    assert!(
        !reported.is_lost() && reported.life != before.life,
        "{reported:?}"
    );
    assert_eq!(world.committed.life(member_id(WITNESS)), reported.life);
    assert_eq!(world.violation, None);
}

/// A message of a witness from an earlier life arrives late.
#[test]
fn late_message_of_earlier_life_mutes_no_member() {
    assert!(counts_after_late_message());
    assert!(!without(
        Rule::LivesAreAnnouncedAgain,
        counts_after_late_message
    ));
}

fn counts_after_late_message() -> bool {
    let (setup, mut world) = begin(Kind::Joining, Start::Served);
    let is_late = |sent: &Sent| {
        matches!(
            sent.envelope.payload,
            Payload::Response(Response::StateLost(..))
        )
    };
    world.take(&setup, ADD);
    while !world.net.iter().any(is_late) {
        assert!(world.settle_for(&setup, 1), "it begins its life");
    }
    let late = world.net.iter().find(|sent| is_late(sent)).cloned();
    let late = late.expect("a word");
    for step in [ADD, REMOVE, ADD] {
        world.then(&setup, step);
    }
    let is_heard = |world: &World| {
        let named = world.committed.life(member_id(WITNESS));
        world.memory(WITNESS).is_some_and(|one| one.life == named)
    };
    assert!(is_heard(&world));
    world.net.push(late.clone());
    world.then(&setup, Step::Deliver(late.key));
    world.then(&setup, Step::Look(0));
    is_heard(&world)
}

/// A pool from before records named their members, like each existing one.
#[test]
fn record_without_members_uses_configured_ones_until_change() {
    for (kind, step, wanted) in [
        (Kind::Joining, ADD, with_witness()),
        (Kind::Leaving, REMOVE, two_heads()),
    ] {
        let setup = Setup::new(kind, 9, 9, 6).with(&[Fault::Members]);
        let setup = setup.from(Start::Served).unnamed();
        let mut world = setup.world();
        assert_eq!(accepted(&world, 0), None);
        world.then(&setup, step);
        for head in [0, 1] {
            assert_eq!(accepted(&world, head).as_ref(), Some(&wanted), "{kind:?}");
        }
        assert!(write(&setup, &mut world, 0), "{kind:?}");
    }
}

/// So that a later change of the configuration alone has no effect.
#[test]
fn record_without_members_can_be_given_current_ones() {
    for (kind, step, wanted) in [
        (Kind::Joining, REMOVE, two_heads()),
        (Kind::Leaving, ADD, with_witness()),
    ] {
        let setup = Setup::new(kind, 9, 9, 6).with(&[Fault::Members]);
        let setup = setup.from(Start::Served).unnamed();
        let mut world = setup.world();
        world.then(&setup, step);
        for head in [0, 1] {
            assert_eq!(accepted(&world, head).as_ref(), Some(&wanted), "{kind:?}");
        }
        assert!(!world.heads[0].owner.changes_members(), "{kind:?}");
        assert!(write(&setup, &mut world, 0), "{kind:?}");
    }
}

#[test]
fn states_near_membership_change_keep_all_invariants() {
    for kind in KINDS {
        let changed = Setup::new(kind, 1, 0, 2).with(&[Fault::Members]);
        for start in [Start::Served, Start::Degraded] {
            inspect(&changed.clone().from(start), &format!("{start:?}, changed"));
            let one_opens = Setup::new(kind, 2, 1, 2).with(&FAULTS).from(start);
            inspect(&one_opens, &format!("{start:?}, two faults, another opens"));
            if UNNAMED.contains(&kind) {
                let what = format!("{start:?}, changed, members not named before");
                inspect(&changed.clone().from(start).unnamed(), &what);
            }
        }
        if kind == Kind::Joining {
            let again = Setup::new(kind, 2, 1, 1).with(&[Fault::Members, Fault::Duplicate]);
            inspect(&again.from(Start::Held), "Held, changed, two faults");
        }
    }
}

#[test]
fn random_walks_with_membership_changes_keep_invariants() {
    const EXPECTED: [&str; 5] = [
        "the members are changed",
        "a change of members is taken back",
        "a write is acknowledged",
        "an error is released",
        "a head is powered off",
    ];
    /// Of walks of one kind and start.
    const WALKS_MAX: u64 = 300;
    const WALK_STEPS_MAX: usize = 400;
    let most = [
        Fault::Members,
        Fault::Crash,
        Fault::ServerCrash,
        Fault::Cut,
        Fault::Lose,
        Fault::DiskFails,
        Fault::Hurry,
    ];
    let frozen = [
        Fault::Members,
        Fault::Freeze,
        Fault::DiskFails,
        Fault::Cut,
        Fault::Hurry,
    ];
    for kind in KINDS {
        let mut covered = BTreeSet::new();
        let mut steps = 0;
        for start in [Start::Served, Start::Degraded, Start::OnOtherHead] {
            for faults in [&FAULTS[..], &most, &frozen] {
                let setup = Setup::new(kind, 9, 5, 6)
                    .with(faults)
                    .from(start)
                    .by_confirmation();
                for seed in 0..longer(WALKS_MAX) {
                    let is_unnamed = UNNAMED.contains(&kind) && seed % 3 == 0;
                    let setup = match is_unnamed {
                        true => setup.clone().unnamed(),
                        false => setup.clone(),
                    };
                    let found = walk(&setup, seed, WALK_STEPS_MAX);
                    steps += found.states;
                    let what = format!("{kind:?}, {start:?}, {} faults, seed {seed}", faults.len());
                    covered.extend(pass(&setup, found, &what));
                }
            }
        }
        report(&format!(
            "{kind:?}: walks with up to 9 faults, {steps} steps"
        ));
        let joins = matches!(kind, Kind::Joining | Kind::Left) || kind.has_third();
        let joined = joins.then_some("a member that lost its memory is one again");
        let attached = kind.has_third().then_some("a disk is attached");
        let expected = EXPECTED.into_iter().chain(joined).chain(attached);
        let missing: Vec<_> = expected.filter(|one| !covered.contains(one)).collect();
        assert!(missing.is_empty(), "{kind:?}: never seen: {missing:?}");
    }
}
