"""The HTTP API of a head, tested against the real binary: rights, limits, the OpenAPI document, metrics."""
