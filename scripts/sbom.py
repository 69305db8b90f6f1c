#!/usr/bin/env python3
"""Prints the contents of a release, as CycloneDX 1.5 JSON: the crates that are linked, and the console's libraries.

The arguments are the version and the time of the release in seconds since 1970. All data is from Cargo.lock and
package-lock.json, so the same commit prints the same bytes. The libraries of Debian are in the packages' dependencies.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("bulkhead", "bulkhead-witness")


def crates() -> list[dict[str, Any]]:
    """The crates that the binaries link, without ours and without build and test dependencies."""
    command = ["scripts/cargo.sh", "metadata", "--locked", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    wanted = [ident for ident, package in packages.items() if package["name"] in PROGRAMS and package["source"] is None]
    seen: set[str] = set()
    while wanted:
        ident = wanted.pop()
        if ident in seen:
            continue
        seen.add(ident)
        for dependency in nodes[ident]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                wanted.append(dependency["pkg"])
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    found = []
    for ident in seen:
        package = packages[ident]
        if package["source"] is None:
            continue
        name, version = package["name"], package["version"]
        checksum = checksums[name, version]
        if not checksum:
            sys.exit(f"sbom: Cargo.lock has no checksum of {name} {version}")
        found.append({
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:cargo/{name}@{version}",
            "licenses": [{"expression": (package["license"] or "NOASSERTION").replace("/", " OR ")}],
            "hashes": [{"alg": "SHA-256", "content": checksum}],
        })  # fmt: skip
    return found


def console() -> list[dict[str, Any]]:
    """The libraries that are bundled into the web page."""
    lock = json.loads((ROOT / "console/package-lock.json").read_text())
    found = []
    for path, package in lock["packages"].items():
        if not path or package.get("dev"):
            continue
        name = path.rsplit("node_modules/", 1)[-1]
        algorithm, digest = package["integrity"].split("-", 1)
        if algorithm != "sha512":
            sys.exit(f"sbom: package-lock.json has {algorithm} of {name}, not sha512")
        found.append({
            "type": "library",
            "name": name,
            "version": package["version"],
            "purl": f"pkg:npm/{name.replace('@', '%40')}@{package['version']}",
            "licenses": [{"expression": package.get("license", "NOASSERTION")}],
            "hashes": [{"alg": "SHA-512", "content": base64.b64decode(digest).hex()}],
        })  # fmt: skip
    return found


def main() -> None:
    """Prints the document."""
    version, seconds = sys.argv[1], int(sys.argv[2])
    components = sorted([*crates(), *console()], key=lambda one: one["purl"])
    for component in components:
        component["bom-ref"] = component["purl"]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'bulkhead/{version}/{seconds}')}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "name": "bulkhead",
                "version": version,
                "bom-ref": f"bulkhead@{version}",
                "licenses": [{"expression": "Apache-2.0"}],
            },
        },
        "components": components,
        "dependencies": [{"ref": f"bulkhead@{version}", "dependsOn": [one["bom-ref"] for one in components]}],
    }
    print(json.dumps(document, indent=1))


main()
