"""Asks an allocator: gathers the cluster, runs the program, checks the answer (doc/reference/interfaces.md d)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from ganeti import constants, errors, locking, serializer
from ganeti.cmdlib.allocation import answers, clusterdata, hail, requests
from ganeti.cmdlib.common import ReleaseLocks
from ganeti.params import disk as disk_params

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.cmdlib.base import LogicalUnit
    from ganeti.htools.options import Values
    from ganeti.rpc import Notice

_OPTION = re.compile("[a-zA-Z0-9][a-zA-Z0-9-]{0,60}")
# Characters of what an allocator says about its choice.
_MAX_INFO = 2000
# The node call behind which an allocator's program runs.
PROCEDURE = "iallocator_runner"
# Seconds after which an allocator that runs as a program is slow.
SLOW = 10.0


class Patience(NamedTuple):
    """How long a program keeps others from choosing: seconds, ``SLOW`` at least; and the command that ends the job's wait."""

    seconds: float = SLOW
    command: str = "gnt-job cancel --kill --yes-do-it"


# For units that ask while they execute, and only submit jobs or show the answer.
RUNNING = Patience()

_Single = requests.Allocate | requests.Relocate | requests.AllocateSecondary
_Moving = requests.NodeEvacuate | requests.ChangeGroup | requests.Balance


@overload
def Ask(lu: LogicalUnit, allocator: str, request: _Single, patience: Patience = RUNNING) -> list[str]: ...
@overload
def Ask(lu: LogicalUnit, allocator: str, request: requests.MultiAllocate) -> requests.Allocated: ...
@overload
def Ask(lu: LogicalUnit, allocator: str, request: _Moving) -> requests.Evacuation: ...
@overload
def Ask(lu: LogicalUnit, allocator: str, request: requests.Capacity) -> list[list[str]]: ...


def Ask(lu: LogicalUnit, allocator: str, request: requests.Request, patience: Patience = RUNNING) -> Any:
    """Return what an allocator chose: node uuids, the primary first, ``Allocated`` or ``Evacuation``; see ``requests``.

    ``allocator``: a name, or several separated by commas, which are tried in order until one succeeds.  Raises
    OpPrereqError when it finds no place, OpExecError for an answer that cannot be used.  The caller holds the locks that
    keep the answer true.

    When a program has not answered for ``SLOW`` seconds, the job's log says so at once; after those of ``patience``, node-alloc
    is released, if it is held: the caller must not need it for its promises (doc/design-placement.rst).
    """
    *others, last = _Names(allocator)
    data = _Gather(lu, request)
    for name in others:
        try:
            return _AskOne(lu, name, request, data, patience)
        except (errors.OpPrereqError, errors.OpExecError) as err:
            lu.LogWarning(f"{err.args[0]}; the next allocator is tried")
    return _AskOne(lu, last, request, data, patience)


def _Names(allocator: str) -> list[str]:
    names = [name.strip() for name in allocator.split(",") if name.strip()]
    if not names:
        raise errors.OpPrereqError(f"'{allocator}' names no allocator", errors.ECODE_INVAL)
    return names


def _Gather(lu: LogicalUnit, request: requests.Request) -> clusterdata.ClusterData:
    """Ask the nodes; of several disk templates the first counts whose space they report."""
    snapshot = lu.snapshot
    new, instances = _New(request), _Existing(snapshot, request)
    templates = [one.disk_template for one in new]
    templates += [disk.dev_type for inst in instances for disk in snapshot.InstanceDisks(inst)]
    known = (name for name in dict.fromkeys(templates) if disk_params.StorageUnits(snapshot.cluster, name))
    template = next(known, templates[0] if templates else None)
    hypervisors = [one.hypervisor for one in new] + [inst.hypervisor for inst in instances]
    return clusterdata.Gather(lu, snapshot, template, next(iter(hypervisors), None))


def _New(request: requests.Request) -> Sequence[requests.Allocate]:
    """Return the new instances that a request is about."""
    match request:
        case requests.Allocate():
            return (request,)
        case requests.Capacity():
            return (request.instance,)
        case requests.MultiAllocate():
            return request.instances
    return ()


def _Existing(snapshot: objects.Snapshot, request: requests.Request) -> Sequence[objects.Instance]:
    """Return the existing instances that a request is about."""
    names: Sequence[str] = ()
    match request:
        case requests.Relocate() | requests.AllocateSecondary():
            names = (request.name,)
        case requests.NodeEvacuate() | requests.ChangeGroup():
            names = request.instances
        case requests.Balance():
            return tuple(snapshot.WholeInstances())
    found = [snapshot.InstanceByName(name) for name in names]
    return [inst for inst in found if inst is not None]


def ShowQuestion(lu: LogicalUnit, request: requests.Request) -> str:
    """Return the message that an allocator would get."""
    return _Message(_Gather(lu, request), request)


def ShowAnswer(lu: LogicalUnit, allocator: str, request: requests.Request) -> str:
    """Return what an allocator prints, unchecked; of several the first one that succeeds, or else the last."""
    data = _Gather(lu, request)
    *others, last = _Names(allocator)
    for name in others:
        try:
            text = _Text(lu, name, request, data)
            if answers.Parse(name, text).success:
                return text
        except (errors.OpPrereqError, errors.OpExecError) as err:
            lu.LogWarning(f"{err.args[0]}; the next allocator is tried")
    return _Text(lu, last, request, data)


def _Text(lu: LogicalUnit, name: str, request: requests.Request, data: clusterdata.ClusterData) -> str:
    options = Options(data.snapshot.cluster, request)
    local = _InProcess(name, options)
    if local is None:
        return _RunProgram(lu, name, request, data, options)
    return serializer.Dump(asdict(hail.Run(data, request, local, lu.context.allocation).response))


def _InProcess(name: str, options: dict[str, str | None]) -> Values | None:
    """Return the options of an allocator that needs no program; None: it does."""
    local = hail.OptionsOf(options) if name == constants.IALLOC_HAIL else None
    return None if local is None or hail.NeedsProgram(local) else local


def _AskOne(
    lu: LogicalUnit, name: str, request: requests.Request, data: clusterdata.ClusterData, patience: Patience
) -> Any:
    options = Options(data.snapshot.cluster, request)
    local = _InProcess(name, options)
    reasons: Sequence[str] = ()
    if local is None:
        response = answers.Parse(name, _RunProgram(lu, name, request, data, options, patience))
    else:
        response, reasons = hail.Run(data, request, local, lu.context.allocation)
    if not response.success:
        _LogReasons(lu, reasons)
    result = answers.Check(name, data, request, response)
    _LogChoice(lu, name, data.snapshot, request, result)
    if response.info:
        lu.LogInfo(f"iallocator {name}: {response.info[:_MAX_INFO]}")
    _LogReasons(lu, reasons)
    return result


def Options(cluster: objects.Cluster, request: requests.Request | None = None) -> dict[str, str | None]:
    """Return the options of allocators: the cluster's default ones and those of the request; null for one without value."""
    options: dict[str, str | None] = {}
    for key, value in cluster.default_iallocator_params.items():
        if value is not False:
            options[key] = None if value in (None, True, "") else str(value)
    if isinstance(request, requests.NodeEvacuate) and request.ignore_soft_errors:
        options["ignore-soft-errors"] = None
    return options


def CheckOptions(cluster: objects.Cluster) -> None:
    """Raise OpPrereqError if the default parameters cannot be options, or are none of hail's while it is a default."""
    for key, value in cluster.default_iallocator_params.items():
        if not _OPTION.fullmatch(key):
            raise errors.OpPrereqError(
                f"'{key[:60]}' cannot be an option of allocators: names consist of letters, digits and dashes",
                errors.ECODE_INVAL,
            )
        if not (value is None or isinstance(value, (str, bool, int, float))) or not str(value).isprintable():
            raise errors.OpPrereqError(f"The allocators' option '{key}' needs a text as its value", errors.ECODE_INVAL)
    if constants.IALLOC_HAIL in cluster.default_iallocator.split(","):
        hail.OptionsOf(Options(cluster))


def _RunProgram(
    lu: LogicalUnit,
    name: str,
    request: requests.Request,
    data: clusterdata.ClusterData,
    options: dict[str, str | None],
    patience: Patience = RUNNING,
) -> str:
    """Return what a program on the master node prints."""
    message = _Message(data, request)
    master = data.snapshot.cluster.master_node
    text = (
        f"iallocator {name} has been running on {data.snapshot.NodeName(master)} for {SLOW:g} s; it is ended when it takes"
        f" {constants.RPC_TMO_NORMAL // 60} minutes; '{patience.command} {lu.ec_id}' ends the wait"
    )
    notices: list[Notice] = [
        # Past the unit, which may keep its messages until the choice is final.
        (SLOW, lambda: lu.proc.LogInfo(text)),
        (patience.seconds, lambda: ReleaseLocks(lu, locking.LEVEL_NODE_ALLOC)),
    ]
    with lu.rpc.Noticing(notices):
        result = lu.rpc.call_iallocator_runner(master, name, message, options)
    if result.fail_msg is not None:
        raise errors.OpExecError(
            f"Failure while running the iallocator script: {result.fail_msg}", hint=answers.OTHER_WAY
        )
    return str(result.payload)


def _Message(data: clusterdata.ClusterData, request: requests.Request) -> str:
    return serializer.Dump(clusterdata.Message(data, hail.Entry(data, request)))


def _LogReasons(lu: LogicalUnit, reasons: Sequence[str]) -> None:
    for reason in reasons:
        lu.LogInfo(f"Not chosen: {reason}")


def _LogChoice(lu: LogicalUnit, name: str, snapshot: objects.Snapshot, request: requests.Request, result: Any) -> None:
    """Write to the job's log what was chosen, one line for each instance."""
    chosen: list[tuple[str, list[str]]] = []
    if isinstance(result, requests.Allocated):
        chosen = result.placed
    elif isinstance(request, (requests.Allocate, requests.Relocate, requests.AllocateSecondary)):
        chosen = [(request.name, result)]
    for instance, uuids in chosen:
        nodes = ", ".join(snapshot.NodeName(uuid) for uuid in uuids)
        lu.LogInfo(f"Selected nodes for instance {instance} via iallocator {name}: {nodes}")
