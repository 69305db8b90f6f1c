"""The drills' initiator hides lost paths, and nothing else: each thing that it must see has a test here."""

import io
import random
import unittest
from contextlib import redirect_stdout

from proof.clients.base import Client, Done, ReadDone, Refusal
from proof.drill.events import Events
from proof.drill.initiator import Initiator, Load
from proof.drill.path import PAUSE_S, PING_S_MAX, SILENCE_S

SIZE = 1 << 20


class Clock(Events):
    """Events of a clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds


class Disk:
    """The volume behind all paths, and what it does with requests."""

    def __init__(self) -> None:
        self.contents = bytearray(b"\xff" * SIZE)
        self.refusal: Refusal | None = None
        self.is_silent = False
        self.forgets = False


class MemoryClient(Client):
    """Answers at once, or never."""

    name = "memory"
    granularity = 512
    size = SIZE

    def __init__(self, disk: Disk):
        self._disk = disk
        self.is_lost = False
        self.sends_nothing = False

    def _finish(self, done: Done) -> None:
        if self._disk.is_silent:
            return
        if self.sends_nothing:
            done(False)
        elif self._disk.refusal:
            self.last_refusal = self._disk.refusal
            done(False)
        else:
            done(not self.is_lost)

    def write(self, offset: int, data: bytearray, forced: bool, done: Done) -> None:
        if not (self._disk.forgets or self._disk.refusal):
            self._disk.contents[offset : offset + len(data)] = data
        self._finish(done)

    def zero(self, offset: int, length: int, forced: bool, done: Done) -> None:
        self.write(offset, bytearray(length), forced, done)

    def discard(self, offset: int, length: int, done: Done) -> None:
        self._finish(done)

    def flush(self, done: Done) -> None:
        self._finish(done)

    def read(self, offset: int, length: int, done: ReadDone) -> None:
        data = bytes(self._disk.contents[offset : offset + length])
        self._finish(lambda good: done(data if good else None))

    def descriptor(self) -> int:
        return -1

    def events(self) -> int:
        return 0

    def service(self, events: int) -> None:
        pass

    @property
    def dead(self) -> bool:
        return self.is_lost

    def close(self) -> None:
        self.is_lost = True


class MemoryWay:
    """Connects at once, where it can."""

    def __init__(self, name: str, disk: Disk):
        self.name = name
        self._disk = disk
        self.is_open = True
        self.client: MemoryClient | None = None
        self._ready: Done | None = None

    def connect(self, ready: Done) -> Client:
        self.client = MemoryClient(self._disk)
        self._ready = ready
        if not self.is_open:
            self.client.is_lost = True
        return self.client

    def log_in(self) -> None:
        """The answer to the login arrives."""
        ready, self._ready = self._ready, None
        if ready:
            ready(self.is_open)

    def ping(self, client: Client, done: Done) -> None:
        client.flush(done)


class InitiatorTest(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.disk = Disk()
        self.ways = [MemoryWay("a", self.disk), MemoryWay("b", self.disk)]
        self.initiator = Initiator("test", self.ways, random.Random(1), Load(), self.clock, durable_answers=True)
        self.told = io.StringIO()
        self.turns(0.5)
        self.assertTrue(self.initiator.is_ready)

    def turns(self, seconds: float) -> None:
        with redirect_stdout(self.told):
            for _ in range(int(seconds * 100)):
                self.clock.seconds += 0.01
                self.initiator.turn(self.clock.seconds)
                for way in self.ways:
                    way.log_in()

    def verified(self) -> dict[str, object]:
        finished: list[bool] = []
        self.initiator.verify(lambda: finished.append(True))
        self.turns(1)
        self.assertTrue(finished)
        return self.initiator.report()

    def faultless(self) -> dict[str, object]:
        report = self.verified()
        self.assertEqual((report["violations"], report["errors"]), (0, 0))
        return report

    def speak_again_on_new_connections(self) -> None:
        self.disk.is_silent = False
        for way in self.ways:
            assert way.client
            way.client.is_lost = True
        self.turns(1)

    def test_undisturbed_work_is_verified_without_a_complaint(self) -> None:
        self.turns(1)
        report = self.faultless()
        self.assertGreater(report["durable"], 100)

    def test_lost_path_is_hidden_by_the_other(self) -> None:
        self.ways[0].is_open = False
        assert self.ways[0].client
        self.ways[0].client.is_lost = True
        self.turns(1)
        self.assertEqual(self.verified()["errors"], 0)
        self.assertIn('"state":"lost"', self.told.getvalue())
        self.assertNotIn('"event":"gap"', self.told.getvalue())

    def test_session_that_sends_nothing_any_more_is_replaced(self) -> None:
        for way in self.ways:
            assert way.client
            way.client.sends_nothing = True
        self.turns(1)
        self.faultless()
        self.assertIn('"state":"lost"', self.told.getvalue())

    def test_silence_is_a_gap_and_what_was_under_way_is_sent_again(self) -> None:
        self.disk.is_silent = True
        self.turns(SILENCE_S + PING_S_MAX + PAUSE_S + 0.1)
        self.speak_again_on_new_connections()
        report = self.faultless()
        self.assertGreater(report["repeated"], 0)
        self.assertEqual(self.told.getvalue().count('"event":"gap"'), 1)

    def test_patient_client_waits_until_its_connection_ends(self) -> None:
        self.initiator = Initiator("test", self.ways, random.Random(1), Load(), self.clock, durable_answers=True, patient=True)
        self.turns(0.5)
        self.disk.is_silent = True
        self.turns(10 * (SILENCE_S + PING_S_MAX))
        self.assertNotIn('"state":"lost"', self.told.getvalue())
        self.speak_again_on_new_connections()
        self.faultless()

    def test_medium_error_is_seen(self) -> None:
        self.disk.refusal = Refusal("medium error", 2, 3, 0x1100)
        self.turns(0.1)
        self.disk.refusal = None
        self.turns(0.1)
        self.assertGreater(self.verified()["errors"], 0)
        self.assertIn("medium error", self.told.getvalue())

    def test_unit_attention_busy_and_transition_are_not_seen(self) -> None:
        for refusal in (Refusal("", 2, 6, 0x2900), Refusal("", 8), Refusal("", 2, 2, 0x040A)):
            self.disk.refusal = refusal
            self.turns(0.03)
            self.disk.refusal = None
            self.turns(0.2)
        report = self.faultless()
        self.assertGreater(report["repeated"], 0)

    def test_forgotten_write_is_a_violation(self) -> None:
        self.disk.forgets = True
        self.turns(0.2)
        self.disk.forgets = False
        self.assertGreater(self.verified()["violations"], 0)
        self.assertIn('"event":"violation"', self.told.getvalue())


if __name__ == "__main__":
    unittest.main()
