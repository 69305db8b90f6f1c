"""Pools whose legs lie on two heads, with a witness: faults by a seed, and a history of writes that is checked."""
