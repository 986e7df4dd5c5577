"""hspace: how many more instances fit (doc/reference/htools.md 15)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ganeti.htools import listing
from ganeti.htools.choosing import allocate, space
from ganeti.htools.choosing.allocate import NoCandidates, Rules
from ganeti.htools.choosing.space import Grounds, Run, Space, Totals
from ganeti.htools.model.entities import DRBD, NO_NODE, Failure, Instance, Spec
from ganeti.htools.model.resources import Ratio
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.numbers import Fixed, Shown
from ganeti.htools.options import Values
from ganeti.htools.sizes import Size
from ganeti.htools.survival.effort import GIVEN_UP, MOST, Effort
from ganeti.tools.htools import machine, output, sources
from ganeti.tools.htools.output import Failed, Streams

_PREFIX = "HTS_"


@dataclass(frozen=True)
class _Plan:
    """What is allocated: sizes, template, nodes of each instance."""

    standard: Size
    tiers: Sequence[Size]
    template: str
    required: int
    spindle_use: int


def _SizeOf(spec: Spec) -> Size:
    return Size(spec.disk_size, spec.memory, spec.cpus, spec.spindle_use)


def _MakePlan(cluster: Cluster, options: Values) -> _Plan:
    policy = cluster.policy
    template = options.disk_template or policy.templates[0]
    least = options.minimum_memory
    tiers = [options.tiered_alloc] if options.tiered_alloc else [_SizeOf(largest) for _, largest in policy.minmax]
    return _Plan(
        standard=replace(options.standard_alloc or _SizeOf(policy.standard), least=least),
        tiers=[replace(size, least=least) for size in tiers],
        template=template,
        required=2 if template == DRBD else 1,
        spindle_use=policy.standard.spindle_use if options.spindle_use is None else options.spindle_use,
    )


def Main(options: Values, streams: Streams, tries: int = MOST) -> int:
    """Count what fits; ``tries``: what is made of them to find out whether failures are survived, for each instance."""
    cluster = sources.Adjust(sources.Load(options, streams), options)
    plan = _MakePlan(cluster, options)
    grounds = space.Survey(cluster, options.accept_existing_errors, options.independent_groups)
    state = cluster.state
    _Introduce(cluster, grounds, options, streams)
    if options.machine_readable:
        machine.Print(streams, _PREFIX, _ClusterPairs(state))
        machine.Print(streams, f"{_PREFIX}INI_", _Pairs(space.Sum(state)))
    else:
        _PrintCluster(state, streams)
    tiered, standard, given_up = _Allocate(cluster, plan, grounds, options, tries)
    if given_up:
        streams.Err(f"Warning: more instances may fit: {GIVEN_UP}")
    _ShowRun(cluster, tiered, "Tiered allocation", "tiered", "after tiered allocation", options, streams)
    if options.machine_readable:
        _PrintTiered(state, plan, tiered, streams)
    else:
        _PrintSize("Tiered (initial size)", plan.tiers[0], plan, state, streams)
        _PrintTieredResult(state, tiered, streams)
    _ShowRun(cluster, standard, "Standard allocation", "standard", "after standard allocation", options, streams)
    if options.machine_readable:
        _PrintStandard(state, plan, standard, streams)
    else:
        _PrintSize("Standard (fixed-size)", plan.standard, plan, state, streams)
        streams.Out("Normal (fixed-size) allocation results:", f"  - {len(standard.instances):>3} instances allocated")
        _PrintEfficiency(state, standard, streams)
    return 0


def _Allocate(cluster: Cluster, plan: _Plan, grounds: Grounds, options: Values, tries: int) -> tuple[Run, Run, bool]:
    """Return the tiered and the standard run, each from the initial state, and whether one was given up."""
    state = cluster.state
    limit = options.max_length
    if not grounds.allowed:
        nothing = Run(state, (), space.NOTHING_TRIED)
        return nothing, nothing, False
    rules = Rules(
        capacity_checks=not options.no_capacity_checks,
        unallocable=grounds.unallocable,
        ignored=frozenset(grounds.bad_groups) if options.independent_groups else frozenset(),
        accept_offline=options.accept_existing_errors,
        effort=Effort(tries),
    )
    try:
        candidates = allocate.Candidates(state.Ordered(), plan.required, rules)
    except NoCandidates as err:
        raise Failed(f"failure during allocation: {err}") from err
    room = Space(plan.template, plan.spindle_use, candidates, rules)
    tiered = Run(state)
    for size in plan.tiers:
        total = len(tiered.instances)
        if limit >= 0 and total and limit <= total:
            break
        more = room.Tiered(tiered.state, size, limit - total if limit >= 0 else limit, total)
        tiered = Run(more.state, tiered.instances + more.instances, more.failures)
    again = replace(rules, effort=Effort(tries))
    standard = Space(plan.template, plan.spindle_use, candidates, again).Standard(state, plan.standard, limit)
    return tiered, standard, rules.effort.given_up or again.effort.given_up


# --- standard error -------------------------------------------------------------------------------------------------------


def _Introduce(cluster: Cluster, grounds: Grounds, options: Values, streams: Streams) -> None:
    nodes = cluster.state.Ordered()
    if options.verbosity > 1:
        streams.Err(*output.SuffixNote(cluster))
    output.PrintNodes(streams, nodes, options, "Initial cluster")
    if options.verbosity > 2:
        score = Fixed(cluster.state.Score(), 8)
        streams.Err(f"Initial coefficients: overall {score}", *listing.MetricTable(nodes))
    if options.verbosity > 3:
        groups = {group.index: group.name for group in cluster.groups}
        if grounds.bad_nodes:
            streams.Err(f"Bad nodes: {output.Listed([node.facts.name for node in grounds.bad_nodes])}")
        if grounds.bad_groups:
            streams.Err(f"Bad groups: {output.Listed([groups[index] for index in grounds.bad_groups])}")
        usable = [n.facts.name for n in nodes if not n.offline and n.facts.group not in grounds.unallocable]
        streams.Err(f"Allocatable nodes: {output.Listed(usable)}")


def _ShowRun(cluster: Cluster, run: Run, title: str, suffix: str, when: str, options: Values, streams: Streams) -> None:
    if options.verbosity > 1:
        streams.Err(f"{title} map", *listing.Table([_MapRow(run.state, i) for i in run.instances], _MAP_NUMERIC))
    output.PrintNodes(streams, run.state.Ordered(), options, title)
    output.Save(streams, cluster.WithState(run.state), options, suffix, when)


_MAP_NUMERIC = (False, False, False, True, True, True, True)


def _MapRow(state: State, inst: Instance) -> list[str]:
    nodes = state.nodes
    return [
        inst.name,
        nodes[inst.primary].facts.name,
        "" if inst.secondary == NO_NODE else nodes[inst.secondary].facts.name,
        str(inst.memory),
        str(inst.disk),
        str(inst.vcpus),
        str(inst.disks[0].spindles) if _Exclusive(state) else "",
    ]


def _Exclusive(state: State) -> bool:
    return any(node.facts.exclusive_storage for node in state.nodes.values())


# --- for programs ---------------------------------------------------------------------------------------------------------


def _ClusterPairs(state: State) -> list[tuple[str, str]]:
    totals = space.Sum(state)
    return [
        ("CLUSTER_MEM", Fixed(totals.memory, 0)),
        ("CLUSTER_DSK", Fixed(totals.disk, 0)),
        ("CLUSTER_CPU", Fixed(totals.cpus, 0)),
        ("CLUSTER_VCPU", str(totals.vcpus)),
        ("CLUSTER_SPN", str(totals.spindles)),
        ("CLUSTER_NODES", str(len(state.nodes))),
    ]


def _Pairs(totals: Totals) -> list[tuple[str, str]]:
    used_spindles = totals.spindles - totals.spindles_free
    return [
        ("SCORE", Fixed(totals.score, 8)),
        ("INST_CNT", str(totals.instances)),
        ("MEM_FREE", str(totals.memory_free)),
        ("MEM_AVAIL", str(totals.memory_available)),
        ("MEM_RESVD", str(totals.memory_free - totals.memory_available)),
        ("MEM_INST", str(totals.memory_instances)),
        ("MEM_OVERHEAD", str(totals.memory_overhead)),
        ("MEM_EFF", Fixed(Ratio(totals.memory_instances, totals.memory), 8)),
        ("DSK_FREE", str(totals.disk_free)),
        ("DSK_AVAIL", str(totals.disk_available)),
        ("DSK_RESVD", str(totals.disk_free - totals.disk_available)),
        ("DSK_INST", str(totals.disk_instances)),
        ("DSK_EFF", Fixed(Ratio(totals.disk_instances, totals.disk), 8)),
        ("SPN_FREE", str(totals.spindles_free)),
        ("SPN_INST", str(used_spindles)),
        ("SPN_EFF", Fixed(Ratio(used_spindles, totals.spindles), 8)),
        ("CPU_INST", str(totals.cpus_used)),
        ("CPU_EFF", Fixed(Ratio(totals.cpus_used, totals.vcpus), 8)),
        ("MNODE_MEM_AVAIL", str(totals.node_memory_available)),
        ("MNODE_DSK_AVAIL", str(totals.node_disk_available)),
    ]


def _SizePairs(prefix: str, size: Size, plan: _Plan) -> list[tuple[str, str]]:
    return [
        (f"{prefix}_MEM", str(size.memory)),
        (f"{prefix}_DSK", str(size.disk)),
        (f"{prefix}_CPU", str(size.cpus)),
        (f"{prefix}_SPN", str(size.spindles)),
        (f"{prefix}_RQN", str(plan.required)),
        (f"{prefix}_DISK_TEMPLATE", plan.template),
    ]


def _Tiers(run: Run) -> list[tuple[Size, int]]:
    """Return the sizes of a run with how many there are in a row."""
    sizes = [Size(i.disk, i.memory, i.vcpus, i.disks[0].spindles or 0) for i in run.instances]
    return [(size, len(list(group))) for size, group in itertools.groupby(sizes)]


def _PrintTiered(initial: State, plan: _Plan, run: Run, streams: Streams) -> None:
    machine.Print(streams, _PREFIX, _SizePairs("TSPEC_INI", plan.tiers[0], plan))
    before, after = space.Sum(initial), space.Sum(run.state)
    machine.Print(streams, f"{_PREFIX}TRL_", _Pairs(after))
    tiers = " ".join(f"{s.memory},{s.disk},{s.cpus},{s.spindles}={count}" for s, count in _Tiers(run))
    machine.Print(streams, _PREFIX, [("TSPEC", tiers)])
    used, final = _KeyMetrics(before), _KeyMetrics(after)
    most = (float(after.vcpus), after.cpus, float(int(after.memory)), float(int(after.disk)), float(after.spindles))
    rows = (
        ("USED", used),
        ("POOL", [f - u for u, f in zip(used, final, strict=True)]),
        ("UNAV", [m - f for m, f in zip(most, final, strict=True)]),
    )
    for word, values in rows:
        machine.Print(streams, f"{_PREFIX}KM_{word}_", zip(_KEYS, map(_KeyText, _KEYS, values), strict=True))


_KEYS = ("CPU", "NPU", "MEM", "DSK", "SPN")


def _KeyMetrics(totals: Totals) -> list[float]:
    return [
        totals.cpus_used,
        totals.cpus_normalized,
        totals.memory_instances,
        totals.disk_instances,
        totals.spindles - totals.spindles_free,
    ]


def _KeyText(key: str, value: float) -> str:
    return Shown(value) if key == "NPU" else str(int(value))


def _PrintStandard(initial: State, plan: _Plan, run: Run, streams: Streams) -> None:
    machine.Print(streams, _PREFIX, _SizePairs("SPEC", plan.standard, plan))
    before, after = space.Sum(initial), space.Sum(run.state)
    machine.Print(streams, f"{_PREFIX}FIN_", _Pairs(after))
    modes = [Failure.N1] if run.failures is space.NOTHING_TRIED else list(Failure)
    counts = sorted(modes, key=lambda mode: -run.failures[mode])
    machine.Print(
        streams,
        _PREFIX,
        [
            ("ALLOC_USAGE", Fixed(Ratio(before.instances, after.instances), 8)),
            ("ALLOC_INSTANCES", str(len(run.instances))),
            ("ALLOC_FAIL_REASON", run.reason.value.upper()),
            *((f"ALLOC_{mode.value.upper()}_CNT", str(run.failures[mode])) for mode in counts),
            ("OK", "1"),
        ],
    )


# --- for people -------------------------------------------------------------------------------------------------------------


def _PrintCluster(state: State, streams: Streams) -> None:
    totals = space.Sum(state)
    spindles = f", SPN {totals.spindles}" if _Exclusive(state) else ""
    count = len(state.instances)
    streams.Out(
        f"The cluster has {len(state.nodes)} nodes and the following resources:",
        f"  MEM {Fixed(totals.memory, 0)}, DSK {Fixed(totals.disk, 0)}, CPU {Fixed(totals.cpus, 0)},"
        f" VCPU {totals.vcpus}{spindles}.",
        f"There are {count or 'no'} initial instances on the cluster.",
    )


def _SizeText(size: Size, state: State) -> str:
    spindles = f", SPN {size.spindles}" if _Exclusive(state) else ""
    return f"MEM {size.memory}, DSK {size.disk}, CPU {size.cpus}{spindles}"


def _PrintSize(title: str, size: Size, plan: _Plan, state: State, streams: Streams) -> None:
    streams.Out(f"{title} instance spec is:", f"  {_SizeText(size, state)}, using disk template '{plan.template}'.")


def _PrintTieredResult(initial: State, run: Run, streams: Streams) -> None:
    tiers = [f"  - {count:>3} instances of spec {_SizeText(size, initial)}" for size, count in _Tiers(run)]
    streams.Out("Tiered allocation results:", *(tiers or ["  - no instances allocated"]))
    _PrintEfficiency(initial, run, streams)


def _PrintEfficiency(initial: State, run: Run, streams: Streams) -> None:
    after = space.Sum(run.state)
    parts = [
        ("memory", after.memory_instances, after.memory),
        ("disk", after.disk_instances, after.disk),
        ("vcpu", after.cpus_used, after.vcpus),
    ]
    if _Exclusive(initial):
        parts.append(("spindles", after.spindles - after.spindles_free, after.spindles))
    width = max(len(what) for what, _, _ in parts)
    streams.Out(
        f"  - most likely failure reason: {run.reason.value}",
        f"  - initial cluster score: {Fixed(initial.Score(), 8)}",
        f"  -   final cluster score: {Fixed(after.score, 8)}",
        *(
            f"  - {what.rjust(width)} usage efficiency: {Fixed(Ratio(part, whole) * 100, 2).rjust(5)}%"
            for what, part, whole in parts
        ),
    )
