"""The crash proof as a whole, on tgt and nbdkit: it passes without losses and fails with one."""

import importlib.util
import shutil
import unittest

from proof import runtime
from proof.servers.base import VolumeSpec

MISSING = [tool for tool in ("tgtd", "nbdkit") if shutil.which(tool) is None]
if importlib.util.find_spec("nbd") is None:
    MISSING.append("python3-libnbd")

SEED = 20


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}")
class CrashProofTest(unittest.TestCase):
    def run_proof(self, sabotaged: str | None) -> tuple[int, int]:
        from proof.crash.proof import CrashProof, Plan
        from proof.servers.peers import Peers

        volume = VolumeSpec("only", 4 << 20)
        with runtime.scratch("crash-test") as scratch:
            server = Peers(scratch, [volume])

            def sabotage(number: int) -> None:
                path = scratch / "only.raw"
                if number == 2 and sabotaged == "reverted":
                    path.write_bytes(before[0])
                elif number == 2 and sabotaged == "flipped":
                    with path.open("r+b") as file:
                        file.seek(0)
                        byte = file.read(1)
                        file.seek(0)
                        file.write(bytes([byte[0] ^ 0xFF]))
                before[0] = path.read_bytes()

            before = [b""]
            plan = Plan(rounds=3, seed=SEED, say=lambda _: None, sabotage=sabotage)
            try:
                tally = CrashProof(server, plan).run()
            finally:
                server.kill()
            return tally.acknowledged, tally.lost

    def test_nothing_lost_passes(self) -> None:
        acknowledged, lost = self.run_proof(None)
        self.assertGreater(acknowledged, 0)
        self.assertEqual(lost, 0)

    def test_nbd_clients_use_their_memory_again(self) -> None:
        from proof.clients.nbd import Memory
        from proof.crash.proof import CLIENTS_A_PROTOCOL
        from proof.crash.verify import READS_IN_FLIGHT
        from proof.crash.workload import DEPTH

        acknowledged, _ = self.run_proof(None)
        at_once = max(CLIENTS_A_PROTOCOL * DEPTH, READS_IN_FLIGHT)
        self.assertGreater(acknowledged, 4 * at_once)
        self.assertIn(Memory.spare_most(), range(1, at_once + 1))

    def test_a_file_reverted_between_kill_and_start_is_lost(self) -> None:
        _, lost = self.run_proof("reverted")
        self.assertGreater(lost, 0)

    def test_one_flipped_byte_is_found(self) -> None:
        _, lost = self.run_proof("flipped")
        self.assertGreater(lost, 0)


if __name__ == "__main__":
    unittest.main()
