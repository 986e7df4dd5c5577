"""gnt-node list-drbd: the DRBD minors of a node, as ganeti-confd on this machine knows them."""

from __future__ import annotations

from typing import Any

from ganeti import constants, ht, pathutils
from ganeti.cli import lists, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options

_TITLES = ("Node", "Minor", "Instance", "Disk", "Role", "PeerNode")
_ROWS = ht.TListOf(ht.TItems(ht.TString, ht.TInt, ht.TString, ht.TString, ht.TString, ht.TString))


def Run(options: Options, arguments: list[str]) -> int:
    from ganeti import confd
    from ganeti.confd import queries

    address = confd.OwnAddress()
    reply = confd.Ask(queries.NODE_DRBD, arguments[0], [address]).reply
    if reply is None:
        return _Fail(
            f"{constants.CONFD} did not reply at {address}; if it does not run on this node,"
            f" '{pathutils.DAEMON_UTIL} start {constants.CONFD}' starts it, otherwise see {pathutils.DaemonLog(constants.CONFD)}"
        )
    if reply.status != queries.OK:
        return _Fail(f"Query gave non-ok status '{reply.status}': {queries.ErrorText(reply.status, reply.answer)}")
    if not _ROWS(reply.answer):
        return _Fail(f"{constants.CONFD} at {address} sent something else than a list of minors")
    columns = [(title, title, title == "Minor") for title in _TITLES]
    rows: list[dict[str, Any]] = [dict(zip(_TITLES, row, strict=True)) for row in sorted(reply.answer)]
    return lists.PrintRows(columns, rows, options)


def _Fail(text: str) -> int:
    output.ToStderr(text)
    return constants.EXIT_FAILURE


COMMAND = Command(
    Run,
    "List the DRBD minors of a node",
    (One("node"),),
    o.SET_HEADERS,
    details=f"{constants.CONFD} on this node is asked, so this works on every master candidate and while the master daemon"
    " does not run.",
)
