"""gnt-backup list."""

from __future__ import annotations

from ganeti.cli import lists
from ganeti.cli import options as o
from ganeti.cli.command import Command
from ganeti.cli.parser import Options

KIND = lists.ListKind("export", ("node", "export"), key="node")


def Run(options: Options, arguments: list[str]) -> int:
    wanted = ["|", *(["==", KIND.key, name] for name in options.nodes)] if options.nodes else None
    return lists.RunList(KIND, options, arguments, wanted)


COMMAND = Command(Run, "List the exports on the nodes", (), (o.NODE_LIST, *o.SET_LIST, o.UNITS))
