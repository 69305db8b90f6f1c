"""A real Linux initiator in a virtual machine judges the server."""
