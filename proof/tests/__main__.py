"""``python3 -m proof.tests``: the proofs' own tests, under the interpreter that has libnbd."""

import sys
import unittest
from pathlib import Path

from proof import runtime

if __name__ == "__main__":
    runtime.use_interpreter_with_libnbd()
    suite = unittest.defaultTestLoader.discover(str(Path(__file__).parent), top_level_dir=str(runtime.REPOSITORY))
    result = unittest.TextTestRunner(verbosity=1).run(suite)
    print(f"proof tests: {result.testsRun - len(result.skipped)} run, {len(result.skipped)} skipped")
    sys.exit(0 if result.wasSuccessful() else 1)
