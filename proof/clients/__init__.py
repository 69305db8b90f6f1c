"""Stock client libraries, each behind the same small interface, driven by one event loop."""
