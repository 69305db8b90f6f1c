"""Events, a line of JSON each, with times of CLOCK_MONOTONIC, which all processes of a host share."""

from __future__ import annotations

import json
import sys
import time


class Events:
    """Writes the lines."""

    def now(self) -> float:
        """Returns the time in seconds."""
        return time.monotonic()

    def tell(self, event: str, **fields: object) -> None:
        """Writes one line, without buffering."""
        fields = {"event": event, "at": round(self.now(), 6), **fields}
        print(json.dumps(fields, separators=(",", ":")), file=sys.stdout, flush=True)
