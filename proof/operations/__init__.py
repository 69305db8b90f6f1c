"""Every operation killed in the middle: done or not done, and nothing left over."""
