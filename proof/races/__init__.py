"""Initiators that change the same blocks concurrently."""
