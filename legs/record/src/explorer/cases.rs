//! The table of cases: the state of a pool after each fault, with two heads, with a witness, and with three heads.

use super::search::last_notice;
use super::steps::Step;
use super::world::{
    Envelope, Fault, Kind, Payload, Setup, Start, WITNESS, World, disk_id, member_id,
};
use crate::{Newer, Notice, Refusal};

const KINDS: [Kind; 3] = [Kind::TwoHeads, Kind::Witness, Kind::ThreeHeads];

fn begin(kind: Kind, start: Start) -> (Setup, World) {
    begin_with(kind, start, &[Fault::Cut])
}

pub(super) fn begin_with(kind: Kind, start: Start, faults: &[Fault]) -> (Setup, World) {
    let setup = Setup::new(kind, 9, 9, 6).with(faults).from(start);
    let world = setup.world();
    assert_eq!(world.violation, None);
    let _ = last_notice();
    (setup, world)
}

/// Cuts head 1 off from the other heads, but not from the witness.
fn part(kind: Kind, world: &mut World) {
    world.toggle_cut(0, 1);
    if kind == Kind::ThreeHeads {
        world.toggle_cut(1, 2);
    }
}

pub(super) fn is_open(world: &World, head: usize) -> bool {
    let server = world.heads[head].server.as_ref();
    server.is_some_and(|server| server.is_open)
}

/// Whether a write on head 0 or another head is finally acknowledged.
pub(super) fn write(setup: &Setup, world: &mut World, head: u8) -> bool {
    world.then(setup, Step::Issue(head));
    assert_eq!(world.violation, None);
    world.acknowledged & (1 << world.issued) != 0
}

fn refusal(setup: &Setup, world: &mut World, head: u8) -> Refusal {
    world.then(setup, Step::Open(head));
    assert!(!is_open(world, head.into()), "it was opened");
    match last_notice() {
        Some(Notice::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

pub(super) fn opens(setup: &Setup, world: &mut World, head: u8) {
    world.then(setup, Step::Open(head));
    assert_eq!(world.violation, None);
    assert!(is_open(world, head.into()), "{:?}", last_notice());
}

/// Head 0 is current, and disk 1 is missing groups from 12 on.
fn newer() -> Newer {
    Newer {
        epoch: 2,
        disks: [(disk_id(0), Some(member_id(0)))].into(),
        since: [(disk_id(1), 12)].into(),
    }
}

#[test]
fn cut_leg_link_commits_by_other_member_without_fence() {
    for kind in KINDS {
        let (setup, mut world) = begin(kind, Start::Served);
        world.take(&setup, Step::DiskFails(1));
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        assert!(!world.committed.current.contains_key(&disk_id(1)));
        assert!(world.heads.iter().all(|head| head.is_up && head.boots == 1));
    }
}

/// Head 1 is down or its leg is excluded, and a sector of the only leg is unreadable. That is an error of one block.
#[test]
fn unreadable_block_on_last_leg_blocks_no_write() {
    for kind in KINDS {
        let faults = [Fault::Cut, Fault::ReadFails];
        let (setup, mut world) = begin_with(kind, Start::Degraded, &faults);
        for _ in 0..5 {
            world.take(&setup, Step::ReadFails { head: 0, disk: 0 });
            assert_eq!(world.violation, None);
            assert_eq!(last_notice(), None, "{kind:?}");
        }
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        assert!(world.heads.iter().all(|head| head.is_up && head.boots == 1));
    }
}

/// The library considers the only leg dead, for example because no label could be read for a short time.
#[test]
fn last_leg_without_failed_write_is_reused() {
    for kind in KINDS {
        let faults = [Fault::Cut, Fault::Unusable];
        let (setup, mut world) = begin_with(kind, Start::Degraded, &faults);
        world.take(&setup, Step::Unusable { head: 0, disk: 0 });
        assert_eq!(last_notice(), Some(Notice::LastLeg(disk_id(0))));
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        assert!(is_open(&world, 0), "{kind:?}");
    }
}

/// A second server is started next to the one that serves: it is refused, and the first one continues.
#[test]
fn second_server_does_not_disturb_active_owner() {
    for kind in KINDS {
        let (setup, mut world) = begin(kind, Start::Served);
        assert_eq!(
            refusal(&setup, &mut world, 1),
            Refusal::OwnerLives(member_id(0))
        );
        world.take(&setup, Step::DiskFails(1));
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        assert!(!world.committed.current.contains_key(&disk_id(1)));
        assert!(is_open(&world, 0), "{kind:?}");
    }
}

#[test]
fn partition_with_fencing_owner_continues() {
    for kind in KINDS {
        let (setup, mut world) = begin(kind, Start::Served);
        part(kind, &mut world);
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        // Two heads continue after the fence; the other kinds before it, without one.
        assert_eq!(world.heads[1].is_up, kind != Kind::TwoHeads, "{kind:?}");
    }
}

#[test]
fn partition_without_fencing_no_head_takes_over() {
    for kind in KINDS {
        let (setup, mut world) = begin(kind, Start::Served);
        part(kind, &mut world);
        // The other head opens the pool first.
        world.take(&setup, Step::Open(1));
        fail_fences(&setup, &mut world);
        let reported = last_notice();
        let expected = match kind {
            Kind::TwoHeads => Refusal::OtherHeadUnresponsive {
                head: member_id(0),
                known: Newer {
                    disks: [
                        (disk_id(0), Some(member_id(0))),
                        (disk_id(1), Some(member_id(1))),
                    ]
                    .into(),
                    since: [].into(),
                    ..newer()
                },
            },
            Kind::Witness => Refusal::OwnerUnconfirmed(member_id(0)),
            _ => Refusal::NoQuorum {
                received: [member_id(1)].into(),
            },
        };
        assert_eq!(reported, Some(Notice::Refused(expected)), "{kind:?}");
        world.take(&setup, Step::Issue(0));
        fail_fences(&setup, &mut world);
        let is_acknowledged = world.acknowledged & (1 << world.issued) != 0;
        assert_eq!(is_acknowledged, kind != Kind::TwoHeads, "{kind:?}");
        if kind == Kind::TwoHeads {
            assert!(matches!(last_notice(), Some(Notice::WritesWait { .. })));
            assert!(is_open(&world, 0), "reads go on");
        }
    }
}

/// Lets all steps happen, with every fence failing.
fn fail_fences(setup: &Setup, world: &mut World) {
    for _ in 0..3 {
        world.settle_by(setup, |_, step| !matches!(step, Step::PowerOff(_)));
        if world.fences.is_empty() {
            return;
        }
        world.take(setup, Step::FenceFails(0));
    }
}

#[test]
fn power_loss_only_stale_leg_is_refused_and_newer_is_named() {
    for kind in KINDS {
        let (setup, mut world) = begin(kind, Start::Degraded);
        world.take(&setup, Step::PowerLoss);
        world.take(&setup, Step::Boot(1));
        let found = refusal(&setup, &mut world, 1);
        let expected = match kind {
            Kind::TwoHeads => Refusal::OtherHeadUnresponsive {
                head: member_id(0),
                known: newer(),
            },
            Kind::Witness => Refusal::Stale(newer()),
            _ => Refusal::NoQuorum {
                received: [member_id(1)].into(),
            },
        };
        assert_eq!(found, expected, "{kind:?}");
        if kind == Kind::ThreeHeads {
            world.take(&setup, Step::Boot(2));
            assert_eq!(refusal(&setup, &mut world, 1), Refusal::Stale(newer()));
        }
        // With the newer leg the pool opens, on either head.
        world.take(&setup, Step::Boot(0));
        opens(&setup, &mut world, 1);
    }
}

#[test]
fn power_loss_only_current_leg_starts_automatically() {
    for kind in [Kind::TwoHeads, Kind::Witness] {
        let (setup, mut world) = begin(kind, Start::Degraded);
        world.take(&setup, Step::PowerLoss);
        world.take(&setup, Step::Boot(0));
        opens(&setup, &mut world, 0);
    }
}

#[test]
fn power_loss_one_of_two_current_legs_starts() {
    for head in [0, 1] {
        let (setup, mut world) = begin(Kind::TwoHeads, Start::Served);
        world.take(&setup, Step::PowerLoss);
        world.take(&setup, Step::Boot(head));
        let found = refusal(&setup, &mut world, head);
        assert!(
            matches!(found, Refusal::OtherHeadUnresponsive { .. }),
            "{found:?}"
        );
        // An administrator's confirmation.
        let setup = setup.by_confirmation();
        world.then(&setup, Step::OpenByConfirmation(head));
        assert!(is_open(&world, head.into()), "{:?}", last_notice());

        let (setup, mut world) = begin(Kind::Witness, Start::Served);
        world.take(&setup, Step::PowerLoss);
        world.take(&setup, Step::Boot(head));
        opens(&setup, &mut world, head);

        let (setup, mut world) = begin(Kind::ThreeHeads, Start::Served);
        world.take(&setup, Step::PowerLoss);
        world.take(&setup, Step::Boot(head));
        let found = refusal(&setup, &mut world, head);
        assert!(matches!(found, Refusal::NoQuorum { .. }), "{found:?}");
        world.take(&setup, Step::Boot(2));
        opens(&setup, &mut world, head);
    }
}

#[test]
fn loss_of_leg_then_owner_is_reported_as_unavailable() {
    for kind in KINDS {
        let (setup, mut world) = begin(kind, Start::Degraded);
        world.take(&setup, Step::Crash(0));
        let found = refusal(&setup, &mut world, 1);
        let expected = match kind {
            Kind::TwoHeads => Refusal::OtherHeadUnresponsive {
                head: member_id(0),
                known: newer(),
            },
            _ => Refusal::Stale(newer()),
        };
        assert_eq!(found, expected, "{kind:?}");
    }
}

#[test]
fn raidz_over_three_heads_stops_below_two_legs() {
    let (setup, mut world) = begin(Kind::Raidz, Start::Degraded);
    assert_eq!(world.committed.current.len(), 2);
    world.take(&setup, Step::Crash(0));
    let found = refusal(&setup, &mut world, 2);
    assert!(matches!(found, Refusal::Stale(_)), "{found:?}");
    let (setup, mut world) = begin(Kind::Raidz, Start::Served);
    world.take(&setup, Step::Crash(0));
    opens(&setup, &mut world, 2);
    assert!(write(&setup, &mut world, 2), "two of three legs");
}

#[test]
fn owner_crash_during_resilver_loses_nothing() {
    for kind in KINDS {
        let (setup, mut world) = begin(kind, Start::Degraded);
        world.take(&setup, Step::LegReturned { head: 0, disk: 1 });
        world.settle_by(&setup, |_, step| !matches!(step, Step::Copy { .. }));
        assert!(write_during_copy(&setup, &mut world), "{kind:?}");
        world.take(&setup, Step::Crash(0));
        let found = refusal(&setup, &mut world, 1);
        assert!(
            matches!(
                found,
                Refusal::Stale(_) | Refusal::OtherHeadUnresponsive { .. }
            ),
            "{kind:?}: {found:?}"
        );
    }
    // The owner has no leg: the current one is enough.
    let (setup, mut world) = begin(Kind::ThreeHeads, Start::Degraded);
    world.then(&setup, Step::Export(0));
    opens(&setup, &mut world, 2);
    world.take(&setup, Step::LegReturned { head: 2, disk: 1 });
    world.settle_by(&setup, |_, step| !matches!(step, Step::Copy { .. }));
    world.take(&setup, Step::Crash(2));
    opens(&setup, &mut world, 1);
}

fn write_during_copy(setup: &Setup, world: &mut World) -> bool {
    world.take(setup, Step::Issue(0));
    world.settle_by(setup, |_, step| !matches!(step, Step::Copy { .. }));
    world.acknowledged & (1 << world.issued) != 0
}

#[test]
fn failed_leg_returns_automatically() {
    for kind in KINDS {
        let (setup, mut world) = begin(kind, Start::Degraded);
        world.then(&setup, Step::LegReturned { head: 0, disk: 1 });
        assert_eq!(world.committed.current.len(), 2, "{kind:?}");
        assert!(write(&setup, &mut world, 0));
        // And the other head can continue without the first.
        world.take(&setup, Step::Crash(0));
        if kind == Kind::TwoHeads {
            // It has received no message of the other head since it booted.
            let found = refusal(&setup, &mut world, 1);
            assert!(matches!(found, Refusal::OtherHeadUnresponsive { .. }));
        } else {
            opens(&setup, &mut world, 1);
        }
    }
}

#[test]
fn leg_failing_repeatedly_during_return_returns() {
    for kind in KINDS {
        let (setup, mut world) = begin(kind, Start::Relapsed);
        for _ in 0..2 {
            world.take(&setup, Step::LegReturned { head: 0, disk: 1 });
            world.settle_by(&setup, |_, step| !matches!(step, Step::Copy { .. }));
            world.take(&setup, Step::DiskFails(1));
            assert!(write(&setup, &mut world, 0), "{kind:?}");
            world.take(&setup, Step::DiskHeals(1));
        }
        world.then(&setup, Step::LegReturned { head: 0, disk: 1 });
        assert_eq!(world.committed.current.len(), 2, "{kind:?}");
        assert_eq!(world.violation, None);
    }
}

/// openzfs#14640 on one head: the leg that stayed in use is missing, and the failed one is not opened alone.
#[test]
fn single_head_refuses_stale_leg_and_names_newer_one() {
    let (setup, mut world) = begin(Kind::OneHead, Start::Degraded);
    world.take(&setup, Step::Crash(0));
    world.take(&setup, Step::DiskFails(0));
    world.take(&setup, Step::Boot(0));
    // Its lender cannot reach it.
    world.take(&setup, Step::Open(0));
    world.settle_by(&setup, |world, step| match step {
        Step::Deliver(key) => {
            let sent = world.sent(*key);
            let is_to_it = |sent: &Envelope| matches!(sent.payload, Payload::LenderRequest(0, _));
            !sent.is_some_and(|sent| is_to_it(&sent))
        }
        _ => true,
    });
    world.take(&setup, Step::Deadline(0));
    match last_notice() {
        Some(Notice::Refused(Refusal::Stale(newer))) => {
            assert_eq!(newer.disks, [(disk_id(0), Some(member_id(0)))].into());
            assert!(newer.since.contains_key(&disk_id(1)));
        }
        other => panic!("{other:?}"),
    }
    assert!(!is_open(&world, 0));
}

#[test]
fn single_head_reopens_and_readmits_its_leg() {
    let (setup, mut world) = begin(Kind::OneHead, Start::Degraded);
    world.take(&setup, Step::Crash(0));
    world.take(&setup, Step::Boot(0));
    opens(&setup, &mut world, 0);
    world.then(&setup, Step::LegReturned { head: 0, disk: 1 });
    assert_eq!(world.committed.current.len(), 2);
    assert!(write(&setup, &mut world, 0));
}

#[test]
fn two_heads_take_over_by_fence_after_prior_contact() {
    let (setup, mut world) = begin(Kind::TwoHeads, Start::Served);
    world.then(&setup, Step::Listen(1));
    world.take(&setup, Step::Crash(0));
    opens(&setup, &mut world, 1);
    assert!(write(&setup, &mut world, 1));
}

/// It was considered off. Messages of its member before it stops must not end the owner that replaced it.
#[test]
fn stalled_owner_terminates_and_not_its_successor() {
    let (setup, mut world) = begin(Kind::TwoHeads, Start::Served);
    world.then(&setup, Step::Listen(1));
    world.take(&setup, Step::Freeze(0));
    world.take(&setup, Step::Open(1));
    let stands_still = |step: &Step| !matches!(step, Step::PowerOff(_) | Step::Thaw(_));
    world.settle_by(&setup, |_, step| stands_still(step));
    world.take(&setup, Step::FenceByConfirmation(0));
    world.settle_by(&setup, |_, step| stands_still(step));
    assert!(is_open(&world, 1), "{:?}", last_notice());
    world.take(&setup, Step::Thaw(0));
    world.take(&setup, Step::LegReturned { head: 1, disk: 0 });
    world.settle_by(&setup, |world, step| match step {
        Step::Deliver(key) => {
            let sent = world.sent(*key);
            let is_question = |sent: &Envelope| matches!(sent.payload, Payload::Request(_));
            !sent.is_some_and(|sent| sent.from == 0 && is_question(&sent))
        }
        _ => true,
    });
    assert!(world.heads[0].owner.has_term(), "it has no message yet");
    world.settle(&setup);
    assert!(!world.heads[0].owner.has_term(), "it has ended");
    assert!(is_open(&world, 1), "{:?}", last_notice());
    assert!(write(&setup, &mut world, 1));
}

#[test]
fn a_pool_that_was_exported_opens_elsewhere_without_a_fence() {
    for kind in KINDS {
        let (setup, mut world) = begin(kind, Start::Served);
        world.then(&setup, Step::Export(0));
        opens(&setup, &mut world, 1);
        assert!(world.heads.iter().all(|head| head.is_up && head.boots == 1));
    }
}

#[test]
fn diverged_disk_is_left_out_until_confirmed_discard() {
    for kind in KINDS {
        let (setup, mut world) = begin(kind, Start::Degraded);
        world.take(&setup, Step::Crash(1));
        world.take(&setup, Step::ForeignImport(1));
        world.take(&setup, Step::Boot(1));
        world.then(&setup, Step::LegReturned { head: 0, disk: 1 });
        assert!(world.committed.divergent.contains(&disk_id(1)), "{kind:?}");
        assert_eq!(last_notice(), Some(Notice::Divergent(disk_id(1))));
        world.then(&setup, Step::Discard { head: 0, disk: 1 });
        world.then(&setup, Step::LegReturned { head: 0, disk: 1 });
        assert_eq!(world.committed.current.len(), 2, "{kind:?}");
        assert_eq!(world.violation, None);
    }
}

/// Also while a resilver writes to the disk that is removed.
#[test]
fn replacement_of_stale_disk_is_resilvered_and_current() {
    for kind in KINDS {
        for is_copied in [false, true] {
            let (setup, mut world) = begin(kind, Start::Degraded);
            if is_copied {
                world.take(&setup, Step::LegReturned { head: 0, disk: 1 });
                world.settle_by(&setup, |_, step| !matches!(step, Step::Copy { .. }));
            }
            world.take(&setup, Step::Exchange(1));
            world.then(&setup, Step::Replace { head: 0, disk: 1 });
            let stale = world.committed.stale.get(&disk_id(1));
            assert_eq!(stale.map(|stale| stale.since), Some(0), "{kind:?}");
            world.then(&setup, Step::LegReturned { head: 0, disk: 1 });
            assert_eq!(world.committed.current.len(), world.disks.len(), "{kind:?}");
            assert!(write(&setup, &mut world, 0), "{kind:?}");
            assert_eq!(world.violation, None);
        }
    }
}

#[test]
fn attached_disk_is_resilvered_and_serves_pool_alone() {
    for kind in [Kind::Witness, Kind::ThreeHeads] {
        let (setup, mut world) = begin(kind, Start::Narrow);
        let setup = setup.with(&[Fault::Attach]);
        assert!(write(&setup, &mut world, 0));
        world.then(&setup, Step::Attach { head: 0, disk: 1 });
        assert_eq!(world.committed.stale[&disk_id(1)].since, 0, "{kind:?}");
        world.then(&setup, Step::LegReturned { head: 0, disk: 1 });
        assert_eq!(world.committed.current.len(), 2, "{kind:?}");
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        world.take(&setup, Step::Crash(0));
        opens(&setup, &mut world, 1);
        assert_eq!(world.violation, None);
    }
}

/// The replaced disk is put back in place of the new one, and is not accepted as the new one.
#[test]
fn returning_replaced_disk_is_ignored() {
    for kind in [Kind::Witness, Kind::ThreeHeads] {
        let (setup, mut world) = begin(kind, Start::Degraded);
        world.take(&setup, Step::SaveImage(1));
        world.take(&setup, Step::Exchange(1));
        world.then(&setup, Step::Replace { head: 0, disk: 1 });
        world.then(&setup, Step::LegReturned { head: 0, disk: 1 });
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        world.take(&setup, Step::Crash(1));
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        world.take(&setup, Step::RestoreImage(1));
        world.take(&setup, Step::Boot(1));
        world.then(&setup, Step::LegReturned { head: 0, disk: 1 });
        assert_eq!(last_notice(), Some(Notice::OlderImage(disk_id(1))));
        assert_eq!(world.committed.current.len(), 2, "{kind:?}");
        assert_eq!(world.violation, None);
    }
}

/// The witness, or the third head.
fn third(kind: Kind) -> u8 {
    match kind {
        Kind::Witness => WITNESS,
        _ => 2,
    }
}

#[test]
fn member_without_state_has_no_vote_until_owner_updates_it() {
    for kind in [Kind::Witness, Kind::ThreeHeads] {
        let (setup, mut world) = begin(kind, Start::Served);
        world.take(&setup, Step::Forget(third(kind)));
        world.take(&setup, Step::Crash(1));
        assert!(!write(&setup, &mut world, 0), "{kind:?}: no vote");
    }
}

#[test]
fn updated_member_votes_and_second_loss_is_survived() {
    for kind in [Kind::Witness, Kind::ThreeHeads] {
        let (setup, mut world) = begin(kind, Start::Served);
        world.take(&setup, Step::Forget(third(kind)));
        world.then(&setup, Step::Look(0));
        assert_eq!(world.committed.life(member_id(third(kind))), 1, "{kind:?}");
        world.take(&setup, Step::Crash(1));
        assert!(write(&setup, &mut world, 0), "{kind:?}");
        assert!(!world.committed.current.contains_key(&disk_id(1)));
        // The owner dies, too: no head opens a leg without the write.
        world.take(&setup, Step::Crash(0));
        world.take(&setup, Step::Boot(1));
        let why = refusal(&setup, &mut world, 1);
        assert!(matches!(why, Refusal::Stale(_)), "{kind:?}: {why:?}");
        world.take(&setup, Step::Boot(0));
        opens(&setup, &mut world, 0);
    }
}
