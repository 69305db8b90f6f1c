"""The HTTP API of a head, against the real program: rights, limits, the document, metrics."""
