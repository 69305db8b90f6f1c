"""An upgrade of two heads, head by head, under stock clients, with a fault in each of its steps."""
