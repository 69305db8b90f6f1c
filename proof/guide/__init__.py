"""The examples of the guide, run like their reader would."""
