"""The output of the demos: numbered steps, and a summary of the result of each."""

from __future__ import annotations


class Story:
    """Prints numbered steps, and the result of each."""

    def __init__(self) -> None:
        self._number = 0
        self.found: list[str] = []

    def step(self, title: str) -> None:
        """Prints a heading."""
        self._number += 1
        print(f"\n{self._number}. {title}")

    def tell(self, words: str) -> None:
        """Prints a line of detail."""
        print(f"   {words}".rstrip())

    def keep(self, words: str) -> None:
        """Prints a line of detail that the summary repeats."""
        self.tell(words)
        self.found.append(words)

    def sum_up(self, seconds: float) -> None:
        """Prints the summary of a successful story."""
        print("\nSummary")
        for words in self.found:
            print(f" * {words}")
        print(f"demo: passed in {seconds:.0f} s")
