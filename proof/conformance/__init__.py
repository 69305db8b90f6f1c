"""Third-party clients and suites judge the protocols."""
