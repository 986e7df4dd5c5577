"""gnt-node health: what nodes' out-of-band programs say of their hardware."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, lists, tables
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.gnt_node import power
from ganeti.opcodes import OpOobCommand
from ganeti.utils import oob


def Run(options: Options, arguments: list[str]) -> int:
    op = OpOobCommand(node_names=arguments, command=oob.HEALTH, timeout=options.oob_timeout)
    code = constants.EXIT_SUCCESS
    rows = []
    entries = jobs.SubmitOpCode(op, options)
    for (_, name), (status, items) in entries:
        if status == constants.RS_NORMAL:
            texts = [f"{item}={state}" for item, state in items] or [""]
        else:
            code = constants.EXIT_FAILURE
            texts = [tables.FormatCell((status, items), str, verbose=True)]
        # The name stands in the first line of a node only.
        rows += [{"node": "" if line else name, "status": text} for line, text in enumerate(texts)]
    lists.PrintRows([("node", "Node", False), ("status", "Status", False)], rows, options)
    power.NameUnavailable(entries)
    return code


COMMAND = Command(
    Run,
    "Show what the nodes' out-of-band programs say of their hardware",
    (AnyNumber("node"),),
    (*o.SET_HEADERS, *o.SET_PRIORITY, o.OOB_TIMEOUT),
    details="The master node runs 'PROGRAM health NODE', which prints a JSON list of [ITEM, STATE] with the states OK,"
    " WARNING, CRITICAL and UNKNOWN.",
)
