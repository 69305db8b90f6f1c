"""The drills' initiators hide lost paths, and nothing else: each fault that they must report has a test here."""

import io
import random
import unittest
from collections.abc import Callable
from contextlib import redirect_stdout
from unittest import mock

from proof.clients import nfs
from proof.clients.base import Client, Done, ReadDone, Refusal
from proof.clients.nfs import FilePath, NfsAddress, NfsClient
from proof.clients.xdr import Reader, u32
from proof.drill.events import Events
from proof.drill.files import FileInitiator
from proof.drill.initiator import Initiator, Load
from proof.drill.names import Names
from proof.drill.path import PAUSE_S, PING_S_MAX, SILENCE_S

SIZE = 1 << 20


class Clock(Events):
    """Events with a clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds


class Disk:
    """The volume behind all paths, and its handling of requests."""

    def __init__(self) -> None:
        self.contents = bytearray(b"\xff" * SIZE)
        self.refusal: Refusal | None = None
        self.is_silent = False
        self.forgets = False


class MemoryClient(Client):
    """Replies at once, or never."""

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
        """Delivers the reply to the login."""
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


class Share(Disk):
    """A file, a directory and a lock, and the server's handling of them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[bytes] = set()
        self.verifier = b"started1"
        self.lock_status = nfs.DENIED
        self.forgets_names = False


class MemoryNfs(MemoryClient, NfsClient):
    """A client of such a server."""

    def __init__(self, share: Share):
        super().__init__(share)
        self.share = share
        self.verifier = share.verifier

    def _change(self, refused: int, change: Callable[[], None], done: Done) -> None:
        if self.is_lost or self.share.is_silent:
            return
        if refused:
            self.last_refusal = Refusal("refused", refused)
        elif not self.share.forgets_names:
            change()
        done(not refused)

    def write(self, offset: int, data: bytearray, forced: bool, done: Done) -> None:
        self.verifier = self.share.verifier
        super().write(offset, data, forced, done)

    def make_directory(self, path: FilePath, done: Done) -> None:
        done(True)

    def make_file(self, path: FilePath, done: Done) -> None:
        self._change(nfs.EXIST * (path[-1] in self.share.names), lambda: self.share.names.add(path[-1]), done)

    def rename(self, directory: FilePath, old: bytes, new: bytes, done: Done) -> None:
        self._change(nfs.NOENT * (old not in self.share.names), lambda: self.share.names.symmetric_difference_update({old, new}), done)

    def remove(self, directory: FilePath, name: bytes, done: Done) -> None:
        self._change(nfs.NOENT * (name not in self.share.names), lambda: self.share.names.discard(name), done)

    def list(self, directory: FilePath, done: Callable[[set[bytes] | None], None]) -> None:
        done(set(self.share.names))

    def try_lock(self, span: tuple[int, int], done: Callable[[int], None]) -> None:
        done(self.share.lock_status)

    def ping(self, done: Done) -> None:
        self._finish(done)


class FileInitiatorTest(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.share = Share()
        self.ways: list[MemoryNfsWay] = []
        addresses = [NfsAddress("a", 2049, (b"tank", b"file"), SIZE), NfsAddress("b", 2049, (b"tank", b"file"), SIZE)]
        with mock.patch("proof.drill.files.NfsWay", self._way):
            self.initiator = FileInitiator("test", addresses, random.Random(1), Load(), self.clock)
        self.told = io.StringIO()
        self.turns(1)
        self.assertTrue(self.initiator.is_ready)

    def _way(self, address: NfsAddress, identity: nfs.Identity) -> "MemoryNfsWay":
        self.identity = self.identity if self.ways else identity
        self.ways.append(MemoryNfsWay(address.host, self.share))
        return self.ways[-1]

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
        self.turns(2)
        self.assertTrue(finished)
        return self.initiator.report()

    def test_undisturbed_work_is_verified_without_a_complaint(self) -> None:
        self.turns(2)
        report = self.verified()
        self.assertEqual((report["violations"], report["errors"]), (0, 0))
        self.assertGreater(report["names"], 20)
        self.assertGreater(report["denied"], 5)

    def test_changes_of_names_that_were_executed_and_not_answered_are_no_errors(self) -> None:
        change = MemoryNfs._change
        dropped: list[str] = []

        def executed_without_an_answer(client: MemoryNfs, refused: int, execute: Callable[[], None], done: Done) -> None:
            if refused or len(dropped) >= 9 or client.is_lost:
                change(client, refused, execute, done)
            else:
                execute()
                dropped.append("")
                client.is_lost = True

        with mock.patch.object(MemoryNfs, "_change", executed_without_an_answer):
            self.turns(2)
        report = self.verified()
        self.assertEqual((len(dropped), report["violations"], report["errors"]), (9, 0, 0))

    def test_forgotten_name_is_a_violation(self) -> None:
        self.share.forgets_names = True
        self.turns(0.05)
        while not self.initiator._names.acknowledged:
            self.turns(0.05)
        self.share.forgets_names = False
        self.assertGreater(self.verified()["violations"], 0)
        self.assertIn("lost: the name", self.told.getvalue())

    def test_lock_that_somebody_else_gets_is_a_violation(self) -> None:
        self.share.lock_status = nfs.OK
        self.turns(1)
        self.assertEqual(self.verified()["violations"], 1)
        self.assertIn("another client got the lock", self.told.getvalue())

    def test_lock_that_nobody_was_refused_is_not_verified(self) -> None:
        self.share.lock_status = nfs.DELAY
        finished: list[bool] = []
        self.initiator.verify(lambda: finished.append(True))
        self.turns(2)
        self.assertEqual(finished, [])
        self.share.lock_status = nfs.DENIED
        self.turns(1)
        self.assertEqual(finished, [True])

    def test_what_a_server_does_not_give_back_is_a_violation(self) -> None:
        self.identity.lost.append("tank/file cannot be reclaimed: refused")
        self.turns(0.1)
        self.assertEqual(self.verified()["violations"], 1)

    def test_commit_of_a_server_that_was_started_since_makes_nothing_durable_that_was_before(self) -> None:
        self.turns(0.3)
        before = bytes(self.share.contents)
        self.turns(0.3)
        durable = [self.verified()["durable"]]
        self.assertNotEqual(bytes(self.share.contents), before)
        flush = self.initiator._ledger.flush_issued()  # type: ignore[union-attr]
        self.assertEqual(flush.covered, [], "a verified operation needs no flush")
        with mock.patch.object(self.initiator._rng, "random", lambda: 0.99):
            # Only writes, none of them forced.
            self.turns(0.2)
        client = self.ways[0].client
        assert isinstance(client, MemoryNfs)
        covered = len(self.initiator._flush_issued(client).covered)
        client.verifier = self.share.verifier = b"started2"
        self.assertGreater(covered, 0)
        self.assertEqual(self.initiator._flush_issued(client).covered, [])
        self.assertGreater(durable[0], 0)


    def lose_what_was_not_committed(self, verifier: bytes) -> None:
        """Restarts the server with the committed state."""
        self.turns(0.3)
        self.verified()
        before = bytes(self.share.contents)
        with mock.patch.object(self.initiator._rng, "random", lambda: 0.99):
            # Only writes, none of them forced.
            self.turns(0.2)
        self.assertNotEqual(bytes(self.share.contents), before)
        self.share.contents[:], self.share.verifier = before, verifier
        for way in self.ways:
            assert isinstance(way.client, MemoryNfs)
            way.client.is_lost = True
        with mock.patch.object(self.initiator._rng, "random", lambda: 0.2):
            # Only reads.
            self.turns(3)

    def test_reads_may_miss_what_another_server_answered_and_nobody_committed(self) -> None:
        self.lose_what_was_not_committed(b"started2")
        self.assertEqual(self.verified()["violations"], 0)

    def test_reads_may_miss_nothing_of_the_same_server(self) -> None:
        self.lose_what_was_not_committed(b"started1")
        self.assertGreater(self.verified()["violations"], 0)
        self.assertIn("stale", self.told.getvalue())


class TakeBackTest(unittest.TestCase):
    """The requests of a client to a restarted server."""

    def setUp(self) -> None:
        path = (b"tank", b"file")
        self.identity = nfs.Identity(b"test", opened={path: b"handle"}, locks={path: (0, 9)}, client=1)

    def begin(self, client: int) -> nfs.Steps:
        connected = object.__new__(NfsClient)
        connected._identity = self.identity
        return connected._take_back(client)

    def opened(self) -> Reader:
        return Reader(bytes(16 + 4 + 16 + 4) + u32(0, 0))

    def test_what_was_given_back_is_not_asked_for_again(self) -> None:
        first = self.begin(2)
        self.assertEqual(next(first)[-1][0], nfs.OPEN)
        self.assertEqual(first.send(self.opened())[-1][0], nfs.LOCK)
        self.assertEqual(first.send(Reader(b""))[-1][0], nfs.RECLAIM_COMPLETE)
        # The server has executed it, and the connection is lost before the reply arrives.
        second = self.begin(2)
        self.assertEqual(next(second)[-1][0], nfs.RECLAIM_COMPLETE)
        with self.assertRaises(StopIteration):
            second.throw(nfs.StatusError(nfs.RECLAIM_COMPLETE, nfs.COMPLETE_ALREADY))
        self.assertEqual((self.identity.client, self.identity.lost), (2, []))

    def test_another_server_is_asked_for_all(self) -> None:
        first = self.begin(2)
        next(first)
        first.send(self.opened())
        second = self.begin(3)
        self.assertEqual(next(second)[-1][0], nfs.OPEN)


class MemoryNfsWay(MemoryWay):
    """Connects to a share."""

    def __init__(self, name: str, share: Share):
        super().__init__(name, share)
        self._share = share

    def connect(self, ready: Done) -> Client:
        super().connect(ready)
        self.client = MemoryNfs(self._share)
        return self.client


class NamesTest(unittest.TestCase):
    def test_what_is_lost_and_what_is_there_again_is_told(self) -> None:
        names = Names(random.Random(1))
        kept, gone = names.next(), names.next()
        assert kept and gone and kept.new and gone.new
        for change in (kept, gone):
            names.answered(change)
            names.ended(change)
        self.assertEqual(names.judge({kept.new, gone.new}), [])
        self.assertEqual(len(names.judge({kept.new})), 1)
        self.assertEqual(len(names.judge({kept.new, gone.new, b"other"})), 1)


if __name__ == "__main__":
    unittest.main()
