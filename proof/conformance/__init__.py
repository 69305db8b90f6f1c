"""Foreign clients and suites judge the protocols."""
