"""Pools with legs on two heads, and a witness: seeded faults, and a history of writes that is checked."""
