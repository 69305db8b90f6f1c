"""Shared helpers for stream sockets."""

from __future__ import annotations

import socket


def receive(connection: socket.socket, count: int) -> bytes:
    """Receives exactly ``count`` bytes; ``ConnectionError`` when the server closes."""
    data = bytearray()
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionResetError("the server closed the connection")
        data += part
    return bytes(data)
