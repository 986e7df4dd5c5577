"""Writes ``doc/noderpc.rst`` from the table: ``python3 -m ganeti.rpc.document > doc/noderpc.rst``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from ganeti.rpc.procedures import OUR_PROCEDURES, PROCEDURES, TIMEOUTS, Procedure

_HEAD = """\
====================
Procedures of a node
====================

This page is made from ``lib/rpc/procedures.py`` by ``python3 -m ganeti.rpc.document``.  The docstring of
``lib/rpc/__init__.py`` describes the messages.

A call is ``POST https://NODE:1811/PROCEDURE`` with a JSON list of the arguments, in order.  The answer is ``[true, payload]``
or ``[false, text]``.  A procedure that changes something requires the header ``X-Ganeti-Epoch``, except where *bootstrap* is
noted.  Timeouts in seconds: {timeouts}; ``d+5`` is the duration plus five.

"""


def Table(title: str, rows: Iterable[Procedure]) -> str:
    cells = [(f"``{row.name}``", _Arguments(row), _Kind(row), row.doc) for row in rows]
    return "\n".join([title, "=" * len(title), "", *_Grid(("procedure", "arguments", "call", "what"), cells), "", ""])


def _Arguments(row: Procedure) -> str:
    return ", ".join(f"{arg.name}: {arg.enc}" for arg in row.args) or "none"


def _Kind(row: Procedure) -> str:
    words = [row.timeout, "many" if row.multi else "one", "changes" if row.changes else "reads"]
    words += ["offline too"] if row.offline_too else []
    words += ["bootstrap"] if row.without_epoch else []
    return ", ".join(words)


def _Grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A list-table: rows may be of any length."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [head, *rows]:
        for number, cell in enumerate(row):
            lines.append(f"   {'*' if number == 0 else ' '} - {_Escape(cell)}")
    return lines


def _Escape(cell: str) -> str:
    return cell if cell.startswith("``") else cell.replace("\\", "\\\\").replace("*", "\\*").replace("|", "\\|")


def Document() -> str:
    timeouts = ", ".join(f"{letter} {seconds}" for letter, seconds in TIMEOUTS.items())
    by_name = sorted(PROCEDURES.values(), key=lambda row: row.name)
    return (
        _HEAD.format(timeouts=timeouts)
        + Table("Those of release 3.1", (row for row in by_name if row.name not in OUR_PROCEDURES))
        + Table("Ours", (row for row in by_name if row.name in OUR_PROCEDURES))
    ).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.stdout.write(Document())
