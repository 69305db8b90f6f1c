"""``python3 -m proof.guide``: every command of the guide that a single host can run, in namespaces of its own."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from proof import runtime
from proof.guide.blocks import Page, pages, script_of
from proof.guide.table import NOT_RUN, PAGES
from proof.process import run
from proof.runtime import REPOSITORY, ProofError
from proof.servers.bulkhead import program

PAGE_SECONDS = 120.0
SHOWN_BYTES = 3000
SCRATCH_BYTES = 1 << 30
APART = ("unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child")
PROBE_SECONDS = 20.0
# All changes of a page are gone with its namespaces: its writes go into memory. The checkout may be in one of the
# directories that are hidden: it is visible through the scratch directory.
WORLD = """set -eE -o pipefail
mount --make-rprivate /
mount --rbind "$REPOSITORY" "$SCRATCH/repository"
mount --bind "$PROGRAMS" "$SCRATCH/programs"
for folder in /etc /var/lib /usr/local /root; do
    mkdir -p "$SCRATCH/layers$folder/up" "$SCRATCH/layers$folder/work"
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=$SCRATCH/layers$folder/up,workdir=$SCRATCH/layers$folder/work" $folder
done
# Labs on this host start and stop during the run.
mkdir -p /var/lib/bulkhead
for folder in /run /srv /mnt /var/lib/bulkhead; do mount -t tmpfs tmpfs $folder; done
mount -t proc proc /proc
ip link set lo up
for address in 10.0.0.1/32 10.1.0.1/32 fd00::1/128; do ip address add $address dev lo; done
mkdir -p /etc/bulkhead /srv/work; cd /srv/work
unset BULKHEAD_SEARCH BULKHEAD_RUN_DIR BULKHEAD_STATE_DIR
step() { echo "@@ line $1: $2"; }
trap 'echo "@@ ended with $?"' ERR
serve() {
    local pool=$1; shift
    if [ -S "/run/bulkhead/$pool.sock" ]; then bulkhead pool export "$pool" --in-use 2>/dev/null || true; fi
    bulkhead pool-server "$pool" "$@" &
    for _ in $(seq 600); do
        if bulkhead status "$pool" --json 2>/dev/null | grep -q '"pid"'; then return 0; fi
        sleep 0.1
    done
    return 1
}
"""


def _judge(name: str, page: Page, text: str) -> tuple[int, int, str]:
    """Returns how many commands ran, how many are shown elsewhere, and the errors."""
    typist = [sys.executable, "-m", "proof.guide.type"]
    script, ran, left = script_of(page, text, typist)
    served = program().resolve()
    with runtime.scratch(f"guide-{name}", base=runtime.memory_base(SCRATCH_BYTES)) as scratch:
        for folder in ("bin", "repository", "programs"):
            (scratch / folder).mkdir()
        (scratch / "bin" / "bulkhead").symlink_to(scratch / "programs" / served.name)
        file = scratch / "page.sh"
        file.write_text(WORLD + script)
        env = {
            "SCRATCH": str(scratch),
            "REPOSITORY": str(REPOSITORY),
            "PROGRAMS": str(served.parent),
            "PATH": f"{scratch}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": f"{scratch}/repository",
        }
        outcome = run([*APART, "bash", file], PAGE_SECONDS, env=env)
    return ran, left, "" if outcome.ok else f"{name}: {outcome.output[-SHOWN_BYTES:]}"


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="proof.guide", description=__doc__)
    parser.add_argument("--only", action="append", help="pages; may be repeated")
    arguments = parser.parse_args(argv)
    there = pages(Path(REPOSITORY) / "docs" / "guide")
    if unknown := sorted(there.keys() ^ {*PAGES, *NOT_RUN}):
        raise ProofError(f"proof/guide/table.py and the guide do not agree about {unknown}")
    if not (probe := run([*APART, "true"], PROBE_SECONDS)).ok:
        print(f"guide: skipped, this host cannot create namespaces: {probe.output.strip()}")
        return 0
    complaints, ran, left = [], 0, 0
    for name, page in PAGES.items():
        if arguments.only and name not in arguments.only:
            continue
        started = time.monotonic()
        done, others, complaint = _judge(name, page, there[name])
        ran, left = ran + done, left + others
        complaints += [complaint] if complaint else []
        print(f"{name}: {done} commands, {time.monotonic() - started:.1f} s{', WRONG' if complaint else ''}")
    return runtime.verdict(complaints, f"guide: {ran} commands of {len(PAGES)} pages, {left} shown elsewhere, {len(complaints)} wrong")


if __name__ == "__main__":
    runtime.command(main)
