"""gnt-node power: switches nodes on and off, or shows whether they are on, over their out-of-band programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ganeti import constants, errors
from ganeti.cli import ask, jobs, lists, output, tables
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command, One
from ganeti.cli.parser import Flag, Options
from ganeti.client.gnt_node.options import AUTO_PROMOTE
from ganeti.client.shared.rows import ByKnownName, ByName, QueryRows
from ganeti.opcodes import OpNodeSetParams, OpOobCommand
from ganeti.utils import oob
from ganeti.utils.text import NiceSort

_WORDS = ("on", "off", "cycle", "status")
_ASKED = ("off", "cycle")
# So many instances are named in a question.
_NAMED = 20

IGNORE_STATUS = Flag(
    "--ignore-status", dest="ignore_status", text="Switch off nodes as they are, without marking them offline first"
)


def _Ops(word: str, nodes: list[str], options: Options) -> list[Any]:
    ops: list[Any] = []
    if word == "off" and not options.ignore_status:
        ops = [OpNodeSetParams(node_name=name, offline=True, auto_promote=options.auto_promote) for name in nodes]
    command = jobs.FromOptions(
        OpOobCommand, options, node_names=nodes, command=f"power-{word}", timeout=options.oob_timeout
    )
    return [*ops, command]


def _Text(word: str, status: int, answer: Any) -> str:
    if status != constants.RS_NORMAL:
        return tables.FormatCell((status, answer), str, verbose=True)
    if word == "status":
        return "powered" if answer["powered"] else "unpowered"
    return "invoked"


def _ExplainOffline(names: Sequence[str]) -> None:
    """Say what the job changed although the machines are still on, or may be."""
    output.ToStderr(
        f"Node(s) {', '.join(names)}: marked offline before the attempt to switch them off;"
        f" 'gnt-node modify --offline=no {names[0]}' takes a node back that is still on"
    )


def _ExplainStillOffline(nodes: Sequence[str]) -> None:
    """Say which nodes were switched on and are not used yet."""
    rows = QueryRows(jobs.GetClient(), "node", ["name", "offline"], ByName(nodes))
    for name in [row["name"] for row in rows if row["offline"]]:
        output.ToStderr(
            f"Node {name} is still marked offline; when it is up, 'gnt-node modify --offline=no {name}' takes it back"
        )


def NameUnavailable(entries: Sequence[Any]) -> None:
    """Name the nodes without an out-of-band program, of the answer to OP_OOB_COMMAND, and what gives them one."""
    names = [name for (_, name), (status, _) in entries if status == constants.RS_UNAVAIL]
    if names:
        output.ToStderr(
            f"Without an out-of-band program: {', '.join(names)}.  'gnt-node modify --node-parameters=oob_program=PATH"
            f" {names[0]}' names one for a node"
        )


def _CheckNames(word: str, nodes: Sequence[str]) -> list[str]:
    """Raise OpPrereqError for a name that is unknown, and for the master; return the full names.

    Called before any node is marked offline.
    """
    fields = ["name", "master", "ndp/oob_program"]
    rows = QueryRows(jobs.GetClient(), "node", fields, ByKnownName(nodes))
    for row in rows:
        if row["master"]:
            raise oob.MasterRefusal(row["ndp/oob_program"] or "", f"power-{word}", row["name"])
    return [row["name"] for row in rows]


def _Victims(nodes: Sequence[str]) -> str:
    """Return a line about the instances that stop with these nodes; "" if there are none.

    Those that should run are named: whether they do only the nodes could say, which may be hung.
    """
    there = ["&", ["==", "admin_state", constants.ADMINST_UP], ["|", *(["==", "pnode", name] for name in nodes)]]
    names = NiceSort([row["name"] for row in QueryRows(jobs.GetClient(), "instance", ["name"], there)])
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"Instances there stop at once, without a shutdown: {', '.join(names[:_NAMED])}{more}.\n"


def Run(options: Options, arguments: list[str]) -> int:
    word, *nodes = arguments
    if word not in _WORDS:
        output.ToStderr(f"power subcommand {word} not supported; known are {', '.join(_WORDS)}")
        return constants.EXIT_FAILURE
    if word in _ASKED:
        if not nodes:
            output.ToStderr(f"Please provide at least one node for this command: 'gnt-node power {word} NODE'")
            return constants.EXIT_FAILURE
        full = _CheckNames(word, nodes)
        if not options.force:
            extra = _Victims(full)
            if not ask.ConfirmOperation(nodes, "node", f"power {word}", "--force", extra):
                return constants.EXIT_FAILURE
    ops = _Ops(word, nodes, options)
    jobs.SetGenericFields(ops, options)
    client = jobs.GetClient()
    job_id = client.SubmitJob(ops)
    try:
        entries = jobs.PollJob(job_id, client)[-1]
    except (errors.OpPrereqError, errors.OpExecError):
        [[states]] = client.QueryJobs([job_id], ["opstatus"])
        pairs = zip(nodes, states, strict=False) if len(ops) > 1 else ()
        marked = [name for name, state in pairs if state == constants.JOB_STATUS_SUCCESS]
        if marked:
            _ExplainOffline(marked)
        raise
    rows = [{"node": name, "status": _Text(word, status, answer)} for (_, name), (status, answer) in entries]
    lists.PrintRows([("node", "Node", False), ("status", "Status", False)], rows, options)
    NameUnavailable(entries)
    failed = [name for (_, name), (status, _) in entries if status != constants.RS_NORMAL]
    if failed and len(ops) > 1:
        _ExplainOffline(failed)
    done = [name for (_, name), _ in entries if name not in failed]
    if word == "on" and done:
        _ExplainStillOffline(done)
    return constants.EXIT_FAILURE if failed else constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Switch nodes on or off, reset them, or show whether they are on",
    (One("command", _WORDS), AnyNumber("node")),
    (
        *o.SET_HEADERS, *(option.Hidden() for option in o.SET_SUBMIT), *o.SET_PRIORITY, AUTO_PROMOTE, IGNORE_STATUS, o.FORCE,
        o.OOB_TIMEOUT, o.POWER_DELAY,
    ),
    details="The node parameter oob_program names the program that does it.  The master node runs it as"
    " 'PROGRAM power-on|power-off|power-cycle|power-status NODE'; for power-status it prints {\"powered\": true} or false."
    "  'off' marks each node offline first.  The master node is never switched off or reset: the message has the command"
    " to do that by hand.",
)  # fmt: skip
