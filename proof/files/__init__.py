"""Files of a pool's file systems: what was committed is there after a crash, and kernel ZFS reads what we wrote."""
