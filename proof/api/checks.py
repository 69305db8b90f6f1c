"""The checks of the API, in the order of an administrator's day."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proof.api.head import PASSWORD, Head
from proof.api.web import Web
from proof.runtime import REPOSITORY, ProofError, wait_until

VOLUME = "tank/vms/vm0"
IQN = "iqn.2026-01.org.example:api"
WAIT_SECONDS = 60.0
FLOODER, GUESSER = "127.0.0.2", "127.0.0.3"
"""Limits are per address: these two exhaust their own limits and leave those of later checks alone."""
CROWD, CROWD_CONNECTIONS = range(10, 18), 64
"""Addresses that occupy all connections that idle clients can occupy."""
GUESSES = 12
FLOOD_REQUESTS = 600
"""More requests than the limit of an address."""


@dataclass
class Place:
    """The head, and a client for each user."""

    head: Head
    port: int
    nobody: Web
    users: dict[str, Web]
    validator: Path


def expect(wanted: object, found: object, words: str) -> None:
    """Requires that both are equal."""
    if wanted != found:
        raise ProofError(f"{words}: wanted {wanted}, found {found}")


def _kind(answer: tuple[int, Any]) -> tuple[int, str]:
    status, document = answer
    return status, document["failure"]["kind"] if document and "failure" in document else "done"


def who_is_nobody(place: Place) -> None:
    """Without a login no request returns data or changes state; the name and the origin of another site are refused."""
    for path in ("/overview", "/pools", "/users", "/stream", "/audit", "/pools/tank"):
        expect((401, "denied"), _kind(place.nobody.ask("GET", path)), f"GET {path} without a login")
    expect((401, "denied"), _kind(place.nobody.ask("POST", "/pools", {})), "POST by nobody")
    anna = place.users["anna"]
    rebound = anna.ask("GET", "/overview", Host="evil.example.org")
    expect((403, "denied"), _kind(rebound), "another host's name")
    foreign = anna.ask("POST", "/tokens", {"name": "x"}, Origin="https://evil.example.org")
    expect((403, "denied"), _kind(foreign), "another site's page")
    without = Web(place.port)
    without.cookie = anna.cookie
    expect((403, "denied"), _kind(without.ask("POST", "/tokens", {"name": "x"})), "no CSRF token")
    plain = anna.raw("POST", "/api/v1/tokens", b'{"name":"x"}', {"Content-Type": "text/plain"})
    expect(400, plain[0], "JSON with the content type of plain text")


def the_daily_work(place: Place) -> None:
    """A pool, a volume, a snapshot, a target, an export; each role can do exactly the actions of its rights."""
    anna, otto, rita = (place.users[name] for name in ("anna", "otto", "rita"))
    disks = [str(disk) for disk in place.head.disks[:2]]
    pool = {"name": "tank", "groups": [{"kind": "mirror", "role": "data", "devices": disks}], "serve": True}
    expect((403, "denied"), _kind(otto.ask("POST", "/pools", pool)), "an operator creates a pool")
    expect((200, "done"), _kind(anna.ask("POST", "/pools", pool)), "an admin creates a pool")
    volume = {"name": VOLUME, "size": 32 << 20, "sparse": True, "parents": True}
    expect((403, "denied"), _kind(rita.ask("POST", "/pools/tank/volumes", volume)), "a reader creates a volume")
    expect((200, "done"), _kind(otto.ask("POST", "/pools/tank/volumes", volume)), "an operator creates a volume")
    expect((409, "exists"), _kind(otto.ask("POST", "/pools/tank/volumes", volume)), "the same volume again")
    change = {"size": 64 << 20, "properties": {"compression": "lz4"}}
    expect((200, "done"), _kind(otto.ask("PATCH", "/pools/tank/volumes/vms%2Fvm0", change)), "a change")
    status, shown = rita.ask("GET", "/pools/tank/volumes/vms%2Fvm0")
    expect((200, 64 << 20), (status, shown.get("size")), "the volume as a reader sees it")
    expect((200, "done"), _kind(otto.ask("POST", "/pools/tank/snapshots", {"names": [f"{VOLUME}@one"]})), "a snapshot")
    expect((200, "done"), _kind(otto.ask("POST", "/pools/tank/targets", {"name": IQN})), "a target")
    expect((200, "done"), _kind(otto.ask("POST", f"/pools/tank/targets/{IQN}/map", {"volume": VOLUME})), "a map")
    expect((200, "done"), _kind(otto.ask("POST", "/pools/tank/nbd", {"volume": VOLUME, "name": "vm0"})), "an export")
    bad = otto.ask("POST", "/pools/tank/volumes", {"name": "tank/b%d", "size": 1 << 20})
    expect((400, "usage"), _kind(bad), "a name that ZFS forbids")
    expect((404, "not_found"), _kind(rita.ask("GET", "/pools/tank/volumes/none")), "a volume that does not exist")


def everything_a_pool_can_be_asked(place: Place) -> None:
    """The endpoint of control requests applies the same rights and requires the same names."""
    otto, anna = place.users["otto"], place.users["anna"]

    def ask(web: Web, request: Any, **more: Any) -> tuple[int, str]:
        return _kind(web.ask("POST", "/pools/tank/requests", {"request": request, **more}))

    destroy = {"snapshot": {"destroy": {"names": [f"{VOLUME}@one"]}}}
    expect((200, "done"), ask(place.users["rita"], "status"), "a reader looks")
    expect((403, "denied"), ask(otto, destroy, confirm=f"{VOLUME}@one"), "an operator destroys")
    expect((428, "needs_confirmation"), ask(anna, destroy), "no name")
    expect((428, "needs_confirmation"), ask(anna, destroy, confirm="another"), "another name")
    expect((200, "done"), ask(anna, destroy, confirm=f"{VOLUME}@one"), "the name")
    expect((400, "usage"), ask(anna, {"volume": "explode"}), "an unknown request")
    scrub = {"request": {"pool": {"scrub": {"action": "start", "wait": True}}}, "background": True}
    status, operation = otto.ask("POST", "/pools/tank/requests", scrub)
    expect(200, status, "a scrub in the background")
    path = f"/operations/{operation['id']}"
    wait_until("the scrub ends", lambda: otto.ask("GET", path)[1]["state"] != "running", WAIT_SECONDS, 0.1)
    expect("done", otto.ask("GET", path)[1]["state"], "the scrub")


def what_an_operator_does_not_decide(place: Place) -> None:
    """Rights follow from the effect of a request: also from the parent that a dataset gets, and from the files that
    root would open for it."""
    otto, anna = place.users["otto"], place.users["anna"]

    def ask(web: Web, noun: str, verb: str, **arguments: Any) -> tuple[int, str]:
        confirm = {"confirm": arguments["name"]} if verb == "destroy" else {}
        return _kind(web.ask("POST", "/pools/tank/requests", {"request": {noun: {verb: arguments}}, **confirm}))

    def create(name: str, **properties: str) -> tuple[int, str]:
        made = {"owner": 0, "group": 0, "mode": "0755", "parents": False, "exist_ok": False}
        return ask(anna, "filesystem", "create", name=name, properties=properties, **made)

    denied, done = (403, "denied"), (200, "done")
    expect(done, create("tank/wide", sharenfs="ro=192.0.2.0/24"), "a shared file system")
    expect(done, create("tank/secret"), "one that is not shared")
    expect(done, ask(otto, "snapshot", "create", names=["tank/secret@one", f"{VOLUME}@two"], recursive=False), "snapshots")
    for source, to, properties in (
        (f"{VOLUME}@two", "tank/copy", {"bulkhead:replicate": "{}"}),
        (f"{VOLUME}@two", "tank/copy", {"sync": "disabled"}),
        (f"{VOLUME}@two", "tank/copy", {"readonly": "on"}),
        ("tank/secret@one", "tank/wide/copy", {}),
    ):
        expect(denied, ask(otto, "snapshot", "clone", **{"from": source}, to=to, properties=properties), f"an operator clones {properties}")
        path = f"/pools/tank/snapshots/{source.removeprefix('tank/').replace('/', '%2F').replace('@', '%40')}/clone"
        expect(denied, _kind(otto.ask("POST", path, {"to": to, "properties": properties})), f"the same by {path}")
    own = {"bulkhead:replicate": "{}"}
    expect((400, "usage"), ask(anna, "snapshot", "clone", **{"from": "tank/secret@one"}, to="tank/copy", properties=own), "an admin does")
    freely = {"from": "tank/secret@one", "to": "tank/wide/copy", "properties": {}, "keep_rights": False}
    expect(denied, ask(otto, "snapshot", "clone", **freely), "an operator that grants it to itself")
    expect(denied, ask(otto, "filesystem", "rename", **{"from": "tank/secret"}, to="tank/wide/secret"), "a new name")
    expect(denied, _kind(otto.ask("PATCH", "/pools/tank/filesystems/secret", {"name": "tank/wide/secret"})), "the same by a change")
    expect(done, ask(otto, "filesystem", "rename", **{"from": "tank/secret"}, to="tank/closed"), "a name next to it")
    disk = str(place.head.disks[0])
    for path in ("/etc/shadow", "/dev/../etc/shadow"):
        expect(denied, ask(otto, "pool", "attach", existing=disk, new=path, overwrite=False), f"{path} is attached")
    expect(True, ask(otto, "pool", "attach", existing=disk, new="/dev/null", overwrite=False)[0] >= 400, "/dev/null is attached")
    expect(denied, ask(otto, "key", "load", name=VOLUME, location="file:///dev/watchdog", key=None), "a key is read from a device")
    expect(denied, _kind(otto.ask("POST", "/appliance/check", {"text": "x"})), "an operator checks a file")
    written = [entry.get("details") or "" for entry in anna.ask("GET", "/audit?limit=100")[1]]
    expect(True, any("tank/copy: bulkhead:replicate" in details for details in written), f"the audit log: {written}")
    for name in ("tank/wide", "tank/closed"):
        expect(done, ask(anna, "filesystem", "destroy", name=name, recursive=True, shared=True), f"{name} is destroyed")


def the_stream(place: Place) -> None:
    """The stream starts with the overview, then sends measurements, then events."""
    rita = place.users["rita"]
    with socket.create_connection(("127.0.0.1", place.port), timeout=WAIT_SECONDS) as connection:
        head = f"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nCookie: {rita.cookie}\r\n\r\n"
        connection.sendall(head.encode())
        lines = connection.makefile("r", encoding="utf-8")
        seen: dict[str, Any] = {}
        name = ""
        deadline = time.monotonic() + WAIT_SECONDS
        while not {"overview", "metrics", "event"} <= set(seen):
            if time.monotonic() > deadline:
                raise ProofError(f"the stream sent only {sorted(seen)}")
            line = lines.readline().strip()
            if line.startswith("event:"):
                name = line.removeprefix("event:").strip()
            elif line.startswith("data:"):
                seen.setdefault(name, json.loads(line.removeprefix("data:")))
            # A scrub that starts and finishes within a second appears as no change: it is requested again.
            if line.startswith("event: metrics"):
                place.users["otto"].ask("POST", "/pools/tank/scrub", {"action": "start"})
    names = [pool["name"] for pool in seen["overview"]["pools"]]
    expect(["tank"], names, "the pools of the overview")
    expect("tank", seen["event"]["pool"], "the pool of the event")


def the_document(place: Place) -> None:
    """The document is valid OpenAPI and equals the output of the command."""
    status, document = place.nobody.ask("GET", "/openapi.json")
    expect(200, status, "the document")
    expect(json.loads(place.head.command("head", "openapi")), document, "the same document by the command")
    path = place.head.folder / "openapi.json"
    path.write_text(json.dumps(document))
    done = subprocess.run([place.validator, "-m", "openapi_spec_validator", path], capture_output=True, text=True, timeout=120, check=False)
    expect(0, done.returncode, f"openapi-spec-validator: {done.stdout}{done.stderr}")


def the_metrics(place: Place) -> None:
    """promtool accepts the metrics, the rules and their tests."""
    status, _, text = place.nobody.raw("GET", "/metrics")
    expect(200, status, "metrics on the loopback")
    for name in (b'bulkhead_pool_served{pool="tank",head="here"} 1', b"bulkhead_device_errors_total", b"bulkhead_api_refused_total", b'bulkhead_host_packets_lost_total{protocol="udp",reason="receive_buffer_full"} '):
        expect(True, name in text, f"{name.decode()} among the metrics")
    rules = REPOSITORY / "packaging/monitoring"
    for words, given in ((["check", "metrics"], text), (["check", "rules", "alerts.yml"], b""), (["test", "rules", "alerts.test.yml"], b"")):
        done = subprocess.run(["promtool", *words], cwd=rules, input=given, capture_output=True, timeout=120, check=False)
        expect(0, done.returncode, f"promtool {' '.join(words)}: {done.stdout!r}{done.stderr!r}")


def tokens_and_users(place: Place) -> None:
    """A token has its rights until it is revoked; the sessions of a removed user are closed at once."""
    anna, otto = place.users["anna"], place.users["otto"]
    status, token = otto.ask("POST", "/tokens", {"name": "proof", "role": "read-only", "current_password": PASSWORD})
    expect(201, status, "a token")
    expect((400, "usage"), _kind(otto.ask("POST", "/tokens", {"name": "more"})), "a token without the password")
    program = Web(place.port)
    program.bearer = token["token"]
    expect(200, program.ask("GET", "/overview")[0], "a token looks")
    expect((403, "denied"), _kind(program.ask("POST", "/pools/tank/scrub", {"action": "start"})), "it does no more")
    expect(403, program.ask("POST", "/tokens", {"name": "more"})[0], "a token creates no tokens")
    change = {"password": PASSWORD + " more", "current_password": PASSWORD}
    expect((403, "denied"), _kind(program.ask("PATCH", "/users/otto", change)), "it changes no password")
    expect((400, "usage"), _kind(otto.ask("PATCH", "/users/otto", {"password": PASSWORD})), "no present password")
    wrong = {"password": PASSWORD, "current_password": "another one"}
    expect((403, "denied"), _kind(otto.ask("PATCH", "/users/otto", wrong)), "a wrong present password")
    expect(204, otto.ask("DELETE", f"/tokens/{token['id']}")[0], "revoked")
    expect(401, program.ask("GET", "/overview")[0], "a revoked token")
    new = {"name": "gast", "role": "read-only", "password": PASSWORD}
    expect(201, anna.ask("POST", "/users", new)[0], "a user")
    guest = Web(place.port)
    expect(200, guest.log_in("gast", PASSWORD), "the guest comes")
    expect(403, guest.ask("PATCH", "/users/gast", {"role": "admin"})[0], "nobody promotes themselves")
    place.head.command("user", "remove", "gast")
    expect(401, guest.ask("GET", "/overview")[0], "the guest is gone")
    expect((409, "exists"), _kind(anna.ask("DELETE", "/users/anna")), "the last admin stays")


def hostile_clients(place: Place) -> None:
    """Idle connections, garbage, floods and wrong passwords do not affect other clients."""
    silent = [socket.create_connection(("127.0.0.1", place.port)) for _ in range(100)]
    for connection in silent[:20]:
        connection.sendall(b"GET /api/v1/overview HTTP/1.1\r\nHost: local")
    anna = place.users["anna"]
    del silent[40:]
    crowd = [
        socket.create_connection(("127.0.0.1", place.port), WAIT_SECONDS, (f"127.0.0.{number}", 0))
        for number in CROWD
        for _ in range(CROWD_CONNECTIONS)
    ]

    def is_served() -> bool:
        try:
            return anna.ask("GET", "/overview")[0] == 200
        except OSError:
            return False

    # All of these come from one address, which has used up its share until the head detects that some connections are
    # closed.
    wait_until("a response while idle connections are open", is_served, WAIT_SECONDS, 0.1)
    for connection in silent + crowd:
        connection.close()
    for garbage in (b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 4096, b"A" * 100_000):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", place.port), timeout=WAIT_SECONDS) as connection:
            connection.sendall(garbage)
    long = anna.raw("POST", "/api/v1/appliance/check", b" " * (3 << 20), {"Content-Type": "application/json"})
    expect(413, long[0], "a body that is too long")
    for path in ("/api/v1/pools/..%2F..%2Fetc", "/api/v1/pools/%00", "/api/v1/pools/tank/volumes/%ff"):
        status = anna.raw("GET", path)[0]
        expect(True, 400 <= status < 500, f"GET {path} returns {status}")
    stranger = Web(place.port, source=GUESSER)
    statuses = [stranger.log_in("anna", "wrong")]
    # The first pauses are short, and a busy host needs as much time for one password; each later pause is twice as
    # long.
    while statuses[-1] == 401 and len(statuses) < GUESSES:
        statuses.append(stranger.log_in("anna", "wrong"))
    expect((401, 429), (statuses[0], statuses[-1]), f"wrong passwords: {statuses}")
    expect(200, Web(place.port).log_in("anna", PASSWORD), "anna logs in from elsewhere while passwords are guessed")
    flooder = Web(place.port, source=FLOODER)
    wait_until("a flood is refused", lambda: 429 in _flood(place.port), WAIT_SECONDS)
    expect(True, is_served(), "other clients are served during it")
    wait_until("the flooder is served again", lambda: flooder.raw("GET", "/api/v1/session")[0] != 429, WAIT_SECONDS, 0.2)


def _flood(port: int) -> list[int]:
    """Returns the statuses of many pipelined requests: even a slow host handles them faster than the limit."""
    ask = "GET /api/v1/session HTTP/1.1\r\nHost: localhost\r\n"
    words = f"{ask}\r\n" * (FLOOD_REQUESTS - 1) + f"{ask}Connection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), WAIT_SECONDS, (FLOODER, 0)) as connection:
        threading.Thread(target=connection.sendall, args=(words.encode(),), daemon=True).start()
        answers = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", answers)]


def what_was_written_down(place: Place) -> None:
    """The audit log records each action with its user and holds no secret."""
    status, entries = place.users["anna"].ask("GET", "/audit?limit=1000")
    expect(200, status, "the audit log")
    done = {(entry["who"], entry["what"], entry["outcome"]) for entry in entries}
    for wanted in (("otto", "volume.create", "done"), ("rita", "volume.create", "denied"), ("anna", "snapshot.destroy", "done"),
                   ("otto", "POST /api/v1/login", "done"), ("anna", "POST /api/v1/login", "denied")):  # fmt: skip
        expect(True, wanted in done, f"{wanted} in the audit log")
    folder = place.head.folder / "head"
    for path in folder.iterdir():
        expect(0o600, path.stat().st_mode & 0o777, f"mode of {path.name}")
        expect(False, PASSWORD in path.read_text(), f"a password in {path.name}")


def with_a_certificate(place: Place) -> None:
    """A certificate is loaded without a restart; cookies are then for encrypted connections only."""
    place.head.command("head", "certificate", "--name", "localhost", "--name", "127.0.0.1")
    secure = Web(place.port, encrypted=True)

    def answers() -> bool:
        try:
            return secure.ask("GET", "/openapi.json")[0] == 200
        except OSError:
            return False

    wait_until("TLS is spoken", answers, WAIT_SECONDS, 0.2)
    body = json.dumps({"user": "otto", "password": PASSWORD}).encode()
    status, headers, _ = secure.raw("POST", "/api/v1/login", body, {"Content-Type": "application/json"})
    expect(200, status, "login over TLS")
    expect(True, "; Secure" in headers["set-cookie"] and "HttpOnly" in headers["set-cookie"], headers["set-cookie"])


CHECKS: list[Callable[[Place], None]] = [
    who_is_nobody,
    the_daily_work,
    everything_a_pool_can_be_asked,
    the_stream,
    the_document,
    the_metrics,
    tokens_and_users,
    what_an_operator_does_not_decide,
    hostile_clients,
    what_was_written_down,
    with_a_certificate,
]
