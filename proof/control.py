"""A client of the control socket: many requests without a process for each."""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path
from typing import Any

from proof.runtime import ProofError
from proof.stream import receive

ANSWER_SECONDS = 60.0


class Control:
    """One connection."""

    def __init__(self, path: Path, answer_seconds: float = ANSWER_SECONDS):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(answer_seconds)
        self._socket.connect(str(path))

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: object) -> Any:
        """Returns the result, without its kind."""
        message = self.exchange(request)
        if failure := message.get("failure"):
            raise ProofError(f"{request}: {failure['message']}")
        return next(iter(message["answer"].values()))

    def exchange(self, request: object) -> dict[str, Any]:
        """Returns the ``answer`` or the ``failure`` (docs/formats/control.md)."""
        frame = json.dumps({"version": 1, "request": request}).encode()
        self._socket.sendall(struct.pack(">I", len(frame)) + frame)
        while True:
            (length,) = struct.unpack(">I", self._take(4))
            message: dict[str, Any] = json.loads(self._take(length))
            if message.get("failure") or message.get("answer"):
                return message

    def _take(self, length: int) -> bytes:
        try:
            return receive(self._socket, length)
        except ConnectionError as error:
            raise ProofError("the server closed the control socket") from error
