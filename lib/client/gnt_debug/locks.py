"""gnt-debug locks: the locks, their owners and the jobs that wait for them."""

from __future__ import annotations

from typing import Any

from ganeti import runtime
from ganeti.cli import lists, output, tables
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options, Value

INTERVAL = Value(
    "--interval",
    dest="interval",
    type="int",
    metavar="SECONDS",
    text="Repeat the list at this interval until interrupted",
)


def _OrDash(value: Any) -> str:
    return str(value) if value else "-"


def _Owners(value: Any) -> str:
    return tables.JoinList(value) if value else "-"


def _Pending(value: Any) -> str:
    return ", ".join(f"{mode}:{tables.JoinList(owners)}" for mode, owners in value) if value else "-"


KIND = lists.ListKind(
    "lock",
    ("name", "mode", "owner", "pending"),
    formatters={"mode": _OrDash, "owner": _Owners, "pending": _Pending},
)


def Run(options: Options, arguments: list[str]) -> int:
    while True:
        code = lists.RunList(KIND, options, [])
        if not options.interval or options.interval < 0:
            return code
        output.ToStdoutAndFlush("")
        runtime.Sleep(options.interval)


COMMAND = Command(
    Run,
    "List the locks of the master daemon, their owners and the jobs that wait for them",
    (),
    (*o.SET_LIST, INTERVAL),
)
