"""The checks of the project as one table: its steps, the selection of a run, and the order in which they run."""
