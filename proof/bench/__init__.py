"""Speed beside what Debian ships, in one run: ratios and CPU per operation, not absolute promises."""
