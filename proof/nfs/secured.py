"""A relay that secures connections by RPC with TLS (RFC 9289), so that clients without it can judge a server that
requires it."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from proof.clients import rpc
from proof.clients.xdr import Reader, u32
from proof.process import checked

AUTH_TLS = 7
NFS, VERSION, NULL = 100_003, 4, 0
TRANSACTION = 1
STARTTLS = b"STARTTLS"
PIECE_BYTES = 1 << 18
NAME = "nfs.example"
CERTIFICATE_SECONDS = 60


def create_certificate(folder: Path) -> tuple[Path, Path]:
    """Creates a self-signed certificate, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    names = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    files = ["-keyout", key, "-out", certificate]
    checked(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", *names, *files], CERTIFICATE_SECONDS)
    return certificate, key


def _exactly(stream: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = stream.recv(count - len(found))
        if not piece:
            raise ConnectionError("the server closed the connection")
        found += piece
    return found


def secure(stream: socket.socket, authority: Path) -> ssl.SSLSocket:
    """Requests TLS, and starts it."""
    null = u32(TRANSACTION, rpc.CALL, rpc.RPC_VERSION, NFS, VERSION, NULL, AUTH_TLS, 0, 0, 0)
    stream.sendall(rpc.record(null))
    length = int.from_bytes(_exactly(stream, 4), "big") & ~rpc.LAST_FRAGMENT
    answer = Reader(_exactly(stream, length))
    if (answer.u32(), answer.u32(), answer.u32(), answer.u32()) != (TRANSACTION, rpc.REPLY, rpc.ACCEPTED, 0) or answer.opaque() != STARTTLS:
        raise ConnectionError("the server does not start TLS")
    context = ssl.create_default_context(cafile=str(authority))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["sunrpc"])
    return context.wrap_socket(stream, server_hostname=NAME)


def _receive(source: socket.socket) -> bytes | None:
    """Returns received data; none yet where TLS had messages of its own."""
    source.setblocking(False)
    try:
        return source.recv(PIECE_BYTES)
    except ssl.SSLWantReadError:
        return None
    finally:
        source.setblocking(True)


def _pass_on(client: socket.socket, secured: ssl.SSLSocket) -> None:
    """Relays both directions, on one thread, because a TLS session is not safe for concurrent use."""
    while True:
        ready = [secured] if secured.pending() else select.select([client, secured], [], [])[0]
        for source, target in ((client, secured), (secured, client)):
            piece = _receive(source) if source in ready else None
            if piece == b"":
                return
            if piece:
                target.sendall(piece)


def _relay(client: socket.socket, server: tuple[str, int], authority: Path) -> None:
    with client, suppress(OSError):
        plain = socket.create_connection(server)
        for end in (client, plain):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with secure(plain, authority) as secured:
            _pass_on(client, secured)


def _accept(listener: socket.socket, server: tuple[str, int], authority: Path) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_relay, args=(client, server, authority), daemon=True).start()


@contextmanager
def relay(at: tuple[str, int], server: tuple[str, int], authority: Path) -> Iterator[None]:
    """Listens until the block exits. Each accepted connection gets its own connection to the server, and is closed
    with it."""
    with socket.create_server(at) as listener:
        accepting = threading.Thread(target=_accept, args=(listener, server, authority), daemon=True)
        accepting.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
