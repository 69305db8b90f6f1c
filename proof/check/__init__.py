"""The checks of the project as one table: which steps there are, which of them a run takes, and the order in which they run."""
