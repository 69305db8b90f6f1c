"""Stock judges of file systems work on a file system of a pool that ``bulkhead filesystem mount`` has mounted."""
