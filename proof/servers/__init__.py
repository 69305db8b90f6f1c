"""The servers under test: ours, and the peers that Debian ships, behind one interface."""
