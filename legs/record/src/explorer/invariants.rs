//! The invariants of every state, by name.

use super::world::{
    Content, FOREIGN, Progress, Setup, World, disk_id, disk_of, member_id, member_of, two_heads,
};
use crate::{MemberId, MemberState, Membership, Record};

/// Called after every step.
pub(super) fn check(world: &mut World, setup: &Setup) {
    let acknowledged = world.acknowledged;
    for disk in world.committed.current_disks() {
        let content = world.disks[usize::from(disk_of(disk))].durable;
        if !has(content, acknowledged) {
            world.violate("acknowledged_writes_are_on_every_current_leg");
        }
    }
    let servers = world.heads.iter().filter(|head| head.server.is_some());
    if servers.count() > 1 && !world.has_lie {
        world.violate("no_two_owners_have_the_pool");
    }
    if !do_rules_meet(world, setup) {
        world.violate("heads_go_by_rules_that_meet");
    }
}

/// Whether the rules of the two original heads exclude that each of them continues without the other, with the vote of
/// the same third member.
fn do_rules_meet(world: &World, setup: &Setup) -> bool {
    let records = |head: usize| world.heads.get(head)?.memory.accepted.as_ref();
    let (Some(one), Some(other)) = (records(0), records(1)) else {
        return true;
    };
    let votes = |member: MemberId, record: &Record| {
        let memory = world.state_on_disk(member_of(member));
        memory.is_some_and(|one| one.life == record.life(member) && one.accepted.is_some())
    };
    // The member with a vote that replaces the other head.
    let relied_on = |record: &Record| {
        let third = match setup.membership(record) {
            Membership::TwoHeadsAndWitness { witness, .. } => Some(witness),
            Membership::ThreeHeads([_, _, third]) => Some(third),
            _ => None,
        };
        third.filter(|third| votes(*third, record))
    };
    let is_apart = |one: &Record, other: &Record| {
        let Some(third) = relied_on(other) else {
            return false;
        };
        let is_alone = setup.membership(one) == two_heads();
        is_alone || relied_on(one).is_some_and(|by| by != third)
    };
    !is_apart(one, other) && !is_apart(other, one)
}

fn has(content: Content, acknowledged: u16) -> bool {
    content.history & acknowledged == acknowledged && content.blocks & acknowledged == acknowledged
}

pub(super) fn on_import(world: &mut World, head: u8, disks: &[u8], newest: Content) {
    if !world.committed.names_head(member_id(head)) {
        world.violate("only_heads_of_the_record_have_the_pool");
    }
    let acknowledged = world.acknowledged;
    if newest.history & acknowledged != acknowledged {
        world.violate("imported_state_has_every_acknowledged_write");
    }
    let contents = disks
        .iter()
        .map(|disk| world.disks[usize::from(*disk)].visible());
    let contents: Vec<Content> = contents.collect();
    if !contents.iter().all(|content| has(*content, acknowledged)) {
        world.violate("a_stale_leg_is_never_imported");
    }
    if contents
        .iter()
        .any(|content| content.history & FOREIGN != 0)
    {
        world.violate("divergence_is_never_resolved_by_itself");
    }
}

/// No head may be able to act on a record that still lists the leg.
pub(super) fn on_release(world: &mut World, setup: &Setup, head: u8, disk: u8) {
    let disk = disk_id(disk);
    let config = &setup.configs[usize::from(head)];
    // Without this head, which reports its newest record, no other one can act on a record of its disks alone.
    let is_out = |record: &Record| !record.current.contains_key(&disk);
    let is_idle = |record: &Record| is_out(record) || config.is_sole(record.current.keys());
    // A member that lost its memory acts on no record.
    let knows = |memory: &MemberState| memory.accepted.as_ref().map_or(memory.is_lost(), is_out);
    let members = world.config(setup, head).members();
    let remember = members
        .iter()
        .filter_map(|member| world.state_on_disk(member_of(*member)));
    let count = remember.filter(|memory| knows(memory)).count();
    let is_durable = match world.config(setup, head).other_of_two() {
        None => count >= members.len().min(2),
        Some(_) => {
            let other = &world.heads[usize::from(1 - head)];
            let received = other.owner.received_record();
            // A frozen head has no valid state when it resumes.
            let runs = other.is_up && !other.is_frozen;
            knows(&world.heads[usize::from(head)].memory) && (!runs || received.is_none_or(is_idle))
                || count >= 2
        }
    };
    if !is_durable {
        world.violate("an_error_of_a_leg_is_released_only_after_its_exclusion_is_durable");
    }
}

pub(super) fn on_proposal(world: &mut World, record: &Record) {
    // A proposal of an outdated term: no quorum accepts it any more.
    if record.ballot.epoch < world.committed.ballot.epoch {
        return;
    }
    for disk in record.current_disks() {
        let is_new = !world.committed.current.contains_key(&disk);
        let content = world.disks[usize::from(disk_of(disk))].durable;
        if is_new && !has(content, world.acknowledged) {
            world.violate("return_is_complete_before_current");
        }
    }
}

pub(super) fn on_commit(world: &mut World, setup: &Setup, record: &Record) {
    let known = &world.committed;
    if known.ballot.epoch == record.ballot.epoch && known.ballot != record.ballot {
        world.violate("one_owner_for_each_epoch");
    }
    let (config, current) = (&setup.configs[0], record.current_disks());
    let is_readable = config.is_readable_by(record, &current);
    if !is_readable || !config.is_readable_by(&world.committed, &current) {
        world.violate("current_legs_can_be_read");
    }
}

/// The leg that the device driver continues with cannot have failed: writes to it would block forever.
pub(super) fn on_last_leg(world: &mut World, head: u8, disk: u8) {
    let server = world.heads[usize::from(head)].server.as_ref();
    let leg = server.and_then(|server| server.legs.get(&disk));
    if leg.is_some_and(|leg| leg.progress != Progress::Failed && !leg.is_parted) {
        world.violate("the_last_leg_fails_by_its_writes_only");
    }
}

/// A write is about to replace the contents of a disk.
pub(super) fn on_landing(world: &mut World, disk: u8) {
    let one = &world.disks[usize::from(disk)];
    if one.visible().history & FOREIGN != 0 && !one.is_given_up {
        world.violate("divergence_is_never_resolved_by_itself");
    }
}

pub(super) fn on_divergence(world: &mut World, disk: u8) {
    if world.disks[usize::from(disk)].visible().history & FOREIGN == 0 {
        world.violate("own_history_is_not_called_divergent");
    }
}
