"""hbal: balances a group (doc/reference/htools.md 13)."""

from __future__ import annotations

from collections.abc import Sequence

from ganeti import constants
from ganeti.htools.choosing import balance, solution
from ganeti.htools.choosing.balance import Rules, Step
from ganeti.htools.model import score
from ganeti.htools.model.entities import NO_NODE, Instance
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.numbers import Balanced, Fixed
from ganeti.htools.options import Values
from ganeti.tools.htools import execution, output, sources
from ganeti.tools.htools.master import MasterClient
from ganeti.tools.htools.output import Failed, Streams


def RulesOf(options: Values) -> Rules:
    """Return the rules of balancing that a command line asks for."""
    return Rules(
        instance_moves=not options.no_instance_moves,
        disk_moves=not options.no_disk_moves,
        restricted_migration=bool(options.values.get("restricted_migration")),
        evacuation=options.evac_mode,
        ignore_soft_errors=options.ignore_soft_errors,
        steps=options.max_length,
        least_score=options.min_score,
        least_gain=options.min_gain,
        gain_limit=options.min_gain_limit,
        cost=max(0.0, options.values.get("move_cost") or 0.0),
    )


class _Writer:
    """Writes solution lines and commands with the aliases of nodes and instances."""

    def __init__(self, cluster: Cluster, state: State):
        self._nodes = cluster.state.nodes
        self._node_width = 2 * max((len(node.facts.alias) for node in state.nodes.values()), default=0) + 1
        self._instance_width = max((len(inst.alias) for inst in state.instances.values()), default=0)

    def Alias(self, index: int) -> str:
        return self._nodes[index].facts.alias if index != NO_NODE else ""

    def _Nodes(self, inst: Instance) -> str:
        first = self.Alias(inst.primary)
        text = first if inst.secondary == NO_NODE else f"{first}:{self.Alias(inst.secondary)}"
        return text.ljust(self._node_width)

    def Line(self, number: int, step: Step) -> str:
        code = solution.Code(step.move, self.Alias(step.move.target))
        return (
            f"  {number:>3}. {step.instance.alias.ljust(self._instance_width)} {self._Nodes(step.instance)}"
            f" => {self._Nodes(step.moved)} {Fixed(step.score, 8).rjust(12)} a={code}"
        )

    def Commands(self, step: Step) -> list[str]:
        return solution.Commands(step.instance, step.instance.alias, step.move, self.Alias(step.move.target))


def Main(options: Values, streams: Streams) -> int:
    verbosity = options.verbosity
    whole = sources.Load(options, streams)
    cluster = sources.Adjust(whole, options)
    if verbosity > 1:
        streams.Out(f"Loaded cluster tags: {','.join(cluster.tags)}", f"Loaded cluster ipolicy: {cluster.policy}")
    if not cluster.state.instances:
        streams.Out("Cluster is empty, exiting.")
        return 0
    _Introduce(cluster, whole, options, streams)
    name, state = output.ChooseGroup(streams, cluster, options.group)
    streams.Out(
        f"Group size {len(state.nodes)} nodes, {len(state.instances)} instances", f"Selected node group: {name}"
    )
    _CheckNodes(state, options, streams)
    output.PrintInstances(streams, state, cluster, options, "Initial")
    output.PrintNodes(streams, state.Ordered(), options, "Initial cluster")
    first = state.Score()
    if verbosity > 2:
        output.PrintCoefficients(streams, state.Ordered(), "Initial coefficients:", first)
    else:
        streams.Out(f"Initial score: {Fixed(first, 8)}")
    rules = RulesOf(options)
    bound = score.Bound(state.Ordered())
    if first - bound < rules.least_score:
        streams.Out(
            f"Cluster is already well balanced (initial score {Balanced(first)},",
            f"optimum score due to N+1 reservations {Balanced(bound)},",
            f"minimum score {Balanced(rules.least_score)}).",
            "Nothing to do, exiting",
        )
        return 0
    writer = _Writer(cluster, state)
    steps = _Search(state, rules, writer, streams)
    _Conclude(state, steps, first, options, streams)
    sets = solution.JobSets(steps)
    if options.first_job_group:
        sets = sets[:1]
    _PrintCommands(sets, writer, options, streams)
    final = steps[-1].state if steps else state
    part = cluster.WithState(final)
    output.Save(streams, part, options, "balanced", "after balancing")
    output.PrintInstances(streams, final, cluster, options, "Final")
    output.PrintNodes(streams, final.Ordered(), options, "Final cluster")
    if verbosity > 3:
        streams.Out(_Totals("Original:", state), _Totals("Final:   ", final))
    return _Execute(cluster, sets, options, streams) if options.exec else 0


def _Execute(cluster: Cluster, sets: Sequence[Sequence[Step]], options: Values, streams: Streams) -> int:
    if options.luxi is None and options.master is None:
        raise Failed("hbal: Execution of commands possible only on LUXI and RAPI")
    comment = f"rebalancing via hbal {constants.RELEASE_VERSION}"

    def annotated(job: execution.Job) -> execution.Job:
        return execution.Annotated(job, comment, "hbal", options)

    jobs = [[execution.StepOpcodes(step, cluster.NodeName) for step in steps] for steps in sets]
    if options.master is not None:
        # With curl, which no other run of the program needs.
        from ganeti.tools.htools import remote

        queue = remote.Open(options, execution.ReasonText("hbal", options), streams)
        return execution.RunSets(execution.Executor(queue, streams), jobs, annotated, streams)
    with MasterClient(options.luxi, streams) as client:
        return execution.RunSets(execution.Executor(execution.LuxiQueue(client), streams), jobs, annotated, streams)


def _Introduce(cluster: Cluster, whole: Cluster, options: Values, streams: Streams) -> None:
    if options.verbosity > 1 and cluster.split:
        names = (cluster.state.instances[index].name for index in cluster.split)
        streams.Err(
            "Found instances belonging to multiple node groups:",
            *output.Named(names),
            "These instances will not be moved.",
        )
    streams.Out(f"Loaded {len(cluster.state.nodes)} nodes, {len(cluster.state.instances)} instances")
    if options.verbosity > 1:
        streams.Out(*output.SuffixNote(cluster))
    output.Save(streams, whole, options, "original", "before balancing")


def _CheckNodes(state: State, options: Values, streams: Streams) -> None:
    nodes = state.Ordered()
    bad = output.BadNodes(nodes)
    good = [node for node in nodes if node not in bad]
    if options.verbosity >= 1:
        streams.Out(f"Initial check done: {len(bad)} bad nodes, {len(output.BadInstances(nodes))} bad instances.")
    violating = [node for node in good if node.policy_violation is not None]
    if options.verbosity > 4:
        streams.Out(
            f"Bad nodes: {output.Listed([node.facts.name for node in bad])}",
            f"N+1 happy nodes: {output.Listed([node.facts.name for node in good])}",
            f"Node policy status: {output.Listed([node.facts.name for node in violating])}",
        )
    if bad:
        streams.Out("Cluster is not N+1 happy, continuing but no guarantee that the cluster will end N+1 happy.")
    if violating:
        streams.Out(f"The cluster contains {len(violating)} policy-violating nodes.")
        streams.Out(
            "Continuing, ignoring soft errors."
            if options.ignore_soft_errors
            else "Continuing, but the set of moves might be too restricted; consider using the"
            " --ignore-soft-errors option."
        )


def _Search(state: State, rules: Rules, writer: _Writer, streams: Streams) -> list[Step]:
    streams.Out("Trying to minimize the CV...")
    steps: list[Step] = []
    for step in balance.Balance(state, rules):
        steps.append(step)
        streams.Out(writer.Line(len(steps), step))
    return steps


def _Conclude(state: State, steps: Sequence[Step], first: float, options: Values, streams: Streams) -> None:
    if not steps:
        streams.Out("No solution found")
    elif options.verbosity > 2:
        final = steps[-1]
        output.PrintCoefficients(streams, final.state.Ordered(), "Final coefficients:  ", final.score)
    else:
        streams.Out(f"Cluster score improved from {Fixed(first, 8)} to {Fixed(steps[-1].score, 8)}")
    if options.verbosity >= 1:
        streams.Out(f"Solution length={len(steps)}")


def _PrintCommands(sets: Sequence[Sequence[Step]], writer: _Writer, options: Values, streams: Streams) -> None:
    if options.print_commands is None:
        return
    lines = solution.CommandLines([[(step, writer.Commands(step)) for step in jobs] for jobs in sets])
    if options.print_commands:
        streams.WriteFile(options.print_commands, solution.Script(lines))
        streams.Out(f"The commands have been written to file '{options.print_commands}'")
        return
    heading = "First set of jobs:" if options.first_job_group else "Commands to run to reach the above solution:"
    streams.Out("", heading, *(f"  {line}" for line in lines if line != "  check"))


def _Totals(title: str, state: State) -> str:
    nodes = state.Ordered()
    return f"{title} mem={sum(n.unallocated for n in nodes)} disk={sum(n.free_disk for n in nodes)}"
