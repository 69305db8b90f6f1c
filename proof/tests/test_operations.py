"""The operations proof detects half-done operations, and operations that are reported as done but are not."""

import unittest
from typing import Any, cast

from proof.operations.proof import OperationsProof, Reference
from proof.operations.table import Operation, Rest
from proof.operations.verbs import ELSEWHERE, complaints, derived, with_definition
from proof.operations.world import Words, World, without_times
from proof.runtime import ProofError

BEFORE = {"snapshots": ["v@a"], "volumes": {"v": {"size": 1}}}
AFTER = {"snapshots": ["v@a", "v@b"], "volumes": {"v": {"size": 2}}}
HALF = {"snapshots": ["v@a", "v@b"], "volumes": {"v": {"size": 1}}}


class FoundWorld:
    """A pool with the same state in all observations, until the command is repeated."""

    def __init__(self, found: dict[str, Any], then: dict[str, Any]):
        self.found = found
        self.then = then

    def observe(self, _reads: tuple[str, ...], _probe: Words) -> dict[str, Any]:
        return self.found

    def do(self, steps: tuple[object, ...]) -> None:
        if steps:
            self.found = self.then


def judged(found: dict[str, Any], then: dict[str, Any] = AFTER, said_done: bool = False, rest: Rest = Rest.EITHER) -> OperationsProof:
    operation = Operation(("do",), again=("do",), rest=rest)
    proof = OperationsProof(cast(World, FoundWorld(found, then)), [operation], 1, 1)
    proof._judge(operation, Reference(BEFORE, AFTER, 1.0), said_done, offline=False)
    return proof


class OperationsTest(unittest.TestCase):
    def test_done_and_not_done_are_both_right(self) -> None:
        self.assertEqual(judged(AFTER).tally.done, 1)
        self.assertEqual(judged(BEFORE).tally.undone, 1)

    def test_half_done_is_found_and_told(self) -> None:
        with self.assertRaisesRegex(ProofError, r"half done.*\.volumes\.v\.size"):
            judged(HALF)

    def test_what_was_said_to_be_done_must_be(self) -> None:
        with self.assertRaisesRegex(ProofError, "reported as done"):
            judged(BEFORE, said_done=True)

    def test_asking_again_must_complete_it(self) -> None:
        with self.assertRaisesRegex(ProofError, "does not complete"):
            judged(BEFORE, then=HALF)

    def test_times_in_documents_are_no_difference(self) -> None:
        first, second = ('{"version":1,"from":"p/v","arrived_unix_s":%d}' % time for time in (17, 19))
        self.assertEqual(without_times(first), without_times(second))
        self.assertNotEqual(without_times(first), without_times(first.replace("p/v", "p/w")))

    def test_what_goes_on_may_be_in_between(self) -> None:
        self.assertEqual(judged(HALF, rest=Rest.COMPLETED).tally.between, 1)

    def test_a_verb_without_an_example_is_told(self) -> None:
        verbs = [*ELSEWHERE, "lab down", "pool shrink", "pool set"]
        (complaint,) = complaints(verbs, [with_definition(Operation(("pool", "set", "proof", "a=b")), verbs, "change")])
        self.assertIn("`bulkhead pool shrink` has no example", complaint)

    def test_a_verb_that_is_no_more_is_told(self) -> None:
        (complaint,) = complaints({*ELSEWHERE} - {"pool move"}, [])
        self.assertIn("`bulkhead pool move` is named", complaint)

    def test_two_examples_of_one_name_are_told(self) -> None:
        verbs = [*ELSEWHERE, "pool clear"]
        clear = with_definition(Operation(("pool", "clear", "proof")), verbs, "change")
        (complaint,) = complaints(verbs, [clear, clear])
        self.assertIn("two examples are named `pool clear`", complaint)

    def test_a_look_is_killed_only_for_what_goes_on_beside_it(self) -> None:
        words = ("snapshot", "list", "proof/w")
        looks = [with_definition(Operation(words, before=before), ["snapshot list"], "look").looks for before in ((), (words,))]
        self.assertEqual(looks, [True, False])

    def test_an_example_of_a_definition_has_the_names_of_this_world(self) -> None:
        example: dict[str, Any] = {
            "line": "bulkhead volume freeze tank/web \\\n      --for 60s",
            "prepared_by": [],
            "undone_by": ["bulkhead snapshot destroy tank/vm0@monday"],
            "ends_with_the_server": True,
            "elsewhere": None,
        }
        one = derived(example)
        assert one is not None
        self.assertEqual(one.words, ("volume", "freeze", "proof/v", "--for", "60s"))
        self.assertEqual(one.after, (("snapshot", "destroy", "proof/v@base"),))
        self.assertTrue(one.is_killed and one.needs_server)
        self.assertIsNone(derived({**example, "elsewhere": "needs a client"}))


if __name__ == "__main__":
    unittest.main()
