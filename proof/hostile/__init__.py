"""Clients that mean harm, while a well-behaved one must not notice."""
