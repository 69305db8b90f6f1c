"""pynfs judges the NFS server of the source on files in memory."""
