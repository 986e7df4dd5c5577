"""The allocator ``hail`` in the master's own process: the program's answer without program and message."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import constants, errors
from ganeti.cmdlib.allocation import answers, model, requests
from ganeti.htools import answer
from ganeti.htools.choosing import explain
from ganeti.htools.choosing.allocate import Rules
from ganeti.htools.options import PROGRAM_OPTIONS, Parser, UsageError, ValueProblem, Values
from ganeti.htools.sources import loading
from ganeti.htools.sources.loading import LoadError, NewInstanceTags, Raw
from ganeti.htools.sources.request import New, ReadRequest, Type
from ganeti.htools.sources.request import Request as Question

if TYPE_CHECKING:
    from ganeti.cmdlib.allocation.clusterdata import ClusterData
    from ganeti.htools.model.entities import Group
    from ganeti.htools.model.state import Cluster

# Options that say what is printed, read or written; with them the program itself is run.
_OUTSIDE = ("print_nodes", "save", "text_data", "simulate", "mond", "mond_xen", "help", "version", "help_completion")


class Outcome(NamedTuple):
    """What hail answers, and why other nodes were not chosen, one line a reason."""

    response: answers.Response
    reasons: Sequence[str]


def OptionsOf(given: Mapping[str, str | None]) -> Values:
    """Return hail's options; raises OpPrereqError for those that it does not know or cannot read."""
    words = [f"--{name}" if value is None else f"--{name}={value}" for name, value in given.items()]
    try:
        return Parser(PROGRAM_OPTIONS[constants.IALLOC_HAIL]).Parse(words)
    except (UsageError, ValueProblem) as err:
        raise errors.OpPrereqError(
            f"The default_iallocator_params cannot be used with the allocator '{constants.IALLOC_HAIL}': {err}",
            errors.ECODE_INVAL,
            hint="hail(1) has the options; 'gnt-cluster modify --default-iallocator-params=KEY=VALUE,...' sets them without '--',"
            " all anew",
        ) from err


def NeedsProgram(options: Values) -> bool:
    """Return whether some option is about files or output, which only the program has."""
    return any(options.values.get(name) for name in _OUTSIDE) or options.values.get("print_nodes") is not None


def Run(data: ClusterData, request: requests.Request, options: Values, memory: model.Memory) -> Outcome:
    """Return what the program would answer to the message of this request; raises OpExecError."""
    rules = Rules(
        force=options.ignore_soft_errors,
        capacity_checks=not options.no_capacity_checks,
        restrict=options.restrict_allocation_to,
    )
    wishes = loading.Wishes(
        ignore_loads=options.ignore_dynu,
        static_kvm_memory=options.static_kvm_node_memory,
    )
    try:
        raw = model.MakeRaw(data, memory)
        question = ReadRequest(Entry(data, request), {inst.name for inst in raw.instances})
        cluster = loading.Build(raw, wishes)
    except LoadError as err:
        raise errors.OpExecError(
            f"iallocator '{constants.IALLOC_HAIL}' cannot use the data of the cluster: {err}"
        ) from err
    return _Answer(cluster, question, rules, raw)


def Entry(data: ClusterData, request: requests.Request) -> dict[str, Any]:
    """Return the request as it stands in a message."""
    return {"type": request.TYPE, **request.Entry(data.snapshot)}


def _Answer(cluster: Cluster, question: Question, rules: Rules, raw: Raw) -> Outcome:
    reply: answer.Answer | answer.Impossible
    try:
        reply = answer.Reply(cluster, question, rules)
    except answer.Impossible as err:
        reply = err
    said = answer.Message(reply)
    response = answers.Response(said["success"], said["info"], said["result"])
    return Outcome(response, _Reasons(cluster, question, rules, response, raw))


def _Reasons(cluster: Cluster, question: Question, rules: Rules, response: answers.Response, raw: Raw) -> Sequence[str]:
    """Explain the choice for one new instance, and of several why some fit nowhere."""
    if question.type is Type.ALLOCATE:
        (new,) = question.new
        group = None if question.group is None else cluster.FindGroup(question.group)
        chosen = set(response.result) if response.success and isinstance(response.result, list) else set()
        return _Explain(cluster, new, rules, raw, group, chosen)
    if question.type is Type.MULTI_ALLOCATE and not (response.success and not response.result[1]):
        return list(_ReasonsOfSeveral(cluster, question, rules, raw))
    return ()


def _ReasonsOfSeveral(cluster: Cluster, question: Question, rules: Rules, raw: Raw) -> Iterator[str]:
    """Yield why each instance that fits nowhere does not; also those after the one that failed the whole request."""
    try:
        for new, then, group, choice in answer.Placings(cluster, question, rules):
            if choice.placement is None:
                reasons = _Explain(then, new, rules, raw, group, ())
                yield from (f"instance {new.instance.name}: {reason}" for reason in reasons)
    except answer.Impossible:
        return  # the answer names the unknown group


def _Explain(
    cluster: Cluster, new: New, rules: Rules, raw: Raw, group: Group | None, chosen: Collection[str]
) -> Sequence[str]:
    """Return why a new instance did not go to other nodes than the chosen ones."""
    inst = NewInstanceTags(new.instance, raw.tags)
    indices = [node.index for node in cluster.state.nodes.values() if node.facts.name in chosen]
    wanted = None if group is None else group.index
    return explain.Reasons(answer.Bound(cluster, new), inst, new.required, answer.RulesFor(new, rules), wanted, indices)
