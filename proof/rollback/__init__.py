"""Rollback under load, and killed in the middle: old or new contents, never a mix."""
