"""gnt-cluster capacity: what the cluster can bear, and how much more fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ganeti import constants, errors
from ganeti.cli import jobs, output
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options, Value
from ganeti.htools.choosing import space
from ganeti.htools.model.entities import Group
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.sources import loading, luxidata
from ganeti.htools.sources.loading import LoadError, Wishes
from ganeti.htools.survival import failures, proof, remedy
from ganeti.htools.survival.effort import GIVEN_UP, MOST, Effort, GivenUp
from ganeti.utils.text import Counted

_EXAMPLES = 5

TEMPLATE = Value(
    "-t", "--disk-template", dest="disk_template", choices=constants.DISK_TEMPLATES, metavar="TEMPLATE",
    text="Disk template of the instances that are counted; by default the first enabled one that the group allows",
)  # fmt: skip
LIMIT = Value(
    "--limit", dest="limit", type="int", default=100, metavar="NUMBER", text="Count at most so many instances"
)
MINIMUM_MEMORY = Value(
    "--minimum-memory", dest="minimum_memory", type="unit", metavar="SIZE",
    text="Minimum memory of the instances that are counted, which matters in groups with a memory ratio; by default all of it",
)  # fmt: skip


def _Load() -> tuple[Cluster, Sequence[str]]:
    """Return the cluster and its enabled disk templates."""
    client = jobs.GetClient()
    nodes = client.Query("node", luxidata.NODE_FIELDS)
    instances = client.Query("instance", luxidata.INSTANCE_FIELDS)
    info = client.QueryClusterInfo()
    groups = client.Query("group", luxidata.GROUP_FIELDS)
    try:
        return loading.Build(luxidata.Parse(nodes, instances, info, groups), Wishes()), info["enabled_disk_templates"]
    except LoadError as err:
        raise errors.OpExecError(
            f"The state of the cluster cannot be read: {err}",
            hint="a node that does not answer is left out once it is marked offline with 'gnt-node modify --offline=yes NODE'",
        ) from err


def Lines(
    cluster: Cluster,
    group: Group,
    enabled: Sequence[str],
    limit: int,
    template: str | None = None,
    least: int | None = None,
    tries: int = MOST,
) -> Iterator[str]:
    """Yield what there is to say of a group.

    Instances of ``template`` are counted, by default of the first of the ``enabled`` ones that its policy allows.
    ``least``: their minimum memory, MiB.  ``tries``: how many are made to find out whether several failures are survived.
    """
    part = cluster.GroupState(group.index)
    yield f"Node group {group.name}: {Counted(len(part.nodes), 'node')}, {Counted(len(part.instances), 'instance')}"
    size = replace(proof.StandardSize(group), least=least)
    template = template or proof.TemplateFor(group, enabled)
    room = proof.Fitting(cluster, group, template, size, limit, tries=tries)
    count = f"at least {room.count}" if room.limited or room.given_up else str(room.count)
    minimum = "" if least is None else f" ({size.LeastMemory()} MiB at least)"
    then = f"; then: {room.reason}" if room.reason else ""
    yield (
        f"  more instances of {size.memory} MiB memory{minimum}, {size.disk} MiB disk and {size.cpus} CPU(s), {template}:"
        f" {count}{then}"
    )
    yield from _Limits(part, group, tries)
    weak = proof.Weaknesses(cluster, group)
    if not weak:
        yield "  any one node may fail: all running instances could run elsewhere"
    places = {node.facts.name: index for index, node in part.nodes.items()}
    for node, losses in weak:
        yield f"  if {node} failed, {Counted(len(losses), 'instance')} would stay down:"
        shown = losses[:_EXAMPLES]
        remedies = remedy.Remedies(cluster.state, places[node], shown, enabled)
        for loss, help_text in zip(shown, remedies, strict=True):
            yield f"    {loss.instance}: {loss.text}; what would help: {help_text}"
        if len(losses) > _EXAMPLES:
            yield f"    and {len(losses) - _EXAMPLES} more"


def Held(cluster: Cluster) -> Iterator[str]:
    """Yield what keeps hail from allocating in whatever group: it wants all nodes of all groups to be emptiable."""
    for group in cluster.UsedGroups():
        names = ", ".join(space.Stuck(cluster, group))
        if names:
            yield (
                f"hail allocates nothing, in any group, while {names} of node group {group.name} could not be emptied:"
                " its other nodes have no room for all instances of one of these"
            )


def _Limits(part: State, group: Group, tries: int) -> Iterator[str]:
    """Yield how the limits of the policy that 3.1 does not have are kept."""
    count = group.policy.max_failures
    if count > 1:
        yield _Failures(part, group, count, tries)
    for node in part.nodes.values():
        if node.facts.working and node.overpromised:
            yield (
                f"  memory-ratio {group.policy.memory_ratio:g} is not kept: the instances of {node.facts.name} may have"
                f" {node.promised} MiB together, it has {node.facts.memory_for_instances} MiB for them"
            )


def _Failures(part: State, group: Group, count: int, tries: int) -> str:
    """Return whether so many nodes may fail."""
    try:
        found = failures.FirstBreakdown(part, group.index, count, Effort(tries))
    except GivenUp:
        return f"  max-node-failures {count}: {GIVEN_UP}"
    if found is not None:
        nodes = ", then ".join(found.nodes)
        return (
            f"  max-node-failures {count} is not kept: if {nodes} failed, there would be no room for {found.instance}"
        )
    bearable = failures.Bearable(part, group.index, count)
    if bearable < count:
        return f"  max-node-failures {count} needs {count + 1} nodes that are online; {bearable} may fail"
    return f"  any {count} nodes may fail, one after the other (max-node-failures)"


def Run(options: Options, arguments: list[str]) -> int:
    if options.limit < 1:
        raise errors.OpPrereqError("--limit must be at least 1", errors.ECODE_INVAL)
    cluster, enabled = _Load()
    if cluster.silent:
        output.ToStderr(f"These nodes do not answer and count as offline: {', '.join(cluster.silent)}")
    wanted = list(cluster.groups)
    if arguments:
        found = [(word, cluster.FindGroup(word)) for word in arguments]
        unknown = [word for word, group in found if group is None]
        if unknown:
            raise errors.OpPrereqError(
                f"Group '{unknown[0]}' not known", errors.ECODE_NOENT, hint="see 'gnt-group list'"
            )
        wanted = [group for _, group in found if group is not None]
    for group in wanted:
        for line in Lines(cluster, group, enabled, options.limit, options.disk_template, options.minimum_memory):
            output.ToStdout(line)
    for line in Held(cluster):
        output.ToStdout(line)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Show which node's failure the cluster cannot bear, and how many more instances fit",
    (AnyNumber("group"),),
    (TEMPLATE, LIMIT, MINIMUM_MEMORY),
)
