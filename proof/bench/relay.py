"""``python3 -m proof.bench.relay LISTEN TARGET MICROSECONDS``: passes connections on, each byte so much later.

A substitute for distance where the kernel has no netem. The time is added on the way there; the way back is direct.
"""

from __future__ import annotations

import collections
import ctypes
import socket
import sys
import threading
import time

PIECE_BYTES = 1 << 20
QUEUED_BYTES_MAX = 8 << 20
"""A peer that stops receiving blocks the other one, as on a cable."""
PR_SET_TIMERSLACK = 29
SLACK_NANOSECONDS = 1_000


class Later:
    """Holds received data until it is due."""

    def __init__(self, delay: float):
        self._delay = delay
        self._pieces: collections.deque[tuple[float, bytes]] = collections.deque()
        self._queued = 0
        self._changed = threading.Condition()

    def put(self, piece: bytes) -> None:
        """Adds a piece; an empty one is the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queued < QUEUED_BYTES_MAX)
            self._pieces.append((time.perf_counter() + self._delay, piece))
            self._queued += len(piece)
            self._changed.notify_all()

    def take(self) -> bytes:
        """Blocks until the next piece is due."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._pieces))
            due, piece = self._pieces.popleft()
            self._queued -= len(piece)
            self._changed.notify_all()
        if (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        return piece


def _exact_sleep() -> None:
    # Applies to the calling thread: sleeps finish on time, and not 50 us later.
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, SLACK_NANOSECONDS, 0, 0, 0)


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _receive(origin: socket.socket, later: Later) -> None:
    piece = b"?"
    while piece:
        try:
            piece = origin.recv(PIECE_BYTES)
        except OSError:
            piece = b""
        later.put(piece)


def _send(later: Later, target: socket.socket) -> None:
    _exact_sleep()
    while piece := later.take():
        try:
            target.sendall(piece)
        except OSError:
            break
    _end(target)


def _copy(origin: socket.socket, target: socket.socket) -> None:
    try:
        while piece := origin.recv(PIECE_BYTES):
            target.sendall(piece)
    except OSError:
        pass
    _end(target)


def _pass_on(origin: socket.socket, target: socket.socket, delay: float) -> None:
    later = Later(delay)
    for body, arguments in ((_receive, (origin, later)), (_send, (later, target)), (_copy, (target, origin))):
        threading.Thread(target=body, args=arguments, daemon=True).start()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main(argv: list[str]) -> None:
    """Prints READY when it listens, and runs until it is killed."""
    listen, target, microseconds = argv
    listener = socket.create_server(_address(listen))
    print("READY", flush=True)
    while True:
        origin, _ = listener.accept()
        try:
            onward = socket.create_connection(_address(target))
        except OSError:
            origin.close()
            continue
        for one in (origin, onward):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _pass_on(origin, onward, int(microseconds) / 1e6)


if __name__ == "__main__":
    main(sys.argv[1:])
