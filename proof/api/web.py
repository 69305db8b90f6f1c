"""A plain HTTP client for one head: JSON in, JSON out, a cookie and its token."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any

ANSWER_SECONDS = 60.0


class Web:
    """Requests to one head, as one user or without a login."""

    def __init__(self, port: int, encrypted: bool = False, host: str = "127.0.0.1", source: str = ""):
        """``source``: the client address that the head sees, so that its limits apply to this client alone."""
        self.port = port
        self.host = host
        self.source = (source, 0) if source else None
        self.encrypted = encrypted
        self.cookie: str | None = None
        self.csrf: str | None = None
        self.bearer: str | None = None

    def _connection(self) -> http.client.HTTPConnection:
        if not self.encrypted:
            return http.client.HTTPConnection(self.host, self.port, timeout=ANSWER_SECONDS, source_address=self.source)
        # The certificate is self-signed.
        trusting = ssl._create_unverified_context()
        return http.client.HTTPSConnection(self.host, self.port, timeout=ANSWER_SECONDS, source_address=self.source, context=trusting)

    def raw(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
        """Returns the status, the headers and the body of the response."""
        all_headers = dict(headers or {})
        if self.cookie:
            all_headers.setdefault("Cookie", self.cookie)
        if self.csrf:
            all_headers.setdefault("X-Bulkhead-CSRF", self.csrf)
        if self.bearer:
            all_headers.setdefault("Authorization", f"Bearer {self.bearer}")
        connection = self._connection()
        try:
            connection.request(method, path, body, all_headers)
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Returns status and document of a resource of the API."""
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers.setdefault("Content-Type", "application/json")
        status, _, answer = self.raw(method, f"/api/v1{path}", data, headers)
        return status, json.loads(answer) if answer else None

    def log_in(self, user: str, password: str) -> int:
        """Returns the status; afterwards requests are sent as this user."""
        body = json.dumps({"user": user, "password": password}).encode()
        status, headers, answer = self.raw("POST", "/api/v1/login", body, {"Content-Type": "application/json"})
        if status == 200:
            self.cookie = headers["set-cookie"].split(";")[0]
            self.csrf = json.loads(answer)["csrf"]
        return status
