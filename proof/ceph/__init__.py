"""The engine on Ceph, on a real cluster in a network namespace."""
