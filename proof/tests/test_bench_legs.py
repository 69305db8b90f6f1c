"""The substitute for distance, and the selection of measured points."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
import unittest
from pathlib import Path

from proof.bench import legs
from proof.runtime import free_port

DELAY_US = 20_000
PIECE = b"x" * (3 << 20)


def _echo(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    while piece := connection.recv(1 << 16):
        connection.sendall(piece)
    connection.close()


class RelayTest(unittest.TestCase):
    """Connections that are relayed with a delay."""

    def test_all_bytes_arrive_in_order_and_none_too_early(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory() as folder:
            threading.Thread(target=_echo, args=(listener,), daemon=True).start()
            way = f"127.0.0.1:{free_port()}"
            relay = legs._relay(Path(folder), way, f"127.0.0.1:{listener.getsockname()[1]}", DELAY_US)
            try:
                host, _, port = way.rpartition(":")
                with socket.create_connection((host, int(port)), timeout=60) as client:
                    started = time.perf_counter()
                    client.sendall(b"?")
                    self.assertEqual(client.recv(1), b"?")
                    self.assertGreaterEqual(time.perf_counter() - started, DELAY_US / 1e6)
                    threading.Thread(target=client.sendall, args=(PIECE,), daemon=True).start()
                    came = b""
                    while len(came) < len(PIECE):
                        piece = client.recv(1 << 16)
                        self.assertTrue(piece, "the connection ended early")
                        came += piece
                    self.assertEqual(came, PIECE)
            finally:
                relay.kill()


class ChosenTest(unittest.TestCase):
    """Strings that select points."""

    def test_one_word_chooses_all_points_of_legs_and_another_some(self) -> None:
        self.assertEqual(legs.chosen("legs"), list(legs.POINTS))
        self.assertEqual(legs.chosen(None), list(legs.POINTS))
        self.assertEqual(legs.chosen("return,1m-write-1gbit"), [legs.RETURN, "legs-1m-write-1gbit"])
        self.assertEqual(legs.chosen("disk"), [])


if __name__ == "__main__":
    unittest.main()
