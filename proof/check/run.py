"""Runs steps in lanes. A failure does not stop the run, so that one run shows all failures."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from proof import runtime
from proof.check.table import Step

STEP_SECONDS_MAX = 2400
"""A step that exceeds this time hangs: it is killed, and counts as failed."""

_output = threading.Lock()


@dataclass(frozen=True)
class Outcome:
    """The result of a step."""

    step: Step
    seconds: float
    code: int | None
    """The exit code; none for a step that was killed."""
    text: str = ""
    """Its output."""

    @property
    def passed(self) -> bool:
        return self.code == 0


def run_step(step: Step, env: Mapping[str, str]) -> Outcome:
    """Runs one step. Its output is printed when it has exited, so that concurrent steps do not mix."""
    print(f"=== begun: {step.name}", flush=True)
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        # A process group of its own: no process of the step outlives it.
        process = subprocess.Popen(
            ["bash", "-c", step.command], cwd=runtime.REPOSITORY, env=dict(env), stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        forget = runtime.at_exit(lambda: _kill(process))
        try:
            code: int | None = process.wait(STEP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            code = None
        forget()
        _kill(process)
        process.wait()
        seconds = time.monotonic() - started
        output.seek(0)
        text = output.read().decode(errors="replace")
    how = "ok" if code == 0 else f"FAILED ({'killed' if code is None else f'exit code {code}'})"
    with _output:
        print(f"=== {step.name}: {step.command}\n{text}=== {how}: {step.name} ({seconds:.0f} s)", flush=True)
    return Outcome(step, seconds, code, text)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run_lanes(steps: Sequence[Step], env: Mapping[str, str]) -> list[Outcome]:
    """Runs the lanes of ``steps`` concurrently."""
    outcomes: list[Outcome] = []

    def run_lane(lane: str) -> None:
        for step in steps:
            if step.lane == lane:
                outcomes.append(run_step(step, env))

    threads = [threading.Thread(target=run_lane, args=(lane,)) for lane in dict.fromkeys(step.lane for step in steps)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def summary(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Returns the table of all steps, slowest first, and the closing line."""
    lines = [
        f"{'ok' if outcome.passed else 'FAILED':6}  {outcome.seconds:6.0f} s  {outcome.step.name}"
        for outcome in sorted(outcomes, key=lambda outcome: -outcome.seconds)
    ]
    failed = sum(not outcome.passed for outcome in outcomes)
    lines.append(f"{seconds / 60:.1f} minutes")
    lines.append(f"{len(outcomes) - failed} passed, {failed} failed")
    return "\n".join(lines)
