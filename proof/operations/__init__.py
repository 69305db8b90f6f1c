"""Every operation is killed in the middle: it is done or not done, and leaves no traces."""
