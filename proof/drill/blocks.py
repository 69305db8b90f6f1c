"""``python3 -m proof.drill.blocks write|read NBD-URI``: the blocks of an export, one request each.

``write`` writes the standard input durably. ``read`` reads as many blocks as the standard input has, and prints a
line for each: ``right``, ``wrong``, ``error`` and the error, or ``silent`` and the reason. Each lost connection is a
line, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from proof import runtime
from proof.clients.base import ClientError, drive_until, wait_done
from proof.clients.nbd import NbdAddress, NbdClient

BLOCK = 16 << 10
ANSWER_S = 10.0
"""A block without a reply within this time has none."""


def read_block(client: NbdClient, number: int, expected: bytes) -> str:
    """Returns the line of one block; raises ``ClientError`` when there is no reply."""
    answers: list[bytes | None] = []
    client.read(number * BLOCK, BLOCK, answers.append)
    drive_until([client], lambda: bool(answers), ANSWER_S, f"block {number}")
    if client.dead:
        raise ClientError(f"the connection is lost: {client.last_error}")
    if answers[0] is None:
        return f"error {client.last_error}"
    return "right" if answers[0] == expected else "wrong"


def read_blocks(connect: Callable[[], NbdClient], contents: bytes) -> list[str]:
    """Returns a line for each block. After one without a reply the rest is not read: each block would cost the same
    time-out."""
    lines: list[str] = []
    client = connect()
    for number in range(len(contents) // BLOCK):
        try:
            lines.append(read_block(client, number, contents[number * BLOCK : (number + 1) * BLOCK]))
        except ClientError as error:
            lines.append(f"silent {error}")
            break
    client.close()
    return lines


def main(words: list[str]) -> int:
    """Runs the command."""
    runtime.require_nbd()
    verb, uri = words
    contents = sys.stdin.buffer.read()
    if verb == "write":
        client = NbdClient(NbdAddress(uri))
        for start in range(0, len(contents), BLOCK):
            data = bytearray(contents[start : start + BLOCK])
            wait_done(client, lambda done, start=start, data=data: client.write(start, data, True, done))  # type: ignore[misc]
        wait_done(client, client.flush)
        client.close()
        return 0
    try:
        lines = read_blocks(lambda: NbdClient(NbdAddress(uri)), contents)
    except ClientError as error:
        lines = [f"silent {error}"]
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
