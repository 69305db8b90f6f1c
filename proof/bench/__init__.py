"""Speed compared with the servers that Debian ships, in one run: ratios and CPU per operation, not absolute
promises."""
