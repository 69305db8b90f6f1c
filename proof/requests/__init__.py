"""Whatever is asked of a server, it refuses it or does it, and goes on."""
