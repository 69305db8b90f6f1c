"""The faults of a round, and the required outcome of each: the table in docs/guide/proof.md."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proof.legs.cables import BOTH, LENDS, MEMBERS
from proof.legs.machines import FENCED, WITNESS_NUMBER
from proof.runtime import ProofError

if TYPE_CHECKING:
    from proof.legs.proof import LegsProof

ALL = ("witness", "pair", "three", "raidz")
SIGNED = ("witness", "three", "raidz")
"""Shapes where the loss of one node leaves two members, which decide."""

OWN_DISK_FAULTS = ("read=eio write=eio flush=eio", "write=eio", "flush=eio", "hang", "flush=hang", "write=enospc", "gone")
FAR_DISK_FAULTS = ("read=eio write=eio flush=eio", "write=eio", "flush=eio", "hang", "write=enospc")
SLOW_FAULTS = ("delay=20", "delay=120")
STUTTER_SECONDS = 0.25
STUTTERS = 4
STANDSTILL_SECONDS = 1.5
"""After a longer stall a server first checks that it still owns the pool."""


@dataclass(frozen=True)
class Kind:
    """One kind of fault."""

    name: str
    shapes: tuple[str, ...]
    strike: Callable[[LegsProof, random.Random], None]


KINDS: list[Kind] = []


def _kind(*shapes: str) -> Callable[[Callable[[LegsProof, random.Random], None]], Callable[[LegsProof, random.Random], None]]:
    def add(strike: Callable[[LegsProof, random.Random], None]) -> Callable[[LegsProof, random.Random], None]:
        KINDS.append(Kind(strike.__name__.replace("_", " "), shapes or ALL, strike))
        return strike

    return add


# Processes.


@_kind(*SIGNED)
def lender_killed(proof: LegsProof, choice: random.Random) -> None:
    proof.choose_other(choice).kill_lender()
    proof.writes_go_on()


@_kind("pair")
def lender_killed_and_nobody_signs(proof: LegsProof, choice: random.Random) -> None:
    other = proof.choose_other(choice)
    other.kill_lender()
    proof.writes_wait()
    other.start_lender()
    proof.writes_go_on()


@_kind()
def own_leg_server_killed(proof: LegsProof, _choice: random.Random) -> None:
    proof.owner.kill_lender()
    proof.writes_go_on()


@_kind(*SIGNED)
def lender_stopped(proof: LegsProof, choice: random.Random) -> None:
    with proof.stopped(proof.choose_other(choice).lender):
        proof.writes_go_on()


@_kind("pair")
def lender_stopped_and_nobody_signs(proof: LegsProof, choice: random.Random) -> None:
    with proof.stopped(proof.choose_other(choice).lender):
        proof.writes_wait()
    proof.writes_go_on()


@_kind("witness")
def witness_killed(proof: LegsProof, _choice: random.Random) -> None:
    proof.machines.kill_witness()
    proof.writes_go_on()


@_kind("witness")
def witness_stopped(proof: LegsProof, _choice: random.Random) -> None:
    with proof.stopped(proof.machines.witness):
        proof.writes_go_on()


@_kind()
def server_killed(proof: LegsProof, _choice: random.Random) -> None:
    proof.kill_server()
    proof.serve_again()


@_kind()
def server_stopped(proof: LegsProof, choice: random.Random) -> None:
    """Only its own clients notice: no other head has a confirmation that it is stopped."""
    with proof.stopped(proof.owner.server):
        proof.must_refuse(proof.choose_other(choice))
        # After a long pause it checks with the other heads that it still owns the pool.
        proof.let_pass(choice.choice((0.0, STANDSTILL_SECONDS)))
    proof.writes_go_on()


# Heads and power.


@_kind()
def head_lost(proof: LegsProof, choice: random.Random) -> None:
    other = proof.choose_other(choice)
    proof.power_off(proof.owner)
    if proof.open(other, FENCED):
        proof.write()


@_kind()
def head_stands_still(proof: LegsProof, choice: random.Random) -> None:
    """Like a paused virtual machine: another head serves the pool before this one resumes."""
    proof.overtake(proof.choose_other(choice))


@_kind()
def leg_lost_then_its_owner(proof: LegsProof, choice: random.Random) -> None:
    """The head with the stale leg never stopped: it must not serve the leg all the same."""
    other = proof.choose_other(choice)
    proof.fall_behind(other)
    proof.power_off(proof.owner)
    proof.cables.mend()
    proof.must_refuse(other, FENCED)


@_kind()
def stale_head_alone(proof: LegsProof, choice: random.Random) -> None:
    """A leg falls behind, all lose power, and all except the head that served are restarted."""
    owner, other = proof.owner, proof.choose_other(choice)
    proof.fall_behind(other)
    heads = list(proof.machines.heads)
    choice.shuffle(heads)
    for head in heads:
        proof.power_off(head)
    if choice.random() < 0.5:
        proof.restart_witness()
    proof.cables.mend()
    for head in heads:
        if head is not owner:
            head.start_lender()
    proof.must_refuse(other, FENCED)


@_kind()
def all_lost_one_after_the_other(proof: LegsProof, choice: random.Random) -> None:
    """Power fails in one order and is restored in another, while a client writes."""
    heads = list(proof.machines.heads)
    choice.shuffle(heads)
    for head in heads:
        proof.power_off(head)
        proof.let_pass(choice.uniform(0, 1.5))
    if proof.machines.witness and choice.random() < 0.5:
        proof.restart_witness()
    choice.shuffle(heads)
    for head in heads:
        head.start_lender()
        if proof.open(head, FENCED):
            proof.write()
            return


@_kind(*SIGNED)
def all_lost_and_all_claim(proof: LegsProof, choice: random.Random) -> None:
    """All heads lose power, and each is started with the confirmation that the owner has stopped: one of them may
    serve."""
    for head in proof.machines.heads:
        proof.power_off(head)
    for head in proof.machines.heads:
        head.start_lender()
    heads = list(proof.machines.heads)
    choice.shuffle(heads)
    proof.race(heads)


@_kind()
def head_lost_during_a_return(proof: LegsProof, choice: random.Random) -> None:
    owner, other = proof.owner, proof.choose_other(choice)
    proof.fall_behind(other)
    proof.cables.mend()
    proof.let_pass(choice.uniform(0.5, 2.5))
    proof.power_off(owner)
    if proof.open(other, FENCED):
        proof.write()


@_kind()
def lender_lost_during_a_return(proof: LegsProof, choice: random.Random) -> None:
    other = proof.choose_other(choice)
    proof.fall_behind(other)
    proof.cables.mend()
    proof.let_pass(choice.uniform(0.5, 2.5))
    other.kill_lender()
    proof.let_pass(choice.uniform(0, 0.3))
    other.start_lender()
    proof.writes_go_on()


# Operators.


@_kind()
def moved(proof: LegsProof, choice: random.Random) -> None:
    other = proof.choose_other(choice)
    proof.stop_server()
    if proof.open(other):
        proof.write()


@_kind()
def moved_to_a_stale_leg(proof: LegsProof, choice: random.Random) -> None:
    other = proof.choose_other(choice)
    proof.fall_behind(other)
    proof.stop_server()
    if len(proof.machines.heads) == 2 or choice.random() < 0.5:
        proof.owner.kill_lender()
    proof.cables.mend()
    if proof.open(other):
        proof.write()


@_kind()
def second_owner(proof: LegsProof, choice: random.Random) -> None:
    other = proof.choose_other(choice)
    proof.must_refuse(other)
    proof.must_refuse(other, FENCED)
    proof.writes_go_on()
    if choice.random() < 0.5:
        # A claim by another head is no reason for the server to exit when a record is due.
        proof.fall_behind(proof.choose_other(choice))


@_kind()
def leg_server_restarted_everywhere(proof: LegsProof, choice: random.Random) -> None:
    """Like an upgrade: one head after the other, each when all legs are current, while a client writes."""
    heads = list(proof.machines.heads)
    choice.shuffle(heads)
    for head in heads:
        head.kill_lender()
        head.start_lender()
        proof.writes_go_on()
        proof.await_current()


# Faults of the members' memory.


def _forgotten(proof: LegsProof, choice: random.Random, forget: Callable[[], None], readmit: Callable[[], None]) -> None:
    """A member without memory has no vote until it is readmitted: the owner is lost after that, or before, and then
    no head can take over."""
    other = proof.choose_other(choice)
    forget()
    proof.writes_go_on()
    if choice.random() < 0.5:
        readmit()
        proof.await_told()
        proof.writes_go_on()
        proof.power_off(proof.owner)
        if proof.open(other, FENCED):
            proof.write()
        return
    proof.power_off(proof.owner)
    proof.must_refuse(other, FENCED)
    readmit()
    proof.must_refuse(other, FENCED)


@_kind("witness")
def witness_forgets(proof: LegsProof, choice: random.Random) -> None:
    _forgotten(proof, choice, proof.machines.forget_witness, proof.machines.readmit_witness)


@_kind(*SIGNED)
def another_head_forgets(proof: LegsProof, choice: random.Random) -> None:
    head = proof.choose_other(choice)
    _forgotten(proof, choice, head.forget, head.readmit)


@_kind(*SIGNED)
def own_head_forgets(proof: LegsProof, choice: random.Random) -> None:
    """The other members have their memory: they may proceed without it, readmitted or not."""
    owner, other = proof.owner, proof.choose_other(choice)
    owner.forget()
    proof.writes_go_on()
    if choice.random() < 0.5:
        owner.readmit()
        proof.await_told()
        proof.writes_go_on()
    proof.power_off(owner)
    if proof.open(other, FENCED):
        proof.write()
    owner.start_lender()
    if owner.memory() is None:
        owner.readmit()


# Networks.


@_kind()
def way_to_legs_cut(proof: LegsProof, choice: random.Random) -> None:
    """Members reach each other: the head with the leg signs, too."""
    proof.fall_behind(proof.choose_other(choice))
    proof.writes_go_on()


@_kind()
def way_between_members_cut(proof: LegsProof, choice: random.Random) -> None:
    """No leg is lost."""
    other = proof.choose_other(choice)
    proof.cables.cut(proof.owner.number, other.number, [MEMBERS])
    proof.writes_go_on()


@_kind(*SIGNED)
def partition(proof: LegsProof, choice: random.Random) -> None:
    """The owner and a third member proceed; the other head must not take over."""
    other = proof.choose_other(choice)
    proof.cables.cut(proof.owner.number, other.number)
    proof.must_lack(other)
    proof.must_refuse(other)
    proof.must_refuse(other, FENCED)
    proof.writes_go_on()


@_kind("pair")
def partition_of_two(proof: LegsProof, choice: random.Random) -> None:
    other = proof.choose_other(choice)
    proof.cables.cut(proof.owner.number, other.number)
    proof.writes_wait()
    proof.must_refuse(other)
    proof.cables.mend()
    proof.writes_go_on()


@_kind()
def owner_alone(proof: LegsProof, choice: random.Random) -> None:
    """The owner reaches no other member, so its writes block. It reconnects, or is powered off and another head
    takes over."""
    owner, other = proof.owner, proof.choose_other(choice)
    if choice.random() < 0.5:
        proof.cables.unplug(owner.number)
    else:
        # Members first: a member that is reachable longer than a lender may sign that its legs are lost.
        for network in BOTH:
            for number in proof.numbers():
                if number != owner.number:
                    proof.cables.cut(owner.number, number, [network])
    proof.writes_wait()
    proof.must_refuse(other)
    if choice.random() < 0.5:
        proof.cables.mend()
        proof.writes_go_on_or_server_begins_anew()
        return
    proof.power_off(owner)
    if proof.open(other, FENCED):
        proof.write()


@_kind()
def lender_unplugged(proof: LegsProof, choice: random.Random) -> None:
    proof.cables.unplug(proof.choose_other(choice).number)
    if len(proof.numbers()) > 2:
        proof.writes_go_on()
    else:
        proof.writes_wait()
        proof.cables.mend()
        proof.writes_go_on()


@_kind()
def answers_of_a_lender_lost(proof: LegsProof, choice: random.Random) -> None:
    """Half open: it receives, but its replies are lost."""
    proof.cables.lose(proof.choose_other(choice).number, proof.owner.number, [LENDS])
    proof.writes_go_on()


@_kind()
def requests_to_a_lender_lost(proof: LegsProof, choice: random.Random) -> None:
    proof.cables.lose(proof.owner.number, proof.choose_other(choice).number, [LENDS])
    proof.writes_go_on()


@_kind(*SIGNED)
def head_not_heard(proof: LegsProof, choice: random.Random) -> None:
    """Half open, in both networks: either packets from another head or packets to it are lost."""
    ends = [proof.owner.number, proof.choose_other(choice).number]
    choice.shuffle(ends)
    proof.cables.lose(*ends, BOTH)
    proof.writes_go_on()


@_kind("witness")
def witness_not_heard(proof: LegsProof, choice: random.Random) -> None:
    for head in proof.machines.heads:
        ends = [head.number, WITNESS_NUMBER]
        choice.shuffle(ends)
        proof.cables.lose(*ends, [MEMBERS])
    proof.writes_go_on()


@_kind()
def lender_stutters(proof: LegsProof, choice: random.Random) -> None:
    """Its replies are late, again and again."""
    other = proof.choose_other(choice)
    for _ in range(STUTTERS):
        with proof.stopped(other.lender):
            proof.let_pass(choice.uniform(0, STUTTER_SECONDS))
        proof.writes_go_on()


# Disks.


@_kind()
def own_disk_fails(proof: LegsProof, choice: random.Random) -> None:
    proof.harm_disk(proof.owner, choice, choice.choice(OWN_DISK_FAULTS))
    proof.writes_go_on()


@_kind()
def far_disk_fails(proof: LegsProof, choice: random.Random) -> None:
    proof.harm_disk(proof.choose_other(choice), choice, choice.choice(FAR_DISK_FAULTS))
    proof.writes_go_on()


@_kind()
def disk_slow(proof: LegsProof, choice: random.Random) -> None:
    proof.harm_disk(choice.choice(proof.machines.heads), choice, choice.choice(SLOW_FAULTS))
    proof.writes_go_on()


@_kind()
def own_disk_fails_then_the_owner(proof: LegsProof, choice: random.Random) -> None:
    """The remaining legs are at the other heads, which serve them."""
    other = proof.choose_other(choice)
    proof.harm_disk(proof.owner, choice, "read=eio write=eio flush=eio")
    proof.writes_go_on()
    proof.power_off(proof.owner)
    if proof.open(other, FENCED):
        proof.write()


def named(name: str) -> Kind:
    """Returns the kind of this name."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise ProofError(f"no kind of fault is called {name}; there are: {', '.join(kind.name for kind in KINDS)}")


def of_shape(shape: str) -> list[Kind]:
    """Returns the kinds that such an appliance supports."""
    return [kind for kind in KINDS if shape in kind.shapes]

