"""Requests that an independent tool generates from the OpenAPI document alone, sent to a head with a real pool.

Schemathesis generates valid and invalid bodies, paths and queries. It checks that no response is a failure of the
head itself, and that each has the type and the shape of the document. The requests are the same in every run.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from proof.api.head import PASSWORD, Head
from proof.api.web import Web
from proof.runtime import ProofError

# The same versions generate the same requests.
PACKAGES = ("schemathesis==4.32.5", "hypothesis==6.170.15")
# Requests for each operation.
EXAMPLES_MAX = 2
RUN_SECONDS = 600
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance", "response_headers_conformance")
# An endless response: `checks.the_stream` reads it.
LEFT_OUT = ("/api/v1/stream",)
# Exports the pool, so it is the last request.
AT_THE_END = ("/api/v1/pools/{pool}/export",)
# Statuses of refusals because of a missing resource, such as another head or a free slot.
SETTINGS = """headers = { Authorization = "Bearer ${TOKEN}" }
[parameters]
"path.pool" = "tank"
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", "502", "503", "507"]
"""


def requests_made_of_the_document(folder: Path, python: Path) -> None:
    """Raises the failures that the tool reports."""
    head = Head(folder, alone=True)
    head.add_users()
    port = head.start()
    try:
        _ask(head, port, python)
    except ProofError:
        print(head.child.log_tail() if head.child else "")
        raise
    finally:
        head.stop()


def _ask(head: Head, port: int, python: Path) -> None:
    web = Web(port)
    web.log_in("anna", PASSWORD)
    groups = [{"kind": "stripe", "role": "data", "devices": [str(head.disks[0])]}]
    pool = {"name": "tank", "groups": groups, "properties": {}, "overwrite": False, "serve": True}
    volume = {"name": "tank/v", "size": 8 << 20}
    for path, body in (("/pools", pool), ("/pools/tank/volumes", volume)):
        status, answer = web.ask("POST", path, body)
        if status != 200:
            raise ProofError(f"{path}: {answer}")
    token = json.loads(head.command("token", "create", "--user", "anna", "generated", "--json"))["token"]
    document = head.folder / "openapi.json"
    document.write_text(head.command("head", "openapi"))
    settings = head.folder / "schemathesis.toml"
    settings.write_text(SETTINGS)
    argv = [
        str(python.parent / "schemathesis"), "--config-file", str(settings), "run", str(document), "--url", f"http://127.0.0.1:{port}",
        "--phases", "fuzzing", "--max-examples", str(EXAMPLES_MAX), "--generation-deterministic", "--no-shrink", "--workers", "1",
        "--warnings", "off", "--no-color", "--checks", ",".join(CHECKS),
    ]  # fmt: skip
    env = {**os.environ, "TOKEN": token}
    without = [word for path in (*LEFT_OUT, *AT_THE_END) for word in ("--exclude-path", path)]
    last = [word for path in AT_THE_END for word in ("--include-path", path)]
    for which in (without, last):
        done = subprocess.run([*argv, *which], capture_output=True, text=True, timeout=RUN_SECONDS, check=False, cwd=head.folder, env=env)
        if done.returncode != 0:
            raise ProofError(f"schemathesis: {done.stdout}{done.stderr}")
        told = [line.strip() for line in done.stdout.splitlines() if "generated" in line]
        print(f"    schemathesis: {', '.join(told)}")
