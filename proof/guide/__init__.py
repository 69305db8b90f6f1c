"""The examples of the guide, run as their reader would run them."""
