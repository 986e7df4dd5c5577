"""Commands on several instances: the selection, the question, and one job for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ganeti import constants, errors
from ganeti.cli import ask, jobs, output
from ganeti.cli.parser import Options
from ganeti.client.gnt_instance import options as o
from ganeti.client.shared.rows import ByName, WarnLeftOut


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
    # A reservation may have no name: no job can act on it.
    return [name for [[_, name]] in answer["data"] if name is not None]


def SelectInstances(options: Options, arguments: Sequence[str]) -> list[str]:
    """Return the names of the selected instances; raise OpPrereqError if nothing is selected on a cluster with any."""
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
    names = _Names("instance", _Filter(mode, arguments))
    if not names:
        shown = ", ".join(f"'{text}'" for text in arguments)
        raise errors.OpPrereqError(
            f"Selection filter does not match any instances: nothing found for {shown}", errors.ECODE_INVAL
        )
    if mode == o.SELECT_INSTANCES:
        WarnLeftOut("instance", arguments, names)
    return names


def _Filter(mode: str, arguments: Sequence[str]) -> list[Any]:
    if mode == o.SELECT_INSTANCES:
        return ByName(arguments)
    if mode == o.SELECT_TAGS:
        return _Any([["=[]", "tags", tag] for tag in arguments])
    if mode in _TAGGED_NODES:
        nodes = _Names("node", _Any([["=[]", "tags", tag] for tag in arguments]))
        return _OnNodes(_TAGGED_NODES[mode], nodes)
    # snodes holds full names, while those of the command line may be short.
    return _OnNodes(mode, _Names("node", _Any([["==", "name", node] for node in arguments])))


def RunOnInstances(verb: str, make: Callable[[str], Any], options: Options, arguments: Sequence[str]) -> int:
    """Ask if several instances are selected, run one job for each, and return exit code 1 if one failed."""
    names = SelectInstances(options, arguments)
    if not names:
        output.ToStdout(f"Cluster is empty, no instances to {verb}")
        return constants.EXIT_SUCCESS
    several = IsSeveral(options, names)
    if several and not options.force_multi and not ask.ConfirmOperation(names, "instance", verb, "--force-multiple"):
        return constants.EXIT_FAILURE
    return RunJobs(names, make, options, several)


def IsSeveral(options: Options, names: Sequence[str]) -> bool:
    """Whether to ask, and to list the jobs: a selector other than names may mean more than one expects."""
    return len(names) > 1 or options.multi_mode != o.SELECT_INSTANCES


def RunJobs(names: Sequence[str], make: Callable[[str], Any], options: Options, verbose: bool) -> int:
    """Run one job for each instance, with the opcode that ``make`` returns; return exit code 1 if one failed."""
    executor = jobs.JobExecutor(options, verbose=verbose)
    for name in names:
        executor.QueueJob(name, make(name))
    results = executor.WaitOrShow(not options.submit_only)
    return constants.EXIT_FAILURE if jobs.CountFailures(results) else constants.EXIT_SUCCESS
