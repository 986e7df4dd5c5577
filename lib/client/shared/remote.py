"""Commands that act on many nodes: which ones, how their output is shown, and who failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ganeti import errors, runtime
from ganeti.cli import jobs, output
from ganeti.cli.parser import Flag, Options, Value
from ganeti.client.shared.rows import ByKnownName

RULE = "-" * 48
_FOUR_HOURS = 4 * 3600
_DAY = 24 * 3600

SHOW_MACHINE_NAMES = Flag(
    "-M", "--show-machine-names", dest="show_machine_names", text="Start each line of output with the name of the node"
)
TIMEOUT = Value(
    "--timeout", dest="timeout", type="int", metavar="SECONDS", default=_FOUR_HOURS,
    text="Time for each node, after which it is given up",
)  # fmt: skip


class NodeAddress(NamedTuple):
    """Says how to reach a node."""

    name: str
    primary_ip: str
    secondary_ip: str
    ssh_port: int


def OnlineNodes(names: Sequence[str], group: str | None = None, skip_master: bool = False) -> list[NodeAddress]:
    """Return those of these nodes, or of all nodes, that are online; print which are left out.

    OpPrereqError for a node or group that does not exist: a mistyped list of nodes is not a shorter one.
    """
    client = jobs.GetClient()
    filters: list[Any] = []
    if names:
        # Together with another condition unknown names would be passed over.
        client.Query("node", ["name"], ByKnownName(names))
        filters.append(ByKnownName(names))
    if group:
        client.Query("group", ["name"], ByKnownName([group]))
        filters.append(["|", ["==", "group", group], ["==", "group.uuid", group]])
    if skip_master:
        filters.append(["!", ["?", "master"]])
    qfilter = None if not filters else filters[0] if len(filters) == 1 else ["&", *filters]
    fields = ["name", "offline", "pip", "sip", "ndp/ssh_port"]
    rows = [[value for _, value in row] for row in client.Query("node", fields, qfilter)["data"]]
    if group and not rows:
        output.ToStderr(f"Note: no nodes selected: node group '{group}' has none of these nodes")
    offline = [row[0] for row in rows if row[1]]
    if offline:
        output.ToStderr(f"Note: skipping offline node(s): {', '.join(offline)}")
    return [NodeAddress(row[0], row[2], row[3], row[4] or 22) for row in rows if not row[1]]


def NameOf(node: NodeAddress) -> str:
    return node.name


def CheckTimeout(options: Options) -> None:
    """Raise OpPrereqError unless the time for each node is a sensible one."""
    if not 1 <= options.timeout <= _DAY:
        raise errors.OpPrereqError(
            f"--timeout {options.timeout}: a node can be given 1 to {_DAY} seconds", errors.ECODE_INVAL
        )


def PrintOutput(name: str, text: str, with_names: bool, title: str = "node") -> None:
    """Print what a node said: its name and the text, or every line with the name before it."""
    if with_names:
        for line in text.splitlines():
            output.ToStdout(f"{name}: {line}")
    else:
        output.ToStdout(f"{title}: {name}")
        output.ToStdout(text)


def Failure(result: runtime.RunResult) -> str:
    """Return in a few words how a program failed; empty if it did not."""
    if not result.failed:
        return ""
    if result.timeout is not None:
        return f"gave no result within {result.timeout:g} seconds"
    return f"signal {result.signal}" if result.exit_code is None else f"return code {result.exit_code}"


def Summarize(total: int, failures: Sequence[tuple[str, str]]) -> None:
    """Name the nodes that failed, after the output of all, which may be long."""
    if failures and total > 1:
        listed = ", ".join(f"{name} ({how})" for name, how in failures)
        output.ToStderr(f"{len(failures)} of {total} nodes failed: {listed}")
