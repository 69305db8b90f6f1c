"""Malicious clients, which well-behaved clients must not notice."""
