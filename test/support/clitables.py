"""The tables of commands and options in doc/reference/cli.md 8 and 12: what release 3.1 has on the command line."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from support.virtualnode import TOP

PAGE = os.path.join(TOP, "doc", "reference", "cli.md")
_CODE = re.compile(r"`([^`]+)`")


class Command(NamedTuple):
    """One row: its names, the name first, and its options by their long names."""

    program: str
    names: tuple[str, ...]
    options: frozenset[str]


def _Rows(lines: list[str]) -> list[list[str]]:
    """Return the cells of every row of tables with these lines, without headings."""
    rows = [re.split(r"(?<!\\)\|", line.strip()[1:-1]) for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if not set(row[0]) <= set("-: ")]


def _Part(page: list[str], start: str, end: str) -> list[str]:
    first = page.index(start)
    return page[first : next(n for n in range(first + 1, len(page)) if page[n].startswith(end))]


def _Page() -> list[str]:
    with open(PAGE, encoding="utf-8") as stream:
        return stream.read().splitlines()


def _Sets(rows: list[list[str]]) -> dict[str, frozenset[str]]:
    """Return the options of each set; a set may name sets that stand before it or after it."""
    written = {row[0]: row[1] for row in rows if len(row) == 2 and row[0] != "Set"}

    def expand(text: str) -> frozenset[str]:
        bare = _CODE.sub("", text)
        inner = [expand(written[word]) for word in re.findall(r"\b[A-Z]+[0-9]?\b", bare)]
        return frozenset(_CODE.findall(text)).union(*inner)

    return {name: expand(text) for name, text in written.items()}


def Commands() -> list[Command]:
    """Return every command with the options that its row and the sets of options give it."""
    page = _Page()
    sets = _Sets(_Rows(_Part(page, "## 8. Option catalogue", "| Option |")))
    found = []
    for number, line in enumerate(page):
        if match := re.fullmatch(r"### 12\.\d+ (gnt-\w+).*", line):
            for row in _Rows(_Part(page[number:], line, "##")):
                if row[0] == "Command":
                    continue
                names = re.findall(r"[a-z][a-z-]*", row[0])
                bare = _CODE.sub("", row[2])
                options = [sets[word] for word in re.findall(r"\b[A-Z]+[0-9]?\b", bare)]
                found.append(Command(match[1], tuple(names), frozenset(_CODE.findall(row[2])).union(*options)))
    return found


def ShortForms() -> dict[str, set[str]]:
    """Return the short forms that each long option has in one command or another."""
    found: dict[str, set[str]] = {}
    for row in _Rows(_Part(_Page(), "| Option | Type | Default | Meaning |", "## ")):
        names = _CODE.findall(row[0])
        for long in (name for name in names if name.startswith("--")):
            found.setdefault(long, set()).update(name for name in names if not name.startswith("--"))
    return found
