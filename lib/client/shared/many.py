"""Commands on several instances: which ones are meant, the question, one job each (spec/cli.md 11.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ganeti import constants, errors
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.parser import Options
from ganeti.client.shared.rows import WarnLeftOut


def _Any(filters: Sequence[list[Any]]) -> list[Any]:
    return ["|", *filters]


def _OnNodes(mode: str, nodes: Sequence[str]) -> list[Any]:
    primary = [["==", "pnode", node] for node in nodes]
    secondary = [["=[]", "snodes", node] for node in nodes]
    wanted: list[list[Any]] = []
    if mode in (o.SELECT_NODES, o.SELECT_PRIMARY):
        wanted += primary
    if mode in (o.SELECT_NODES, o.SELECT_SECONDARY):
        wanted += secondary
    return _Any(wanted)


_TAGGED_NODES = {
    o.SELECT_NODE_TAGS: o.SELECT_NODES,
    o.SELECT_PRIMARY_TAGS: o.SELECT_PRIMARY,
    o.SELECT_SECONDARY_TAGS: o.SELECT_SECONDARY,
}


def _Names(kind: str, qfilter: list[Any] | None) -> list[str]:
    answer = jobs.GetClient().Query(kind, ["name"], qfilter)
    return [row[0][1] for row in answer["data"]]


def SelectInstances(options: Options, arguments: Sequence[str]) -> list[str]:
    """Names of the instances meant; OpPrereqError when the selection is empty, [] on an empty cluster."""
    mode = options.multi_mode
    if mode == o.SELECT_ALL:
        if arguments:
            raise errors.OpPrereqError("--all takes no names", errors.ECODE_INVAL)
        return _Names("instance", None)
    if not arguments:
        what = {o.SELECT_INSTANCES: "instance", o.SELECT_TAGS: "instance tag"}.get(
            mode, "node tag" if mode in _TAGGED_NODES else "node"
        )
        raise errors.OpPrereqError(f"No {what} names passed", errors.ECODE_INVAL)
    if mode == o.SELECT_INSTANCES:
        # "&" has all instances looked at: a name that does not exist is left out, not refused.
        wanted = ["&", _Any([["==", "name", name] for name in arguments])]
    elif mode == o.SELECT_TAGS:
        wanted = _Any([["=[]", "tags", tag] for tag in arguments])
    elif mode in _TAGGED_NODES:
        nodes = _Names("node", _Any([["=[]", "tags", tag] for tag in arguments]))
        wanted = _OnNodes(_TAGGED_NODES[mode], nodes)
    else:
        # snodes holds full names: what was typed may be short.
        nodes = _Names("node", _Any([["==", "name", node] for node in arguments]))
        wanted = _OnNodes(mode, nodes)
    names = _Names("instance", wanted)
    if not names:
        shown = ", ".join(f"'{text}'" for text in arguments)
        raise errors.OpPrereqError(
            f"Selection filter does not match any instances: there is nothing for {shown}", errors.ECODE_INVAL
        )
    if mode == o.SELECT_INSTANCES:
        WarnLeftOut("instance", arguments, names)
    return names


def RunOnInstances(verb: str, make: Callable[[str, Options], Any], options: Options, arguments: Sequence[str]) -> int:
    """Asks if there is reason to, submits one job per instance, waits; exit code 1 if any failed."""
    names = SelectInstances(options, arguments)
    if not names:
        output.ToStdout(f"Cluster is empty, no instances to {verb}")
        return constants.EXIT_SUCCESS
    by_selector = options.multi_mode != o.SELECT_INSTANCES
    several = len(names) > 1 or by_selector
    if several and not options.force_multi and not ask.ConfirmOperation(names, "instances", verb):
        return constants.EXIT_FAILURE
    executor = jobs.JobExecutor(options, verbose=several)
    for name in names:
        executor.QueueJob(name, make(name, options))
    results = executor.WaitOrShow(not options.submit_only)
    return constants.EXIT_FAILURE if jobs.CountFailures(results) else constants.EXIT_SUCCESS
