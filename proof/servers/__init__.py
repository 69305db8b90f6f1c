"""The servers under judgement: ours, and the peers that Debian ships, behind one interface."""
