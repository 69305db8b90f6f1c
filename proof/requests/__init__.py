"""A server refuses or executes any request, and continues to run."""
