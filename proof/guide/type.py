"""``python3 -m proof.guide.type LINE COMMAND``: runs a command on a terminal, and types the line at each prompt."""

from __future__ import annotations

import os
import pty
import sys

line, command = sys.argv[1:]
child, terminal = pty.fork()
if child == 0:
    os.execvp("bash", ["bash", "-c", command])
while True:
    try:
        said = os.read(terminal, 4096)
    except OSError:
        break
    if not said:
        break
    sys.stdout.write(said.decode(errors="replace"))
    if said.rstrip(b" ").endswith(b":"):
        os.write(terminal, line.encode() + b"\n")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
