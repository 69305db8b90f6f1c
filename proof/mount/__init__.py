"""Stock judges of file systems test a file system of a pool that ``bulkhead filesystem mount`` has mounted."""
