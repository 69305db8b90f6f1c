"""Files of a pool's file systems: committed changes survive a crash, and kernel ZFS reads the files that we wrote."""
