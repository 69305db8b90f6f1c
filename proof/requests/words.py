"""Generates requests that the binary's own schema allows, of names that mostly exist."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from proof.servers.bulkhead import POOL

DATASETS = [f"{POOL}/{name}" for name in ("a", "b", "group", "group/c", "group/d", "safe", "safe/e", "f")]
SNAPSHOTS = [f"{name}@{tag}" for name in DATASETS for tag in ("1", "2", "3")]
TARGETS = ["iqn.2026-01.org.example:one", "iqn.2026-01.org.example:two"]
NUMBERS = [0, 1, 511, 512, 16384, 16 << 20, (64 << 20) + 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
SIZES = [16 << 20, 32 << 20, 64 << 20]
BLOCKS = [512, 4096, 16384, 131072, 1 << 20]
KEYS = ["ab" * 32, b"a passphrase".hex()]
NESTED_MAX = 12

PROPERTIES = {
    "compression": ["on", "off", "lz4", "zstd", "gzip-9"],
    "checksum": ["on", "sha256", "skein", "edonr", "blake3"],
    "copies": ["1", "2", "3", "4"],
    "dedup": ["on", "off", "verify"],
    "logbias": ["latency", "throughput"],
    "org.example:owner": ["ann", "", "x" * 300],
    "quota": ["none", "16M", "64M"],
    "readonly": ["on", "off"],
    "redundant_metadata": ["all", "most", "some", "none"],
    "refreservation": ["none", "16M", "32M"],
    "reservation": ["none", "16M", "1G"],
    "sync": ["standard", "always", "disabled"],
    "volsize": ["16M", "64M", "8E"],
    "nonsense": ["1"],
}

TEXTS: dict[str, list[str]] = {
    "base": ["@1", "@2", "#mark"],
    "encryption": ["on", "aes-256-gcm", "aes-128-ccm"],
    "format": ["hex", "passphrase", "raw"],
    "key": KEYS,
    "location": ["prompt"],
    "mark": ["mark", "other"],
    "networks": ["10.0.0.0/8", "::1/128", "127.0.0.1/32"],
    "rules": ["every 5s keep 2", "every 10s keep 1", "hourly keep 1"],
    "when": ["every 5s", "monthly", "weekly on sunday at 02:00"],
}
ANY_TEXT = ["", "a", "on", "off", "none", "64M", "/", "ü", "x" * 300]
DEVICE_FIELDS = ("device", "devices", "existing", "new", "old", "with")

WEIGHTS = {"volume": 6, "snapshot": 6, "key": 4, "pool": 3, "nbd": 2, "target": 2, "transfer": 2, "replicate": 1}
"""The weight of each noun. The rest is read elsewhere, or stops the server."""

LEFT_OUT = {("pool", "export"), ("pool", "close"), ("pool", "destroy"), ("transfer", "send"), ("transfer", "receive"), ("replicate", "run")}
"""Requests that stop the server, need a descriptor, or require another appliance."""


class Words:
    """A stream of requests, determined by a seed."""

    def __init__(self, schemas: dict[str, Any], disks: list[Path], seed: int):
        self._schemas = schemas
        self._disks = [*map(str, disks), "mirror-0", "nonsense"]
        self._random = random.Random(seed)
        branches = {next(iter(one["properties"])): one for one in schemas["Request"]["oneOf"] if "properties" in one}
        self._nouns = [(branches[noun], weight) for noun, weight in WEIGHTS.items()]

    def request(self) -> dict[str, Any]:
        """Returns the next request."""
        nouns, weights = zip(*self._nouns)
        while True:
            request = self._make(self._random.choices(nouns, weights)[0], "", 0)
            if (name_of(request)) not in LEFT_OUT:
                return request

    def _make(self, schema: Any, field: str, depth: int) -> Any:
        choose = self._random.choice
        if depth > NESTED_MAX or schema is True:
            return self._text(field)
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            known = {"VolumeName": DATASETS, "SnapshotName": SNAPSHOTS, "PoolName": [POOL], "IscsiName": TARGETS}
            if name in known:
                return choose(known[name])
            return self._make(self._schemas[name], field, depth + 1)
        for choices in ("oneOf", "anyOf"):
            if choices in schema:
                return self._make(choose(schema[choices]), field, depth + 1)
        if "allOf" in schema:
            return self._make(schema["allOf"][0], field, depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return choose(schema["enum"])
        kind = schema.get("type")
        return self._plain(choose(kind) if isinstance(kind, list) else kind, schema, field, depth)

    def _plain(self, kind: str | None, schema: dict[str, Any], field: str, depth: int) -> Any:
        choose = self._random.choice
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            items = schema.get("items", True)
            return [self._make(items, field, depth + 1) for _ in range(choose([0, 1, 1, 2, 3]))]
        if kind == "integer":
            usual = {"size": SIZES, "block_size": BLOCKS}.get(field, NUMBERS)
            return choose([number for number in choose([usual, NUMBERS]) if number <= schema.get("maximum", NUMBERS[-1])])
        if kind == "boolean":
            return choose([False, True])
        return self._text(field) if kind == "string" else None

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for field, inner in schema.get("properties", {}).items():
            if field in schema.get("required", []) or self._random.random() < 0.5:
                made[field] = self._make(inner, field, depth + 1)
        if isinstance(schema.get("additionalProperties"), dict):
            for _ in range(self._random.choice([0, 0, 1, 2])):
                name = self._random.choice(list(PROPERTIES))
                made[name] = self._random.choice(PROPERTIES[name])
        return made

    def _text(self, field: str) -> str:
        if field in DEVICE_FIELDS:
            return self._random.choice(self._disks)
        return self._random.choice(TEXTS.get(field, ANY_TEXT))


def name_of(request: dict[str, Any]) -> tuple[str, str]:
    """Returns noun and verb."""
    noun, inner = next(iter(request.items()))
    return noun, inner if isinstance(inner, str) else next(iter(inner), "")
