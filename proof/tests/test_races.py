"""The races proof judges an outage: a server that exits with the code for a restart is started again, and any other
exit is a defect."""

import tempfile
import unittest
from pathlib import Path
from typing import Any, cast

from proof.process import Child, Outcome
from proof.races.proof import RacesProof
from proof.runtime import ProofError
from proof.servers.bulkhead import Bulkhead


class EndingServer:
    """A suspended pool. ``pool clear`` reports success, and the server exits shortly after."""

    def __init__(self, directory: Path, status: int):
        self.legs = [directory / "leg0.img", directory / "leg1.img"]
        self.fault_file = directory / "leg-faults"
        self.children = [Child("server", ["sh", "-c", f"sleep 0.3; exit {status}"], directory / "log")]

    def status(self) -> dict[str, Any]:
        if not self.children[0].alive():
            raise ProofError("no server answers")
        return {"suspended": "wait"}

    def try_command(self, *_words: str) -> Outcome:
        return Outcome(0 if self.children[0].alive() else 7, "", 0.0)


def outage(status: int) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        server = EndingServer(Path(directory), status)
        return RacesProof(cast(Bulkhead, server), 1, 1, 1)._outage()


class OutageTest(unittest.TestCase):
    def test_a_server_that_begins_anew_has_ended_and_that_is_no_defect(self) -> None:
        self.assertTrue(outage(8))

    def test_a_server_that_ends_otherwise_is_a_defect(self) -> None:
        with self.assertRaisesRegex(ProofError, "ended with 1"):
            outage(1)


if __name__ == "__main__":
    unittest.main()
