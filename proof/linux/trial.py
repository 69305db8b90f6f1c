"""Runs the steps one after the other, a line each, and counts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from proof.linux.kernel_log import judge
from proof.linux.machine import Machine
from proof.runtime import ProofError


class EssentialStepFailed(ProofError):
    """No later step would be meaningful."""


class Trial:
    """The count of a run."""

    machine: Machine
    """The guest with the judged kernel log."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.known = 0
        """Reports of the guest's kernel about a defect of its own, which newer kernels have fixed."""

    def step(
        self,
        title: str,
        action: Callable[[], str],
        *,
        expected: re.Pattern[str] | None = None,
        essential: bool = False,
    ) -> None:
        """Runs one step; ``action`` returns its result. Trouble in the guest's kernel log fails it, too, unless
        ``expected`` matches the line."""

        def judged() -> str:
            words = action()
            judgement = judge(self.machine.run("dmesg --read-clear"), expected)
            for report in judgement.known:
                self.known += 1
                print(f"known   {title}: a defect of the guest's kernel, mended in newer ones (proof/linux/kernel_log.py):\n{report}")
            if judgement.complaints:
                raise ProofError("the guest's kernel complains:\n" + "\n".join(judgement.complaints[:20]))
            return words

        if not self._count(title, judged):
            self._tell_more()
            if essential:
                raise EssentialStepFailed(f"later steps depend on this one: {title}")

    def judged(self, title: str, action: Callable[[], str], *, essential: bool = False) -> None:
        """Runs one step without a judged kernel log: virtual machines start and stop in it."""
        if not self._count(title, action) and essential:
            raise EssentialStepFailed(f"later steps depend on this one: {title}")

    def part(self, action: Callable[[], None]) -> None:
        """Runs steps that build on each other; an essential step that fails skips the rest of them, and no other
        steps."""
        try:
            action()
        except EssentialStepFailed as error:
            print(error)

    def audit(self, action: Callable[[], str]) -> None:
        """Runs a last step, after the guest is off."""
        self._count("pool", action)

    def _count(self, title: str, action: Callable[[], str]) -> bool:
        started = time.monotonic()
        try:
            words = action()
        except ProofError as error:
            self.failed += 1
            print(f"FAILED  {title}: {error}")
            return False
        self.passed += 1
        print(f"ok      {title}: {words} ({time.monotonic() - started:.1f} s)")
        return True

    def skip(self, title: str, reason: str) -> None:
        """Counts a step that this guest does not support."""
        self.skipped += 1
        print(f"skipped {title}: {reason}")

    def _tell_more(self) -> None:
        try:
            state = "iscsiadm -m session -P 1 | grep -E 'Portal|State'; multipath -ll; dmesg --read-clear | tail -n 30; true"
            print(self.machine.attempt(state, 30).output)
        except ProofError as error:
            print(f"        {error}")

    def verdict(self) -> str:
        """The last line."""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        known = f", {self.known} known defects of the guest's kernel" if self.known else ""
        return f"linux initiator: {self.passed} passed, {self.failed} failed{skipped}{known}"
