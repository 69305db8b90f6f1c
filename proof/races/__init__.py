"""Initiators that change the same blocks at the same time."""
