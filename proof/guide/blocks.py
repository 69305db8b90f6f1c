"""Shell commands of a page of the guide, in their order, and how each is handled."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from proof.runtime import ProofError

FENCE = "```"


@dataclass(frozen=True)
class Command:
    """A command of the page, verbatim."""

    line: int
    text: str


@dataclass(frozen=True)
class Page:
    """How the commands of a page are run."""

    before: str = ""
    """Shell that creates the state that the reader has already."""
    instead: tuple[tuple[str, str], ...] = ()
    """Names of the reader's host, and their replacements on this one."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """Prefixes of commands that are not run here, and the reason."""
    first: tuple[tuple[str, str], ...] = ()
    """Prefixes of commands, and shell that runs before them."""
    typed: tuple[tuple[str, str], ...] = ()
    """Prefixes of interactive commands, and the input for each prompt."""
    after: str = ""
    """Shell that checks the result."""


def commands_of(text: str) -> list[Command]:
    """Returns the commands in fenced blocks without a language. Continued lines are joined."""
    found: list[Command] = []
    fence, begun, pending = "", 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(FENCE):
            fence = "" if fence else line
            continue
        if fence != FENCE or not (line.strip() or pending):
            continue
        begun = begun if pending else number
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        found.append(Command(begun, pending.strip()))
        pending = ""
    return found


def _chosen(table: tuple[tuple[str, str], ...], text: str, used: set[str]) -> str | None:
    for start, value in table:
        if text.startswith(start):
            used.add(start)
            return value
    return None


def script_of(page: Page, text: str, typist: list[str]) -> tuple[str, int, int]:
    """Returns shell for all commands of a page, how many it runs, and how many not. ``typist`` runs a command on a
    terminal: its arguments are the line to type and the command's text.
    """
    used: set[str] = set()
    lines, ran, left = [page.before], 0, 0
    for command in commands_of(text):
        if _chosen(page.elsewhere, command.text, used) is not None:
            left += 1
            continue
        words = command.text
        for theirs, ours in page.instead:
            words = words.replace(theirs, ours)
        if first := _chosen(page.first, command.text, used):
            lines.append(first)
        if typed := _chosen(page.typed, command.text, used):
            words = f"{shlex.join(typist)} {shlex.quote(typed)} {shlex.quote(words)}"
        lines += [f"step {command.line} {shlex.quote(command.text)}", _in_background(words)]
        ran += 1
    known = {start for table in (page.elsewhere, page.first, page.typed) for start, _ in table}
    if stale := sorted(known - used):
        raise ProofError(f"no command of the page begins with {stale}")
    return "\n".join([*lines, page.after]) + "\n", ran, left


SERVER = re.compile(r"^bulkhead pool-server (\S+)([^&]*)&?$")


def _in_background(words: str) -> str:
    """Starts a server instead of the running one, and waits until it is ready."""
    server = SERVER.match(words)
    if server is None:
        return words
    return f"serve {server[1]}{server[2].split(' #')[0]}"


def pages(folder: Path) -> dict[str, str]:
    """Returns the pages of the guide with commands, by name."""
    found = {page.stem: page.read_text() for page in sorted(folder.glob("*.md"))}
    return {name: text for name, text in found.items() if commands_of(text)}
