"""Proof of Bulkhead's promises: commands that judge the real server with stock clients.

Run them from the repository root as ``python3 -m proof.NAME``; each prints its verdict as its last line and exits
non-zero on failure. See docs/guide/proof.md.
"""
